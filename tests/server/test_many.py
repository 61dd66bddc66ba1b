"""Ten thousand short requests leave nothing behind in the server's memory."""

import http.client
import json
import threading
from pathlib import Path

import pytest

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
