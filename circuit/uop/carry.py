"""The schedule step Carry: a fold's loop moved outside of the loops around it, its totals kept in local storage.

In `y[r, j] = sum over c of chunk(r, j, c)` all of one result is computed before the next. Carry computes part c of all
results before part c + 1: `total[r, j]` starts from the identity, and chunk(r, j, c) joins it for each c in ascending
order. Every total meets the same values in the same order, so the bytes are the same.
"""

from msgspec.structs import replace

from circuit.uop.bounds import bounds
from circuit.uop.build import after, end, index, load, store
from circuit.uop.node import DType, Fold, Op, Param, UOp, bound_ranges, const, substitute, toposort
from circuit.uop.orders import Taken, base_name, join, own_name
from circuit.uop.scalar import LIMITS, identity
from circuit.uop.stage_factor import flat, in_scope


def carry_folds(nest: UOp, across: UOp, fold: str, taken: Taken) -> UOp:
    """An END over `across` with every fold over `fold` carried outside of it; the same END if it has none."""
    ranges = nest.src[1:]
    outside, inside = ranges[: ranges.index(across)], ranges[ranges.index(across) :]
    totals: dict[UOp, UOp] = {}
    for node in in_scope(nest.src[0]):
        if node.op is Op.REDUCE and [base_name(r) for r in bound_ranges(node)] == [fold]:
            axes = tuple(r for r in inside if r in node.ranges)
            if node.ranges <= nest.ranges | frozenset(ranges):
                totals[node] = _carried(node, outside, axes, taken)
    return end(substitute(nest.src[0], totals), *ranges) if totals else nest


def _carried(node: UOp, outside: tuple[UOp, ...], axes: tuple[UOp, ...], taken: Taken) -> UOp:
    """The total of a REDUCE, read after the loops that fold it. It starts again in each iteration of those outside."""
    assert isinstance(node.arg, Fold)
    sizes = [_most(r) for r in axes]
    size = 1
    for n in sizes:
        size *= n
    value, step = node.src
    room = after(taken.alloc(size, node.dtype, "total"), *outside)
    first, own = _copies(axes, taken), _copies(axes, taken)
    start = const(node.dtype, identity(node.arg.op, node.dtype))
    begun = after(room, end(store(index(room, flat(tuple(first.values()), sizes)), start), *first.values()), step)
    place = flat(tuple(own.values()), sizes)
    joined = join(node.arg.op, substitute(value, own), load(index(begun, place)))
    return load(index(after(room, end(store(index(room, place), joined), step, *own.values())), flat(axes, sizes)))


def _most(r: UOp) -> int:
    """How often a range runs at most, whatever its parameters are, where that is known.

    So the room of a block does not depend on how many rows a plan has, and kernels of different plans can be one.
    """
    free = {n: UOp(Op.PARAM, (), replace(n.arg, hi=None)) for n in toposort(r.src[0]) if isinstance(n.arg, Param)}
    end = bounds(substitute(r.src[0], free))[1]
    return end if end < LIMITS[DType.I32][1] // 2 else bounds(r)[1] + 1


def _copies(axes: tuple[UOp, ...], taken: Taken) -> dict[UOp, UOp]:
    """Loops like those given, for another nest."""
    new: dict[UOp, UOp] = {}
    for r in axes:
        new[r] = taken.loop(own_name(r), substitute(r.src[0], new))
    return new
