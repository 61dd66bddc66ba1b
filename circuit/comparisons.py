"""What is asked of several compilations at once: whose kernels are whose, in what plans differ, what fusing saves.

Each is imported where it is made, as reports on one model are.
"""

from typing import TYPE_CHECKING

from msgspec.structs import replace

from circuit.compiled import Compiled, Goal
from circuit.load.devices import Device
from circuit.load.evidence import load_evidence
from circuit.load.families import load_families
from circuit.load.hardware import HardwareClass, load_hardware
from circuit.load.inputs import CheckpointTexts, Library
from circuit.load.named_plan import NamedLaunch, NamedPlan
from circuit.load.rules import load_rules
from circuit.load.settings import is_setting
from circuit.plan.shared import wired_by
from circuit.report.computed import computed
from circuit.report.sides import Side
from circuit.reports import compiled_once

if TYPE_CHECKING:
    from circuit.report.lkb import Base, Lkb
    from circuit.report.plan_diff import PlanDiff
    from circuit.report.venn import Venn

Asked = tuple[CheckpointTexts, Goal]
"""One side: a model, and what it is compiled for."""


def venned(asked: tuple[Asked, ...], library: Library, device: Device | None) -> "Venn":
    """The kernels of the first side beside those of the others, all of one class."""
    from circuit.report.venn import venn

    sides = tuple(side_of(each, library) for each in asked)
    return venn(sides, load_evidence(library, sides[0].hardware), device)


def plans_compared(one: Asked, other: Asked, library: Library, other_library: Library | None = None) -> "PlanDiff":
    """In what the plans of two sides differ; the other side can be of another version of the library."""
    from circuit.report.plan_diff import plan_diff

    return plan_diff(side_of(one, library), side_of(other, other_library or library))


def kernel_base(asked: Asked, library: Library, device: Device | None) -> "Lkb":
    """What of the class's kernels a model uses, beside the same model with a launch for each op."""
    from circuit.pipeline import planned_by
    from circuit.report.lkb import lkb

    checkpoint, goal = asked
    made = compiled_once(checkpoint, library, goal)
    side = _side(made, library, goal)
    choices = tuple(choice for choice in goal.choices if not is_setting(choice))
    unfused = planned_by(made, library, replace(goal, choices=choices, rules="reference"))
    return lkb(side, unfused, _base(library, side.hardware), device)


def _base(library: Library, hardware: HardwareClass) -> "Base":
    """What the library has for a class besides its rules and families."""
    from circuit.report.lkb import Base

    parents = [name for name in hardware.lowered_by if name != hardware.name]
    folders = tuple(f"kernels/{name}/" for name in hardware.chain)
    return Base(
        records=load_evidence(library, hardware),
        inherited=load_families(library, load_hardware(library, parents[0])) if parents else (),
        sources=tuple(s for s in library.files if not s.path.endswith(".toml") and s.path.startswith(folders)),
    )


def named_plans(asked: Asked, library: Library) -> tuple[NamedPlan, ...]:
    """The plans of a model as far as names go."""
    checkpoint, goal = asked
    return tuple(
        NamedPlan(
            arch=plan.arch,
            hardware_class=plan.hardware_class,
            mode=plan.mode,
            rows=plan.rows,
            launches=tuple(
                NamedLaunch(kernel=plan.kernels[each.kernel].name, members=each.members, section=each.section)
                for each in plan.launches
            ),
        )
        for plan in compiled_once(checkpoint, library, goal).plans
    )


def side_of(asked: Asked, library: Library) -> Side:
    """The plans of a side, and what each of them computes."""
    checkpoint, goal = asked
    return _side(compiled_once(checkpoint, library, goal), library, goal)


def _side(made: Compiled, library: Library, goal: Goal) -> Side:
    hardware, tir = load_hardware(library, goal.hardware_class), made.groups.tir
    pairs = zip((each.groups for each in made.groups.sets), made.plans, strict=True)
    families = load_families(library, hardware)
    return Side(
        model_type=made.mapped.ledger.model_type,
        tir=tir,
        run=made.mapped.facts.run,
        hardware=hardware,
        rules=load_rules(library, hardware, families),
        families=families,
        which=goal.rules,
        plans=made.plans,
        computed=tuple(computed(tir, groups, wired_by(tir, groups, made.shared).wires, plan) for groups, plan in pairs),
    )
