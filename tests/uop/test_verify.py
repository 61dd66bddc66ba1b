"""What verify refuses, with its message, and the programs that it must let pass."""

import re
from collections.abc import Callable

import pytest

from circuit.uop import build as u
from circuit.uop.math import exp2, sin
from circuit.uop.node import Axis, DType, Fold, Op, UOp
from circuit.uop.philox import philox4x32
from circuit.uop.verify import VerifyError, verify_loops, verify_shaped
from tests.oracle.one_op import prepared
from tests.oracle.test_kernels_keep_bytes import cases

R, S = u.loop("r", 8), u.loop("s", 4)
X, Y = u.param(0, DType.F32, (8,), "x"), u.param(1, DType.F32, (8,), "y")
N = u.param(2, DType.I32, (), "n", 1, 8)
ROOM = u.alloc(0, 8, DType.F32, "room")
VALUE = u.load(u.index(X, R))


def _store(value: UOp, place: UOp = R) -> UOp:
    return u.end(u.store(u.index(Y, place), value), R)


def test_a_well_formed_program_passes() -> None:
    filled = u.end(u.store(u.index(ROOM, R), exp2(VALUE)), R)
    total = u.reduce("add", u.load(u.index(u.after(ROOM, filled), S)), S, order="lanes:128")
    verify_loops(u.store(u.index(Y, N - 1), total))
    verify_loops(*philox4x32((u.u32(1), u.u32(2)), (u.u32(3), u.u32(4), u.u32(5), u.u32(6))))


@pytest.mark.parametrize("name", ["rms_norm", "linear_decode", "attention", "attention_window", "sample"])
def test_the_definitions_of_the_ops_pass(name: str) -> None:
    for effect in prepared(cases()[name][0])[0].effects:
        verify_loops(effect)


def test_a_running_maximum_in_an_alloc_passes() -> None:
    """Carried values: the load inside the loop names its range."""
    start = u.store(u.index(ROOM, 0), u.f32(0.0))
    had = u.load(u.index(u.after(ROOM, start, R), 0))
    step = u.end(u.store(u.index(u.after(ROOM, start), 0), u.maximum(had, VALUE)), R)
    verify_loops(u.store(u.index(Y, 0), u.load(u.index(u.after(ROOM, step), 0))))


def _raw(op: Op, *src: UOp, arg: object = None) -> UOp:
    return UOp(op, src, arg)  # type: ignore[arg-type]  # what a hand-written text can hold


SHAPED = u.param(3, DType.F32, (2, 4), "m")
WORD = u.load(u.index(u.param(4, DType.U32, (8,), "words"), R))
NUMBER = u.load(u.index(u.param(5, DType.I32, (8,), "numbers"), R))
EFFECT = u.store(u.index(Y, R), VALUE)


@pytest.mark.parametrize(
    ("root", "message", "fix"),
    [
        (u.reshape(SHAPED, 8), "reshape in loops form", "lower it with rangeify"),
        (SHAPED + SHAPED, "add on shape [2 4] in loops form", "lower it with rangeify"),
        (u.reduce("add", SHAPED, pop=1), "reduce on shape [4] in loops form", "lower it with rangeify"),
        (VALUE, "range r is closed by nothing", "close it with end, reduce or stage around all its uses"),
        (_store(u.reduce("add", VALUE, R)), "range r is closed by reduce and by end", "give each of them a range"),
        (u.end(EFFECT, R, R), "end closes a range twice", "name each range once"),
        (_raw(Op.END, u.end(EFFECT, R), u.i32(3)), "end closes const", "give it ranges"),
        (_store(u.cast(u.loop("r", 4), DType.F32)), "two ranges are named r", "rename one"),
        (_raw(Op.END, VALUE, R), "end of load", "give it an effect"),
        (_store(VALUE, R + 1), "y: index 1 .. 8 leaves 0 .. 7", "guard it with where, or declare tighter bounds"),
        (_store(VALUE, N), "y: index 1 .. 8 leaves 0 .. 7", "guard it with where"),
        (_store(u.load(u.index(X, NUMBER))), "x: index -2147483648 .. 2147483647 leaves 0 .. 7", "guard it"),
        (_store(u.load(u.index(X, WORD))), "x: index of type u32 []", "cast it to one i32"),
        (_store(_raw(Op.LOAD, X)), "load of param with shape [8]", "give it an index of every axis"),
        (u.end(u.store(u.index(SHAPED, 1), VALUE), R), "store of index with shape [4]", "give it an index of every"),
        (u.end(u.store(u.index(Y, R), NUMBER), R), "store of i32 into f32", "cast the value"),
        (u.store(u.index(_raw(Op.STACK, u.f32(1.0)), 0), u.f32(2.0)), "store into a table of constants", "store into"),
        (_store(u.load(_raw(Op.INDEX, VALUE))), "index of load", "index storage, or a table of constants"),
        (_store(u.load(u.index(_raw(Op.STACK, VALUE), 0))), "stack of values in loops form", "lower it with rangeify"),
        (
            _store(_raw(Op.TRUNC, u.cast(NUMBER, DType.F32)) + u.cast(_raw(Op.TRUNC, NUMBER), DType.F32)),
            "trunc of i32",
            "give it f32",
        ),
        (
            _store(VALUE + u.cast(NUMBER // NUMBER, DType.F32)),
            "floordiv by -2147483648 .. 2147483647",
            "prove that it is",
        ),
        (_store(VALUE // VALUE), "floordiv of f32", "give it i32 or u32"),
        (_store(VALUE ^ VALUE), "xor of f32", "give it bool or i32 or u32"),
        (_store(u.bitcast(u.shl(WORD, WORD), DType.F32)), "shl by 0 .. 4294967295", "prove that it is in 0 .. 31"),
        (_store(u.bitcast(_raw(Op.SHL, WORD, NUMBER), DType.F32)), "shl of u32 by i32", "give both one type"),
        (_store(_raw(Op.BITCAST, NUMBER, arg=DType.F32)), "bitcast from i32 to f32", "bitcast between f32 and u32"),
        (_raw(Op.ADD, EFFECT, EFFECT), "add of an effect", "use a value"),
        (_raw(Op.BARRIER, u.f32(1.0)), "barrier of const", "give it effects"),
        (_store(u.load(u.index(u.after(Y, VALUE), R))), "after waits for load", "give it effects, or ranges"),
        (_store(_raw(Op.AFTER, VALUE, R)), "after of load", "give it storage first"),
        (
            _store(_raw(Op.REDUCE, VALUE, R, arg=Fold("mulacc"))),
            "reduce op=mulacc without two factors of one type",
            "give it both",
        ),
        (_raw(Op.REDUCE, u.f32(1.0), arg=Fold("add")), "reduce pop=0 with 0 ranges", "either pop axes or name ranges"),
    ],
)
def test_an_illegal_program_in_loops_form_is_refused(root: UOp, message: str, fix: str) -> None:
    _refused(verify_loops, root, message, fix)


def _refused(verify: Callable[[UOp], None], root: UOp, message: str, fix: str) -> None:
    with pytest.raises(VerifyError) as caught:
        verify(root)
    found = [(problem.message, problem.fix) for problem in caught.value.problems]
    assert any(text == message and hint.startswith(fix) for text, hint in found), found


FILLED = u.end(u.store(u.index(ROOM, S), u.f32(1.0)), S)
T = u.loop("t", 8, Axis.THREAD)


@pytest.mark.parametrize(
    ("root", "message", "fix"),
    [
        (
            u.group(FILLED, _store(u.load(u.index(u.after(ROOM, u.store(u.index(ROOM, 5), u.f32(1.0))), R)))),
            "room: store at 0 .. 3 and load at 0 .. 7 are not ordered",
            "index the storage after the effect that must come first",
        ),
        (
            u.group(_store(VALUE), u.store(u.index(Y, 3), u.f32(0.0))),
            "y: store at 0 .. 7 and store at 3 are not ordered",
            "index the storage after the effect that must come first",
        ),
        (
            _store(u.load(u.index(u.alloc(1, 8, DType.F32, "empty"), R))),
            "empty: load at 0 .. 7 comes before every store",
            "store first, and index the alloc after that store",
        ),
        (
            u.group(FILLED, _store(u.load(u.index(ROOM, R)))),
            "room: load at 0 .. 7 comes before every store",
            "store first, and index the alloc after that store",
        ),
        (
            u.end(u.store(u.index(Y, R), u.load(u.index(Y, 0)) + VALUE), R),
            "y: load at 0 is outside of loop r, which stores it",
            "let the load depend on r by an after that names it",
        ),
        (
            u.end(u.store(u.index(Y, 0), u.cast(T, DType.F32)), T),
            "y: all turns of t store to one element",
            "let the index depend on t",
        ),
    ],
)
def test_accesses_without_an_order_are_refused(root: UOp, message: str, fix: str) -> None:
    _refused(verify_loops, root, message, fix)


@pytest.mark.parametrize(
    "other",
    [
        u.index(Y, N + 7 - N),
        u.index(u.param(1, DType.F32, (16,), "y"), u.loop("q", 8) + 8),
    ],
)
def test_accesses_that_cannot_meet_need_no_order(other: UOp) -> None:
    first = u.end(u.store(u.index(Y, S), u.f32(1.0)), S)
    second = u.store(other, u.f32(2.0))
    verify_loops(u.group(first, u.end(second, *other.ranges)))


def test_accesses_in_turn_need_no_order() -> None:
    """Even and odd places, and the parts before and after a value."""
    y = u.param(1, DType.F32, (16,), "y")
    even = u.end(u.store(u.index(y, S * 2), u.f32(1.0)), S)
    q = u.loop("q", 4)
    odd = u.end(u.store(u.index(y, q * 2 + 1), u.f32(1.0)), q)
    verify_loops(u.group(even, odd))
    a, b = u.loop("a", N // 4), u.loop("b", N % 4)
    whole = u.end(u.store(u.index(y, a * 4), u.f32(1.0)), a)
    rest = u.end(u.store(u.index(y, N // 4 * 4 + b), u.f32(1.0)), b)
    verify_loops(u.group(whole, rest))


def test_a_guarded_index_passes() -> None:
    guarded = u.where(u.logical_and(R + 5 < 8, R > 1), R + 5, 0)
    verify_loops(_store(u.load(u.index(X, guarded))))


def test_all_problems_are_named_at_once() -> None:
    with pytest.raises(VerifyError) as caught:
        verify_loops(_store(u.load(u.index(X, R + 1)) // VALUE, R + 2))
    assert len(caught.value.problems) == 3
    assert re.search("index 1 .. 8", str(caught.value))


P, Q = u.loop("p", 2), u.loop("q", 4)


def test_a_shaped_program_passes() -> None:
    verify_shaped(u.reduce("add", u.reshape(sin(SHAPED), 4, 2), pop=1, order="fold:256"))
    verify_shaped(u.stage(u.index(SHAPED, P, 3 + Q * -1), P, Q))
    verify_shaped(u.shrink(u.permute(SHAPED, 1, 0), (1, 0), (3, 2)))


@pytest.mark.parametrize(
    ("root", "message", "fix"),
    [
        (u.end(EFFECT, R), "store in shaped form", "write loads, stores and loops after rangeify"),
        (u.reshape(SHAPED, 9), "reshape of [2 4] to [9]", "keep the number of elements"),
        (u.permute(SHAPED, 1, 1), "permute of [2 4] by (1, 1)", "name every axis once"),
        (u.shrink(SHAPED, (1, 2), (1, 3)), "shrink: 3 elements from 2 leave 0 .. 3", "lower the offset"),
        (u.shrink(SHAPED, (1,), (1,)), "shrink of [2 4] to [1]", "give an offset and a size for every axis"),
        (u.stage(u.index(SHAPED, P, Q + 1), P, Q), "m: index 1 .. 4 leaves 0 .. 3", "guard it with where"),
        (u.stage(u.index(SHAPED, P), P, P), "stage closes a range twice", "name each range once"),
        (u.index(SHAPED, P), "range p is closed by nothing", "close it with end, reduce or stage"),
        (u.reduce("add", SHAPED, pop=3), "reduce pop=3 of shape [2 4]", "pop at most all axes"),
        (u.reduce("mulacc", SHAPED, u.param(6, DType.F32, (4,)), pop=1), "reduce op=mulacc of unlike shapes", "expand"),
        (u.trunc(SHAPED < SHAPED), "trunc of bool", "give it f32"),
    ],
)
def test_an_illegal_shaped_program_is_refused(root: UOp, message: str, fix: str) -> None:
    _refused(verify_shaped, root, message, fix)
