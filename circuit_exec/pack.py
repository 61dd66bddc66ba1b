"""Packs rows of stored tensors into panels of u32 words, and back; the layouts are described in circuit/bake/layout.py.

Every layout is the same two steps: each row becomes a list of words, then the words of a panel's rows are transposed,
so that word w of all lanes lies together. In f16 the halves of lanes that share words change places after that.
"""

import numpy as np
from numpy.typing import NDArray

from circuit.bake.layout import panel_words
from circuit.formats import BROUGHT_TOGETHER, FORMATS, halves_together
from circuit_exec.checkpoint.raw import Bytes
from circuit_exec.pack_blocks import block_words

Words = NDArray[np.uint32]
_U32 = np.dtype("<u4")
_LOW, _HIGH, _FOUR = np.uint32(0x0F0F0F0F), np.uint32(0xF0F0F0F0), np.uint32(4)


def pack_panels(rows: Bytes, format: str, k: int, panel: int) -> Words:
    """Flat words of `rows` (outputs x stored bytes of `k` values each), the last panel filled up with zero words."""
    n_panels = -(-len(rows) // panel)
    words = _row_words(np.ascontiguousarray(rows), format)
    packed = np.zeros((n_panels, words.shape[1], panel), dtype=_U32)
    whole = len(rows) // panel
    packed[:whole] = words[: whole * panel].reshape(whole, panel, words.shape[1]).swapaxes(1, 2)
    if whole < n_panels:
        packed[whole, :, : len(rows) - whole * panel] = words[whole * panel :].T
    assert packed.size == n_panels * panel_words(format, k, panel), (
        f"{format}: rows of {k} values, not {rows.shape[1]} bytes"
    )
    return (_halves_by_input(packed, panel) if format == "f16" else packed).reshape(-1)


def unpack_panels(words: Words, format: str, shape: tuple[int, int], panel: int) -> Bytes:
    """The stored bytes of an (N, K) tensor, one row an output: the inverse of `pack_panels`."""
    n, k = shape
    panels = (_halves_by_lane(words, panel) if format == "f16" else words).reshape(-(-n // panel), -1, panel)
    lanes = np.ascontiguousarray(panels.swapaxes(1, 2)).reshape(len(panels) * panel, -1)[:n]
    return _row_bytes(lanes, format, k)


def _halves_by_input(words: Words, panel: int) -> Words:
    """From words of one lane's two inputs each to words of two lanes each, the halves of an input together."""
    return _swapped(words, halves_together(panel), 2)


def _halves_by_lane(words: Words, panel: int) -> Words:
    return _swapped(words, 2, halves_together(panel))


def _swapped(words: Words, outer: int, inner: int) -> Words:
    halves = words.reshape(-1).view(np.dtype("<u2")).reshape(-1, outer, inner)
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(-1).view(_U32)


def _row_words(rows: Bytes, format: str) -> Words:
    """Each row's words, in the order of its panel."""
    n = len(rows)
    match format:
        case "f32":
            return rows.view(_U32)
        case "f16" | "bf16":
            return _filled(rows, rows.shape[1] + rows.shape[1] % 4).view(_U32)
        case "q8_0":
            filled = _filled(rows, rows.shape[1] + rows.shape[1] % 68)
            scales, codes = _split(filled.reshape(n, -1, 34), 2)
            return _joined(n, scales.reshape(n, -1, 4).view(_U32), codes.view(_U32).reshape(n, -1, 16))
        case "q4_0":
            filled = _filled(rows, rows.shape[1] + rows.shape[1] % 36)
            scales, codes = _split(filled.reshape(n, -1, 18), 2)
            return _joined(n, scales.reshape(n, -1, 4).view(_U32), _code_words(codes).reshape(n, -1, 8))
        case "q4_1":
            heads, codes = _split(rows.reshape(n, -1, 20), 4)
            return _joined(n, heads.view(_U32), _code_words(codes))
        case _ if format in BROUGHT_TOGETHER:
            return rows.view(_U32)
        case _:
            return block_words(rows, format)


def _row_bytes(words: Words, format: str, k: int) -> Bytes:
    n = len(words)
    match format:
        case "f32" | "f16" | "bf16":
            rows = words.view(np.uint8)
        case "q8_0":
            pairs = words.reshape(n, -1, 17)
            rows = _blocks(n, pairs[..., :1], 2, np.ascontiguousarray(pairs[..., 1:]).view(np.uint8).reshape(n, -1, 32))
        case "q4_0":
            pairs = words.reshape(n, -1, 9)
            rows = _blocks(n, pairs[..., :1], 2, _code_bytes(np.ascontiguousarray(pairs[..., 1:]).reshape(n, -1, 4)))
        case "q4_1":
            blocks = words.reshape(n, -1, 5)
            rows = _blocks(n, blocks[..., :1], 4, _code_bytes(blocks[..., 1:]))
        case _:
            raise AssertionError(f"no panel layout for the format {format}")
    return np.ascontiguousarray(rows[:, : FORMATS[format].row_bytes(k)])


def _code_words(codes: Bytes) -> Words:
    """Four words of eight codes from each 16 bytes, whose byte j holds code j low and code j + 16 high.

    Byte b of word w holds code 8*w + b low and code 8*w + b + 4 high.
    """
    fours = codes.view(_U32)
    first, second = fours[..., 0::2], fours[..., 1::2]
    low = (first & _LOW) | ((second & _LOW) << _FOUR)
    high = ((first >> _FOUR) & _LOW) | (second & _HIGH)
    return np.concatenate([low, high], axis=-1)


def _code_bytes(words: Words) -> Bytes:
    """The 16 bytes of a block from its four words of codes, written the slow way: it checks the fast one."""
    shifts = np.array([0, 8, 16, 24, 4, 12, 20, 28], dtype=np.uint32)
    codes = ((words[..., None] >> shifts) & np.uint32(15)).astype(np.uint8).reshape(*words.shape[:-1], 32)
    return codes[..., :16] | (codes[..., 16:] << np.uint8(4))


def _split(blocks: Bytes, head_bytes: int) -> tuple[Bytes, Bytes]:
    """The scales and the codes of blocks, each contiguous."""
    return np.ascontiguousarray(blocks[..., :head_bytes]), np.ascontiguousarray(blocks[..., head_bytes:])


def _blocks(n: int, heads: Words, head_bytes: int, codes: Bytes) -> Bytes:
    split = np.ascontiguousarray(heads).view(np.uint8).reshape(n, -1, head_bytes)
    return np.concatenate((split, codes), axis=2).reshape(n, -1)


def _joined(n: int, heads: Words, codes: Words) -> Words:
    return np.concatenate((heads, codes), axis=-1).reshape(n, -1)


def _filled(rows: Bytes, n_bytes: int) -> Bytes:
    """The rows with zero bytes at their ends."""
    if rows.shape[1] == n_bytes:
        return rows
    filled = np.zeros((len(rows), n_bytes), dtype=np.uint8)
    filled[:, : rows.shape[1]] = rows
    return filled
