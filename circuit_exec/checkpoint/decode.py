"""What stored bytes mean: every storage format as float32 values, exactly as the published decoders give them.

A symmetric value is q*d, an affine one q*d + m. A code has at most 6 bits, an f16 scale 11 and an integer scale of a K
format 6 or 7, so every product is exact in float32: one rounding is left, that of the sum, as in fma(q, d, m). Every
NaN is the canonical 7fc00000.
"""

import numpy as np
from numpy.typing import NDArray

import circuit_exec.checkpoint.blocks as fields
from circuit.formats import BROUGHT_TOGETHER, FORMATS, IQ4_NL_VALUES, MXFP4_VALUES
from circuit_exec.checkpoint.raw import Bytes, raw
from circuit_exec.checkpoint.records import Checkpoint

F32 = NDArray[np.float32]
CANONICAL_NAN = np.uint32(0x7FC00000)


def tensor_values(checkpoint: Checkpoint, name: str) -> F32:
    """The values of a tensor in its shape, as float32."""
    stored = checkpoint.tensors[name]
    return decode(raw(checkpoint, name), stored.format).reshape(stored.shape)


def decode(stored: Bytes, format: str) -> F32:
    """The values of whole blocks of `format`, one after the other, as one flat float32 array."""
    assert len(stored) % FORMATS[format].block_bytes == 0, f"{len(stored)} bytes are not whole blocks of {format}"
    with np.errstate(invalid="ignore", over="ignore"):  # a scale of a file may be infinite, NaN or too large
        return _canonical(_values(stored, format).reshape(-1))


def _values(stored: Bytes, format: str) -> F32:
    match format:
        case "f32":
            return stored.view("<f4").astype(np.float32)
        case "f16":
            return stored.view("<f2").astype(np.float32)
        case "bf16":
            return (stored.view("<u2").astype(np.uint32) << np.uint32(16)).view(np.float32)
        case "q8_0":
            blocks = stored.reshape(-1, 34)
            return blocks[:, 2:].view(np.int8).astype(np.float32) * _halves(blocks[:, :2])
    if format in BROUGHT_TOGETHER:
        return _scheme_values(np.ascontiguousarray(stored).view("<u4").reshape(-1, FORMATS[format].unit_words), format)
    blocks = stored.reshape(-1, FORMATS[format].block_bytes)
    codes, first = fields.codes(blocks, format), fields.head(blocks, format)
    match format:
        case "q4_0" | "q5_0":
            return (codes.astype(np.float32) - np.float32(8 if format == "q4_0" else 16)) * _halves(first)
        case "iq4_nl":
            return np.array(IQ4_NL_VALUES, dtype=np.float32)[codes] * _halves(first)
        case "mxfp4":
            return np.array(MXFP4_VALUES, dtype=np.float32)[codes] * _half_of_e8m0(blocks[:, :1])
        case "q4_1" | "q5_1":
            return codes.astype(np.float32) * _halves(first[:, :2]) + _halves(first[:, 2:])
        case "q2_k" | "q4_k" | "q5_k":
            scale, least = fields.scale_and_minimum(blocks, format)
            of_codes = _of_sub_blocks(_halves(first[:, :2]) * scale.astype(np.float32), codes.shape[1])
            return codes.astype(np.float32) * of_codes - _of_sub_blocks(
                _halves(first[:, 2:]) * least.astype(np.float32), codes.shape[1]
            )
        case "q3_k" | "q6_k":
            signed = fields.signed_scales(blocks, format)
            of_codes = _of_sub_blocks(_halves(first) * signed.astype(np.float32), codes.shape[1])
            return of_codes * (codes.astype(np.float32) - np.float32(4 if format == "q3_k" else 32))
        case _:
            raise AssertionError(f"no decoder for the format {format}")


def _scheme_values(units: NDArray[np.uint32], format: str) -> F32:
    """The values of rows that were brought together from the tensors of a quantization scheme."""
    heads, words = np.ascontiguousarray(units[:, :1]), np.ascontiguousarray(units[:, 1:])
    if format == "f8_e4m3":
        codes = words.view(np.uint8).reshape(len(units), -1)
        scales: F32 = heads.view("<f4")
        return F8_E4M3[codes] * scales
    shifts = np.arange(0, 32, 4, dtype=np.uint32)
    nibbles = ((words[..., None] >> shifts) & np.uint32(15)).reshape(len(units), -1)
    differences = nibbles.astype(np.int32) - (heads >> np.uint32(16)).astype(np.int32)
    short = (heads << np.uint32(16)).view(np.float32)
    return differences.astype(np.float32) * (_halves(heads.view(np.uint8)[:, :2]) if "_f16_" in format else short)


def _f8_e4m3() -> F32:
    """The values of all 256 codes."""
    codes = np.arange(256)
    exponents, mantissas = codes >> 3 & 15, (codes & 7) / 8
    sizes = np.where(exponents == 0, mantissas * 2.0**-6, (1 + mantissas) * 2.0 ** (exponents - 7))
    sizes[codes & 127 == 127] = np.nan
    return np.where(codes > 127, -sizes, sizes).astype(np.float32)


F8_E4M3 = _f8_e4m3()
"""What a code of e4m3 means: bias 7, subnormals, no infinities, two NaNs."""


def _halves(pairs: Bytes) -> F32:
    """One float16 of each row of two bytes, as a column."""
    return np.ascontiguousarray(pairs).view("<f2").astype(np.float32)


def _half_of_e8m0(exponents: Bytes) -> F32:
    """2**(exponent - 128), subnormal below 2."""
    wide = exponents.astype(np.uint32)
    return np.where(wide < 2, np.uint32(0x00200000) << wide, (wide - np.uint32(1)) << np.uint32(23)).view(np.float32)


def _of_sub_blocks(scales: F32, n: int) -> F32:
    """The scale of each of the `n` values of a block."""
    return np.repeat(scales, n // scales.shape[1], axis=1)


def _canonical(values: F32) -> F32:
    bits = values.view(np.uint32)
    return np.where(np.isnan(values), CANONICAL_NAN, bits).view(np.float32)
