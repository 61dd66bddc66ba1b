"""Golden displays of tiny models: each diagram can be read here before anybody else reads it."""

from collections.abc import Callable

import pytest

from circuit.compiled import Goal
from circuit.load.devices import device_named, load_devices
from circuit.report.display.build import Shown
from circuit.report.display.lines import ASCII, UNICODE
from circuit.report.display.text import display_text
from circuit.reports import displayed
from tests.cases.texts import case, texts
from tests.lower.library import own_library

LIBRARY = own_library()


@pytest.mark.parametrize(
    ("model_type", "device", "mode"), [("llama", "h200", "decode"), ("qwen3", "epyc_9654", "prefill")]
)
def test_the_display_of_a_tiny_model_is_the_golden_one(
    model_type: str, device: str, mode: str, golden: Callable[[str, str], None]
) -> None:
    target = device_named(load_devices(LIBRARY), device)
    goal = Goal(hardware_class=target.hardware_class, scheduled=False)
    report = displayed(texts(case(model_type)), LIBRARY, goal, target, f"{model_type}_tiny", Shown(mode=mode))
    for width, glyphs in ((80, ASCII), (120, UNICODE)):
        golden(f"{model_type}_tiny.{device}.{width}.display", display_text(report, width, glyphs))


def test_the_head_of_a_display_without_a_device_is_the_golden_one(golden: Callable[[str, str], None]) -> None:
    goal = Goal(hardware_class="avx2", scheduled=False)
    report = displayed(texts(case("llama")), LIBRARY, goal, None, "llama_tiny", Shown())
    golden("llama_tiny.avx2.80.display", display_text(report).partition("\nembed: ")[0])
