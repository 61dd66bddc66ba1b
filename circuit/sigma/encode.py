"""Values into u32 words as UOps, each rounded once: f16, bf16, and signed bytes under a scale."""

import math

from circuit.uop.build import bitcast, f32, reciprocal, reduce, u32, where
from circuit.uop.build import mulacc as fma
from circuit.uop.node import DType, UOp

LARGEST_CODE = 127
_INFINITY = 0x7F800000
_TO_INTEGER = 1.5 * 2.0**23
"""A float32 so large that its unit is 1: what is added to it is rounded to an integer, ties to even."""
_SMALL = 2.0**-64
"""Below it, values are made larger by 2**64 before they are divided, so that no step but the last is subnormal."""


def encode_f16(x: UOp) -> UOp:
    """The f16 bits nearest to x, ties to even, as a u32 below 2**16; what is too large is infinite, NaN is 0x7e00."""
    bits = bitcast(x, DType.U32)
    magnitude = bits % 0x80000000
    # Below 2**-14 the unit is 2**-24, which is that of a sum with 0.5.
    small = bitcast(bitcast(magnitude, DType.F32) + f32(0.5), DType.U32) + u32(-0x3F000000 % 2**32)
    normal = (magnitude + u32((0xFFF - 0x38000000) % 2**32) + magnitude // 2**13 % 2) // 2**13
    finite = where(magnitude < 0x38800000, small, normal)
    beyond = where(magnitude < _INFINITY + 1, u32(0x7C00), u32(0x7E00))
    return where(magnitude < 0x477FF000, finite, beyond) + bits // 0x80000000 * 0x8000


def encode_bf16(x: UOp) -> UOp:
    """The bf16 bits nearest to x, ties to even, as a u32 below 2**16; what is too large is infinite, NaN is 0x7fc0."""
    bits = bitcast(x, DType.U32)  # of a NaN the canonical ones, which no rounding changes
    return (bits + u32(0x7FFF) + bits // 2**16 % 2) // 2**16


def magnitude_of(values: UOp, k: UOp) -> UOp:
    """The largest magnitude of the values along the range k; NaN where one is NaN. Exact in any order."""
    return bitcast(reduce("max", bitcast(values, DType.U32) % 0x80000000, k), DType.F32)


def scale_of(magnitude: UOp) -> UOp:
    """magnitude / 127 rounded to float32: the scale under which signed bytes hold values of that magnitude.

    A quotient that is subnormal is rounded twice. Infinite and NaN magnitudes are their own scales.
    """
    return _per_code(magnitude * _enlarging(magnitude)) * where(magnitude < _SMALL, f32(2.0**-64), f32(1.0))


def encode_int8(x: UOp, magnitude: UOp) -> UOp:
    """The byte of x / scale rounded to an integer, ties to even: -127 to 127 in two's complement, as a u32 below 256.

    The quotient is a product with the rounded 1/scale. It is 0 where there is no finite product: where the scale is 0,
    infinite or NaN. No magnitude is above the one that made the scale, so no code is beyond 127.
    """
    larger = _enlarging(magnitude)
    code = x * larger * reciprocal(_per_code(magnitude * larger)) + _TO_INTEGER
    return bitcast(code, DType.U32) % 256


def _per_code(magnitude: UOp) -> UOp:
    """magnitude / 127, by the remainder of a product with 1/127: exact rounding, as Markstein 1990 (IBM J. Res. Dev.
    34(1)) shows.
    """
    guess = magnitude * (1.0 / LARGEST_CODE)
    quotient = fma(fma(guess, f32(-LARGEST_CODE), magnitude), f32(1.0 / LARGEST_CODE), guess)
    return where(magnitude < math.inf, quotient, magnitude)


def _enlarging(magnitude: UOp) -> UOp:
    return where(magnitude < _SMALL, f32(2.0**64), f32(1.0))
