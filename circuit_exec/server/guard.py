"""What stands before every route: who may ask, how long headers may be, one line of log, no error without a shape."""

import json
import secrets
import time
from collections.abc import Sequence

from msgspec import Struct
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from circuit_exec.server.errors import Refusal, Refused, error_object, refused
from circuit_exec.server.keys import Keys, host_allowed
from circuit_exec.server.log import Log
from circuit_exec.server.metrics import Metrics

MOST_HEADER_BYTES = 32 * 1024
OPEN = ("/health", "/", "/page.css", "/page.js")
"""Paths that need no key: whether the server is well, and a page that asks for the key."""
QUIET = ("/health", "/metrics", "/forward")
"""Routes that are asked every second; the log has no line of them where all is well."""
SAFE_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
}


class Access(Struct, frozen=True, kw_only=True):
    """Who may ask. `names`: for a server on a loopback address without keys, what a `Host` may be besides; None where
    any may be.
    """

    keys: Keys | None
    names: Sequence[str] | None


class Guard:
    """ASGI: the application behind it sees only requests that may be answered."""

    def __init__(self, app: ASGIApp, access: Access, log: Log, metrics: Metrics) -> None:
        self._app = app
        self._access = access
        self._log = log
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, id, status, whole = time.monotonic(), f"req_{secrets.token_hex(12)}", 0, False

        async def sent(message: Message) -> None:
            nonlocal status, whole
            if message["type"] == "http.response.start":
                status = int(message["status"])
                extra = {"X-Request-Id": id, **SAFE_HEADERS}
                headers = [(name.lower().encode(), value.encode()) for name, value in extra.items()]
                message = {**message, "headers": [*message.get("headers", ()), *headers]}
            await send(message)
            whole = whole or (message["type"] == "http.response.body" and not message.get("more_body", False))

        try:
            self._check(scope)
            await self._app(scope, receive, sent)
        except Refused as error:
            await send_refusal(error.refusal, sent)
        except Exception as error:
            self._log.failure("error", error, id=id, path=scope["path"])
            if status and not whole:
                raise  # the connection is closed: the client sees that the answer is not whole
            if not status:
                message = "the server failed on this request"
                await send_refusal(refused(message, FAILED, code="internal_error", status=500).refusal, sent)
        finally:
            route = getattr(scope.get("route"), "path", "none")
            self._metrics.answered(route, status)
            if status != 200 or route not in QUIET:
                self._line(scope, id, route, status, started)

    def _line(self, scope: Scope, id: str, route: str, status: int, started: float) -> None:
        client = scope.get("client")
        self._log.event(
            "request",
            id=id,
            method=scope["method"],
            route=route,
            status=status,
            ms=round((time.monotonic() - started) * 1000, 1),
            client=client[0] if client else None,
            **scope.get("met.notes", {}),
        )

    def _check(self, scope: Scope) -> None:
        if sum(len(name) + len(value) for name, value in scope["headers"]) > MOST_HEADER_BYTES:
            message = f"the headers are longer than {MOST_HEADER_BYTES} bytes"
            raise refused(message, "send fewer or shorter ones", code="headers_too_long", status=431)
        headers = Headers(scope=scope)
        names = self._access.names
        if names is not None and not host_allowed(headers.get("host", ""), names):
            message = "the Host header does not name this machine"
            fix = "use the address that the server printed, or start it with --api-key-file"
            raise refused(message, fix, code="host_not_allowed", status=403)
        keys = self._access.keys
        if keys is not None and scope["path"] not in OPEN and not keys.take(headers.get("authorization", "")):
            given = (
                "no API key is given" if "authorization" not in headers else "the API key is not one of the server's"
            )
            error = refused(given, "send the header `Authorization: Bearer KEY`", code="invalid_api_key", status=401)
            raise Refused(with_header(error.refusal, "WWW-Authenticate", "Bearer"))


FAILED = "send it again; the server's log says what went wrong"


def with_header(refusal: Refusal, name: str, value: str) -> Refusal:
    """The refusal with one more header."""
    return Refusal(
        status=refusal.status,
        code=refusal.code,
        message=refusal.message,
        fix=refusal.fix,
        param=refusal.param,
        headers={**refusal.headers, name: value},
    )


async def send_refusal(refusal: Refusal, send: Send) -> None:
    """A refusal as a whole response."""
    body = json.dumps(error_object(refusal), ensure_ascii=False).encode()
    headers = {"content-type": "application/json", "content-length": str(len(body)), **refusal.headers}
    pairs = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": refusal.status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})
