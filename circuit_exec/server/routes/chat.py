"""POST /v1/chat/completions."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from circuit_exec.engine.request import Ended, Token
from circuit_exec.engine.request import Usage as ChoiceUsage
from circuit_exec.server.answers import (
    CallAnswer,
    CallDelta,
    ChatAnswer,
    ChatChoice,
    ChatChunk,
    ChatDelta,
    ChatDeltaChoice,
    ChatLogprobs,
    ChatMessage,
    FunctionText,
)
from circuit_exec.server.chat import Choice, Delta, Prepared, prepare
from circuit_exec.server.choice_text import Placed
from circuit_exec.server.fields.chat import ChatFields
from circuit_exec.server.logprobs import chat_logprobs
from circuit_exec.server.routing import STREAMED, BodyRoute, Head, new_head, note, note_refusal, served_of
from circuit_exec.server.running import Running, failure_of, running, unless_gone
from circuit_exec.server.served import Served
from circuit_exec.server.stream import EventStream
from circuit_exec.server.tools.formats import Call
from circuit_exec.server.usage import usage_of

router = APIRouter(route_class=BodyRoute)


@router.post("/v1/chat/completions", response_model=ChatAnswer, responses=STREAMED)
async def chat_completions(fields: ChatFields, http: HttpRequest) -> Response:
    """Answer a conversation; with `stream`, as server-sent events of chat.completion.chunk."""
    served = served_of(http)
    note(http, prompt=[message.model_dump(exclude_none=True) for message in fields.messages])
    prepared = await asyncio.to_thread(prepare, served, fields)
    head = new_head(served, "chatcmpl")
    async with AsyncExitStack() as stack:
        run = await stack.enter_async_context(running(served, [prepared.request], "messages"))
        if fields.stream:
            with_usage = fields.stream_options is not None and bool(fields.stream_options.include_usage)
            events = _events(http, served, prepared, run, head, with_usage)
            return EventStream(events, stack.pop_all(), lambda refusal: note_refusal(http, refusal))
        answer = await unless_gone(http, _whole(served, prepared, run, head))
        note(http, **answer.usage.model_dump(include={"prompt_tokens", "completion_tokens"}))
        return Response(answer.model_dump_json(), media_type="application/json")


async def _whole(served: Served, prepared: Prepared, run: Running, head: Head) -> ChatAnswer:
    n = prepared.request.n
    growing = [Choice(prepared) for _ in range(n)]
    deltas: list[list[Delta]] = [[] for _ in range(n)]
    choices: dict[int, ChatChoice] = {}
    usages: dict[int, ChoiceUsage] = {}
    async for _, event in run.events():
        match event:
            case Token(choice=index):
                deltas[index].append(growing[index].feed(event))
            case Ended(choice=index):
                if (failure := failure_of(event)) is not None:
                    raise failure
                last, finish = growing[index].finish(event)
                deltas[index].append(last)
                usages[index] = event.usage
                message = _message(deltas[index])
                logprobs = _logprobs(served, prepared, [t for delta in deltas[index] for t in delta.tokens])
                choices[index] = ChatChoice(index=index, message=message, logprobs=logprobs, finish_reason=finish)
    return ChatAnswer(
        **head.fields(), choices=[choices[index] for index in range(n)], usage=usage_of([list(usages.values())])
    )


def _message(deltas: list[Delta]) -> ChatMessage:
    text = "".join(delta.text for delta in deltas)
    calls = [_call(call) for delta in deltas for call in delta.calls]
    return ChatMessage(content=None if calls and not text else text, tool_calls=calls or None)


def _call(call: Call) -> CallAnswer:
    return CallAnswer(id=call.id, function=FunctionText(name=call.name, arguments=call.arguments))


def _logprobs(served: Served, prepared: Prepared, tokens: list[Placed]) -> ChatLogprobs | None:
    return chat_logprobs(served.tokenizer, tokens) if prepared.logprobs else None


async def _events(
    http: HttpRequest, served: Served, prepared: Prepared, run: Running, head: Head, with_usage: bool
) -> AsyncIterator[ChatChunk]:
    """The role of each choice, its pieces, its end; then the usage where it is asked for."""
    n = prepared.request.n
    growing = [Choice(prepared) for _ in range(n)]
    n_calls = [0] * n
    usages: dict[int, ChoiceUsage] = {}
    for index in range(n):
        first = ChatDelta(role="assistant", content="")
        yield ChatChunk(**head.fields(), choices=[ChatDeltaChoice(index=index, delta=first)])
    async for _, event in run.events():
        match event:
            case Token(choice=index):
                delta = growing[index].feed(event)
            case Ended(choice=index):
                if (failure := failure_of(event)) is not None:
                    raise failure
                delta, finish = growing[index].finish(event)
                usages[index] = event.usage
            case _:
                continue
        if delta.text or delta.calls or (prepared.logprobs and delta.tokens):
            calls = [
                CallDelta(index=n_calls[index] + place, **_call(call).model_dump())
                for place, call in enumerate(delta.calls)
            ]
            n_calls[index] += len(calls)
            added = ChatDelta(content=delta.text or None, tool_calls=calls or None)
            logprobs = _logprobs(served, prepared, list(delta.tokens))
            yield ChatChunk(**head.fields(), choices=[ChatDeltaChoice(index=index, delta=added, logprobs=logprobs)])
        if isinstance(event, Ended):
            end = ChatDeltaChoice(index=index, delta=ChatDelta(), finish_reason=finish)
            yield ChatChunk(**head.fields(), choices=[end])
    usage = usage_of([list(usages.values())])
    note(http, **usage.model_dump(include={"prompt_tokens", "completion_tokens"}))
    if with_usage:
        yield ChatChunk(**head.fields(), choices=[], usage=usage)
