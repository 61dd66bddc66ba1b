"""The scalar DAG: equal where two programs are the same sums in the same order, and a difference where they are not."""

import pytest

from circuit.errors import PlanError
from circuit.uop import build as u
from circuit.uop.node import DType, Op, UOp
from circuit.uop.prove import Dag, Scalar, difference, text
from circuit.uop.rangeify import Lowering
from circuit.uop.schedule import Reorder, Schedule, Split, Thread, Upcast, apply

X, W = u.param(0, DType.F32, (600,), "x"), u.param(1, DType.F32, (600,), "w")
OUT = u.param(2, DType.F32, (600,), "out")


def dag_of(dag: Dag, *effects: UOp, **params: Scalar) -> list[Scalar]:
    """What `out` holds after the effects, on leaves x and w."""
    buffers = {0: dag.leaves("x", 600), 1: dag.leaves("w", 600), 2: dag.leaves("out", 600)}
    dag.run(effects, buffers, {9: params.get("n", 4)})
    return buffers[2]


def summed(order: str, k: int = 600) -> UOp:
    i = u.loop("k", k)
    return u.store(u.index(OUT, 0), u.reduce("mulacc", u.load(u.index(X, i)), u.load(u.index(W, i)), i, order=order))


def check(one: UOp, other: UOp, expected: tuple[str, str] | None) -> None:
    """The first element of `out` differs as expected, in the part where the two programs part; None: not at all."""
    dag = Dag()
    a, b = dag_of(dag, one)[0], dag_of(dag, other)[0]
    assert difference(dag, a, b, DType.F32) == expected


def test_a_sum_written_out_in_its_stated_order_is_the_same_sum() -> None:
    i, j, rest = u.loop("i", 256), u.loop("j", 2), u.loop("rest", 88)

    def part(place: UOp, r: UOp) -> UOp:
        return u.reduce("mulacc", u.load(u.index(X, place)), u.load(u.index(W, place)), r)

    whole = u.reduce("add", part(j * 256 + i, i), j)
    check(summed("fold:256"), u.store(u.index(OUT, 0), whole + part(rest + 512, rest)), None)


def test_a_reassociated_sum_differs() -> None:
    dag = Dag()
    plain, chunks, lanes = (dag_of(dag, summed(order))[0] for order in ("fold", "fold:256", "lanes:128"))
    assert len({plain, chunks, lanes}) == 3
    assert difference(dag, plain, chunks, DType.F32) is not None


def test_one_chunk_less_a_term_differs_where_the_term_is() -> None:
    check(
        summed("fold", 2),
        summed("fold", 1),
        ("mulacc(x[1], w[1], mulacc(x[0], w[0], 0.0))", "mulacc(x[0], w[0], 0.0)"),
    )


def at(place: int, array: UOp = X) -> UOp:
    return u.load(u.index(array, place))


def put(value: UOp) -> UOp:
    return u.store(u.index(OUT, 0), value)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (at(0) * at(1) + at(2), u.mulacc(at(0), at(1), at(2))),  # contracted
        ((at(0) + at(1)) + at(2), at(0) + (at(1) + at(2))),  # reassociated
        ((at(0) + at(1)) * at(2), at(0) * at(2) + at(1) * at(2)),  # distributed
        (at(0) + 0.0, at(0)),  # -0 + 0 is +0
        (at(0) * 0.0, u.f32(0.0)),  # infinities, NaN and signs
        (at(0) - at(0), u.f32(0.0)),
        (u.reciprocal(at(0)) * at(1), u.reciprocal(at(1)) * at(0)),
        (u.maximum(at(0), at(1)), u.maximum(at(1), at(0))),  # which zero, which NaN
        (u.where(at(0) < at(1), at(0), at(1)), u.where(at(1) < at(0), at(1), at(0))),
        (u.cast(u.cast(at(0), DType.I32), DType.F32), at(0)),  # a rounding is lost
        (at(0), at(1)),  # a window of one element off
    ],
)  # fmt: skip
def test_what_is_not_equal_for_every_input_differs(one: UOp, other: UOp) -> None:
    dag = Dag()
    assert difference(dag, dag_of(dag, put(one))[0], dag_of(dag, put(other))[0], DType.F32) is not None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (at(0) + at(1), at(1) + at(0)),
        (at(0) * at(1), at(1) * at(0)),
        (u.mulacc(at(0), at(1), at(2)), u.mulacc(at(1), at(0), at(2))),
        (at(0) + -0.0, at(0)),
        (at(0) * 1.0, at(0)),
        (u.f32(1.5) + 2.5, u.f32(4.0)),
        (u.where(u.i32(3) < 4, at(0), at(1)), at(0)),
        (u.bitcast(u.bitcast(at(0), DType.U32), DType.F32), at(0)),
        (u.trunc(u.trunc(at(0))), u.trunc(at(0))),
    ],
)  # fmt: skip
def test_what_is_equal_for_every_input_is_one_node(one: UOp, other: UOp) -> None:
    check(put(one), put(other), None)


def read(word: UOp) -> list[UOp]:
    return [u.load(u.index(word, 0)) % 65536, u.load(u.index(word, 0)) // 65536]


WORD = u.param(3, DType.U32, (1,), "word")


def halves_of(dag: Dag, word: Scalar) -> list[Scalar]:
    """The two halves of a word as a program reads them."""
    outs = [u.param(slot, DType.U32, (1,), "half") for slot in (4, 5)]
    buffers: dict[int, list[Scalar]] = {3: [word], 4: [0], 5: [0]}
    for out, value in zip(outs, read(WORD), strict=True):
        dag.run((u.store(u.index(out, 0), value),), buffers, {})
    return [buffers[4][0], buffers[5][0]]


def test_a_word_of_two_halves_has_those_halves() -> None:
    dag = Dag()
    a, b = dag.leaf("a", 0, DType.U32), dag.leaf("b", 0, DType.U32)
    (low, _), (other, high) = halves_of(dag, a), halves_of(dag, b)
    assert halves_of(dag, dag.halves(a, b)) == [low, other]
    assert halves_of(dag, dag.halves(b, a)) == [other, low]
    assert halves_of(dag, dag.halves(a, 0))[0] is low
    divide, rest = (dag.domain.function(op, DType.U32, DType.U32) for op in (Op.FLOORDIV, Op.FLOORMOD))
    sign = divide(low, 32768)
    assert rest(sign, 2) is sign
    assert rest(sign, 1) is not sign
    assert high not in halves_of(dag, dag.halves(a, b))


def test_words_that_are_not_below_two_to_the_sixteen_are_no_halves() -> None:
    dag = Dag()
    a, b = dag.leaf("a", 0, DType.U32), dag.leaf("b", 0, DType.U32)
    add, mul = (dag.domain.function(op, DType.U32, DType.U32) for op in (Op.ADD, Op.MUL))
    low, high = halves_of(dag, add(a, mul(b, 65536)))  # a may carry into b, and b may wrap
    assert low is not a
    assert high is not b


def test_a_stored_value_is_what_is_loaded_again() -> None:
    scratch = u.alloc(0, 1, DType.F32, "scratch")
    stored = u.after(scratch, u.store(u.index(scratch, 0), at(0) + at(1)))
    check(put(u.load(u.index(stored, 0)) * at(2)), put((at(0) + at(1)) * at(2)), None)


@pytest.mark.parametrize(
    "schedule",
    [
        (Split(range="j", factor=8, inner="j.lane"), Upcast(range="j.lane"), Thread(range="row")),
        (Reorder(ranges=("j", "row")), Split(range="k", factor=32, inner="k.in"), Upcast(range="k.in")),
    ],
)
def test_a_schedule_keeps_every_node(schedule: Schedule) -> None:
    lowering = Lowering()
    row = lowering.loop("row", u.param(9, DType.I32, (), "n", lo=1, hi=4))
    k, j = u.loop("k", 64), u.loop("j", 9)
    value = u.reduce("mulacc", u.index(X, row * 64 + k), u.index(W, j * 64 + k), k, order="fold:256")
    inner = lowering.write(OUT, u.stage(value, j), ("j",), base=row * 9)
    effects = (u.end(inner.src[0], row, *inner.src[1:]),)
    dag = Dag()
    assert dag_of(dag, *effects) == dag_of(dag, *apply(effects, schedule))


def test_a_program_that_addresses_by_data_is_refused() -> None:
    place = u.cast(at(0), DType.I32)
    message = r"the program addresses by a value that is not given: cast\.i32\(x\[0\]\)"
    with pytest.raises(
        PlanError, match=message + r"\n  = fix: give what addresses \(positions, pages, ids\) as numbers"
    ):
        dag_of(Dag(), put(u.load(u.index(X, place))))


def test_a_program_that_is_too_large_is_refused() -> None:
    message = "the scalar program has more than 700 expressions\n  = fix: prove it at smaller shapes"
    with pytest.raises(PlanError, match=message):
        dag_of(Dag(most=700), summed("fold"))


def test_an_expression_prints_to_a_small_depth() -> None:
    dag = Dag()
    value = dag_of(dag, put(u.reciprocal(u.bitcast(u.bitcast(at(5), DType.U32) ^ 7, DType.F32) + 0.5)))[0]
    assert text(value) == "reciprocal(add(bitcast.f32(xor(...)), 0.5))"
