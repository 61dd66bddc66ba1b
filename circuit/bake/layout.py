"""How many words a baked tensor takes. Baked tensors are little-endian u32 words; `sigma/storage.py` reads them.

vector   a 1-D tensor decoded to f32, one word a value.
panel    an (N, K) tensor in panels of P outputs, the last one filled up with zero words. Output j is lane l = j % P of
         panel p = j // P. The values of a row stand in units (circuit/formats.py) of U values and W words; word w of
         the unit of input k is word[(p*units + k//U)*W*P + w*P + l], so a vector of lanes reads consecutive words.
         Of f16, whose unit is U = 2 and W = 1, lanes share words, S = 16 of them (`halves_together`): the value is half
         l%2 of word[(p*units + k//2)*P + l//S*S + k%2*S//2 + l%S//2], so a vector reads consecutive halves.
         What the words of a unit are is the table of `sigma/storage.py`.
"""

from typing import Literal, assert_never

from circuit.formats import FORMATS

Layout = Literal["vector", "panel"]
PANEL = 48
"""Outputs of a panel: six AVX2 vectors, three AVX-512 vectors, twelve NEON vectors."""

PANEL_FORMATS = tuple(name for name in FORMATS if name != "i32")


def layout_of(shape: tuple[int, ...]) -> Layout:
    """The layout of a weight by its rank; tables of embeddings are panels too."""
    assert len(shape) in (1, 2), f"a weight has one or two dimensions, not {shape}"
    return "vector" if len(shape) == 1 else "panel"


def n_words(layout: Layout, format: str, shape: tuple[int, ...], panel: int) -> int:
    """The u32 words of a baked tensor whose stored format is `format`."""
    match layout:
        case "vector":
            return shape[0]
        case "panel":
            return -(-shape[0] // panel) * panel_words(format, shape[1], panel)
        case _:
            assert_never(layout)


def panel_words(format: str, k: int, panel: int) -> int:
    """The u32 words of one panel of rows of `k` values."""
    assert format in PANEL_FORMATS, f"no panel layout for the format {format}"
    return FORMATS[format].row_words(k) * panel
