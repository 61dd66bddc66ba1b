"""`met record`: the launches of the program that runs are those of the plan, and what it refuses."""

import json
import re

import pytest

from circuit.compiled import Goal
from circuit.emit.program import emit_program
from circuit.errors import RunError
from circuit.pipeline import compiled
from circuit_exec.trace.record import MOST, _events, noted
from tests.cases.texts import case, texts
from tests.cli.conftest import Home
from tests.cli.harness import refused
from tests.lower.library import own_library


@pytest.mark.slow
def test_what_ran_is_what_is_planned(home: Home) -> None:
    ran = home.met("record", "model", "-o", "ran.json", "--tokens", "9", "--steps", "2", "--threads", "2")
    assert ran.code == 0, ran.err
    said = re.fullmatch(r"(\d+) launches in [0-9.]+ ms; class (\w+); written to ran.json\n", ran.out)
    assert said is not None, ran.out
    events = json.loads((home.folder / "ran.json").read_text())["traceEvents"]
    assert len(events) == int(said[1])
    assert [event["ts"] for event in events] == sorted(event["ts"] for event in events)
    assert all(event["dur"] >= 0 and event["args"]["nodes"] for event in events)
    assert {event["args"]["plan"].partition(" ")[0] for event in events} == {"prefill", "decode"}
    same = home.met("circuit", "trace", "model", "ran.json", "--class", said[2])
    assert same.code == 0, same.out
    assert "the trace is as planned" in same.out
    assert f"{said[1]} launches in 3 steps" in same.out
    other = home.met("circuit", "trace", "model", "ran.json", "--class", said[2], "--rules", "reference")
    assert other.code == 1
    assert "not in the trace" in other.out


def test_every_launch_of_every_plan_has_a_note() -> None:
    made = compiled(texts(case("llama")), own_library(), Goal(hardware_class="cpu", steps=(("decode", (1, 4)),)))
    sources, calls = noted(emit_program(made.plans))
    assert [call.members for call in calls] == [launch.members for plan in made.plans for launch in plan.launches]
    assert [call.rule for call in calls] == [launch.rule for plan in made.plans for launch in plan.launches]
    assert [call.plan for call in calls] == [at for at, plan in enumerate(made.plans) for _ in plan.launches]
    (steps,) = (source.text for source in sources if source.path == "steps.c")
    assert steps.count("met_begin(tid, ") == steps.count("met_end(tid);") == len(calls)
    assert steps.index("static void met_begin") > steps.rindex('#include "')


def test_more_steps_than_tokens_are_refused(home: Home) -> None:
    refused(
        home.met("record", "model", "-o", "none.json", "--tokens", "3", "--steps", "4"),
        message="4 steps are more than the 3 tokens",
        fix="give more --tokens, or fewer --steps",
    )
    refused(
        home.met("record", "nowhere", "-o", "none.json"),
        message="there is no such file, directory or fetched model: nowhere",
    )
    assert not (home.folder / "none.json").exists()


def test_more_launches_than_are_kept_are_refused() -> None:
    class Recorded:
        def __call__(self, count: object) -> None:
            count._obj.value = MOST + 1  # type: ignore[attr-defined]

    class Library:
        met_recorded = Recorded()

    with pytest.raises(RunError) as caught:
        _events(Library())  # type: ignore[arg-type]
    (problem,) = caught.value.problems
    assert problem.message == f"{MOST + 1} launches were made, and {MOST} are kept"
    assert problem.fix == "give fewer --tokens or --steps"
