"""A trace beside a plan: edits that turn one into the other, the nearest plan, names as programs have them."""

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from circuit.comparisons import named_plans
from circuit.compiled import Goal
from circuit.emit.program import emit_program
from circuit.load.named_plan import NamedLaunch, NamedPlan
from circuit.load.plan_file import load_plans
from circuit.pipeline import compiled
from circuit.plan.as_json import plan_json, plan_object
from circuit.report.sections import sections_text
from circuit.report.trace import Edit, Trace, TraceReport, compare_trace, plain_names, planned_name
from circuit.report.trace_text import trace_sections
from circuit.text import Source
from tests.cases.texts import case, texts
from tests.lower.library import own_library

LIBRARY = own_library()
PLANS = named_plans((texts(case("llama")), Goal(hardware_class="cpu", scheduled=False)), LIBRARY)
DECODE, PREFILL = PLANS[0], PLANS[-1]
KNOWN = plain_names({launch.kernel for plan in PLANS for launch in plan.launches})


def kernels(plan: NamedPlan, *sections: str) -> list[str]:
    """The launches of a step in which these sections ran besides the main one."""
    return [
        KNOWN.get(launch.kernel, launch.kernel) for launch in plan.launches if launch.section in ("main", *sections)
    ]


def report(launches: list[str], plans: tuple[NamedPlan, ...] = PLANS) -> TraceReport:
    found = compare_trace(plans, Trace(kind="Chrome trace", launches=tuple(launches)))
    assert max(map(len, sections_text(trace_sections(found)).splitlines())) <= 80
    return found


def test_a_prompt_and_its_answer_are_as_planned() -> None:
    found = report([*kernels(PREFILL), *(kernels(DECODE, "greedy") * 3), *kernels(DECODE, "sample", "score")])
    assert found.equal
    assert (found.steps, found.counts, found.before) == (5, (), ())
    assert [(kind.plans, kind.sections, kind.steps) for kind in found.kinds] == [
        (("decode 3-4", "decode 5-8", "decode 9-64", "prefill 1-512"), (), 1),  # which launch kernels of the same names
        (("decode 1", "decode 2"), ("greedy",), 3),
        (("decode 1", "decode 2"), ("sample", "score"), 1),
    ]
    assert found.unused == ()
    assert report(kernels(DECODE)).unused == ("decode 3-4", "decode 5-8", "decode 9-64", "prefill 1-512")


def test_a_section_that_shares_its_kernels_with_the_main_one_is_seen_by_their_number() -> None:
    many = next(plan for plan in PLANS if plan.rows == (3, 4))
    shared = Counter(kernels(many)) & Counter(kernels(many, "hidden")) - Counter(kernels(many))
    assert shared  # the rows that get logits are taken twice by one kernel
    assert report(kernels(many, "hidden")).kinds[0].sections == ("hidden",)
    assert report(kernels(many)).kinds[0].sections == ()


def test_what_the_plan_does_not_have_and_what_the_trace_does_not_have_are_told_in_order() -> None:
    step = kernels(DECODE)
    step[3:3] = ["copy", "copy"]
    removed = step.pop(7)
    found = report([*kernels(DECODE), *step, *step])
    assert not found.equal
    (planned, changed) = found.kinds
    assert (planned.edits, planned.steps) == ((), 1)
    assert (changed.steps, changed.first) == (2, 1)
    assert [(edit.became, edit.at, edit.kernel, edit.count) for edit in changed.edits] == [
        ("not in the plan", 3, "copy", 2),
        ("not in the trace", 5, removed, 1),
    ]
    assert changed.edits[1].members == DECODE.launches[5].members
    counts = {each.kernel: (each.planned, each.traced) for each in found.counts}
    per_step = kernels(DECODE).count(removed)
    assert counts == {"copy": (0, 4), removed: (3 * per_step, 3 * per_step - 2)}


def test_what_is_before_the_first_step_is_told_apart() -> None:
    found = report(["fill", "fill", *kernels(DECODE)])
    assert not found.equal
    assert found.before == (("fill", 2),)
    assert found.kinds[0].edits == ()
    assert "before the first step" in sections_text(trace_sections(found))


def test_a_trace_of_something_else_has_nothing_of_the_plan() -> None:
    found = report(["a", "b"])
    (kind,) = found.kinds
    assert {edit.kernel for edit in kind.edits if edit.became == "not in the plan"} == {"a", "b"}
    missing = sum(edit.count for edit in kind.edits if edit.became == "not in the trace")
    assert missing == min(len(kernels(plan)) for plan in PLANS)


def test_single_ops_in_place_of_fused_ones_are_seen() -> None:
    goal = Goal(hardware_class="cpu", scheduled=False, rules="reference")
    single = named_plans((texts(case("llama")), goal), LIBRARY)[0]
    found = report(kernels(single))
    assert found.kinds[0].plans[0].startswith("decode")
    missing = {edit.kernel for edit in found.kinds[0].edits if edit.became == "not in the trace"}
    assert any(name.startswith("rope_kv_write") for name in missing)


@given(st.data())
def test_the_edits_turn_the_plan_into_the_trace(data: st.DataObject) -> None:
    step = kernels(DECODE)
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(1, len(step)))
        if at < len(step) and data.draw(st.booleans()):
            del step[at]
        else:
            step.insert(at, data.draw(st.sampled_from(("copy", step[-1], step[1]))))
    found = compare_trace((DECODE,), Trace(kind="Chrome trace", launches=tuple(step)))
    (kind,) = found.kinds
    planned = kernels(DECODE, *kind.sections)
    assert _applied(planned, kind.edits) == step
    counts = {each.kernel: (each.planned, each.traced) for each in found.counts}
    own, there = Counter(planned), Counter(step)
    assert counts == {name: (own[name], there[name]) for name in own | there if own[name] != there[name]}


def _applied(planned: list[str], edits: tuple[Edit, ...]) -> list[str]:
    """The plan without what the trace lacks, and with what it has besides."""
    gone = {at for e in edits if e.became == "not in the trace" for at in range(e.at, e.at + e.count)}
    found: list[str] = []
    for at in range(len(planned) + 1):
        for edit in edits:
            if edit.became == "not in the plan" and edit.at == at:
                found += [edit.kernel] * edit.count
        if at < len(planned) and at not in gone:
            found.append(planned[at])
    return found


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("linear_64x64_f32", "linear_64x64_f32"),
        ("linear_64x64_f32(void *, void *)", "linear_64x64_f32"),
        ("void linear_64x64_f32<48, 4>(void *)", "linear_64x64_f32"),
        ("linear_64x64_f32_plan3", "linear_64x64_f32"),
        ("linear_64x64_f32_2", "linear_64x64_f32"),
        ("linear_64x64_f32_2_plan12", "linear_64x64_f32"),
        ("linear_64x64_f32_3", "linear_64x64_f32_3"),
        ("embed_plan2", "embed_plan2"),
        ("ampere_sgemm_32x32_sliced1x4_tn", "ampere_sgemm_32x32_sliced1x4_tn"),
        ("void at::native::fill(int)", "void at::native::fill(int)"),
    ],
)
def test_names_are_those_of_the_emitted_program(name: str, expected: str) -> None:
    assert planned_name(name, plain_names({"linear_64x64_f32", "linear_64x64_f32_2"})) == expected


def test_the_names_of_an_emitted_program_are_all_known() -> None:
    made = compiled(texts(case("llama")), LIBRARY, Goal(hardware_class="cpu", steps=(("decode", (1, 4)),)))
    emitted = [
        source.path[len("kernels/") : -2] for source in emit_program(made.plans) if source.path.startswith("kernels/")
    ]
    known = plain_names({kernel.name for plan in made.plans for kernel in plan.kernels})
    assert emitted
    assert {planned_name(name, known) for name in emitted} == set(known.values())


def test_the_plans_of_a_file_are_those_of_the_model() -> None:
    goal = Goal(hardware_class="cpu", scheduled=False, steps=(("decode", (1, 4)),))
    made = compiled(texts(case("llama")), LIBRARY, goal).plans
    named = named_plans((texts(case("llama")), goal), LIBRARY)
    assert load_plans(Source(path="plan.json", text=plan_json(made[0]))) == named[:1]
    text = json.dumps({"plans": [plan_object(plan) for plan in made]}, indent=1)
    assert load_plans(Source(path="plan.json", text=text)) == named


def test_launches_of_two_plans_that_differ_in_members_alone_are_two_plans() -> None:
    launch = NamedLaunch(kernel="k", members=("a",), section="main")
    one = NamedPlan(arch="x", hardware_class="cpu", mode="decode", rows=(1, 1), launches=(launch, launch))
    found = report(["k", "k", "k", "k"], (one,))
    assert found.steps == 1  # the first kernel is in the step again, so it does not begin one
    assert found.kinds[0].edits[0].count == 2


def test_of_a_long_list_the_beginning_is_shown_and_the_rest_counted() -> None:
    text = sections_text(trace_sections(report([f"kernel_{n % 7}" for n in range(500)])))
    assert "more; --json has all" in text
    assert text.count("not in the plan") <= 40
    steps = [name for n in range(12) for name in [*kernels(DECODE), *["copy"] * (n + 1)]]
    text = sections_text(trace_sections(report(steps)))
    assert "12 kinds of steps differ; the first 8 are shown, --json has all" in text
    assert text.count("beside decode 1") == 8
