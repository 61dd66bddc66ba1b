"""embed, index_select, rms_norm, linear, glu, residual_add against formulas in float64, and linear's order bit by
bit.
"""

import numpy as np
import pytest
from numpy.typing import NDArray

from circuit.tir.ir import Value
from tests.oracle.one_op import F32, Case, Numbers, run

Wide = NDArray[np.float64]
RNG = np.random.default_rng(7)


def normal(*shape: int) -> F32:
    return RNG.standard_normal(shape).astype(np.float32)


def close(got: Numbers, want: Wide, relative: float = 2e-6) -> None:
    assert got.shape == want.shape
    assert np.abs(got - want).max() <= relative * np.abs(want).max()


def test_embed_gathers_the_row_of_the_token() -> None:
    table = normal(300, 8)
    tokens = [299, 0, 7]
    (y,) = run(Case(op="embed", inputs=(), dims_out=(8,), params={}, weights=(table,), step={"tokens": tokens}, rows=3))
    assert np.array_equal(y, table[tokens])


def test_index_select_picks_the_rows_that_get_logits() -> None:
    x = normal(4, 5)
    (y,) = run(Case(op="index_select", inputs=(x,), dims_out=(5,), params={}, step={"logit_rows": [3, 1]}, rows=2))
    assert np.array_equal(y, x[[3, 1]])


@pytest.mark.parametrize(("dim", "heads"), [(40, 1), (128, 1), (300, 1), (64, 4), (576, 3)])
def test_rms_norm_over_the_row_and_over_heads(dim: int, heads: int) -> None:
    x, w = normal(2, dim) * 3, normal(dim // heads)
    params: dict[str, Value] = {"eps": 1e-5, "heads": heads, "weight_form": "plain"}
    (y,) = run(Case(op="rms_norm", inputs=(x,), dims_out=(dim,), params=params, weights=(w,)))
    wide = x.astype(np.float64).reshape(2, heads, -1)
    want = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-5) * w
    close(y, want.reshape(2, dim))


def test_rms_norm_keeps_its_epsilon_inside_the_root() -> None:
    x = np.full((1, 8), 1e-4, dtype=np.float32)
    params: dict[str, Value] = {"eps": 1e-2, "heads": 1, "weight_form": "plain"}
    (y,) = run(Case(op="rms_norm", inputs=(x,), dims_out=(8,), params=params, weights=(np.ones(8, np.float32),)))
    close(y, x / np.sqrt(1e-8 + 1e-2))


@pytest.mark.parametrize("bias", [False, True])
def test_linear_with_and_without_bias(bias: bool) -> None:
    x, w, b = normal(2, 24), normal(50, 24), normal(50)
    (y,) = run(Case(op="linear", inputs=(x,), dims_out=(50,), params={"bias": bias}, weights=(w, b) if bias else (w,)))
    close(y, x.astype(np.float64) @ w.T.astype(np.float64) + (b if bias else 0))


def test_linear_sums_in_chunks_of_256_with_fused_products() -> None:
    x, w = normal(1, 600), normal(1, 600)
    (y,) = run(Case(op="linear", inputs=(x,), dims_out=(1,), params={"bias": False}, weights=(w,)))
    total = np.float32(0)
    for start in range(0, 600, 256):
        chunk = np.float32(0)
        for k in range(start, min(start + 256, 600)):
            # a product of two float32 is exact in longdouble, and so is the sum to 64 bits: rounded once
            chunk = np.float32(np.longdouble(w[0, k]) * np.longdouble(x[0, k]) + np.longdouble(chunk))
        total = np.float32(total + chunk)
    assert y[0, 0] == total


def test_glu_is_silu_of_the_gate_times_up() -> None:
    gate, up = normal(2, 30) * 8, normal(2, 30)
    (y,) = run(Case(op="glu", inputs=(gate, up), dims_out=(30,), params={"kind": "silu"}))
    wide = gate.astype(np.float64)
    close(y, wide / (1 + np.exp(-wide)) * up)


def test_glu_of_extreme_gates_is_finite_where_silu_is() -> None:
    gate = np.array([[-200.0, 200.0, 0.0, -90.0]], dtype=np.float32)
    (y,) = run(Case(op="glu", inputs=(gate, np.ones_like(gate)), dims_out=(4,), params={"kind": "silu"}))
    assert y[0, 1] == 200.0
    assert y[0, 2] == 0.0
    assert np.abs(y[0, [0, 3]]).max() < 1e-30


def test_residual_add_rounds_once() -> None:
    x, d = normal(3, 17), normal(3, 17)
    (y,) = run(Case(op="residual_add", inputs=(x, d), dims_out=(17,), params={}))
    assert np.array_equal(y, x + d)
