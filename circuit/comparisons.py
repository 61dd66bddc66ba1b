"""What is asked of several compilations at once: whose kernels are whose, and in what plans differ."""

from circuit.load.devices import Device
from circuit.load.evidence import load_evidence
from circuit.load.families import load_families
from circuit.load.hardware import HardwareClass, load_hardware
from circuit.load.inputs import CheckpointTexts, Library
from circuit.load.rules import load_rules
from circuit.pipeline import Compiled, Goal, compiled
from circuit.report.computed import Computed, computed
from circuit.report.venn import Measured, Side, Venn, venn


def venned(
    checkpoints: tuple[CheckpointTexts, ...], library: Library, goals: tuple[Goal, ...], device: Device | None
) -> Venn:
    """The kernels of the first checkpoint beside those of the others; the goals are of one class."""
    hardware = load_hardware(library, goals[0].hardware_class)
    sides = []
    for checkpoint, goal in zip(checkpoints, goals, strict=True):
        made = compiled(checkpoint, library, goal)
        sides.append(
            Side(
                model_type=made.mapped.ledger.model_type,
                tir=made.groups.tir,
                plans=made.plans,
                computed=computed_of(made),
            )
        )
    about = (hardware.name, hardware.language, is_rendered(hardware))
    return venn(tuple(sides), measured_on(library, hardware), device, about)


def computed_of(made: Compiled) -> tuple[tuple[Computed, ...], ...]:
    """What each plan computes."""
    pairs = zip(made.groups.sets, made.plans, strict=True)
    return tuple(computed(made.groups.tir, each.groups, plan) for each, plan in pairs)


def measured_on(library: Library, hardware: HardwareClass) -> Measured:
    """The rules of a class and the evidence for them."""
    rules = load_rules(library, hardware, load_families(library, hardware))
    return Measured(rules=rules, records=load_evidence(library, hardware))


def is_rendered(hardware: HardwareClass) -> bool:
    """Whether the class's language is."""
    return hardware.proven_by == hardware.name
