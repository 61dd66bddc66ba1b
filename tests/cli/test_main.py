"""What holds for every command: help, version, usage errors, and what becomes of an error that nobody foresaw."""

import re
from pathlib import Path
from typing import NoReturn

import pytest

from circuit.errors import PolicyError, Problem
from cli.main import status
from tests.cli.harness import met, refused
from tests.models import tiny_config, write_config

COMMANDS = (["fetch"], ["run"], ["logits"], ["bench"], ["circuit", "map"], ["circuit", "show"])


@pytest.mark.parametrize("command", [[], *COMMANDS], ids=" ".join)
def test_every_help_has_examples_that_begin_with_met(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert status([*command, "--help"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"Examples:\n\n(?:    .*\n)*    met " + " ".join(command), out), out


def test_help_imports_nothing_that_is_slow(tmp_path: Path) -> None:
    heavy = ("numpy", "pydantic", "tokenizers", "jinja2", "rich", "circuit.pipeline", "circuit_exec")
    ran = met("--help", home=tmp_path, PYTHONPROFILEIMPORTTIME="1")
    imported = {line.rpartition("|")[2].strip() for line in ran.err.splitlines() if line.startswith("import time:")}
    assert "typer" in imported
    assert [name for name in heavy if name in imported] == []


def test_the_version_is_printed(tmp_path: Path) -> None:
    assert re.fullmatch(r"met \d+\.\d+\.\d+\n", met("--version", home=tmp_path).out)


@pytest.mark.parametrize(
    ("arguments", "message", "fix"),
    [
        (["frob"], "no such command 'frob'", "see `met --help`"),
        (["run"], "missing argument 'MODEL'", "see `met run --help`"),
        (["circuit", "show"], "missing argument 'MODEL'", "see `met circuit show --help`"),
    ],
)
def test_a_command_line_that_does_not_parse_ends_with_2(
    arguments: list[str], message: str, fix: str, tmp_path: Path
) -> None:
    refused(met(*arguments, home=tmp_path), message=message, fix=fix)


def test_no_command_at_all_prints_the_help_and_ends_with_2(tmp_path: Path) -> None:
    ran = met(home=tmp_path)
    assert ran.code == 2
    assert ran.err.startswith("Usage: met ")


def test_an_unknown_model_to_fetch_lists_the_known_ones(tmp_path: Path) -> None:
    refused(
        met("fetch", "nothing", home=tmp_path),
        message="no model is known by the name nothing; known: smollm2",
        fix="give one of the known names",
    )


def failing(error: BaseException) -> object:
    def fail(*_: object) -> NoReturn:
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (ValueError("seven"), 70, "error: this is a bug in met, not in what you gave it\n  = fix: report it"),
        (PolicyError(Problem(message="no", fix="yes")), 3, "error: no\n  = fix: yes\n"),
        (KeyboardInterrupt(), 130, "interrupted: nothing half-written was kept\n"),
    ],
    ids=["a bug", "a policy", "an interrupt"],
)
def test_each_kind_of_error_has_its_exit_code_and_message(
    error: BaseException,
    code: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = write_config(tmp_path, tiny_config("llama"))
    monkeypatch.setattr("circuit_exec.library.library", failing(error))
    assert status(["circuit", "map", str(config)]) == code
    err = capsys.readouterr().err
    assert said in err
    assert ("Traceback" in err) == (code == 70)
