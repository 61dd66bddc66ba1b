"""act_quant, and linear on its rows, against formulas written for numpy: every bit."""

import numpy as np
import pytest
from numpy.typing import NDArray

from circuit.sigma.storage_coded import CODED_FORMATS
from circuit_exec.checkpoint import blocks as fields
from circuit_exec.checkpoint.raw import Bytes
from tests.checkpoint.blocks import HEAD, random_blocks
from tests.oracle.codes import F32, Coded, codes_of, linear_case, quant_case, run_words, stored_row

RNG = np.random.default_rng(41)


def quantized(x: F32) -> Coded:
    """The codes of rows, as a stored row is read."""
    return codes_of(run_words(quant_case(x)))


def formula(x: F32) -> Coded:
    """As the op's text says it, for groups that are numbers and not tiny."""
    groups = x.reshape(len(x), -1, 32)
    scales = np.abs(groups).max(axis=2) * np.float32(1 / 127)
    codes = np.clip(np.rint(groups * (np.float32(1) / scales)[..., None]), -127, 127).astype(np.int8)
    return Coded(scales=scales, sums=codes.sum(axis=2, dtype=np.int32), codes=codes)


def test_codes_scales_and_sums_are_those_of_the_formula() -> None:
    x = (RNG.standard_normal((5, 160)) * 2.0 ** RNG.integers(-20, 20, (5, 160))).astype(np.float32)
    got, want = quantized(x), formula(x)
    assert np.array_equal(got.scales.view(np.uint32), want.scales.view(np.uint32))
    assert np.array_equal(got.codes, want.codes)
    assert np.array_equal(got.sums, want.sums)
    assert np.abs(got.codes).max() == 127


def test_ties_go_to_the_even_code() -> None:
    x = np.zeros((1, 32), np.float32)
    x[0, :6] = [127.0, 0.5, 1.5, 2.5, -0.5, -1.5]  # the scale is the product 127 * (1/127), which is 1
    got = quantized(x)
    assert got.scales[0, 0] == 1.0
    assert got.codes[0, 0, :6].tolist() == [127, 0, 2, 2, 0, -2]


@pytest.mark.parametrize("value", [0.0, -0.0, 1e-42, 2.0**-101])
def test_a_group_of_zeros_or_of_tiny_numbers_has_scale_and_codes_zero(value: float) -> None:
    x = np.concatenate([np.full(32, value), np.full(32, 3.0)]).astype(np.float32)[None]
    got = quantized(x)
    assert got.scales[0, 0].view(np.uint32) == 0
    assert not got.codes[0, 0].any()
    assert got.codes[0, 1].tolist() == [127] * 32


def test_the_smallest_and_the_largest_groups_that_count_are_quantized() -> None:
    for largest in (2.0**-100, float(np.finfo(np.float32).max)):
        x = np.linspace(-largest, largest, 32).astype(np.float32)[None]
        assert np.array_equal(quantized(x).codes, formula(x).codes)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_group_with_no_number_has_a_scale_that_is_none_and_codes_zero(value: float) -> None:
    x = RNG.standard_normal((1, 96)).astype(np.float32)
    x[0, 40] = value
    got = quantized(x)
    assert np.isfinite(got.scales[0, [0, 2]]).all()
    assert not np.isfinite(got.scales[0, 1])
    assert not got.codes[0, 1].any()
    (y,) = run_words(linear_case(stored_row(got), "q8_0", rows_of("q8_0", 3, 96)))[None].view(np.float32)
    assert np.isnan(y).all()


@pytest.mark.parametrize("format", CODED_FORMATS)
@pytest.mark.parametrize("bias", [False, True])
def test_linear_on_codes_is_the_formula_in_its_order(format: str, bias: bool) -> None:
    n, k = 5, 768 if format.endswith("_k") else 608
    x = formula(RNG.standard_normal((2, k)).astype(np.float32))
    stored = rows_of(format, n, k)
    b = RNG.standard_normal(n).astype(np.float32) if bias else None
    got = run_words(linear_case(stored_row(x), format, stored, b)).view(np.float32)
    codes, scales, minima, zero = parts(format, stored)
    for row in range(2):
        for j in range(n):
            total = np.float32(0)
            for chunk in range(0, k // 32, 8):
                acc = np.float32(0)
                for g in range(chunk, min(chunk + 8, k // 32)):
                    dot = int(codes[j, g].astype(int) @ x.codes[row, g].astype(int)) - zero * int(x.sums[row, g])
                    acc = fma(np.float32(scales[j, g] * x.scales[row, g]), np.float32(dot), acc)
                    if minima is not None:
                        offset = np.float32(x.scales[row, g] * np.float32(x.sums[row, g]))
                        acc = fma(minima[j, g], offset, acc)
                total = np.float32(total + acc)
            want = total if b is None else np.float32(total + b[j])
            assert got[row, j] == want, (row, j)


def test_the_extreme_codes_meet() -> None:
    """Codes of -128 and +-127: the largest sums that a group can have."""
    stored = rows_of("q8_0", 2, 32)
    stored[:, 2:] = np.array([-128, 127], np.int8).view(np.uint8)[:, None]
    x = Coded(
        scales=np.ones((1, 1), np.float32),
        sums=np.full((1, 1), 127 * 32, np.int32),
        codes=np.full((1, 1, 32), 127, np.int8),
    )
    got = run_words(linear_case(stored_row(x), "q8_0", stored)).view(np.float32)
    scale = stored[:, :2].copy().view("<f2").astype(np.float32)[:, 0]
    assert got[0].tolist() == [scale[0] * np.float32(-128 * 127 * 32), scale[1] * np.float32(127 * 127 * 32)]


def rows_of(format: str, n: int, k: int) -> Bytes:
    """Random rows of a block format, with scales of every size that is a number."""
    stored = random_blocks(format, n * k // (256 if format.endswith("_k") else 32), 5)
    at, heads = HEAD[format]
    scales = np.random.default_rng(6).uniform(0.1, 2.0, (len(stored), heads)).astype("<f2")
    stored[:, at : at + 2 * heads] = scales.view(np.uint8).reshape(len(stored), -1)
    return stored.reshape(n, -1)


Parts = tuple[NDArray[np.int32], F32, F32 | None, int]


def parts(format: str, stored: Bytes) -> Parts:
    """Codes by group, scales, minima and zero, from the fields of the file's blocks."""
    n = len(stored)
    size = {"q8_0": 34, "q4_0": 18, "q4_1": 20, "q5_0": 22, "q5_1": 24, "q4_k": 144, "q5_k": 176}[format]
    blocks = stored.reshape(-1, size)
    if format == "q8_0":
        codes = blocks[:, 2:].copy().view(np.int8).astype(np.int32)
        head = blocks[:, :2].copy()
    else:
        codes = fields.codes(blocks, format).astype(np.int32)
        head = fields.head(blocks, format)
    heads = np.ascontiguousarray(head).view("<f2").astype(np.float32)
    scales, minima = heads[:, :1], heads[:, 1:]
    if format.endswith("_k"):
        low, least = (part.astype(np.float32) for part in fields.scale_and_minimum(blocks, format))
        scales, minima = scales * low, -(minima * least)
    zero = {"q4_0": 8, "q5_0": 16}.get(format, 0)
    by_group = codes.reshape(n, -1, 32), scales.reshape(n, -1)
    return (*by_group, minima.reshape(n, -1) if minima.size else None, zero)


def fma(a: np.float32, b: np.float32, c: np.float32) -> np.float32:
    """Rounded once: the product of two float32 is exact in longdouble, and so is the sum to 64 bits."""
    return np.float32(np.longdouble(a) * np.longdouble(b) + np.longdouble(c))
