"""The servers of the load comparison: each is started once and stopped while the other one has its turn."""

import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from bench.contestants import POLICY
from bench.errors import BenchError, ended
from bench.peers import SERVER, tool

CONTEXT = 1024
"""The most tokens of a prompt and its answer: each stream has so many on either server."""
START_S = 120.0
MET = (sys.executable, "-c", "from cli.main import main; main()")


def met_command(model: Path, n_threads: int, n_streams: int, activations: str) -> list[str]:
    """`met serve` with as many choices as there are streams, and no prefix cache."""
    policy = [word for each in POLICY[activations] for word in ("--policy", each)]
    counts = ["--threads", str(n_threads), "--max-num-seqs", str(n_streams), "--context", str(CONTEXT)]
    return [*MET, "serve", str(model), "--name", "model", "--port", "0", *counts, "--no-prefix-cache", *policy]


def llama_command(model: Path, n_threads: int, n_streams: int, port: int) -> list[str]:
    """llama.cpp's own server, with a slot for each stream, its defaults, and no cache of prompts."""
    threads = ["-t", str(n_threads), "-tb", str(n_threads)]
    slots = ["-np", str(n_streams), "-c", str(CONTEXT * n_streams), "--cont-batching"]
    cache = ["--no-cache-prompt", "--cache-ram", "0"]
    server = [str(tool(SERVER, "native")), "-m", str(model), "--host", "127.0.0.1", "--port", str(port)]
    return [*server, *threads, *slots, *cache]


def free_port() -> int:
    """One that nobody listens on now."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


class Server:
    """A process that answers on `port`. Where `port` is not given, the process prints the address."""

    def __init__(self, name: str, command: list[str], port: int | None = None) -> None:
        self.name = name
        self._said = tempfile.NamedTemporaryFile("w+")  # noqa: SIM115
        try:
            self._process = subprocess.Popen(command, stdout=self._said, stderr=subprocess.STDOUT, text=True)
        except FileNotFoundError as error:
            raise BenchError(f"{command[0]} is not there", "build it by `make bench-serve`") from error
        try:
            self.port = self._waited(port)
        except BaseException:
            self.close()
            raise

    def pause(self) -> None:
        """Nothing of it runs until `resume`: a server that waits for work by spinning would slow the other one."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """It goes on."""
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Ends the process. Closing twice is fine."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._said.close()

    def _waited(self, port: int | None) -> int:
        end = time.monotonic() + START_S
        while time.monotonic() < end:
            if (code := self._process.poll()) is not None:
                raise ended(self.name, code, self._text())
            if port is None:
                found = re.search(r"http://127\.0\.0\.1:(\d+)", self._text())
                port = int(found[1]) if found else None
            if port is not None and _well(port):
                return port
            time.sleep(0.05)
        raise BenchError(f"{self.name} did not answer within {START_S:.0f} s", "start it by hand to see why")

    def _text(self) -> str:
        return Path(self._said.name).read_text(encoding="utf-8", errors="replace")


def _well(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False
