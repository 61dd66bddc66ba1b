"""From what a request says to the ids of a prompt."""

import json
from collections.abc import Sequence

from circuit.errors import MetError
from circuit_exec.server.errors import refused
from circuit_exec.server.fields.chat import (
    Assistant,
    Content,
    JsonObject,
    Message,
    System,
    Tool,
    ToolCall,
    ToolResult,
    User,
)
from circuit_exec.server.served import Served
from circuit_exec.text.chat import OR_PLAIN, render_messages
from circuit_exec.text.tokenizer import encode, encode_prompt

TAKEN = ("messages", "tools", "documents", "add_generation_prompt")
"""Names of a template that the request's other fields give."""


def text_ids(served: Served, text: str, param: str) -> tuple[int, ...]:
    """The ids of a plain text from its beginning. A beginning token that the text writes itself is not doubled."""
    tokenizer = served.tokenizer
    try:
        ids = encode(tokenizer, text)
        if tokenizer.bos_id is not None and ids[:1] == [tokenizer.bos_id]:
            return tuple(ids)
        return tuple(encode_prompt(tokenizer, text))
    except MetError as error:
        problem = error.problems[0]
        fix = problem.fix.replace("use the chat template", "use /v1/chat/completions")
        raise refused(problem.message, fix, code="invalid_prompt", param=param) from error


def check_ids(served: Served, ids: Sequence[int], param: str) -> tuple[int, ...]:
    """Ids as a request gives them, each one of the vocabulary."""
    most = served.description.vocabulary
    wrong = next((id for id in ids if not 0 <= id < most), None)
    if wrong is not None:
        message = f"{wrong} is no token id, the vocabulary has {most}"
        raise refused(message, f"give ids from 0 to {most - 1}", code="invalid_prompt", param=param)
    return tuple(ids)


def prompt_list(
    served: Served, given: str | list[str] | list[int] | list[list[int]], param: str
) -> list[tuple[int, ...]]:
    """The ids of each prompt of a request that gives a text, several, the ids of one, or of several."""
    if isinstance(given, str):
        return [text_ids(served, given, param)]
    single = [each for each in given if isinstance(each, int)]
    if single:
        return [check_ids(served, single, param)]
    return [
        text_ids(served, each, param) if isinstance(each, str) else check_ids(served, each, param)
        for each in given
        if not isinstance(each, int)
    ]


def chat_ids(
    served: Served, messages: Sequence[Message], tools: Sequence[Tool] | None, names: JsonObject | None
) -> tuple[int, ...]:
    """The ids of a conversation as the model's chat template writes it, which begins it too."""
    return tuple(encode(served.tokenizer, chat_text(served, messages, tools, names)))


def chat_text(
    served: Served, messages: Sequence[Message], tools: Sequence[Tool] | None, names: JsonObject | None
) -> str:
    """The text of a conversation up to where the next answer begins."""
    template = served.tokenizer.template
    if template is None:
        message = "the model has no chat template, so how it expects messages is unknown"
        raise refused(message, "use /v1/completions with a prompt", code="no_chat_template")
    taken = next((name for name in names or {} if name in TAKEN or name in served.tokenizer.named), None)
    if taken is not None:
        message = f"the name {taken} is given by other fields or by the tokenizer"
        raise refused(message, "leave it out of chat_template_kwargs", param="chat_template_kwargs")
    rendered = [_rendered(served, message) for message in messages]
    given = None if tools is None else [_tool(tool) for tool in tools]
    try:
        return render_messages(template, served.tokenizer.named, rendered, given, names or {}, served.options.today)
    except MetError as error:
        problem = error.problems[0]
        raise refused(
            problem.message, problem.fix.removesuffix(OR_PLAIN), code="chat_template", param="messages"
        ) from error


def _rendered(served: Served, message: Message) -> JsonObject:
    """A message as templates read it: a text as `content`, the arguments of calls as objects."""
    match message:
        case System(content=content, name=name):
            return {"role": "system", "content": _text(content)} | _named(name)
        case User(content=content, name=name):
            return {"role": "user", "content": _text(content)} | _named(name)
        case Assistant(content=content, name=name, tool_calls=calls):
            if content is None and calls is None:
                message_ = "a message of the assistant has neither content nor tool_calls"
                raise refused(message_, "give one of them", param="messages")
            said: JsonObject = {"role": "assistant", "content": "" if content is None else _text(content)} | _named(
                name
            )
            return said if calls is None else said | {"tool_calls": [_call(call) for call in calls]}
        case ToolResult(content=content, tool_call_id=id, name=name):
            return {"role": "tool", "content": _text(content), "tool_call_id": id} | _named(name)


def _named(name: str | None) -> JsonObject:
    return {} if name is None else {"name": name}


def _text(content: Content) -> str:
    """One text; parts stand on lines of their own."""
    return content if isinstance(content, str) else "\n".join(part.text for part in content)


def _call(call: ToolCall) -> JsonObject:
    try:
        arguments: object = json.loads(call.function.arguments)
    except (ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        message = f"the arguments of the call {call.id[:64]} are not the JSON text of an object"
        raise refused(message, "send them back as the answer gave them", param="messages")
    return {"id": call.id, "type": "function", "function": {"name": call.function.name, "arguments": arguments}}


def _tool(tool: Tool) -> JsonObject:
    """A tool as templates write it: what is stated, and nothing else."""
    return {"type": "function", "function": tool.function.model_dump(exclude_none=True, exclude={"strict"})}
