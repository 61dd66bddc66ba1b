"""The UOp programs of sigma/storage.py read, from packed words, exactly the values that the stored bytes mean."""

import numpy as np
import pytest

from circuit.bake.layout import PANEL_FORMATS, n_words
from circuit.formats import BROUGHT_TOGETHER, FORMATS
from circuit.sigma.storage import decode_panel, panel_words
from circuit.uop.build import loop, param, stage
from circuit.uop.evaluate import evaluate
from circuit.uop.node import DType
from circuit.uop.rangeify import Lowering
from circuit.uop.scalar import Value
from circuit_exec.checkpoint.decode import decode
from circuit_exec.checkpoint.raw import Bytes
from circuit_exec.pack import pack_panels
from tests.checkpoint.blocks import HEAD, not_finite_blocks, random_blocks, random_units

N, PANEL = 6, 4


def check(format: str, rows: Bytes) -> None:
    """The program reads from packed rows the values that the decoder gives."""
    k_size = rows.shape[1] // FORMATS[format].block_bytes * FORMATS[format].block
    packed = pack_panels(rows, format, k_size, PANEL)
    words = param(0, DType.U32, (len(packed),), "words")
    j, k = loop("j", N), loop("k", k_size)
    values = stage(decode_panel(format, words, (N, k_size), PANEL, j, k), j, k)
    effect = Lowering().write(param(1, DType.F32, (N * k_size,), "out"), values, ("row", "column"))
    buffers: dict[int, list[Value]] = {0: packed.tolist(), 1: [0.0] * (N * k_size)}
    evaluate(effect, buffers)
    with np.errstate(over="ignore"):
        got = np.array(buffers[1], dtype=np.float32)
    want = decode(rows.reshape(-1), format)
    same = (got.view(np.uint32) == want.view(np.uint32)) | (np.isnan(got) & np.isnan(want))
    assert same.all(), np.flatnonzero(~same)[:5]


@pytest.mark.parametrize("format", PANEL_FORMATS)
def test_a_program_reads_what_was_packed(format: str) -> None:
    n_bytes = FORMATS[format].row_bytes(-(-96 // FORMATS[format].block) * FORMATS[format].block)
    check(format, np.random.default_rng(11).integers(0, 256, (N, n_bytes), dtype=np.uint8))


@pytest.mark.parametrize("format", HEAD)
def test_a_program_reads_blocks_with_extreme_scales_and_every_code(format: str) -> None:
    blocks = random_blocks(format, 5 * N, 12)
    check(format, blocks.reshape(N, -1))


@pytest.mark.parametrize("format", [format for format, (_, heads) in HEAD.items() if heads])
def test_a_program_reads_blocks_whose_scales_are_not_finite(format: str) -> None:
    check(format, not_finite_blocks(format, 3 * N, 13).reshape(N, -1))


@pytest.mark.parametrize("format", BROUGHT_TOGETHER)
def test_a_program_reads_units_of_schemes_with_extreme_scales_and_every_code(format: str) -> None:
    check(format, random_units(format, 5 * N, 14).reshape(N, -1))


@pytest.mark.parametrize("format", PANEL_FORMATS)
@pytest.mark.parametrize("shape", [(1, 256), (48, 512), (49, 1280)])
def test_manifest_and_programs_agree_on_the_size(format: str, shape: tuple[int, int]) -> None:
    assert n_words("panel", format, shape, 48) == panel_words(format, *shape, 48)
