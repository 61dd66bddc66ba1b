"""Rewrites for processors: the same values in fewer instructions. Each is exact."""

from circuit.sigma.storage_codes import decode_f16
from circuit.uop.bounds import bounds
from circuit.uop.node import Const, DType, Op, UOp, const, f32_value, toposort
from circuit.uop.simplify import simplify

_INFINITY = 0x7F800000


def fit_to_processor(roots: tuple[UOp, ...]) -> tuple[UOp, ...]:
    """The programs with every rule applied once, from the leaves up."""
    new: dict[UOp, UOp] = {}
    for node in toposort(*roots):
        src = tuple(new[s] for s in node.src)
        same = node if src == node.src else UOp(node.op, src, node.arg)
        new[node] = _field(same) or same
    return tuple(new[root] for root in roots)


def is_number(node: UOp) -> bool:
    """Whether a f32 is proven to be no NaN."""
    match node.op:
        case Op.CONST:
            return f32_value(_bits(node)) == f32_value(_bits(node))
        case Op.CAST:
            return True
        case Op.BITCAST if node.src[0].dtype is DType.U32:
            return bounds(node.src[0])[1] <= _INFINITY
        case Op.MUL if node.src[1].op is Op.CONST:
            factor = f32_value(_bits(node.src[1]))
            return factor != 0.0 and factor - factor == 0.0 and is_number(node.src[0])
        case Op.WHERE:
            return is_number(node.src[1]) and is_number(node.src[2])
    return False


def half_of(node: UOp) -> UOp | None:
    """The f16 bits that a value is decoded from, where it is what `decode_f16` makes of them."""
    if node.op is not Op.BITCAST or node.dtype is not DType.F32 or node.src[0].op is not Op.XOR:
        return None
    below = [s for s in toposort(node) if s.op is Op.LOAD or (s.op is Op.WHERE and s.dtype is DType.U32)]
    for word in below:
        if word.dtype is DType.U32:
            for half in (word, word % 0x10000, word // 0x10000):
                if fit_to_processor((simplify(decode_f16(half)),))[0] is node:
                    return half
    return None


def _field(node: UOp) -> UOp | None:
    """(x << a) >> b = (x >> (b - a)) & (2**(32 - b) - 1) for u32 and a <= b: a mask costs less than a shift."""
    if node.op is not Op.FLOORDIV or node.dtype is not DType.U32 or node.src[0].op is not Op.SHL:
        return None
    (x, a), divisor = node.src[0].src, node.src[1]
    if (
        a.op is not Op.CONST
        or divisor.op is not Op.CONST
        or _bits(divisor) & (_bits(divisor) - 1)
        or not _bits(divisor)
    ):
        return None
    b = _bits(divisor).bit_length() - 1
    if b < _bits(a):
        return None
    moved = x if b == _bits(a) else UOp(Op.FLOORDIV, (x, const(DType.U32, 1 << (b - _bits(a)))))
    return UOp(Op.FLOORMOD, (moved, const(DType.U32, 1 << (32 - b)))) if b else moved


def _bits(node: UOp) -> int:
    assert isinstance(node.arg, Const), node
    return node.arg.bits
