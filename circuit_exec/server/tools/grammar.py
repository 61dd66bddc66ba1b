"""The grammar of an answer that must be calls of tools, in the model's own format."""

import json
from collections.abc import Mapping, Sequence

from circuit_exec.server.fields.chat import Tool
from circuit_exec.server.tools.formats import ToolFormat

NO_ARGUMENTS: Mapping[str, object] = {"type": "object", "properties": {}, "additionalProperties": False}


def calls_grammar(format: ToolFormat, tools: Sequence[Tool], controls: Mapping[int, str], several: bool) -> str:
    """Lark for one call, or for one or more. Marks that are control tokens of the tokenizer are written as those."""
    more = f"({_text(format.separator)} call)*" if several else ""
    opening = _mark(format.opening, controls)
    match format.kind:
        case "tagged":
            start = f"tagged ({_text(format.separator)} tagged)*" if several else "tagged"
            rules = [f"tagged: {opening} {_text(chr(10))} call {_text(chr(10))} {_mark(format.closing, controls)}"]
        case "listed":
            start, rules = f'{opening} " "? "[" call {more} "]"', []
        case "bare":
            start, rules = f"call {more}", []
    names = [f"call_{n}" for n in range(len(tools))]
    objects = [f"{name}: %json {json.dumps(_object(format, tool))}" for name, tool in zip(names, tools, strict=True)]
    return "\n".join([f"start: {start}", *rules, f"call: {' | '.join(names)}", *objects, ""])


def _object(format: ToolFormat, tool: Tool) -> dict[str, object]:
    parameters = tool.function.parameters
    return {
        "type": "object",
        "properties": {
            "name": {"const": tool.function.name},
            format.arguments: dict(NO_ARGUMENTS) if parameters is None else parameters,
        },
        "required": ["name", format.arguments],
        "additionalProperties": False,
        "x-guidance": {"whitespace_pattern": r"[\x20\x0A\x09]{0,40}"},
    }


def _mark(text: str, controls: Mapping[int, str]) -> str:
    id = next((id for id, name in controls.items() if name == text), None)
    return _text(text) if id is None else f"<[{id}]>"


def _text(text: str) -> str:
    return json.dumps(text)
