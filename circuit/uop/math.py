"""exp2, exp, log2, sin, cos, sqrt, rsqrt, sigmoid and silu as programs of basic ops, on values of any shape.

Every machine gives the same bytes, because every step is exact or rounded once. Branch-free: both sides of a WHERE are
computed. The largest errors in ulp (units in the last place of the true value), found by the sweeps of
`tests/uop/test_math.py`, are stated at each function; a NaN gives a NaN everywhere.
Polynomials: our own weighted minimax fits, coefficients rounded to float32 from the lowest up, each refitted after.
"""

import math

from circuit.uop.build import bitcast, cast, f32, maximum, mulacc, reciprocal, shl, shr, u32, where
from circuit.uop.node import DType, UOp

LOG2E = 1.4426950408889634  # log2(e)
LN2 = 0.6931471805599453  # log(2)

_ROUND = 12582912.0  # 1.5 * 2**23: adding it rounds to an integer, which the low bits then hold
_LARGEST_EXP2 = 127.99999237060547  # the largest float32 below 128
_LARGEST_EXP = 88.72283172607422  # exp of the next float32 overflows


def exp2(x: UOp) -> UOp:
    """2**x; 0.9 ulp, also where the result is subnormal."""
    x = maximum(x, f32(-151.0))
    z = x + _ROUND
    f = mulacc(z + -_ROUND, f32(-1.0), x)
    p = _polynomial(f, 1.0, 0.6931472, 0.24022648, 0.0555036, 0.009618506, 0.0013390806, 0.00015326463)
    return where(x > _LARGEST_EXP2, math.inf, _scaled(p, z, x < -125.0))


def exp(x: UOp) -> UOp:
    """e**x; 0.9 ulp, also where the result is subnormal."""
    return where(x > _LARGEST_EXP, math.inf, _exp_without_overflow(x))


def log2(x: UOp) -> UOp:
    """The base-2 logarithm; 1 ulp. log2(0) = -inf, of a negative number NaN."""
    tiny = x < 2.0**-126
    shifted = bitcast(where(tiny, x * 2.0**23, x), DType.U32) - _SQRT_HALF
    exponent = cast(cast(shifted, DType.I32) // 2**23, DType.F32) + where(tiny, f32(-23.0), f32(0.0))
    t = bitcast(shifted % 2**23 + _SQRT_HALF, DType.F32) + -1.0  # sqrt(1/2) - 1 .. sqrt(2) - 1
    tail = _polynomial(t, 0.44269505, -0.7213475, 0.4808965, -0.3606826, 0.28861883, *_LOG2_TAIL)  # log2(1+t)/t - 1
    result = mulacc(t, tail, t) + exponent
    at_most_zero = where(x < 0.0, math.nan, f32(-math.inf))
    return where(x < math.inf, where(x > 0.0, result, at_most_zero), x)


def sin(x: UOp) -> UOp:
    """The sine of x radians; 1.2 ulp for |x| <= 2**22. NaN beyond: no caller is meant to come there."""
    return _sine(x, 0)


def cos(x: UOp) -> UOp:
    """The cosine of x radians; 1.2 ulp for |x| <= 2**22. NaN beyond: no caller is meant to come there."""
    return _sine(x, 1)


def rsqrt(x: UOp) -> UOp:
    """1/sqrt(x); 0.6 ulp. rsqrt(0) = inf, rsqrt(-0) = -inf, rsqrt(inf) = 0, of a negative number NaN."""
    tiny = x < 2.0**-126
    y = _rsqrt_of_normal(where(tiny, x * 2.0**24, x)) * where(tiny, f32(2.0**12), f32(1.0))
    return where(x > 0.0, where(x < math.inf, y, 0.0), where(x < 0.0, math.nan, reciprocal(x)))


def sqrt(x: UOp) -> UOp:
    """The square root, correctly rounded: all 2**24 normal mantissas were tried. sqrt(-0) = -0, of a negative NaN."""
    tiny = x < 2.0**-100
    scaled = where(tiny, x * 2.0**48, x)
    y = _rsqrt_of_normal(scaled)
    root = scaled * y
    rest = mulacc(root * -1.0, root, scaled)
    root = mulacc(rest, y * 0.5, root) * where(tiny, f32(2.0**-24), f32(1.0))
    return where(x > 0.0, where(x < math.inf, root, x), where(x < 0.0, math.nan, x))


def sigmoid(x: UOp) -> UOp:
    """1/(1 + exp(-x)); 2.8 ulp."""
    e = _exp_without_overflow(bitcast(bitcast(x, DType.U32) % 2**31 + 2**31, DType.F32))  # exp(-|x|)
    return where(x < 0.0, e, 1.0) * reciprocal(e + 1.0)


def silu(x: UOp) -> UOp:
    """x * sigmoid(x); 3.5 ulp down to x = -86, below which sigmoid is subnormal. silu(-inf) = NaN, as the product."""
    return x * sigmoid(x)


def _polynomial(x: UOp, *coefficients: float) -> UOp:
    """Horner's rule by fma; the constant comes first."""
    total = mulacc(f32(coefficients[-1]), x, f32(coefficients[-2]))
    for c in reversed(coefficients[:-2]):
        total = mulacc(total, x, f32(c))
    return total


def _scaled(p: UOp, z: UOp, low: UOp) -> UOp:
    """p * 2**n where z = n + _ROUND and p is in 0.7 .. 1.5; where `low`, by way of 2**(n + 64) to round once."""
    n = bitcast(z, DType.U32) + where(low, u32(64), u32(0))
    return bitcast(bitcast(p, DType.U32) + shl(n, 23), DType.F32) * where(low, f32(2.0**-64), f32(1.0))


def _exp_without_overflow(x: UOp) -> UOp:
    """exp(x) for x <= _LARGEST_EXP."""
    x = maximum(x, f32(-104.0))
    z = mulacc(x, f32(LOG2E), f32(_ROUND))
    n = z + -_ROUND
    r = mulacc(n, f32(1.9046542121259336e-09), mulacc(n, f32(-0.6931471824645996), x))  # log(2) in two parts
    p = _polynomial(r, 1.0, 1.0, 0.49999994, 0.16666521, 0.041668274, 0.008368686, 0.0013820136)
    return _scaled(p, z, x < -86.0)


_SQRT_HALF = 0x3F3504F3  # the bits of sqrt(1/2)
_LOG2_TAIL = (-0.2399512, 0.20415547, -0.18826209, 0.18687753, -0.11638975)


def _sine(x: UOp, quarter_turns: int) -> UOp:
    """sin(x + quarter_turns * pi/2).

    x = n * pi/2 + r + rest, with pi/2 in three parts (Cody and Waite) and |r| < 0.92. The first fma is exact: both
    terms are multiples of 2**-24, of 2**-23 for |x| >= 1, and differ by less than 2. The sum `near` loses exactly
    second - (near - first), because `first` is a multiple of the last place of `second` (Dekker's fast two-sum).
    """
    z = mulacc(x, f32(0.6366197466850281), f32(_ROUND))
    n = z + -_ROUND
    first = mulacc(n, f32(-1.5707963705062866), x)
    second = n * 4.371138828673793e-08
    lost = mulacc(n, f32(1.7151245100058819e-15), mulacc(n, f32(4.371138828673793e-08), second * -1.0))
    near = first + second
    rest = mulacc(mulacc(first, f32(-1.0), near), f32(-1.0), second) + lost
    r = near + rest
    rest = mulacc(r, f32(-1.0), near) + rest
    square = r * r
    sine = r + mulacc(r * square, _polynomial(square, -0.16666667, 0.008333364, -0.00019845663, 2.7529584e-06), rest)
    bend = _polynomial(square, -0.5, 0.041666612, -0.0013885916, 2.429558e-05)
    cosine = mulacc(square, bend, r * rest * -1.0) + 1.0
    turns = bitcast(z, DType.U32) + quarter_turns
    chosen = where(turns % 2 > u32(0), cosine, sine)
    signed = bitcast(bitcast(chosen, DType.U32) ^ shl(shr(turns, 1), 31), DType.F32)
    size = x * x
    inside = where(size > 2.0**44, math.nan, signed)
    return inside if quarter_turns else where(size < 2.0**-24, x, inside)  # sin(x) = x there, and -0 stays -0


def _rsqrt_of_normal(x: UOp) -> UOp:
    """1/sqrt(x) for positive normal x: a guess from the bits, one tuned Newton step, one step of third order.

    Source of the guess and its step: J. F. Blinn's and J. Kadlec's constants (2010), largest relative error 6.5e-4.
    """
    y = bitcast(u32(0x5F1FFFF9) - shr(bitcast(x, DType.U32), 1), DType.F32)
    y = y * 0.703952253 * mulacc(x * y, y * -1.0, f32(2.38924456))
    t = x * y
    e = mulacc(t, y * -1.0, f32(1.0))  # 1 - x*y*y, the rounding error of t taken off
    e = mulacc(mulacc(x, y, t * -1.0), y * -1.0, e)
    return mulacc(y * e, mulacc(e, f32(0.375), f32(0.5)), y)
