"""Vectors of four to sixteen lanes: what is masked in place, picked or converted has the value that it stands for."""

import re
from pathlib import Path

import pytest

from circuit.render.c import render_kernel
from circuit.render.lanes import Piece, pieces, widths
from circuit.sigma.storage import decode_panel, panel_words
from circuit.uop.build import end, index, loop, param, reduce, store
from circuit.uop.node import DType
from circuit.uop.rangeify import Lowering
from circuit.uop.schedule import Split, Upcast, apply
from tests.render.data import integers, numbers
from tests.render.harness import QUICK, Buffers, Effects, compile_kernels, expected, same, written_slots

FORMATS = ("f16", "q8_0", "q4_0", "q4_1", "q5_1", "iq4_nl", "mxfp4", "q4_k")
N, K = 52, 256


def kernel(format: str) -> Effects:
    """y[j] = the sum over k of w[j, k] * x[k], w in panels of 48 outputs."""
    lowering = Lowering()
    words = param(1, DType.U32, (panel_words(format, N, K, 48),))
    x, y = param(0, DType.F32, (K,)), param(2, DType.F32, (N,))
    j, k = lowering.loop("j", N), loop("k", K)
    value = lowering.at(
        reduce("mulacc", decode_panel(format, words, (N, K), 48, j, k), index(x, k), k, order="fold:256")
    )
    steps = (Split(range="j", factor=48, inner="jl"), Upcast(range="jl"), Split(range="k", factor=64, inner="ku"))
    blocks = (Split(range="ku", factor=32, inner="kb"), Upcast(range="ku"), Split(range="kb", factor=8, inner="ki"))
    return apply((end(store(index(y, j), value), j),), (*steps, *blocks, Upcast(range="ki")))


KERNELS = {format: kernel(format) for format in FORMATS}


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize(
    "flags",
    [(), ("-mno-avx512f", "-Wno-psabi"), ("-mno-avx512f", "-mno-avx2", "-mno-ssse3", "-Wno-psabi")],
    ids=["", "without AVX-512", "without shuffles of bytes"],
)
def test_words_of_any_bits_decode_to_the_same_values(tmp_path: Path, lanes: int, flags: tuple[str, ...]) -> None:
    library = compile_kernels(tmp_path, KERNELS, (*QUICK, *flags), lanes)
    for format, effects in KERNELS.items():
        words = integers(7, panel_words(format, N, K, 48), 0, 2**32 - 1)  # infinities and NaNs among the scales
        for kept in (0xFFFFFFFF, 0xBFFFBFFF):  # and none
            buffers: Buffers = {0: numbers(8, K, 0.001), 1: [int(w) & kept for w in words], 2: [0.0] * N}
            want = expected(effects, buffers, {})
            assert same(library.run(format, effects, buffers, {}), want, written_slots(effects)), format


@pytest.mark.parametrize(("format", "calls"), [("q4_0", 48 * 8 // 16), ("q4_1", 6), ("iq4_nl", 48 * 8 // 16)])
def test_sixteen_lanes_pick_nibbles_from_a_table(format: str, calls: int) -> None:
    assert render_kernel("f", KERNELS[format], 16).count("met_pick_x16(") >= calls
    assert "met_pick" not in render_kernel("f", KERNELS[format], 8)


@pytest.mark.parametrize(("format", "kind", "places"), [("q4_0", "nibble", range(8)), ("q8_0", "byte", range(3))])
def test_eight_lanes_shuffle_signed_codes_to_the_top_of_their_words(format: str, kind: str, places: range) -> None:
    text = render_kernel("f", KERNELS[format], 8)
    for place in places:
        assert re.search(rf"met_{kind}_on_top_x8\(\w+, {place}\)", text), place
    assert ">> 4" not in text
    assert "(-8)" not in text


def test_a_class_has_the_vectors_that_fit_its_registers() -> None:
    assert (widths(4), widths(8), widths(16)) == ((4,), (8, 4), (16, 8, 4))
    assert pieces(29, 16) == (Piece(0, 16), Piece(16, 8), Piece(24, 4), Piece(28, 1))
    with pytest.raises(AssertionError, match="registers of 2 lanes hold no vector of 4"):
        widths(2)
