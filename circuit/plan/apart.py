"""A plan whose buffers share no room, so that after a step every edge still has its value."""

from msgspec.structs import replace

from circuit.plan.arena import ALIGN_BYTES
from circuit.plan.ir import Plan


def apart(plan: Plan) -> Plan:
    """The same launches of the same kernels; only the addresses of buffers, and the arena's size, are others."""
    buffers = []
    at = 0
    for buffer in plan.buffers:
        buffers.append(replace(buffer, offset_bytes=at))
        at += -(-buffer.n_bytes // ALIGN_BYTES) * ALIGN_BYTES
    return replace(plan, buffers=tuple(buffers), arena_bytes=at)
