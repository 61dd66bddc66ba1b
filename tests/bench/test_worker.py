"""Workers wait for their turn; one that ends says why. met's own is run for real, on a tiny model."""

import sys
from pathlib import Path

import pytest

from bench.contestants import Contestant, contestants
from bench.errors import BenchError
from bench.run import main, order
from bench.worker import Worker
from tests.models import tiny_config, write_gguf

ECHO = "import sys; print('ready to go', flush=True)\nfor n, _ in enumerate(sys.stdin): print(n + 0.5, flush=True)"


def test_a_worker_does_its_work_once_a_line() -> None:
    worker = Worker("echo", [sys.executable, "-c", ECHO])
    assert worker.info == "to go"
    assert [worker.seconds() for _ in range(3)] == [0.5, 1.5, 2.5]
    worker.close()
    worker.close()


def test_a_worker_that_cannot_start_says_why() -> None:
    with pytest.raises(BenchError) as caught:
        Worker("broken", [sys.executable, "-c", "import sys; sys.exit('no memory')"])
    assert str(caught.value) == "error: broken ended with code 1:\nno memory\n  = fix: see its message above"


def test_a_worker_that_crashes_is_named_with_its_signal() -> None:
    with pytest.raises(BenchError) as caught:
        Worker("llama.cpp native int8", [sys.executable, "-c", "import os; os.kill(os.getpid(), 11)"])
    assert str(caught.value) == (
        "error: llama.cpp native int8 was ended by SIGSEGV\n"
        "  = fix: leave out what crashes, such as a build by --isas, or see why by a debugger"
    )


def test_a_worker_that_ends_in_a_round_says_so() -> None:
    worker = Worker("short", [sys.executable, "-c", "print('ready', flush=True); input()"])
    with pytest.raises(BenchError, match="short ended with code 0"):
        worker.seconds()
    worker.close()


def test_met_does_a_named_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    model = write_gguf(tmp_path / "a.gguf", tiny_config("llama"))
    worker = Worker("met", [sys.executable, "-m", "bench.met_worker", str(model), "1", "avx2", "decode_8", "2"])
    assert 0 < worker.seconds() < 60
    worker.close()


def test_each_round_begins_with_the_next_contestant() -> None:
    assert [order(3, round) for round in range(4)] == [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2]]


def test_who_takes_part() -> None:
    both = ("avx2", "native")
    found = contestants("Q4_0", "decode_8", both, ("f32", "int8"))
    assert [each.name for each in found] == [
        "met avx2 f32",
        "met avx2 int8",
        "met native f32",
        "met native int8",
        "llama.cpp avx2 int8",
        "llama.cpp native int8",
    ]
    assert contestants("BF16", "decode_1", both[1:], ("f32", "int8")) == (
        Contestant(engine="met", isa="native", activations="f32"),
        Contestant(engine="llama.cpp", isa="native", activations="bf16"),
        Contestant(engine="torch", isa="native", activations="bf16"),
    )


def test_an_unknown_format_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--formats", "F32,Q9_9"])
    assert caught.value.code == 2
    assert "Q9_9: not one of F32, F16, BF16, Q8_0, Q4_1, Q4_0" in capsys.readouterr().err
