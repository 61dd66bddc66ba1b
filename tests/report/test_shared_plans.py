"""Every published config that has a circuit, on every device: a report, or a refusal that names a key."""

import time
from pathlib import Path

import pytest

from circuit.compiled import Goal
from circuit.errors import MetError
from circuit.load.config import map_config
from circuit.load.devices import load_devices
from circuit.load.inputs import HfTexts
from circuit.pipeline import compiled
from circuit.report.planner_text import planner_sections
from circuit.report.sections import sections_text
from circuit.reports import assessed_on
from circuit.text import Source
from tests.cases.texts import MODEL_TYPES, case, texts
from tests.lower.library import own_library

LIBRARY = own_library()
DEVICES = load_devices(LIBRARY)
SHARED = Path(__file__).resolve().parents[3] / "shared" / "configs"
LIMIT_S = 300.0


def planned(checkpoint: HfTexts) -> list[str]:
    """The refusals of a model, over all devices; every other report is a text within 80 columns."""
    refused = []
    for hardware in dict.fromkeys(device.hardware_class for device in DEVICES):
        own = tuple(device for device in DEVICES if device.hardware_class == hardware)
        goal = Goal(hardware_class=hardware, scheduled=False)
        try:
            reports = assessed_on(compiled(checkpoint, LIBRARY, goal), LIBRARY, goal, own)
        except MetError as error:
            refused += [str(error)] * len(own)
            continue
        for report in reports:
            lines = sections_text(planner_sections(report)).splitlines()
            assert max(map(len, lines)) <= 80, report.device.id
    return refused


@pytest.mark.parametrize(
    "model_type", ["llama", *(pytest.param(name, marks=pytest.mark.slow) for name in MODEL_TYPES if name != "llama")]
)
def test_a_tiny_model_of_every_type_has_a_report_on_every_device(model_type: str) -> None:
    assert planned(texts(case(model_type))) == []


def test_a_class_that_no_host_has_proven_is_planned_and_still_does_not_run() -> None:
    neon = next(device for device in DEVICES if device.hardware_class == "neon")
    goal = Goal(hardware_class="neon", scheduled=False)
    (report,) = assessed_on(compiled(texts(case("llama")), LIBRARY, goal), LIBRARY, goal, (neon,))
    (relations,) = (each for each in report.inputs if each.name == "relations")
    assert (relations.value, relations.origin) == ("proven on cpu", "kernels/cpu/common/PROOFS.toml")
    assert relations.why == "its definitions are those of every class; what runs needs proofs of its own class"
    with pytest.raises(MetError, match="class neon has no proof"):
        compiled(texts(case("llama")), LIBRARY, Goal(hardware_class="neon"))


def shared() -> dict[str, HfTexts]:
    """The published configs, by their folder."""
    found = {}
    for path in sorted(SHARED.glob("*/config.json")):
        own = path.parent / "hf_quant_config.json"
        found[path.parent.name] = HfTexts(
            config=Source(path="config.json", text=path.read_text(encoding="utf-8")),
            quantization=Source(path=own.name, text=own.read_text(encoding="utf-8")) if own.is_file() else None,
        )
    return found


def refusal(checkpoint: HfTexts) -> MetError | None:
    """Why a config is not even mapped."""
    try:
        map_config(checkpoint, LIBRARY)
    except MetError as error:
        return error
    return None


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_dir(), reason="the published configs are not here")
def test_every_published_model_has_a_report_on_every_device_or_a_key_that_says_why_not() -> None:
    plans = seconds = 0.0
    for name, checkpoint in shared().items():
        if (unmapped := refusal(checkpoint)) is not None:
            assert all("`" in problem.message and problem.fix for problem in unmapped.problems), name
            continue
        start = time.process_time()
        refused = planned(checkpoint)
        seconds += time.process_time() - start
        plans += len(DEVICES) - len(refused)
        assert all("`" in text for text in refused), (name, refused)
    print(f"{plans:.0f} reports in {seconds:.1f} s")
    assert plans >= 20 * len(DEVICES)
    assert seconds < LIMIT_S
