"""What is asked of several compilations at once: whose kernels are whose, and in what plans differ."""

from circuit.load.devices import Device
from circuit.load.evidence import load_evidence
from circuit.load.families import load_families
from circuit.load.hardware import load_hardware
from circuit.load.inputs import CheckpointTexts, Library
from circuit.load.rules import load_rules
from circuit.pipeline import Goal, compiled
from circuit.report.computed import computed
from circuit.report.plan_diff import PlanDiff, plan_diff
from circuit.report.sides import Side
from circuit.report.venn import Venn, venn

Asked = tuple[CheckpointTexts, Goal]
"""One side: a model, and what it is compiled for."""


def venned(asked: tuple[Asked, ...], library: Library, device: Device | None) -> Venn:
    """The kernels of the first side beside those of the others, all of one class."""
    sides = tuple(side_of(each, library) for each in asked)
    return venn(sides, load_evidence(library, sides[0].hardware), device)


def plans_compared(one: Asked, other: Asked, library: Library) -> PlanDiff:
    """In what the plans of two sides differ."""
    return plan_diff(side_of(one, library), side_of(other, library))


def side_of(asked: Asked, library: Library) -> Side:
    """The plans of a side, and what each of them computes."""
    checkpoint, goal = asked
    made, hardware = compiled(checkpoint, library, goal), load_hardware(library, goal.hardware_class)
    pairs = zip(made.groups.sets, made.plans, strict=True)
    families = load_families(library, hardware)
    return Side(
        model_type=made.mapped.ledger.model_type,
        tir=made.groups.tir,
        run=made.mapped.facts.run,
        hardware=hardware,
        rules=load_rules(library, hardware, families),
        families=families,
        which=goal.rules,
        plans=made.plans,
        computed=tuple(computed(made.groups.tir, each.groups, plan) for each, plan in pairs),
    )
