"""`met circuit display` through the console entry: forms, files, refusals, the same bytes anywhere."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import BinaryIO

import pytest

from circuit.report.display.record import Display
from cli.main import status
from cli.whole_file import write_whole
from tests.cli.harness import ROOT, settings
from tests.models import tiny_config, write_config
from tests.report.test_planner import conforms

DISPLAY = ("circuit", "display", "config.json", "--hardware", "h200")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with the config of a tiny model."""
    write_config(tmp_path, tiny_config("llama"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_is_text_markdown_or_json_of_its_schema(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*more: str) -> str:
        assert status([*DISPLAY, *more]) == 0
        return capsys.readouterr().out

    text = run()
    assert max(map(len, text.splitlines())) <= 80
    assert "\x1b" not in text
    assert run("--width", "120", "--ascii").isascii()
    assert run("--layer", "1").startswith("■ layers 0-1: ")
    assert run("--markdown").startswith("## config.json\n")
    assert "prefill, 8 rows of one sequence" in run("--mode", "prefill", "--rows", "8")
    schema = json.loads(run("--schema"))
    assert schema["title"] == "met circuit display"
    assert set(schema["required"]) == set(Display.__struct_fields__)
    assert conforms(json.loads(run("--json")), schema) == []


def test_without_a_device_it_is_of_a_class(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*more: str) -> str:
        assert status(["circuit", "display", "config.json", *more]) == 0
        return capsys.readouterr().out

    assert run() == run("--class", "cpu")
    assert re.search(r"^  class +hopper$", run("--class", "hopper"), re.MULTILINE)
    assert conforms(json.loads(run("--json")), json.loads(run("--schema"))) == []
    assert json.loads(run("--json"))["on_device"] is None
    assert run("--html", "a.html", "--svg", "a.svg") == ""
    assert "Under the roof" not in (folder / "a.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message", "fix"),
    [
        (
            ("--class", "cpu", "--hardware", "h200"),
            "--class cpu and --hardware h200 are given, and a device has a class",
            "leave out --class",
        ),
        (
            ("--reserved", "5"),
            "--reserved 5 is memory of a device, and none is given",
            "give --hardware, or leave out --reserved",
        ),
    ],
)
def test_a_device_and_its_memory_are_given_together(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str, fix: str
) -> None:
    assert status(["circuit", "display", "config.json", *arguments, "--html", "a.html"]) == 2
    assert capsys.readouterr().err == f"error: {message}\n  = fix: {fix}\n"
    assert not (folder / "a.html").exists()


def test_a_terminal_has_colours_unless_no_color_is_set(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert status([*DISPLAY, "--layer", "0"]) == 0
    assert "\x1b[34m" in capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    assert status([*DISPLAY, "--layer", "0"]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_the_page_and_the_picture_are_written_in_place_of_the_text(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status([*DISPLAY, "--html", "a.html", "--svg", "a.svg"]) == 0
    assert capsys.readouterr().out == ""
    assert (folder / "a.html").read_text(encoding="utf-8").startswith("<!doctype html>\n")
    assert (folder / "a.svg").read_text(encoding="utf-8").startswith('<svg xmlns="http://www.w3.org/2000/svg"')
    assert sorted(path.name for path in folder.iterdir()) == ["a.html", "a.svg", "config.json"]


@pytest.mark.parametrize(
    ("arguments", "message", "fix"),
    [
        (
            ["--json", "--markdown"],
            "--json, --markdown and --schema are three forms of one report",
            "give one of them",
        ),
        (["--json", "--ascii"], "--ascii changes nothing of --json", "leave out one of them"),
        (["--schema", "--width", "90"], "--width changes nothing of --schema", "leave out one of them"),
        (["--json", "--layer", "0"], "--layer changes nothing of --json", "leave out one of them"),
        (["--html", "a.html", "--layer", "0"], "--layer changes nothing of --html", "leave out one of them"),
        (["--svg", "a.svg", "--ascii"], "--ascii changes nothing of --svg", "leave out one of them"),
        (["--markdown", "--width", "90"], "--width changes nothing of --markdown", "leave out one of them"),
        (
            ["--layer", "2"],
            "there is no layer `2`; there are layers 0-1, and embed, head, score, hidden",
            "give --layer a number of them, or one of: embed, head, score, hidden",
        ),
    ],
)
def test_what_has_no_effect_and_a_layer_that_is_not_there_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str, fix: str
) -> None:
    assert status([*DISPLAY, *arguments]) == 2
    found = capsys.readouterr()
    assert (found.out, found.err) == ("", f"error: {message}\n  = fix: {fix}\n")
    assert sorted(path.name for path in folder.iterdir()) == ["config.json"]


@pytest.mark.parametrize(("option", "what"), [("--html", "the page"), ("--svg", "the picture")])
def test_a_file_that_cannot_be_written_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], option: str, what: str
) -> None:
    (folder / "taken").mkdir()
    for place, reason in (("none/a", "no such file or directory"), ("taken", "is a directory")):
        assert status([*DISPLAY, option, place]) == 2
        assert capsys.readouterr().err == (
            f"error: {what} cannot be written: {reason}\n --> {place}\n"
            f"  = fix: make room, or give {option} a place that can be written\n"
        )
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "taken"]


def test_a_model_without_a_circuit_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_config(folder, tiny_config("llama") | {"model_type": "mamba"})
    assert status([*DISPLAY, "--html", "a.html"]) == 2
    assert capsys.readouterr().err == (
        'error: `model_type` is "mamba", which has no circuit\n --> config.json:12\n  | "model_type": "mamba",\n'
        "  = fix: use a checkpoint with one of: llama, mistral, qwen2, qwen3\n"
    )
    assert sorted(path.name for path in folder.iterdir()) == ["config.json"]


def test_an_interrupt_leaves_the_file_that_was_there(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    path.write_text("before", encoding="utf-8")

    def cut(file: BinaryIO) -> None:
        file.write(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_whole(path, cut, "the page", "--html")
    assert path.read_text(encoding="utf-8") == "before"
    assert list(tmp_path.iterdir()) == [path]


ALL = """
import sys
from pathlib import Path
from cli.main import status
command = ["circuit", "display", sys.argv[1], "--hardware", "h200"]
for more in ([], ["--json"], ["--html", "a.html", "--svg", "a.svg"]):
    assert status([*command, *more]) == 0
print(Path("a.html").read_text(), Path("a.svg").read_text())
"""


def test_two_hash_seeds_and_two_folders_give_the_same_bytes(tmp_path: Path) -> None:
    found = []
    for seed, folder in (("1", "a"), ("2", "b/c")):
        (tmp_path / folder).mkdir(parents=True)
        write_config(tmp_path / folder, tiny_config("llama"))
        environment = settings(tmp_path) | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", ALL, "config.json"]
        ran = subprocess.run(
            command, cwd=tmp_path / folder, env=environment, capture_output=True, check=False, timeout=600
        )
        assert ran.returncode == 0, ran.stderr
        found.append(ran.stdout)
    assert found[0] == found[1]
    assert os.fsencode(tmp_path) not in found[0]
    assert len(found[0]) > 10_000
