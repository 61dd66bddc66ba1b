"""POST /v1/embeddings."""

import asyncio
import base64
import time
from contextlib import AsyncExitStack

import numpy as np
from fastapi import APIRouter
from numpy.typing import NDArray
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from circuit_exec.engine.request import Embedding, EmbeddingRequest, Ended
from circuit_exec.server.answers import EmbeddingAnswer, EmbeddingItem, EmbeddingUsage
from circuit_exec.server.errors import refused
from circuit_exec.server.fields.other import EmbeddingFields
from circuit_exec.server.prompts import prompt_list
from circuit_exec.server.routing import BodyRoute, note, served_of
from circuit_exec.server.running import Running, failure_of, running, unless_gone
from circuit_exec.server.sampling import check_model, room
from circuit_exec.server.served import Served

router = APIRouter(route_class=BodyRoute)


@router.post("/v1/embeddings", response_model=EmbeddingAnswer)
async def embeddings(fields: EmbeddingFields, http: HttpRequest) -> Response:
    """The mean of a text's hidden states behind the last norm, scaled to length 1."""
    served = served_of(http)
    note(http, prompt=fields.input)
    prompts = await asyncio.to_thread(_prompts, served, fields)
    deadline = time.monotonic() + served.options.timeout_s
    requests = [EmbeddingRequest(prompt=prompt, deadline=deadline) for prompt in prompts]
    async with AsyncExitStack() as stack:
        run = await stack.enter_async_context(running(served, requests, "input"))
        found = await unless_gone(http, _found(run))
    dim = len(found[0])
    if fields.dimensions is not None and fields.dimensions != dim:
        message = f"{fields.dimensions} dimensions are asked for, the model has {dim}"
        raise refused(message, f"ask for {dim}, or leave dimensions out", param="dimensions")
    as_text = fields.encoding_format == "base64"
    data = [
        EmbeddingItem(index=index, embedding=_base64(found[index]) if as_text else found[index].tolist())
        for index in range(len(prompts))
    ]
    n_tokens = sum(map(len, prompts))
    note(http, prompt_tokens=n_tokens)
    usage = EmbeddingUsage(prompt_tokens=n_tokens, total_tokens=n_tokens)
    answer = EmbeddingAnswer(data=data, model=served.options.name, usage=usage)
    return Response(answer.model_dump_json(), media_type="application/json")


async def _found(run: Running) -> dict[int, NDArray[np.float32]]:
    found: dict[int, NDArray[np.float32]] = {}
    async for place, event in run.events():
        match event:
            case Embedding(values=values):
                found[place] = _scaled(values)
            case Ended():
                if (failure := failure_of(event)) is not None:
                    raise failure
            case _:
                raise AssertionError(f"an event that no embedding has: {event}")
    return found


def _scaled(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """values: [dim]. In float64, so that no square overflows; of a vector of zeros nothing is made."""
    wide = values.astype(np.float64)
    length = float(np.sqrt(np.sum(wide * wide)))
    return values if length == 0 else (wide / length).astype(np.float32)


def _base64(values: NDArray[np.float32]) -> str:
    return base64.b64encode(values.astype("<f4").tobytes()).decode("ascii")


def _prompts(served: Served, fields: EmbeddingFields) -> list[tuple[int, ...]]:
    """The ids of each input, none longer than the context."""
    check_model(served, fields.model)
    prompts = prompt_list(served, fields.input, "input")
    for prompt in prompts:
        room(served, len(prompt), None, "input")
    return prompts
