"""How many words a baked tensor takes. Baked tensors are little-endian u32 words; `sigma/storage.py` reads them.

vector   a 1-D tensor decoded to f32, one word a value.
panel    an (N, K) tensor in panels of P outputs, the last one filled up with zero words. Output j is lane l = j % P of
         panel p = j // P, so a vector of lanes reads consecutive words:
  f32        word[(p*K + k)*P + l] = bits of w[j,k]
  f16, bf16  word[(p*K2 + k//2)*P + l], K2 = ceil(K/2); low half: even k, high half: odd k (0 where k is past the end)
  q8_0       super-blocks of two blocks of 32 values, SB = ceil(K/64), 17*P words each; base = (p*SB + b//2)*17*P;
             word[base + l] = f16 scales, low half of block 2s, high half of block 2s+1 (0 if there is none);
             word[base + P + ((b%2)*8 + (k%32)//4)*P + l] = four signed bytes, byte i (bits 8i) is k with k%4 == i
  q4_0       super-blocks of two blocks, 9*P words each; scale word as q8_0;
             word[base + P + ((b%2)*4 + (k%32)//8)*P + l] = eight codes, nibble i (bits 4i) is k with k%8 == i
  q4_1       blocks, 5*P words each; base = (p*KB + b)*5*P; word[base + l] = f16 scale low, f16 minimum high;
             word[base + P + ((k%32)//8)*P + l] = eight codes as in q4_0
"""

from typing import Literal, assert_never

Layout = Literal["vector", "panel"]
PANEL = 48
"""Outputs of a panel: six AVX2 vectors, three AVX-512 vectors, twelve NEON vectors."""

PANEL_FORMATS = ("f32", "f16", "bf16", "q4_0", "q4_1", "q8_0")


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
    blocks = -(-k // 32)
    match format:
        case "f32":
            return k * panel
        case "f16" | "bf16":
            return -(-k // 2) * panel
        case "q8_0":
            return -(-blocks // 2) * 17 * panel
        case "q4_0":
            return -(-blocks // 2) * 9 * panel
        case "q4_1":
            return blocks * 5 * panel
        case _:
            raise AssertionError(f"no panel layout for the format {format}")
