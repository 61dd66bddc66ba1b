"""Intervals of integer nodes hold every value that brute force finds."""

import pytest
from hypothesis import given, settings

from circuit.uop.bounds import bounds
from circuit.uop.build import (
    alloc,
    cast,
    i32,
    index,
    load,
    logical_and,
    logical_not,
    loop,
    maximum,
    param,
    reduce,
    shl,
    where,
)
from circuit.uop.build import u32 as unsigned
from circuit.uop.node import DType, UOp
from tests.uop.index_programs import PROGRAMS, meaning

R = loop("r", 10)
WORD = param(3, DType.U32, (), "word")


@settings(deadline=None, max_examples=300)
@given(PROGRAMS)
def test_bounds_hold_every_value(programs: tuple[UOp, UOp]) -> None:
    for program in programs:
        lo, hi = bounds(program)
        values = meaning(program)
        assert lo <= values.min()
        assert values.max() <= hi


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (R, (0, 9)),
        (loop("empty", 0), (0, 0)),
        (loop("rows", param(0, DType.I32, (), "rows", 1, 64)), (0, 63)),
        (R + 5, (5, 14)),
        (R * -3, (-27, 0)),
        (-(R - 9), (0, 9)),
        (R * 2**30, (-(2**31), 2**31 - 1)),
        (R // 4, (0, 2)),
        ((R - 5) // -2, (-2, 2)),
        (R % 4, (0, 3)),
        (R % 64, (0, 9)),
        ((R + 64) % 64, (0, 9)),
        ((R - 3) % 4, (0, 3)),
        (R % -3, (-2, 0)),
        (maximum(R, i32(4)), (4, 9)),
        (R ^ 3, (0, 15)),
        (shl(R, 2), (0, 36)),
        (R < 10, (1, 1)),
        (R < 5, (0, 1)),
        (R < 0, (0, 0)),
        (cast(R, DType.U32), (0, 9)),
        (cast(R - 1, DType.U32), (0, 2**32 - 1)),
        (cast(R < 3, DType.I32), (0, 1)),
        (cast(R + 1, DType.BOOL), (1, 1)),
        (WORD // 2**16, (0, 2**16 - 1)),
        (WORD // 2**8 % 2**8, (0, 255)),
        (WORD + 1, (0, 2**32 - 1)),
        (WORD ^ unsigned(1), (0, 2**32 - 1)),
        (reduce("add", R, R), (0, 90)),
        (reduce("max", R, R), (0, 9)),
    ],
)
def test_interval_of_each_op(node: UOp, expected: tuple[int, int]) -> None:
    assert bounds(node) == expected


def test_a_loaded_value_has_the_bounds_of_its_storage() -> None:
    tokens = param(0, DType.I32, (8,), "tokens", 0, 999)
    assert bounds(load(index(tokens, i32(3)))) == (0, 999)
    assert bounds(load(index(alloc(0, 4, DType.I32), i32(3)))) == (-(2**31), 2**31 - 1)


def test_a_where_counts_its_condition() -> None:
    n = param(0, DType.I32, (), "n", 1, 6)
    assert bounds(where(R < 7, R, i32(0))) == (0, 6)
    assert bounds(where(R < 7, R + 1, i32(3))) == (1, 7)
    assert bounds(where(R < 7, i32(8), R)) == (7, 9)
    assert bounds(where(n > R, R, n - 1)) == (0, 5)
    assert bounds(where(R > 2, R - 3, i32(0))) == (0, 6)
    assert bounds(where(logical_and(R > 1, R < 8), R - 2, i32(0))) == (0, 5)
    assert bounds(where(logical_not(R < 3), R - 3, i32(0))) == (0, 6)


def test_a_where_counts_what_its_condition_says_of_a_difference() -> None:
    n, step = param(0, DType.I32, (), "n", 1, 90), loop("step", 12)
    assert bounds(where(n < step * 8 + 9, n - step * 8, i32(8))) == (-87, 8)
    assert bounds(where(step * 8 + 2 < n, n - step * 8, i32(8))) == (3, 90)
    assert bounds(where(n < step * 8 + 9, i32(8), step * 8 - n)) == (-90, 8)


def test_a_deep_chain_needs_no_recursion() -> None:
    x: UOp = R
    for k in range(5000):
        x = maximum(x, i32(k % 7))
    assert bounds(x) == (6, 9)
