"""Where a step needs a barrier: between launches of which one writes what the other touches.

Threads share a launch out by themselves, so two launches that touch the same bytes, one of them writing, are ordered
by a barrier. Launches that only read common bytes, or touch different ones, follow each other freely, up to as many
loops as the runtime can tell apart.
"""

from msgspec import Struct

from circuit.emit.runtime import LOOPS
from circuit.lower.ir import Kernel
from circuit.plan.ir import BufferAt, Launch, Plan, StateAt, StepInput, WeightAt
from circuit.render.c import MOST_LOOPS
from circuit.uop.node import Op, Param, UOp, toposort


class Touch(Struct, frozen=True, kw_only=True):
    """Bytes `first` up to `end` of the arena, or of state `space`; `writes` tells whether the launch stores there."""

    space: str
    first: int
    end: int
    writes: bool


def barriers_before(plan: Plan) -> tuple[bool, ...]:
    """For each launch, whether all threads must meet before it. At the end of a step they all meet anyway.

    A section other than main runs only on request, so where the section changes, the threads meet.
    """
    written = tuple(written_slots(kernel) for kernel in plan.kernels)
    needed: list[bool] = []
    pending: list[Touch] = []
    section, free = "main", 0
    for launch in plan.launches:
        touches = _touches(plan, launch, written[launch.kernel])
        needs = launch.section != section or any(_conflict(a, b) for a in pending for b in touches)
        needs = needs or free * MOST_LOOPS == LOOPS
        pending, free = (touches, 1) if needs else (pending + touches, free + 1)
        section = launch.section
        needed.append(needs)
    return tuple(needed)


def written_slots(kernel: Kernel) -> frozenset[int]:
    """The slots that the kernel stores to."""
    slots = set()
    for node in toposort(*kernel.effects):
        if node.op is Op.STORE:
            base = _base(node.src[0])
            if isinstance(base.arg, Param):
                slots.add(base.arg.slot)
    return frozenset(slots)


def _base(place: UOp) -> UOp:
    while place.op not in (Op.PARAM, Op.BUFFER, Op.ALLOC):
        place = place.src[0]
    return place


def _touches(plan: Plan, launch: Launch, written: frozenset[int]) -> list[Touch]:
    touches = []
    for slot, target in zip(plan.kernels[launch.kernel].slots, launch.targets, strict=True):
        writes = slot.slot in written
        match target:
            case BufferAt(buffer=place):
                buffer = plan.buffers[place]
                end = buffer.offset_bytes + buffer.n_bytes
                touches.append(Touch(space="arena", first=buffer.offset_bytes, end=end, writes=writes))
            case StateAt(state=place):
                touches.append(Touch(space=f"state {place}", first=0, end=1, writes=writes))
            case WeightAt() | StepInput():
                assert not writes, f"{plan.kernels[launch.kernel].name} stores to slot {slot.slot}, a {slot.kind}"
    return touches


def _conflict(a: Touch, b: Touch) -> bool:
    return (a.writes or b.writes) and a.space == b.space and a.first < b.end and b.first < a.end
