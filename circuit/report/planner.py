"""What somebody needs who must decide on a device: how fast a model can be at best, what fits, and what is missing.

From a plan set without schedules: nothing here depends on how fast a kernel was written.
"""

from msgspec import Struct
from msgspec.structs import replace

from circuit.errors import PlanError
from circuit.load.devices import Device
from circuit.load.engines import Engine
from circuit.load.hardware import HardwareClass, is_rendered
from circuit.load.instructions import Instruction
from circuit.plan.ir import Plan
from circuit.report.audit import Audit
from circuit.report.cost import Costs
from circuit.report.fit import AskedFit, Fit, fit
from circuit.report.memory import Memory, memory
from circuit.report.ports import Port, ports
from circuit.report.roofline import FIRST_PREFILL, PORTABLE, WORKS, Roofline, Work, roofline
from circuit.report.said import Input
from circuit.report.units import Ran, ran


class Planner(Struct, frozen=True, kw_only=True):
    """The report of one model on one device. `left_out` are works that the model or the class cannot do, with why.

    `rendered`: whether the class's language is; `bytes_digest` is the part digest `bytes`, the same for all plans.
    `ports` are of the works of which `port_works` are the names.
    """

    arch: str
    model_type: str
    device: Device
    language: str
    rendered: bool
    policy: tuple[tuple[str, str], ...]
    bytes_digest: str
    inputs: tuple[Input, ...]
    memory: Memory
    rooflines: tuple[Roofline, ...]
    left_out: tuple[tuple[Work, str], ...]
    ran: tuple[Ran, ...]
    audit: Audit
    port_works: tuple[str, ...]
    ports: tuple[Port, ...]
    fit: Fit


def planner(
    plans: tuple[Plan, ...],
    panel: int,
    model_type: str,
    hardware: HardwareClass,
    device: Device,
    engines: tuple[Engine, ...],
    *,
    given: tuple[Input, ...],
    audited: Audit,
    instructions: tuple[Instruction, ...],
    reserved: int = 0,
    asked: AskedFit | None = None,
    costs: Costs,
) -> Planner:
    """The report. `given` is what the plans were made from; `reserved`: bytes of the device's memory that are not for
    the plan. What is `asked` for is a work too. `costs` are those of reports on the same plans.
    """
    held = memory(plans, panel)
    made: list[Roofline] = []
    left_out: list[tuple[Work, str]] = []
    for work in (*WORKS, *([] if asked is None else [_asked_work(asked)])):
        if work.mode == "decode" or work is FIRST_PREFILL:
            work = replace(work, context=min(work.context, plans[0].context))
        try:
            made.append(roofline(plans, device, work, PORTABLE, costs=costs))
        except PlanError as error:
            left_out.append((work, error.problems[0].message))
    firsts = [next((roof for roof in made if roof.work.mode == mode), None) for mode in ("decode", "prefill")]
    works = tuple(roof for roof in firsts if roof is not None)
    return Planner(
        arch=plans[0].arch,
        model_type=model_type,
        device=device,
        language=hardware.language,
        rendered=is_rendered(hardware),
        policy=plans[0].policy,
        bytes_digest=dict(plans[0].parts)["bytes"],
        inputs=given,
        memory=held,
        rooflines=tuple(made),
        left_out=tuple(left_out),
        ran=ran(plans, device, hardware),
        audit=audited,
        port_works=tuple(roof.work.name for roof in works),
        ports=ports(works, audited, instructions),
        fit=fit(held, int(device.memory_bytes.value), engines, reserved),
    )


def _asked_work(asked: AskedFit) -> Work:
    """Decode of so many sequences of such a length."""
    return Work(name="asked", mode="decode", sequences=asked.sequences or 1, context=asked.context or WORKS[0].context)
