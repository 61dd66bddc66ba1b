"""How far ahead the words of weights are asked for: words of whole values less far than words of codes."""

import re

import pytest

from circuit.formats import FORMATS
from circuit.render.ahead import CODES_AHEAD, VALUES_AHEAD, Distance
from circuit.render.c import render_kernel
from circuit.sigma.storage import decode_panel, panel_words
from circuit.uop.build import end, index, loop, param, reduce, store
from circuit.uop.node import DType
from circuit.uop.rangeify import Lowering
from circuit.uop.schedule import Split, Upcast, apply

OF_VALUES = ("f32", "f16", "bf16")
OF_CODES = tuple(name for name, format in FORMATS.items() if format.block > 1)


@pytest.mark.parametrize(
    ("format", "ahead"), [*((f, VALUES_AHEAD) for f in OF_VALUES), *((f, CODES_AHEAD) for f in OF_CODES)]
)
def test_words_are_asked_for_as_far_ahead_as_suits_what_they_hold(format: str, ahead: Distance) -> None:
    words, y = param(0, DType.U32, (panel_words(format, 48, 256, 48),)), param(1, DType.F32, (48,))
    lowering = Lowering()
    j, k = lowering.loop("j", 48), loop("k", 256)
    value = lowering.at(reduce("add", decode_panel(format, words, (48, 256), 48, j, k), k))
    steps = (
        Split(range="j", factor=16, inner="jl"),
        Upcast(range="jl"),
        Split(range="k", factor=8, inner="kl"),
        Upcast(range="kl"),
    )
    text = render_kernel("f", apply((end(store(index(y, j), value), j),), steps), 8)
    (moved,) = re.findall(r"const u32m \*const (q\d+) = p0 \+ met_ahead\((\d+), (\d+)\);", text)
    assert (4 * int(moved[1]), 4 * int(moved[2])) == (ahead.others, ahead.intel)
    asked = re.findall(r"MET_AHEAD\((\w+) \+ (.*)\);", text)
    assert {pointer for pointer, _ in asked} == {moved[0]}
    assert {at for _, at in asked} <= set(re.findall(r"\(p0 \+ ([^)]*)\)", text))
