"""What proofs of one class need of its files, and which relations are asked for."""

from msgspec import Struct

from circuit.errors import PlanError, Problem
from circuit.load.families import Family, load_families
from circuit.load.hardware import HardwareClass, load_hardware
from circuit.load.inputs import Library
from circuit.load.rules import Rule, load_rules
from circuit.lower.lint import linted
from circuit.lower.proven import relations
from circuit.text import listed


class Class(Struct, frozen=True, kw_only=True):
    """What proofs of one class need of its files."""

    library: Library
    hardware: HardwareClass
    families: tuple[Family, ...]
    rules: tuple[Rule, ...]


def class_of(library: Library, name: str) -> Class:
    """The class, with its rules as they are: whether they are proven is what is asked."""
    hardware = load_hardware(library, name)
    families = load_families(library, hardware)
    rules = linted(load_rules(library, hardware, families))
    return Class(library=library, hardware=hardware, families=families, rules=rules)


def chosen(given: Class, names: tuple[str, ...]) -> tuple[Rule, ...]:
    """The relations that are asked for, all where none is named; a name that is no relation is a PlanError."""
    known = relations(given.rules)
    unknown = [name for name in names if name not in {rule.id for rule in known}]
    if unknown:
        message = f"class {given.hardware.name} has no relation {listed(f'`{name}`' for name in unknown)}"
        raise PlanError(Problem(message=message, fix=f"use one of: {listed(rule.id for rule in known)}"))
    return tuple(rule for rule in known if not names or rule.id in names)
