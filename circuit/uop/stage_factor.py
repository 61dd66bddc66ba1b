"""The schedule step Stage: a factor of a fold that many rows share, computed once and kept in local storage.

In `y[r, j] = sum over k of w(j, k) * x[r, k]` the value w does not change along r. Where the loops are nested (out,
row, lane), it is decoded again for every tile of rows. Stage stores it, for one iteration of the loops outside `row`,
and the folds read it back: the same numbers, so the same bytes.
"""

from circuit.uop.build import after, end, index, load, store
from circuit.uop.node import Const, DType, Op, UOp, bound_ranges, const, substitute, toposort
from circuit.uop.orders import Taken, base_name

FILL = ".fill"
"""Ends the names of the loops that store a factor: `k.fill` fills what `k` reads."""


def stage_factors(nest: UOp, across: UOp, fold: str, taken: Taken) -> UOp:
    """An END over `across` with every factor staged that its folds over `fold` share along it; the same END if none."""
    ranges = nest.src[1:]
    outside = frozenset(ranges[: ranges.index(across)]) | nest.ranges
    inside = ranges[ranges.index(across) + 1 :]
    replace: dict[UOp, UOp] = {}
    for node in in_scope(nest.src[0]):
        if node.op is Op.REDUCE and base_name(bound_ranges(node)[-1]) == fold:
            own = bound_ranges(node)
            for value in node.src[: len(node.src) - len(own)]:
                if across not in value.ranges and not value.ranges.isdisjoint(own) and value not in replace:
                    around = [r for r in toposort(value) if r.op is Op.RANGE and r in value.ranges]
                    folds = [r for r in around if r not in (*outside, *inside, *own)]
                    axes = [*folds, *own, *(r for r in inside if r in value.ranges)]
                    if all(isinstance(r.src[0].arg, Const) for r in axes):
                        replace[value] = _stored(value, tuple(axes), taken)
    return end(substitute(nest.src[0], replace), *ranges) if replace else nest


def in_scope(effect: UOp) -> list[UOp]:
    """The nodes of an effect, without those of effects that only must come before: these have loops of their own."""
    found: dict[UOp, None] = {}
    stack = [effect]
    while stack:
        node = stack.pop()
        if node not in found:
            found[node] = None
            stack.extend(reversed(node.src[:1] if node.op is Op.AFTER else node.src))
    return list(found)


def _stored(value: UOp, axes: tuple[UOp, ...], taken: Taken) -> UOp:
    """The value read from local storage, which loops of their own fill before."""
    sizes = [r.src[0].arg.bits for r in axes if isinstance(r.src[0].arg, Const)]
    size = 1
    for n in sizes:
        size *= n
    room = taken.alloc(size, value.dtype, "factor")
    fresh = tuple(taken.loop(base_name(r) + FILL, n) for r, n in zip(axes, sizes, strict=True))
    filled = end(store(index(room, flat(fresh, sizes)), substitute(value, dict(zip(axes, fresh, strict=True)))), *fresh)
    return load(index(after(room, filled), flat(axes, sizes)))


def flat(places: tuple[UOp, ...], sizes: list[int]) -> UOp:
    """The row-major place."""
    at: UOp = const(DType.I32, 0)
    for place, size in zip(places, sizes, strict=True):
        at = at * size + place
    return at
