"""`met serve` in a process of its own, as a shell starts it, and plain requests to it."""

import contextlib
import http.client
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct, field

from tests.cli.harness import ENTRY, settings

JSON = {"Content-Type": "application/json"}


class Answered(Struct, frozen=True, kw_only=True):
    """A response."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:  # noqa: ANN401
        return json.loads(self.body)

    def error(self) -> dict[str, Any]:
        """The error object, after a check of its shape and of what it must not tell."""
        body = self.json()
        assert list(body) == ["error"], body
        error: dict[str, Any] = body["error"]
        assert sorted(error) == ["code", "message", "param", "type"], error
        assert isinstance(error["message"], str)
        assert "; " in error["message"], "says what to change"
        assert isinstance(error["code"], str)
        for word in ("Traceback", ".py", "site-packages", str(Path.home())):
            assert word not in error["message"], error
        return error


class Server(Struct, kw_only=True):
    """A running server. `printed` is what it said when it was ready; its log is in `log`."""

    process: subprocess.Popen[str]
    host: str
    port: int
    printed: list[str]
    log: Path
    key: str | None = None
    names: dict[str, str] = field(default_factory=dict)

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        headers: dict[str, str] | None = None,
    ) -> Answered:
        """One request on a connection of its own; a body that is no bytes is sent as JSON."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        sent = {"Connection": "close", **({} if body is None else JSON), **(headers or {})}
        if self.key is not None:
            sent.setdefault("Authorization", f"Bearer {self.key}")
        connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
        try:
            connection.request(method, path, data, sent)
            response = connection.getresponse()
            return Answered(status=response.status, headers=dict(response.getheaders()), body=response.read())
        finally:
            connection.close()

    def post(self, path: str, body: object) -> Answered:
        return self.request("POST", path, body)

    def get(self, path: str) -> Answered:
        return self.request("GET", path)

    def now(self) -> dict[str, Any]:
        """What the engine does."""
        found: dict[str, Any] = self.get("/forward").json()["now"]
        return found

    def logged(self, id: str) -> dict[str, Any]:
        """The line of a request, which is written once its answer has left."""
        return wait_for(lambda: next((line for line in self.events() if line.get("id") == id), None))

    def events(self) -> list[dict[str, Any]]:
        """The log so far."""
        lines = self.log.read_text("utf-8").splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def ended(self, reason: str) -> float:
        """Choices that ended so, as /metrics counts them."""
        wanted = f'met_ended_choices_total{{reason="{reason}"}} '
        lines = self.get("/metrics").body.decode().splitlines()
        return next((float(line.removeprefix(wanted)) for line in lines if line.startswith(wanted)), 0.0)


T = TypeVar("T")


def wait_for(found: Callable[[], T | None], seconds: float = 30) -> T:
    """What the function gives once it gives something that is true."""
    end = time.monotonic() + seconds
    while not (value := found()):
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.01)
    return value


@contextlib.contextmanager
def serving(home: Path, *arguments: str, key: str | None = None) -> Iterator[Server]:
    """A server of the folder `home`, on a free port; SIGTERM ends it, and it must end well."""
    log = home / f"log-{time.monotonic_ns()}.jsonl"
    with log.open("w", encoding="utf-8") as written:
        process = subprocess.Popen(
            [
                sys.executable,
                "-X",
                "faulthandler",
                "-W",
                "error",
                "-c",
                ENTRY,
                "serve",
                *arguments,
                "--port",
                "0",
                "--threads",
                "1",
            ],
            cwd=home,
            env=settings(home),
            stdout=subprocess.PIPE,
            stderr=written,
            text=True,
        )
        try:
            assert process.stdout is not None
            printed: list[str] = []
            while not printed or not printed[-1].startswith("keys"):
                line = process.stdout.readline()
                assert line, f"the server ended: {log.read_text('utf-8')}"
                printed.append(line.rstrip("\n"))
            address = printed[0].rpartition("//")[2]
            host, _, port = address.rpartition(":")
            yield Server(process=process, host=host.strip("[]"), port=int(port), printed=printed, log=log, key=key)
            process.terminate()
            code = process.wait(timeout=60)
            assert code == 0, f"exit code {code}: {log.read_text('utf-8')}"
        finally:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


def stream_of(body: bytes) -> list[dict[str, Any]]:
    """The objects of a stream that ended with [DONE]."""
    events = body.decode("utf-8").split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""], events[-3:]
    return [json.loads(event.removeprefix("data: ")) for event in events[:-2]]
