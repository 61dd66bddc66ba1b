"""Schedules: what they make of loops, and how they refuse what cannot be."""

from collections.abc import Callable

import pytest

from circuit.errors import PlanError
from circuit.uop.bounds import bounds
from circuit.uop.build import after, alloc, end, group, i32, index, load, loop, param, reduce, store
from circuit.uop.evaluate import evaluate
from circuit.uop.node import Axis, DType, Loop, Op, Storage, UOp, bound_ranges, toposort
from circuit.uop.schedule import (
    Block,
    Carry,
    Deal,
    Join,
    Pad,
    Reorder,
    Schedule,
    Split,
    Stage,
    Thread,
    Tile,
    Upcast,
    apply,
    range_names,
)
from tests.render.harness import Buffers, Effects, expected


def rows(end_of_r: UOp | int = 6) -> Effects:
    """y[r, j] = x[r, j] + the sum of row r."""
    x, y = param(0, DType.F32, (60,)), param(1, DType.F32, (60,))
    r, j, k = loop("r", end_of_r), loop("j", 10), loop("k", 10)
    total = reduce("add", load(index(x, r * 10 + k)), k)
    return (end(store(index(y, r * 10 + j), load(index(x, r * 10 + j)) + total), r, j),)


def carried() -> Effects:
    """A value that each iteration reads and writes."""
    y, room, k = param(0, DType.F32, (1,)), alloc(0, 1, DType.F32), loop("k", 10)
    before = load(index(after(room, store(index(room, 0), load(index(y, 0))), k), 0))
    return (store(index(y, 0), load(index(after(room, end(store(index(room, 0), before + 1.0), k)), 0))),)


def loops(effects: Effects) -> list[str]:
    """Every range as `name:axis`, in order of appearance."""
    found = [n.arg for n in toposort(*effects) if n.op is Op.RANGE]
    return [f"{arg.name}:{arg.axis}" for arg in found if isinstance(arg, Loop)]


def nests(effects: Effects) -> list[list[str]]:
    """The ranges that every END closes."""
    ends = [n for n in toposort(*effects) if n.op is Op.END]
    return [[r.arg.name for r in n.src[1:] if isinstance(r.arg, Loop)] for n in ends]


def test_a_split_of_a_constant_leaves_the_remainder_to_a_copy_with_a_shorter_inner_range() -> None:
    effects = apply(rows(), (Split(range="j", factor=4, inner="jl"),))
    assert nests(effects) == [["r", "j", "jl"], ["r'", "jl'"]]


def test_an_exact_split_makes_no_copy() -> None:
    assert nests(apply(rows(), (Split(range="j", factor=5, inner="jl"),))) == [["r", "j", "jl"]]


def test_a_split_of_a_number_known_at_run_time_leaves_a_tail_loop() -> None:
    n = param(2, DType.I32, (), "n", 0, 6)
    effects = apply(rows(n), (Split(range="r", factor=4, inner="rl"), Upcast(range="rl")))
    assert nests(effects) == [["r", "rl", "j"], ["r.tail", "j'"]]
    assert "rl:upcast" in loops(effects)
    assert "r.tail:loop" in loops(effects)


def test_a_reduce_is_split_by_the_greatest_common_divisor() -> None:
    effects = apply(rows(), (Split(range="k", factor=4, inner="ku"),))
    (total,) = [n for n in toposort(*effects) if n.op is Op.REDUCE]
    sizes = {r.arg.name: r.src[0].arg.bits for r in total.src[1:]}  # type: ignore[union-attr]
    assert sizes == {"k": 5, "ku": 2}


def test_reorder_moves_only_the_loops_that_it_names() -> None:
    effects = apply(rows(), (Split(range="j", factor=5, inner="jl"), Reorder(ranges=("j", "r"))))
    assert nests(effects) == [["j", "r", "jl"]]


def test_joined_loops_are_one_of_all_pairs_in_order() -> None:
    n = param(2, DType.I32, (), "n", 0, 6)
    effects = apply(rows(n), (Join(outer="r", inner="j"), Thread(range="r")))
    assert nests(effects) == [["r"]]
    buffers: Buffers = {0: [float(v % 7) for v in range(60)], 1: [0.0] * 60}
    want, got = (expected(each, buffers, {2: 6}) for each in (rows(n), effects))
    assert want == got
    assert want[1] != buffers[1]


def test_the_names_of_a_kernel_are_those_after_its_orders_are_written_out() -> None:
    x, y = param(0, DType.F32, (600,)), param(1, DType.F32, (1,))
    k = loop("k", 600)
    effects = (store(index(y, 0), reduce("add", load(index(x, k)), k, order="fold:256")),)
    assert range_names(effects) == ("k.chunk", "k")


def test_a_block_of_a_number_known_at_run_time_has_an_inner_loop_that_ends_there() -> None:
    n = param(2, DType.I32, (), "n", 0, 60)
    effects = apply(rows(n), (Block(range="r", factor=8, inner="rb"),))
    assert nests(effects) == [["r", "rb", "j"]]


def test_blocks_of_a_fold_whose_end_is_known_at_run_time_keep_its_order() -> None:
    n = param(2, DType.I32, (), "n", 0, 60)
    x, y, k = param(0, DType.F32, (60,)), param(1, DType.F32, (1,)), loop("k", n)
    whole = (store(index(y, 0), reduce("add", load(index(x, k)), k)),)
    effects = apply(whole, (Block(range="k", factor=8, inner="kb"),))
    (total,) = [node for node in toposort(*effects) if node.op is Op.REDUCE]
    assert [r.arg.name for r in bound_ranges(total) if isinstance(r.arg, Loop)] == ["k", "kb"]
    assert [bounds(r) for r in bound_ranges(total)] == [(0, 7), (0, 7)]
    buffers: Buffers = {0: [1.0e7, *(0.1 * v for v in range(1, 60))], 1: [0.0]}
    for count in (0, 1, 8, 37, 60):
        want, got = (expected(each, buffers, {2: count}) for each in (whole, effects))
        assert want == got


def test_what_is_carried_for_a_block_takes_room_for_a_block() -> None:
    n = param(3, DType.I32, (), "n", 0, 6)
    steps = (Block(range="r", factor=3, inner="rb"), Tile(range="rb", factor=2, inner="rt"))
    effects = apply(product(522, n), (*steps, Carry(fold="k.chunk", across="rb")))
    assert sizes(effects) == [2 * 2 * 4]


def test_a_tile_past_the_end_is_the_last_place_again() -> None:
    effects = apply(rows(), (Tile(range="r", factor=4, inner="rt"), Upcast(range="rt")))
    assert nests(effects) == [["r", "rt", "j"]]
    assert "rt:upcast" in loops(effects)


def test_dealt_places_are_all_met_once() -> None:
    n = param(2, DType.I32, (), "n", 0, 60)
    effects = apply(rows(n), (Deal(range="r", factor=8, inner="rt"), Thread(range="r")))
    assert nests(effects) == [["r", "rt", "j"]]
    x, y = [float(v) for v in range(60)], [0.0] * 60
    for count in (0, 1, 5, 6):
        found, want = {0: x, 1: [*y]}, {0: x, 1: [*y]}
        evaluate(group(*effects), found, {2: count})
        evaluate(group(*rows(n)), want, {2: count})
        assert found == want


def kept(room: int, read: UOp | None = None) -> Effects:
    """The sum of n values that are doubled in local storage first, and where `read` says the value there."""
    n, x, y = param(2, DType.I32, (), "n", 1, 10), param(0, DType.F32, (12,)), param(1, DType.F32, (1,))
    storage, p, k = alloc(0, room, DType.F32), loop("p", n), loop("k", n)
    ready = after(storage, end(store(index(storage, p), load(index(x, p)) * 2.0), p))
    total = reduce("add", load(index(ready, k)), k)
    return (store(index(y, 0), total if read is None else total + load(index(ready, read))),)


def test_a_padded_range_has_whole_parts_only() -> None:
    effects = apply(kept(12), (Pad(range="p", factor=4, inner="pl"), Upcast(range="pl")))
    assert nests(effects) == [["p", "pl"]]
    assert "pl:upcast" in loops(effects)


def product(n: int, end_of_r: UOp | int = 6) -> Effects:
    """y[r, j] = the sum over k of w[j, k] * x[r, k], r below 6, j below 4, k below n in chunks of 256."""
    x, w, y = param(0, DType.F32, (6 * n,)), param(1, DType.F32, (4 * n,)), param(2, DType.F32, (24,))
    r, j, k = loop("r", end_of_r), loop("j", 4), loop("k", n)
    total = reduce("mulacc", load(index(w, j * n + k)), load(index(x, r * n + k)), k, order="fold:256")
    return (end(store(index(y, r * 4 + j), total), r, j),)


def test_a_staged_factor_is_filled_by_loops_of_their_own() -> None:
    staged = apply(product(10), (Stage(fold="k", across="r"), Upcast(range="j")))
    assert nests(staged) == [["k.fill", "j.fill"], ["r", "j"]]
    assert sizes(staged) == [40]


def test_a_carried_fold_runs_outside_of_the_loops_over_its_results() -> None:
    carried = apply(product(522), (Carry(fold="k.chunk", across="r"), Stage(fold="k", across="r")))
    first, filled, filled_tail = ["r'", "j'"], ["k.fill", "j.fill"], ["k.fill'", "j.fill'"]
    assert sorted(nests(carried)) == sorted([first, filled, ["k.chunk", "r''", "j''"], filled_tail, ["r", "j"]])
    assert sorted(sizes(carried)) == [6 * 4, 4 * 10, 4 * 256]


def sizes(effects: Effects) -> list[int]:
    """The sizes of local storage."""
    return [n.arg.size for n in toposort(*effects) if isinstance(n.arg, Storage)]


def message(effects: Effects, schedule: Schedule) -> str:
    with pytest.raises(PlanError) as caught:
        apply(effects, schedule)
    return str(caught.value)


REFUSED: list[tuple[str, Callable[[], Effects], Schedule, str]] = [
    (
        "an unknown range",
        rows,
        (Upcast(range="q"),),
        "error: the schedule names range `q`, the kernel has r, j, k\n  = fix: name one of these",
    ),
    (
        "an unknown range to split",
        rows,
        (Split(range="q", factor=4, inner="ql"),),
        "error: the schedule names range `q`, the kernel has r, j, k\n  = fix: name one of these",
    ),
    (
        "an unknown range to move",
        rows,
        (Reorder(ranges=("r", "q")),),
        "error: the schedule names range `q`, the kernel has r, j, k\n  = fix: name one of these",
    ),
    (
        "a split by nothing",
        rows,
        (Split(range="j", factor=0, inner="jl"),),
        "error: range `j` is cut in parts of 0\n  = fix: give 1 or more",
    ),
    (
        "a name that is taken",
        rows,
        (Split(range="j", factor=2, inner="k"),),
        "error: there is a range `k` already\n  = fix: give the inner part of `j` another name",
    ),
    (
        "lanes of a number known at run time",
        lambda: rows(param(2, DType.I32, (), "n", 0, 6)),
        (Upcast(range="r"),),
        "error: upcast of range `r`: its end is no constant\n  = fix: split it first",
    ),
    (
        "a reduce over a number known at run time",
        lambda: _summed(param(2, DType.I32, (), "n", 0, 6)),
        (Split(range="k", factor=2, inner="ku"),),
        "error: range `k` of a reduce is split, but its end is no constant\n"
        "  = fix: cut it in blocks, or leave it whole",
    ),
    (
        "a reduce over threads",
        rows,
        (Thread(range="k"),),
        "error: thread of range `k`: a reduce is over it\n  = fix: share out a loop of an END",
    ),
    (
        "iterations that depend on each other",
        carried,
        (Upcast(range="k"),),
        "error: upcast of range `k`: its iterations depend on each other\n  = fix: leave it a loop",
    ),
    (
        "loops that are not nested",
        rows,
        (Reorder(ranges=("k", "r")),),
        "error: no loops are nested as k, r\n  = fix: name ranges of one END",
    ),
    (
        "a join of loops that are not next to each other",
        rows,
        (Split(range="j", factor=5, inner="jl"), Join(outer="r", inner="jl")),
        "error: no loop `jl` is right inside `r`\n  = fix: reorder them first",
    ),
    (
        "a join with a loop of a number known at run time",
        lambda: rows(param(2, DType.I32, (), "n", 0, 6)),
        (Reorder(ranges=("j", "r")), Join(outer="j", inner="r")),
        "error: range `r` is joined, but its end is no constant\n  = fix: join loops of constant ends",
    ),
    (
        "a factor that changes along the loop",
        rows,
        (Stage(fold="k", across="r"),),
        "error: no fold over `k` has a factor that is the same along `r`\n"
        "  = fix: name a loop that is inside those that the factor depends on",
    ),
    (
        "a factor of an unknown fold",
        rows,
        (Stage(fold="q", across="r"),),
        "error: the schedule names range `q`, the kernel has r, j, k\n  = fix: name one of these",
    ),
    (
        "tiles of a reduce",
        rows,
        (Tile(range="k", factor=2, inner="kb"),),
        "error: range `k` is of a reduce\n  = fix: split it, or cut it in blocks",
    ),
    *(
        (
            f"padding {what}",
            effects,
            (Pad(range="p", factor=4, inner="pl"),),
            "error: range `p` is padded, but what is past its end is not there, or is read\n"
            "  = fix: split it, or tile it",
        )
        for what, effects in (
            ("into a room that has none", lambda: kept(10)),
            ("that is read", lambda: kept(12, i32(11))),
            ("of what others see", lambda: _shared()),
        )
    ),
    (
        "tiles of no rows",
        rows,
        (Tile(range="r", factor=0, inner="rt"),),
        "error: range `r` is cut in parts of 0\n  = fix: give 1 or more",
    ),
    (
        "three hands",
        rows,
        (Deal(range="r", factor=3, inner="rt"),),
        "error: range `r` is dealt to 3 hands\n  = fix: give a power of 2",
    ),
    (
        "tiles of what is changed in place",
        lambda: _in_place(),
        (Tile(range="r", factor=4, inner="rt"),),
        "error: range `r` is tiled, but what it stores is read there\n"
        "  = fix: split it, so that no place is stored twice",
    ),
    (
        "a fold carried out of a loop that it is not in",
        rows,
        (Carry(fold="k", across="k"),),
        "error: no fold over `k` is inside of loop `k`\n  = fix: name a loop over results of the fold",
    ),
    (
        "a carried fold that there is not",
        rows,
        (Carry(fold="q", across="r"),),
        "error: the schedule names range `q`, the kernel has r, j, k\n  = fix: name one of these",
    ),
    (
        "a loop moved out of the one that ends it",
        lambda: _triangle(),
        (Reorder(ranges=("j", "r")),),
        "error: range `j` ends where an inner range says\n  = fix: keep it inside that range",
    ),
]


@pytest.mark.parametrize(("effects", "schedule", "expected"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED])
def test_a_schedule_that_cannot_be_is_refused_by_name(
    effects: Callable[[], Effects], schedule: Schedule, expected: str
) -> None:
    assert message(effects(), schedule) == expected


def test_every_axis_that_a_schedule_sets_is_in_the_kernel() -> None:
    effects = apply(rows(), (Upcast(range="j"), Thread(range="r")))
    axes = {n.arg.name: n.arg.axis for n in toposort(*effects) if isinstance(n.arg, Loop)}
    assert axes == {"r": Axis.THREAD, "j": Axis.UPCAST, "k": Axis.LOOP}


def _summed(size: UOp) -> Effects:
    x, y, k = param(0, DType.F32, (6,)), param(1, DType.F32, (1,)), loop("k", size)
    return (store(index(y, 0), reduce("add", load(index(x, k)), k)),)


def _shared() -> Effects:
    x, y, p = param(0, DType.F32, (12,)), param(1, DType.F32, (12,)), loop("p", 10)
    return (end(store(index(y, p), load(index(x, p))), p),)


def _in_place() -> Effects:
    x, r = param(0, DType.F32, (6,)), loop("r", 6)
    return (end(store(index(x, r), load(index(x, r)) + 1.0), r),)


def _triangle() -> Effects:
    x, y, r = param(0, DType.F32, (36,)), param(1, DType.F32, (36,)), loop("r", 6)
    j = loop("j", r + 1)
    return (end(store(index(y, r * 6 + j), load(index(x, r * 6 + j))), r, j),)
