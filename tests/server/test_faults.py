"""Faults that no client can cause on purpose: the client is told that there was one, the log is told which."""

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace
from starlette.requests import Request as HttpRequest
from starlette.types import Message, Receive, Scope, Send

from circuit.errors import Problem, RunError
from circuit_exec.engine.request import Ended, Reason, Usage
from circuit_exec.server import body as body_module
from circuit_exec.server.body import read_body
from circuit_exec.server.errors import Refused, error_object
from circuit_exec.server.guard import Access, Guard
from circuit_exec.server.keys import is_loopback
from circuit_exec.server.log import Log
from circuit_exec.server.metrics import Metrics
from circuit_exec.server.running import failure_of, unless_gone
from cli.engine_options import Asked, pages_of, step_rows_of
from tests.server.layouts import layout

SCOPE: Scope = {
    "type": "http", "method": "POST", "path": "/x", "headers": [(b"host", b"localhost")], "client": ("127.0.0.1", 1),
}  # fmt: skip


def answered(app: Callable[[Scope, Receive, Send], Awaitable[None]]) -> tuple[list[Message], list[dict[str, object]]]:
    """What the guard sends for an application, and its log."""
    sent: list[Message] = []
    lines: list[str] = []

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    guard = Guard(app, Access(keys=None, names=()), Log(lines.append), Metrics())
    asyncio.run(guard(dict(SCOPE), receive, send))
    return sent, [json.loads(line) for line in lines]


def test_a_bug_is_told_to_the_log_and_not_to_the_client() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise RuntimeError("secret of the house")

    (start, body), log = answered(app)
    assert start["status"] == 500
    error = json.loads(body["body"])["error"]
    assert error == {
        "message": "the server failed on this request; send it again; the server's log says what went wrong",
        "type": "server_error",
        "param": None,
        "code": "internal_error",
    }
    assert [line["event"] for line in log] == ["error", "request"]
    assert "secret of the house" in str(log[0]["trace"])
    assert log[1]["status"] == 500


def test_a_bug_amid_an_answer_closes_the_connection() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise RuntimeError("half")

    with pytest.raises(RuntimeError, match="half"):
        answered(app)


@pytest.mark.parametrize(
    ("reason", "status", "code", "message"),
    [
        ("error", 500, "engine_error", "the engine failed on this request; send it again; the server's log says what "),
        ("timeout", 504, "timeout", "the answer was not ready within the time that the server allows; ask for fewer "),
        ("cancelled", 503, "shutting_down", "the server is shutting down; send the request again, to a server that "),
    ],
)
def test_a_choice_that_is_not_whole_is_a_failure(reason: Reason, status: int, code: str, message: str) -> None:
    problem = Problem(message="at /secret/path", fix="none")
    found = failure_of(Ended(choice=0, reason=reason, usage=Usage(prompt=1, cached=0, made=0), problem=problem))
    assert found is not None
    assert (found.refusal.status, found.refusal.code) == (status, code)
    assert str(found).startswith(message)
    assert "secret" not in str(found)
    assert found.refusal.detail == ("at /secret/path" if reason == "error" else None)
    assert "secret" not in json.dumps(error_object(found.refusal))


@pytest.mark.parametrize("reason", ["stop", "length"])
def test_a_whole_choice_is_none(reason: Reason) -> None:
    assert failure_of(Ended(choice=0, reason=reason, usage=Usage(prompt=1, cached=0, made=1))) is None


def request_of(*messages: Message) -> HttpRequest:
    """A request whose client sends these, then nothing."""
    left = list(messages)

    async def receive() -> Message:
        if left:
            return left.pop(0)
        await asyncio.sleep(60)
        raise AssertionError("nobody waits so long")

    return HttpRequest(dict(SCOPE), receive)


def test_a_body_that_does_not_arrive_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_module, "SECONDS", 0.01)
    with pytest.raises(Refused) as caught:
        asyncio.run(read_body(request_of({"type": "http.request", "body": b"{", "more_body": True}), 100))
    assert str(caught.value) == "the body did not arrive within 0 seconds; send it faster"
    assert (caught.value.refusal.status, caught.value.refusal.code) == (408, "request_timeout")


def test_a_client_that_leaves_while_it_sends_is_left_alone() -> None:
    with pytest.raises(Refused, match="the client left; send the whole body") as caught:
        asyncio.run(read_body(request_of({"type": "http.disconnect"}), 100))
    assert caught.value.refusal.code == "client_left"


def test_work_for_a_client_that_left_is_cancelled() -> None:
    ends: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ends.append("cancelled")

    with pytest.raises(Refused, match="the client left; wait for the answer"):
        asyncio.run(unless_gone(request_of({"type": "http.disconnect"}), work()))
    assert ends == ["cancelled"]


def test_work_that_fails_says_so_at_once() -> None:
    async def work() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        asyncio.run(unless_gone(request_of(), work()))


ASKED = Asked(max_seqs=4, context=None, kv_pages=None, step_rows=None, prompt_rows=256, max_queue=8, prefix_cache=True)


@pytest.mark.parametrize(("max_seqs", "step_rows", "expected"), [(1, None, 17), (32, None, 48), (8, 40, 40)])
def test_a_step_has_room_for_every_choice_and_for_prompts(max_seqs: int, step_rows: int | None, expected: int) -> None:
    assert step_rows_of(replace(ASKED, max_seqs=max_seqs, step_rows=step_rows)) == expected


@pytest.mark.parametrize(("free", "pages"), [(None, 64), (10**9, 64), (2 * 40 * 4096, 40)])
def test_the_pool_is_for_all_choices_or_half_of_the_free_memory(free: int | None, pages: int) -> None:
    assert pages_of(layout(page_words=1024, max_pages=100), 1024, ASKED, free) == pages


def test_a_pool_that_does_not_hold_one_choice_is_refused() -> None:
    with pytest.raises(RunError) as caught:
        pages_of(layout(page_words=1024, max_pages=100), 1024, ASKED, 2 * 10 * 4096)
    said = str(caught.value)
    assert "one choice of 1024 tokens takes 65536 bytes of KV pages, 81920 bytes are free" in said
    assert "give --context 640 or less" in said


def test_what_is_a_loopback_address() -> None:
    assert is_loopback("127.1.2.3")
    assert not is_loopback("localhost.example")
