"""What the pages of a state hold, decoded for instruments; the layout is that of `circuit/sigma/page.py`."""

import numpy as np
from numpy.typing import NDArray

from circuit.emit.layout import PAGE
from circuit.sigma.page import TILE, head_words, part_words

Words = NDArray[np.uint32]


def stored(page: Words, format: str, heads: int, head_dim: int, side: str) -> Words:
    """[PAGE, heads * head_dim] the float32 bits of the keys or values of a page."""
    n = head_words(format, head_dim)
    n_words = heads * PAGE * n
    first = 0 if side == "keys" else n_words
    part = page[first : first + n_words]
    if side == "keys":
        words = part.reshape(heads, PAGE // TILE, n, TILE).transpose(1, 3, 0, 2)
    else:
        width = part_words(format, head_dim)
        words = part.reshape(heads, n // width, PAGE, width).transpose(2, 0, 1, 3)
    codes = _codes(words.reshape(PAGE, heads, n), format)  # [position, head, word, field]
    order = codes if side == "keys" else codes.swapaxes(2, 3)
    row = order.reshape(PAGE, heads, -1)[:, :, :head_dim]
    match format:
        case "f32":
            values = row.view(np.float32)
        case "f16":
            values = row.astype(np.uint16).view(np.float16).astype(np.float32)
        case "bf16":
            values = (row << np.uint32(16)).view(np.float32)
        case "int8":
            at = 2 * n_words + (0 if side == "keys" else heads * PAGE)
            scales = page[at : at + heads * PAGE].view(np.float32).reshape(heads, PAGE).T
            with np.errstate(invalid="ignore", over="ignore"):
                values = row.astype(np.uint8).view(np.int8).astype(np.float32) * scales[:, :, None]
        case _:
            raise AssertionError(f"no page stores {format}")
    return np.ascontiguousarray(values.reshape(PAGE, heads * head_dim)).view(np.uint32)


def _codes(words: Words, format: str) -> Words:
    """[..., fields] what stands in each field of the words, the lowest bits first."""
    bits = {"f32": 32, "f16": 16, "bf16": 16, "int8": 8}[format]
    fields = np.arange(0, 32, bits, dtype=np.uint32)
    return (words[..., None] >> fields) & np.uint32(2**bits - 1)
