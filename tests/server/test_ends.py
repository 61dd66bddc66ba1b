"""How requests end before their time: the client leaves, the server ends, the queue is full, time is up, no key."""

import hashlib
import http.client
import json
import signal
import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.harness import met, refused
from tests.server.harness import Answered, Server, serving, stream_of, wait_for

pytestmark = pytest.mark.slow

LONG: dict[str, Any] = {"model": "model", "prompt": "the cat", "max_tokens": 900, "ignore_eos": True, "stream": True}


def started(server: Server, body: dict[str, Any]) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
    """A stream whose head has come."""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=60)
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    return connection, connection.getresponse()


def together(n: int, ask: Callable[[int], Answered]) -> list[Answered]:
    """Answers to requests that are sent at once."""
    found: dict[int, Answered] = {}
    threads = [threading.Thread(target=lambda at=at: found.update({at: ask(at)})) for at in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found[at] for at in range(n)]


def test_a_client_that_leaves_a_stream_frees_its_place(server: Server) -> None:
    before = server.ended("cancelled")
    connection, response = started(server, LONG | {"n": 4})
    response.read(10)
    connection.close()
    response.close()
    wait_for(lambda: server.ended("cancelled") >= before + 1)
    wait_for(lambda: server.now()["running"] == 0)


def test_clients_that_break_off_do_not_end_the_server(server: Server) -> None:
    for _ in range(30):
        connection, response = started(server, LONG)
        assert connection.sock is not None
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
        response.close()
    wait_for(lambda: server.now()["running"] == 0)
    assert server.process.poll() is None
    status = Path(f"/proc/{server.process.pid}/status").read_text()  # whether one ends it is a matter of luck
    ignored = int(status.partition("SigIgn:")[2].split()[0], 16)
    assert ignored >> (signal.SIGPIPE - 1) & 1


def test_a_client_that_leaves_before_the_answer_frees_its_place(server: Server) -> None:
    before = server.ended("cancelled")
    connection = http.client.HTTPConnection(server.host, server.port, timeout=60)
    body = json.dumps(LONG | {"n": 4, "stream": False})
    connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
    wait_for(lambda: server.now()["running"] > 0)
    connection.close()
    wait_for(lambda: server.ended("cancelled") >= before + 1)


def test_a_full_queue_is_answered_with_when_to_come_again(home: Path) -> None:
    with serving(home, "model", "--max-num-seqs", "1", "--max-queue", "1") as server:
        first, response = started(server, LONG)
        second, _ = started(server, LONG)
        answered = server.post("/v1/completions", LONG)
        error = answered.error()
        assert (answered.status, error["code"], error["type"]) == (429, "queue_full", "rate_limit_error")
        assert error["message"].endswith("; ask again later, or for fewer choices")
        assert int(answered.headers["retry-after"]) >= 1
        for connection in (first, second):
            connection.close()
        response.close()


def test_an_answer_that_takes_too_long_ends_with_an_error(home: Path) -> None:
    with serving(home, "model", "--max-num-seqs", "8", "--timeout", "1") as server:
        body = LONG | {"n": 8, "stream": False, "max_tokens": 1000}
        answers = together(4, lambda at: server.post("/v1/completions", body | {"seed": at}))
        late = [answered.error() for answered in answers if answered.status != 200]
        assert late
        assert {error["code"] for error in late} == {"timeout"}
        assert late[0]["message"] == (
            "the answer was not ready within the time that the server allows; ask for fewer tokens, or start the "
            "server with a larger --timeout"
        )


@pytest.mark.parametrize("drain", ["60", "0"])
def test_sigterm_lets_streams_end_or_tells_them(home: Path, drain: str) -> None:
    with serving(home, "model", "--max-num-seqs", "8", "--drain", drain) as server:
        n = 60 if drain == "60" else 900
        streams = [started(server, LONG | {"max_tokens": n, "seed": seed}) for seed in range(32)]
        server.process.send_signal(signal.SIGTERM)
        bodies = [response.read() for _, response in streams]
        for connection, _ in streams:
            connection.close()
        whole = 0
        for body in bodies:
            if body.endswith(b"data: [DONE]\n\n"):
                assert stream_of(body)[-1]["choices"][0]["finish_reason"] == "length"
                whole += 1
            else:
                last = json.loads(body.split(b"\n\n")[-2].removeprefix(b"data: "))
                assert last["error"]["code"] == "shutting_down"
                assert last["error"]["message"] == (
                    "the server is shutting down; send the request again, to a server that runs"
                )
        assert whole == 32 if drain == "60" else whole < 32, [body[-300:] for body in bodies]
        assert server.process.wait(timeout=60) == 0
        assert server.events()[-1]["event"] == "ended"
        assert server.events()[-1]["whole"] == (drain == "60")


def test_while_the_server_ends_nothing_more_is_taken(home: Path) -> None:
    with serving(home, "model", "--max-num-seqs", "1") as server:
        connection, response = started(server, LONG)
        waiting = http.client.HTTPConnection(server.host, server.port, timeout=60)
        waiting.connect()
        waiting.putrequest("POST", "/v1/completions")
        waiting.putheader("Content-Type", "application/json")
        body = json.dumps(LONG).encode()
        waiting.putheader("Content-Length", str(len(body)))
        waiting.endheaders()
        wait_for(lambda: server.now()["running"] == 1)
        server.process.send_signal(signal.SIGTERM)
        wait_for(lambda: any(line["event"] == "draining" for line in server.events()))
        waiting.send(body)
        answered = waiting.getresponse()
        error = json.loads(answered.read())["error"]
        assert (answered.status, error["code"], error["type"]) == (503, "shutting_down", "server_error")
        assert answered.getheader("retry-after") == "10"
        assert response.read().endswith(b"data: [DONE]\n\n")
        connection.close()
        waiting.close()


def test_keys_are_asked_for_and_prompts_logged_where_that_is_said(home: Path) -> None:
    (home / "keys.txt").write_text(f"{hashlib.sha256(b'sesame').hexdigest()}  door\n")
    with serving(
        home, "model", "--api-key-file", "keys.txt", "--log-prompts", "--name", "tiny", key="sesame"
    ) as server:
        assert server.printed[-1] == "keys        1"
        answered = server.post("/v1/completions", {"model": "tiny", "prompt": "xyzzy", "max_tokens": 1})
        assert server.logged(answered.headers["x-request-id"])["prompt"] == "xyzzy"
        assert server.get("/v1/models").status == 200
        assert server.request("GET", "/v1/models", headers={"Host": "box.lan"}).status == 200
        for header, said in (
            ("Bearer open", "the API key is not one of the server's; send the header `Authorization: Bearer KEY`"),
            ("", "the API key is not one of the server's; "),
        ):
            answered = server.request("GET", "/v1/models", headers={"Authorization": header})
            error = answered.error()
            assert (answered.status, error["code"]) == (401, "invalid_api_key")
            assert error["type"] == "authentication_error"
            assert error["message"].startswith(said)
            assert answered.headers["www-authenticate"] == "Bearer"
        server.key = None
        for path in ("/v1/models", "/metrics", "/forward", "/openapi.json", "/v1/nothing"):
            assert server.get(path).error()["message"].startswith("no API key is given; ")
        for path in ("/", "/page.js", "/page.css", "/health"):
            assert server.get(path).status == 200


@pytest.mark.parametrize(
    ("arguments", "code", "message", "fix"),
    [
        (
            ["--host", "0.0.0.0"],
            3,
            "0.0.0.0 can be reached by others, and no API key is asked for",
            "give --api-key-file FILE, or say --allow-public-without-keys",
        ),
        (
            ["--context", "2000"],
            2,
            "a context of 2000 tokens is asked for, the model has 1024",
            "give --context 1024 or less",
        ),
        (
            ["--kv-pages", "3"],
            2,
            "3 KV pages hold 192 tokens, the context is 1024",
            "give --kv-pages 16 or more, or a shorter --context",
        ),
        (["--api-key-file", "none"], 2, "the key file cannot be read: no such file or directory", None),
        (["--colour", "red"], 2, "no such option: --colour", "see `met serve --help`"),
        (["--port", "99999"], 2, "invalid value for '--port': Input should be less than or equal to 65535", None),
        (
            ["--host", "203.0.113.7", "--allow-public-without-keys"],
            2,
            "203.0.113.7:8000 cannot be listened on: cannot assign requested address",
            "give another --port, or another --host; --port 0 takes a free one",
        ),
    ],
)
def test_a_server_that_cannot_start_says_why(
    home: Path, arguments: list[str], code: int, message: str, fix: str | None
) -> None:
    ran = met("serve", "model", *arguments, home=home)
    assert ran.code == code, ran.err
    if code == 2:
        refused(ran, message=message, fix=fix)
    else:
        assert f"error: {message}\n" in ran.err
        assert f"  = fix: {fix}\n" in ran.err


@pytest.mark.parametrize("command", ["serve", "chat"])
def test_an_environment_variable_that_looks_like_a_setting_is_refused(home: Path, command: str) -> None:
    ran = met(command, "model", home=home, MET_THREADS="2")
    refused(
        ran,
        message="the environment variable MET_THREADS is unknown, and none changes what met does",
        fix="say it with an option, and `unset MET_THREADS`",
    )
