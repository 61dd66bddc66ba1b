"""Nodes: identity is equality, properties are computed once, and nothing recurses."""

import math

import pytest

from circuit.uop import build as u
from circuit.uop.node import (
    Axis,
    DType,
    Op,
    Space,
    UOp,
    bound_ranges,
    const,
    const_value,
    f32_bits,
    f32_value,
    range_size,
    substitute,
    toposort,
)

X = u.param(0, DType.F32, (4, 8), "x")
R, S = u.loop("r", 4), u.loop("s", 8)


def test_equal_construction_gives_the_same_node() -> None:
    assert u.index(X, R, S) * 2.0 is u.index(X, R, S) * 2.0
    assert u.loop("r", 4) is R
    assert u.loop("r", 4, Axis.THREAD) is not R
    assert u.i32(1) is not u.u32(1)
    assert u.f32(0.0) is not u.f32(-0.0)
    assert u.f32(0.1) is u.f32(0.10000000149011612)
    assert u.f32(math.nan) is u.f32(-math.nan)


def test_a_graph_with_two_to_the_thousand_paths_has_a_thousand_nodes() -> None:
    node = u.param(0, DType.F32)
    for _ in range(1000):
        node = node + node
    assert len(toposort(node)) == 1001
    assert substitute(node, {u.param(0, DType.F32): u.f32(1.0)}).op is Op.ADD


def test_sources_come_before_their_users_from_the_left() -> None:
    a, b = u.param(0, DType.F32), u.param(1, DType.F32)
    assert toposort((a + b) * b) == [a, b, a + b, (a + b) * b]
    assert toposort(b, a) == [b, a]


def test_shapes() -> None:
    assert u.index(X, R).shape == (8,)
    assert u.stage(u.index(X, R), R).shape == (4, 8)
    assert u.reduce("add", X, pop=1).shape == (8,)
    assert u.reshape(X, 32).shape == (32,)
    assert u.permute(X, 1, 0).shape == (8, 4)
    assert u.expand(X, 2, 3).shape == (2, 3, 4, 8)
    assert u.shrink(X, (1, 2), (2, 3)).shape == (2, 3)
    assert (X + 1.0).shape == (4, 8)
    assert (u.reshape(X, 4, 8, 1) * u.reshape(X, 4, 1, 8)).shape == (4, 8, 8)
    assert UOp(Op.STACK, (X, X)).shape == (2, 4, 8)


def test_ranges_are_free_until_closed() -> None:
    value = u.load(u.index(X, R, S))
    assert value.ranges == {R, S}
    assert u.reduce("add", value, S).ranges == {R}
    stored = u.store(u.index(u.param(1, DType.F32, (4,)), R), u.reduce("add", value, S))
    assert u.end(stored, R).ranges == frozenset()
    assert u.reduce("mulacc", value, value, R, S).ranges == frozenset()
    inner = u.loop("inner", R + 1)
    assert u.end(stored, inner).ranges == {R}
    assert bound_ranges(u.reduce("mulacc", value, value, R, S)) == (R, S)
    assert bound_ranges(u.end(stored, R)) == (R,)


def test_spaces() -> None:
    room = u.alloc(0, 4, DType.F32)
    assert X.space is Space.GLOBAL
    assert u.index(u.after(room, R), 0).space is Space.LOCAL
    assert u.load(u.index(room, 0)).space is Space.ALU


def test_size_of_a_range() -> None:
    assert range_size(R) == 4
    assert range_size(u.loop("n", u.param(1, DType.I32, (), "n", 0, 9))) == 9
    with pytest.raises(AssertionError, match=r"the size of range Loop.* is not known here"):
        range_size(u.loop("m", u.param(1, DType.I32, (), "n", 0, 9) + 1))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: u.i32(1) + u.u32(1), r"add of unlike types \['i32', 'u32'\]"),
        (lambda: X + u.param(1, DType.F32, (4, 7)), r"add of unlike shapes \[\(4, 8\), \(4, 7\)\]"),
        (lambda: X + u.param(1, DType.F32, (7,)), r"shape \(7,\) does not broadcast to \(4, 8\)"),
        (lambda: u.i32(2**31), "2147483648 is no i32"),
        (lambda: u.u32(-1), "-1 is no u32"),
        (lambda: const(DType.VOID, 0), "there is no void constant"),
        (lambda: UOp(Op.WHERE, (u.i32(1), u.i32(1), u.i32(1))), "where of unlike types"),
        (lambda: u.index(X, R, S, R), "3 indices for shape"),
        (lambda: UOp(Op.RANGE, (u.u32(4),), R.arg), "a range ends at an i32"),
        (lambda: UOp(Op.CAST, (u.i32(4),), None), "cast does not take None"),
    ],
)
def test_what_typing_needs_is_checked(build: object, message: str) -> None:
    assert callable(build)
    with pytest.raises(AssertionError, match=message):
        build()


@pytest.mark.parametrize(
    "bits", [0, 1, 0x007FFFFF, 0x00800000, 0x3F800000, 0x7F7FFFFF, 0x7F800000, 0x80000000, 0xFF800000]
)
def test_float_bits_survive(bits: int) -> None:
    assert f32_bits(f32_value(bits)) == bits


def test_constants_round_once_to_float32() -> None:
    assert const_value(u.f32(1 + 2**-24)) == 1.0
    assert const_value(u.f32(1e300)) == math.inf
    assert const_value(u.f32(-1e300)) == -math.inf
    assert f32_bits(math.nan) == 0x7FC00000


def test_subtraction_is_exact() -> None:
    x, n, w = u.param(0, DType.F32), u.param(1, DType.I32), u.param(2, DType.U32)
    assert x - 1.0 is x + -1.0
    assert n - 3 is n + -3
    assert w - 3 is w + (2**32 - 3)
    assert x - x is x + x * -1.0


def test_substitute_replaces_nodes_everywhere() -> None:
    value = u.load(u.index(X, R, S)) + u.cast(R, DType.F32)
    moved = substitute(value, {R: R * 2})
    assert moved is u.load(u.index(X, R * 2, S)) + u.cast(R * 2, DType.F32)
    assert substitute(value, {}) is value
