"""The body of a request, before any field of it is looked at: its size, its type, its text, its depth."""

import asyncio
import json
import re
from collections import Counter
from itertools import chain

from starlette.requests import ClientDisconnect, Request

from circuit_exec.server.errors import Refused, refused, retry_later

MOST_BYTES = 4 * 2**20
MOST_DEPTH = 64
DISCARDED = 32 * 2**20
"""Bytes beyond the limit that are read and forgotten; behind them the connection is closed."""
SECONDS = 30.0
"""How long a client may take to send a body."""

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


async def read_body(request: Request, most_bytes: int) -> bytes:
    """The bytes of the body, no more than allowed. What is too long is read to its end, so that the client listens."""
    parts, length = [], 0
    try:
        async with asyncio.timeout(SECONDS):
            async for part in request.stream():
                length += len(part)
                if length > most_bytes + DISCARDED:
                    break
                if length <= most_bytes:
                    parts.append(part)
    except TimeoutError as error:
        message = f"the body did not arrive within {SECONDS:.0f} seconds"
        raise retry_later(message, "send it faster", code="request_timeout", status=408, after_s=1) from error
    except ClientDisconnect as error:
        raise refused("the client left", "send the whole body", code="client_left") from error
    if length > most_bytes:
        message = f"the body is longer than {most_bytes} bytes"
        fix = "send less, or start the server with a larger --max-body"
        raise refused(message, fix, code="too_large", status=413)
    return b"".join(parts)


def parse_body(data: bytes, content_type: str) -> object:
    """The JSON value. Only application/json is taken: a page of another origin cannot send that without asking."""
    if content_type.partition(";")[0].strip().lower() != "application/json":
        fix = "send JSON with the header `Content-Type: application/json`"
        raise refused("the body is not declared as JSON", fix, code="unsupported_media_type", status=415)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        message = f"the body is not UTF-8: byte {error.start} begins no character"
        raise refused(message, "send JSON as UTF-8", code="invalid_json") from error
    try:
        value: object = json.loads(text, parse_constant=_constant, object_pairs_hook=_object)
    except ValueError as error:
        where = f" at line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        reason = error.msg.lower() if isinstance(error, json.JSONDecodeError) else str(error)
        message = f"the body is not JSON{where}: {reason}"
        raise refused(message, "send one JSON object", code="invalid_json") from error
    except RecursionError as error:
        raise _too_deep() from error
    if _SURROGATE.search(data) or data.count(b"[") + data.count(b"{") > MOST_DEPTH:
        _check_parts(value)
    return value


def _check_parts(value: object) -> None:
    """Refuses what nests too deep, and halves of surrogate pairs, which JSON can write and no text can hold."""
    level = [value]
    for _ in range(MOST_DEPTH + 1):
        texts = "".join(part for part in level if isinstance(part, str))
        try:
            texts.encode("utf-8")
        except UnicodeEncodeError as error:
            message = "a string of the body has half of a surrogate pair, which is no character"
            raise refused(message, "send characters, or both halves", code="invalid_json") from error
        lists = [part for part in level if isinstance(part, list)]
        objects = [part for part in level if isinstance(part, dict)]
        if not (lists or objects):
            return
        level = [*chain.from_iterable(lists), *chain.from_iterable(map(dict.values, objects))]
        level += chain.from_iterable(objects)
    raise _too_deep()


def _too_deep() -> Refused:
    return refused(f"the body nests deeper than {MOST_DEPTH} levels", "send a flatter object", code="invalid_json")


def _constant(name: str) -> object:
    raise ValueError(f"{name} is no number of JSON")


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) != len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name, n in counts.items() if n > 1)
        raise ValueError(f"the key `{twice[:100]}` stands twice in one object")
    return made
