"""What fusing saves: the bytes and launches of each fused group beside those of its ops one by one.

Both are counted on definitions, as for the roofline, so that what is compared is what any kernels must do at least.
"""

from msgspec import Struct

from circuit.load.devices import Device
from circuit.lower.ir import Kernel
from circuit.plan.ir import Plan
from circuit.report.cost import Costs
from circuit.report.positions import Step
from circuit.report.roofline import ON_REQUEST, Work, steps_of


class Laxity(Struct, frozen=True, kw_only=True):
    """All groups of one rule and kernel in the first step of a work. Bytes and launches are of all of them together.

    `unfused_bytes` and `unfused_launches` are those of the same ops, each in a launch of its own. `saved_s`: what the
    saved bytes take on the device, and the saved launches where their cost is known; None without a device.
    """

    work: str
    rule: str
    kernel: str
    groups: int
    launches: int
    unfused_launches: int
    fused_bytes: int
    unfused_bytes: int
    saved_s: float | None


def laxity(
    fused: tuple[Plan, ...], unfused: tuple[Plan, ...], work: Work, device: Device | None, costs: Costs
) -> tuple[Laxity, ...]:
    """Of every rule that fuses, in the order of the plan. `unfused` are the plans with a launch for each op."""
    plan, step = next(steps_of(fused, work))
    single, _ = next(steps_of(unfused, work))
    alone = {member: single.kernels[launch.kernel] for launch in single.launches for member in launch.members}
    found: dict[tuple[str, str], list[tuple[int, int, int]]] = {}
    for launch in plan.launches:
        if len(launch.members) > 1 and launch.section not in ON_REQUEST:
            kernel = plan.kernels[launch.kernel]
            unfused_bytes = sum(_moved(alone[member], step, costs) for member in launch.members)
            own = (_moved(kernel, step, costs), unfused_bytes, len(launch.members))
            found.setdefault((launch.rule, kernel.name), []).append(own)
    made = []
    for (rule, kernel_name), groups in found.items():
        own, other, members = (sum(each) for each in zip(*groups, strict=True))
        made.append(
            Laxity(
                work=work.name,
                rule=rule,
                kernel=kernel_name,
                groups=len(groups),
                launches=len(groups),
                unfused_launches=members,
                fused_bytes=own,
                unfused_bytes=other,
                saved_s=None if device is None else _saved_s(other - own, members - len(groups), device),
            )
        )
    return tuple(made)


def _saved_s(n_bytes: int, launches: int, device: Device) -> float:
    launch_s = 0.0 if device.launch_s is None else device.launch_s.value
    return n_bytes / device.bandwidth.value + launches * launch_s


def _moved(kernel: Kernel, step: Step, costs: Costs) -> int:
    """Bytes of edges, weights and states that a kernel reads and writes in the step; of the step's arrays, none."""
    cost = costs.of(kernel, step)
    moved = zip(kernel.slots, cost.read, cost.written, strict=True)
    return sum(read + written for slot, read, written in moved if slot.kind != "step")
