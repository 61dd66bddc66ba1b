"""`kernels/<class>/common/FUSIONS.toml` -> the lowering rules of a class: which ops one launch may compute."""

from typing import Literal

from msgspec import Struct

from circuit.load.families import Family
from circuit.load.hardware import HardwareClass
from circuit.load.inputs import Library, once

FILE = "FUSIONS.toml"


RuleValue = bool | int | float | str


Accepted = Literal["any"] | tuple[RuleValue, ...]
"""What a pattern element takes of one fact of a node: a list of values, or anything."""


class Element(Struct, frozen=True, kw_only=True):
    """One node of a pattern. `accepts` has every fact that it takes, sorted; a node with another fact does not fit.

    Facts: `role`; `reads`, `writes`: formats of the edges; `weight`, `bias`, `state`: storage formats; a `param.` each.
    `keep`: others may read what it writes. `sibling`: it reads what the first element reads, not what a member writes.
    """

    op: str
    accepts: tuple[tuple[str, Accepted], ...]
    keep: bool
    sibling: bool


class Rule(Struct, frozen=True, kw_only=True):
    """A lowering clause. `same` are facts that members of one op must share; `derive` says what weight projections read
    in place of their own. `lever` is the key of `when` that opts in to other numerics; `proof` names the test of equal
    bytes. A relation that is `opt_in` is off unless its setting says on; `used` is its setting in force."""

    id: str
    why: str
    pattern: tuple[Element, ...]
    same: tuple[str, ...]
    derive: Literal["concat"] | None
    modes: tuple[str, ...]
    rows: tuple[int, int]
    when: tuple[tuple[str, tuple[str, ...]], ...]
    lever: str | None
    family: str
    numerics: Literal["bit_identical", "reference", "differs"]
    proof: str | None
    opt_in: bool
    used: bool
    priority: int
    example: str
    file: str
    line: int | None


def load_rules(library: Library, hardware: HardwareClass, families: tuple[Family, ...]) -> tuple[Rule, ...]:
    """The rules of a class, highest priority first, then by id. Its own rule replaces an inherited one of its id."""

    def read() -> tuple[Rule, ...]:
        from circuit.load.rules_file import read_rules  # kept records need no reader

        return read_rules(library, hardware, families)

    return once(library, ("rules", hardware.lowered_by, families), read)


class Gate(Struct, frozen=True, kw_only=True):
    """A policy key in the `when` of a rule of some class, and what that rule says of the bytes."""

    key: str
    rule: str
    numerics: Literal["bit_identical", "reference", "differs"]
    file: str
    line: int | None


def load_gates(library: Library) -> tuple[Gate, ...]:
    """Every `when` of every class, by file and place: whose a key is must not depend on the class of a plan."""

    def read() -> tuple[Gate, ...]:
        from circuit.load.rules_file import read_gates  # kept records need no reader

        return read_gates(library)

    return once(library, "gates", read)
