"""Decoding gives the exact values, rounded once, and so the bytes of the published decoders."""

import struct
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from circuit.formats import FORMATS
from circuit_exec.checkpoint.decode import decode, rope_factors, tensor_values
from circuit_exec.checkpoint.open import open_checkpoint
from circuit_exec.checkpoint.records import Bytes
from tests.checkpoint.files import GGML, GgufTensor, Tensor, folder, gguf, safetensors

HEADS = {"q4_0": 1, "q4_1": 2, "q8_0": 1}
EXTREMES = np.array(
    [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF, 0x3555, 0x5000], dtype="<u2"
)


def blocks(format: str, n: int, seed: int) -> Bytes:
    """Random blocks whose scales are finite; the first ones take every pair of extreme scales."""
    rng = np.random.default_rng(seed)
    stored = rng.integers(0, 256, (n, FORMATS[format].block_bytes), dtype=np.uint8)
    bits = rng.integers(0, 1 << 16, (n, HEADS[format]), dtype=np.uint16)
    bits = np.where((bits & 0x7C00) == 0x7C00, bits & 0xBFFF, bits).astype("<u2")
    pairs = np.stack(np.meshgrid(EXTREMES, EXTREMES), axis=-1).reshape(-1, 2)[:n, : HEADS[format]]
    bits[: len(pairs)] = pairs
    stored[:, : 2 * HEADS[format]] = bits.view(np.uint8).reshape(n, -1)
    return stored


def exact(stored: Bytes, format: str) -> list[Fraction]:
    """The values of one block in rational arithmetic, byte by byte as the format is described."""
    data = stored.tobytes()
    d = Fraction(struct.unpack("<e", data[:2])[0])
    if format == "q8_0":
        return [d * code for code in struct.unpack("<32b", data[2:])]
    start = 2 * HEADS[format]
    codes = [byte & 15 for byte in data[start:]] + [byte >> 4 for byte in data[start:]]
    if format == "q4_0":
        return [d * (code - 8) for code in codes]
    return [d * code + Fraction(struct.unpack("<e", data[2:4])[0]) for code in codes]


def nearest_f32(value: Fraction) -> float:
    """The float32 nearest to `value`, ties to even, by search among its neighbours."""
    guess = np.float32(float(value))
    around = [guess, np.nextafter(guess, np.float32(np.inf)), np.nextafter(guess, np.float32(-np.inf))]
    return float(min(around, key=lambda f: (abs(Fraction(float(f)) - value), int(np.float32(f).view(np.uint32)) & 1)))


@pytest.mark.parametrize("format", sorted(HEADS))
def test_block_values_are_the_exact_ones_rounded_once(format: str) -> None:
    stored = blocks(format, 400, 7)
    decoded = decode(stored.reshape(-1), format).reshape(-1, 32)
    for block, values in zip(stored, decoded, strict=True):
        assert [float(value) for value in values] == [nearest_f32(value) for value in exact(block, format)]


@given(seed=st.integers(0, 2**32 - 1), format=st.sampled_from(sorted(HEADS)))
def test_block_values_are_the_bytes_of_the_published_decoder(seed: int, format: str) -> None:
    quants = pytest.importorskip("gguf.quants")
    constants = pytest.importorskip("gguf.constants")
    stored = blocks(format, 200, seed)
    kind = constants.GGMLQuantizationType(GGML[format])
    theirs: NDArray[np.float32] = quants.dequantize(stored, kind).reshape(-1)
    assert np.array_equal(decode(stored.reshape(-1), format).view(np.uint32), theirs.view(np.uint32))


def test_every_f16_and_bf16_pattern_decodes_exactly_and_nan_is_canonical() -> None:
    patterns = np.arange(1 << 16, dtype="<u2")
    stored = patterns.view(np.uint8)
    halves = decode(stored, "f16")
    shorts = decode(stored, "bf16")
    for bits in range(1 << 16):
        (half,) = struct.unpack("<e", struct.pack("<H", bits))
        (short,) = struct.unpack("<f", struct.pack("<I", bits << 16))
        assert same(half, halves[bits])
        assert same(short, shorts[bits])


def same(expected: float, got: np.float32) -> bool:
    want = 0x7FC00000 if expected != expected else struct.unpack("<I", struct.pack("<f", expected))[0]
    return int(got.view(np.uint32)) == want


def test_f32_keeps_its_bits_except_that_nan_is_canonical() -> None:
    bits = np.array([0, 0x80000000, 1, 0x7F800000, 0x7F800001, 0xFFC12345, 0x3F800001], dtype="<u4")
    want = [0, 0x80000000, 1, 0x7F800000, 0x7FC00000, 0x7FC00000, 0x3F800001]
    assert decode(bits.view(np.uint8), "f32").view(np.uint32).tolist() == want


def test_values_have_the_shape_of_their_tensor_even_where_its_bytes_are_not_aligned(tmp_path: Path) -> None:
    odd = Tensor(name="odd", dtype="BF16", shape=(1,), data=bytes(2))
    values = np.arange(6, dtype="<f4")
    tensor = Tensor(name="t", dtype="F32", shape=(2, 3), data=values.tobytes())
    checkpoint = open_checkpoint(str(folder(tmp_path, {"model.safetensors": safetensors([odd, tensor])})))
    assert np.array_equal(tensor_values(checkpoint, "t"), values.reshape(2, 3))


def test_rope_factors_are_the_values_of_their_tensor(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    data = np.array([1.0, 0.1, 32.0], dtype="<f4").tobytes()
    path.write_bytes(gguf([], [GgufTensor(name="rope_freqs.weight", type=0, shape=(3,), data=data)]))
    assert rope_factors(open_checkpoint(str(path))) == (1.0, float(np.float32(0.1)), 32.0)
    path.write_bytes(gguf())
    assert rope_factors(open_checkpoint(str(path))) is None
