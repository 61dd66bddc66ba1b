"""A chat request on its way to the engine, and its choices while they grow."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from circuit_exec.engine.request import Ended, Request, Token
from circuit_exec.server.answers import Finish
from circuit_exec.server.choice_text import ChoiceText, Grown, Placed
from circuit_exec.server.errors import refused
from circuit_exec.server.fields.chat import AnyObject, ChatFields, ChosenTool, OfSchema, Tool
from circuit_exec.server.prompts import chat_ids
from circuit_exec.server.sampling import check_model, check_stream, choices_of, engine_request, room, seed_of, stops_of
from circuit_exec.server.served import Served
from circuit_exec.server.stops import StopText
from circuit_exec.server.tools.formats import Call, ToolFormat
from circuit_exec.server.tools.grammar import calls_grammar
from circuit_exec.server.tools.parse import CallParser, parser_view
from circuit_exec.text.stream import start_text
from circuit_exec.text.tokenizer import Tokenizer

ANY_OBJECT: Mapping[str, object] = {"type": "object"}


class Prepared(Struct, frozen=True, kw_only=True, eq=False):
    """`view` is the tokenizer as answers are read with; `names` are the functions that may be called, none where no
    calls are looked for.
    """

    request: Request
    view: Tokenizer
    stops: tuple[str, ...]
    names: tuple[str, ...]
    tools: ToolFormat | None
    logprobs: bool


def prepare(served: Served, fields: ChatFields) -> Prepared:
    """Everything of a request that can be refused, before the engine sees it. Slow: not for the event loop."""
    check_model(served, fields.model)
    check_stream(fields)
    if fields.top_logprobs is not None and not fields.logprobs:
        fix = "set logprobs to true, or leave it out"
        raise refused("top_logprobs is given without logprobs", fix, param="top_logprobs")
    tools, format = _tools(served, fields)
    grammar = _grammar(served, fields, tools, format)
    prompt = chat_ids(served, fields.messages, tools or None, fields.chat_template_kwargs)
    max_tokens = room(served, len(prompt), _asked(fields), "messages")
    view = served.tokenizer if format is None else parser_view(served.tokenizer, format)
    stops = stops_of(fields)
    watches = []
    if grammar is not None or stops:
        for _ in range(choices_of(fields)):
            stop = StopText(stops) if stops else None
            watches.append(served.guides.watch(grammar, stop, start_text(view)))
    n_logprobs = (fields.top_logprobs or 0) if fields.logprobs else None
    return Prepared(
        request=engine_request(served, fields, seed_of(fields), prompt, max_tokens, n_logprobs, watches, False),
        view=view,
        stops=stops,
        names=tuple(tool.function.name for tool in tools),
        tools=format,
        logprobs=bool(fields.logprobs),
    )


class Delta(Struct, frozen=True, kw_only=True):
    """What a choice has more: text, calls, tokens."""

    text: str
    calls: tuple[Call, ...]
    tokens: tuple[Placed, ...]


class Choice:
    """One answer while it grows."""

    def __init__(self, prepared: Prepared) -> None:
        self._text = ChoiceText(start_text(prepared.view), prepared.stops)
        self._parser = None if prepared.tools is None else CallParser(prepared.tools, prepared.names)
        self._called = False

    def feed(self, token: Token) -> Delta:
        """One more token."""
        return self._delta(self._text.feed(token))

    def finish(self, ended: Ended) -> tuple[Delta, Finish]:
        """What is left, and why the answer ends."""
        delta = self._delta(self._text.finish())
        if self._parser is not None:
            last = self._parser.finish()
            self._called = self._called or bool(last.calls)
            delta = Delta(text=delta.text + last.text, calls=delta.calls + last.calls, tokens=delta.tokens)
        return delta, "length" if ended.reason == "length" else "tool_calls" if self._called else "stop"

    def _delta(self, grown: Grown) -> Delta:
        if self._parser is None:
            return Delta(text=grown.text, calls=(), tokens=grown.tokens)
        said = self._parser.feed(grown.text)
        self._called = self._called or bool(said.calls)
        return Delta(text=said.text, calls=said.calls, tokens=grown.tokens)


def _asked(fields: ChatFields) -> int | None:
    older, newer = fields.max_tokens, fields.max_completion_tokens
    if older is not None and newer is not None and older != newer:
        message = f"max_tokens is {older}, but max_completion_tokens is {newer}"
        raise refused(message, "give one of the two", param="max_tokens")
    return older if newer is None else newer


def _tools(served: Served, fields: ChatFields) -> tuple[Sequence[Tool], ToolFormat | None]:
    """The functions that the model is told of, and how it writes calls of them."""
    choice, tools = fields.tool_choice, fields.tools or []
    if not tools:
        if choice not in (None, "none"):
            raise refused("tool_choice is given without tools", "give tools, or leave it out", param="tool_choice")
        return [], None
    names = [tool.function.name for tool in tools]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise refused(f"two tools are called {twice}", "give each another name", param="tools")
    if isinstance(choice, ChosenTool) and choice.function.name not in names:
        message = f"tool_choice names {choice.function.name}, which is none of the tools"
        raise refused(message, f"name one of {', '.join(names)}", param="tool_choice")
    if choice == "none":
        return [], None
    if served.tools is None:
        message = "the model's chat template takes no tools, or has calls written in a way that is not known"
        fix = "leave tools out, or serve a model with the template of Qwen2.5, Qwen3, Llama 3.1 or Mistral v0.3"
        raise refused(message, fix, code="unsupported_parameter", param="tools")
    return tools, served.tools


def _grammar(served: Served, fields: ChatFields, tools: Sequence[Tool], format: ToolFormat | None) -> str | None:
    """What restricts the answer: a schema, or calls that must be made."""
    choice = fields.tool_choice
    schema = _schema(fields)
    if schema is not None and tools:
        message = "response_format restricts the answer to JSON, so no tool could be called"
        raise refused(message, 'leave one out, or set tool_choice to "none"', param="response_format")
    if schema is not None:
        return served.guides.of_schema(schema, "response_format")
    if format is None or choice in (None, "auto"):
        return None
    wanted = [
        tool for tool in tools if not isinstance(choice, ChosenTool) or tool.function.name == choice.function.name
    ]
    several = choice == "required" and fields.parallel_tool_calls is not False
    return served.guides.of_lark(calls_grammar(format, wanted, served.tokenizer.controls, several), "tools")


def _schema(fields: ChatFields) -> Mapping[str, object] | None:
    match fields.response_format:
        case AnyObject():
            return ANY_OBJECT
        case OfSchema(json_schema=named):
            if named.schema_ is None:
                message = "response_format has no schema"
                raise refused(message, "give json_schema.schema", param="response_format")
            return named.schema_
        case _:
            return None
