"""act_quant, and projections of its rows in every format, scheduled and compiled: the bytes of their definitions."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from circuit.formats import FORMATS
from circuit.lower.schedules import schedule
from circuit.render.c import render_kernel
from circuit.sigma.storage import unit_inputs
from circuit.sigma.storage_coded import CODED_FORMATS
from circuit.uop.node import UOp
from circuit.uop.schedule import apply
from circuit_exec.checkpoint.raw import Bytes
from tests.checkpoint.blocks import HEAD, random_blocks
from tests.oracle.codes import Coded, OneOp, linear_case, quant_case, stored_row
from tests.oracle.test_kernels_keep_bytes import point
from tests.render.harness import FLAGS, compile_kernels, expected, same, written_slots

RNG = np.random.default_rng(43)
ROWS = 5
OUTPUTS = 49
"""A panel of 48 and one more."""

DECODE = point("panel_codes", lanes=48, row_tile=1)
PREFILL = point("panel_codes", lanes=48, row_tile=4)
POINTS = {"decode": DECODE, "prefill": PREFILL}
WORDS_OF = {"q8_0": "s8", "q4_0": "u4", "q4_1": "u4", "q5_0": "u7", "q5_1": "u7", "q4_k": "u4", "q5_k": "u7"}


def rows_of_codes(k: int) -> Coded:
    """Random rows, and one of the largest codes."""
    codes = RNG.integers(-127, 128, (ROWS, k // 32, 32)).astype(np.int8)
    codes[0] = 127
    codes[1, :, ::2] = -127
    scales = RNG.uniform(0.01, 1.0, codes.shape[:2]).astype(np.float32)
    return Coded(scales=scales, sums=codes.sum(axis=2, dtype=np.int32), codes=codes)


def blocks(format: str, k: int) -> Bytes:
    """Rows of blocks: scales of every size that is a number, all codes; the first row has the largest of them."""
    kind = FORMATS[format]
    stored = random_blocks(format, OUTPUTS * k // kind.block, 7)
    at, heads = HEAD[format]
    first = stored[: k // kind.block]
    kept = first[:, at : at + 2 * heads].copy()
    first[:] = 0x80 if format == "q8_0" else 0xFF
    first[:, at : at + 2 * heads] = kept
    return stored.reshape(OUTPUTS, -1)


QUANTS: dict[str, tuple[int, dict[str, int]]] = {
    "act_quant": (11, {}),
    "act_quant_by_groups": (11, {"turn": 4}),
    "act_quant_of_one": (1, {"turn": 4}),
    "act_quant_of_48": (48, {"turn": 4}),
}
"""Groups, and the values of the point."""


def rows_to_code(groups: int) -> NDArray[np.float32]:
    """Ordinary rows, and a group each of zeros, with a NaN, an infinity, ties, and numbers that are tiny."""
    shape = (ROWS, groups * 32)
    x = (RNG.standard_normal(shape) * 2.0 ** RNG.integers(-8, 8, shape)).astype(np.float32)
    x[1, :32] = np.arange(32, dtype=np.float32) - 15.5
    x[1, 0] = 127
    x[2, :32], x[3, 5], x[4, 31] = 0.0, np.nan, np.inf
    x[2, -32:], x[4, -32:] = 2.0**-101, x[4, -32:] * np.float32(2.0**-98)
    return x


@cache
def case_of(name: str) -> tuple[OneOp, tuple[UOp, ...]]:
    """The case with its scheduled kernel."""
    if name in QUANTS:
        case, at, unit = quant_case(rows_to_code(QUANTS[name][0])), point("act_quant", **QUANTS[name][1]), 1
    elif name == "q4_0_odd":  # a tail of half a unit
        case, at, unit = linear_case(stored_row(rows_of_codes(288)), "q4_0", blocks("q4_0", 288)), DECODE, 64
    else:
        format, _, mode = name.rpartition("_")
        k = 256 if format.endswith("_k") else 320  # a chunk and a tail of two groups
        case = linear_case(stored_row(rows_of_codes(k)), format, blocks(format, k))
        at, unit = POINTS[mode], unit_inputs(format)
    effects = case.definition.effects
    return case, apply(effects, schedule(at, effects, unit))


REGISTERS = ((8, ("-mno-avx512vnni",)), (8, ()), (16, ()))
"""Lanes, and flags: eight with the products of AVX2, and the processor's best for eight and sixteen."""

OFTEN = (*QUANTS, "q4_0_odd", "q4_1_prefill", "q8_0_prefill", "q5_0_decode")
RARE = tuple(f"{format}_{name}" for format in CODED_FORMATS for name in POINTS if f"{format}_{name}" not in OFTEN)


@pytest.mark.parametrize("name", [*OFTEN, *(pytest.param(name, marks=pytest.mark.slow) for name in RARE)])
def test_a_compiled_kernel_gives_the_bytes_of_its_definition(name: str, tmp_path: Path) -> None:
    case, kernel = case_of(name)
    effects = case.definition.effects
    want = expected(effects, case.buffers, case.scalars)
    for place, (lanes, flags) in enumerate(REGISTERS):
        (tmp_path / str(place)).mkdir()
        library = compile_kernels(tmp_path / str(place), {name: kernel}, (*FLAGS, *flags), lanes)
        for threads in (1, 2, 3):
            got = library.run(name, kernel, case.buffers, case.scalars, threads)
            assert same(got, want, written_slots(effects)), f"registers of {lanes} lanes, {flags}, {threads} threads"


@pytest.mark.parametrize("format", CODED_FORMATS)
def test_the_products_of_bytes_are_found_in_every_format(format: str) -> None:
    _, kernel = case_of(f"{format}_decode")
    text = render_kernel("k", kernel, 8)
    assert f"met_add_{WORDS_OF[format]}_x8(" in text
    others = set(WORDS_OF.values()) - {WORDS_OF[format]}
    assert not any(f"met_add_{other}_x8(" in text for other in others)
