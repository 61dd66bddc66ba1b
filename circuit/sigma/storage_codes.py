"""Values inside u32 words as UOps: f16, e4m3, signed bytes, fields of a few bits, codes of a table."""

from collections.abc import Callable

from circuit.uop.build import bitcast, cast, equal, f32, logical_not, shl, shr, u32, where
from circuit.uop.node import DType, UOp

Words = Callable[[UOp | int], UOp]
"""The words of a unit of a panel, by place."""

FIELDS = 8
"""Fields that a kernel unrolls: what depends on the group of a field only is computed once for the group."""


def decode_f16(half: UOp) -> UOp:
    """The value of f16 bits in the low half of a u32 whose high half is zero.

    The exponent and mantissa, moved to their f32 places, are 2**-112 times the value (subnormals too); infinities and
    NaNs take the largest exponent instead.
    """
    magnitude = half % 0x8000
    finite = bitcast(bitcast(shl(magnitude, 13), DType.F32) * f32(2.0**112), DType.U32)
    special = shl(magnitude, 13) + u32(0x70000000)
    bits = where(magnitude < 0x7C00, finite, special)
    return bitcast(bits ^ shl(half // 0x8000, 31), DType.F32)


def decode_f8_e4m3(code: UOp) -> UOp:
    """The value of the 8 bits of an e4m3 float: bias 7, no infinities, NaN where all bits but the sign are set.

    Exponent and mantissa, moved to their f32 places, are 2**-120 times the value, subnormals too.
    Source: Micikevicius et al. 2022, arXiv:2209.05433, table 1.
    """
    magnitude = code % 128
    finite = bitcast(bitcast(shl(magnitude, 20), DType.F32) * f32(2.0**120), DType.U32)
    bits = where(magnitude < 127, finite, u32(0x7FC00000))
    return bitcast(bits ^ shl(code // 128, 31), DType.F32)


def half(word: UOp, place: UOp) -> UOp:
    """The low half of a word at even places, the high half at odd ones, as a u32."""
    return where(odd(place), word // 65536, word % 65536)


def odd(place: UOp) -> UOp:
    """Whether a place is odd."""
    return logical_not(equal(place % 2, 0))


def field(word: UOp, place: UOp, width: int) -> UOp:
    """The `width` bits of a u32 at `place`, counted in fields from the lowest one on: 0 <= place < 32 / width."""
    group, inner = place // FIELDS, place % FIELDS
    own = shl(word, cast(group * (-FIELDS * width) + (32 - FIELDS * width), DType.U32)) if FIELDS * width < 32 else word
    return shr(shl(own, cast(inner * -width + (FIELDS - 1) * width, DType.U32)), 32 - width)


def nibble(word: UOp, k: UOp) -> UOp:
    """The code of input k in a word of eight: byte b holds input b in its low half and input b + 4 in its high half.

    So the low halves of the four bytes are the codes of four inputs in a row, and so are the high halves.
    """
    return field(word, k % 4 * 2 + k % 8 // 4, 4)


def fifth_bit(word: UOp, k: UOp) -> UOp:
    """The bit of input k in a word of 32: bit i of byte b is that of input 4*i + b."""
    own = shl(word, cast(k % 32 // 8 * -2 + 6, DType.U32))  # what eight inputs share
    return shr(shl(own, cast(k % 4 * -8 + k % 8 // 4 * -1 + 25, DType.U32)), 31)


def signed_byte(word: UOp, place: UOp) -> UOp:
    """Byte `place` of a u32, 0 the lowest, as an i32 of -128 to 127."""
    return shr(cast(shl(word, cast(-8 * place + 24, DType.U32)), DType.I32), 24)


def byte(word: UOp, place: UOp) -> UOp:
    """Byte `place` of a u32, 0 the lowest, as a u32."""
    return shr(shl(word, cast(-8 * place + 24, DType.U32)), 24)


def looked_up(code: UOp, values: tuple[int, ...]) -> UOp:
    """values[code] as an i32: 16 signed bytes in four constant words. `code` is a u32 below 16."""
    words = [sum((value & 0xFF) << (8 * n) for n, value in enumerate(values[at : at + 4])) for at in range(0, 16, 4)]
    low = where(code < 4, u32(words[0]), u32(words[1]))
    high = where(code < 12, u32(words[2]), u32(words[3]))
    four = where(code < 8, low, high)
    return shr(cast(shl(four, shl(u32(3) ^ code % 4, 3)), DType.I32), 24)
