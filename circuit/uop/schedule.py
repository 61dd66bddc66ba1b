"""Schedules: how the loops of a kernel run, without a change to what it computes.

A schedule is data, a tuple of steps that name ranges. Every step keeps the order of every fold, so it keeps the bytes:
loops of an END are independent of each other and may be split, reordered, unrolled and shared out to threads; a REDUCE
may be split, unrolled and carried outside of the loops around it, its places stay in ascending order. `apply` first
writes out the reduction orders (orders.py), so a step may name the ranges that this makes (`k.chunk`, `k`, `k.lane`). A
name means every range of that name, with or without apostrophes behind it: the copies that splitting and expanding
make.
"""

from collections.abc import Callable
from typing import assert_never

from msgspec import Struct

from circuit.errors import PlanError
from circuit.uop.build import end, group
from circuit.uop.carry import carry_folds
from circuit.uop.node import Axis, Const, DType, Loop, Op, UOp, bound_ranges, toposort
from circuit.uop.orders import Taken, expand_orders, own_name
from circuit.uop.orders import base_name as base_name
from circuit.uop.simplify import simplify_all
from circuit.uop.split import (
    block_end,
    block_reduce,
    deal_end,
    join_end,
    pad_end,
    refused,
    split_end,
    split_reduce,
    tile_end,
)
from circuit.uop.stage_factor import stage_factors


class Split(Struct, frozen=True, kw_only=True):
    """Range r becomes r (the outer part) and `inner`: place = r * factor + inner.

    In an END the last, shorter part is a copy of the loop: where the end is a constant only its range `inner` is left,
    with the remainder as its end; where the end is known at run time it is a plain loop named `r.tail`. In a REDUCE the
    end must be a constant, and it is split by the greatest common divisor of end and factor, so there is no remainder.
    """

    range: str
    factor: int
    inner: str


class Block(Struct, frozen=True, kw_only=True):
    """Range r becomes r and `inner`: place = r * factor + inner. The inner loop of the last block is shorter.

    So a loop whose end is known at run time has an inner loop whose largest number of turns is a constant.
    """

    range: str
    factor: int
    inner: str


class Tile(Struct, frozen=True, kw_only=True):
    """Range r of an END becomes r and `inner`: place = r * factor + inner, and past the end the last place again.

    So the inner loop always has `factor` turns. The END must not read what it stores: the last place may be stored more
    than once, always with the same value.
    """

    range: str
    factor: int
    inner: str


class Deal(Struct, frozen=True, kw_only=True):
    """Range r of an END becomes r, of `factor` hands, and `inner`, the turns: place = inner * factor + hand.

    The bits of the hand are reversed, so that threads that share out the hands get places all over the range: halves
    get every second place. `factor` is a power of 2.
    """

    range: str
    factor: int
    inner: str


class Pad(Struct, frozen=True, kw_only=True):
    """Range r of an END becomes r and `inner`: place = r * factor + inner, also where that is past the end.

    The END stores in local storage, where nothing may read past the end, and what it reads itself must be there.
    """

    range: str
    factor: int
    inner: str


class Reorder(Struct, frozen=True, kw_only=True):
    """The loops of an END that are named run in this order, the first outermost; the others keep their places."""

    ranges: tuple[str, ...]


class Join(Struct, frozen=True, kw_only=True):
    """Two loops of an END, the second right inside the first, become one that keeps the first's name.

    The inner loop's end must be a constant. What threads share are then pairs of places, one after the other.
    """

    outer: str
    inner: str


class Upcast(Struct, frozen=True, kw_only=True):
    """The range opens no loop. The last such range of an END is the lanes of vectors, all others are unrolled."""

    range: str


class Thread(Struct, frozen=True, kw_only=True):
    """The range is cut into one contiguous part a thread. Stores that are in no such loop are the first thread's."""

    range: str


class Stage(Struct, frozen=True, kw_only=True):
    """A factor of the folds over `fold` that does not change along the loop `across` is computed once, before that.

    It is kept in local storage, for one iteration of the loops outside `across`. The loop that stores it along a range
    k is named `k.fill`.
    """

    fold: str
    across: str


class Carry(Struct, frozen=True, kw_only=True):
    """The loop of the folds over `fold` runs outside of loop `across`: part after part of many totals.

    The totals are kept in local storage, for one iteration of the loops outside `across`. The loops that start and
    continue them have the names of the loops that read them, so later steps schedule all alike.
    """

    fold: str
    across: str


Cut = Split | Block | Tile | Deal | Pad
Step = Cut | Reorder | Join | Upcast | Thread | Stage | Carry
Schedule = tuple[Step, ...]


def apply(effects: tuple[UOp, ...], schedule: Schedule) -> tuple[UOp, ...]:
    """The kernel with its loops as the schedule says, simplified."""
    kernel = expand_orders(group(*effects))
    for step in schedule:
        match step:
            case Split() | Block() | Tile() | Deal() | Pad():
                kernel = _split(kernel, step)
            case Reorder():
                kernel = _reorder(kernel, step)
            case Join():
                kernel = _join(kernel, step)
            case Upcast(range=name):
                kernel = _with_axis(kernel, name, Axis.UPCAST, "upcast")
            case Thread(range=name):
                kernel = _with_axis(kernel, name, Axis.THREAD, "thread")
            case Stage():
                kernel = _stage(kernel, step)
            case Carry():
                kernel = _carry(kernel, step)
            case _:
                assert_never(step)
    return simplify_all(_parts(kernel))


def range_names(effects: tuple[UOp, ...]) -> tuple[str, ...]:
    """The names that a schedule of the kernel may use first, in order of appearance."""
    return _names(expand_orders(group(*effects)))


def _names(kernel: UOp) -> tuple[str, ...]:
    return tuple(dict.fromkeys(base_name(n) for n in toposort(kernel) if n.op is Op.RANGE))


def _split(kernel: UOp, step: Cut) -> UOp:
    if step.factor < 1:
        raise refused(f"range `{step.range}` is cut in parts of {step.factor}", "give 1 or more")
    if step.inner in _names(kernel):
        raise refused(f"there is a range `{step.inner}` already", f"give the inner part of `{step.range}` another name")
    taken = Taken(kernel)

    def rewrite(node: UOp, r: UOp) -> UOp:
        given = (node, r, step.factor, step.inner, taken)
        match step:
            case Split():
                return split_reduce(*given) if node.op is Op.REDUCE else split_end(*given)
            case Block() if node.op is Op.REDUCE:
                return block_reduce(*given)
            case _ if node.op is Op.REDUCE:
                raise refused(f"range `{step.range}` is of a reduce", "split it, or cut it in blocks")
            case Block():
                return block_end(*given)
            case Tile():
                return tile_end(*given)
            case Deal():
                return deal_end(*given)
            case Pad():
                return pad_end(*given, kernel)
        assert_never(step)

    return _rewrite(kernel, step.range, rewrite)


def _reorder(kernel: UOp, step: Reorder) -> UOp:
    names = _names(kernel)
    for name in step.ranges:
        if name not in names:
            raise _unknown(name, names)

    def rewrite(node: UOp) -> UOp:
        if node.op is not Op.END:
            return node
        named = {base_name(r): r for r in node.src[1:] if base_name(r) in step.ranges}
        if len(named) != len(step.ranges):
            return node
        moved = iter([named[name] for name in step.ranges])
        ranges = [next(moved) if base_name(r) in named else r for r in node.src[1:]]
        for place, r in enumerate(ranges):
            if not r.src[0].ranges.isdisjoint(ranges[place:]):
                raise refused(f"range `{base_name(r)}` ends where an inner range says", "keep it inside that range")
        done.append(node)
        return end(node.src[0], *ranges)

    done: list[UOp] = []
    kernel = rebuild(kernel, rewrite)
    if not done:
        raise refused(f"no loops are nested as {', '.join(step.ranges)}", "name ranges of one END")
    return kernel


def _join(kernel: UOp, step: Join) -> UOp:
    taken = Taken(kernel)

    def rewrite(node: UOp, outer: UOp) -> UOp:
        return join_end(node, outer, step.inner, taken) if node.op is Op.END else node

    joined = _rewrite(kernel, step.outer, rewrite)
    if joined is kernel:
        raise refused(f"no loop `{step.inner}` is right inside `{step.outer}`", "reorder them first")
    return joined


def _in_nests(kernel: UOp, step: Stage | Carry, change: Callable[[UOp, UOp, str, Taken], UOp]) -> UOp:
    """The kernel with every END over `across` changed as to its folds over `fold`."""
    names, taken = _names(kernel), Taken(kernel)
    if step.fold not in names:
        raise _unknown(step.fold, names)
    return _rewrite(
        kernel, step.across, lambda node, r: change(node, r, step.fold, taken) if node.op is Op.END else node
    )


def _carry(kernel: UOp, step: Carry) -> UOp:
    carried = _in_nests(kernel, step, carry_folds)
    if carried is kernel:
        raise refused(
            f"no fold over `{step.fold}` is inside of loop `{step.across}`", "name a loop over results of the fold"
        )
    return carried


def _stage(kernel: UOp, step: Stage) -> UOp:
    staged = _in_nests(kernel, step, stage_factors)
    if staged is kernel:
        raise refused(
            f"no fold over `{step.fold}` has a factor that is the same along `{step.across}`",
            "name a loop that is inside those that the factor depends on",
        )
    return staged


def _with_axis(kernel: UOp, name: str, axis: Axis, verb: str) -> UOp:
    found = [n for n in toposort(kernel) if n.op is Op.RANGE and base_name(n) == name]
    if not found:
        raise _unknown(name, _names(kernel))
    # storage after effects and a RANGE carries a value on; after a RANGE alone it is new in each iteration
    after = [n.src[1:] for n in toposort(kernel) if n.op is Op.AFTER]
    carried = {s for src in after if any(e.op is not Op.RANGE for e in src) for s in src if s.op is Op.RANGE}
    for r in found:
        if r in carried:
            raise refused(f"{verb} of range `{name}`: its iterations depend on each other", "leave it a loop")
        if axis is Axis.UPCAST and not isinstance(r.src[0].arg, Const):
            raise refused(f"{verb} of range `{name}`: its end is no constant", "split it first")
    reduced = {s for n in toposort(kernel) if n.op is Op.REDUCE for s in bound_ranges(n)}
    if axis is Axis.THREAD and any(r in reduced for r in found):
        raise refused(f"{verb} of range `{name}`: a reduce is over it", "share out a loop of an END")
    return rebuild(kernel, lambda n: UOp(Op.RANGE, n.src, Loop(own_name(n), axis)) if _is(n, name) else n)


def _is(node: UOp, name: str) -> bool:
    return node.op is Op.RANGE and base_name(node) == name


def _rewrite(kernel: UOp, name: str, rewrite: Callable[[UOp, UOp], UOp]) -> UOp:
    """The kernel with every END and REDUCE over a range of that name rewritten."""
    names = _names(kernel)
    if name not in names:
        raise _unknown(name, names)

    def visit(node: UOp) -> UOp:
        if node.op not in (Op.END, Op.REDUCE):
            return node
        over = [r for r in bound_ranges(node) if base_name(r) == name]
        assert len(over) <= 1, f"one loop has two ranges `{name}`"
        return rewrite(node, over[0]) if over else node

    return rebuild(kernel, visit)


def rebuild(root: UOp, visit: Callable[[UOp], UOp]) -> UOp:
    """The program with every node visited after its sources; groups of effects are joined."""
    new: dict[UOp, UOp] = {}
    for node in toposort(root):
        src = tuple(new[s] for s in node.src)
        if node.op in (Op.AFTER, Op.BARRIER, Op.STACK):
            src = tuple(part for s in src for part in _parts(s))
        new[node] = visit(node if src == node.src else UOp(node.op, src, node.arg))
    return new[root]


def _parts(node: UOp) -> tuple[UOp, ...]:
    """The effects of a group; any other node is its own part."""
    return node.src if node.op is Op.STACK and node.dtype is DType.VOID else (node,)


def _unknown(name: str, names: tuple[str, ...]) -> PlanError:
    return refused(f"the schedule names range `{name}`, the kernel has {', '.join(names)}", "name one of these")
