"""The same request gives the same bytes: alone, in a crowd with others that leave, after a restart, without the prefix
cache, in steps of another size."""

import json
import random
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.server.harness import Server, serving
from tests.server.test_ends import LONG, started

pytestmark = pytest.mark.slow

N = 64
WORDS = "the cat on a mat is that it at in".split()


def requests() -> list[tuple[str, dict[str, Any]]]:
    """Seeded requests of every kind; a third begin with the same long text."""
    draw = random.Random(0)
    head = " ".join(WORDS * 8) + " "
    made: list[tuple[str, dict[str, Any]]] = []
    for place in range(N):
        text = (head if place % 3 == 0 else "") + " ".join(draw.choices(WORDS, k=draw.randrange(1, 40)))
        asked: dict[str, Any] = {
            "model": "model",
            "seed": place,
            "max_tokens": draw.randrange(1, 40),
            "temperature": draw.choice([0, 0.7, 1.3]),
            "top_p": draw.choice([1, 0.9]),
            "n": draw.choice([1, 1, 2]),
        }
        asked |= draw.choice([{}, {"top_k": 20}, {"min_p": 0.05}, {"presence_penalty": 1}, {"stop": ["a", "\n"]}])
        if place % 2:
            made.append(("/v1/completions", asked | {"prompt": text, "logprobs": 2, "echo": place % 4 == 1}))
        else:
            messages = [{"role": "user", "content": text}]
            schema = {"response_format": {"type": "json_object"}} if place % 10 == 0 else {}
            made.append(("/v1/chat/completions", asked | schema | {"messages": messages, "logprobs": True}))
    return made


def answer(server: Server, request: tuple[str, dict[str, Any]]) -> str:
    """What must be equal: texts, log-probabilities, ends and counts."""
    answered = server.post(*request)
    assert answered.status == 200, answered.body
    body = answered.json()
    usage = {name: value for name, value in body["usage"].items() if name != "prompt_tokens_details"}
    return json.dumps([body["choices"], usage, body["system_fingerprint"]])


def alone(server: Server, asked: list[tuple[str, dict[str, Any]]]) -> list[str]:
    return [answer(server, request) for request in asked]


def crowd(server: Server, asked: list[tuple[str, dict[str, Any]]]) -> list[str]:
    """All at once, in another order, among streams whose clients leave."""
    found: dict[int, str] = {}
    order = list(range(len(asked)))
    random.Random(1).shuffle(order)

    def ask(place: int) -> None:
        found[place] = answer(server, asked[place])

    threads = [threading.Thread(target=ask, args=(place,)) for place in order]
    leaving = []
    for n, thread in enumerate(threads):
        thread.start()
        if n % 8 == 0:
            leaving.append(started(server, LONG | {"seed": n, "n": 2}))
    for connection, response in leaving:
        connection.close()
        response.close()
    for thread in threads:
        thread.join()
    return [found[place] for place in range(len(asked))]


def test_64_requests_have_the_same_bytes_whatever_else_runs(home: Path) -> None:
    asked = requests()
    with serving(home, "model", "--max-num-seqs", "4") as server:
        first = alone(server, asked)
        assert crowd(server, asked) == first
        assert server.now()["hit_tokens"] > 0
        fingerprint = server.printed[2]
    with serving(home, "model", "--max-num-seqs", "16", "--step-rows", "40", "--no-prefix-cache") as server:
        assert server.printed[2] == fingerprint
        assert crowd(server, asked) == first
        assert server.now()["hit_tokens"] == 0
    assert len(set(first)) > N // 2
