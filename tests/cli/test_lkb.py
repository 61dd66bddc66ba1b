"""`met circuit lkb` through the console entry: forms and refusals."""

import json
from pathlib import Path

import pytest

from cli.main import status
from tests.models import tiny_config, write_config
from tests.report.test_planner import conforms


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    write_config(tmp_path, tiny_config("llama"))
    monkeypatch.chdir(tmp_path)
    return "config.json"


def test_the_report_is_text_of_80_columns_markdown_or_json_of_its_schema(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*more: str) -> str:
        assert status(["circuit", "lkb", model, "--hardware", "epyc_9654", *more]) == 0
        return capsys.readouterr().out

    assert max(map(len, run().splitlines())) <= 80
    assert run("--markdown").startswith("## kernel base of llama (dense_gqa) on AMD EPYC 9654")
    schema = json.loads(run("--schema"))
    assert schema["title"] == "met circuit lkb"
    assert conforms(json.loads(run("--json")), schema) == []


def test_a_setting_is_of_the_fused_plans_alone(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status(["circuit", "lkb", model, "--policy", "fuse.rope+kv_write=off", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert "rope+kv_write" not in {each["rule"] for each in found["laxity"]}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere",), "there is no such file, directory or fetched model: nowhere"),
        (("other",), '`model_type` is "mamba", which has no circuit'),
        (("config.json", "--hardware", "h9000"), "there is no device `h9000`"),
        (("config.json", "--class", "z80"), "there is no hardware class `z80`"),
        (
            ("config.json", "--class", "cpu", "--hardware", "h200"),
            "--class cpu and --hardware h200 are given, and a device has a class",
        ),
        (
            ("config.json", "--schema", "--json"),
            "--json, --markdown and --schema are three forms of one report",
        ),
    ],
)
def test_what_has_no_report_is_refused(
    model: str, arguments: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other").mkdir()
    write_config(tmp_path / "other", tiny_config("llama") | {"model_type": "mamba"})
    assert status(["circuit", "lkb", *arguments]) == 2
    found = capsys.readouterr()
    assert found.out == ""
    assert found.err.startswith(f"error: {message}\n"), found.err
