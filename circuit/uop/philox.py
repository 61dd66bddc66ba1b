"""Philox4x32-10, a counter-based random number generator, as a program of u32 ops on values of any shape.

Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011; test vectors of Random123.
The numbers are addressed: the same key and counter give the same bits on every machine, in any order.
"""

from circuit.uop.build import cast, f32, shr, u32
from circuit.uop.node import DType, UOp

Key = tuple[UOp, UOp]
Counter = tuple[UOp, UOp, UOp, UOp]

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10


def philox4x32(key: Key, counter: Counter) -> Counter:
    """Four u32 values of random bits for two u32 of key and four of counter."""
    c0, c1, c2, c3 = counter
    for turn in range(_ROUNDS):
        k0, k1 = (k + (weyl * turn) % 2**32 for k, weyl in zip(key, _WEYL, strict=True))
        high0, high1 = _high_product(c0, _MULTIPLIERS[0]), _high_product(c2, _MULTIPLIERS[1])
        low0, low1 = c0 * u32(_MULTIPLIERS[0]), c2 * u32(_MULTIPLIERS[1])
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
    return c0, c1, c2, c3


def uniform(bits: UOp) -> UOp:
    """A float32 in (0, 1): the middles of 2**23 equal parts, exactly, by the upper 23 of u32 bits."""
    return (cast(shr(bits, 9), DType.F32) + f32(0.5)) * f32(2.0**-23)


def _high_product(a: UOp, constant: int) -> UOp:
    """The upper 32 bits of a * constant, from products of 16-bit halves: no step overflows."""
    high, low = constant >> 16, constant & 0xFFFF
    a_high, a_low = shr(a, 16), a % 2**16
    middle = a_high * low + shr(a_low * low, 16)
    other = a_low * high + middle % 2**16
    return a_high * high + shr(middle, 16) + shr(other, 16)
