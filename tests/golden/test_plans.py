"""Golden plans of tiny models: a refactor shows no difference here, a change of rules or text shows all of it.

Digests that depend on how kernels are scheduled are left out: they change with every measure of speed.
"""

import re
from collections.abc import Callable

import pytest

from circuit.compiled import Goal, GroupedSet, PlanSet
from circuit.lower.text import groups_text
from circuit.pipeline import stages
from circuit.plan.ir import Plan
from circuit.plan.text import plan_text, unfolded_text
from tests.cases.texts import case, texts
from tests.lower.library import own_library

Golden = Callable[[str, str], None]


def masked(text: str) -> str:
    """The text without the digests of kernels and of the whole."""
    text = re.sub(r"^(digest|part kernels   ) \w{64}$", r"\1 (left out)", text, flags=re.MULTILINE)
    return re.sub(r"^(kernel .*) \w{16}$", r"\1 (left out)", text, flags=re.MULTILINE)


def plan_of(model_type: str, mode: str) -> Plan:
    """The plan of a tiny model for a mode on class cpu; up to two rows in decode."""
    goal = Goal(hardware_class="cpu", steps=((mode, (1, 1) if mode == "decode" else None),))
    results = dict(stages(texts(case(model_type)), own_library(), goal))
    found = results["plan"]
    assert isinstance(found, PlanSet)
    (plan,) = found.plans
    return plan


@pytest.mark.parametrize("mode", ["decode", "prefill"])
@pytest.mark.parametrize("model_type", ["llama", "qwen3"])
def test_the_plan_of_a_tiny_model_is_the_golden_one(model_type: str, mode: str, golden: Golden) -> None:
    golden(f"{model_type}_tiny.cpu.{mode}.plan", masked(plan_text(plan_of(model_type, mode))))


def test_the_unfolded_plan_of_a_tiny_model_is_the_golden_one(golden: Golden) -> None:
    golden("llama_tiny.cpu.decode.expanded.plan", masked(unfolded_text(plan_of("llama", "decode"))))


def test_the_groups_of_a_tiny_model_are_the_golden_ones(golden: Golden) -> None:
    goal = Goal(hardware_class="cpu", steps=(("decode", None),))
    for name, result in stages(texts(case("qwen2")), own_library(), goal):
        if name == "groups":
            assert isinstance(result, GroupedSet)
            golden("qwen2_tiny.cpu.decode.groups", groups_text(result.tir, result.sets[0].groups))
            return
    raise AssertionError("there is no stage groups")
