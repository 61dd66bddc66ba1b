"""Runs the application with uvicorn: a bound socket in, and out when the last answer has left or time is up."""

import asyncio
import json
import logging
import signal
import socket
from types import FrameType

import h11
import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from circuit.errors import Problem, RunError
from circuit_exec.server.errors import Refusal, error_object
from circuit_exec.server.guard import MOST_HEADER_BYTES
from circuit_exec.server.log import Log

HEADER_SECONDS = 20.0
"""How long a connection may be open before its first request is whole."""
KEEP_ALIVE_SECONDS = 15
BACKLOG = 256


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0 takes a free one."""
    bound = None
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(BACKLOG)
    except OSError as error:
        if bound is not None:
            bound.close()
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise RunError(
            Problem(
                message=f"{host}:{port} cannot be listened on: {reason}",
                fix="give another --port, or another --host; --port 0 takes a free one",
            )
        ) from error
    return bound


def serve(app: FastAPI, guarded: ASGIApp, bound: socket.socket, log: Log, drain_s: float) -> None:
    """Serves until SIGTERM or SIGINT. Then nothing more is taken, and what runs has `drain_s` seconds to end."""
    _log_to(log)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # writing to a client that has left must not end the process
    config = uvicorn.Config(
        guarded,
        http=_Protocol,
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=round(drain_s) + 10,
        h11_max_incomplete_event_size=MOST_HEADER_BYTES,
    )
    _Server(config, app, drain_s, log).run(sockets=[bound])


class _Server(uvicorn.Server):
    """uvicorn's server, whose end waits for the engine; a second signal ends what runs at once."""

    def __init__(self, config: uvicorn.Config, app: FastAPI, drain_s: float, log: Log) -> None:
        super().__init__(config)
        self._app = app
        self._drain_s = drain_s
        self._log = log

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal. It is not raised again afterwards: ending is what was asked for."""
        if self.should_exit:
            self._app.state.served.tickets.cancel_all()
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """The engine takes nothing more, connections are closed as their answers end."""
        self._app.state.draining = True
        self._log.event("draining", seconds=self._drain_s)
        loop = asyncio.get_running_loop()
        drained = loop.run_in_executor(None, self._app.state.served.engine.drain, self._drain_s)
        await super().shutdown(sockets)
        self._log.event("ended", whole=await drained)


class _Protocol(H11Protocol):
    """uvicorn's HTTP, with an error object for what is no HTTP, and a limit of time for the first request."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client connects."""
        super().connection_made(transport)  # type: ignore[arg-type]
        self.timeout_keep_alive_task = self.loop.call_later(HEADER_SECONDS, self.timeout_keep_alive_handler)

    def data_received(self, data: bytes) -> None:
        """Bytes arrive. The clock goes on until they make a request: a byte at a time does not stop it."""
        clock, self.timeout_keep_alive_task = self.timeout_keep_alive_task, None
        before = self.cycle
        super().data_received(data)
        if clock is None:
            return
        if self.cycle is before and not self.transport.is_closing():
            self.timeout_keep_alive_task = clock
        else:
            clock.cancel()

    def send_400_response(self, msg: str) -> None:
        """The bytes are no HTTP, or the headers are too long."""
        refusal = Refusal(
            status=400,
            code="invalid_http",
            message=f"the request is no HTTP/1.1, or its headers are longer than {MOST_HEADER_BYTES} bytes",
            fix="send a shorter header, or use another client",
        )
        body = json.dumps(error_object(refusal)).encode()
        headers = [("content-type", "application/json"), ("content-length", str(len(body))), ("connection", "close")]
        for event in (h11.Response(status_code=400, headers=headers), h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


class _ToLog(logging.Handler):
    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """One line."""
        self._log.event("library", name=record.name, level=record.levelname.lower(), message=record.getMessage())


def _log_to(log: Log) -> None:
    """What libraries have to say is in the log too, as JSON: nothing else may be on its stream."""
    logging.getLogger().handlers = [_ToLog(log)]
