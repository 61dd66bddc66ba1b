"""Server-sent events: one JSON object an event, then [DONE]; an error object ends a stream that could not go on."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, suppress

from pydantic import BaseModel
from starlette.background import BackgroundTask
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from circuit_exec.server.errors import Refusal, Refused, error_object

DONE = b"data: [DONE]\n\n"
HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


class EventStream(Response):
    """A response that sends what the iterator gives. `held` is left when the stream ends or the client leaves."""

    media_type = "text/event-stream"

    def __init__(
        self, events: AsyncIterator[BaseModel], held: AsyncExitStack, on_failure: Callable[[Refusal], None]
    ) -> None:
        super().__init__(headers=HEADERS)
        del self.headers["content-length"]
        self.background: BackgroundTask | None = None
        self._events = events
        self._held = held
        self._on_failure = on_failure

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends until the events end or nobody listens."""
        async with self._held:
            sending = asyncio.ensure_future(self._send(send))
            leaving = asyncio.ensure_future(_left(receive))
            try:
                await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in (sending, leaving):
                    task.cancel()
            with suppress(asyncio.CancelledError, OSError):
                await sending

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        try:
            async for event in self._events:
                data = event.model_dump_json(exclude_none=False).encode()
                await send({"type": "http.response.body", "body": b"data: " + data + b"\n\n", "more_body": True})
            last = DONE
        except Refused as error:
            self._on_failure(error.refusal)
            last = b"data: " + json.dumps(error_object(error.refusal), ensure_ascii=False).encode() + b"\n\n"
        await send({"type": "http.response.body", "body": last, "more_body": False})


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
