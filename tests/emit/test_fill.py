"""Made-up weights: every format has them, and whatever the random words are, the values are small and finite."""

import numpy as np
import pytest

from circuit.bake.layout import PANEL_FORMATS
from circuit.emit.fill import unit_masks
from circuit.formats import FORMATS
from circuit.sigma.storage import decode_panel
from circuit.uop.build import loop, param, stage
from circuit.uop.evaluate import evaluate
from circuit.uop.node import DType
from circuit.uop.rangeify import Lowering
from circuit.uop.scalar import Value

N = 4


@pytest.mark.parametrize("format", PANEL_FORMATS)
def test_values_are_small_finite_and_of_both_signs(format: str) -> None:
    k_size = max(FORMATS[format].unit, 16)
    masks = np.array(unit_masks(format), np.uint32)
    place = np.arange(N * FORMATS[format].row_words(k_size)) // N % len(masks)
    draws = [np.random.default_rng(3).integers(0, 2**32, len(place), np.uint32)]
    draws += [np.full(len(place), word, np.uint32) for word in (0, 0xFFFFFFFF)]
    for draw in draws:
        words = (draw & masks[place, 0]) | masks[place, 1]
        values = decoded(format, words, k_size)
        assert np.isfinite(values).all()
        assert np.abs(values).max() <= 0.5
    values = decoded(format, (draws[0] & masks[place, 0]) | masks[place, 1], k_size)
    assert values.min() < 0 < values.max()
    assert len(np.unique(values)) > len(values) / 20


def decoded(format: str, words: np.ndarray, k_size: int) -> np.ndarray:
    """The values of N outputs in one panel."""
    source = param(0, DType.U32, (len(words),), "words")
    j, k = loop("j", N), loop("k", k_size)
    values = stage(decode_panel(format, source, (N, k_size), N, j, k), j, k)
    effect = Lowering().write(param(1, DType.F32, (N * k_size,), "out"), values, ("row", "column"))
    buffers: dict[int, list[Value]] = {0: words.tolist(), 1: [0.0] * (N * k_size)}
    evaluate(effect, buffers)
    return np.array(buffers[1], np.float32)
