"""How models write calls of tools, known by what their chat templates say.

Sources: the chat templates of Qwen2.5 and Qwen3 (`<tool_call>`, after Hermes 2 Pro), of Llama 3.1 to 3.3 (an object
with `name` and `parameters`), and of Mistral 7B Instruct v0.3 (`[TOOL_CALLS]` and a list).
"""

import json
import secrets
import string
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

Kind = Literal["tagged", "bare", "listed"]


class ToolFormat(Struct, frozen=True, kw_only=True):
    """`opening` begins what is no text for the reader; `closing` ends one call where `kind` is tagged.

    tagged: opening, object, closing, for each call; bare: the answer is the object, or several with `separator`;
    listed: opening, then a list of objects. `arguments` is the key of the arguments beside `name`.
    `in_template` are texts that a template with this format has, `not_in_template` that it has not.
    `id_length`: letters and digits of a call's id, where the template insists on a length.
    """

    name: str
    kind: Kind
    opening: str
    closing: str
    separator: str
    arguments: str
    in_template: tuple[str, ...]
    not_in_template: tuple[str, ...] = ()
    id_length: int | None = None


TAGGED = ToolFormat(
    name="hermes",
    kind="tagged",
    opening="<tool_call>",
    closing="</tool_call>",
    separator="\n",
    arguments="arguments",
    in_template=("<tool_call>", '"arguments"'),
    not_in_template=("<function=", "[TOOL_CALLS]"),
)
LISTED = ToolFormat(
    name="mistral",
    kind="listed",
    opening="[TOOL_CALLS]",
    closing="",
    separator=", ",
    arguments="arguments",
    in_template=("[TOOL_CALLS]",),
    not_in_template=("[ARGS]", "[CALL_ID]"),
    id_length=9,
)
BARE = ToolFormat(
    name="llama3",
    kind="bare",
    opening="<|python_tag|>",
    closing="",
    separator="; ",
    arguments="parameters",
    in_template=('"parameters"', "<|start_header_id|>", "tools"),
    not_in_template=("<tool_call>", "[TOOL_CALLS]"),
)
FORMATS = (TAGGED, LISTED, BARE)
"""In the order in which they are tried; no template has the marks of two."""


class Call(Struct, frozen=True, kw_only=True):
    """A call that a model wrote: `arguments` is the JSON text of an object."""

    id: str
    name: str
    arguments: str


def format_of(template: str) -> ToolFormat | None:
    """The format that a chat template asks the model for; None where it takes no tools, or writes them otherwise."""
    if "tools" not in template:
        return None
    return next(
        (
            each
            for each in FORMATS
            if all(mark in template for mark in each.in_template)
            and not any(mark in template for mark in each.not_in_template)
        ),
        None,
    )


def call_of(format: ToolFormat, value: object, names: Sequence[str]) -> Call | None:
    """A call as the model wrote it, or None where it is none: no such function, no object of arguments."""
    match value:
        case {"name": str(name), format.arguments: dict(arguments)} if name in names:
            return Call(id=new_id(format), name=name, arguments=json.dumps(arguments, ensure_ascii=False))
        case _:
            return None


def new_id(format: ToolFormat) -> str:
    """The id of a call, which the client sends back with its result."""
    letters = string.ascii_letters + string.digits
    if format.id_length is not None:
        return "".join(secrets.choice(letters) for _ in range(format.id_length))
    return "call_" + "".join(secrets.choice(letters) for _ in range(24))
