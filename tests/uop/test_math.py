"""Accuracy of the own transcendentals against numpy's extended precision, special values, and equal bytes."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from circuit.uop import math as m
from circuit.uop.build import param
from circuit.uop.evaluate import evaluate
from circuit.uop.node import DType, UOp, f32_bits
from tests.uop.numpy_runner import run

Wide = npt.NDArray[Any]  # longdouble
Bits = npt.NDArray[np.uint32]
X = param(0, DType.F32)
LIMIT = 2.0**22

pytestmark = pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="needs an extended type as the oracle")


def _sigmoid(x: Wide) -> Wide:
    return 1 / (1 + np.exp(-x))


def _silu(x: Wide) -> Wide:
    return x * _sigmoid(x)


def _rsqrt(x: Wide) -> Wide:
    return 1 / np.sqrt(x)


def _patterns(lo: float, hi: float, seed: int) -> Bits:
    """All bit patterns at random, then values spread evenly over lo .. hi and over a part around its middle."""
    drawn = np.random.default_rng(seed)
    middle, half = (lo + hi) / 2, (hi - lo) / 200
    even = np.concatenate([drawn.uniform(lo, hi, 150_000), drawn.uniform(middle - half, middle + half, 50_000)])
    return np.concatenate(
        [drawn.integers(0, 2**32, 200_000).astype(np.uint32), even.astype(np.float32).view(np.uint32)]
    )


def _near_quarter_turns() -> Bits:
    """The float32 next to n * pi/2, where the reduction cancels most."""
    n = np.random.default_rng(9).integers(1, 2**21, 100_000)
    multiples: Wide = n * (np.arctan(np.longdouble(1)) * 2)
    return multiples.astype(np.float32).view(np.uint32)


def _largest_error(f: Callable[[UOp], UOp], exact: Callable[[Wide], Wide], x: npt.NDArray[np.float32]) -> float:
    """In units of the last place of the exact value."""
    with np.errstate(all="ignore"):
        true = exact(x.astype(np.longdouble))
        found = run(f(X), {X: x})
        overflow = np.abs(true) >= np.longdouble(2) ** 128 * (1 - np.longdouble(2) ** -25)
        assert np.isinf(found[overflow]).all()
        place = np.maximum(np.floor(np.log2(np.abs(true))), -126)
        errors = (np.abs(found - true) / np.exp2(place - 23))[~overflow & (true != 0)]
    assert not np.isnan(errors).any()
    assert len(errors) > 50_000
    return float(errors.max())


@pytest.mark.parametrize(
    ("f", "exact", "lo", "hi", "bound"),
    [
        (m.exp2, np.exp2, -150.0, 128.0, 0.9),
        (m.exp2, np.exp2, -1.0, 1.0, 0.9),
        (m.exp, np.exp, -104.0, 89.0, 0.9),
        (m.exp, np.exp, -1.0, 1.0, 0.9),
        (m.log2, np.log2, 0.3, 3.0, 1.0),
        (m.log2, np.log2, 0.99, 1.01, 1.0),
        (m.rsqrt, _rsqrt, 1.0, 4.0, 0.6),
        (m.sqrt, np.sqrt, 1.0, 4.0, 0.5),
        (m.sigmoid, _sigmoid, -104.0, 89.0, 2.8),
        (m.sigmoid, _sigmoid, -8.0, 8.0, 2.8),
        (m.silu, _silu, -86.0, 89.0, 3.5),
        (m.silu, _silu, -8.0, 8.0, 3.5),
        (m.sin, np.sin, -LIMIT, LIMIT, 1.2),
        (m.sin, np.sin, -8.0, 8.0, 1.2),
        (m.cos, np.cos, -LIMIT, LIMIT, 1.2),
        (m.cos, np.cos, -8.0, 8.0, 1.2),
    ],
)
def test_error_stays_below_what_is_stated(
    f: Callable[[UOp], UOp], exact: Callable[[Wide], Wide], lo: float, hi: float, bound: float
) -> None:
    x = _patterns(lo, hi, 1).view(np.float32)
    if f in (m.sin, m.cos):
        x = np.concatenate([x, _near_quarter_turns().view(np.float32), np.arange(200_000, dtype=np.float32) * 5])
        x = x[np.abs(x) <= LIMIT]
    elif f is m.silu:
        x = x[x >= -86.0]
    elif f in (m.log2, m.sqrt, m.rsqrt):
        x = x[x > 0]
    assert _largest_error(f, exact, x[np.isfinite(x)]) <= bound


def test_square_root_equals_the_correctly_rounded_one() -> None:
    x = (np.arange(0x3F800000, 0x40800000, 31)).astype(np.uint32).view(np.float32)
    assert np.array_equal(run(m.sqrt(X), {X: x}), np.sqrt(x))


INF, NAN, TINY, LARGEST = math.inf, math.nan, 2.0**-149, 3.4028234663852886e38


@pytest.mark.parametrize(
    ("f", "x", "expected"),
    [
        (m.exp2, 0.0, 1.0),
        (m.exp2, -0.0, 1.0),
        (m.exp2, 10.0, 1024.0),
        (m.exp2, 127.0, 2.0**127),
        (m.exp2, 128.0, INF),
        (m.exp2, INF, INF),
        (m.exp2, -126.0, 2.0**-126),
        (m.exp2, -149.0, TINY),
        (m.exp2, -150.0, 0.0),
        (m.exp2, -149.99, TINY),
        (m.exp2, -INF, 0.0),
        (m.exp2, -LARGEST, 0.0),
        (m.exp2, NAN, NAN),
        (m.exp, 0.0, 1.0),
        (m.exp, 88.72284, INF),
        (m.exp, LARGEST, INF),
        (m.exp, -INF, 0.0),
        (m.exp, NAN, NAN),
        (m.log2, 1.0, 0.0),
        (m.log2, 8.0, 3.0),
        (m.log2, 2.0**-126, -126.0),
        (m.log2, TINY, -149.0),
        (m.log2, 0.0, -INF),
        (m.log2, -0.0, -INF),
        (m.log2, -1.0, NAN),
        (m.log2, -INF, NAN),
        (m.log2, INF, INF),
        (m.log2, NAN, NAN),
        (m.sin, 0.0, 0.0),
        (m.sin, -0.0, -0.0),
        (m.sin, TINY, TINY),
        (m.sin, -1e-20, -1e-20),
        (m.sin, INF, NAN),
        (m.sin, NAN, NAN),
        (m.sin, 2.0**23, NAN),
        (m.cos, 0.0, 1.0),
        (m.cos, TINY, 1.0),
        (m.cos, -INF, NAN),
        (m.cos, -(2.0**23), NAN),
        (m.rsqrt, 4.0, 0.5),
        (m.rsqrt, 2.0**-148, 2.0**74),
        (m.rsqrt, 0.0, INF),
        (m.rsqrt, -0.0, -INF),
        (m.rsqrt, INF, 0.0),
        (m.rsqrt, -1.0, NAN),
        (m.rsqrt, -INF, NAN),
        (m.rsqrt, NAN, NAN),
        (m.sqrt, 0.0, 0.0),
        (m.sqrt, -0.0, -0.0),
        (m.sqrt, 2.0**-148, 2.0**-74),
        (m.sqrt, INF, INF),
        (m.sqrt, -TINY, NAN),
        (m.sqrt, NAN, NAN),
        (m.sigmoid, 0.0, 0.5),
        (m.sigmoid, INF, 1.0),
        (m.sigmoid, -INF, 0.0),
        (m.sigmoid, NAN, NAN),
        (m.silu, 0.0, 0.0),
        (m.silu, -0.0, -0.0),
        (m.silu, INF, INF),
        (m.silu, -INF, NAN),
        (m.silu, NAN, NAN),
    ],
)
def test_special_values(f: Callable[[UOp], UOp], x: float, expected: float) -> None:
    found = evaluate(f(X), {}, {0: float(np.float32(x))})
    assert found is not None
    assert f32_bits(found) == f32_bits(expected), (found, expected)


ALL = (m.exp2, m.exp, m.log2, m.sin, m.cos, m.rsqrt, m.sqrt, m.sigmoid, m.silu)


@pytest.mark.parametrize("f", ALL)
def test_the_evaluator_and_the_sweep_give_the_same_bytes(f: Callable[[UOp], UOp]) -> None:
    x = _patterns(-130.0, 130.0, 2)[::977].view(np.float32)
    swept = run(f(X), {X: x})
    for value, expected in zip(x, swept, strict=True):
        found = evaluate(f(X), {}, {0: float(value)})
        assert found is not None
        assert f32_bits(found) == f32_bits(float(expected)), value


@pytest.mark.parametrize("f", ALL)
def test_works_on_shaped_values(f: Callable[[UOp], UOp]) -> None:
    assert f(param(0, DType.F32, (3, 4))).shape == (3, 4)
