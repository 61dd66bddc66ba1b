"""Every published config that has a circuit is displayed, within the width, in a fraction of the planning's time."""

import time

import pytest

from circuit.compiled import Goal
from circuit.errors import MetError
from circuit.load.devices import device_named
from circuit.pipeline import compiled
from circuit.report.display.build import Shown
from circuit.report.display.rows import rows_of
from circuit.report.display.text import display_text
from circuit.reports import displayed_on
from circuit_exec.display_page import page, picture
from tests.report.test_shared_plans import DEVICES, LIBRARY, SHARED, refusal, shared

LIMIT_S = 1.0
"""Of the display's own work, all forms of it, on top of the plans."""


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_dir(), reason="the published configs are not here")
def test_every_published_model_with_a_circuit_is_displayed() -> None:
    device = device_named(DEVICES, "h200")
    goal = Goal(hardware_class=device.hardware_class, scheduled=False)
    count, slowest = 0, 0.0
    for name, checkpoint in shared().items():
        if refusal(checkpoint) is not None:
            continue
        try:
            made = compiled(checkpoint, LIBRARY, goal)
        except MetError:
            continue
        for mode in ("decode", "prefill"):
            start = time.process_time()
            report = displayed_on(made, LIBRARY, goal, device, name, Shown(mode=mode))
            texts = [display_text(report), page(report), picture(report)]
            slowest = max(slowest, time.process_time() - start)
            assert max(map(len, texts[0].splitlines())) <= 80, name
            assert len({part.layer for part in report.parts} - {None}) == report.card.layers, name
            assert all(row.kind for diagram in report.diagrams for row in rows_of(diagram))
            count += 1
    print(f"{count} displays, the slowest in {slowest:.2f} s")
    assert count >= 40
    assert slowest < LIMIT_S
