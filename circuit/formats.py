"""Storage formats: how many bytes a block of values takes. What the bytes mean is a UOp program in `sigma/storage.py`.

Source of the block formats: ggml's published block structs (ggml-common.h): a Q4_0 block is one f16 scale and 16 bytes
of nibbles for 32 values, a Q4_1 block adds an f16 minimum, a Q8_0 block is one f16 scale and 32 signed bytes.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A storage type: `block` consecutive values of a row take `block_bytes` bytes."""

    name: str
    block: int
    block_bytes: int

    def row_bytes(self, dim: int) -> int:
        """Bytes of one row of `dim` values as published files store it; `dim` must be whole blocks."""
        assert dim % self.block == 0, f"{dim} values are not whole blocks of {self.block} ({self.name})"
        return dim // self.block * self.block_bytes


FORMATS: dict[str, Format] = {
    f.name: f
    for f in (
        Format(name="f32", block=1, block_bytes=4),
        Format(name="i32", block=1, block_bytes=4),
        Format(name="f16", block=1, block_bytes=2),
        Format(name="bf16", block=1, block_bytes=2),
        Format(name="q4_0", block=32, block_bytes=18),
        Format(name="q4_1", block=32, block_bytes=20),
        Format(name="q8_0", block=32, block_bytes=34),
    )
}
