"""rope against complex rotation in float64: both styles, partial width, the scale applied once, long positions."""

import numpy as np
import pytest

from circuit.tir.ir import Value
from tests.oracle.one_op import F32, Case, run

HEADS = 2


def rotate(
    x: F32, positions: list[int], head_dim: int, rotary: int, style: str, frequencies: F32, scale: float
) -> np.ndarray:
    y = x.astype(np.float64).reshape(len(positions), HEADS, head_dim).copy()
    half = rotary // 2
    first = np.arange(half) if style == "neox" else np.arange(half) * 2
    second = first + half if style == "neox" else first + 1
    angle = (np.array(positions, np.float32)[:, None] * frequencies[None]).astype(np.float64)
    turn = np.exp(1j * angle)[:, None, :] * scale
    turned = (y[..., first] + 1j * y[..., second]) * turn
    y[..., first], y[..., second] = turned.real, turned.imag
    return y.reshape(len(positions), -1)


@pytest.mark.parametrize("style", ["neox", "interleaved"])
@pytest.mark.parametrize(("head_dim", "rotary"), [(16, 16), (16, 8), (8, 2)])
@pytest.mark.parametrize("scale", [1.0, 1.25])
def test_rope_turns_pairs(style: str, head_dim: int, rotary: int, scale: float) -> None:
    x = np.random.default_rng(3).standard_normal((4, HEADS * head_dim)).astype(np.float32)
    frequencies = (10000.0 ** (-np.arange(0, rotary, 2) / rotary)).astype(np.float32)
    positions = [0, 1, 77, 639]
    params: dict[str, Value] = {
        "head_dim": head_dim,
        "heads": HEADS,
        "inv_freq": tuple(map(float, frequencies)),
        "rotary_dim": rotary,
        "scale": scale,
        "style": style,
    }
    case = Case(op="rope", inputs=(x,), dims_out=(HEADS * head_dim,), params=params, step={"positions": positions})
    (y,) = run(case)
    assert np.abs(y - rotate(x, positions, head_dim, rotary, style, frequencies, scale)).max() < 2e-6
