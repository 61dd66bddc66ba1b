"""Proofs of range: never wrong, and found where a loop ends at a value that stands elsewhere too."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from circuit.uop.build import i32, index, load, loop, maximum, param, where
from circuit.uop.node import DType, UOp
from circuit.uop.within import within
from tests.uop.index_programs import PROGRAMS, Values, meaning

N = param(1, DType.I32, (), "n", 0, 20)
SIZES = (2, 3, 4, 8, 16)
Step = tuple[int, int, int, int, int]


@settings(deadline=None, max_examples=300)
@given(PROGRAMS)
def test_no_range_is_proven_that_a_value_leaves(programs: tuple[UOp, UOp]) -> None:
    values = meaning(programs[0])
    least, most = int(values.min()), int(values.max())
    assert not within(programs[0], least + 1, 2**31 - 1)
    assert not within(programs[0], -(2**31), most - 1)


def _term(values: list[UOp], step: Step) -> UOp:
    what, a, b, k, m = step
    x, y, d, e = values[a % len(values)], values[b % len(values)], SIZES[k % 5], SIZES[m % 5]
    choices = (
        lambda: x + y * (m - 8),
        lambda: x // d * d + y,
        lambda: x % d + y * d,
        lambda: (x + y) // d - y // e,
        lambda: x * d // e + k,
        lambda: where(x < y + (k - 8), x, y),
        lambda: where(x * d < y, y - x * d, i32(m)),
        lambda: maximum(x, y - k),
    )
    return choices[what % len(choices)]()


_NUMBER = st.integers(0, 15)
STEPS = st.lists(st.tuples(_NUMBER, _NUMBER, _NUMBER, _NUMBER, _NUMBER), min_size=1, max_size=3)


@settings(deadline=None, max_examples=500)
@given(STEPS, STEPS, STEPS)
def test_no_range_is_proven_that_a_loop_with_such_an_end_leaves(
    r_end: list[Step], s_end: list[Step], body: list[Step]
) -> None:
    r = loop("r", _program([N], r_end))
    s = loop("s", _program([N, r], s_end))
    value = _program([N, r, s], body)
    grid = np.meshgrid(np.arange(21), np.arange(14), np.arange(14), indexing="ij")
    points: dict[UOp, Values] = dict(zip((N, r, s), (axis.ravel().astype(np.int64) for axis in grid), strict=True))
    runs = (points[r] < meaning(r.src[0], points)) & (points[s] < meaning(s.src[0], points))
    if runs.any():
        values = meaning(value, points)[runs]
        assert not within(value, int(values.min()) + 1, 2**31 - 1)
        assert not within(value, -(2**31), int(values.max()) - 1)


def _program(leaves: list[UOp], steps: list[Step]) -> UOp:
    values = list(leaves)
    for step in steps:
        values.append(_term(values, step))
    return values[-1]


POSITION = load(index(param(2, DType.I32, (64,), "positions", 0, 639), loop("row", 64)))
CHUNK = loop("chunk", POSITION // 256 + 1)
FIRST = where(POSITION < 69, i32(0), POSITION - 69) // 256


@pytest.mark.parametrize(
    ("value", "least", "most"),
    [
        (N // 4 * 4 + loop("r", N % 4), 0, 19),
        (N // 4 * 196 + loop("r", N % 4) * 49 + loop("q", 49), 0, 979),
        (CHUNK * 256 + loop("k", where(POSITION < CHUNK * 256 + 255, POSITION + 1 - CHUNK * 256, 256)), 0, 639),
        ((CHUNK * 256 + loop("k", where(POSITION < CHUNK * 256 + 255, POSITION + 1 - CHUNK * 256, 256))) // 64, 0, 9),
        (FIRST * 4 + loop("k", POSITION + 1 - FIRST * 256) // 64, 0, 9),
        (POSITION - FIRST * 256, 0, 324),
        ((POSITION + 1) // 64 * 64 + loop("t", (POSITION + 1) // 8 % 8) * 8 + loop("l", 8), 0, 639),
        (loop("p", (POSITION + 1) // 64) * 64 + loop("l", 64) - (POSITION + 1) // 8 * 8, -(2**31), -1),
        (where(loop("i", 12) < N - 11, loop("i", 12), i32(0)), 0, 8),
    ],
)
def test_ranges_that_intervals_do_not_prove(value: UOp, least: int, most: int) -> None:
    assert within(value, least, most)
    assert not within(value, least, most - 1)


def test_nothing_is_proven_of_a_sum_that_may_wrap() -> None:
    anything = param(3, DType.I32, (), "anything")
    assert not within(loop("r", anything) * 4 // 64, 0, 2**30)
