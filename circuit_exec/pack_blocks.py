"""The words of rows in ggml's block formats whose files do not store them in the order of a panel.

What the words of a unit are is the table of circuit/sigma/storage.py. A row whose last unit is part empty is filled up
with zero bytes.
"""

import numpy as np
from numpy.typing import NDArray

import circuit_exec.checkpoint.blocks as fields
from circuit.formats import FORMATS
from circuit_exec.checkpoint.raw import Bytes

Words = NDArray[np.uint32]
_U32 = np.dtype("<u4")


def block_words(rows: Bytes, format: str) -> Words:
    """[rows, words]: each row's words, unit after unit."""
    n, kind = len(rows), FORMATS[format]
    n_units = -(-rows.shape[1] * kind.block // (kind.block_bytes * kind.unit))
    filled = np.zeros((n, n_units * kind.unit // kind.block, kind.block_bytes), dtype=np.uint8)
    filled.reshape(n, -1)[:, : rows.shape[1]] = rows
    blocks = filled.reshape(-1, kind.block_bytes)
    codes = fields.codes(blocks, format)
    match format:
        case "iq4_nl":
            parts = [fields.head(blocks, format), _nibbles(codes)]
        case "mxfp4":
            parts = [blocks[:, :1], _nibbles(codes)]
        case "q5_0":
            parts = [fields.head(blocks, format), _with_plane(codes, 4, 1)]
        case "q5_1":
            parts = [fields.head(blocks, format), _with_plane(codes, 4, 1)]
        case "q2_k":
            parts = [fields.head(blocks, format), blocks[:, :16], _packed(codes, 2)]
        case "q4_k":
            parts = [fields.head(blocks, format), _scale_pairs(blocks, format), _nibbles(codes)]
        case "q5_k":
            parts = [fields.head(blocks, format), _scale_pairs(blocks, format), _with_plane(codes, 4, 1)]
        case "q3_k":
            parts = [_word_of_half(blocks, format), _signed(blocks, format), _with_plane(codes, 2, 1)]
        case "q6_k":
            parts = [_word_of_half(blocks, format), _signed(blocks, format), _with_plane(codes, 4, 2)]
        case _:
            raise AssertionError(f"no panel layout for the format {format}")
    units = [np.ascontiguousarray(part).reshape(n * n_units, -1) for part in parts]
    return np.concatenate(units, axis=1).view(_U32).reshape(n, -1)


def _packed(codes: Bytes, width: int) -> Bytes:
    """Codes of `width` bits side by side, the first lowest."""
    while width < 8:
        codes = codes[..., 0::2] | (codes[..., 1::2] << np.uint8(width))
        width *= 2
    return codes


def _nibbles(codes: Bytes) -> Bytes:
    """Codes of 4 bits, eight a word: byte b holds code b low and code b + 4 high."""
    eights = codes.reshape(len(codes), -1, 2, 4)
    halves: Bytes = eights[:, :, 0] | (eights[:, :, 1] << np.uint8(4))
    return halves.reshape(len(codes), -1)


def _fifth_bits(bits: Bytes) -> Bytes:
    """A word of the bits of 32 codes: bit i of byte b is that of code 4*i + b."""
    return np.packbits(bits.reshape(len(bits), 8, 4), axis=1, bitorder="little").reshape(len(bits), 4)


def _with_plane(codes: Bytes, low: int, high: int) -> Bytes:
    """Of each 32 codes the words of their lowest bits and the words of their highest; a fifth bit stands first."""
    runs = codes.reshape(-1, 32)
    lowest, highest = runs & np.uint8((1 << low) - 1), runs >> np.uint8(low)
    match low, high:
        case 4, 1:
            parts = [_fifth_bits(highest), _nibbles(lowest)]
        case 4, _:
            parts = [_nibbles(lowest), _packed(highest, high)]
        case _:
            parts = [_packed(lowest, low), _packed(highest, high)]
    return np.concatenate(parts, axis=1).reshape(len(codes), -1)


def _scale_pairs(blocks: Bytes, format: str) -> Bytes:
    return np.stack(fields.scale_and_minimum(blocks, format), axis=-1).reshape(len(blocks), -1)


def _signed(blocks: Bytes, format: str) -> Bytes:
    return fields.signed_scales(blocks, format).view(np.uint8)


def _word_of_half(blocks: Bytes, format: str) -> Bytes:
    half = fields.head(blocks, format)
    return np.concatenate((half, np.zeros_like(half)), axis=1)
