"""Golden reports for tiny models: every figure can be read here before anybody else reads it."""

import re
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from circuit.comparisons import kernel_base, named_plans, plans_compared, venned
from circuit.compiled import Goal
from circuit.load.devices import Device, device_named, load_devices
from circuit.pipeline import audited
from circuit.report.audit_text import audit_sections
from circuit.report.lkb_text import lkb_sections
from circuit.report.plan_diff_text import plan_diff_sections
from circuit.report.planner_text import fit_sections, memory_sections, planner_sections
from circuit.report.precision_text import precision_sections
from circuit.report.sections import Section, sections_markdown, sections_text
from circuit.report.trace import Trace, compare_trace
from circuit.report.trace_text import trace_sections
from circuit.report.venn_text import venn_sections
from circuit.reports import assessed, precisions
from tests.cases.texts import case, texts
from tests.lower.library import own_library

Golden = Callable[[str, str], None]
LIBRARY = own_library()
DEVICES = load_devices(LIBRARY)


def _asked(name: str) -> tuple[Device, Goal]:
    device = device_named(DEVICES, name)
    return device, Goal(hardware_class=device.hardware_class, scheduled=False)


def reports(model_type: str, name: str) -> dict[str, tuple[Section, ...]]:
    """Every report of a tiny model on a device."""
    device, goal = _asked(name)
    checkpoint = texts(case(model_type))
    plan = assessed(checkpoint, LIBRARY, goal, device)
    return {
        "report": planner_sections(plan),
        "memory": (*memory_sections(plan.memory), *fit_sections(plan.memory, plan.fit)),
        "precision": precision_sections(precisions(checkpoint, LIBRARY, goal, device)),
        "audit": audit_sections(audited(checkpoint, LIBRARY, goal)),
    }


@pytest.mark.parametrize(("model_type", "device"), [("llama", "h200"), ("qwen3", "epyc_9654")])
def test_the_reports_of_a_tiny_model_are_the_golden_ones(model_type: str, device: str, golden: Golden) -> None:
    for name, sections in reports(model_type, device).items():
        for width in (80, 120):
            text = sections_text(sections, width)
            assert max(map(len, text.splitlines())) <= width, name
            golden(f"{model_type}_tiny.{device}.{width}.{name}", text)


def test_the_reports_as_markdown_are_the_golden_ones(golden: Golden) -> None:
    for name, sections in reports("llama", "h200").items():
        golden(f"llama_tiny.h200.{name}.md", sections_markdown(sections))


def test_the_kernels_of_a_tiny_model_beside_those_of_another_are_the_golden_ones(golden: Golden) -> None:
    device, goal = _asked("epyc_9654")
    found = venned(((texts(case("qwen3")), goal), (texts(case("llama")), goal)), LIBRARY, device)
    sections = venn_sections(found)
    assert max(map(len, sections_text(sections, 120).splitlines())) <= 120
    golden("qwen3_tiny.llama_tiny.epyc_9654.80.venn", sections_text(sections, 80))
    golden("qwen3_tiny.llama_tiny.epyc_9654.venn.md", sections_markdown(sections))


def test_what_differs_in_plans_of_tiny_models_is_the_golden_text(golden: Golden) -> None:
    one = Goal(hardware_class="cpu", scheduled=False, steps=(("decode", (1, 1)),))
    llama = texts(case("llama"))
    for name, other in (
        ("qwen2_tiny", (texts(case("qwen2")), one)),
        ("reference", (llama, replace(one, rules="reference"))),
    ):
        sections = plan_diff_sections(plans_compared((llama, one), other, LIBRARY))
        assert max(map(len, sections_text(sections, 120).splitlines())) <= 120
        golden(f"llama_tiny.{name}.cpu.80.diff", masked(sections_text(sections, 80)))


def test_the_kernel_base_of_a_tiny_model_is_the_golden_one(golden: Golden) -> None:
    device, goal = _asked("epyc_9654")
    found = lkb_sections(kernel_base((texts(case("llama")), goal), LIBRARY, device))
    assert max(map(len, sections_text(found, 120).splitlines())) <= 120
    golden("llama_tiny.epyc_9654.80.lkb", sections_text(found, 80))
    golden("llama_tiny.epyc_9654.lkb.md", sections_markdown(found))
    without = lkb_sections(kernel_base((texts(case("qwen3")), replace(goal, hardware_class="cpu")), LIBRARY, None))
    assert max(map(len, sections_text(without, 80).splitlines())) <= 80
    golden("qwen3_tiny.cpu.80.lkb", sections_text(without, 80))


def test_a_trace_beside_the_plans_of_a_tiny_model_is_the_golden_text(golden: Golden) -> None:
    plans = named_plans((texts(case("llama")), Goal(hardware_class="hopper", scheduled=False)), LIBRARY)
    step = [launch.kernel for launch in plans[0].launches if launch.section in ("main", "greedy")]
    other = [*step[:4], "fill_zeros", *step[4:9], *step[10:]]
    sections = trace_sections(
        compare_trace(plans, Trace(kind="Chrome trace", launches=("fill_zeros", *step, *step, *other)))
    )
    golden("llama_tiny.hopper.80.trace", sections_text(sections, 80))
    golden("llama_tiny.hopper.trace.md", sections_markdown(sections))


def masked(text: str) -> str:
    """The text without digests of definitions and the lines of rules, which change with what is not told here."""
    text = re.sub(r"^( +definitions of each plan| +kernels  )[ 0-9a-f]+", r"\1 (left out) ", text, flags=re.MULTILINE)
    return re.sub(r" *\bcpu:[0-9]+ [0-9a-f]{8}", " cpu:(line)", text)
