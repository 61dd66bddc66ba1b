"""UOp(op, src, arg): the one node of loop programs, hash-consed, so that equal construction gives the same object.

A program has two forms. *Shaped*: values have shapes, a RANGE is a bound variable of STAGE (abstraction) and INDEX
applies it; loads are implicit. *Loops*, what `rangeify` makes: every value has rank 0, loads and stores are written,
loops are closed by END and REDUCE. Identity is equality: never compare two nodes any other way.
"""

import struct
from collections.abc import Container
from enum import StrEnum

from msgspec import Struct


class Op(StrEnum):
    """The closed set of ops; the value is the spelling in `.uir` text."""

    CONST = "const"
    PARAM = "param"  # a placeholder: a scalar, or an array in GLOBAL space
    CALL = "call"  # body, a0, a1, ...: PARAM slot k of the body means a_k
    STACK = "stack"  # values of one shape below a new leading axis; void values: a group of effects
    INDEX = "index"  # x, i0, i1, ...: pops axes from the left
    SHRINK = "shrink"  # x, off0, ...: x[off : off+shape]
    CAST = "cast"  # f32 -> i32 truncates and saturates, NaN -> 0; i32 <-> u32 wraps
    BITCAST = "bitcast"  # f32 <-> u32; a NaN gives 7fc00000
    RECIPROCAL = "reciprocal"  # correctly rounded 1/x
    TRUNC = "trunc"  # toward zero
    ADD = "add"
    MUL = "mul"
    MULACC = "mulacc"  # a, b, c: fma(a, b, c), one rounding; the only contraction
    MAX = "max"  # where(a < b, b, a)
    XOR = "xor"
    CMPLT = "cmplt"
    SHL = "shl"  # a * 2**n, wrapping; 0 <= n <= 31
    FLOORDIV = "floordiv"
    FLOORMOD = "floormod"
    WHERE = "where"  # p, a, b: both sides are evaluated
    BUFFER = "buffer"  # persistent storage in GLOBAL space
    ALLOC = "alloc"  # storage of one call, one copy a thread, in LOCAL space
    LOAD = "load"
    STORE = "store"  # location, value: void
    AFTER = "after"  # storage, effects...: the storage once the effects are done
    RANGE = "range"  # end: a loop variable, 0 .. end-1
    END = "end"  # effect, ranges...: closes loops, the first range is the outermost
    REDUCE = "reduce"  # x [, y], ranges...: folds `pop` leading axes, or the ranges, from the identity
    STAGE = "stage"  # x, ranges...: the array whose element at the ranges is x; opposite of INDEX
    EXPAND = "expand"  # prepends axes
    RESHAPE = "reshape"
    PERMUTE = "permute"
    GRADIENT = "gradient"
    DETACH = "detach"
    BARRIER = "barrier"  # effects...: all threads have done them
    WMMA = "wmma"


class DType(StrEnum):
    """Types of values. Storage formats are decoded and encoded by programs."""

    VOID = "void"
    BOOL = "bool"
    I32 = "i32"
    U32 = "u32"
    F32 = "f32"


class Axis(StrEnum):
    """What becomes of a loop: run in order, unrolled into vector lanes, split over threads, or a GPU axis."""

    LOOP = "loop"
    UPCAST = "upcast"
    THREAD = "thread"
    GLOBAL = "global"
    LOCAL = "local"


class Space(StrEnum):
    """Where a node lives: storage that all threads see, storage of one thread, or a value."""

    GLOBAL = "global"
    LOCAL = "local"
    ALU = "alu"


class Const(Struct, frozen=True):
    """A constant as its exact bits: f32 bits, an int in the range of i32 or u32, or 0/1."""

    dtype: DType
    bits: int


class Param(Struct, frozen=True):
    """`lo` and `hi` bound an integer parameter's value, or every element of an integer array; inclusive."""

    slot: int
    dtype: DType
    shape: tuple[int, ...]
    name: str = ""
    lo: int | None = None
    hi: int | None = None


class Storage(Struct, frozen=True):
    """`size` elements; of an ALLOC, `slot` tells one from another in a program."""

    slot: int
    size: int
    dtype: DType
    name: str = ""
    lo: int | None = None
    hi: int | None = None


class Loop(Struct, frozen=True):
    """The name tells ranges of one program apart."""

    name: str
    axis: Axis = Axis.LOOP


class Fold(Struct, frozen=True):
    """How a REDUCE runs. `op`: add | mul | max | mulacc (two sources). `order`: fold | fold:256 | lanes:128."""

    op: str
    pop: int = 0
    order: str = "fold"


class Stage(Struct, frozen=True):
    """`where`: "inline" (recomputed at each use) or "local" (stored once); `sizes`: counts that are no constants."""

    where: str = "inline"
    sizes: tuple[int, ...] = ()


Arg = None | Const | Param | Storage | Loop | Fold | Stage | DType | tuple[int, ...]


class UOp:
    """A node, with its dtype, shape, free ranges and space. Build it by `build`: here is checked what typing needs."""

    __slots__ = ("_bounds", "arg", "dtype", "op", "ranges", "shape", "space", "src")

    op: Op
    src: tuple["UOp", ...]
    arg: Arg
    dtype: DType
    shape: tuple[int, ...]
    ranges: frozenset["UOp"]
    space: Space
    _bounds: tuple[int, int] | None

    def __new__(cls, op: Op, src: tuple["UOp", ...] = (), arg: Arg = None) -> "UOp":
        key = (op, arg, *map(id, src))
        found = _INTERN.get(key)
        if found is not None:
            return found
        node = super().__new__(cls)
        node.op, node.src, node.arg, node._bounds = op, src, arg, None
        node.dtype, node.shape = _dtype(op, src, arg), _shape(op, src, arg)
        node.ranges = _ranges(node, op, src)
        node.space = src[0].space if op in _INHERIT else _SPACES.get(op, Space.ALU)
        _INTERN[key] = node
        return node

    def __repr__(self) -> str:
        return f"<{self.op} {self.dtype} {list(self.shape)} {self.arg}>"

    def __add__(self, other: "UOp | float") -> "UOp":
        return _binary(Op.ADD, self, other)

    def __radd__(self, other: "UOp | float") -> "UOp":
        return _binary(Op.ADD, other, self)

    def __mul__(self, other: "UOp | float") -> "UOp":
        return _binary(Op.MUL, self, other)

    def __rmul__(self, other: "UOp | float") -> "UOp":
        return _binary(Op.MUL, other, self)

    def __sub__(self, other: "UOp | float") -> "UOp":
        """a + (-1)*b: exact for floats (a product with -1 does not round), wrapping for integers."""
        return _binary(Op.ADD, self, _negative(self, other))

    def __neg__(self) -> "UOp":
        return _negative(self, self)

    def __floordiv__(self, other: "UOp | float") -> "UOp":
        return _binary(Op.FLOORDIV, self, other)

    def __mod__(self, other: "UOp | float") -> "UOp":
        return _binary(Op.FLOORMOD, self, other)

    def __xor__(self, other: "UOp | float") -> "UOp":
        return _binary(Op.XOR, self, other)

    def __lt__(self, other: "UOp | float") -> "UOp":
        return _binary(Op.CMPLT, self, other)

    def __gt__(self, other: "UOp | float") -> "UOp":
        return _binary(Op.CMPLT, other, self)


_INTERN: dict[tuple[Op | Arg | int, ...], UOp] = {}  # the one allowed global: nodes live as long as the process


def f32_bits(value: float) -> int:
    """The bits of `value` rounded once to float32; every NaN gives 7fc00000."""
    if value != value:
        return 0x7FC00000
    try:
        return int.from_bytes(struct.pack("<f", value), "little")
    except OverflowError:
        return 0x7F800000 if value > 0 else 0xFF800000


def f32_value(bits: int) -> float:
    """The value of float32 `bits`, exactly."""
    return float(struct.unpack("<f", bits.to_bytes(4, "little"))[0])


def const(dtype: DType, value: float) -> UOp:
    """A constant; a float is rounded once to float32, an integer must fit its type."""
    match dtype:
        case DType.F32:
            bits = f32_bits(float(value))
        case DType.BOOL:
            bits = int(bool(value))
        case DType.I32 | DType.U32:
            bits = int(value)
            least = -(2**31) if dtype is DType.I32 else 0
            assert least <= bits < least + 2**32, f"{value} is no {dtype}"
        case DType.VOID:
            raise AssertionError("there is no void constant")
    return UOp(Op.CONST, (), Const(dtype, bits))


def const_value(node: UOp) -> float:
    """The value of a CONST: an int, or a float for f32."""
    assert isinstance(node.arg, Const), node
    return f32_value(node.arg.bits) if node.arg.dtype is DType.F32 else node.arg.bits


def toposort(*roots: UOp, leaves: Container[UOp] = frozenset()) -> list[UOp]:
    """The roots and what is below them, but not below `leaves`: sources first, in post-order, without recursion."""
    order, opened = list[UOp](), list[UOp]()  # opened: nodes whose sources are gone through
    seen: set[UOp] = set()
    stack: list[UOp | None] = [*reversed(roots)]  # nodes to go to; None where the node opened last has its sources
    while stack:
        node = stack.pop()
        if node is None:
            order.append(opened.pop())
        elif node not in seen:
            seen.add(node)
            opened.append(node)
            stack.append(None)
            if node not in leaves:
                stack += node.src[::-1]
    return order


def substitute(root: UOp, replace: dict[UOp, UOp]) -> UOp:
    """The program with nodes replaced. Binders are not looked at: use it for ranges of one program in loops form."""
    new = dict(replace)
    for node in toposort(root, leaves=replace):
        if node not in new:
            src = tuple(new[s] for s in node.src)
            new[node] = node if src == node.src else UOp(node.op, src, node.arg)
    return new[root]


def broadcast(node: UOp, shape: tuple[int, ...]) -> UOp:
    """A value with axes prepended until it has the rank of `shape`."""
    n = max(len(shape) - len(node.shape), 0)
    assert n == 0 or shape[n:] == node.shape, f"shape {node.shape} does not broadcast to {shape}"
    return UOp(Op.EXPAND, (node,), shape[:n]) if n else node


def _binary(op: Op, a: "UOp | float", b: "UOp | float") -> UOp:
    kind = a.dtype if isinstance(a, UOp) else b.dtype if isinstance(b, UOp) else DType.VOID
    x = a if isinstance(a, UOp) else const(kind, a)
    y = b if isinstance(b, UOp) else const(kind, b)
    shape = x.shape if len(x.shape) >= len(y.shape) else y.shape
    return UOp(op, (broadcast(x, shape), broadcast(y, shape)))


def _negative(like: UOp, value: "UOp | float") -> UOp:
    if not isinstance(value, UOp):
        return const(like.dtype, -value if like.dtype is not DType.U32 else (-int(value)) % 2**32)
    return value * (2**32 - 1 if value.dtype is DType.U32 else -1)


_SAME = frozenset((Op.ADD, Op.MUL, Op.MULACC, Op.MAX, Op.XOR, Op.FLOORDIV, Op.FLOORMOD, Op.CMPLT))
_ONE = frozenset((Op.SHL, Op.CAST, Op.BITCAST, Op.RECIPROCAL, Op.TRUNC, Op.LOAD))
ELEMENTWISE = _SAME | _ONE - {Op.LOAD} | {Op.WHERE}
"""Ops whose operands have the shape of their value, or axes of one element that are repeated."""

_FIRST = frozenset((Op.SHL, Op.INDEX, Op.SHRINK, Op.AFTER, Op.LOAD, Op.REDUCE, Op.STAGE, Op.EXPAND, Op.RESHAPE))
_FIRST |= frozenset((Op.PERMUTE, Op.RECIPROCAL, Op.TRUNC, Op.STACK, Op.CALL, Op.DETACH, Op.GRADIENT, Op.WMMA))


def _dtype(op: Op, src: tuple[UOp, ...], arg: Arg) -> DType:
    if op in _SAME:
        kind = src[0].dtype
        for other in src:
            assert other.dtype is kind, f"{op} of unlike types {[str(s.dtype) for s in src]}"
        return DType.BOOL if op is Op.CMPLT else kind
    if op in _FIRST:
        return src[0].dtype
    match op, arg:
        case (Op.CONST, Const(dtype=dtype)) | (Op.PARAM, Param(dtype=dtype)):
            return dtype
        case ((Op.BUFFER | Op.ALLOC), Storage(dtype=dtype)):
            return dtype
        case ((Op.CAST | Op.BITCAST), DType()):
            return arg
        case Op.RANGE, Loop():
            assert src[0].dtype is DType.I32, "a range ends at an i32"
            return DType.I32
        case Op.WHERE, None:
            like = src[0].dtype is DType.BOOL and src[1].dtype is src[2].dtype
            assert like, f"where of unlike types {[str(s.dtype) for s in src]}"
            return src[1].dtype
        case ((Op.STORE | Op.END | Op.BARRIER), None):
            return DType.VOID
    raise AssertionError(f"{op} does not take {arg}")


def _shape(op: Op, src: tuple[UOp, ...], arg: Arg) -> tuple[int, ...]:
    if op in _ONE:
        return src[0].shape
    if op in _SAME or op is Op.WHERE:
        shapes = [s.shape for s in src]
        return shapes[0] if shapes.count(shapes[0]) == len(shapes) else _stretched(op, shapes)
    match op, arg:
        case ((Op.STORE | Op.END | Op.BARRIER | Op.RANGE | Op.CONST), _):
            return ()
        case Op.INDEX, _:
            assert len(src) - 1 <= len(src[0].shape), f"{len(src) - 1} indices for shape {src[0].shape}"
            return src[0].shape[len(src) - 1 :]
        case Op.PARAM, Param(shape=shape):
            return shape
        case ((Op.BUFFER | Op.ALLOC), Storage(size=size)):
            return (size,)
        case Op.STACK, _:
            assert all(s.shape == src[0].shape and s.dtype is src[0].dtype for s in src), "stack of unlike values"
            return () if src[0].dtype is DType.VOID else (len(src), *src[0].shape)
        case ((Op.SHRINK | Op.RESHAPE), tuple()):
            return arg
        case Op.EXPAND, tuple():
            return (*arg, *src[0].shape)
        case Op.PERMUTE, tuple():
            return tuple(src[0].shape[axis] for axis in arg)
        case Op.REDUCE, Fold(pop=pop):
            return src[0].shape[pop:]
        case Op.STAGE, Stage(sizes=sizes):
            return (*(sizes or map(range_size, src[1:])), *src[0].shape)
    return src[0].shape if src else ()


def _stretched(op: Op, shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape of an elementwise op of unlike shapes: of one rank, axes equal, or 1 and repeated."""
    sizes = [set(axis) - {1} for axis in zip(*shapes, strict=False)]
    if len({len(shape) for shape in shapes}) > 1 or any(len(size) > 1 for size in sizes):
        raise AssertionError(f"{op} of unlike shapes {shapes}")
    return tuple(size.pop() if size else 1 for size in sizes)


def range_size(node: UOp) -> int:
    """The largest number of times a RANGE can run; its end must be a constant, or a PARAM with an upper bound."""
    assert node.op is Op.RANGE, node
    end = node.src[0]
    match end.arg:
        case Const(bits=bits):
            return bits
        case Param(hi=int(hi)):
            return hi
    raise AssertionError(f"the size of range {node.arg} is not known here: its end is {end}")


_CLOSES = frozenset((Op.END, Op.REDUCE, Op.STAGE))


def _ranges(node: UOp, op: Op, src: tuple[UOp, ...]) -> frozenset[UOp]:
    if op is Op.RANGE:
        return src[0].ranges | {node}
    free = src[0].ranges if src else frozenset[UOp]()
    for other in src[1:]:  # most have the same ranges, or none
        if other.ranges and other.ranges is not free:
            free = free | other.ranges if free else other.ranges
    return free.difference(bound_ranges(node)) if op in _CLOSES else free


def bound_ranges(node: UOp) -> tuple[UOp, ...]:
    """The RANGEs that an END, REDUCE or STAGE closes, outermost first."""
    return node.src[2 if isinstance(node.arg, Fold) and node.arg.op == "mulacc" else 1 :]


_SPACES = {Op.PARAM: Space.GLOBAL, Op.BUFFER: Space.GLOBAL, Op.ALLOC: Space.LOCAL}
_INHERIT = frozenset((Op.INDEX, Op.AFTER, Op.SHRINK, Op.RESHAPE, Op.PERMUTE, Op.EXPAND))
