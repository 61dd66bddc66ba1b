"""Calls are found in all three formats, however the text comes; what is no call stays text."""

import json
from collections.abc import Callable

import pytest

from circuit_exec.server.tools.formats import BARE, FORMATS, LISTED, TAGGED, ToolFormat, format_of, new_id
from circuit_exec.server.tools.parse import CallParser

F = '{"name": "f", "arguments": {"a": 1}}'
G = '{"name": "g", "arguments": {}}'
ONE = ("f", '{"a": 1}')
TWO = ("g", "{}")
Cut = Callable[[str], list[str]]
CUTS: dict[str, Cut] = {
    "whole": lambda text: [text],
    "characters": list,
    "threes": lambda text: [text[at : at + 3] for at in range(0, len(text), 3)],
}


def parsed(format: ToolFormat, pieces: list[str]) -> tuple[str, list[tuple[str, str]]]:
    parser = CallParser(format, ["f", "g"])
    said = [*map(parser.feed, pieces), parser.finish()]
    return "".join(each.text for each in said), [(c.name, c.arguments) for each in said for c in each.calls]


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize(
    ("format", "text", "left", "calls"),
    [
        (TAGGED, f"<tool_call>\n{F}\n</tool_call>", "", [ONE]),
        (TAGGED, f"so: <tool_call>\n{F}\n</tool_call>\n<tool_call>\n{G}\n</tool_call>\n", "so: ", [ONE, TWO]),
        (TAGGED, f"<tool_call>{F}</tool_call> then", "then", [ONE]),
        (TAGGED, "a < b <tool_call>no</tool_call> c", "a < b <tool_call>no</tool_call> c", []),
        (TAGGED, '<tool_call>{"name": "h", "arguments": {}}</tool_call>', None, []),
        (TAGGED, '<tool_call>{"name": "f", "arguments": "{}"}</tool_call>', None, []),
        (TAGGED, '<tool_call>\n{"name": "f", "argu', None, []),
        (TAGGED, "plain", None, []),
        (TAGGED, "", None, []),
        (LISTED, f"[TOOL_CALLS] [{F}, {G}]", "", [ONE, TWO]),
        (LISTED, f"[TOOL_CALLS][{F}]", "", [ONE]),
        (LISTED, f"[TOOL_CALLS] [{F}", None, []),
        (LISTED, '[TOOL_CALLS] [{"name": "h"}]', None, []),
        (LISTED, "[TOOL] x", None, []),
        (BARE, '{"name": "f", "parameters": {"a": 1}}', "", [ONE]),
        (BARE, '{"name": "f", "parameters": {"a": 1}}; {"name": "g", "parameters": {}}', "", [ONE, TWO]),
        (BARE, '<|python_tag|>{"name": "g", "parameters": {}}', "", [TWO]),
        (BARE, '{"name": 3}', None, []),
        (BARE, '{"a": 1} and more', None, []),
        (BARE, "so {", None, []),
    ],
)
def test_calls_leave_the_text(cut: str, format: ToolFormat, text: str, left: str | None, calls: list[object]) -> None:
    assert parsed(format, CUTS[cut](text)) == (text if left is None else left, calls)


def test_text_before_a_call_leaves_at_once() -> None:
    parser = CallParser(TAGGED, ["f"])
    assert parser.feed("look: <b").text == "look: <b"
    assert parser.feed("<tool").text == ""
    assert parser.feed("s>").text == "<tools>"


def test_a_call_has_an_id_as_its_template_wants_it() -> None:
    assert len(new_id(LISTED)) == 9
    assert new_id(LISTED).isalnum()
    assert new_id(TAGGED).startswith("call_")
    assert new_id(TAGGED) != new_id(TAGGED)


QWEN = 'tools <tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>'
LLAMA = '<|start_header_id|> tools Respond in the format {"name": function name, "parameters": dictionary}.'
MISTRAL = "{%- if tools %}[AVAILABLE_TOOLS] [TOOL_CALLS] {{ tool_call.function|tojson }}"


@pytest.mark.parametrize(
    ("template", "format"),
    [
        (QWEN, TAGGED),
        (LLAMA, BARE),
        (MISTRAL, LISTED),
        ("{{ messages }}", None),
        (QWEN + "<function=f>", None),
        (MISTRAL + "[ARGS]", None),
        ("tools as python code", None),
    ],
)
def test_a_template_tells_how_calls_are_written(template: str, format: ToolFormat | None) -> None:
    assert format_of(template) == format


def test_no_template_has_the_marks_of_two_formats() -> None:
    for template in (QWEN, LLAMA, MISTRAL):
        fitting = [
            each.name
            for each in FORMATS
            if all(mark in template for mark in each.in_template)
            and not any(mark in template for mark in each.not_in_template)
        ]
        assert len(fitting) == 1


def test_arguments_keep_their_order_and_their_characters() -> None:
    text = '<tool_call>{"name": "f", "arguments": {"b": "é", "a": [1, 2.5]}}</tool_call>'
    _, [(_, arguments)] = parsed(TAGGED, [text])
    assert arguments == '{"b": "é", "a": [1, 2.5]}'
    assert list(json.loads(arguments)) == ["b", "a"]
