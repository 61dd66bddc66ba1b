"""Every f16, decoded by the instruction where there is one and by arithmetic where not."""

import struct
from pathlib import Path

import pytest

from circuit.render.c import render_kernel
from circuit.sigma.storage_codes import decode_f16
from circuit.uop.build import end, index, load, loop, param, store
from circuit.uop.node import DType
from circuit.uop.schedule import Split, Upcast, apply
from tests.render.harness import QUICK, Effects, compile_kernels

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


KERNELS = {f"half{lanes}": kernel(lanes) for lanes in (1, 4, 8, 16)}


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
        for place, slot in ((0, 1), (1, 2)):
            pairs = zip(got[slot], want[place::2], strict=True)
            assert all(str(a) == str(b) for a, b in pairs)  # tells -0 from 0, and a NaN is a NaN


def test_vectors_of_f16_are_converted_by_the_processor() -> None:
    text = render_kernel("f", kernel(8), 8)
    assert (text.count("met_low_half_x8"), text.count("met_high_half_x8")) == (1, 1)
