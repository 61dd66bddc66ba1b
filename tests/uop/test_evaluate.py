"""The evaluator: exact float32, stated reduction orders, loops with carried values, refusals."""

import math
import struct
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from circuit.errors import RunError
from circuit.uop import build as u
from circuit.uop.evaluate import evaluate
from circuit.uop.node import Axis, DType, UOp, f32_bits, f32_value
from circuit.uop.scalar import fma, round_f32

FLOATS = st.one_of(
    st.integers(0, 2**32 - 1).map(f32_value),
    st.floats(width=32),
    st.sampled_from((0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 2.0**-149, 2.0**-126, 3.4028234663852886e38)),
)
FINITE = FLOATS.filter(math.isfinite)
TINY = 2.0**-149


def exact_f32(x: Fraction) -> float:
    """The float32 nearest to an exact number, ties to even, by integer arithmetic."""
    if x == 0:
        return 0.0
    size = abs(x)
    exponent = max(math.frexp(float(size))[1] if size >= Fraction(2) ** -1000 else -1000, -1000)
    while size >= Fraction(2) ** exponent:
        exponent += 1
    while size < Fraction(2) ** (exponent - 1) and exponent > -125:
        exponent -= 1
    step = Fraction(2) ** max(exponent - 24, -149)
    count = size / step
    whole = count.numerator // count.denominator
    rest = count - whole
    whole += rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1)
    value = whole * step
    result = math.inf if value >= Fraction(2) ** 128 else float(value)
    return -result if x < 0 else result


@settings(deadline=None, max_examples=1000)
@given(FINITE, FINITE, FINITE)
@example(1 + 2**-12, 1 + 2**-12, 2.0**-60)
@example(1 + 2**-23, 1 + 2**-23, -1.0)
@example(2.0**-75, 2.0**-75, 2.0**-149)
@example(3.4028234663852886e38, 1.0, 2.0**103)
@example(f32_value(0x3F800001), f32_value(0x33800000), f32_value(0x3F800001))
def test_fma_rounds_the_exact_result_once(a: float, b: float, c: float) -> None:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact:
        assert fma(a, b, c) == exact_f32(exact)
        assert math.copysign(1.0, fma(a, b, c)) == (1.0 if exact > 0 else -1.0)
    else:
        assert fma(a, b, c) == 0.0


@settings(deadline=None, max_examples=1500)
@given(st.integers(-149, 127), st.integers(1, 2**24 - 1), st.integers(1, 2**24 - 1), st.sampled_from((-1, 1)))
def test_fma_beside_a_rounding_boundary(exponent: int, mantissa: int, factor: int, sign: int) -> None:
    """c sits where a tiny product decides between two neighbours: a rounding through float64 gets these wrong."""
    c = round_f32(math.ldexp(mantissa, exponent - 23))
    a = round_f32(math.ldexp(factor | 1, exponent - 60))
    for b in (sign * 2.0**12, sign * 2.0**-10, sign * (2.0**12 + 2.0**-11)):
        if math.isfinite(c):
            exact = Fraction(a) * Fraction(b) + Fraction(c)
            assert fma(a, b, c) == exact_f32(exact)


@pytest.mark.parametrize(
    ("a", "b", "c", "expected"),
    [
        (math.inf, 0.0, 1.0, "nan"),
        (math.inf, 1.0, -math.inf, "nan"),
        (math.inf, -1.0, 5.0, "-inf"),
        (3e38, 3e38, -math.inf, "-inf"),
        (1.0, 1.0, -1.0, "0.0"),
        (-0.0, 1.0, -0.0, "-0.0"),
        (-0.0, 1.0, 0.0, "0.0"),
        (math.nan, 1.0, 1.0, "nan"),
        (-TINY, TINY, 0.0, "-0.0"),
    ],
)
def test_fma_of_special_values(a: float, b: float, c: float, expected: str) -> None:
    assert str(fma(a, b, c)) == expected


X, Y = u.param(0, DType.F32), u.param(1, DType.F32)
M, N = u.param(0, DType.I32), u.param(1, DType.I32)
W = u.param(0, DType.U32)


def _same(a: float, b: float) -> bool:
    return f32_bits(a) == f32_bits(b)


@settings(deadline=None, max_examples=1000)
@given(FLOATS, FLOATS)
def test_float_ops_equal_numpy_float32(a: float, b: float) -> None:
    x, y = np.float32(a), np.float32(b)
    with np.errstate(all="ignore"):
        expected = {X + Y: x + y, X * Y: x * y, u.reciprocal(X): np.float32(1) / x, u.trunc(X): np.trunc(x)}
        expected |= {X < Y: x < y, u.maximum(X, Y): y if x < y else x, X - Y: x - y}
    for program, value in expected.items():
        found = evaluate(program, {}, {0: a, 1: b})
        assert found is not None
        assert _same(found, float(value)), program


def _value(root: UOp, *args: float) -> float | None:
    return evaluate(root, {}, dict(enumerate(args)))


@pytest.mark.parametrize(
    ("program", "args", "expected"),
    [
        (u.cast(X, DType.I32), (3.99,), 3),
        (u.cast(X, DType.I32), (-3.99,), -3),
        (u.cast(X, DType.I32), (1e10,), 2**31 - 1),
        (u.cast(X, DType.I32), (-math.inf,), -(2**31)),
        (u.cast(X, DType.I32), (math.nan,), 0),
        (u.cast(X, DType.U32), (-1.0,), 0),
        (u.cast(X, DType.U32), (4294967040.0,), 4294967040),
        (u.cast(M, DType.F32), (2**24 + 1,), 2.0**24),
        (u.cast(M, DType.F32), (2**24 + 3,), 2.0**24 + 4),
        (u.cast(M, DType.U32), (-1,), 2**32 - 1),
        (u.cast(W, DType.I32), (2**32 - 1,), -1),
        (M + N, (2**31 - 1, 1), -(2**31)),
        (M * N, (65536, 65536), 0),
        (M // N, (-7, 2), -4),
        (M % N, (-7, 2), 1),
        (M // N, (7, -2), -4),
        (M % N, (7, -2), -1),
        (u.shl(M, N), (3, 31), -(2**31)),
        (W + 1, (2**32 - 1,), 0),
        (u.bitcast(X, DType.U32), (-math.nan,), 0x7FC00000),
        (u.bitcast(W, DType.F32), (0x80000000,), -0.0),
        (u.where(X < Y, X, Y), (1.0, math.nan), math.nan),
        (u.maximum(X, Y), (math.nan, 1.0), math.nan),
        (u.maximum(X, Y), (1.0, math.nan), 1.0),
        (u.maximum(X, Y), (-0.0, 0.0), -0.0),
        (u.equal(M, N), (4, 4), 1),
    ],
)
def test_value_of_each_op(program: UOp, args: tuple[float, ...], expected: float) -> None:
    found = _value(program, *args)
    assert found is not None
    assert found == expected or (math.isnan(found) and math.isnan(expected))
    assert math.copysign(1, found) == math.copysign(1, expected) or math.isnan(expected)


def _numbers(n: int, seed: int) -> list[float]:
    drawn = np.random.default_rng(seed).standard_normal(n).astype(np.float32)
    return [float(x) for x in drawn * np.float32(10.0) ** (np.arange(n) % 5).astype(np.float32)]


def _sum(n: int, order: str) -> UOp:
    r = u.loop("r", n)
    return u.reduce("add", u.load(u.index(u.param(0, DType.F32, (n,)), r)), r, order=order)


@pytest.mark.parametrize("n", [0, 1, 255, 256, 257, 700])
def test_fold_256_adds_chunks_from_zero(n: int) -> None:
    x = np.array(_numbers(n, 1), dtype=np.float32)
    total = np.float32(0)
    for first in range(0, n, 256):
        chunk = np.float32(0)
        for element in x[first : first + 256]:
            chunk = chunk + element
        total = total + chunk
    assert evaluate(_sum(n, "fold:256"), {0: x.tolist()}, {}) == float(total)


@pytest.mark.parametrize("n", [0, 1, 127, 128, 129, 576])
def test_lanes_128_folds_lanes_then_halves(n: int) -> None:
    x = np.array(_numbers(n, 2), dtype=np.float32)
    lane = np.zeros(128, dtype=np.float32)
    for i, element in enumerate(x):
        lane[i % 128] = lane[i % 128] + element
    for half in (64, 32, 16, 8, 4, 2, 1):
        lane[:half] = lane[:half] + lane[half : 2 * half]
    assert evaluate(_sum(n, "lanes:128"), {0: x.tolist()}, {}) == float(lane[0])


def test_fold_goes_left_to_right_over_all_ranges() -> None:
    x = _numbers(60, 3)
    i, j = u.loop("i", 6), u.loop("j", 10)
    total = u.reduce("add", u.load(u.index(u.param(0, DType.F32, (60,)), i * 10 + j)), i, j)
    expected = np.float32(0)
    for element in x:
        expected = expected + np.float32(element)
    assert evaluate(total, {0: x}, {}) == float(expected)


@pytest.mark.parametrize(("op", "expected"), [("max", 4.0), ("mul", -24.0), ("add", 6.0)])
def test_other_folds(op: str, expected: float) -> None:
    r = u.loop("r", 4)
    x = u.load(u.index(u.param(0, DType.F32, (4,)), r))
    assert evaluate(u.reduce(op, x, r), {0: [1.0, -2.0, 4.0, 3.0]}, {}) == expected


def test_a_reduce_over_nothing_gives_the_identity() -> None:
    r = u.loop("r", u.param(1, DType.I32, (), "n", 0, 4))
    x = u.load(u.index(u.param(0, DType.F32, (4,)), r))
    args: dict[int, float] = {1: 0}
    assert evaluate(u.reduce("max", x, r), {0: [1.0] * 4}, args) == -math.inf
    assert evaluate(u.reduce("add", x, r), {0: [1.0] * 4}, args) == 0.0


def test_matrix_product_by_mulacc_equals_a_loop_of_fma() -> None:
    rows, inner, columns = 3, 300, 2
    a, b = _numbers(rows * inner, 4), _numbers(inner * columns, 5)
    i, j, k = u.loop("i", rows), u.loop("j", columns, Axis.THREAD), u.loop("k", inner)
    left = u.load(u.index(u.param(0, DType.F32, (rows * inner,)), i * inner + k))
    right = u.load(u.index(u.param(1, DType.F32, (inner * columns,)), k * columns + j))
    out = u.index(u.param(2, DType.F32, (rows * columns,)), i * columns + j)
    program = u.end(u.store(out, u.reduce("mulacc", left, right, k, order="fold:256")), i, j)
    result = [math.nan] * (rows * columns)
    evaluate(program, {0: a, 1: b, 2: result}, {})
    for row in range(rows):
        for column in range(columns):
            total = 0.0
            for first in range(0, inner, 256):
                chunk = 0.0
                for at in range(first, min(first + 256, inner)):
                    chunk = fma(a[row * inner + at], b[at * columns + column], chunk)
                total = round_f32(total + chunk)
            assert result[row * columns + column] == total


def test_a_scan_carries_two_values_in_an_alloc() -> None:
    """Argmax of each row: the first largest element."""
    o, r = u.loop("o", 2), u.loop("r", 5)
    best, place = u.alloc(0, 1, DType.F32, "best"), u.alloc(1, 1, DType.I32, "place")
    x = u.load(u.index(u.param(0, DType.F32, (10,)), o * 5 + r))
    start = u.group(
        u.store(u.index(u.after(best, o), 0), u.f32(-math.inf)), u.store(u.index(u.after(place, o), 0), u.i32(0))
    )
    had, at = u.load(u.index(u.after(best, start, r), 0)), u.load(u.index(u.after(place, start, r), 0))
    step = u.group(
        u.store(u.index(u.after(best, start), 0), u.where(had < x, x, had)),
        u.store(u.index(u.after(place, start), 0), u.where(had < x, r, at)),
    )
    done = u.end(step, r)
    program = u.end(u.store(u.index(u.param(1, DType.I32, (2,)), o), u.load(u.index(u.after(place, done), 0))), o)
    out = [-1.0, -1.0]
    evaluate(program, {0: [1.0, 7.0, 3.0, 7.0, 0.0, -5.0, -2.0, -9.0, -2.0, -4.0], 1: out}, {})
    assert out == [1, 1]


def test_a_value_that_many_loops_share_is_computed_once_a_turn() -> None:
    """Sixty doublings of a shared node, and a reduce that does not depend on the loop around it."""
    r, s = u.loop("r", 3), u.loop("s", 4)
    shared = u.reduce("add", u.cast(s, DType.F32), s)
    for _ in range(60):
        shared = shared + shared
    total = u.reduce("add", shared * u.cast(r, DType.F32), r)
    assert evaluate(total) == 6.0 * 2.0**60 * 3.0


def test_a_deep_chain_needs_no_recursion() -> None:
    x: UOp = X
    for k in range(20000):
        x = x + float(k % 3)
    assert _value(x, 0.0) == float(sum(k % 3 for k in range(20000)))


def test_places_with_several_axes_are_row_major() -> None:
    x = u.param(0, DType.F32, (2, 3))
    assert evaluate(u.load(u.index(x, 1, 2)), {0: [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]}, {}) == 5.0


def test_index_outside_its_storage_is_refused_by_name() -> None:
    place = u.index(u.param(0, DType.F32, (4,), "weights"), M)
    with pytest.raises(RunError, match=r"weights: index 4 is outside 0 \.\. 3"):
        evaluate(u.load(place), {0: [0.0] * 4}, {0: 4})


def test_reading_poison_is_refused_by_name() -> None:
    place = u.index(u.alloc(0, 4, DType.F32, "scratch"), 2)
    with pytest.raises(RunError, match="scratch: element 2 is read before anything wrote it"):
        evaluate(u.load(place))


def test_a_short_buffer_is_refused_by_name() -> None:
    place = u.index(u.param(3, DType.F32, (4,)), 2)
    with pytest.raises(RunError, match="param 3: element 2 is used, the buffer given has 2"):
        evaluate(u.load(place), {3: [0.0, 1.0]})


def test_rounding_to_float32_equals_struct() -> None:
    for bits in range(0, 2**32, 2**32 // 997):
        value = struct.unpack("<f", struct.pack("<I", bits))[0]
        assert round_f32(value) == value or value != value
    assert round_f32(3.4028235677973366e38) == math.inf
    assert round_f32(-1e300) == -math.inf
