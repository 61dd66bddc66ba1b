"""Packing and unpacking are inverse, and each word is where the layout says."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from circuit.bake.layout import PANEL_FORMATS, panel_words
from circuit.formats import FORMATS
from circuit_exec.checkpoint.decode import decode
from circuit_exec.checkpoint.raw import Bytes
from circuit_exec.pack import Words, pack_panels, unpack_panels

KEPT = ("f32", "f16", "bf16", "q4_0", "q4_1", "q8_0")
"""Formats whose stored bytes can be made again from the words; the programs of the others are tested by value."""


def random_rows(format: str, n: int, k: int, seed: int) -> Bytes:
    return np.random.default_rng(seed).integers(0, 256, (n, FORMATS[format].row_bytes(k)), dtype=np.uint8)


def width(format: str, n_blocks: int) -> int:
    return n_blocks * FORMATS[format].block


@given(
    format=st.sampled_from(KEPT),
    n=st.integers(1, 20),
    n_blocks=st.integers(1, 5),
    panel=st.sampled_from((1, 4, 7, 16, 48)),
    seed=st.integers(0, 2**32 - 1),
)
def test_unpacking_gives_the_stored_bytes_back(format: str, n: int, n_blocks: int, panel: int, seed: int) -> None:
    assume(format != "f16" or panel % 2 == 0)
    k = width(format, n_blocks)
    rows = random_rows(format, n, k, seed)
    words = pack_panels(rows, format, k, panel)
    assert len(words) == -(-n // panel) * panel_words(format, k, panel)
    assert np.array_equal(unpack_panels(words, format, (n, k), panel), rows)


@pytest.mark.parametrize("format", PANEL_FORMATS)
def test_lanes_past_the_last_output_are_zero_words(format: str) -> None:
    k = width(format, 3)
    words = pack_panels(random_rows(format, 5, k, 1) | np.uint8(1), format, k, 4).reshape(2, -1, 4)
    if format == "f16":  # two words of two lanes for the even input, two for the odd one
        words = np.stack([words[:, :, ::2] & 0xFFFF, words[:, :, ::2] >> 16, words[:, :, 1::2]], axis=-1)
        words = words.reshape(2, -1, 3)
    assert not words[1, :, 1:].any()
    assert words[1, :, 0].any()


@pytest.mark.parametrize(
    ("format", "panel"), [*((format, 4) for format in KEPT), ("f16", 16), ("f16", 24), ("f16", 48)]
)
def test_each_value_is_in_the_word_that_the_layout_names(format: str, panel: int) -> None:
    n, k = 2 * panel - 1, width(format, 3)
    rows = random_rows(format, n, k, 2)
    if format in ("f32", "f16", "bf16"):
        values = rows.view("<u4" if format == "f32" else "<u2").astype(np.float64)
    else:  # scales of one, so that a value is its code; the minimum of q4_1 is zero
        blocks = rows.reshape(n, -1, FORMATS[format].block_bytes)
        blocks[..., :2] = np.array([1.0], dtype="<f2").view(np.uint8)
        blocks[..., 2:4] = 0 if format == "q4_1" else blocks[..., 2:4]
        values = decode(rows.reshape(-1), format).reshape(n, k).astype(np.float64)
    words = pack_panels(rows, format, k, panel)
    for j in range(n):
        for i in range(k):
            assert word_value(words, format, k, panel, j, i) == values[j, i], (j, i)


def nibble_at(i: int) -> int:
    """The lowest bit of input i in its word: bytes in ascending order, four inputs low, the next four high."""
    return 8 * (i % 4) + 4 * (i // 4 % 2)


def word_value(words: Words, format: str, k: int, panel: int, j: int, i: int) -> float:
    """The value of output j at input i by the formulas of circuit/bake/layout.py, scales left out."""
    p, lane, blocks, b = j // panel, j % panel, k // 32, i // 32
    match format:
        case "f32":
            return int(words[(p * k + i) * panel + lane])
        case "f16":
            side = math.gcd(panel, 16)
            unit = words[(p * -(-k // 2) + i // 2) * panel :][:panel]
            return int(unit[lane // side * side + i % 2 * (side // 2) + lane % side // 2]) >> (16 * (lane % 2)) & 0xFFFF
        case "bf16":
            half = -(-k // 2)
            return int(words[(p * half + i // 2) * panel + lane]) >> (16 * (i % 2)) & 0xFFFF
        case "q8_0":
            base = (p * -(-blocks // 2) + b // 2) * 17 * panel
            byte = int(words[base + panel + ((b % 2) * 8 + (i % 32) // 4) * panel + lane]) >> (8 * (i % 4)) & 0xFF
            return byte - 256 if byte > 127 else byte
        case "q4_0":
            base = (p * -(-blocks // 2) + b // 2) * 9 * panel
            word = int(words[base + panel + ((b % 2) * 4 + (i % 32) // 8) * panel + lane])
            return (word >> nibble_at(i) & 15) - 8
        case _:
            base = (p * blocks + b) * 5 * panel
            return int(words[base + panel + ((i % 32) // 8) * panel + lane]) >> nibble_at(i) & 15


@pytest.mark.parametrize(("format", "per_pair"), [("q8_0", 17), ("q4_0", 9)])
def test_a_scale_word_holds_the_even_block_low_and_the_odd_block_high(format: str, per_pair: int) -> None:
    n, k, panel = 3, 96, 2
    rows = random_rows(format, n, k, 3)
    scales = np.ascontiguousarray(rows.reshape(n, 3, -1)[..., :2]).view("<u2")[..., 0]
    words = pack_panels(rows, format, k, panel)
    for j in range(n):
        for b in range(4):
            word = int(words[((j // panel) * 2 + b // 2) * per_pair * panel + j % panel])
            assert word >> (16 * (b % 2)) & 0xFFFF == (scales[j, b] if b < 3 else 0)


def test_a_q4_1_head_word_holds_the_scale_low_and_the_minimum_high() -> None:
    rows = random_rows("q4_1", 3, 64, 4)
    heads = np.ascontiguousarray(rows.reshape(3, 2, 20)[..., :4]).view("<u4")[..., 0]
    words = pack_panels(rows, "q4_1", 64, 2)
    for j in range(3):
        for b in range(2):
            assert words[((j // 2) * 2 + b) * 10 + j % 2] == heads[j, b]


def test_an_odd_width_fills_the_last_half_word_with_zero() -> None:
    rows = random_rows("bf16", 2, 3, 5)
    words = pack_panels(rows, "bf16", 3, 2).reshape(2, 2)
    assert (words[1] >> 16 == 0).all()
    assert np.array_equal(words[1] & 0xFFFF, rows.view("<u2")[:, 2])


def test_f16_of_an_odd_width_fills_the_last_halves_with_zero() -> None:
    rows = random_rows("f16", 2, 3, 5)
    words = pack_panels(rows, "f16", 3, 2).reshape(2, 2)
    assert words[1, 1] == 0
    assert [words[1, 0] & 0xFFFF, words[1, 0] >> 16] == rows.view("<u2")[:, 2].tolist()


def test_a_panel_of_f16_has_whole_words() -> None:
    with pytest.raises(AssertionError, match="the halves of 7 outputs are not whole words"):
        pack_panels(random_rows("f16", 2, 3, 5), "f16", 3, 7)
