"""`met circuit trace` through the console entry: exit codes, forms, plans of a model and of a file, refusals."""

import contextlib
import io
import json
from pathlib import Path

import pytest

from cli.main import status
from tests.models import tiny_config, write_config
from tests.report.test_planner import conforms
from tests.trace.files import chrome_trace, nsight_export


@pytest.fixture(scope="module")
def plan_text(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What `met circuit show --json` prints for the model of `folder`."""
    home = tmp_path_factory.mktemp("plan")
    write_config(home, tiny_config("llama"))
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert status(["circuit", "show", str(home / "config.json"), "--class", "hopper", "--rows", "1", "--json"]) == 0
    return out.getvalue()


@pytest.fixture
def folder(plan_text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder: a model, its plan, a trace of one step of it, and the same step as an export, less one."""
    monkeypatch.chdir(tmp_path)
    write_config(tmp_path, tiny_config("llama"))
    (tmp_path / "plan.json").write_text(plan_text)
    plan = json.loads(plan_text)
    names = [plan["kernels"][each["kernel"]]["name"] for each in plan["launches"] if each["section"] == "main"]
    chrome_trace(tmp_path / "trace.json", names)
    nsight_export(tmp_path / "report.sqlite", names[:-1])
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_a_trace_as_planned_ends_with_0_and_another_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert status(["circuit", "trace", "config.json", "trace.json", "--hardware", "h200"]) == 0
    found = capsys.readouterr().out
    assert found.startswith("the trace is as planned: dense_gqa on class hopper\n")
    assert "Chrome trace: 16 launches in 1 steps" in found
    for plan in (("config.json", "report.sqlite", "--class", "hopper"), ("plan.json", "report.sqlite")):
        assert status(["circuit", "trace", *plan]) == 1
        found = capsys.readouterr().out
        assert found.startswith("the trace is not as planned: dense_gqa on class hopper\n")
        assert "head.select+norm+logits" in found
        assert max(map(len, found.splitlines())) <= 80
    assert status(["circuit", "trace", "plan.json", "trace.json"]) == 0


@pytest.mark.usefixtures("folder")
def test_it_is_markdown_or_json_of_its_schema(capsys: pytest.CaptureFixture[str]) -> None:
    def run(*more: str) -> str:
        status(["circuit", "trace", "plan.json", "report.sqlite", *more])
        return capsys.readouterr().out

    assert run("--markdown").startswith("## the trace is not as planned")
    schema = json.loads(run("--schema"))
    assert schema["title"] == "met circuit trace"
    assert conforms(json.loads(run("--json")), schema) == []
    assert run("--json") == run("--json")


@pytest.mark.parametrize(
    ("arguments", "message", "fix"),
    [
        (("config.json", "none.json"), "the trace cannot be read: no such file or directory", None),
        (("nowhere", "trace.json"), "there is no such file, directory or fetched model: nowhere", None),
        (("other", "trace.json"), '`model_type` is "mamba", which has no circuit', None),
        (("config.json", "trace.json", "--hardware", "h9000"), "there is no device `h9000`", None),
        (("config.json", "trace.json", "--class", "z80"), "there is no hardware class `z80`", None),
        (
            ("plan.json", "trace.json", "--class", "cpu"),
            "--class is for a model, and the plans of a file are made",
            "leave out --class",
        ),
        (("cut.json", "trace.json"), "a JSON string is expected here\n --> cut.json:", None),
        (
            ("wrong.json", "trace.json"),
            "launch 2 is of kernel 99, the plan has ",
            "write the file with `met circuit show --json`",
        ),
        (("keys.json", "trace.json"), "unknown key `colour`", "remove or rename `colour`"),
        (
            ("config.json", "trace.json", "--json", "--schema"),
            "--json, --markdown and --schema are three forms of one report",
            "give one of them",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused(
    folder: Path,
    plan_text: str,
    arguments: tuple[str, ...],
    message: str,
    fix: str | None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (folder / "other").mkdir()
    write_config(folder / "other", tiny_config("llama") | {"model_type": "mamba"})
    (folder / "cut.json").write_text(plan_text[:-40])
    plan = json.loads(plan_text)
    (folder / "keys.json").write_text(json.dumps(plan | {"colour": 1}, indent=1))
    plan["launches"][2]["kernel"] = 99
    (folder / "wrong.json").write_text(json.dumps(plan, indent=1))
    assert status(["circuit", "trace", *arguments]) == 2
    found = capsys.readouterr()
    assert found.out == ""
    assert found.err.startswith(f"error: {message}"), found.err
    assert fix is None or f"  = fix: {fix}\n" in found.err
