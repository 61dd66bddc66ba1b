"""Room in the arena: buffers that are alive together never share a byte; first fit, in order of first use."""

from msgspec import Struct

ALIGN_BYTES = 64


class Span(Struct, frozen=True, kw_only=True):
    """What must have room: alive from launch `first` to launch `last`, both inclusive."""

    n_bytes: int
    first: int
    last: int


def place(spans: tuple[Span, ...]) -> tuple[tuple[int, ...], int]:
    """An offset for each span, a multiple of 64, and the bytes that all of them take."""
    offsets = [0] * len(spans)
    order = sorted(range(len(spans)), key=lambda i: (spans[i].first, -spans[i].n_bytes, i))
    alive: list[tuple[int, int, int]] = []  # offset, end, last launch; sorted by offset
    total = 0
    for i in order:
        span = spans[i]
        alive = [taken for taken in alive if taken[2] >= span.first]
        size = -(-span.n_bytes // ALIGN_BYTES) * ALIGN_BYTES
        at = 0
        for start, end, _ in alive:
            if at + size <= start:
                break
            at = max(at, end)
        offsets[i] = at
        alive.append((at, at + size, span.last))
        alive.sort()
        total = max(total, at + size)
    return tuple(offsets), total
