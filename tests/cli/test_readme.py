"""The README says what is true: its commands parse, and the hash that it invites everybody to compare is the hash."""

import re
import shlex
from pathlib import Path

import pytest

from cli.main import status
from tests.cli.harness import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^ *\$ met (.*)$", README, re.MULTILINE)


def test_the_readme_is_short_and_opens_with_the_two_commands() -> None:
    assert README.startswith("# met\n\n    make run ")
    assert README.splitlines()[3].startswith("    make test ")
    assert README.count("\n") < 150


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_the_readme_parses(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With --help at its end a command is parsed up to there, and an option that does not exist is an error."""
    words = shlex.split(command)
    assert status([*words, "--help"]) == 0, capsys.readouterr().err


def test_the_recipe_that_the_readme_verifies_records_what_it_shows() -> None:
    found = re.search(r"\$ met recipe verify (\S+) .*\n((?:.*\n)*?)verified\n", README)
    assert found is not None
    recorded = (ROOT / found[1]).read_text(encoding="utf-8")
    hashes = re.findall(r"[0-9a-f]{64}", found[2])
    assert len(hashes) == 2
    assert [each for each in hashes if f'"{each}"' not in recorded] == []


@pytest.mark.slow
def test_the_hash_in_the_readme_is_the_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ids.txt").write_text("1 2 3 4 5 6 7 8\n", encoding="utf-8")
    found = re.search(r"\$ met (logits .*)\n *([0-9a-f]{64}  .*)\n", README)
    assert found is not None
    assert status(shlex.split(found[1])) == 0
    assert capsys.readouterr().out == found[2] + "\n"
