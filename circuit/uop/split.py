"""Loops cut in two: the schedule steps Split, Block, Deal, Tile and Pad on one END or REDUCE; and Join, two made one.

They differ in what they make of a last, shorter part. Split gives it a loop of its own; Block and Deal let the inner
loop end where a part says; Tile fills it up with the last place and Pad with what nothing reads, so that all parts have
one size and one program.
"""

import math

from circuit.errors import PlanError, Problem
from circuit.uop.build import end, group, i32, where
from circuit.uop.node import Const, Loop, Op, Space, UOp, bound_ranges, substitute, toposort
from circuit.uop.orders import Taken, base_name, local_room, own_name
from circuit.uop.stage_factor import in_scope
from circuit.uop.within import within


def refused(message: str, fix: str) -> PlanError:
    """A step that cannot be."""
    return PlanError(Problem(message=message, fix=fix))


def split_reduce(node: UOp, r: UOp, factor: int, inner: str, taken: Taken) -> UOp:
    """A REDUCE over place = outer * f + inner, f the greatest common divisor of `factor` and the end."""
    size = r.src[0]
    if not isinstance(size.arg, Const):
        raise refused(
            f"range `{base_name(r)}` of a reduce is split, but its end is no constant",
            "cut it in blocks, or leave it whole",
        )
    factor = math.gcd(size.arg.bits, factor)
    taken.free(own_name(r))
    outer, small = taken.loop(own_name(r), size.arg.bits // factor), taken.loop(inner, factor)
    n = len(node.src) - len(bound_ranges(node))
    values = tuple(substitute(v, {r: outer * factor + small}) for v in node.src[:n])
    ranges = [s for x in node.src[n:] for s in ((outer, small) if x is r else (x,))]
    return UOp(Op.REDUCE, (*values, *ranges), node.arg)


def split_end(node: UOp, r: UOp, factor: int, inner: str, taken: Taken) -> UOp:
    """An END over place = outer * factor + inner; what is left over is a copy of it."""
    size = r.src[0]
    constant = size.arg.bits if isinstance(size.arg, Const) else None
    if factor == 1:
        small = taken.loop(inner, 1)
        return _moved(node, r, r + small, (r, small))
    whole = i32(constant // factor) if constant is not None else size // factor
    parts: list[UOp] = []
    if constant is None or constant >= factor:
        outer, small = _loops(r, whole, factor, inner, taken)
        parts.append(_moved(node, r, outer * factor + small, (outer, small)))
    if constant is None:
        rest = taken.loop(f"{base_name(r)}.tail", size % factor)
        parts.append(_moved(_copy(node, r, taken), r, whole * factor + rest, (rest,)))
    elif constant % factor:
        rest = taken.loop(inner, constant % factor)
        parts.append(_moved(_copy(node, r, taken) if parts else node, r, whole * factor + rest, (rest,)))
    return group(*parts)


def block_end(node: UOp, r: UOp, factor: int, inner: str, taken: Taken) -> UOp:
    """An END over place = outer * factor + inner, where the inner loop of the last block may be shorter."""
    return _moved(node, r, *_blocks(r, factor, inner, taken))


def block_reduce(node: UOp, r: UOp, factor: int, inner: str, taken: Taken) -> UOp:
    """A REDUCE over place = outer * factor + inner, where the inner loop of the last block may be shorter."""
    place, ranges = _blocks(r, factor, inner, taken)
    n = len(node.src) - len(bound_ranges(node))
    values = tuple(substitute(v, {r: place}) for v in node.src[:n])
    return UOp(Op.REDUCE, (*values, *(s for x in node.src[n:] for s in (ranges if x is r else (x,)))), node.arg)


def tile_end(node: UOp, r: UOp, factor: int, inner: str, taken: Taken) -> UOp:
    """An END over place = outer * factor + inner, or the last place where that is past the end.

    The last place is then stored more than once, which must not matter: an END that reads what it stores is refused.
    """
    size = r.src[0]
    exact = isinstance(size.arg, Const) and size.arg.bits % factor == 0
    if not exact and _reads_own(node.src[0]):
        raise refused(
            f"range `{base_name(r)}` is tiled, but what it stores is read there",
            "split it, so that no place is stored twice",
        )
    outer, small = _loops(r, (size + (factor - 1)) // factor, factor, inner, taken)
    place = outer * factor + small
    return _moved(node, r, place if exact else where(place < size, place, size - 1), (outer, small))


def deal_end(node: UOp, r: UOp, factor: int, inner: str, taken: Taken) -> UOp:
    """An END over place = inner * factor + b, where b is outer with its bits reversed."""
    bits = factor.bit_length() - 1
    if factor != 1 << bits:
        raise refused(f"range `{base_name(r)}` is dealt to {factor} hands", "give a power of 2")
    taken.free(own_name(r))
    outer = taken.loop(own_name(r), factor)
    first: UOp = i32(0)
    for bit in range(bits):
        first = first + outer // (1 << bit) % 2 * (factor >> (bit + 1))
    turn = taken.loop(inner, (r.src[0] - first + (factor - 1)) // factor)
    return _moved(node, r, turn * factor + first, (outer, turn))


def pad_end(node: UOp, r: UOp, factor: int, inner: str, taken: Taken, kernel: UOp) -> UOp:
    """An END over place = outer * factor + inner, also where that is past the end: `kernel` does not read it there.

    It must store at its place in local storage, which has room for more, and what it reads past the end must be there.
    """
    size = r.src[0]
    outer, small = _loops(r, (size + (factor - 1)) // factor, factor, inner, taken)
    padded = _moved(node, r, outer * factor + small, (outer, small))
    stored = [n.src[0] for n in in_scope(node.src[0]) if n.op is Op.STORE]
    rooms = {_base(place) for place in stored if place.space is Space.LOCAL and place.src[1] is r}
    read = [n.src[0] for n in toposort(kernel) if n.op is Op.LOAD and _base(n.src[0]) in rooms]
    inside = all(within(place.src[1] - size, -(2**31), -1) for place in read)
    moved = [n for n in in_scope(padded.src[0]) if n.op is Op.INDEX and not n.ranges.isdisjoint((outer, small))]
    there = all(within(n.src[1], 0, n.src[0].shape[0] - 1) for n in moved)
    if len(rooms) < len(stored) or not inside or not there:
        raise refused(
            f"range `{base_name(r)}` is padded, but what is past its end is not there, or is read",
            "split it, or tile it",
        )
    return padded


def _blocks(r: UOp, factor: int, inner: str, taken: Taken) -> tuple[UOp, tuple[UOp, UOp]]:
    """The place, and the two loops, of which the inner one ends where the last block says."""
    size = r.src[0]
    taken.free(own_name(r))
    outer = taken.loop(own_name(r), (size + (factor - 1)) // factor)
    rest = size - outer * factor
    small = taken.loop(inner, where(rest < factor + 1, rest, factor))  # as it stands, its bounds are seen
    return outer * factor + small, (outer, small)


def _loops(r: UOp, count: UOp, factor: int, inner: str, taken: Taken) -> tuple[UOp, UOp]:
    taken.free(own_name(r))
    return taken.loop(own_name(r), count), taken.loop(inner, factor)


def _reads_own(effect: UOp) -> bool:
    """Whether storage that all threads see is both stored and read, not counting what earlier effects store."""
    below = in_scope(effect)
    stored = {_base(n.src[0]) for n in below if n.op is Op.STORE and n.src[0].space is Space.GLOBAL}
    return any(n.op is Op.LOAD and _base(n.src[0]) in stored for n in below)


def _base(place: UOp) -> UOp:
    while place.op in (Op.INDEX, Op.AFTER):
        place = place.src[0]
    return place


def join_end(node: UOp, outer: UOp, inner: str, taken: Taken) -> UOp:
    """An END with loop `inner` right inside `outer` as one loop over both; any other END as it is."""
    ranges = bound_ranges(node)
    at = ranges.index(outer) + 1
    if at == len(ranges) or base_name(ranges[at]) != inner:
        return node
    size = ranges[at].src[0]
    if not isinstance(size.arg, Const):
        raise refused(f"range `{inner}` is joined, but its end is no constant", "join loops of constant ends")
    taken.free(own_name(outer))
    both = taken.loop(own_name(outer), outer.src[0] * size)
    places = {outer: both // size, ranges[at]: both % size}
    rest = (substitute(r, places) for r in ranges[at + 1 :])
    return end(substitute(node.src[0], places), *ranges[: at - 1], both, *rest)


def _moved(node: UOp, r: UOp, place: UOp, ranges: tuple[UOp, ...]) -> UOp:
    """An END whose range r is replaced by other ranges, r itself by a place in them."""
    others = [s for x in node.src[1:] for s in (ranges if x is r else (substitute(x, {r: place}),))]
    return end(substitute(node.src[0], {r: place}), *others)


def _copy(node: UOp, r: UOp, taken: Taken) -> UOp:
    """The END with ranges of its own, r excepted, and with local storage of its own for what depends on them."""
    below, own = toposort(node), frozenset(node.src[1:])
    rooms = dict.fromkeys(local_room(n) for n in below if n.op is Op.AFTER and not own.isdisjoint(n.ranges))
    new = {room: taken.alloc_like(room) for room in rooms if room is not None}
    changed = {node, *own, *new}
    for n in below:
        if not changed.isdisjoint(n.src):
            changed.add(n)
    closers = [n for n in below if n.op in (Op.END, Op.REDUCE) and n in changed]
    mine = {s for c in closers for s in bound_ranges(c)} - {r}
    for n in below:
        if n not in new:
            src = tuple(new[s] for s in n.src)
            new[n] = n if src == n.src else UOp(n.op, src, n.arg)
            if n in mine:
                assert isinstance(n.arg, Loop)
                new[n] = taken.loop(n.arg.name, src[0], n.arg.axis)
    return new[node]
