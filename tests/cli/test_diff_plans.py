"""`met circuit diff --plans` through the console entry: exit codes, forms, refusals."""

import json
import re
import shutil
from pathlib import Path

import pytest

from cli.main import status
from tests.cli.harness import ROOT
from tests.models import tiny_config, write_config
from tests.report.test_planner import conforms


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two models in the working folder."""
    for name in ("llama", "qwen3"):
        (tmp_path / name).mkdir()
        write_config(tmp_path / name, tiny_config(name))
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> int:
    return status(["circuit", "diff", "--plans", *arguments])


@pytest.mark.usefixtures("models")
def test_it_ends_with_0_where_plans_are_equal_and_with_1_where_they_differ(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("llama", "llama/config.json") == 0
    assert capsys.readouterr().out.startswith("the plans are equal\n")
    assert run("llama", "--policy", "default,kv=bf16", "--class", "avx2") == 1
    found = capsys.readouterr()
    assert found.out.startswith("the plans differ\n")
    assert found.err == ""
    assert max(map(len, found.out.splitlines())) <= 80


@pytest.mark.usefixtures("models")
def test_it_is_markdown_or_json_of_its_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("llama", "qwen3", "--markdown", "--hardware", "h200,l4") == 1
    assert capsys.readouterr().out.startswith("## the plans differ\n")
    assert run("llama", "qwen3", "--json", "--rules", "reference,all") == 1
    found = json.loads(capsys.readouterr().out)
    assert run("llama", "--schema") == 0
    schema = json.loads(capsys.readouterr().out)
    assert schema["title"] == "met circuit diff --plans"
    assert conforms(found, schema) == []
    assert [side["rules"] for side in found["sides"]] == ["reference", "all"]


@pytest.mark.usefixtures("models")
@pytest.mark.parametrize(
    ("arguments", "message", "fix"),
    [
        (
            ("--plans", "llama"),
            "both sides of --plans are the same",
            "give two models, or A,B to one of --rules, --policy, --class, --hardware and --library",
        ),
        (
            ("--plans", "llama", "qwen3", "llama"),
            "--plans compares two sides, and MODEL has 3 entries",
            "give MODEL one entry for both sides, or one for each",
        ),
        (
            ("--plans", "llama", "--class", "cpu,avx2,neon"),
            "--plans compares two sides, and --class has 3 entries",
            "give --class one entry for both sides, or one for each",
        ),
        (
            ("--plans", "llama", "qwen3", "--threads", "1,2"),
            "--threads runs the model, and --plans does not",
            "leave out --threads or --plans",
        ),
        (("llama", "--hardware", "h200"), "--hardware is for --plans", "leave out --hardware"),
        (("llama", "--library", "own"), "--library is for --plans", "leave out --library"),
        (
            ("--plans", "llama", "--library", "own,qwen3"),
            "the folder holds no kernels\n --> qwen3",
            "give a folder that holds kernels/ and recipes/, as a checkout of met does",
        ),
        (("llama", "--schema"), "--schema is for --plans", "leave out --schema"),
        (
            ("llama", "qwen3"),
            "diff runs one model, and 2 are given",
            "give one, or --plans to compare plans",
        ),
        (("--plans", "llama", "--rules", "all,some"), "--rules has `some`, which is no rule set", None),
        (("--plans", "llama", "--hardware", "h200,h9000"), "there is no device `h9000`", None),
        (("--plans", "llama", "--class", "cpu,z80"), "there is no hardware class `z80`", None),
        (
            ("--plans", "llama", "qwen3", "--class", "cpu", "--hardware", "h200"),
            "--class cpu and --hardware h200 are given, and a device has a class",
            None,
        ),
        (("--plans", "llama", "nowhere"), "there is no such file, directory or fetched model: nowhere", None),
    ],
)
def test_what_cannot_be_compared_is_refused(
    arguments: tuple[str, ...], message: str, fix: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(["circuit", "diff", *arguments]) == 2
    found = capsys.readouterr()
    assert found.out == ""
    assert found.err.startswith(f"error: {message}\n"), found.err
    assert fix is None or f"  = fix: {fix}\n" in found.err


@pytest.mark.usefixtures("models")
def test_two_versions_of_the_library_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other"
    (other / "recipes").mkdir(parents=True)
    shutil.copytree(ROOT / "kernels", other / "kernels")
    shutil.copy(ROOT / "recipes" / "default.toml", other / "recipes")
    assert run("llama", "--library", "own,other") == 0
    capsys.readouterr()
    rules = other / "kernels" / "cpu" / "common" / "FUSIONS.toml"
    text = rules.read_text()
    assert text.count('id = "rope"\n') == 1
    rules.write_text("\n# one line more\n" + text.replace('id = "rope"\n', 'id = "rope_turned"\n'))
    assert run("llama", "--library", "own,other", "--json") == 1
    found = json.loads(capsys.readouterr().out)
    assert [part["name"] for part in found["parts"] if part["different"]] == ["rules"]
    changed = {reason["what"]: (reason["own"], reason["other"]) for reason in found["reasons"]}
    assert set(changed) == {"rule rope", "rule rope_turned"}  # the line that the others moved to is no difference
    assert re.fullmatch(r"cpu:[0-9]+ [0-9a-f]{8}", changed["rule rope"][0])
    (recipe,) = (other / "recipes").iterdir()
    recipe.unlink()
    assert run("llama", "--library", "own,other") == 2
    assert "error: the folder holds no recipes/default.toml\n --> other\n" in capsys.readouterr().err
