"""Ten thousand short requests leave nothing behind in the server's memory; a server that is killed leaves a cache that
the next one can use."""

import http.client
import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.cli.harness import ENTRY, settings, unfinished
from tests.models import tiny_config, write_checkpoint
from tests.server.harness import Server, serving

AT_ONCE, BEFORE, AFTER = 8, 2_000, 8_000


def ask(server: Server, n: int) -> None:
    """Requests on connections that stay open, as clients keep them."""

    def some(first: int) -> None:
        connection = http.client.HTTPConnection(server.host, server.port, timeout=120)
        for place in range(first, n, AT_ONCE):
            body = {"model": "model", "prompt": f"the cat {place % 97}", "max_tokens": 1 + place % 3, "seed": place}
            body |= {"stop": ["zz"]} if place % 5 == 0 else {}
            body |= {"stream": True} if place % 7 == 0 else {}
            connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
            response = connection.getresponse()
            response.read()
            assert response.status == 200
        connection.close()

    threads = [threading.Thread(target=some, args=(first,)) for first in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def resident_bytes(server: Server) -> int:
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return 1024 * int(status.partition("VmRSS:")[2].split()[0])


@pytest.mark.slow
def test_ten_thousand_requests_leave_no_memory_behind(home: Path) -> None:
    with serving(home, "model", "--max-num-seqs", "8") as server:
        ask(server, BEFORE)
        before = resident_bytes(server)
        ask(server, AFTER)
        grown = resident_bytes(server) - before
        assert server.now()["ended"] >= BEFORE + AFTER
    assert grown < 8 * 2**20, f"{grown} bytes more after {AFTER} requests"


@pytest.mark.slow
def test_a_server_that_is_killed_while_it_starts_starts_again(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "model", tiny_config("llama"))
    command = [sys.executable, "-c", ENTRY, "serve", "model", "--port", "0"]
    for tenths in (5, 10, 15, 20, 25, 30):
        killed = subprocess.Popen(
            command, cwd=tmp_path, env=settings(tmp_path), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        with pytest.raises(subprocess.TimeoutExpired):
            killed.wait(timeout=tenths / 10)
        killed.kill()
        killed.wait()
    asked = {"model": "model", "prompt": "the cat", "max_tokens": 8, "seed": 1}
    texts = []
    for _ in range(2):
        with serving(tmp_path, "model") as server:
            texts.append(server.post("/v1/completions", asked).json()["choices"][0]["text"])
    assert texts[0] == texts[1] != ""
    assert not [name for name in unfinished(tmp_path / "cache") if name.endswith(".tmp")]
