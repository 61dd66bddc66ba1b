"""What stored bytes mean: every storage format as float32 values, exactly as the published decoders give them.

Symmetric blocks are q*d, rounded once. A Q4_1 value is fma(q, d, m): q has 4 bits and d 11, so the product is exact in
float64, and so is the sum: both terms are multiples of 2**-24 below 2**21. Hence one rounding, to float32.
Every NaN is the canonical 7fc00000.
"""

import numpy as np
from numpy.typing import NDArray

from circuit.formats import FORMATS
from circuit_exec.checkpoint.records import Bytes, Checkpoint, raw

F32 = NDArray[np.float32]
CANONICAL_NAN = np.uint32(0x7FC00000)


def tensor_values(checkpoint: Checkpoint, name: str) -> F32:
    """The values of a tensor in its shape, as float32."""
    stored = checkpoint.tensors[name]
    return decode(raw(checkpoint, name), stored.format).reshape(stored.shape)


def rope_factors(checkpoint: Checkpoint) -> tuple[float, ...] | None:
    """The values of `rope_freqs.weight` of a GGUF file, each a float32; None where there is no such tensor."""
    if "rope_freqs.weight" not in checkpoint.tensors:
        return None
    return tuple(float(value) for value in tensor_values(checkpoint, "rope_freqs.weight").reshape(-1))


def decode(stored: Bytes, format: str) -> F32:
    """The values of whole blocks of `format`, one after the other, as one flat float32 array."""
    assert len(stored) % FORMATS[format].block_bytes == 0, f"{len(stored)} bytes are not whole blocks of {format}"
    with np.errstate(invalid="ignore"):  # a scale of a file may be infinite or NaN
        return _canonical(_values(stored, format).reshape(-1))


def _values(stored: Bytes, format: str) -> F32:
    match format:
        case "f32":
            return stored.view("<f4").astype(np.float32)
        case "f16":
            return stored.view("<f2").astype(np.float32)
        case "bf16":
            return (stored.view("<u2").astype(np.uint32) << np.uint32(16)).view(np.float32)
        case "q4_0":
            blocks = stored.reshape(-1, 18)
            codes = _nibbles(blocks[:, 2:]).astype(np.int32) - 8
            return codes.astype(np.float32) * _halves(blocks[:, :2])
        case "q4_1":
            blocks = stored.reshape(-1, 20)
            scale = _halves(blocks[:, :2]).astype(np.float64)
            least = _halves(blocks[:, 2:4]).astype(np.float64)
            return (_nibbles(blocks[:, 4:]).astype(np.float64) * scale + least).astype(np.float32)
        case "q8_0":
            blocks = stored.reshape(-1, 34)
            return blocks[:, 2:].view(np.int8).astype(np.float32) * _halves(blocks[:, :2])
        case _:
            raise AssertionError(f"no decoder for the format {format}")


def _halves(pairs: Bytes) -> F32:
    """One float16 of each row of two bytes, as a column."""
    return np.ascontiguousarray(pairs).view("<f2").astype(np.float32)


def _nibbles(packed: Bytes) -> Bytes:
    """The 32 codes of each block: byte j holds value j in its low half and value j + 16 in its high half."""
    return np.concatenate((packed & 0x0F, packed >> 4), axis=1)


def _canonical(values: F32) -> F32:
    bits = values.view(np.uint32)
    return np.where(np.isnan(values), CANONICAL_NAN, bits).view(np.float32)
