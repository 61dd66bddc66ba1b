"""The client of the load comparison: so many streams at once, and when each piece of each answer came.

HTTP/1.1 by h11 on asyncio's own streams: what the client needs of the processor is missing to the server.
"""

import asyncio
import json
import random
import time
from collections import deque
from collections.abc import Iterator, Sequence

import h11
from msgspec import Struct

from bench.errors import BenchError

N_REQUESTS = 32
N_TOKENS = 64
"""Tokens of each answer: end tokens are ignored."""
LENGTHS = (32, 64, 128, 256, 512)
"""Words of the prompts, in turn. Each word is one token of the demo model."""
WORDS = "time year people way day man thing woman life child world school state family student group country".split()
LOG = "start the server by hand and look into its log"
HEADERS = (("Content-Type", "application/json"), ("Connection", "close"))


class Answer(Struct, frozen=True, kw_only=True):
    """When it was asked for, and when its pieces came, in seconds of one clock; what the server counted."""

    sent: float
    came: tuple[float, ...]
    n_prompt: int
    n_made: int


def prompts(round: int, n: int = N_REQUESTS, lengths: Sequence[int] = LENGTHS) -> list[str]:
    """Those of a round: no two begin alike, and the same for every server."""
    made = random.Random(round)
    shuffled = [lengths[place % len(lengths)] for place in range(n)]
    made.shuffle(shuffled)
    return [" ".join(made.choices(WORDS, k=length)) for length in shuffled]


def load(port: int, texts: Sequence[str], n_streams: int, n_tokens: int = N_TOKENS) -> list[Answer]:
    """Asks for all: each stream sends its next request when its last answer is whole."""
    try:
        return asyncio.run(_load(port, texts, n_streams, n_tokens))
    except ExceptionGroup as group:
        raise group.exceptions[0] from group


async def _load(port: int, texts: Sequence[str], n_streams: int, n_tokens: int) -> list[Answer]:
    left, answers = deque(texts), list[Answer]()

    async def stream() -> None:
        while left:
            answers.append(await _ask(port, left.popleft(), n_tokens))

    async with asyncio.TaskGroup() as group:
        for _ in range(n_streams):
            group.create_task(stream())
    return answers


async def _ask(port: int, text: str, n_tokens: int) -> Answer:
    asked = {
        "prompt": text,
        "model": "model",
        "max_tokens": n_tokens,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    body, events, came, usage = json.dumps(asked).encode(), Events(), list[float](), dict[str, int]()
    sent = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        connection = h11.Connection(h11.CLIENT)
        headers = [("Host", f"127.0.0.1:{port}"), ("Content-Length", str(len(body))), *HEADERS]
        head = h11.Request(method="POST", target="/v1/completions", headers=headers)
        for part in (head, h11.Data(data=body), h11.EndOfMessage()):
            writer.write(connection.send(part) or b"")
        while not isinstance(event := connection.next_event(), h11.EndOfMessage):
            if event is h11.NEED_DATA:
                connection.receive_data(await reader.read(2**16))
            elif isinstance(event, h11.Response) and event.status_code != 200:
                raise BenchError(f"a request was answered with {event.status_code}", LOG)
            elif isinstance(event, h11.Data):
                now = time.perf_counter()
                for data in events.feed(bytes(event.data)):
                    found = json.loads(data)
                    usage = found.get("usage") or usage
                    came += [now for choice in found.get("choices", ()) if choice["text"]]
    except (h11.RemoteProtocolError, OSError) as error:
        raise BenchError(f"a stream ended in the middle: {error}", LOG) from error
    finally:
        writer.close()
    if not came or not usage:
        raise BenchError("an answer has no text or no usage", LOG)
    return Answer(sent=sent, came=tuple(came), n_prompt=usage["prompt_tokens"], n_made=usage["completion_tokens"])


class Events:
    """Server-sent events out of bytes that come in any pieces."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The data of each event that is whole now, but of [DONE]."""
        *events, self._held = (self._held + data).split(b"\n\n")
        for event in events:
            value = event.removeprefix(b"data: ")
            if value != event and value != b"[DONE]":
                yield value
