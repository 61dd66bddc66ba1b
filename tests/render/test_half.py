"""Every f16, decoded by the instruction where there is one and by arithmetic where not."""

import struct
from pathlib import Path

import pytest

from circuit.render.c import render_kernel
from circuit.sigma.storage import decode_panel, panel_words
from circuit.sigma.storage_codes import decode_f16, half
from circuit.uop.build import end, index, load, loop, param, reduce, shl, store, where
from circuit.uop.node import DType, UOp
from circuit.uop.rangeify import Lowering
from circuit.uop.schedule import Split, Upcast, apply
from tests.render.data import integers
from tests.render.harness import QUICK, Buffers, Effects, compile_kernels, expected, same, written_slots

COUNT = 2**15  # words: two f16 each


def kernel(lanes: int) -> Effects:
    """y[i] = the low half of word i, z[i] = the high half."""
    w, y, z = param(0, DType.U32, (COUNT,)), param(1, DType.F32, (COUNT,)), param(2, DType.F32, (COUNT,))
    i, j = loop("i", COUNT), loop("j", COUNT)
    low = end(store(index(y, i), decode_f16(load(index(w, i)) % 65536)), i)
    high = end(store(index(z, j), decode_f16(load(index(w, j)) // 65536)), j)
    effects: Effects = (low, high)
    for name in ("i", "j") if lanes > 1 else ():
        effects = apply(effects, (Split(range=name, factor=lanes, inner=f"{name}l"), Upcast(range=f"{name}l")))
    return effects


def beside(lanes: int) -> Effects:
    """The halves of the lanes side by side: y[i] = half i % 2 of word i // 2, z[i] that of a word 2**14 later."""
    w, y, z = param(0, DType.U32, (COUNT,)), param(1, DType.F32, (COUNT,)), param(2, DType.F32, (COUNT,))
    i, j = loop("i", COUNT), loop("j", COUNT)
    first = end(store(index(y, i), decode_f16(half(load(index(w, i // 2)), i))), i)
    second = end(store(index(z, j), decode_f16(half(load(index(w, j // 2 + COUNT // 2)), j))), j)
    effects: Effects = (first, second)
    for name in ("i", "j") if lanes > 1 else ():
        effects = apply(effects, (Split(range=name, factor=lanes, inner=f"{name}l"), Upcast(range=f"{name}l")))
    return effects


LANES = (1, 4, 8, 16)
KERNELS = {f"half{lanes}": kernel(lanes) for lanes in LANES} | {f"beside{lanes}": beside(lanes) for lanes in LANES}


@pytest.mark.parametrize(
    "flags", [(), ("-mno-f16c", "-mno-avx512f", "-Wno-psabi")], ids=["with the instruction", "by arithmetic"]
)
def test_every_f16_has_its_value(tmp_path: Path, flags: tuple[str, ...]) -> None:
    library = compile_kernels(tmp_path, KERNELS, (*QUICK, *flags), lanes=16)
    halves = [(n * 40503) % 65536 for n in range(65536)]  # all of them, in an order that mixes neighbours
    words = [low | high << 16 for low, high in zip(halves[::2], halves[1::2], strict=True)]
    want = [struct.unpack("<e", h.to_bytes(2, "little"))[0] for h in halves]
    for name, effects in KERNELS.items():
        got = library.run(name, effects, {0: [*words], 1: [0.0] * COUNT, 2: [0.0] * COUNT}, {})
        parts = (want[::2], want[1::2]) if name.startswith("half") else (want[:COUNT], want[COUNT:])
        for slot, part in enumerate(parts, start=1):
            pairs = zip(got[slot], part, strict=True)
            assert all(str(a) == str(b) for a, b in pairs)  # tells -0 from 0, and a NaN is a NaN


def test_vectors_of_f16_are_converted_by_the_processor() -> None:
    text = render_kernel("f", kernel(8), 8)
    assert (text.count("met_low_half_x8"), text.count("met_high_half_x8")) == (1, 1)


@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_halves_of_lanes_side_by_side_are_converted_as_they_are_read(lanes: int) -> None:
    text = render_kernel("f", beside(lanes), 16)
    assert text.count(f"met_halves_x{lanes}(") == 2
    assert "u32x" not in text


def test_the_halves_of_a_panel_are_side_by_side_for_any_lanes_of_a_class() -> None:
    words, y = param(0, DType.U32, (panel_words("f16", 96, 4, 48),)), param(1, DType.F32, (96,))
    for lanes in (48, 24, 16):
        lowering = Lowering()
        j, k = lowering.loop("j", 96), loop("k", 4)
        value = lowering.at(reduce("add", decode_panel("f16", words, (96, 4), 48, j, k), k))
        steps = (Split(range="j", factor=lanes, inner="jl"), Upcast(range="jl"), Upcast(range="k"))
        effects = apply((end(store(index(y, j), value), j),), steps)
        text = render_kernel("f", effects, 8)
        assert (text.count("met_halves_x8("), text.count("met_half_x8(")) == (4 * lanes // 8, 0)


def other_halves(w: UOp, i: UOp) -> dict[str, UOp]:
    """Values of lanes that do not stand side by side."""
    return {
        "high first": half(load(index(w, i // 2)), i + 1),
        "two words apart": half(load(index(w, i // 2 * 2)), i),
        "of other words": where(i % 2 < 1, load(index(w, i // 2)) % 65536, load(index(w, i // 2 + 1)) // 65536),
        "of one word": half(load(index(w, i // 32)), i),
        "of a sum": half(load(index(w, i // 2)) + load(index(w, i // 2 + 1)), i),
        "moved": half(shl(load(index(w, i // 2)), 1), i),
    }


@pytest.mark.parametrize("name", sorted(other_halves(param(0, DType.U32, (COUNT,)), loop("i", 64))))
def test_halves_that_stand_otherwise_are_not_read_at_once(name: str, tmp_path: Path) -> None:
    w, y, i = param(0, DType.U32, (COUNT,)), param(1, DType.F32, (64,)), loop("i", 64)
    value = decode_f16(other_halves(w, i)[name])
    steps = (Split(range="i", factor=8, inner="il"), Upcast(range="il"))
    effects = apply((end(store(index(y, i), value), i),), steps)
    assert "met_halves" not in render_kernel("f", effects, 8)
    buffers: Buffers = {0: integers(3, COUNT, 0, 2**32 - 1), 1: [0.0] * 64}
    got = compile_kernels(tmp_path, {"f": effects}, QUICK, 8).run("f", effects, buffers, {})
    assert same(got, expected(effects, buffers, {}), written_slots(effects))
