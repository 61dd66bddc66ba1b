"""Rewrites for processors: the same values in fewer instructions. Each is exact."""

from circuit.sigma.storage_codes import decode_f16
from circuit.uop.bounds import bounds
from circuit.uop.node import Const, DType, Op, UOp, const, f32_value, toposort
from circuit.uop.simplify import simplify

_INFINITY = 0x7F800000
_BYTE, _WORD = 8, 32
_TOP = 28  # where the highest four bits of a word begin


def fit_to_processor(roots: tuple[UOp, ...]) -> tuple[UOp, ...]:
    """The programs with every rule applied once, from the leaves up."""
    for node in toposort(*roots, leaves=_FITTED):
        if node not in _FITTED:
            src = tuple(_FITTED[s] for s in node.src)
            same = node if src == node.src else UOp(node.op, src, node.arg)
            _FITTED[node] = _field(same) or _code_in_place(same) or same
    return tuple(_FITTED[root] for root in roots)


_FITTED: dict[UOp, UOp] = {}  # what a node becomes depends on nothing but the node


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


def mask_of(node: UOp) -> tuple[UOp, int] | None:
    """The word and the mask that a value is their `&` of: some bits of a word, where they are."""
    if node.op is not Op.SHL or node.src[1].op is not Op.CONST:
        return None
    below, bits = _bits(node.src[1]), _WORD - _bits(node.src[1])
    field = node.src[0]
    if field.op is Op.FLOORMOD and _power(field.src[1]) is not None:
        bits = _power(field.src[1]) or 0
        field = field.src[0]
    if bits + below > _WORD or field.op is not Op.FLOORDIV or _power(field.src[1]) != below:
        return None
    return field.src[0], (1 << (below + bits)) - (1 << below)


def byte_on_top_of(node: UOp) -> tuple[UOp, int] | None:
    """The word and the place of its byte, 0 to 2, that a value has at its top above zeros."""
    if node.op is not Op.SHL or node.src[1].op is not Op.CONST or _bits(node.src[1]) != _WORD - _BYTE:
        return None
    value = node.src[0]
    if value.dtype is DType.U32:
        return value, 0
    if value.op is not Op.FLOORDIV or _power(value.src[1]) != _WORD - _BYTE or value.src[0].op is not Op.CAST:
        return None
    top = value.src[0].src[0]
    if top.op is not Op.SHL or top.src[1].op is not Op.CONST or _bits(top.src[1]) not in (8, 16):
        return None
    return top.src[0], (_WORD - _BYTE - _bits(top.src[1])) // _BYTE


def nibble_on_top_of(node: UOp) -> tuple[UOp, int] | None:
    """The word and the place of its four bits, 0 to 7, that a value has at its top, less 8, above zeros."""
    if node.op is not Op.SHL or node.dtype is not DType.I32 or node.src[1] is not const(DType.I32, _TOP):
        return None
    return signed_nibble_of(node.src[0])


def signed_nibble_of(code: UOp) -> tuple[UOp, int] | None:
    """The word and the place of its four bits that a value is, less 8."""
    if code.op is not Op.ADD or code.src[1] is not const(DType.I32, -8) or code.src[0].op is not Op.CAST:
        return None
    bits = code.src[0].src[0]
    if bits.dtype is not DType.U32 or bounds(bits) != (0, 15):
        return None
    field = bits.src[0] if bits.op is Op.FLOORMOD and _power(bits.src[1]) == 4 else bits
    if field.op is Op.FLOORDIV and (below := _power(field.src[1])) and below % 4 == 0:
        return (field.src[0], below // 4) if field.src[0].op is not Op.SHL else None
    return (field, 0) if field is not bits and field.op is not Op.SHL else None


def _field(node: UOp) -> UOp | None:
    """(x << a) >> b = (x >> (b - a)) & (2**(32 - b) - 1) for u32 and a <= b: a mask costs less than a shift."""
    if node.op is not Op.FLOORDIV or node.dtype is not DType.U32 or node.src[0].op is not Op.SHL:
        return None
    (x, a), b = node.src[0].src, _power(node.src[1])
    if a.op is not Op.CONST or not b or b < _bits(a):
        return None
    moved = x if b == _bits(a) else UOp(Op.FLOORDIV, (x, const(DType.U32, 1 << (b - _bits(a)))))
    return UOp(Op.FLOORMOD, (moved, const(DType.U32, 1 << (32 - b))))


def _code_in_place(node: UOp) -> UOp | None:
    """code * scale [+ m] = (code * 2**s) * (scale * 2**-s) [+ m]: a code is not moved to the lowest bits of its word.

    The scale is an f16, so 0 or at least 2**-24, and 2**-s of it is exact down to s = 102: both products are the same
    number, 0, infinity and NaN too. A code has at most 8 bits, so its cast is exact. Nibbles are left where they are in
    bytes 0 and 2 of a word; those of the other bytes are moved there, both of a byte at once: with more scales than
    these four, registers run out. Signed codes go to the top of a word, where their sign is the word's.
    """
    if node.op not in (Op.MUL, Op.MULACC) or node.src[0].op is not Op.CAST or node.dtype is not DType.F32:
        return None
    code, scale = node.src[0].src[0], node.src[1]
    moved = _signed_byte_in_place(code) or _signed_nibble_on_top(code) or _nibble_in_place(code)
    if moved is None or half_of(scale) is None:
        return None
    value, s = moved
    if s == 0:
        return None
    scaled = UOp(Op.MUL, (scale, const(DType.F32, 2.0**-s)))
    return UOp(node.op, (UOp(Op.CAST, (value,), DType.F32), scaled, *node.src[2:]))


def _nibble_in_place(code: UOp) -> tuple[UOp, int] | None:
    """Four bits of a word, and the place where they are left."""
    if code.dtype is not DType.U32 or bounds(code) != (0, 15):
        return None
    field = code.src[0] if code.op is Op.FLOORMOD and _power(code.src[1]) == 4 else code
    if field.op is not Op.FLOORDIV or not (s := _power(field.src[1])):
        return None
    word = field.src[0]
    if word.op is Op.SHL:
        return None  # by a place that is not known yet
    if s // _BYTE % 2:
        word, s = UOp(Op.FLOORDIV, (word, const(DType.U32, 1 << _BYTE))), s - _BYTE
    low = UOp(Op.FLOORDIV, (word, const(DType.U32, 1 << s))) if s else word
    bits = UOp(Op.FLOORMOD, (low, const(DType.U32, 16)))
    return (UOp(Op.SHL, (bits, const(DType.U32, s))) if s else bits), s


def _signed_byte_in_place(code: UOp) -> tuple[UOp, int] | None:
    """A signed byte that is moved to the top of its word, and left there."""
    s = _WORD - _BYTE
    if code.op is not Op.FLOORDIV or code.dtype is not DType.I32 or _power(code.src[1]) != s:
        return None
    top = code.src[0]
    if top.op is Op.CAST and top.src[0].op is Op.SHL:
        if top.src[0].src[1].op is not Op.CONST:
            return None
        if _bits(top.src[0].src[1]) == s:
            return top, s  # there is nothing below it
    return UOp(Op.SHL, (code, const(DType.I32, s))), s


def _signed_nibble_on_top(code: UOp) -> tuple[UOp, int] | None:
    """Four bits of a word less 8, and the place where they are moved to."""
    return (UOp(Op.SHL, (code, const(DType.I32, _TOP))), _TOP) if signed_nibble_of(code) is not None else None


def _power(node: UOp) -> int | None:
    """n of a constant 2**n."""
    if node.op is not Op.CONST or _bits(node) <= 0 or _bits(node) & (_bits(node) - 1):
        return None
    return _bits(node).bit_length() - 1


def _bits(node: UOp) -> int:
    assert isinstance(node.arg, Const), node
    return node.arg.bits
