"""Functions that build UOps: the vocabulary definitions are written in."""

from circuit.uop.node import Axis, DType, Fold, Loop, Op, Param, Stage, Storage, UOp, broadcast, const


def f32(value: float) -> UOp:
    """A float32 constant, rounded once."""
    return const(DType.F32, value)


def i32(value: int) -> UOp:
    """An int32 constant."""
    return const(DType.I32, value)


def u32(value: int) -> UOp:
    """A uint32 constant."""
    return const(DType.U32, value)


def param(
    slot: int, dtype: DType, shape: tuple[int, ...] = (), name: str = "", lo: int | None = None, hi: int | None = None
) -> UOp:
    """A placeholder: a scalar where `shape` is empty, else an array."""
    return UOp(Op.PARAM, (), Param(slot, dtype, shape, name, lo, hi))


def alloc(slot: int, size: int, dtype: DType, name: str = "") -> UOp:
    """`size` elements of storage of one call."""
    return UOp(Op.ALLOC, (), Storage(slot, size, dtype, name))


def loop(name: str, end: UOp | int, axis: Axis = Axis.LOOP) -> UOp:
    """A loop variable 0 .. end-1."""
    return UOp(Op.RANGE, (end if isinstance(end, UOp) else i32(end),), Loop(name, axis))


def index(x: UOp, *places: UOp | int) -> UOp:
    """x[places]: pops axes from the left."""
    return UOp(Op.INDEX, (x, *(p if isinstance(p, UOp) else i32(p) for p in places)))


def stage(x: UOp, *ranges: UOp, where: str = "inline", sizes: tuple[int, ...] = ()) -> UOp:
    """The array whose element at `ranges` is x; `sizes` bound ranges whose ends are not constants."""
    return UOp(Op.STAGE, (x, *ranges), Stage(where, sizes))


def reduce(op: str, x: UOp, *more: UOp, pop: int = 0, order: str = "fold") -> UOp:
    """Fold from the identity. `more`: the second factor of a mulacc, then the ranges where pop is 0."""
    return UOp(Op.REDUCE, (x, *more), Fold(op, pop, order))


def where(p: UOp, a: UOp | float, b: UOp | float) -> UOp:
    """a where p holds, else b; both are evaluated."""
    kind = a.dtype if isinstance(a, UOp) else b.dtype if isinstance(b, UOp) else DType.F32
    x = a if isinstance(a, UOp) else const(kind, a)
    y = b if isinstance(b, UOp) else const(kind, b)
    shape = max(p.shape, x.shape, y.shape, key=len)
    return UOp(Op.WHERE, (broadcast(p, shape), broadcast(x, shape), broadcast(y, shape)))


def mulacc(a: UOp, b: UOp, c: UOp) -> UOp:
    """fma(a, b, c)."""
    shape = max(a.shape, b.shape, c.shape, key=len)
    return UOp(Op.MULACC, (broadcast(a, shape), broadcast(b, shape), broadcast(c, shape)))


def maximum(a: UOp, b: UOp) -> UOp:
    """where(a < b, b, a)."""
    shape = max(a.shape, b.shape, key=len)
    return UOp(Op.MAX, (broadcast(a, shape), broadcast(b, shape)))


def reciprocal(x: UOp) -> UOp:
    """1/x, correctly rounded."""
    return UOp(Op.RECIPROCAL, (x,))


def trunc(x: UOp) -> UOp:
    """x without its fraction."""
    return UOp(Op.TRUNC, (x,))


def cast(x: UOp, dtype: DType) -> UOp:
    """The value as another type."""
    return x if x.dtype is dtype else UOp(Op.CAST, (x,), dtype)


def bitcast(x: UOp, dtype: DType) -> UOp:
    """The bits as another type, f32 <-> u32."""
    return x if x.dtype is dtype else UOp(Op.BITCAST, (x,), dtype)


def shl(x: UOp, n: UOp | int) -> UOp:
    """x * 2**n, wrapping."""
    places = n if isinstance(n, UOp) else const(x.dtype, n)
    return UOp(Op.SHL, (x, broadcast(places, x.shape)))


def shr(x: UOp, n: int) -> UOp:
    """x // 2**n: a logical shift of a u32, an arithmetic one of an i32."""
    return x if n == 0 else x // (2**n)


def equal(a: UOp, b: UOp | float) -> UOp:
    """a == b, for integers: neither is less."""
    return logical_not(logical_or(a < b, a > b))


def logical_not(p: UOp) -> UOp:
    """Not p."""
    return p ^ 1


def logical_and(a: UOp, b: UOp) -> UOp:
    """Both."""
    return a * b


def logical_or(a: UOp, b: UOp) -> UOp:
    """Either; an ADD of bools is an or."""
    return a + b


def load(place: UOp) -> UOp:
    """The element at an INDEX."""
    return UOp(Op.LOAD, (place,))


def store(place: UOp, value: UOp) -> UOp:
    """Writes the element at an INDEX."""
    return UOp(Op.STORE, (place, value))


def after(storage: UOp, *effects: UOp) -> UOp:
    """The storage once the effects are done."""
    return UOp(Op.AFTER, (storage, *effects))


def end(effect: UOp, *ranges: UOp) -> UOp:
    """Closes loops around an effect, the first range outermost."""
    return UOp(Op.END, (effect, *ranges)) if ranges else effect


def group(*effects: UOp) -> UOp:
    """Several effects as one."""
    return effects[0] if len(effects) == 1 else UOp(Op.STACK, effects)


def barrier(*effects: UOp) -> UOp:
    """All threads have done the effects."""
    return UOp(Op.BARRIER, effects)


def reshape(x: UOp, *shape: int) -> UOp:
    """The same elements in row-major order."""
    return UOp(Op.RESHAPE, (x,), shape)


def permute(x: UOp, *order: int) -> UOp:
    """Axis i of the result is axis order[i] of x."""
    return UOp(Op.PERMUTE, (x,), order)


def expand(x: UOp, *sizes: int) -> UOp:
    """Axes prepended, the value repeated along them."""
    return UOp(Op.EXPAND, (x,), sizes) if sizes else x


def shrink(x: UOp, offsets: tuple[int, ...], shape: tuple[int, ...]) -> UOp:
    """x[offset : offset + size] along every axis."""
    return UOp(Op.SHRINK, (x, *(i32(o) for o in offsets)), shape)


def stack(*parts: UOp) -> UOp:
    """Values of one shape below a new leading axis; of constants, a table."""
    return UOp(Op.STACK, parts)


def broadcast_last(x: UOp, n: int) -> UOp:
    """[..., n]: each element of a rank-1 value repeated along a new last axis."""
    return permute(expand(x, n), 1, 0)
