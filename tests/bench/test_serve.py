"""The load comparison: its client on met's own server, its figures by hand, and what it refuses."""

import json
import socket
import sys
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import serve, servers
from bench.errors import BenchError
from bench.results import Setting
from bench.serve_client import LENGTHS, LOG, Answer, Events, load, prompts
from bench.serve_results import Figures, Round, figures, p95, read, rows, table, write
from bench.servers import Server, llama_command, met_command
from tests.models import tiny_config, write_gguf

SETTING = Setting(machine={"processor": "a"}, versions={"met": "1"}, threads=2)


def done(tok_s: float, gap_p95: float) -> Figures:
    return Figures(
        tok_s=tok_s, first_median=0.5, first_p95=1.0, gap_median=0.01, gap_p95=gap_p95, n_prompt=100, n_made=64
    )


def round_of(met: Figures, llama_cpp: Figures, n_streams: int = 8, activations: str = "f32") -> Round:
    return Round(n_streams=n_streams, activations=activations, date="", met=met, llama_cpp=llama_cpp)


ROUNDS = [
    round_of(done(120.0, 0.1), done(100.0, 0.1)),
    round_of(done(60.0, 0.3), done(40.0, 0.6)),
    round_of(done(110.0, 0.2), done(100.0, 0.1)),
]
"""Both were slow in the second one."""


def test_met_answers_every_request_of_the_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    model = write_gguf(tmp_path / "a.gguf", tiny_config("llama"))
    monkeypatch.setattr(servers, "CONTEXT", 64)
    server = Server("met", met_command(model, 1, 2, "f32"))
    try:
        answers = load(server.port, prompts(0, 5, (1, 2)), 2, 8)
        assert [each.n_made for each in answers] == [8] * 5
        assert all(each.sent < each.came[0] <= each.came[-1] for each in answers)
        with pytest.raises(BenchError) as caught:
            load(server.port, prompts(0, 1, (64,)), 1, 8)
        assert str(caught.value) == f"error: a request was answered with 400\n  = fix: {LOG}"
    finally:
        server.close()
        server.close()


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (
            b"5\r\ndata:",
            "a stream ended in the middle: peer closed connection without sending complete message body "
            "(incomplete chunked read)",
        ),
        (b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n", "an answer has no text or no usage"),
    ],
)
def test_an_answer_that_is_not_whole_is_no_figure(body: bytes, problem: str) -> None:
    def answer(listening: socket.socket) -> None:
        with listening.accept()[0] as client:
            client.recv(2**16)
            client.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body)
            client.shutdown(socket.SHUT_WR)
            while client.recv(2**16):  # what is left unread would reset the connection
                pass

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = Thread(target=answer, args=(listening,))
        thread.start()
        with pytest.raises(BenchError) as caught:
            load(listening.getsockname()[1], ["a"], 1)
        thread.join()
    assert str(caught.value) == f"error: {problem}\n  = fix: {LOG}"


class Paused:
    """A server that counts."""

    port = 0

    def __init__(self, name: str) -> None:
        self.name = name

    def resume(self) -> None:
        """It is asked by nobody."""

    def pause(self) -> None:
        """It is asked by nobody."""


def test_servers_that_count_other_tokens_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = iter((5, 6))

    def answered(port: int, texts: list[str], n_streams: int) -> list[Answer]:
        return [Answer(sent=0.0, came=(1.0, 2.0), n_prompt=next(counts), n_made=2)]

    monkeypatch.setattr(serve, "load", answered)
    with pytest.raises(BenchError) as caught:
        serve.one_round([Paused("met"), Paused("llama.cpp")], 0, 8, "f32")
    assert str(caught.value) == (
        "error: met had 5 tokens and made 2; llama.cpp had 6 tokens and made 2\n"
        "  = fix: give both servers the same file"
    )


def test_both_servers_get_the_same_room_and_no_cache_of_prompts() -> None:
    met = " ".join(met_command(Path("a.gguf"), 2, 8, "int8"))
    llama_cpp = " ".join(llama_command(Path("a.gguf"), 2, 8, 1234))
    assert "--threads 2 --max-num-seqs 8 --context 1024 --no-prefix-cache --policy activations=int8/g32" in met
    assert "-t 2 -tb 2 -np 8 -c 8192 --cont-batching --no-cache-prompt --cache-ram 0" in llama_cpp


@given(st.lists(st.text("ab:", min_size=1), max_size=4), st.integers(1, 9))
def test_events_may_come_in_any_pieces(values: list[str], size: int) -> None:
    sent = b"".join(f"data: {value}\n\n".encode() for value in [*values, "[DONE]"])
    events = Events()
    found = [each for at in range(0, len(sent), size) for each in events.feed(sent[at : at + size])]
    assert [each.decode() for each in found] == values


def test_the_prompts_of_a_round_are_those_of_its_number() -> None:
    found = prompts(3)
    assert found == prompts(3)
    assert found != prompts(4)
    assert sorted({len(text.split()) for text in found}) == list(LENGTHS)
    assert len(set(found)) == len(found) == 32


def test_figures_by_hand() -> None:
    answers = [
        Answer(sent=1.0, came=(2.0, 2.5, 4.0), n_prompt=10, n_made=3),
        Answer(sent=1.5, came=(4.5, 6.0), n_prompt=20, n_made=2),
    ]
    assert figures(answers) == Figures(
        tok_s=1.0, first_median=2.0, first_p95=3.0, gap_median=1.5, gap_p95=1.5, n_prompt=30, n_made=5
    )


def test_nineteen_of_twenty_do_not_exceed_it() -> None:
    assert p95([float(n) for n in range(20, 0, -1)]) == 19.0
    assert p95([3.0]) == 3.0


def test_a_row_has_medians_and_the_ratio_of_rounds_that_ran_together() -> None:
    (row,) = rows(ROUNDS)
    assert (row.met.tok_s, row.llama_cpp.tok_s, row.n_rounds) == (110.0, 100.0, 3)
    assert row.ratio == 1.2  # of 1.2, 1.5 and 1.1, not 110 / 100
    assert row.gap_ratio == 1.0  # of 1, 0.5 and 2


def test_the_table() -> None:
    lines = table([*ROUNDS, round_of(done(50.0, 0.1), done(50.0, 0.1), 32, "int8")]).splitlines()
    assert [line.split() for line in lines] == [
        "tok/s ratio first ms p95 gap ms p95".split(),
        "8 streams, met f32 110 1.20x 500 1000 10 200".split(),
        "8 streams, llama.cpp 100 500 1000 10 100".split(),
        "32 streams, met int8 50 1.00x 500 1000 10 100".split(),
        "32 streams, llama.cpp 50 500 1000 10 100".split(),
    ]


def test_what_is_written_reads_back_and_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    assert read(path, SETTING) == []
    write(path, SETTING, ROUNDS)
    assert read(path, SETTING) == ROUNDS
    assert json.loads(path.read_text())["rows"][0]["ratio"] == 1.2
    with pytest.raises(BenchError) as caught:
        read(path, Setting(machine={"processor": "b"}, versions={"met": "1"}, threads=4))
    assert str(caught.value) == (
        f"error: {path} has results of another machine and threads\n  = fix: remove it, or give --out another file"
    )


def test_a_server_that_holds_text_back_has_no_time_between_tokens() -> None:
    answers = [Answer(sent=0.0, came=(1.0, 2.0), n_prompt=1, n_made=8)]
    with pytest.raises(BenchError) as caught:
        serve.checked("met", answers)
    assert str(caught.value) == ("error: met sent 8 tokens in 2 pieces\n  = fix: ask it for a stream of single tokens")


def test_a_server_that_cannot_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BenchError) as caught:
        Server("broken", [sys.executable, "-c", "import sys; sys.exit('no memory')"])
    assert str(caught.value) == "error: broken ended with code 1:\nno memory\n  = fix: see its message above"
    with pytest.raises(BenchError) as caught:
        Server("missing", ["/no/such/server"])
    assert str(caught.value) == "error: /no/such/server is not there\n  = fix: build it by `make bench-serve`"
    monkeypatch.setattr(servers, "START_S", 0.2)
    with pytest.raises(BenchError) as caught:
        Server("slow", [sys.executable, "-c", "import time; time.sleep(60)"])
    assert str(caught.value) == "error: slow did not answer within 0 s\n  = fix: start it by hand to see why"
