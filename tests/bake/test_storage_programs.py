"""The UOp programs of sigma/storage.py read, from packed words, exactly the values that the stored bytes mean."""

import numpy as np
import pytest

from circuit.bake.layout import PANEL_FORMATS, n_words
from circuit.formats import FORMATS
from circuit.sigma.storage import decode_panel, panel_words
from circuit.uop.build import loop, param, stage
from circuit.uop.evaluate import evaluate
from circuit.uop.node import DType
from circuit.uop.rangeify import Lowering
from circuit.uop.scalar import Value
from circuit_exec.checkpoint.decode import decode
from circuit_exec.pack import pack_panels

N, K, PANEL = 6, 96, 4


@pytest.mark.parametrize("format", PANEL_FORMATS)
def test_a_program_reads_what_was_packed(format: str) -> None:
    rows = np.random.default_rng(11).integers(0, 256, (N, FORMATS[format].row_bytes(K)), dtype=np.uint8)
    packed = pack_panels(rows, format, K, PANEL)
    words = param(0, DType.U32, (len(packed),), "words")
    j, k = loop("j", N), loop("k", K)
    values = stage(decode_panel(format, words, (N, K), PANEL, j, k), j, k)
    effect = Lowering().write(param(1, DType.F32, (N * K,), "out"), values, ("row", "column"))
    buffers: dict[int, list[Value]] = {0: packed.tolist(), 1: [0.0] * (N * K)}
    evaluate(effect, buffers)
    with np.errstate(over="ignore"):
        got = np.array(buffers[1], dtype=np.float32)
    want = decode(rows.reshape(-1), format)
    same = (got.view(np.uint32) == want.view(np.uint32)) | (np.isnan(got) & np.isnan(want))
    assert same.all(), np.flatnonzero(~same)[:5]


@pytest.mark.parametrize("format", PANEL_FORMATS)
@pytest.mark.parametrize("shape", [(1, 32), (6, 96), (48, 64), (49, 320)])
def test_manifest_and_programs_agree_on_the_size(format: str, shape: tuple[int, int]) -> None:
    assert n_words("panel", format, shape, 48) == panel_words(format, *shape, 48)
