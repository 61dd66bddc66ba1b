"""Schedules: how the loops of a kernel run, without a change to what it computes.

A schedule is data, a tuple of steps that name ranges. Every step keeps the order of every fold, so it keeps the bytes:
loops of an END are independent of each other and may be split, reordered, unrolled and shared out to threads; a REDUCE
may be split and unrolled, its places stay in ascending order. `apply` first writes out the reduction orders
(orders.py), so a step may name the ranges that this makes (`k.chunk`, `k`, `k.lane`). A name means every range of that
name, with or without apostrophes behind it: the copies that splitting and expanding make.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never

from circuit.errors import PlanError, Problem
from circuit.uop.build import end, group, i32
from circuit.uop.node import Axis, Const, DType, Loop, Op, UOp, bound_ranges, substitute, toposort
from circuit.uop.orders import Taken, expand_orders, local_room, own_name
from circuit.uop.orders import base_name as base_name
from circuit.uop.simplify import simplify_all
from circuit.uop.stage_factor import stage_factors


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Range r becomes r (the outer part) and `inner`: place = r * factor + inner.

    In an END the last, shorter part is a copy of the loop: where the end is a constant only its range `inner` is left,
    with the remainder as its end; where the end is known at run time it is a plain loop named `r.tail`. In a REDUCE the
    end must be a constant, and it is split by the greatest common divisor of end and factor, so there is no remainder.
    """

    range: str
    factor: int
    inner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reorder:
    """The loops of an END that are named run in this order, the first outermost; the others keep their places."""

    ranges: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Upcast:
    """The range opens no loop. The last such range of an END is the lanes of vectors, all others are unrolled."""

    range: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """The range is cut into one contiguous part a thread. Stores that are in no such loop are the first thread's."""

    range: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A factor of the folds over `fold` that does not change along the loop `across` is computed once, before that.

    It is kept in local storage, for one iteration of the loops outside `across`. The loops that store it have the names
    of the loops that read it, so later steps schedule both.
    """

    fold: str
    across: str


Step = Split | Reorder | Upcast | Thread | Stage
Schedule = tuple[Step, ...]


def apply(effects: tuple[UOp, ...], schedule: Schedule) -> tuple[UOp, ...]:
    """The kernel with its loops as the schedule says, simplified."""
    kernel = expand_orders(group(*effects))
    for step in schedule:
        match step:
            case Split():
                kernel = _split(kernel, step)
            case Reorder():
                kernel = _reorder(kernel, step)
            case Upcast(range=name):
                kernel = _with_axis(kernel, name, Axis.UPCAST, "upcast")
            case Thread(range=name):
                kernel = _with_axis(kernel, name, Axis.THREAD, "thread")
            case Stage():
                kernel = _stage(kernel, step)
            case _:
                assert_never(step)
    return simplify_all(_parts(kernel))


def range_names(effects: tuple[UOp, ...]) -> tuple[str, ...]:
    """The names that a schedule of the kernel may use first, in order of appearance."""
    return _names(expand_orders(group(*effects)))


def _names(kernel: UOp) -> tuple[str, ...]:
    return tuple(dict.fromkeys(base_name(n) for n in toposort(kernel) if n.op is Op.RANGE))


def _split(kernel: UOp, step: Split) -> UOp:
    if step.factor < 1:
        raise _refuse(f"range `{step.range}` is split by {step.factor}", "split by 1 or more")
    if step.inner in _names(kernel):
        raise _refuse(f"there is a range `{step.inner}` already", f"give the inner part of `{step.range}` another name")
    taken = Taken(kernel)

    def rewrite(node: UOp, r: UOp) -> UOp:
        if node.op is Op.REDUCE:
            return _split_reduce(node, r, step, taken)
        return _split_end(node, r, step, taken)

    return _rewrite(kernel, step.range, rewrite)


def _split_reduce(node: UOp, r: UOp, step: Split, taken: Taken) -> UOp:
    size = r.src[0]
    if not isinstance(size.arg, Const):
        raise _refuse(
            f"range `{step.range}` of a reduce is split, but its end is no constant",
            "leave it whole, or fold it in chunks",
        )
    factor = math.gcd(size.arg.bits, step.factor)
    taken.free(own_name(r))
    outer, inner = taken.loop(own_name(r), size.arg.bits // factor), taken.loop(step.inner, factor)
    n = len(node.src) - len(bound_ranges(node))
    values = tuple(substitute(v, {r: outer * factor + inner}) for v in node.src[:n])
    ranges = [s for x in node.src[n:] for s in ((outer, inner) if x is r else (x,))]
    return UOp(Op.REDUCE, (*values, *ranges), node.arg)


def _split_end(node: UOp, r: UOp, step: Split, taken: Taken) -> UOp:
    size, factor = r.src[0], step.factor
    constant = size.arg.bits if isinstance(size.arg, Const) else None
    if factor == 1:
        inner = taken.loop(step.inner, 1)
        return _moved(node, r, r + inner, (r, inner))
    whole = i32(constant // factor) if constant is not None else size // factor
    parts: list[UOp] = []
    if constant is None or constant >= factor:
        taken.free(own_name(r))
        outer, inner = taken.loop(own_name(r), whole), taken.loop(step.inner, factor)
        parts.append(_moved(node, r, outer * factor + inner, (outer, inner)))
    if constant is None:
        rest = taken.loop(f"{step.range}.tail", size % factor)
        parts.append(_moved(_copy(node, r, taken), r, whole * factor + rest, (rest,)))
    elif constant % factor:
        rest = taken.loop(step.inner, constant % factor)
        parts.append(_moved(_copy(node, r, taken) if parts else node, r, whole * factor + rest, (rest,)))
    return group(*parts)


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
                raise _refuse(f"range `{base_name(r)}` ends where an inner range says", "keep it inside that range")
        done.append(node)
        return end(node.src[0], *ranges)

    done: list[UOp] = []
    kernel = rebuild(kernel, rewrite)
    if not done:
        raise _refuse(f"no loops are nested as {', '.join(step.ranges)}", "name ranges of one END")
    return kernel


def _stage(kernel: UOp, step: Stage) -> UOp:
    names, taken = _names(kernel), Taken(kernel)
    if step.fold not in names:
        raise _unknown(step.fold, names)

    def rewrite(node: UOp, across: UOp) -> UOp:
        return stage_factors(node, across, step.fold, taken) if node.op is Op.END else node

    staged = _rewrite(kernel, step.across, rewrite)
    if staged is kernel:
        raise _refuse(
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
            raise _refuse(f"{verb} of range `{name}`: its iterations depend on each other", "leave it a loop")
        if axis is Axis.UPCAST and not isinstance(r.src[0].arg, Const):
            raise _refuse(f"{verb} of range `{name}`: its end is no constant", "split it first")
    reduced = {s for n in toposort(kernel) if n.op is Op.REDUCE for s in bound_ranges(n)}
    if axis is Axis.THREAD and any(r in reduced for r in found):
        raise _refuse(f"{verb} of range `{name}`: a reduce is over it", "share out a loop of an END")
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
    return _refuse(f"the schedule names range `{name}`, the kernel has {', '.join(names)}", "name one of these")


def _refuse(message: str, fix: str) -> PlanError:
    return PlanError(Problem(message=message, fix=fix))
