"""Requests on their way through the engine: its thread gives events, the event loop takes them, an end cancels."""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from starlette.requests import Request as HttpRequest

from circuit_exec.engine.interface import Ticket
from circuit_exec.engine.request import (
    CannotFit,
    Draining,
    EmbeddingRequest,
    Ended,
    Event,
    QueueFull,
    Request,
)
from circuit_exec.server.errors import Refusal, Refused, of_problems, refused, retry_later
from circuit_exec.server.served import Served

DRAINING_RETRY_S = 10
T = TypeVar("T")
Placed = tuple[int, Event]
"""Which of the requests, and what it says."""


class Running:
    """Some requests that were taken together."""

    def __init__(self, n_choices: int) -> None:
        self._events: asyncio.Queue[Placed] = asyncio.Queue()
        self._left = n_choices

    def put(self, place: int, event: Event) -> None:
        """An event arrives; on the event loop."""
        self._events.put_nowait((place, event))

    async def events(self) -> AsyncIterator[Placed]:
        """All events of all choices, in the order of the engine."""
        while self._left:
            place, event = await self._events.get()
            if isinstance(event, Ended):
                self._left -= 1
            yield place, event


@asynccontextmanager
async def running(served: Served, requests: Sequence[Request | EmbeddingRequest], param: str) -> AsyncIterator[Running]:
    """Has the engine take all of the requests or none. Leaving the block, for whatever reason, ends what still runs."""
    loop = asyncio.get_running_loop()
    choices = sum(request.n if isinstance(request, Request) else 1 for request in requests)
    run, tickets = Running(choices), list[Ticket]()
    try:
        for place, request in enumerate(requests):
            ticket = _submit(served, request, place, run, loop, param)
            served.tickets.add(ticket)
            tickets.append(ticket)
        yield run
    finally:
        for ticket in tickets:
            ticket.cancel()
            served.tickets.remove(ticket)


def _submit(
    served: Served,
    request: Request | EmbeddingRequest,
    place: int,
    run: Running,
    loop: asyncio.AbstractEventLoop,
    param: str,
) -> Ticket:
    def on_event(event: Event) -> None:
        loop.call_soon_threadsafe(run.put, place, event)

    try:
        return served.engine.submit(request, on_event)
    except QueueFull as error:
        problem, after = error.problems[0], max(1, math.ceil(error.retry_after_s))
        raise retry_later(problem.message, problem.fix, code="queue_full", status=429, after_s=after) from error
    except Draining as error:
        raise ending() from error
    except CannotFit as error:
        raise of_problems(error, param=param, code="cannot_fit") from error


def ending() -> Refused:
    """The server ends, so nothing more is taken, and what runs has run out of time."""
    message, fix = "the server is shutting down", "send the request again, to a server that runs"
    return retry_later(message, fix, code="shutting_down", status=503, after_s=DRAINING_RETRY_S)


def failure_of(ended: Ended) -> Refused | None:
    """Why a choice ended without being whole, if it did."""
    match ended.reason:
        case "stop" | "length":
            return None
        case "timeout":
            message = "the answer was not ready within the time that the server allows"
            fix = "ask for fewer tokens, or start the server with a larger --timeout"
            return refused(message, fix, code="timeout", status=504)
        case "cancelled":
            return ending()
        case "error":
            message, fix = "the engine failed on this request", "send it again; the server's log says what went wrong"
            detail = None if ended.problem is None else ended.problem.message
            return Refused(Refusal(status=500, code="engine_error", message=message, fix=fix, detail=detail))


async def unless_gone(http: HttpRequest, work: Awaitable[T]) -> T:
    """What the work gives; it is cancelled when the client leaves."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_gone(http))
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
            await asyncio.wait((task,))
            raise refused("the client left", "wait for the answer", code="client_left")
        return task.result()
    finally:
        gone.cancel()
        if not task.done():
            task.cancel()


async def _gone(http: HttpRequest) -> None:
    while (await http.receive())["type"] != "http.disconnect":
        pass
