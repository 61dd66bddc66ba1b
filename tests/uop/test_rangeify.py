"""The loops form: every definition comes out simplified, whatever its pieces were when they were put together."""

import pytest

from circuit.uop import simplify as simplifying
from circuit.uop.affine import Forms
from circuit.uop.build import i32, index, loop, param, reduce, stack, stage
from circuit.uop.node import Arg, DType, Op, UOp, toposort
from circuit.uop.rangeify import Lowering
from circuit.uop.simplify import simplify
from tests.lower.dense import Sizes, dense
from tests.plan.plans import planned, request

SIZES = {
    "bf16": Sizes(layers=1, vocab=96, context=192),
    "q4_1": Sizes(layers=1, vocab=96, context=192, weight_format="q4_1"),
    "window": Sizes(layers=1, vocab=96, context=192, window=40, qk_norm=True),
}


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("mode", ["decode", "prefill"])
def test_a_definition_is_in_normal_form(sizes: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned(dense(SIZES[sizes]), asked=request(mode))
    monkeypatch.setattr(simplifying, "_SIMPLE", set())  # nothing is known to be simple
    for kernel in plan.kernels:
        for effect in kernel.definition:
            assert simplify(effect) is effect, kernel.name


def test_a_loop_of_one_turn_is_closed_and_read_as_zero() -> None:
    one, x = loop("one", 1), param(0, DType.F32, (4,))
    lowering = Lowering()
    summed = lowering.at(reduce("add", index(x, one) + 1.0, one))
    assert summed.op is Op.REDUCE
    (turn,) = summed.src[1:]
    assert turn.op is Op.RANGE
    assert [node.src[0].src[1] for node in toposort(summed) if node.op is Op.LOAD] == [i32(0)]


def test_places_are_simplified_before_they_are_used() -> None:
    """So that a place that can only be one number chooses its part of a STACK."""
    parts = [param(slot, DType.F32, (), f"x{slot}") for slot in range(3)]
    n = param(3, DType.I32, (), "n", 0, 9)
    assert Lowering().at(stack(*parts), n * 0 + 1) is parts[1]


def test_a_chain_of_thousands_of_ops_takes_no_recursion_and_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    i = loop("i", 4)
    value = index(param(0, DType.F32, (4,)), i)
    for _ in range(3000):
        value = value + value * 0.5
    asked = 0
    simplified = simplifying._make

    def counted(forms: Forms, op: Op, src: tuple[UOp, ...], arg: Arg = None) -> UOp:
        nonlocal asked
        asked += 1
        return simplified(forms, op, src, arg)

    monkeypatch.setattr(simplifying, "_make", counted)
    lowering = Lowering()
    place = lowering.loop("row", 4)
    first = lowering.at(stage(value, i), place)
    lowering.loop("other", 2)  # the same places in another environment
    assert lowering.at(stage(value, i), place) is first
    assert 6000 <= asked < 6100
