"""Vectors of codes and folds along lanes: rounded and clamped, packed four bytes a word, folded: every bit is kept."""

from pathlib import Path

import pytest

from circuit.render.c import render_kernel
from circuit.uop.build import (
    bitcast,
    cast,
    end,
    f32,
    i32,
    index,
    load,
    loop,
    maximum,
    param,
    reduce,
    shl,
    store,
    u32,
    where,
)
from circuit.uop.node import DType, f32_value
from circuit.uop.schedule import Split, Upcast, apply
from tests.render.data import integers, numbers
from tests.render.harness import QUICK, Buffers, Effects, compile_kernels, expected, same, written_slots

PROCESSORS = {
    "": (),
    "without AVX-512": ("-mno-avx512f",),
    "without AVX2": ("-mno-avx2", "-mno-avx512f"),
    "without AVX": ("-mno-avx", "-mno-sse4.1"),
}
TO_EVEN = 1.5 * 2.0**23
WIDTHS = (4, 8, 16)
PLACES = 29
"""Vectors of 16, 8 and 4, and one place more."""


def rounded(lo: int, hi: int, count: int, back: float = -TO_EVEN) -> Effects:
    """y[i] = x[i] to an integer, and into lo .. hi."""
    x, y, i = param(0, DType.F32, (count,)), param(1, DType.I32, (count,)), loop("i", count)
    whole = maximum(cast(load(index(x, i)) + f32(TO_EVEN) + f32(back), DType.I32), i32(lo))
    made = (end(store(index(y, i), where(whole < i32(hi), whole, i32(hi))), i),)
    return apply(made, (Split(range="i", factor=PLACES, inner="il"), Upcast(range="il")))


def packed(step: int = 4, lo: int | None = -128, modulus: int = 256) -> Effects:
    """y[w] = four bytes of x from place step * w on, and behind eight such words a number from elsewhere."""
    x, y, w = param(0, DType.I32, (40,), "x", lo, 127), param(1, DType.U32, (10,)), loop("w", 10)
    inside, word = w < 8, u32(0)
    for byte in range(4):
        code = load(index(x, where(inside, w * step + byte, byte)))
        word = word + shl(cast(code, DType.U32) % modulus, 8 * byte)
    other = cast(load(index(x, where(inside, 0, w + 30))), DType.U32)
    return apply((end(store(index(y, w), where(inside, word, other)), w),), (Upcast(range="w"),))


def folded(op: str, kind: str, upcast: bool = True) -> Effects:
    """y[j] = the largest of row j of x, or their sum; `bits`: of the magnitudes of the f32 whose bits they are."""
    words = kind == "bits"
    x, y = param(0, DType.U32 if words else DType.I32, (3 * PLACES,)), param(1, DType.I32, (3,))
    j, k = loop("j", 3), loop("k", PLACES)
    value = load(index(x, j * PLACES + k))
    if words:
        value = cast(bitcast(bitcast(value, DType.F32), DType.U32) % 2**31, DType.I32)
    made = (end(store(index(y, j), reduce(op, value, k)), j),)
    return apply(made, (Upcast(range="k"),)) if upcast else made


def floats() -> Effects:
    """y[0] = the sum of f32, in order."""
    x, y, k = param(0, DType.F32, (PLACES,)), param(1, DType.F32, (1,)), loop("k", PLACES)
    return apply((store(index(y, 0), reduce("add", load(index(x, k)), k)),), (Upcast(range="k"),))


def reals() -> list[float]:
    """Ties, ends of every range that matters, and what is no number."""
    ends = [0.0, -0.0, 0.5, 1.5, 2.5, 126.5, 127.0, 127.49, 127.5, 128.0, 2.0**22, 2.0**23, 2.0**31, 3e38, 1e-40]
    below = [f32_value(bits) for bits in (0x7F800000, 0x7FC00000, 0x7F7FFFFF, 0x4EFFFFFF, 0x4A7FFFFF, 0x42FDFFFF)]
    signed = [sign * x for x in (*ends, *below) for sign in (1, -1)]
    return [*signed, *(float(x) * 16 for x in numbers(3, 500))]


def check(folder: Path, kernels: dict[str, tuple[Effects, Buffers]], flags: tuple[str, ...], lanes: int) -> None:
    programs = {name: effects for name, (effects, _) in kernels.items()}
    library = compile_kernels(folder, programs, (*QUICK, *flags), lanes)
    for name, (effects, buffers) in kernels.items():
        want = expected(effects, buffers, {})
        assert same(library.run(name, effects, buffers, {}), want, written_slots(effects)), name


@pytest.mark.parametrize("lanes", WIDTHS)
@pytest.mark.parametrize("flags", PROCESSORS.values(), ids=PROCESSORS.keys())
def test_vectors_of_codes_are_those_of_the_definition(tmp_path: Path, flags: tuple[str, ...], lanes: int) -> None:
    x, n = reals(), PLACES * 3
    kernels: dict[str, tuple[Effects, Buffers]] = {}
    for name, (lo, hi) in {"codes": (-127, 127), "zero": (0, 0), "wide": (-(2**22), 2**22)}.items():
        kernels[name] = (rounded(lo, hi, len(x)), {0: [*x], 1: [0] * len(x)})
    kernels["packed"] = (packed(), {0: integers(5, 40, -128, 127), 1: [0] * 10})
    for op in ("max", "add"):
        kernels[op] = (folded(op, "integers"), {0: integers(6, n, -(2**31), 2**31 - 1), 1: [0] * 3})
    bits = [int(word) & 0x807FFFFF for word in integers(7, n, 0, 2**32 - 1)]
    bits[4], bits[PLACES + 20], bits[2 * PLACES + 1] = 0x7F800001, 0xFFFFFFFF, 0xFF800000  # two NaNs, an infinity
    kernels["bits"] = (folded("max", "bits"), {0: [*bits], 1: [0] * 3})
    check(tmp_path, kernels, flags, lanes)


def test_a_value_that_is_rounded_and_clamped_is_clamped_first() -> None:
    text = render_kernel("f", rounded(-127, 127, PLACES), 8)
    assert "met_rounded_x8(" in text
    assert "met_rounded_x4(" in text
    assert "met_max" not in text.replace("met_max_i32(", "")  # the last place runs alone


@pytest.mark.parametrize("effects", [rounded(1, 127, 32), rounded(-(2**23), 127, 32), rounded(-127, 127, 32, -1.0)])
def test_other_clamps_are_computed_op_by_op(effects: Effects) -> None:
    assert "met_rounded" not in render_kernel("f", effects, 8)


def test_words_of_bytes_in_a_row_are_packed_and_words_behind_them_are_not() -> None:
    text = render_kernel("f", packed(), 8)
    assert text.count("met_four_bytes_x8(") == 1
    assert "met_select" not in text


@pytest.mark.parametrize("effects", [packed(step=3), packed(lo=-129), packed(modulus=128)])
def test_words_of_other_bytes_are_computed_op_by_op(effects: Effects) -> None:
    assert "met_four_bytes" not in render_kernel("f", effects, 8)


def test_exact_folds_that_are_written_out_run_along_lanes() -> None:
    assert "met_across_add_i32x8(" in render_kernel("f", folded("add", "integers"), 8)
    text = render_kernel("f", folded("max", "bits"), 8)
    assert text.count("met_magnitude_x8(") == 3
    assert text.count("met_canonical(") == 1


def test_a_loop_and_a_fold_in_lanes_keep_their_order() -> None:
    assert "met_across" not in render_kernel("f", folded("max", "integers", upcast=False), 8)
    lanes = apply(folded("max", "integers"), (Upcast(range="j"),))
    assert "met_across" not in render_kernel("f", lanes, 8)
    assert "met_across" not in render_kernel("f", floats(), 8)
