"""`met circuit venn` through the console entry: forms, refusals."""

import json
from pathlib import Path

import pytest

from cli.main import status
from tests.models import tiny_config, write_config
from tests.report.test_planner import conforms


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """Two models in the working folder."""
    for name in ("llama", "qwen3"):
        (tmp_path / name).mkdir()
        write_config(tmp_path / name, tiny_config(name))
    monkeypatch.chdir(tmp_path)
    return "llama", "qwen3/config.json"


def test_the_report_is_text_of_80_columns_markdown_or_json_of_its_schema(
    models: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*more: str) -> str:
        assert status(["circuit", "venn", *models, "--hardware", "h200", *more]) == 0
        return capsys.readouterr().out

    text = run()
    assert max(map(len, text.splitlines())) <= 80
    assert "novel in rms_norm_rope_96: rms_norm (l{i}.attn.q_norm)" in text
    assert run("--markdown").startswith("## ")
    schema = json.loads(run("--schema"))
    assert schema["title"] == "met circuit venn"
    found = json.loads(run("--json"))
    assert conforms(found, schema) == []
    assert str(models[1]) not in json.dumps(found)


def test_without_a_device_the_class_is_that_of_class(
    models: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(["circuit", "venn", *models, "--class", "avx2", "--rules", "reference"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("kernels of A beside those of B, on class avx2\n")
    assert "shares: give --hardware" in text
    assert "rms_norm (l{i}" not in text  # single ops: a norm of heads is a norm at another number of heads


@pytest.mark.parametrize(
    ("arguments", "message", "fix"),
    [
        (["llama"], "venn is given 1 model", "give A and at least one other, at most 8 in all"),
        (["llama"] * 9, "venn is given 9 models", "give A and at least one other, at most 8 in all"),
        (
            ["llama", "llama", "--class", "cpu", "--hardware", "h200"],
            "--class cpu and --hardware h200 are given, and a device has a class",
            "leave out --class",
        ),
        (["llama", "nowhere"], "there is no such file, directory or fetched model: nowhere", None),
        (["llama", "llama", "--hardware", "h9000"], "there is no device `h9000`", None),
        (["llama", "llama", "--class", "z80"], "there is no hardware class `z80`", None),
        (["llama", "other"], '`model_type` is "mamba", which has no circuit', None),
        (["llama", "llama", "--others-policy", "kv=f64"], "policy kv has no value `f64`", None),
        (
            ["llama", "llama", "--json", "--markdown"],
            "--json, --markdown and --schema are three forms of one report",
            "give one of them",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused(
    models: tuple[str, str],
    arguments: list[str],
    message: str,
    fix: str | None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "other").mkdir()
    write_config(tmp_path / "other", tiny_config("llama") | {"model_type": "mamba"})
    assert status(["circuit", "venn", *arguments]) == 2
    found = capsys.readouterr()
    assert found.out == ""
    assert found.err.startswith(f"error: {message}\n"), found.err
    if fix is not None:
        assert f"  = fix: {fix}\n" in found.err
