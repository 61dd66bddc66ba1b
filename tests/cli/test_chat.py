"""`met chat`: turns, a stop, a new beginning, and refusals that end nothing."""

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from circuit_exec.cache import Cache
from tests.cli.harness import ENTRY, settings
from tests.models import tiny_config, write_checkpoint


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, share: Callable[[Cache], Cache]) -> Path:
    """Where `model` is."""
    home = tmp_path_factory.mktemp("chat")
    share(Cache(root=home / "cache" / "met"))
    write_checkpoint(home / "model", tiny_config("llama"))
    return home


def talk(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", ENTRY, "chat", "model", "--threads", "1", *arguments],
        cwd=folder,
        env=settings(folder),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
    )


def said(folder: Path, lines: list[str], *arguments: str) -> tuple[str, str]:
    """What a conversation leaves on stdout and stderr."""
    chat = talk(folder, *arguments)
    out, err = chat.communicate("".join(line + "\n" for line in lines), timeout=120)
    assert chat.returncode == 0, err
    return out, err


def test_turns_are_remembered_until_the_chat_is_cleared(folder: Path) -> None:
    bias = ("-n", "6", "--temperature", "0.5", "--seed", "3")
    once, _ = said(folder, ["the cat"], *bias)
    again, err = said(folder, ["the cat", "/clear", "the cat", "/exit", "never"], *bias)
    assert again == once + once
    assert err == ""
    more, _ = said(folder, ["the cat", "the cat"], *bias)
    assert more.startswith(once)
    assert more != again


def test_instructions_change_the_answer(folder: Path) -> None:
    plain, _ = said(folder, ["the cat"], "-n", "6")
    other, _ = said(folder, ["the cat"], "-n", "6", "--system", "on the mat")
    assert plain != other


def test_a_refusal_says_why_and_the_chat_goes_on(folder: Path) -> None:
    out, err = said(folder, ["x" * 1100, "the cat"], "-n", "4")
    assert err == (
        "error: the prompt has 1117 tokens, the context is 1024\n  = fix: shorten it to 1024 tokens or fewer\n"
    )
    assert out == said(folder, ["the cat"], "-n", "4")[0]


def test_a_wrong_option_is_refused_at_the_first_turn(folder: Path) -> None:
    _, err = said(folder, ["the cat"], "--temperature", "3")
    assert err.startswith("error: `temperature`: input should be less than or equal to 2\n")


def test_ctrl_c_stops_an_answer_and_not_the_chat(folder: Path) -> None:
    chat = talk(folder, "--temperature", "1", "--seed", "1")
    assert chat.stdin is not None
    assert chat.stdout is not None
    chat.stdin.write("the cat\n")
    chat.stdin.flush()
    chat.stdout.read(1)
    chat.send_signal(signal.SIGINT)
    out, err = chat.communicate("on the mat\n/exit\n", timeout=120)
    assert chat.returncode == 0, err
    assert "Traceback" not in err
    assert len(out) > 1
