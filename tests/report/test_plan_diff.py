"""In what plans differ: the parts that must, every launch once, and a reason for each part."""

from functools import cache

import pytest
from msgspec.structs import replace

from circuit.comparisons import Asked, plans_compared, side_of
from circuit.compiled import Goal
from circuit.load.source import Plain
from circuit.report.computed import Difference
from circuit.report.differences_text import cells_of, members_text
from circuit.report.plan_diff import PlanDiff, plan_diff
from circuit.report.plan_diff_text import plan_diff_sections
from circuit.report.plan_why import reasons
from circuit.report.sections import sections_text
from circuit.report.sides import Side
from tests.cases.texts import case, texts
from tests.lower.library import own_library

LIBRARY = own_library()
DECODE = Goal(hardware_class="cpu", scheduled=False, steps=(("decode", (1, 8)),))


def asked(goal: Goal = DECODE, model_type: str = "llama", **changes: Plain) -> Asked:
    return texts(case(model_type, **changes)), goal


@cache
def base() -> Side:
    return side_of(asked(), LIBRARY)


OTHERS: dict[str, tuple[Asked, set[str]]] = {
    "eps": (asked(rms_norm_eps=1e-3), {"parameters", "kernels", "bytes"}),
    "end token": (asked(eos_token_id=7), {"run"}),
    "context": (asked(max_position_embeddings=512), {"parameters", "kernels", "bytes"}),
    "layers": (asked(num_hidden_layers=3), {"structure", "parameters", "formats", "rules", "kernels", "bytes"}),
    "kv": (asked(replace(DECODE, choices=("kv=bf16",))), {"policy", "formats", "kernels", "bytes"}),
    "setting": (asked(replace(DECODE, choices=("fuse.rope+kv_write=off",))), {"rules", "kernels"}),
    "rules": (asked(replace(DECODE, rules="reference")), {"rules", "kernels"}),
    "class": (asked(replace(DECODE, hardware_class="avx2")), {"class"}),
    "wider class": (asked(replace(DECODE, hardware_class="avx512")), {"class", "kernels"}),
    "rows": (asked(replace(DECODE, steps=(("decode", (1, 1)),))), set()),
    "model": (
        asked(model_type="qwen3"),
        {"structure", "parameters", "formats", "rules", "kernels", "bytes", "run"},
    ),
}


def compared(name: str) -> PlanDiff:
    return plan_diff(base(), side_of(OTHERS[name][0], LIBRARY))


@pytest.mark.parametrize("name", OTHERS)
def test_the_parts_that_must_differ_do_and_each_has_a_reason(name: str) -> None:
    found, expected = compared(name), OTHERS[name][1]
    different = {part.name for part in found.parts if part.different}
    assert different == expected
    assert {reason.part for reason in found.reasons} == different
    assert not found.equal
    assert found.same_bytes == ("bytes" not in expected)
    assert all(reason.own != reason.other for reason in found.reasons)
    assert max(map(len, sections_text(plan_diff_sections(found)).splitlines())) <= 80


@pytest.mark.parametrize("name", OTHERS)
def test_every_launch_of_both_plans_is_told_once(name: str) -> None:
    found, other = compared(name), side_of(OTHERS[name][0], LIBRARY)
    for pair in found.pairs:
        for rows in pair.rows:
            for at, side in enumerate((base(), other)):
                plan = next(plan for plan in side.plans if plan.mode == pair.mode and plan.rows == rows[at])
                told = sum(group.launches[at] for group in pair.groups)
                assert pair.equal[1] + told == len(plan.launches)


def test_a_plan_set_is_equal_to_itself_and_to_that_of_the_same_facts() -> None:
    for found in (plan_diff(base(), base()), plans_compared(asked(), asked(initializer_range=0.5), LIBRARY)):
        assert found.equal
        assert found.same_bytes
        assert found.reasons == ()
        assert all(pair.groups == () for pair in found.pairs)
        assert "are the same, and there are no others" in sections_text(plan_diff_sections(found), 120)


def test_a_changed_group_says_in_what() -> None:
    found = compared("kv")
    changed = {group.rules[0]: group for pair in found.pairs for group in pair.groups}
    assert set(changed) == {"attention", "rope+kv_write"}
    assert changed["attention"].became == "changed"
    assert changed["attention"].differs == (
        Difference(name="attention.paged_kv format", kind="policy", own="f32", other="bf16"),
    )
    points = [group for pair in compared("wider class").pairs for group in pair.groups]
    assert all(each.kind == "plan" and each.name == "point" for group in points for each in group.differs)


def test_a_group_of_one_side_names_its_rule() -> None:
    found = compared("setting")
    became = {group.members: (group.became, group.rules) for group in found.pairs[0].groups}
    assert became["l{i}.attn.rope_k", "l{i}.attn.write"] == ("only in A", ("rope+kv_write", ""))
    assert became[("l{i}.attn.write",)] == ("only in B", ("", "kv_write"))
    (setting,) = (reason for reason in found.reasons if reason.what == "fuse.rope+kv_write")
    assert (setting.own, setting.other) == ("", "off")


def test_reasons_name_facts_policy_class_rules_and_points() -> None:
    def why(name: str, part: str) -> dict[str, tuple[str, str]]:
        return {each.what: (each.own, each.other) for each in compared(name).reasons if each.part == part}

    assert why("eps", "parameters")["rms_norm.eps of l{i}.attn.norm"] == ("1e-05", "0.001")
    assert why("context", "parameters") == {"context": ("1024", "512")}
    assert why("end token", "run") == {"eos": ("2, 7", "7")}
    assert why("kv", "policy") == {"kv": ("f32", "bf16")}
    assert why("class", "class")["chain"] == ("cpu", "avx2 cpu")
    assert why("rules", "rules")["set of rules"] == ("all", "reference")
    assert why("rules", "rules")["rule rope+kv_write"][0].startswith("cpu:")
    assert why("wider class", "kernels")["point panel_linear.p48_r2"] == (
        "lanes=24 panel=48 row_tile=2 unroll=8",
        "lanes=48 panel=48 row_tile=2 unroll=8",
    )
    assert why("layers", "structure")["dim layers"] == ("2", "3")
    assert why("model", "structure")["node l{i}.attn.q_norm"] == ("", "rms_norm")


def test_what_is_not_the_same_in_all_layers_is_told_in_runs() -> None:
    kinds = ("full_attention", "sliding_attention")
    layers: list[list[Plain]] = [[kinds[at >= first] for at in range(4)] for first in (1, 3)]
    windows = [
        side_of(asked(model_type="qwen3", num_hidden_layers=4, max_window_layers=first, layer_types=each), LIBRARY)
        for first, each in zip((1, 3), layers, strict=True)
    ]
    found = {each.what: each for each in reasons(windows[0], windows[1], ("parameters",))}
    window = found["attention.window of l{i}.attn.attend"]
    assert (window.own, window.other) == ("0 (1x), 48 (3x)", "0 (3x), 48 (1x)")


def test_the_same_things_in_another_order_are_told_as_that() -> None:
    (reason,) = reasons(base(), base(), ("formats",))
    assert (reason.part, reason.what) == ("formats", "the same things in another order")


def test_values_are_cut_so_that_what_differs_is_seen() -> None:
    long = "the same text at the start"
    assert cells_of("one", "other") == ("one", "other")
    assert cells_of(f"{long} one", f"{long} other") == ("…ne", "…ther")
    assert cells_of(long, f"{long} and more than there is room for") == ("…", "… and more than t…")
    assert members_text(("l{i}.attn.norm", "l{i}.attn.q", "l{i+1}.mlp.up")) == "l{i}.attn.norm+q l{i+1}.mlp.up"
