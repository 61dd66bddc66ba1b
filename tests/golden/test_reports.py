"""Golden reports of the planner for tiny models: every figure can be read here before anybody else reads it."""

from collections.abc import Callable

import pytest

from circuit.load.devices import device_named, load_devices
from circuit.pipeline import Goal, assessed
from circuit.report.planner import Planner
from circuit.report.planner_text import planner_sections
from circuit.report.sections import sections_markdown, sections_text
from tests.cases.texts import case, texts
from tests.lower.library import own_library

Golden = Callable[[str, str], None]
LIBRARY = own_library()


def report(model_type: str, device: str) -> Planner:
    """The planner's report of a tiny model on a device."""
    chosen = device_named(load_devices(LIBRARY), device)
    goal = Goal(hardware_class=chosen.hardware_class, scheduled=False)
    return assessed(texts(case(model_type)), LIBRARY, goal, chosen)


@pytest.mark.parametrize(("model_type", "device"), [("llama", "h200"), ("qwen3", "epyc_9654")])
@pytest.mark.parametrize("width", [80, 120])
def test_the_report_of_a_tiny_model_is_the_golden_one(model_type: str, device: str, width: int, golden: Golden) -> None:
    text = sections_text(planner_sections(report(model_type, device)), width)
    assert max(map(len, text.splitlines())) <= width
    golden(f"{model_type}_tiny.{device}.{width}.report", text)


def test_the_report_as_markdown_is_the_golden_one(golden: Golden) -> None:
    golden("llama_tiny.h200.report.md", sections_markdown(planner_sections(report("llama", "h200"))))
