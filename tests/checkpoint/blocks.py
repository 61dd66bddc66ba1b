"""Quantized blocks for tests, and what they mean: rational arithmetic, one value at a time, as ggml's C loops go."""

import struct
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from circuit.formats import FORMATS
from circuit_exec.checkpoint.raw import Bytes

HEAD = {
    "q4_0": (0, 1), "q4_1": (0, 2), "q5_0": (0, 1), "q5_1": (0, 2), "q8_0": (0, 1), "iq4_nl": (0, 1), "mxfp4": (0, 0),
    "q2_k": (80, 2), "q3_k": (108, 1), "q4_k": (0, 2), "q5_k": (0, 2), "q6_k": (208, 1),
}  # fmt: skip
"""Where a block's f16 scale is, and its minimum after it: the byte, and how many f16 there are."""

EXTREMES = np.array(
    [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF, 0x3555, 0x5000], dtype="<u2"
)
"""Zero and -0, the smallest and the largest subnormal, the smallest normal, one, the largest, and two in between."""


def random_blocks(format: str, n: int, seed: int) -> Bytes:
    """Random blocks whose scales are finite.

    The first ones take every pair of extreme scales; every other one of them has one code in all places, so that all
    codes and all integer scales meet each scale.
    """
    rng = np.random.default_rng(seed)
    stored = rng.integers(0, 256, (n, FORMATS[format].block_bytes), dtype=np.uint8)
    same = stored[: len(EXTREMES) ** 2 : 2]
    same[:] = (np.arange(len(same)) * 17 + seed)[:, None] % 256
    at, heads = HEAD[format]
    if heads == 0:  # a scale that is a power of two, given by one byte
        stored[: min(n, 256), 0] = np.arange(min(n, 256))
        return stored
    bits = rng.integers(0, 1 << 16, (n, heads), dtype=np.uint16)
    bits = np.where((bits & 0x7C00) == 0x7C00, bits & 0xBFFF, bits).astype("<u2")
    pairs = np.stack(np.meshgrid(EXTREMES, EXTREMES), axis=-1).reshape(-1, 2)[:n, :heads]
    bits[: len(pairs)] = pairs
    stored[:, at : at + 2 * heads] = bits.view(np.uint8).reshape(n, -1)
    return stored


def not_finite_blocks(format: str, n: int, seed: int) -> Bytes:
    """Random blocks of a format with f16 scales, each scale and minimum infinite or NaN, all pairs of them."""
    rng = np.random.default_rng(seed)
    stored = rng.integers(0, 256, (n, FORMATS[format].block_bytes), dtype=np.uint8)
    at, heads = HEAD[format]
    assert heads > 0
    odd = np.array([0x7C00, 0xFC00, 0x7E00, 0xFDAB], dtype="<u2")
    pairs = np.stack(np.meshgrid(odd, odd), axis=-1).reshape(-1, 2)
    stored[:, at : at + 2 * heads] = np.resize(pairs[:, :heads], (n, heads)).astype("<u2").view(np.uint8).reshape(n, -1)
    return stored


def random_units(format: str, n: int, seed: int) -> Bytes:
    """Rows of one unit of what schemes are brought together as: extreme scales first, then random ones, and all codes.

    The head of a unit is a scale of 32 bits for codes of 8 bits, of 16 bits under the zero for codes of 4.
    """
    rng = np.random.default_rng(seed)
    words = rng.integers(0, 1 << 32, (n, FORMATS[format].unit_words), dtype=np.uint32)
    words[: n // 2, 1:] = ((np.arange(n // 2) * 17 + seed) % 256 * 0x01010101).astype(np.uint32)[:, None]
    if format == "f8_e4m3":
        scales = [0, 1 << 31, 1, 0x80000001, 0x7FFFFF, 0x800000, 0x3F800000, 0x7F7FFFFF, 0x7F800000, 0x7FC00000]
        words[: len(scales), 0] = scales
        return words.view(np.uint8)
    scales = [0, 0x8000, 1, 0x8001, 0x3F, 0x80, 0x3C00, 0xBC00, 0x7BFF, 0x3F80, 0x7F7F, 0x7C00, 0x7E00, 0x7F80, 0x7FC0]
    words[:, 0] = np.resize(scales, n) | (rng.integers(0, 16, n) << 16)
    return words.view(np.uint8)


def exact(stored: Bytes, format: str) -> list[Fraction]:
    """The values of one block."""
    data = stored.tobytes()
    at, heads = HEAD[format]
    scales = [Fraction(struct.unpack_from("<e", data, at + 2 * i)[0]) for i in range(heads)]
    return _EXACT[format](data, *scales)


def rounded(values: list[Fraction]) -> NDArray[np.float32]:
    """Each value rounded once to float32: all are exact in float64, which is checked."""
    doubles = [float(value) for value in values]
    assert [Fraction(double) for double in doubles] == values
    with np.errstate(over="ignore"):
        return np.array(doubles, dtype=np.float64).astype(np.float32)


def _nibble(data: bytes, at: int, i: int, half: int) -> int:
    """Value i of blocks whose runs of `half` bytes hold values 0 to half-1 low and the next `half` high."""
    byte = data[at + i // (2 * half) * half + i % half]
    return byte >> 4 if i // half % 2 else byte & 15


def _two_bits(data: bytes, at: int, i: int) -> int:
    return data[at + i // 128 * 32 + i % 32] >> (2 * (i // 32 % 4)) & 3


def _plane(data: bytes, at: int, i: int) -> int:
    return data[at + i % 32] >> (i // 32) & 1


def _six_bits(data: bytes, s: int) -> tuple[int, int]:
    """Scale and minimum of sub-block s of Q4_K and Q5_K, as get_scale_min_k4 of ggml-quants.c has it."""
    q = data[4:16]
    if s < 4:
        return q[s] & 63, q[s + 4] & 63
    return (q[s + 4] & 15) | (q[s - 4] >> 6) << 4, (q[s + 4] >> 4) | (q[s] >> 6) << 4


def _q3_scale(data: bytes, s: int) -> int:
    low = data[96 + s % 8] >> (4 * (s // 8)) & 15
    return (low | (data[104 + s % 4] >> (2 * (s // 4)) & 3) << 4) - 32


def _fifth(data: bytes, at: int, i: int) -> int:
    return (int.from_bytes(data[at : at + 4], "little") >> i & 1) << 4


def _q2_k(data: bytes, d: Fraction, least: Fraction) -> list[Fraction]:
    return [d * (data[i // 16] & 15) * _two_bits(data, 16, i) - least * (data[i // 16] >> 4) for i in range(256)]


def _q4_k(data: bytes, d: Fraction, least: Fraction) -> list[Fraction]:
    pairs = [_six_bits(data, s) for s in range(8)]
    return [d * pairs[i // 32][0] * _nibble(data, 16, i, 32) - least * pairs[i // 32][1] for i in range(256)]


def _q5_k(data: bytes, d: Fraction, least: Fraction) -> list[Fraction]:
    pairs = [_six_bits(data, s) for s in range(8)]
    codes = [_nibble(data, 48, i, 32) + 16 * _plane(data, 16, i) for i in range(256)]
    return [d * pairs[i // 32][0] * codes[i] - least * pairs[i // 32][1] for i in range(256)]


def _q6_k(data: bytes, d: Fraction) -> list[Fraction]:
    scales = struct.unpack_from("<16b", data, 192)
    return [d * scales[i // 16] * (_nibble(data, 0, i, 64) + 16 * _two_bits(data, 128, i) - 32) for i in range(256)]


def _q3_k(data: bytes, d: Fraction) -> list[Fraction]:
    codes = [_two_bits(data, 32, i) - (0 if _plane(data, 0, i) else 4) for i in range(256)]
    return [d * _q3_scale(data, i // 16) * codes[i] for i in range(256)]


def _mxfp4(data: bytes) -> list[Fraction]:
    """e2m1 under a shared exponent: sign, two bits of exponent (0: subnormal), one of mantissa."""
    values = []
    for i in range(32):
        code = _nibble(data, 1, i, 16)
        exponent, mantissa = code >> 1 & 3, code & 1
        size = Fraction(mantissa, 2) if exponent == 0 else (1 + Fraction(mantissa, 2)) * 2 ** (exponent - 1)
        values.append((-size if code >> 3 else size) * Fraction(2) ** (data[0] - 127))
    return values


_IQ4_NL = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
_EXACT: dict[str, Callable[..., list[Fraction]]] = {
    "q8_0": lambda data, d: [d * code for code in struct.unpack_from("<32b", data, 2)],
    "q4_0": lambda data, d: [d * (_nibble(data, 2, i, 16) - 8) for i in range(32)],
    "q4_1": lambda data, d, m: [d * _nibble(data, 4, i, 16) + m for i in range(32)],
    "q5_0": lambda data, d: [d * (_nibble(data, 6, i, 16) + _fifth(data, 2, i) - 16) for i in range(32)],
    "q5_1": lambda data, d, m: [d * (_nibble(data, 8, i, 16) + _fifth(data, 4, i)) + m for i in range(32)],
    "iq4_nl": lambda data, d: [d * _IQ4_NL[_nibble(data, 2, i, 16)] for i in range(32)],
    "mxfp4": _mxfp4,
    "q2_k": _q2_k,
    "q3_k": _q3_k,
    "q4_k": _q4_k,
    "q5_k": _q5_k,
    "q6_k": _q6_k,
}
