"""Reports on one model: what it takes on a device, at which precision it computes, how it is drawn.

Each is imported where it is made: nobody waits for another's.
"""

from typing import TYPE_CHECKING

from circuit.compiled import COMPILED, Compiled, Goal, policy_of
from circuit.errors import PolicyError
from circuit.load.devices import Device
from circuit.load.families import load_families, panel_of
from circuit.load.hardware import is_rendered, load_hardware
from circuit.load.inputs import CheckpointTexts, Library, once
from circuit.load.instructions import load_instructions
from circuit.load.policy import load_policy
from circuit.load.proofs import proving_class

if TYPE_CHECKING:
    from circuit.report.display.build import Shown
    from circuit.report.display.record import Display
    from circuit.report.fit import AskedFit
    from circuit.report.planner import Planner
    from circuit.report.precision import Precision


def compiled_once(checkpoint: CheckpointTexts, library: Library, goal: Goal) -> Compiled:
    """The results of all stages, for reports: what one of them had compiled is kept for the next."""

    def make() -> Compiled:
        from circuit.pipeline import compiled

        return compiled(checkpoint, library, goal)

    assert not goal.scheduled, "kernels to be rendered are kept where they are built"
    return once(library, (COMPILED, checkpoint, goal), make)


def assessed(
    checkpoint: CheckpointTexts,
    library: Library,
    goal: Goal,
    device: Device,
    reserved: int = 0,
    asked: "AskedFit | None" = None,
) -> "Planner":
    """The planner's report of a model on a device of the goal's class; `reserved` bytes are not for the plan. What is
    `asked` for and does not fit is a PlanError."""
    from circuit.report.fit import check_asked

    made = compiled_once(checkpoint, library, goal)
    (report,) = assessed_on(made, library, goal, (device,), reserved, asked)
    if asked is not None:
        stated = next(each for each in made.mapped.ledger.entries if "context" in each.became)
        check_asked(report.memory, device, reserved, asked, (stated.file, stated.line))
    return report


def assessed_on(
    made: Compiled,
    library: Library,
    goal: Goal,
    devices: tuple[Device, ...],
    reserved: int = 0,
    asked: "AskedFit | None" = None,
) -> "tuple[Planner, ...]":
    """The planner's reports of a model on several devices of one class: its plans are the same."""
    from circuit.load.engines import load_engines
    from circuit.report.audit import audit_of_groups
    from circuit.report.cost import Costs
    from circuit.report.planner import planner
    from circuit.report.said import inputs, relations_of

    hardware = load_hardware(library, goal.hardware_class)
    panel = panel_of(load_families(library, hardware))
    policy, default = policy_of(library, goal), load_policy(library)
    given = (
        *inputs(made.mapped.ledger, policy, default, "recipes/default.toml"),
        relations_of(hardware, proving_class(library, hardware)),
    )
    found, costs = load_engines(library), Costs()
    judged, instructions = audit_of_groups(made.groups, library, goal), load_instructions(library)
    return tuple(
        planner(
            made.plans,
            panel,
            made.mapped.ledger.model_type,
            hardware,
            device,
            found,
            given=given,
            audited=judged,
            instructions=instructions,
            reserved=reserved,
            asked=asked,
            costs=costs,
        )
        for device in devices
    )


def precisions(checkpoint: CheckpointTexts, library: Library, goal: Goal, device: Device) -> "Precision":
    """The precision of every step of a model's plans; one that a kernel does not keep is a PolicyError."""
    from circuit.report.precision import Precision, differences, paths, sites
    from circuit.report.said import declared

    made = compiled_once(checkpoint, library, goal)
    hardware, policy, ledger = load_hardware(library, goal.hardware_class), policy_of(library, goal), made.mapped.ledger
    found = sites(made.bound.tir, made.plans, hardware)
    if broken := differences(found):
        raise PolicyError(broken)
    return Precision(
        arch=ledger.arch,
        model_type=ledger.model_type,
        device=device.name,
        hardware_class=hardware.name,
        language=hardware.language,
        rendered=is_rendered(hardware),
        policy=policy.entries,
        declared=declared(ledger, policy),
        paths=paths(made.bound.tir, load_instructions(library), hardware),
        sites=found,
    )


def displayed(
    checkpoint: CheckpointTexts, library: Library, goal: Goal, device: Device | None, name: str, shown: "Shown"
) -> "Display":
    """What is shown of a model, which its user calls `name`, on the goal's class, or on a device of it."""
    return displayed_on(compiled_once(checkpoint, library, goal), library, goal, device, name, shown)


def displayed_on(
    made: Compiled, library: Library, goal: Goal, device: Device | None, name: str, shown: "Shown"
) -> "Display":
    """The same of a model that is compiled already."""
    from circuit.report.display.build import display

    hardware = load_hardware(library, goal.hardware_class)
    return display(
        made.bound.tir,
        tuple((each, grouped.groups) for each, grouped in zip(made.plans, made.groups.sets, strict=True)),
        panel_of(load_families(library, hardware)),
        (name, made.mapped.ledger.model_type),
        hardware,
        device,
        shown,
    )
