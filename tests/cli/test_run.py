"""`met run`: text on stdout, figures on stderr, and what refuses to run."""

import fcntl
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time

import pytest

from tests.cli.conftest import Home
from tests.cli.harness import ENTRY, leftovers, refused, settings, unfinished

FIGURES = re.compile(
    r"prefill \d+ tokens, [\d.]+ tok/s; decode \d+ tokens, [\d.]+ tok/s; first token after [\d.]+ s; "
    r"(-n reached|end of text); \d+ threads?\n"
)


def test_the_answer_goes_to_stdout_and_one_line_of_figures_to_stderr(home: Home) -> None:
    ran = home.met("run", "model", "the cat", "-n", "12")
    assert ran.code == 0, ran.err
    assert len(ran.out) > 1
    assert ran.out.endswith("\n")
    assert FIGURES.fullmatch(ran.err), ran.err


def test_the_same_command_gives_the_same_text_with_other_threads_chunks_and_rules(home: Home) -> None:
    first = home.met("run", "model", "on the mat", "-n", "24")
    again = home.met("run", "model", "on the mat", "-n", "24", "--threads", "1", "--chunk", "3")
    assert first.code == again.code == 0, again.err
    assert first.out == again.out


def test_the_same_seed_draws_the_same_text_and_another_seed_another(home: Home) -> None:
    def text(seed: str) -> str:
        arguments = ("the cat", "-n", "24", "--no-chat", "--temperature", "1.5", "--top-p", "0.9", "--seed", seed)
        return home.met("run", "model", *arguments).out

    assert text("7") == text("7") != text("8")


def test_no_chat_continues_the_prompt_and_chat_wraps_it(home: Home) -> None:
    chat = home.met("run", "model", "the cat", "-n", "4")
    plain = home.met("run", "model", "the cat", "-n", "4", "--no-chat")
    assert "prefill 5 tokens" not in chat.err
    assert re.match(r"prefill [3-6] tokens", plain.err), plain.err


def test_a_prompt_longer_than_the_context_is_refused(home: Home) -> None:
    refused(
        home.met("run", "model", "x" * 1100, "--no-chat", "-n", "1"),
        message="the prompt has 1100 tokens, the context is 1024",
        fix="shorten the prompt to 1024 tokens or fewer",
    )


def test_more_tokens_than_the_context_has_room_for_are_refused(home: Home) -> None:
    refused(
        home.met("run", "model", "x" * 1000, "--no-chat", "-n", "26"),
        message="the prompt has 1000 tokens and 26 more are asked for, the context is 1024",
        fix="shorten the prompt, or ask for 25 tokens or fewer with -n",
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--temperature", "-1"], "the temperature is -1.0"),
        (["--top-p", "0"], "top-p is 0.0"),
        (["--seed", "-1"], "the seed is -1"),
        (["-n", "0"], "0 tokens are asked for"),
        (["--chunk", "0"], "the chunk is 0 rows, a prefill step has 1 to 512"),
        (["--threads", "0"], "0 threads are asked for"),
        (["--policy", "parity"], "policy `parity` is not KEY=VALUE"),
        (["--policy", "kv=q4_0"], "policy kv has no value `q4_0`"),
    ],
)
def test_a_wrong_option_is_refused(home: Home, arguments: list[str], message: str) -> None:
    refused(home.met("run", "model", "the cat", *arguments), message=message)


def test_without_a_c_compiler_the_fix_says_how_to_get_one(home: Home) -> None:
    ran = home.met("run", "model", "the cat", PATH="", **home.new_cache("no-compiler"))
    refused(
        ran,
        message="no C compiler: none of cc, gcc, clang is on PATH, and the package ziglang is not installed",
        fix="install one, for example with `apt install gcc`, `xcode-select --install` or `pip install ziglang`",
    )
    assert unfinished(home.folder / "no-compiler") == []


def test_a_cache_that_cannot_be_written_is_refused(home: Home) -> None:
    (home.folder / "a-file").write_text("in the way", encoding="utf-8")
    refused(
        home.met("run", "model", "the cat", **home.new_cache("a-file")),
        message="the cache cannot be written: not a directory",
        at=str(home.folder / "a-file" / "met" / "programs"),
        fix="make the folder writable, or set XDG_CACHE_HOME to one that is",
    )
    assert (home.folder / "a-file").read_text(encoding="utf-8") == "in the way"


def test_a_full_cache_is_refused_and_nothing_half_written_stays(home: Home) -> None:
    command = ["bash", "-c", 'ulimit -f 16; exec "$@"', "_", sys.executable, "-c", ENTRY, "run", "model", "the cat"]
    environment = settings(home.folder) | home.new_cache("full")
    ran = subprocess.run(
        command, cwd=home.folder, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert ran.returncode == 2, ran.stderr
    assert ran.stderr.splitlines()[0] == "error: the cache is full: file too large"
    assert "  = fix: free space there, or delete the folder (it is made again)" in ran.stderr.splitlines()
    assert unfinished(home.folder / "full") == []


def test_a_damaged_cache_is_made_again_with_the_same_text(home: Home) -> None:
    first = home.met("run", "model", "the cat", "-n", "8")
    cache = home.folder / "damaged" / "met"
    shutil.copytree(home.folder / "cache" / "met", cache, ignore=shutil.ignore_patterns("*.tmp"))  # others write it too
    damaged = [name for name in leftovers(cache) if name.endswith((".so", ".bin", ".json"))]
    damaged += [name for name in leftovers(cache) if name.startswith("weights/")]
    assert {"planned", "programs", "weights"} <= {name.partition("/")[0] for name in damaged}, leftovers(cache)
    for name in damaged:
        path = cache / name
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 0xFF
        path.write_bytes(data)
    again = home.met("run", "model", "the cat", "-n", "8", **home.new_cache("damaged"))
    assert (again.code, again.out) == (0, first.out), again.err
    assert "note: " in again.err
    assert "Traceback" not in again.err


def test_ctrl_c_ends_with_130_and_a_message(home: Home) -> None:
    """The program waits in the middle of its answer, since the pipe that it writes to is all but full."""
    command = [sys.executable, "-c", ENTRY, "run", "model", "the cat", "--no-chat", "-n", "1000"]
    read, write = os.pipe()
    room = fcntl.fcntl(write, fcntl.F_GETPIPE_SZ)
    os.write(write, bytes(room - 16))
    ran = subprocess.Popen(
        command,
        cwd=home.folder,
        env=settings(home.folder),
        stdout=write,
        stderr=subprocess.PIPE,
        bufsize=0,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    )
    os.close(write)
    while struct.unpack("i", fcntl.ioctl(read, termios.FIONREAD, bytes(4)))[0] < room:
        assert ran.poll() is None, "it ended before its answer did"
        time.sleep(0.01)
    ran.send_signal(signal.SIGINT)
    while os.read(read, room):
        pass
    os.close(read)
    _, err = ran.communicate(timeout=60)
    assert ran.returncode == 130, err
    assert err.decode() == "interrupted: nothing half-written was kept\n"
