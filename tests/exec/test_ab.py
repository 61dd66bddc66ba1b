"""Measuring a relation: ratios of pairs, joules of packages, what is told and what is recorded."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from circuit.load.evidence import load_evidence
from circuit.load.hardware import load_hardware
from circuit_exec import ab
from circuit_exec.ab import ratios, rung
from circuit_exec.energy import Meter, meter
from circuit_exec.library import library
from circuit_exec.machine import machine_name
from cli.main import status
from tests.exec.test_prove import checkout as checkout
from tests.models import tiny_config, write_checkpoint


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A tiny model, and a cache of this test alone; a ladder of three rungs."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(ab, "LADDER", (1, 2, 3))
    return str(write_checkpoint(tmp_path / "model", tiny_config("llama")))


def test_ratios_are_of_pairs_and_the_spread_is_the_middle_of_the_controls() -> None:
    off = [1.0, 2.0, 4.0, 1.0, 1.0, 1.0, 1.0]
    on = [0.5, 1.0, 2.0, 0.5, 0.5, 9.0, 0.5]
    control = [1.0, 2.2, 4.0, 0.9, 7.0, 0.1, 1.05]
    assert ratios([off, on, control]) == (0.5, (0.9, 1.1))


def test_a_rung_counts_joules_where_they_can_be_read(tmp_path: Path) -> None:
    packages(tmp_path, 0)
    found = meter(tmp_path)
    assert isinstance(found, Meter)

    def leg(microjoules: int) -> Callable[[], None]:
        def run() -> None:
            used = int(found.files[0].read_text("ascii")) + microjoules
            found.files[0].write_text(str(used % 1_000_001), "ascii")

        return run

    made = rung(64, [leg(2000), leg(1000), leg(2000)], found)
    assert (made.energy, made.energy_control) == (0.5, (1.0, 1.0))
    assert rung(64, [leg(1), leg(1), leg(1)], "no").energy is None


def test_a_rung_that_seems_to_cost_something_is_judged_on_many_rounds() -> None:
    rounds = [0, 0, 0]
    slow_until = 20

    def leg(place: int) -> Callable[[], None]:
        def run() -> None:
            rounds[place] += 1
            slow = place == ab.ON and rounds[place] <= slow_until
            time.sleep(0.004 if slow else 0.001)

        return run

    made = rung(64, [leg(place) for place in range(3)], "no")
    assert rounds[ab.ON] == ab.DOUBTED_ROUNDS + 1  # the first is not counted
    assert made.ratio < 2
    slow_until = 1000
    assert rung(64, [leg(place) for place in range(3)], "no").ratio > 2


def packages(folder: Path, *used: int) -> None:
    for number, value in enumerate(used):
        package = folder / f"intel-rapl:{number}"
        package.mkdir()
        (package / "energy_uj").write_text(f"{value}\n", "ascii")
        (package / "max_energy_range_uj").write_text("1000000\n", "ascii")
        (folder / f"intel-rapl:{number}:0").mkdir()  # a part of the package, counted in it


def test_joules_are_of_all_packages_and_a_counter_may_start_again(tmp_path: Path) -> None:
    packages(tmp_path, 10, 20)
    found = meter(tmp_path)
    assert isinstance(found, Meter)
    assert found.read() == (10, 20)
    assert found.joules((999_999, 20), (4, 500_020)) == pytest.approx(0.500006)


def test_why_joules_cannot_be_read_is_told(tmp_path: Path) -> None:
    assert meter(tmp_path / "powercap") == "there is no powercap/intel-rapl:0"
    packages(tmp_path, 1)
    (tmp_path / "intel-rapl:0" / "energy_uj").unlink()
    assert meter(tmp_path) == "no such file or directory"


def test_a_machine_is_named_by_its_processor_and_how_many_there_are() -> None:
    assert machine_name().endswith(("1 processor", " processors"))


def test_a_measured_rule_is_told_and_recorded_with_both_sides(
    model: str, checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rule = "rms_norm+linear_gate_up"
    assert status(["circuit", "prove", rule, "--ab", model, "--write"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(" rows: ")[0] for line in lines[:-1]] == [f"{rule}: 1", f"{rule}: 2"]  # not at 3
    assert " without, time x " in lines[0]
    assert lines[-1].startswith((f"{rule}: loses at ", f"{rule}: loses nowhere"))
    (record,) = load_evidence(library(), load_hardware(library(), "cpu"))
    assert (record.rule, record.machine, record.model, record.under) == (rule, machine_name(), "model", ())
    assert [each.rows for each in record.rungs] == [1, 2]
    assert all(each.off_ms > 0 < each.ratio for each in record.rungs)
    assert record.on != record.off
    assert record.energy == "RAPL" or record.energy.startswith("not readable here: ")


def test_a_rule_is_measured_under_other_choices_and_shown_as_json(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    choices = ["--policy", "fuse.rms_norm+linear_gate_up=off"]
    assert status(["circuit", "prove", "linear_gate_up", "--ab", model, "--json", *choices]) == 0
    (found,) = json.loads(capsys.readouterr().out)["evidence"]
    assert found["under"] == ["fuse.rms_norm+linear_gate_up=off"]
    assert [each["rows"] for each in found["rungs"]] == [1, 2, 3]


def test_a_rule_that_takes_nothing_is_refused_where_it_is_named(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status(["circuit", "prove", "rms_norm+rope", "--ab", model]) == 2
    assert capsys.readouterr().err == (
        f"error: rule `rms_norm+rope` takes no node of a decode step of {model}\n"
        "  = fix: give a model where it does, or turn off what takes its nodes first: --policy fuse.RULE=off\n"
    )


def test_a_policy_belongs_to_measuring(capsys: pytest.CaptureFixture[str]) -> None:
    assert status(["circuit", "prove", "linear_qkv", "--policy", "kv=f32"]) == 2
    assert capsys.readouterr().err == "error: --policy is for --ab: a proof holds under any\n  = fix: leave it out\n"
