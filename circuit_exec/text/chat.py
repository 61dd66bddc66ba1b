"""Chat templates: the Jinja program of a model that writes messages as one text.

The environment is that of apply_chat_template in transformers 5.24.0 (utils/chat_template_utils.py): immutable
sandbox, trim_blocks, lstrip_blocks, loop controls, its tojson and raise_exception, the {% generation %} block. One
thing differs: strftime_now gives the date that the caller states, because a text must not depend on the clock.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Literal, NoReturn

from msgspec import Struct

from circuit.errors import LoadError, MetError, Problem, RunError

if TYPE_CHECKING:
    from jinja2 import Environment, Template


OR_PLAIN = ", or run with --no-chat"
"""What a command can do besides; a server cannot."""


class ChatTemplate(Struct, frozen=True, kw_only=True):
    """The program, the file it stands in, and its key there; None where the file is the program."""

    text: str
    file: str
    key: str | None


class Message(Struct, frozen=True, kw_only=True):
    """What one side said."""

    role: Literal["system", "user", "assistant"]
    content: str


def render_chat(
    template: ChatTemplate, named: Mapping[str, str], messages: Sequence[Message], today: date | None
) -> str:
    """The text of a conversation up to where the assistant's next answer begins.

    `named` has the texts of bos_token, eos_token, …; `today` is the date for templates that write one.
    """
    chat = [{"role": message.role, "content": message.content} for message in messages]
    return render_messages(template, named, chat, None, {}, today)


def render_messages(
    template: ChatTemplate,
    named: Mapping[str, str],
    messages: Sequence[Mapping[str, object]],
    tools: Sequence[Mapping[str, object]] | None,
    names: Mapping[str, object],
    today: date | None,
) -> str:
    """The same of messages with all that a template may read of them: calls of tools, their results, names.

    `names` are further names that a template knows, such as enable_thinking.
    """
    from jinja2 import TemplateError

    program = _compile(template, today)
    given = {"messages": messages, "tools": tools, "documents": None, "add_generation_prompt": True}
    try:
        return program.render(**{**names, **named, **given})
    except MetError:
        raise
    except (
        TemplateError,
        TypeError,
        ValueError,
        LookupError,
        AttributeError,
        ArithmeticError,
        RecursionError,
    ) as error:
        raise RunError(
            Problem(
                message=f"the chat template{_at(template, _line_of(error))} refuses the messages: {error}",
                fix=f"change the messages as it says{OR_PLAIN}",
                file=template.file,
                line=_line_of(error) if template.key is None else None,
            )
        ) from error


def require_template(template: ChatTemplate | None, file: str) -> ChatTemplate:
    """The template, or an error for a model that has none."""
    if template is None:
        raise RunError(
            Problem(
                message="the model has no chat template, so how it expects messages is unknown",
                fix="run with --no-chat to continue the prompt as plain text",
                file=file,
            )
        )
    return template


def _compile(template: ChatTemplate, today: date | None) -> "Template":
    from jinja2 import TemplateSyntaxError

    try:
        return _environment(template, today).from_string(template.text)
    except TemplateSyntaxError as error:
        raise LoadError(
            Problem(
                message=f"the chat template{_at(template, error.lineno)} is not a Jinja template: {error.message}",
                fix=f"correct the template{OR_PLAIN}",
                file=template.file,
                line=error.lineno if template.key is None else None,
                excerpt=_excerpt(template.text, error.lineno),
            )
        ) from error


def _environment(template: ChatTemplate, today: date | None) -> "Environment":
    from jinja2 import TemplateError, nodes
    from jinja2.exceptions import SecurityError
    from jinja2.ext import Extension, loopcontrols
    from jinja2.parser import Parser
    from jinja2.runtime import Macro
    from jinja2.sandbox import ImmutableSandboxedEnvironment
    from jinja2.utils import Namespace

    class GenerationBlock(Extension):
        """{% generation %} marks what the assistant wrote, for training; its content is rendered as it is."""

        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser: Parser) -> nodes.Node:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return nodes.CallBlock(self.call_method("_content"), [], [], body).set_lineno(line)

        def _content(self, caller: Macro) -> str:
            return caller()

    class GuardedNamespace(Namespace):
        def __init__(self, /, *pairs: Mapping[str, object], **named: object) -> None:
            super().__init__()
            for name, value in dict(*pairs, **named).items():
                self[name] = value

        def __setitem__(self, name: str, value: object) -> None:
            if name.startswith("_"):
                raise SecurityError(f"a namespace cannot store the name {name}")
            super().__setitem__(name, value)

    def raise_exception(message: str) -> NoReturn:
        raise TemplateError(message)

    def strftime_now(format: str) -> str:
        if today is None:
            raise RunError(
                Problem(
                    message="the chat template writes the current date, so the answer would depend on the day",
                    fix=f"state the date with --date YYYY-MM-DD{OR_PLAIN}",
                    file=template.file,
                )
            )
        return today.strftime(format)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationBlock, loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    environment.globals |= {
        "raise_exception": raise_exception,
        "strftime_now": strftime_now,
        "namespace": GuardedNamespace,
        "dict": lambda *pairs, **named: dict(*pairs, **named),
    }
    return environment


def _tojson(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as it is, without the HTML escapes of Jinja's own filter."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _line_of(error: Exception) -> int | None:
    """The template line that failed: Jinja puts it into the traceback, under this file name."""
    line = None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<template>":
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _at(template: ChatTemplate, line: int | None) -> str:
    """Where in a file that holds more than the template: its key, and the line inside it."""
    if template.key is None:
        return ""
    return f" ({template.key})" if line is None else f" ({template.key}, line {line} of it)"


def _excerpt(text: str, line: int) -> str | None:
    lines = text.splitlines()
    return lines[line - 1].strip()[:120] if 0 < line <= len(lines) else None
