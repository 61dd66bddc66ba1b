"""verify_loops and verify_shaped: which programs are legal, as a table from op to checks. Runs between stages.

In loops form every value has rank 0, every loop is closed once, every access is proven in range, and two accesses to
one storage, a STORE among them, are ordered by a path of sources (a value, or an AFTER) unless they cannot meet.
"""

import math
from collections.abc import Callable, Iterable, Iterator

from circuit.errors import MetError, Problem
from circuit.uop.accesses import Access, accesses, can_meet
from circuit.uop.bounds import Interval, bounds
from circuit.uop.evaluate import storage_name, storage_of
from circuit.uop.node import Axis, DType, Fold, Loop, Op, Space, UOp, bound_ranges, toposort
from circuit.uop.simplify import simplify
from circuit.uop.within import within


class VerifyError(MetError):
    """A program breaks a rule of UOps; the stage that made it is wrong, or the `.uir` text is."""


Check = Callable[[UOp], Iterator[Problem]]


def verify_loops(*roots: UOp) -> None:
    """Raise VerifyError with every problem of a program in loops form."""
    nodes = toposort(*roots)
    problems = [p for node in nodes for check in _LOOPS.get(node.op, _NOT_IN_LOOPS) for p in check(node)]
    problems += [*_closed(roots, nodes), *_names(nodes)]
    if not problems:  # the order of accesses needs well-formed places
        problems += [*_ordered(nodes), *_threads(nodes)]
    _raise(problems)


def verify_shaped(*roots: UOp) -> None:
    """Raise VerifyError with every problem of a program in shaped form."""
    nodes = toposort(*roots)
    problems = [p for node in nodes for check in _SHAPED.get(node.op, _NOT_IN_SHAPED) for p in check(node)]
    _raise([*problems, *_free(roots)])


def _raise(problems: Iterable[Problem]) -> None:
    found = tuple(dict.fromkeys(problems))
    if found:
        raise VerifyError(found)


def _wrong(message: str, fix: str) -> Problem:
    return Problem(message=message, fix=fix)


# Checks of one node.


def _not_in_loops(node: UOp) -> Iterator[Problem]:
    yield _wrong(f"{node.op} in loops form", "lower it with rangeify")


def _not_in_shaped(node: UOp) -> Iterator[Problem]:
    yield _wrong(f"{node.op} in shaped form", "write loads, stores and loops after rangeify")


def _scalar(node: UOp) -> Iterator[Problem]:
    for value in (node, *node.src):
        if value.shape:
            yield _wrong(f"{node.op} on shape {_sizes(value)} in loops form", "lower it with rangeify")
            return


def _value(node: UOp) -> Iterator[Problem]:
    if DType.VOID in (node.dtype, *(s.dtype for s in node.src)):
        yield _wrong(f"{node.op} of an effect", "use a value")


def _types(*allowed: DType) -> Check:
    def check(node: UOp) -> Iterator[Problem]:
        found = node.src[-1].dtype
        if found not in allowed:
            yield _wrong(f"{node.op} of {found}", f"give it {' or '.join(allowed)}")

    return check


def _bitcast(node: UOp) -> Iterator[Problem]:
    if {node.src[0].dtype, node.dtype} - {DType.F32, DType.U32}:
        yield _wrong(f"bitcast from {node.src[0].dtype} to {node.dtype}", "bitcast between f32 and u32, cast the rest")


def _shift(node: UOp) -> Iterator[Problem]:
    if node.src[0].dtype is not node.src[1].dtype:
        yield _wrong(f"shl of {node.src[0].dtype} by {node.src[1].dtype}", "give both one type")
    elif node.dtype in _INTEGERS and not within(node.src[1], 0, 31):
        yield _wrong(f"shl by {_span(node.src[1])}", "prove that it is in 0 .. 31")


def _divisor(node: UOp) -> Iterator[Problem]:
    if node.dtype in _INTEGERS:
        lo, hi = _tight(node.src[1])
        if lo <= 0 <= hi:
            yield _wrong(f"{node.op} by {_span(node.src[1])}", "prove that it is never 0")


def _place(node: UOp) -> Iterator[Problem]:
    """An INDEX in loops form: all axes of a storage or of an INDEX."""
    below = node.src[0]
    while below.op is Op.AFTER:
        below = below.src[0]
    table = below.op is Op.STACK and all(part.op is Op.CONST for part in below.src)
    if below.op not in (Op.PARAM, Op.BUFFER, Op.ALLOC, Op.INDEX) and not table:
        yield _wrong(f"index of {below.op}", "index storage, or a table of constants")
    else:
        yield from _in_range(node, storage_name(storage_of(node)) if below.op is not Op.INDEX else "index")


def _indexed(node: UOp) -> Iterator[Problem]:
    """An INDEX in shaped form."""
    yield from _in_range(node, storage_name(node.src[0]) if node.src[0].op in _STORAGE else str(node.src[0].op))


def _in_range(node: UOp, name: str) -> Iterator[Problem]:
    for place, size in zip(node.src[1:], node.src[0].shape, strict=False):
        if place.dtype is not DType.I32 or place.shape:
            yield _wrong(f"{name}: index of type {place.dtype} {_sizes(place)}", "cast it to one i32")
        elif not within(place, 0, size - 1):
            fix = "guard it with where, or declare tighter bounds"
            yield _wrong(f"{name}: index {_span(place)} leaves 0 .. {size - 1}", fix)


def _accessed(node: UOp) -> Iterator[Problem]:
    place = node.src[0]
    if place.op is not Op.INDEX or place.shape:
        yield _wrong(f"{node.op} of {place.op} with shape {_sizes(place)}", "give it an index of every axis")
    elif node.op is Op.STORE:
        if node.src[1].dtype is not place.dtype:
            yield _wrong(f"store of {node.src[1].dtype} into {place.dtype}", "cast the value")
        if storage_of(place).op is Op.STACK:
            yield _wrong("store into a table of constants", "store into an alloc, buffer or param")


def _after(node: UOp) -> Iterator[Problem]:
    if node.src[0].op not in (*_STORAGE, Op.AFTER):
        yield _wrong(f"after of {node.src[0].op}", "give it storage first")
    for effect in node.src[1:]:
        if effect.dtype is not DType.VOID and effect.op is not Op.RANGE:
            yield _wrong(f"after waits for {effect.op}", "give it effects, or ranges that the access belongs to")


def _effects(node: UOp) -> Iterator[Problem]:
    for effect in node.src:
        if effect.dtype is not DType.VOID:
            yield _wrong(f"{node.op} of {effect.op}", "give it effects")


def _stack(node: UOp) -> Iterator[Problem]:
    if node.dtype is not DType.VOID and any(part.op is not Op.CONST for part in node.src):
        yield _wrong("stack of values in loops form", "lower it with rangeify; only constants make a table")


def _binds(node: UOp) -> Iterator[Problem]:
    ranges = bound_ranges(node)
    for r in ranges:
        if r.op is not Op.RANGE:
            yield _wrong(f"{node.op} closes {r.op}", "give it ranges")
    if len(set(ranges)) < len(ranges):
        yield _wrong(f"{node.op} closes a range twice", "name each range once")


def _end(node: UOp) -> Iterator[Problem]:
    if node.src[0].dtype is not DType.VOID:
        yield _wrong(f"end of {node.src[0].op}", "give it an effect")
    yield from _binds(node)


def _reduce(node: UOp) -> Iterator[Problem]:
    assert isinstance(node.arg, Fold)
    n = len(node.src) - len(bound_ranges(node))
    if node.arg.op == "mulacc" and (len(node.src) < 2 or node.src[1].dtype is not node.dtype):
        yield _wrong("reduce op=mulacc without two factors of one type", "give it both factors")
    if any(value.shape != node.src[0].shape for value in node.src[1:n]):
        yield _wrong("reduce op=mulacc of unlike shapes", "expand the smaller factor")
    if node.arg.pop > len(node.src[0].shape):
        yield _wrong(f"reduce pop={node.arg.pop} of shape {_sizes(node.src[0])}", "pop at most all axes")
    if (node.arg.pop > 0) == bool(bound_ranges(node)):
        count = len(bound_ranges(node))
        yield _wrong(f"reduce pop={node.arg.pop} with {count} ranges", "either pop axes or name ranges")
    yield from _binds(node)


def _reduce_loops(node: UOp) -> Iterator[Problem]:
    assert isinstance(node.arg, Fold)
    if node.arg.pop:
        yield _wrong(f"reduce pop={node.arg.pop} in loops form", "lower it with rangeify")


def _reshape(node: UOp) -> Iterator[Problem]:
    if math.prod(node.shape) != math.prod(node.src[0].shape):
        yield _wrong(f"reshape of {_sizes(node.src[0])} to {_sizes(node)}", "keep the number of elements")


def _permute(node: UOp) -> Iterator[Problem]:
    if not isinstance(node.arg, tuple) or sorted(node.arg) != list(range(len(node.src[0].shape))):
        yield _wrong(f"permute of {_sizes(node.src[0])} by {node.arg}", "name every axis once")


def _shrink(node: UOp) -> Iterator[Problem]:
    sizes = node.src[0].shape
    if not len(node.src) - 1 == len(sizes) == len(node.shape):
        yield _wrong(f"shrink of {_sizes(node.src[0])} to {_sizes(node)}", "give an offset and a size for every axis")
        return
    for offset, size, kept in zip(node.src[1:], sizes, node.shape, strict=True):
        if not within(offset, 0, size - kept):
            yield _wrong(f"shrink: {kept} elements from {_span(offset)} leave 0 .. {size - 1}", "lower the offset")


def _any(node: UOp) -> Iterator[Problem]:
    return iter(())


_INTEGERS = (DType.I32, DType.U32)
_NUMBERS = (DType.I32, DType.U32, DType.F32)
_STORAGE = (Op.PARAM, Op.BUFFER, Op.ALLOC)
_NOT_IN_LOOPS, _NOT_IN_SHAPED = (_not_in_loops,), (_not_in_shaped,)

# What a node of each elementwise op must satisfy in both forms.
_ELEMENTWISE: dict[Op, tuple[Check, ...]] = {
    **dict.fromkeys((Op.ADD, Op.MUL, Op.MAX, Op.CMPLT, Op.WHERE, Op.CAST), (_value,)),
    **dict.fromkeys((Op.RECIPROCAL, Op.TRUNC, Op.MULACC), (_types(DType.F32),)),
    Op.BITCAST: (_bitcast,),
    Op.XOR: (_types(DType.BOOL, *_INTEGERS),),
    Op.SHL: (_types(*_INTEGERS), _shift),
    **dict.fromkeys((Op.FLOORDIV, Op.FLOORMOD), (_types(*_INTEGERS), _divisor)),
}

_LOOPS: dict[Op, tuple[Check, ...]] = {
    **{op: (_scalar, *checks) for op, checks in _ELEMENTWISE.items()},
    **dict.fromkeys((Op.CONST, Op.PARAM, Op.BUFFER, Op.ALLOC, Op.RANGE), (_any,)),
    Op.STACK: (_stack,),
    Op.INDEX: (_place,),
    **dict.fromkeys((Op.LOAD, Op.STORE), (_accessed,)),
    Op.AFTER: (_after,),
    Op.BARRIER: (_effects,),
    Op.END: (_end,),
    Op.REDUCE: (_scalar, _reduce, _reduce_loops),
}

_SHAPED: dict[Op, tuple[Check, ...]] = {
    **_ELEMENTWISE,
    **dict.fromkeys((Op.CONST, Op.PARAM, Op.BUFFER, Op.RANGE, Op.STACK, Op.CALL, Op.DETACH, Op.EXPAND), (_any,)),
    Op.AFTER: (_after,),
    Op.INDEX: (_indexed,),
    Op.SHRINK: (_shrink,),
    Op.RESHAPE: (_reshape,),
    Op.PERMUTE: (_permute,),
    Op.STAGE: (_binds,),
    Op.REDUCE: (_reduce,),
}


# Checks of a whole program.


def _free(roots: tuple[UOp, ...]) -> Iterator[Problem]:
    for name in sorted({_name(r) for root in roots for r in root.ranges}):
        yield _wrong(f"range {name} is closed by nothing", "close it with end, reduce or stage around all its uses")


def _closed(roots: tuple[UOp, ...], nodes: list[UOp]) -> Iterator[Problem]:
    yield from _free(roots)
    closers: dict[UOp, UOp] = {}
    for node in nodes:
        if node.op in (Op.END, Op.REDUCE):
            for r in bound_ranges(node):
                if r.op is Op.RANGE and closers.setdefault(r, node) is not node:
                    message = f"range {_name(r)} is closed by {closers[r].op} and by {node.op}"
                    yield _wrong(message, "give each of them a range of its own")


def _names(nodes: list[UOp]) -> Iterator[Problem]:
    seen: dict[str, UOp] = {}
    for node in nodes:
        if node.op is Op.RANGE and seen.setdefault(_name(node), node) is not node:
            yield _wrong(f"two ranges are named {_name(node)}", "rename one")


def _ordered(nodes: list[UOp]) -> Iterator[Problem]:
    for group in accesses(nodes):
        for n, first in enumerate(group):
            for second in group[n + 1 :]:
                if Op.STORE in (first.node.op, second.node.op):
                    yield from _pair(first, second)
        for access in group:
            if access.storage.op is Op.ALLOC and access.node.op is Op.LOAD and not access.stores_before:
                message = f"{access.name}: {_what(access)} comes before every store"
                yield _wrong(message, "store first, and index the alloc after that store")


def _pair(first: Access, second: Access) -> Iterator[Problem]:
    """`second` comes later in post-order, so it cannot be a source of `first`."""
    ordered = first.number in second.before
    early = first.node.op is Op.LOAD and first.node.ranges < second.node.ranges
    if (ordered and not early) or not can_meet(first, second):
        return
    if not ordered:
        fix = "index the storage after the effect that must come first"
        yield _wrong(f"{first.name}: {_what(first)} and {_what(second)} are not ordered", fix)
        return
    outside = min(_name(r) for r in second.node.ranges - first.node.ranges)
    fix = f"let the load depend on {outside} by an after that names it"
    yield _wrong(f"{first.name}: {_what(first)} is outside of loop {outside}, which stores it", fix)


def _threads(nodes: list[UOp]) -> Iterator[Problem]:
    for node in nodes:
        if node.op is Op.STORE and node.src[0].space is Space.GLOBAL:
            for name in sorted(_name(r) for r in node.ranges - node.src[0].ranges if _axis(r) is not Axis.LOOP):
                message = f"{storage_name(storage_of(node.src[0]))}: all turns of {name} store to one element"
                yield _wrong(message, f"let the index depend on {name}")


def _what(access: Access) -> str:
    return f"{access.node.op} at {_span(access.flat)}"


def _name(r: UOp) -> str:
    assert isinstance(r.arg, Loop), r
    return r.arg.name


def _axis(r: UOp) -> Axis:
    assert isinstance(r.arg, Loop), r
    return r.arg.axis


def _sizes(node: UOp) -> str:
    return f"[{' '.join(map(str, node.shape))}]"


def _tight(node: UOp) -> Interval:
    return bounds(simplify(node))


def _span(node: UOp) -> str:
    lo, hi = _tight(node)
    return str(lo) if lo == hi else f"{lo} .. {hi}"
