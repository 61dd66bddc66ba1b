"""Kernels with what real ones have: phases, loaded loop ends, carried values, tables, panels of weights."""

from functools import cache
from pathlib import Path

import pytest

from circuit.lower.schedules import K_BLOCK
from circuit.sigma.storage import decode_panel, panel_words
from circuit.uop.build import (
    after,
    alloc,
    barrier,
    end,
    f32,
    group,
    index,
    load,
    loop,
    maximum,
    param,
    reduce,
    store,
    where,
)
from circuit.uop.node import DType, Op, UOp
from circuit.uop.rangeify import Lowering
from circuit.uop.schedule import Block, Carry, Reorder, Schedule, Split, Stage, Step, Thread, Tile, Upcast, apply
from tests.render.data import integers, numbers
from tests.render.harness import (
    QUICK,
    Buffers,
    Effects,
    Library,
    Scalars,
    compile_kernels,
    expected,
    same,
    written_slots,
)

FORMATS = ("f32", "f16", "bf16", "q4_0", "q4_1", "q8_0")
N, K, ROWS = 52, 288, 4  # a panel and a tail of 4 outputs; a chunk of 256 and a tail; a tile of 3 rows and a tail


STAGE = Stage(fold="k", across="r")
FILL = (
    Upcast(range="jl.fill"),
    Split(range="k.fill", factor=K_BLOCK, inner="k.fill.b"),
    Split(range="k.fill.b", factor=8, inner="k.fill.u"),
    Upcast(range="k.fill.u"),
)


def phases() -> Effects:
    """y = x * x, shared out by columns; then z[r] = the sum of row r of y."""
    x, y, z = param(0, DType.F32, (12 * 40,)), param(1, DType.F32, (12 * 40,)), param(2, DType.F32, (12,))
    r, j, s, k = loop("r", 12), loop("j", 40), loop("s", 12), loop("k", 40)
    value = load(index(x, r * 40 + j))
    made = end(store(index(y, r * 40 + j), value * value), j, r)
    total = reduce("add", load(index(after(y, barrier(made)), s * 40 + k)), k)
    return (end(store(index(z, s), total), s),)


def causal() -> Effects:
    """y[r] = the sum of x[r, 0 .. position[r]], in chunks of 256 whose number is known at run time."""
    x, y = param(0, DType.F32, (5 * 600,)), param(1, DType.F32, (5,))
    position = param(2, DType.I32, (5,), "position", 0, 599)
    r = loop("r", 5)
    k = loop("k", load(index(position, r)) + 1)
    value = load(index(x, r * 600 + k))
    return (end(store(index(y, r), reduce("mulacc", value, value, k, order="fold:256")), r),)


def last_largest() -> Effects:
    """y[r] = the last place of the largest value of row r: a value carried from iteration to iteration."""
    x, y = param(0, DType.F32, (4 * 30,)), param(1, DType.I32, (4,))
    r, k = loop("r", 4), loop("k", 30)
    best, at = alloc(0, 1, DType.F32, "best"), alloc(1, 1, DType.I32, "at")
    value = load(index(x, r * 30 + k))
    first = after(best, store(index(best, 0), load(index(x, r * 30))), k)
    place = after(at, store(index(at, 0), r * 0), r, k)
    so_far, old = load(index(first, 0)), load(index(place, 0))
    step = group(
        store(index(at, 0), where(value < so_far, old, k)),
        store(index(best, 0), maximum(so_far, value)),
    )
    return (end(store(index(y, r), load(index(after(at, end(step, k)), 0))), r),)


def counted() -> Effects:
    """y[0] += 1, in no loop that threads share."""
    y = param(0, DType.F32, (1,))
    return (store(index(y, 0), load(index(y, 0)) + 1.0),)


def table() -> Effects:
    """y[j] = one of five constants."""
    y = param(0, DType.F32, (40,))
    j = loop("j", 40)
    values = UOp(Op.STACK, tuple(f32(v) for v in (1.5, -0.0, float("inf"), 1e-40, 7.0)))
    return (end(store(index(y, j), load(index(values, j * 3 % 5))), j),)


def panels(format: str) -> Effects:
    """y[r, j] = the sum over k of w[j, k] * x[r, k], w in panels of 48 outputs."""
    lowering = Lowering()
    rows = param(3, DType.I32, (), "n", 0, ROWS)
    words = param(1, DType.U32, (panel_words(format, N, K, 48),))
    x, y = param(0, DType.F32, (ROWS, K)), param(2, DType.F32, (ROWS * N,))
    r, j, k = lowering.loop("r", rows), lowering.loop("j", N), loop("k", K)
    w = decode_panel(format, words, (N, K), 48, j, k)
    value = lowering.at(reduce("mulacc", w, index(x, r, k), k, order="fold:256"))
    return (end(store(index(y, r * N + j), value), r, j),)


def panel_schedule(lanes: int, *steps: Step) -> Schedule:
    """Lanes over outputs, k unrolled, and the steps given between."""
    return (
        Split(range="j", factor=lanes, inner="jl"),
        Reorder(ranges=("j", "r", "jl")),
        Thread(range="j"),
        *steps,
        Upcast(range="rl"),
        Upcast(range="jl"),
        Split(range="k", factor=K_BLOCK, inner="kb"),
        Split(range="kb", factor=8, inner="ku"),
        Upcast(range="ku"),
    )


def row_tile(factor: int) -> Split:
    return Split(range="r", factor=factor, inner="rl")


def carried() -> Schedule:
    """Blocks of 3 rows and a last one of 1, in tiles of 2; a chunk of k after the other for a block."""
    return (
        Block(range="r", factor=3, inner="rb"),
        Tile(range="rb", factor=2, inner="rl"),
        Carry(fold="k.chunk", across="rb"),
        Stage(fold="k", across="rb"),
    )


@cache
def kernels() -> dict[str, Effects]:
    return {
        "phases": phases(),
        "phases_threads": apply(
            phases(), (Thread(range="j"), Thread(range="s"), Split(range="r", factor=8, inner="rl"))
        ),
        "causal": causal(),
        "causal_threads": apply(causal(), (Thread(range="r"),)),
        "last_largest": last_largest(),
        "counted": counted(),
        "table": table(),
        "table_lanes": apply(table(), (Split(range="j", factor=16, inner="jl"), Upcast(range="jl"))),
        **{f"{format}_plain": panels(format) for format in FORMATS},
        **{f"{format}_48x1": apply(panels(format), panel_schedule(48, row_tile(1))) for format in FORMATS},
        **{f"{format}_24x3": apply(panels(format), panel_schedule(24, row_tile(3))) for format in FORMATS},
        **{
            f"{format}_staged": apply(panels(format), panel_schedule(24, STAGE, row_tile(3), *FILL))
            for format in FORMATS
        },
        **{f"{format}_carried": apply(panels(format), panel_schedule(24, *carried(), *FILL)) for format in FORMATS},
    }


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    folder: Path = tmp_path_factory.mktemp("kernels")
    return compile_kernels(folder, kernels(), QUICK)


def check(library: Library, names: tuple[str, ...], buffers: Buffers, scalars: Scalars, times: int = 1) -> None:
    """All named kernels give what the evaluator gives for the first, on one thread and on several."""
    want = expected(kernels()[names[0]], buffers, scalars)
    for name in names:
        for nt in (1, 2, 3):
            for _ in range(times):
                got = library.run(name, kernels()[name], buffers, scalars, nt)
                assert same(got, want, written_slots(kernels()[name])), f"{name} on {nt} threads"


def test_a_second_phase_sees_what_all_threads_wrote_in_the_first(library: Library) -> None:
    buffers = {0: numbers(1, 480), 1: [0.0] * 480, 2: [0.0] * 12}
    check(library, ("phases", "phases_threads"), buffers, {}, times=20)


def test_a_loop_whose_end_is_loaded_folds_in_chunks(library: Library) -> None:
    for positions in ([0, 255, 256, 511, 599], [254, 257, 300, 512, 1]):
        buffers: Buffers = {0: numbers(2, 3000, 0.001), 1: [0.0] * 5, 2: [*positions]}
        check(library, ("causal", "causal_threads"), buffers, {})


def test_a_value_carried_from_iteration_to_iteration_is_read_again_in_each(library: Library) -> None:
    buffers: Buffers = {0: [v if v == v else 0.0 for v in numbers(3, 120)], 1: [0] * 4}
    check(library, ("last_largest",), buffers, {})


def test_a_store_in_no_shared_loop_happens_once(library: Library) -> None:
    check(library, ("counted",), {0: [41.0]}, {})


def test_a_table_of_constants_is_read(library: Library) -> None:
    check(library, ("table", "table_lanes"), {0: [0.0] * 40}, {})


@pytest.mark.parametrize("format", FORMATS)
def test_projections_of_every_format_and_tile_give_the_same_bytes(library: Library, format: str) -> None:
    words = integers(4, panel_words(format, N, K, 48), 0, 2**32 - 1)
    if format != "f32":  # scales that are no infinities, so that most sums are numbers
        words = [int(w) & 0xBFFFBFFF for w in words]
    buffers = {0: numbers(5, ROWS * K, 0.001), 1: words, 2: [0.0] * (ROWS * N)}
    variants = ("plain", "48x1", "24x3", "staged", "carried")
    check(library, tuple(f"{format}_{variant}" for variant in variants), buffers, {3: ROWS})
