"""Schedules: what they make of loops, and how they refuse what cannot be."""

from collections.abc import Callable

import pytest

from circuit.errors import PlanError
from circuit.uop.build import after, alloc, end, index, load, loop, param, reduce, store
from circuit.uop.node import Axis, DType, Loop, Op, Storage, UOp, toposort
from circuit.uop.schedule import Reorder, Schedule, Split, Stage, Thread, Upcast, apply, range_names
from tests.render.harness import Effects


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


def test_the_names_of_a_kernel_are_those_after_its_orders_are_written_out() -> None:
    x, y = param(0, DType.F32, (600,)), param(1, DType.F32, (1,))
    k = loop("k", 600)
    effects = (store(index(y, 0), reduce("add", load(index(x, k)), k, order="fold:256")),)
    assert range_names(effects) == ("k.chunk", "k")


def test_a_staged_factor_is_stored_in_loops_of_the_names_of_those_that_read_it() -> None:
    x, w, y = param(0, DType.F32, (60,)), param(1, DType.F32, (40,)), param(2, DType.F32, (24,))
    r, j, k = loop("r", 6), loop("j", 4), loop("k", 10)
    total = reduce("mulacc", load(index(w, j * 10 + k)), load(index(x, r * 10 + k)), k)
    effects = (end(store(index(y, r * 4 + j), total), r, j),)
    staged = apply(effects, (Stage(fold="k", across="r"), Upcast(range="j")))
    assert nests(staged) == [["k'", "j'"], ["r", "j"]]
    assert [n.arg.size for n in toposort(*staged) if isinstance(n.arg, Storage)] == [40]


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
        "error: range `j` is split by 0\n  = fix: split by 1 or more",
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
        "  = fix: leave it whole, or fold it in chunks",
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


def _triangle() -> Effects:
    x, y, r = param(0, DType.F32, (36,)), param(1, DType.F32, (36,)), loop("r", 6)
    j = loop("j", r + 1)
    return (end(store(index(y, r * 6 + j), load(index(x, r * 6 + j))), r, j),)
