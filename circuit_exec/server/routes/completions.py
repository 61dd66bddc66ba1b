"""POST /v1/completions."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from circuit_exec.engine.request import Ended, Event, PromptScored, Token
from circuit_exec.engine.request import Usage as ChoiceUsage
from circuit_exec.server.answers import Finish, TextAnswer, TextChoice, TextLogprobs
from circuit_exec.server.completion import Choice, Prepared, joined, prepare
from circuit_exec.server.fields.completion import CompletionFields
from circuit_exec.server.routing import STREAMED, BodyRoute, Head, new_head, note, note_refusal, served_of
from circuit_exec.server.running import Running, failure_of, running, unless_gone
from circuit_exec.server.served import Served
from circuit_exec.server.stream import EventStream
from circuit_exec.server.usage import usage_of

router = APIRouter(route_class=BodyRoute)
Part = tuple[str, TextLogprobs | None]


@router.post("/v1/completions", response_model=TextAnswer, responses=STREAMED)
async def completions(fields: CompletionFields, http: HttpRequest) -> Response:
    """Continue texts; with `stream`, as server-sent events. `echo` with `logprobs` scores the prompt's tokens too."""
    served = served_of(http)
    note(http, prompt=fields.prompt)
    prepared = await asyncio.to_thread(prepare, served, fields)
    head = new_head(served, "cmpl")
    async with AsyncExitStack() as stack:
        run = await stack.enter_async_context(running(served, prepared.requests, "prompt"))
        if fields.stream:
            with_usage = fields.stream_options is not None and bool(fields.stream_options.include_usage)
            events = _events(http, served, prepared, run, head, with_usage)
            return EventStream(events, stack.pop_all(), lambda refusal: note_refusal(http, refusal))
        answer = await unless_gone(http, _whole(served, prepared, run, head))
        assert answer.usage is not None
        note(http, **answer.usage.model_dump(include={"prompt_tokens", "completion_tokens"}))
        return Response(answer.model_dump_json(), media_type="application/json")


async def _parts(served: Served, prepared: Prepared, run: Running) -> AsyncIterator[tuple[int, Part, Ended | None]]:
    """What each choice adds, by its index over all prompts; the last part of one with its end."""
    n = prepared.requests[0].n
    growing = [Choice(served, prepared, request.prompt) for request in prepared.requests for _ in range(n)]
    scored = prepared.echo and prepared.n_top is not None
    if prepared.echo and not scored:
        for index, choice in enumerate(growing):
            yield index, choice.echo(()), None
    async for place, event in _prompts_first(run, scored):
        index = place * n + event.choice
        match event:
            case PromptScored():
                for each in range(place * n, place * n + n):
                    yield each, growing[each].echo(event.scored), None
            case Token():
                yield index, growing[index].feed(event), None
            case Ended():
                if (failure := failure_of(event)) is not None:
                    raise failure
                text, logprobs = growing[index].finish()
                yield index, (text, logprobs), event
            case _:
                raise AssertionError(f"an event that no completion has: {event}")


async def _prompts_first(run: Running, scored: bool) -> AsyncIterator[tuple[int, Event]]:
    """The events; where a prompt is scored, nothing of its choices before that, but a failure."""
    known = set[int]()
    waiting: dict[int, list[Event]] = {}
    async for place, event in run.events():
        if not scored or place in known or (isinstance(event, Ended) and failure_of(event) is not None):
            yield place, event
        elif isinstance(event, PromptScored):
            known.add(place)
            for each in (event, *waiting.pop(place, [])):
                yield place, each
        else:
            waiting.setdefault(place, []).append(event)


async def _whole(served: Served, prepared: Prepared, run: Running, head: Head) -> TextAnswer:
    n = prepared.requests[0].n
    parts: list[list[Part]] = [[] for _ in range(n * len(prepared.requests))]
    ends: dict[int, Ended] = {}
    async for index, part, end in _parts(served, prepared, run):
        parts[index].append(part)
        if end is not None:
            ends[index] = end
    choices = [
        joined(index, each, "length" if ends[index].reason == "length" else "stop") for index, each in enumerate(parts)
    ]
    return TextAnswer(**head.fields(), choices=choices, usage=usage_of(_by_prompt(ends, n)))


async def _events(
    http: HttpRequest, served: Served, prepared: Prepared, run: Running, head: Head, with_usage: bool
) -> AsyncIterator[TextAnswer]:
    ends: dict[int, Ended] = {}
    async for index, (text, logprobs), end in _parts(served, prepared, run):
        if end is not None:
            ends[index] = end
        elif not text and (logprobs is None or not logprobs.tokens):
            continue
        finish: Finish | None = None if end is None else "length" if end.reason == "length" else "stop"
        choice = TextChoice(index=index, text=text, logprobs=logprobs, finish_reason=finish)
        yield TextAnswer(**head.fields(), choices=[choice])
    usage = usage_of(_by_prompt(ends, prepared.requests[0].n))
    note(http, **usage.model_dump(include={"prompt_tokens", "completion_tokens"}))
    if with_usage:
        yield TextAnswer(**head.fields(), choices=[], usage=usage)


def _by_prompt(ends: dict[int, Ended], n: int) -> list[list[ChoiceUsage]]:
    return [[ends[index].usage for index in range(first, first + n)] for first in range(0, len(ends), n)]
