"""The text form of UOps, `.uir`: one node a line, `%N = op sources value key=value`, each after its sources.

Printed text is canonical: storage and parameters first, then the rest, each in post-order from the left; numbered from
0, floats in hex, keys at their default left out. So equal text means the same node, up to NaN. Several roots are named
on a last line, `roots %3 %5`; one root is the last node. Reading refuses whatever it does not know, by line.
"""

import hashlib
import math
from collections.abc import Callable

from circuit.errors import LoadError
from circuit.text import Source, literal, parse_literal, problem_at, quoted, unquoted, words
from circuit.uop.node import (
    Arg,
    Axis,
    Const,
    DType,
    Fold,
    Loop,
    Op,
    Param,
    Stage,
    Storage,
    UOp,
    const,
    const_value,
    f32_value,
    toposort,
)


def uir_text(*roots: UOp) -> str:
    """The canonical text."""
    place_of: dict[UOp, int] = {}
    nodes: list[_Node] = []
    for node in toposort(*roots):
        place_of[node] = len(nodes)
        nodes.append((node.op, tuple(place_of[s] for s in node.src), node.arg))
    return _text(nodes, [place_of[root] for root in roots])


def parse_uir(source: Source) -> tuple[UOp, ...]:
    """The roots of a text; LoadError with every line that is wrong."""
    return _Reader(source).read()


def canonical(root: UOp) -> UOp:
    """The program with ranges renamed r0, r1, ... and local storage renumbered as they appear, and without names."""
    nodes, (place,) = _canonical((root,))
    made: list[UOp] = []
    for op, src, arg in nodes:
        made.append(UOp(op, tuple(made[s] for s in src), arg))
    return made[place]


def digest(*roots: UOp) -> str:
    """The SHA-256 of the canonical text: equal for programs that differ in names alone."""
    if roots not in _DIGESTS:
        _DIGESTS[roots] = hashlib.sha256(_text(*_canonical(roots)).encode()).hexdigest()
    return _DIGESTS[roots]


_DIGESTS: dict[tuple[UOp, ...], str] = {}
_FIRST = (Op.PARAM, Op.BUFFER, Op.ALLOC)
_Node = tuple[Op, tuple[int, ...], Arg]
"""A node as the text has it: its sources are places of nodes that stand before it."""


def _canonical(roots: tuple[UOp, ...]) -> tuple[list[_Node], list[int]]:
    """The nodes of the canonical programs, and the places of the roots. What is alike without names is one node."""
    place_of: dict[UOp, int] = {}
    known: dict[_Node, int] = {}
    ranges = allocs = 0
    for node in toposort(*roots):
        arg = node.arg
        match node.op, arg:
            case Op.RANGE, Loop(axis=axis):
                arg, ranges = Loop(f"r{ranges}", axis), ranges + 1
            case Op.ALLOC, Storage() as a:
                arg, allocs = Storage(allocs, a.size, a.dtype, "", a.lo, a.hi), allocs + 1
            case Op.BUFFER, Storage() as a:
                arg = Storage(a.slot, a.size, a.dtype, "", a.lo, a.hi)
            case Op.PARAM, Param() as p:
                arg = Param(p.slot, p.dtype, p.shape, "", p.lo, p.hi)
        place_of[node] = known.setdefault((node.op, tuple(place_of[s] for s in node.src), arg), len(known))
    return list(known), [place_of[root] for root in roots]


def _text(nodes: list[_Node], roots: list[int]) -> str:
    order = sorted(range(len(nodes)), key=lambda place: nodes[place][0] not in _FIRST)  # stable
    number = [""] * len(nodes)
    for n, place in enumerate(order):
        number[place] = f"%{n}"
    lines = []
    for place in order:
        op, src, arg = nodes[place]
        lines.append(" ".join((number[place], "=", op, *(number[s] for s in src), *_written(arg))))
    if len(roots) > 1:
        lines.append(" ".join(("roots", *(number[root] for root in roots))))
    return "".join(f"{line}\n" for line in lines)


def _written(arg: Arg) -> list[str]:
    match arg:
        case None:
            return []
        case DType() as dtype:
            return [f"dtype={dtype}"]
        case Const(dtype=dtype):
            return [_number(arg), f"dtype={dtype}"]
        case Param() as p:
            shape = [_list(p.shape)] if p.shape else []
            return [*shape, f"dtype={p.dtype}", f"slot={p.slot}", *_optional(name=p.name, lo=p.lo, hi=p.hi)]
        case Storage() as s:
            return [str(s.size), f"dtype={s.dtype}", f"slot={s.slot}", *_optional(name=s.name, lo=s.lo, hi=s.hi)]
        case Loop(name=name, axis=axis):
            return [f"name={quoted(name)}", *([f"axis={axis}"] if axis is not Axis.LOOP else [])]
        case Fold() as f:
            pop = [f"pop={f.pop}"] if f.pop else []
            return [f"op={f.op}", *pop, *([f"order={f.order}"] if f.order != "fold" else [])]
        case Stage() as s:
            where = [f"where={s.where}"] if s.where != "inline" else []
            return [*where, *([f"sizes={_list(s.sizes)}"] if s.sizes else [])]
        case tuple() as sizes:
            return [_list(sizes)]


def _number(value: Const) -> str:
    if value.dtype is not DType.F32:
        return str(value.bits)
    number = f32_value(value.bits)
    return literal(number) if math.isfinite(number) else str(number)


def _list(numbers: tuple[int, ...]) -> str:
    return f"[{' '.join(map(str, numbers))}]"


def _optional(name: str, lo: int | None, hi: int | None) -> list[str]:
    named = [f"name={quoted(name)}"] if name else []
    return [*named, *(f"{key}={value}" for key, value in (("lo", lo), ("hi", hi)) if value is not None)]


_MANY = 10**9
_SOURCES: dict[Op, tuple[int, int]] = {  # least and most sources of each op
    **dict.fromkeys((Op.CONST, Op.PARAM, Op.BUFFER, Op.ALLOC), (0, 0)),
    **dict.fromkeys((Op.CAST, Op.BITCAST, Op.RECIPROCAL, Op.TRUNC, Op.LOAD, Op.RANGE, Op.EXPAND), (1, 1)),
    **dict.fromkeys((Op.RESHAPE, Op.PERMUTE, Op.DETACH), (1, 1)),
    **dict.fromkeys((Op.ADD, Op.MUL, Op.MAX, Op.XOR, Op.CMPLT, Op.SHL, Op.FLOORDIV, Op.FLOORMOD, Op.STORE), (2, 2)),
    **dict.fromkeys((Op.MULACC, Op.WHERE, Op.WMMA), (3, 3)),
    **dict.fromkeys((Op.CALL, Op.STACK, Op.INDEX, Op.SHRINK, Op.AFTER, Op.END, Op.REDUCE, Op.STAGE), (1, _MANY)),
    **dict.fromkeys((Op.BARRIER, Op.GRADIENT), (1, _MANY)),
}
_ORDERS = ("fold", "fold:256", "lanes:128")
_FOLDS = ("add", "mul", "max", "mulacc")


class _Wrong(Exception):
    """What is wrong with the line at hand."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.message, self.fix = message, fix


class _Reader:
    """Reads the lines of one text; nodes so far, by number."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._nodes: list[UOp] = []
        self._number: dict[UOp, int] = {}
        self._roots: tuple[UOp, ...] = ()
        self._last = 0

    def read(self) -> tuple[UOp, ...]:
        for at, line in enumerate(self._source.text.split("\n"), 1):
            if not line.strip():
                continue
            self._last = at
            try:
                self._take(words(line))
            except _Wrong as wrong:
                raise self._error(at, wrong.message, wrong.fix) from None
            except ValueError as wrong:
                raise self._error(at, str(wrong), "correct this word") from None
            except AssertionError as wrong:
                raise self._error(at, str(wrong), "correct the node or its sources") from None
        if not self._nodes:
            raise self._error(None, "the text has no node", "write one node a line: %N = op sources key=value")
        roots = self._roots or (self._nodes[-1],)
        reached = set(toposort(*roots))
        for n, node in enumerate(self._nodes):
            if node not in reached:
                raise self._error(self._last, f"%{n} is used by nothing", "remove it, or name it on a line `roots`")
        return roots

    def _error(self, line: int | None, message: str, fix: str) -> LoadError:
        return LoadError(problem_at(self._source, line, message, fix))

    def _take(self, found: list[str]) -> None:
        if self._roots:
            raise _Wrong("a line after `roots`", "make `roots` the last line")
        if found[0] == "roots":
            self._roots = tuple(self._node(word) for word in found[1:])
            if len(self._roots) < 2:
                raise _Wrong("`roots` names fewer than two nodes", "leave it out: one root is the last node")
            return
        expected = f"%{len(self._nodes)}"
        if len(found) < 3 or found[1] != "=":
            raise _Wrong("a line that is not `%N = op ...`", f"begin it with `{expected} = `")
        if found[0] != expected:
            raise _Wrong(f"node {found[0]} where {expected} is next", "number the nodes from %0, one a line")
        node = self._made(found[2], found[3:])
        if node in self._number:
            raise _Wrong(f"{expected} repeats %{self._number[node]}", f"use %{self._number[node]} instead")
        self._number[node] = len(self._nodes)
        self._nodes.append(node)

    def _made(self, name: str, rest: list[str]) -> UOp:
        if name not in set(Op):
            raise _Wrong(f"unknown op `{name}`", f"use one of {', '.join(Op)}")
        op = Op(name)
        n = next((k for k, word in enumerate(rest) if not word.startswith("%")), len(rest))
        src = tuple(self._node(word) for word in rest[:n])
        least, most = _SOURCES[op]
        if not least <= n <= most:
            wanted = str(least) if least == most else f"{least} or more"
            raise _Wrong(f"{op} with {n} sources", f"give it {wanted}")
        fields = _Fields(rest[n:])
        arg = _ARGS.get(op, _no_arg)(fields)
        fields.end(op)
        if op is Op.PERMUTE and sorted(_numbers(arg)) != list(range(len(src[0].shape))):
            raise _Wrong(f"permute of {len(src[0].shape)} axes by {arg}", "name every axis once")
        return UOp(op, src, arg)

    def _node(self, word: str) -> UOp:
        if not word.startswith("%") or not word[1:].isdecimal():
            raise _Wrong(f"`{word}` where a node is expected", "write %N")
        if int(word[1:]) >= len(self._nodes):
            raise _Wrong(f"{word} is not defined above", "define a node before its use")
        return self._nodes[int(word[1:])]


class _Fields:
    """What follows the sources: plain values, one list, and keys, each taken once."""

    def __init__(self, found: list[str]) -> None:
        self.plain: list[str] = []
        self.lists: list[tuple[int, ...]] = []
        self.keys: dict[str, str] = {}
        self.key_lists: dict[str, tuple[int, ...]] = {}
        at = 0
        while at < len(found):
            key = found[at] if at + 1 < len(found) and found[at + 1] == "=" else None
            at += 2 if key else 0
            if at < len(found) and found[at] == "[":
                close = found.index("]", at) if "]" in found[at:] else len(found)
                numbers = tuple(_integer(word) for word in found[at + 1 : close])
                if key:
                    self._once(key)
                    self.key_lists[key] = numbers
                else:
                    self.lists.append(numbers)
                at = close + 1
            elif key:
                self._once(key)
                self.keys[key] = found[at] if at < len(found) else ""
                at += 1
            else:
                self.plain.append(found[at])
                at += 1

    def _once(self, key: str) -> None:
        if key in self.keys or key in self.key_lists:
            raise _Wrong(f"key `{key}` twice", "keep one")

    def value(self) -> str:
        if not self.plain:
            raise _Wrong("a value is missing", "write it after the sources")
        return self.plain.pop(0)

    def numbers(self) -> tuple[int, ...]:
        if not self.lists:
            raise _Wrong("a list of sizes is missing", "write it as [2 3 4]")
        return self.lists.pop(0)

    def key(self, name: str) -> str:
        if name not in self.keys:
            raise _Wrong(f"missing key `{name}`", f"add {name}=...")
        return self.keys.pop(name)

    def choice(self, name: str, allowed: tuple[str, ...], default: str | None = None) -> str:
        word = self.keys.pop(name, default) if default is not None else self.key(name)
        if word not in allowed:
            raise _Wrong(f"{name}={word}", f"use one of {', '.join(allowed)}")
        return word

    def whole(self, name: str) -> int | None:
        return _integer(self.keys.pop(name)) if name in self.keys else None

    def text(self, name: str) -> str:
        return unquoted(self.keys.pop(name)) if name in self.keys else ""

    def end(self, op: Op) -> None:
        left = [*(f"`{word}`" for word in self.plain), *(_list(numbers) for numbers in self.lists)]
        left += [f"`{key}=`" for key in (*self.keys, *self.key_lists)]
        if left:
            raise _Wrong(f"{op} does not take {', '.join(left)}", "remove it")


def _integer(word: str) -> int:
    value = parse_literal(word)
    if type(value) is not int:
        raise _Wrong(f"`{word}` where a whole number is expected", "write a decimal number")
    return value


def _numbers(arg: Arg) -> tuple[int, ...]:
    return arg if isinstance(arg, tuple) else ()


def _no_arg(fields: _Fields) -> Arg:
    return None


def _dtype(fields: _Fields) -> DType:
    return DType(fields.choice("dtype", tuple(d for d in DType if d is not DType.VOID)))


def _const(fields: _Fields) -> Arg:
    word, dtype = fields.value(), _dtype(fields)
    special = word.lstrip("-") in ("inf", "nan")
    value = float(word) if special else parse_literal(word)
    if type(value) is not (float if dtype is DType.F32 else int):
        raise _Wrong(f"`{word}` is no {dtype}", "write floats in hex, as 0x1.8p+1, and other values in decimal")
    if dtype is DType.BOOL and value not in (0, 1):
        raise _Wrong(f"`{word}` is no bool", "write 0 or 1")
    made = const(dtype, value)
    if isinstance(value, float) and const_value(made) != value and not special:
        raise _Wrong(f"`{word}` is no float32", "write a value that float32 holds")
    return made.arg


def _param(fields: _Fields) -> Arg:
    shape = fields.numbers() if fields.lists else ()
    slot = _integer(fields.key("slot"))
    return Param(slot, _dtype(fields), shape, fields.text("name"), fields.whole("lo"), fields.whole("hi"))


def _storage(fields: _Fields) -> Arg:
    size, slot = _integer(fields.value()), _integer(fields.key("slot"))
    return Storage(slot, size, _dtype(fields), fields.text("name"), fields.whole("lo"), fields.whole("hi"))


def _loop(fields: _Fields) -> Arg:
    name = unquoted(fields.key("name"))
    return Loop(name, Axis(fields.choice("axis", tuple(Axis), Axis.LOOP)))


def _fold(fields: _Fields) -> Arg:
    op = fields.choice("op", _FOLDS)
    return Fold(op, fields.whole("pop") or 0, fields.choice("order", _ORDERS, "fold"))


def _stage(fields: _Fields) -> Arg:
    return Stage(fields.choice("where", ("inline", "local"), "inline"), fields.key_lists.pop("sizes", ()))


_ARGS: dict[Op, Callable[[_Fields], Arg]] = {
    Op.CONST: _const,
    Op.PARAM: _param,
    Op.BUFFER: _storage,
    Op.ALLOC: _storage,
    Op.RANGE: _loop,
    Op.REDUCE: _fold,
    Op.STAGE: _stage,
    **dict.fromkeys((Op.CAST, Op.BITCAST), _dtype),
    **dict.fromkeys((Op.RESHAPE, Op.PERMUTE, Op.EXPAND, Op.SHRINK), _Fields.numbers),
}
