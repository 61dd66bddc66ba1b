"""What the routes share: bodies are checked before a field is looked at, and what the log and the answers say."""

import time
import uuid
from collections.abc import Callable, Coroutine
from typing import Any, TypedDict

from fastapi.routing import APIRoute
from msgspec import Struct
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from circuit_exec.server.body import parse_body, read_body
from circuit_exec.server.errors import Refusal
from circuit_exec.server.served import Served

STREAMED: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {}}}}
"""For the description of routes that answer as a stream where that is asked for."""
Handler = Callable[[HttpRequest], Coroutine[object, object, Response]]


class CheckedRequest(HttpRequest):
    """A request whose body was read and parsed by our own rules."""

    checked: tuple[bytes, object] | None = None

    async def body(self) -> bytes:
        """The bytes."""
        return (await self._parts())[0]

    async def json(self) -> object:
        """The value."""
        return (await self._parts())[1]

    async def _parts(self) -> tuple[bytes, object]:
        if self.checked is None:
            data = await read_body(self, served_of(self).options.most_body_bytes)
            self.checked = data, parse_body(data, self.headers.get("content-type", ""))
        return self.checked


class BodyRoute(APIRoute):
    """A route with a JSON body. What is wrong with it is refused here: FastAPI would hide why."""

    def get_route_handler(self) -> Handler:
        """The handler of the route, behind the check."""
        inner = super().get_route_handler()

        async def handler(request: HttpRequest) -> Response:
            checked = CheckedRequest(request.scope, request.receive)
            await checked.json()
            return await inner(checked)

        return handler


def served_of(http: HttpRequest) -> Served:
    """What the application serves."""
    served: Served = http.app.state.served
    return served


def note(http: HttpRequest, **fields: object) -> None:
    """Adds to what the log will say of this request; prompts only where the server was told to log them."""
    if "prompt" in fields and not served_of(http).options.log_prompts:
        del fields["prompt"]
    notes: dict[str, object] = http.scope.setdefault("met.notes", {})
    notes.update(fields)


def note_refusal(http: HttpRequest, refusal: Refusal) -> None:
    """Adds to the log why a request was not answered."""
    note(http, failed=refusal.code, **({} if refusal.detail is None else {"detail": refusal.detail}))


class HeadFields(TypedDict):
    """What every answer begins with."""

    id: str
    created: int
    model: str
    system_fingerprint: str


class Head(Struct, frozen=True, kw_only=True):
    """The same as a record, one for all events of a stream."""

    id: str
    created: int
    model: str
    system_fingerprint: str

    def fields(self) -> HeadFields:
        """As keyword arguments."""
        return {
            "id": self.id,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": self.system_fingerprint,
        }


def new_head(served: Served, kind: str) -> Head:
    """The head of an answer that begins now."""
    return Head(
        id=f"{kind}-{uuid.uuid4().hex}",
        created=int(time.time()),
        model=served.options.name,
        system_fingerprint=served.description.fingerprint,
    )
