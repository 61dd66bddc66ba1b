"""A report that is asked for again: the same bytes, without planning; and not the same where anything has changed."""

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from cli.main import status
from tests.cli.harness import ROOT, met, settings
from tests.models import tiny_config, write_config
from tests.trace.files import chrome_trace

REPORTS = (
    "circuit display A --hardware h200",
    "circuit display A --class avx2 --mode prefill --rows 5",
    "circuit display A --json",
    "circuit plan A --hardware epyc_9654",
    "circuit memory A --hardware h200 --markdown",
    "circuit precision A --hardware h200",
    "circuit audit A --hardware h200",
    "circuit lkb A --class avx2",
    "circuit venn A B",
    "circuit why A l0.attn.q",
    "circuit show A --stage groups",
    "circuit show A --rules reference",
    "circuit map A",
    "circuit devices h200",
)


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with models A and B, and a cache of its own."""
    for name, kind in (("A", "llama"), ("B", "qwen3")):
        (tmp_path / name).mkdir()
        write_config(tmp_path / name, tiny_config(kind))
    monkeypatch.chdir(tmp_path)
    for name, value in settings(tmp_path).items():
        monkeypatch.setenv(name, value)
    return tmp_path


def forbid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can be planned, and no device be read, from here on."""

    def planned(*_: object, **__: object) -> object:
        raise AssertionError("it is planned again")

    for name in ("stages", "compiled", "explained"):
        monkeypatch.setattr(f"circuit.pipeline.{name}", planned)
    monkeypatch.setattr("circuit.load.config.map_config", planned)
    monkeypatch.setattr("circuit.load.devices.load_devices", planned)


@pytest.mark.parametrize("command", REPORTS)
def test_a_report_that_is_asked_for_again_is_the_same_and_plans_nothing(
    command: str, models: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(command.split()) == 0
    first = capsys.readouterr().out
    forbid(monkeypatch)
    assert status(command.split()) == 0
    assert capsys.readouterr().out == first != ""


AFTER = (
    "circuit plan A --hardware h200",
    "circuit memory A --hardware h200",
    "circuit precision A --hardware h200",
    "circuit lkb A --hardware h200",
    "circuit venn A B --hardware h200",
    "circuit diff --plans A B --class hopper",
    "circuit display B --hardware h200",
)


@pytest.mark.parametrize(("before", "command"), [(b, c) for b in ("display", "lkb") for c in AFTER if b not in c])
def test_a_model_that_one_report_had_compiled_is_not_compiled_for_another(
    before: str, command: str, models: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = status(command.split())
    anew = capsys.readouterr().out
    shutil.rmtree(models / "cache")
    for model in ("A", "B"):
        assert status(f"circuit {before} {model} --class hopper".split()) == 0
    capsys.readouterr()

    def compiled(*_: object, **__: object) -> object:
        raise AssertionError("it is compiled again")

    monkeypatch.setattr("circuit.pipeline.compiled", compiled)
    assert status(command.split()) == code
    assert capsys.readouterr().out == anew != ""


COMPILER = (
    "circuit.pipeline",
    "circuit.front.blocks",
    "circuit.lower.match",
    "circuit.lower.realize",
    "circuit.tir.bind",
)


@pytest.mark.parametrize("command", [each for each in AFTER if "lkb" not in each])  # which plans the model once more
def test_a_report_on_a_model_that_is_kept_imports_no_compiler(command: str, models: Path) -> None:
    for model in ("A", "B"):
        assert status(f"circuit lkb {model} --class hopper".split()) == 0
    asked = (
        f"import sys; from cli.main import status; status({command.split()!r}); print(*sys.modules, file=sys.stderr)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", asked], env=settings(models), cwd=models, capture_output=True, text=True
    )
    assert ran.stdout
    assert all(map(find_spec, COMPILER)), "these are modules still"
    assert sorted(set(COMPILER) & set(ran.stderr.split())) == []


@pytest.mark.parametrize(
    "command",
    [
        "circuit diff --plans A B",
        "circuit diff --plans A --hardware h200,b200 --json",
        "circuit diff --plans A --library own,other",
        "circuit trace A trace.json --class hopper",
    ],
)
def test_a_comparison_that_is_asked_for_again_is_the_same_and_ends_the_same(
    command: str, models: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    chrome_trace(models / "trace.json", ["embed", "other"])
    for folder in ("kernels", "recipes"):
        shutil.copytree(ROOT / folder, models / "other" / folder)
    text = models / "other" / "recipes" / "default.toml"
    text.write_text(text.read_text("utf-8").replace('kv = "f32"', 'kv = "bf16"'), "utf-8")
    code = status(command.split())
    first = capsys.readouterr().out
    forbid(monkeypatch)
    assert status(command.split()) == code == 1
    assert capsys.readouterr().out == first != ""


def test_another_trace_and_another_library_have_their_own_answers(
    models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = []
    for names in (["embed"], ["embed", "other"]):
        chrome_trace(models / "trace.json", names)
        status("circuit trace A trace.json --class hopper".split())
        seen.append(capsys.readouterr().out)
    for folder in ("kernels", "recipes"):
        shutil.copytree(ROOT / folder, models / "other" / folder)
    assert status("circuit diff --plans A --library own,other".split()) == 0
    seen.append(capsys.readouterr().out)
    text = models / "other" / "recipes" / "default.toml"
    text.write_text(text.read_text("utf-8").replace('kv = "f32"', 'kv = "bf16"'), "utf-8")
    assert status("circuit diff --plans A --library own,other".split()) == 1
    seen.append(capsys.readouterr().out)
    assert len(set(seen)) == 4


def test_a_page_and_a_picture_are_the_same_again(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = "circuit display A --html a.html --svg a.svg".split()
    files = (models / "a.html", models / "a.svg")
    assert status(command) == 0
    first = [file.read_bytes() for file in files]
    for file in files:
        file.unlink()
    forbid(monkeypatch)
    assert status(command) == 0
    assert [file.read_bytes() for file in files] == first


@pytest.mark.parametrize(
    "other",
    [
        "circuit display A --hardware l4",
        "circuit display A --hardware h200 --mode prefill",
        "circuit display A --hardware h200 --width 100",
        "circuit display A --hardware h200 --reserved 100000000000",
        "circuit display A --hardware h200 --policy kv=bf16",
        "circuit display A --hardware h200 --rules reference",
        "circuit display B --hardware h200",
    ],
)
def test_another_question_has_its_own_answer(other: str, models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status("circuit display A --hardware h200".split()) == 0
    first = capsys.readouterr().out
    assert status(other.split()) == 0
    second = capsys.readouterr().out
    assert second != first
    assert met(*other.split(), home=models, XDG_CACHE_HOME=str(models / "another cache")).out == second


def test_a_byte_of_the_config_changes_the_answer(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status(["circuit", "map", "A"]) == 0
    first = capsys.readouterr().out
    write_config(models / "A", tiny_config("llama", rope_theta=2e4))
    assert status(["circuit", "map", "A"]) == 0
    assert capsys.readouterr().out != first


def test_what_was_refused_by_policy_is_refused_again(
    models: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from circuit.errors import Problem

    monkeypatch.setattr("circuit.report.audit.violations", lambda found: (Problem(message="no", fix="yes"),))
    command = "circuit audit A --hardware h200".split()
    assert status(command) == 3
    first = capsys.readouterr()
    forbid(monkeypatch)
    assert status(command) == 3
    assert capsys.readouterr() == first
    assert first.err == "error: no\n  = fix: yes\n"


def test_asking_again_imports_neither_the_compiler_nor_what_checks_arguments(models: Path) -> None:
    command = "circuit display A --hardware h200 --policy kv=bf16 --mode decode".split()
    met(*command, home=models)
    ran = met(*command, home=models, PYTHONPROFILEIMPORTTIME="1")
    imported = {line.rpartition("|")[2].strip() for line in ran.err.splitlines() if line.startswith("import time:")}
    assert "circuit_exec.answers" in imported
    assert imported & {"pydantic", "numpy", "circuit.pipeline", "circuit.uop.node", "pickle"} == set()
