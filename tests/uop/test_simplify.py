"""Simplified programs mean the same, need no division where bounds allow, and are in normal form."""

import math

import numpy as np
import pytest
from hypothesis import given, settings

from circuit.uop.build import (
    bitcast,
    cast,
    end,
    f32,
    i32,
    index,
    load,
    logical_not,
    loop,
    maximum,
    mulacc,
    param,
    reciprocal,
    shl,
    shr,
    store,
    trunc,
    u32,
    where,
)
from circuit.uop.node import DType, Op, UOp, const, toposort
from circuit.uop.simplify import simplify
from tests.uop.index_programs import PROGRAMS, meaning
from tests.work import calls

A, B, C, T, R = loop("a", 9), loop("b", 8), loop("c", 9), loop("t", 4), loop("r", 8)
K = ((C * 8 + B) * 4 + T) * 8 + R
X = param(0, DType.F32, (), "x")
N = param(1, DType.I32, (), "n")
W = param(2, DType.U32, (), "w")
P = X < 1.0


@settings(deadline=None, max_examples=600)
@given(PROGRAMS)
def test_simplified_program_has_the_same_value_everywhere(programs: tuple[UOp, UOp]) -> None:
    for program in programs:
        simple = simplify(program)
        assert np.array_equal(meaning(simple), meaning(program))
        assert simplify(simple) is simple


def _check(program: UOp, expected: UOp) -> None:
    assert simplify(program) is expected


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (
            (K // 64) * 816 + (K // 32 % 2 * 8 + K % 32 // 4) * 48,
            C * 3264 + B // 2 * 816 + B % 2 * 384 + T * 96 + R // 4 * 48,
        ),
        (K % 8, R),
        ((B * 8 + 3) % 8, i32(3)),
        ((B * 8 + 3) // 8, B),
        ((N % 64) // 8 * 8 + N % 8, N % 64),
        (N // 8 * 8 + N % 8, N),
        (N // 8 // 4, N // 32),
        (N % 64 // 8, N // 8 % 8),
        (N % 64 % 8, N % 8),
        ((B * 8 + R) // 8, B),
        ((B * 8 + R) % 8, R),
        ((C * 32 + B) // 16, C * 2),
        (B // 8, i32(0)),
        (B + A * 3 + B * 2 - A * 3, B * 3),
        (shl(B, 4) + R, B * 16 + R),
        (i32(2) * (B + 1) - 2, B * 2),
        (maximum(B, i32(8)), i32(8)),
        (maximum(B, i32(0)), B),
        (N * 0, i32(0)),
        ((N ^ 5) ^ 5, N),
    ],
)  # fmt: skip
def test_index_arithmetic_becomes_a_sum(program: UOp, expected: UOp) -> None:
    _check(program, expected)


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (B * 8 + R < 64, const(DType.BOOL, 1)),
        (B * 8 + R < 40, B < 5),
        (B + 3 < 5, B < 2),
        (i32(3) < B, i32(3) < B),
        (B < B, const(DType.BOOL, 0)),
        (A * 2 < B * 2, A < B),
        (where(B < 8, A, C), A),
        (where(B < 4, A, A), A),
        (where(logical_not(B < 4), A, C), where(B < 4, C, A)),
        (logical_not(logical_not(B < 4)), B < 4),
        (loop("one", 1) * 5 + B, B),
    ],
)
def test_conditions_are_decided_by_bounds(program: UOp, expected: UOp) -> None:
    _check(program, expected)


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (W // 16 // 16, W // 256),
        (W % 256 // 16, W // 16 % 16),
        (W % 256 % 16, W % 16),
        (W + 3 + 4, W + 7),
        (W + (2**32 - 1) + 1, W),
        (W * 3 * 5, W * 15),
        (shl(shl(W, 3), 4), shl(W, 7)),
        (shl(shl(W, 30), 4), u32(0)),
        (shr(W, 28) % 16, W // 2**28),
        ((W ^ 6) ^ 3, W ^ 5),
        (W ^ W, u32(0)),
        (cast(cast(W, DType.I32), DType.U32), W),
        (cast(cast(P, DType.I32), DType.F32), cast(P, DType.F32)),
        (bitcast(bitcast(X, DType.U32), DType.F32), X),
    ],
)
def test_unsigned_arithmetic_and_casts(program: UOp, expected: UOp) -> None:
    _check(program, expected)


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (X * 1.0, X),
        (X + -0.0, X),
        (X + 0.0, X + 0.0),  # -0 + 0 is +0
        (X * 0.0, X * 0.0),  # a NaN or an infinity gives NaN
        (X - X, X - X),
        (-1.0 * (-1.0 * X), X),
        (mulacc(X, X, f32(-0.0)), X * X),
        (mulacc(X, X, f32(0.0)), mulacc(X, X, f32(0.0))),
        (mulacc(f32(1.0), X, X), X + X),
        (f32(0.1) + f32(0.2), f32(0.30000001192092896)),
        (f32(1e30) * f32(1e30), f32(math.inf)),
        (mulacc(f32(1 + 2**-23), f32(1 + 2**-23), f32(-1.0)), f32(2**-22 + 2**-46)),
        (reciprocal(f32(-0.0)), f32(-math.inf)),
        (cast(f32(math.nan), DType.I32), i32(0)),
        (cast(f32(3e9), DType.I32), i32(2**31 - 1)),
        (cast(i32(2**24 + 1), DType.F32), f32(2.0**24)),
        (bitcast(f32(1.0), DType.U32), u32(0x3F800000)),
        (trunc(trunc(X)), trunc(X)),
        (trunc(f32(-0.5)), f32(-0.0)),
        (maximum(f32(-0.0), f32(0.0)), f32(-0.0)),
        (where(P, where(P, X, X * 2.0), X * 3.0), where(P, X, X * 3.0)),
    ],
)
def test_floats_get_only_exact_rules(program: UOp, expected: UOp) -> None:
    _check(program, expected)


def test_overflow_that_cannot_be_excluded_is_left_alone() -> None:
    _check((N * 8 + 3) // 8, (N * 8 + 3) // 8)
    _check(N + 1 < N + 2, N + 1 < N + 2)


def test_a_loop_of_one_turn_stays_a_loop() -> None:
    once = loop("once", 1)
    x = param(0, DType.F32, (4,))
    effect = end(store(index(x, once + 2), load(index(x, once)) + 1.0), once)
    simple = simplify(effect)
    assert simple.op is Op.END
    assert simple.src[1] is once
    assert simple.src[0] is store(index(x, i32(2)), load(index(x, i32(0))) + 1.0)


def test_order_of_terms_does_not_depend_on_the_order_of_building() -> None:
    p, q = param(5, DType.I32, (), "p"), param(6, DType.I32, (), "q")
    assert simplify(q + p + B) is simplify(B + (p + q))
    assert simplify(q * p) is simplify(p * q)


def test_work_grows_with_the_nodes_and_no_faster() -> None:
    def work(count: int) -> float:
        k = loop(f"k{count}", 1024)  # so that nothing of it is known to be simple
        places = [(k + j) // 64 * 816 + ((k + j) // 32 % 2 * 8 + (k + j) % 32 // 4) * 48 for j in range(count)]
        root = UOp(Op.STACK, tuple(places))
        return calls(lambda: simplify(root)) / len(toposort(root))

    few, many = work(50), work(400)
    assert many < 1.1 * few
    assert many < 100, "calls for each node"
