"""Decoding gives the exact values, rounded once, and so the bytes of the published decoders."""

import math
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from circuit.formats import BROUGHT_TOGETHER, FORMATS
from circuit_exec.checkpoint.decode import decode, tensor_values
from circuit_exec.checkpoint.open import open_checkpoint
from circuit_exec.checkpoint.texts import rope_factors
from tests.checkpoint.blocks import HEAD, exact, not_finite_blocks, random_blocks, random_units, rounded
from tests.checkpoint.files import GGML, GgufTensor, Tensor, folder, gguf, safetensors
from tests.checkpoint.schemes import e4m3


@pytest.mark.parametrize("format", HEAD)
def test_block_values_are_the_exact_ones_rounded_once(format: str) -> None:
    block = FORMATS[format].block
    stored = random_blocks(format, 400 if block == 32 else 150, 7)
    decoded = decode(stored.reshape(-1), format).reshape(-1, block)
    for values, data in zip(decoded, stored, strict=True):
        assert np.array_equal(values, rounded(exact(data, format)))


@given(seed=st.integers(0, 2**32 - 1), format=st.sampled_from(list(HEAD)))
def test_block_values_are_the_bytes_of_the_published_decoder(seed: int, format: str) -> None:
    quants = pytest.importorskip("gguf.quants")
    constants = pytest.importorskip("gguf.constants")
    stored = random_blocks(format, 200, seed)
    kind = constants.GGMLQuantizationType(GGML[format])
    with np.errstate(over="ignore"):
        theirs: NDArray[np.float32] = quants.dequantize(stored, kind).reshape(-1)
    assert np.array_equal(decode(stored.reshape(-1), format).view(np.uint32), theirs.view(np.uint32))


@pytest.mark.parametrize("format", [format for format, (_, heads) in HEAD.items() if heads])
def test_scales_that_are_not_finite_give_the_values_of_the_published_decoder_and_nan_is_canonical(format: str) -> None:
    quants = pytest.importorskip("gguf.quants")
    constants = pytest.importorskip("gguf.constants")
    stored = not_finite_blocks(format, 64, 5)
    with np.errstate(invalid="ignore"):
        theirs: NDArray[np.float32] = quants.dequantize(stored, constants.GGMLQuantizationType(GGML[format])).reshape(
            -1
        )
    bits = np.where(np.isnan(theirs), np.uint32(0x7FC00000), theirs.view(np.uint32))
    assert np.isnan(theirs).any()
    assert np.array_equal(decode(stored.reshape(-1), format).view(np.uint32), bits)


@pytest.mark.parametrize("format", BROUGHT_TOGETHER)
def test_units_of_schemes_are_the_exact_values_rounded_once(format: str) -> None:
    """Every code of 4 bits less every zero under every kind of scale; every code of 8 bits, NaN too."""
    stored = random_units(format, 240, 6)
    words = stored.view("<u4").tolist()
    found = decode(stored.reshape(-1), format).reshape(len(words), -1)
    for row, values in zip(words, found, strict=True):
        head, data = row[0], b"".join(word.to_bytes(4, "little") for word in row[1:])
        if format == "f8_e4m3":
            (scale,) = struct.unpack("<f", head.to_bytes(4, "little"))
            codes = [math.nan if code & 127 == 127 else e4m3(code) for code in data]
        else:
            short = (head & 0xFFFF).to_bytes(2, "little")
            (scale,) = struct.unpack("<e", short) if "_f16_" in format else struct.unpack("<f", b"\0\0" + short)
            codes = [float((byte >> shift & 15) - (head >> 16)) for byte in data for shift in (0, 4)]
        assert all(same(product(scale, code), value) for code, value in zip(codes, values, strict=True))


def product(scale: float, code: float) -> float:
    """The exact product, which a double holds, rounded to float32."""
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.float64(scale * code if math.isfinite(scale) else np.float64(scale) * code).astype(np.float32))


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
