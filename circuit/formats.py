"""Storage formats: how many bytes a block of values takes. What the bytes mean is a UOp program in `sigma/storage.py`.

Source of the block formats: ggml's published block structs (ggml-common.h). A Q4_0 block is one f16 scale and 16 bytes
of nibbles for 32 values, a Q4_1 block adds an f16 minimum, a Q8_0 block is one f16 scale and 32 signed bytes; Q5_0 and
Q5_1 add a fifth bit for each value, IQ4_NL and MXFP4 look nibbles up in a table, MXFP4 under a power of two. The K
formats are super-blocks of 256 values with an f16 scale (and minimum) and scales of 16 or 32 values in 4, 6 or 8 bits.

What quantization schemes of safetensors files spread over several tensors is brought together as rows of f8_e4m3 or
i4_*, which no file holds: their blocks are the words of a panel, and the last block of a row may be part empty.
"""

from math import gcd

from msgspec import Struct


class Format(Struct, frozen=True, kw_only=True):
    """A storage type: `block` consecutive values of a row take `block_bytes` bytes.

    Baked, one output's `unit` consecutive values take `unit_words` words of 4 bytes, or as much room in words that
    outputs share; the last unit may be part empty.
    """

    name: str
    block: int
    block_bytes: int
    unit: int
    unit_words: int

    def row_bytes(self, dim: int) -> int:
        """Bytes of one row of `dim` values as published files store it; `dim` must be whole blocks."""
        assert dim % self.block == 0, f"{dim} values are not whole blocks of {self.block} ({self.name})"
        return dim // self.block * self.block_bytes

    def row_words(self, dim: int) -> int:
        """Words of one row of `dim` values in a panel."""
        return -(-dim // self.unit) * self.unit_words


FORMATS: dict[str, Format] = {
    f.name: f
    for f in (
        Format(name="f32", block=1, block_bytes=4, unit=1, unit_words=1),
        Format(name="i32", block=1, block_bytes=4, unit=1, unit_words=1),
        Format(name="f16", block=1, block_bytes=2, unit=2, unit_words=1),
        Format(name="bf16", block=1, block_bytes=2, unit=2, unit_words=1),
        Format(name="q4_0", block=32, block_bytes=18, unit=64, unit_words=9),
        Format(name="q4_1", block=32, block_bytes=20, unit=32, unit_words=5),
        Format(name="q5_0", block=32, block_bytes=22, unit=64, unit_words=11),
        Format(name="q5_1", block=32, block_bytes=24, unit=32, unit_words=6),
        Format(name="q8_0", block=32, block_bytes=34, unit=64, unit_words=17),
        Format(name="iq4_nl", block=32, block_bytes=18, unit=64, unit_words=9),
        Format(name="mxfp4", block=32, block_bytes=17, unit=128, unit_words=17),
        Format(name="q2_k", block=256, block_bytes=84, unit=256, unit_words=21),
        Format(name="q3_k", block=256, block_bytes=110, unit=256, unit_words=29),
        Format(name="q4_k", block=256, block_bytes=144, unit=256, unit_words=37),
        Format(name="q5_k", block=256, block_bytes=176, unit=256, unit_words=45),
        Format(name="q6_k", block=256, block_bytes=210, unit=256, unit_words=53),
        Format(name="f8_e4m3", block=128, block_bytes=132, unit=128, unit_words=33),
        Format(name="i4_f16_32", block=32, block_bytes=20, unit=32, unit_words=5),
        Format(name="i4_f16_64", block=64, block_bytes=36, unit=64, unit_words=9),
        Format(name="i4_f16_128", block=128, block_bytes=68, unit=128, unit_words=17),
        Format(name="i4_bf16_32", block=32, block_bytes=20, unit=32, unit_words=5),
        Format(name="i4_bf16_64", block=64, block_bytes=36, unit=64, unit_words=9),
        Format(name="i4_bf16_128", block=128, block_bytes=68, unit=128, unit_words=17),
    )
}


def halves_together(panel: int) -> int:
    """Outputs of a panel whose f16 of one input stand side by side: 16, or fewer where the panel is no multiple of it.

    A vector of any width up to 16 lanes is then converted as it is read; with the other input of the unit they are the
    64 bytes that a kernel of 16 lanes takes from the cache at once.
    """
    assert panel % 2 == 0, f"the halves of {panel} outputs are not whole words"
    return gcd(panel, 16)


GROUP = 32
"""Values of a row of integers that share a scale."""

INT8_G32 = "int8_g32"
"""A row of signed bytes in groups of 32: the codes, a scale, the sum of the codes (sigma/act_quant.py). Edges only."""

EDGE_FORMATS = ("f32", "i32", INT8_G32)


def edge_words(format: str, dim: int) -> int:
    """Elements of 4 bytes that a row of `dim` values takes on an edge."""
    assert format in EDGE_FORMATS, f"no edge is in {format}"
    if format != INT8_G32:
        return dim
    assert dim % GROUP == 0, f"{dim} values are not whole groups of {GROUP}"
    return dim // GROUP * (2 + GROUP // 4)


BROUGHT_TOGETHER = tuple(name for name in FORMATS if name == "f8_e4m3" or name.startswith("i4_"))
"""What no file holds as one tensor."""

STATE_FORMATS = ("f32", "f16", "bf16", "int8")
"""What keys and values may be stored in. int8: signed bytes under one f32 scale for each position, head and side; no
file has it. What a page of each looks like stands in `sigma/page.py`.
"""

IQ4_NL_VALUES = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
"""What the codes of IQ4_NL stand for, before the scale. Source: kvalues_iq4nl of ggml-common.h."""

MXFP4_VALUES = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)
"""Twice the values of e2m1, which is what ggml multiplies by half the scale; code 8 is +0.

Source: kvalues_mxfp4 of ggml-common.h.
"""
