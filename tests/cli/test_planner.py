"""Reports of a model on a device through the console entry: forms, options, refusals, the same bytes anywhere."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli.main import status
from cli.planner import REPORTS
from tests.cli.harness import ROOT, settings
from tests.lower.library import own_library, with_files
from tests.models import tiny_config, write_config
from tests.report.test_planner import conforms

NAMES = [report.name for report in REPORTS]
H200 = ("--hardware", "h200")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with the config of a tiny model."""
    write_config(tmp_path, tiny_config("llama"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", NAMES)
def test_a_report_is_text_of_80_columns_markdown_or_json_of_its_schema(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*more: str) -> str:
        assert status(["circuit", name, "config.json", *H200, *more]) == 0
        return capsys.readouterr().out

    assert max(map(len, run().splitlines())) <= 80
    assert run("--markdown").startswith("## ")
    schema = json.loads(run("--schema"))
    assert schema["title"] == f"met circuit {name}"
    assert conforms(json.loads(run("--json")), schema) == []


def test_an_option_that_would_change_nothing_does_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    for report in REPORTS:
        assert status(["circuit", report.name, "--help"]) == 0
        text = capsys.readouterr().out
        assert all((option in text) == report.sized for option in ("--reserved", "--context", "--sequences"))
        assert report.examples.strip().splitlines()[-1].strip() in text


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_device_and_two_forms_are_refused(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(["circuit", name, "config.json", "--hardware", "h9000"]) == 2
    assert capsys.readouterr().err.startswith("error: there is no device `h9000`\n  = fix: use one of: a100_40gb")
    assert status(["circuit", name, "config.json", *H200, "--json", "--markdown"]) == 2
    assert capsys.readouterr().err == (
        "error: --json, --markdown and --schema are three forms of one report\n  = fix: give one of them\n"
    )


def test_a_class_that_inherits_from_itself_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = own_library()
    ampere = next(source.text for source in own.files if source.path == "kernels/ampere/HARDWARE.toml")
    cycle = with_files(own, kernels__ampere__HARDWARE=ampere.replace('inherits = "cuda"', 'inherits = "hopper"'))
    monkeypatch.setattr("circuit_exec.library.library", lambda: cycle)
    assert status(["circuit", "plan", "config.json", *H200]) == 2
    found = capsys.readouterr().err
    assert found == (
        "error: class `ampere` inherits from itself: ampere <- hopper <- ada <- ampere\n"
        " --> kernels/ada/HARDWARE.toml:6\n"
        '  | inherits = "ampere"\n'
        "  = fix: remove one `inherits`\n"
    )


def test_a_context_that_does_not_fit_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    most = tiny_config("llama")["max_position_embeddings"]
    assert status(["circuit", "memory", "config.json", *H200, "--context", "999999"]) == 2
    found = capsys.readouterr()
    assert found.out == ""
    assert found.err.startswith("error: 999,999 positions are asked for, the model has ")
    assert f"  = fix: ask for at most --context {most}" in found.err


def test_a_violation_is_shown_by_the_audit_and_refuses_the_plan(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    strict = """schema = 1
[[require]]
ops = ["linear"]
rows = 16
instructions = ["mma.*"]
why = "they are there"
source = "measured"
"""
    library = with_files(own_library(), kernels__hopper__AUDIT=strict)
    monkeypatch.setattr("circuit_exec.library.library", lambda: library)
    assert status(["circuit", "audit", "config.json", *H200]) == 3
    found = capsys.readouterr()
    assert "violation :2" in found.out
    for name in ("plan", "memory", "precision"):
        assert status(["circuit", name, "config.json", *H200]) == 3
        refused = capsys.readouterr()
        assert (refused.out, refused.err) == ("", found.err)
    assert "class hopper requires mma.bf16 or mma.f16 or mma.f8_e4m3 or mma.i8\n --> kernels/hopper/AUDIT.toml:2" in (
        found.err
    )


ALL = """
import sys
from cli.main import status
for name in sys.argv[2:]:
    for form in ([], ["--json"]) if name != "memory" else ([],):  # whose record is that of plan
        assert status(["circuit", name, sys.argv[1], "--hardware", "h200", *form]) == 0
assert status(["circuit", "lkb", sys.argv[1], "--hardware", "h200"]) == 0
assert status(["circuit", "venn", sys.argv[1], sys.argv[1], "--hardware", "h200"]) == 0
assert status(["circuit", "diff", "--plans", sys.argv[1], "--rules", "reference,all", "--hardware", "h200"]) == 1
"""


def test_two_hash_seeds_and_two_folders_give_the_same_bytes_of_every_report(tmp_path: Path) -> None:
    found = []
    for seed, folder, path in (("1", "a", "config.json"), ("2", "b/c", str(tmp_path / "b" / "c" / "config.json"))):
        (tmp_path / folder).mkdir(parents=True)
        write_config(tmp_path / folder, tiny_config("llama"))
        environment = settings(tmp_path) | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", ALL, path, *NAMES]
        ran = subprocess.run(
            command, cwd=tmp_path / folder, env=environment, capture_output=True, check=False, timeout=120
        )
        assert ran.returncode == 0, ran.stderr
        found.append(ran.stdout)
    assert found[0] == found[1]
    assert os.fsencode(tmp_path) not in found[0]
    assert len(found[0]) > 10_000
