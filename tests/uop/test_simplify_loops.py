"""Random loop programs with loads, reductions and stores run to the same bytes before and after simplification."""

import math
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from circuit.uop import build as u
from circuit.uop.evaluate import evaluate
from circuit.uop.node import DType, UOp, f32_bits, f32_value
from circuit.uop.simplify import simplify
from circuit.uop.verify import verify_loops
from tests.uop.index_programs import ENDS, PROGRAMS, VARIABLES

A, B, C = VARIABLES
X = u.param(1, DType.F32, (16,), "x")
OUT = u.param(2, DType.F32, (ENDS["a"] * ENDS["b"],), "out")
SPECIAL = (0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 2.0**-149, 2.0**-126, 3.4028234663852886e38, 0.5, 3.0)

FLOATS: tuple[Callable[[UOp, UOp, UOp, UOp, int], UOp], ...] = (
    lambda x, y, n, p, k: x + y,
    lambda x, y, n, p, k: x * y,
    lambda x, y, n, p, k: x - y,
    lambda x, y, n, p, k: x * SPECIAL[k % len(SPECIAL)],
    lambda x, y, n, p, k: x + SPECIAL[k % len(SPECIAL)],
    lambda x, y, n, p, k: u.mulacc(x, y, u.f32(SPECIAL[k % len(SPECIAL)])),
    lambda x, y, n, p, k: u.mulacc(u.f32(SPECIAL[k % len(SPECIAL)]), x, y),
    lambda x, y, n, p, k: u.maximum(x, y),
    lambda x, y, n, p, k: u.where(p, x, y),
    lambda x, y, n, p, k: u.where(u.logical_not(x < y), u.where(p, x, y), u.where(p, y, x)),
    lambda x, y, n, p, k: u.trunc(u.trunc(x)) + u.cast(n, DType.F32),
    lambda x, y, n, p, k: u.reciprocal(x),
    lambda x, y, n, p, k: u.cast(u.cast(x, DType.I32) + n, DType.F32),
    lambda x, y, n, p, k: u.bitcast(_words(u.bitcast(x, DType.U32), u.cast(n, DType.U32), k), DType.F32),
    lambda x, y, n, p, k: u.load(u.index(X, (n * 3 + k) % 16)),
    lambda x, y, n, p, k: u.cast(u.cast(p, DType.I32), DType.F32) + x,
)


def _words(a: UOp, b: UOp, k: int) -> UOp:
    choices = (
        lambda: a + b,
        lambda: a * (2 * k + 1) * 3,
        lambda: a // 4 // 2 ** (k % 5),
        lambda: a % 2**16 // 2 ** (k % 9),
        lambda: a % 2**16 % 2 ** (k % 9),
        lambda: u.shl(u.shl(a, k % 20), k % 13),
        lambda: (a ^ b) ^ k,
        lambda: u.cast(u.cast(a, DType.I32), DType.U32) + 7 + k,
    )
    return choices[k % len(choices)]()


_NUMBER = st.integers(0, 40)
STEPS = st.lists(st.tuples(_NUMBER, _NUMBER, _NUMBER, _NUMBER), min_size=1, max_size=6)
ORDERS = st.tuples(st.sampled_from(("add", "mul", "max", "mulacc")), st.sampled_from(("fold", "fold:256", "lanes:128")))
INPUTS = st.lists(st.integers(0, 2**32 - 1).map(f32_value) | st.sampled_from(SPECIAL), min_size=16, max_size=16)


def _program(indices: tuple[UOp, UOp], steps: list[tuple[int, int, int, int]], fold: tuple[str, str]) -> UOp:
    n, p = indices
    values = [u.load(u.index(X, n % 16)), u.load(u.index(X, (A + B * 2) % 16)), u.f32(1.0)]
    for what, i, j, k in steps:
        values.append(FLOATS[what % len(FLOATS)](values[-1 - i % len(values)], values[-1 - j % len(values)], n, p, k))
    op, order = fold
    total = u.reduce(op, *values[-2 if op == "mulacc" else -1 :], C, order=order)
    room = u.alloc(0, 8, DType.F32, "room")
    kept = u.end(u.store(u.index(u.after(room, A), B), total), B)
    again = u.loop("again", 8)
    read = u.load(u.index(u.after(room, kept), (again * 8 + 3 + again) // 8 % 8))
    stored = u.store(u.index(OUT, A * 8 + again), read + u.load(u.index(X, A % 4 * 4 + again % 4)))
    return u.end(u.end(stored, again), A)


@settings(deadline=None, max_examples=150)
@given(PROGRAMS, STEPS, ORDERS, INPUTS, st.integers(-6, 7))
def test_simplified_loops_write_the_same_bytes(
    indices: tuple[UOp, UOp],
    steps: list[tuple[int, int, int, int]],
    fold: tuple[str, str],
    inputs: list[float],
    offset: int,
) -> None:
    program = _program(indices, steps, fold)
    verify_loops(program)
    simple = simplify(program)
    verify_loops(simple)
    assert simplify(simple) is simple
    results: list[list[int]] = []
    for root in (program, simple):
        out = [0.0] * 40
        evaluate(root, {1: list(inputs), 2: out}, {0: offset})
        results.append([f32_bits(value) for value in out])
    assert results[0] == results[1]
