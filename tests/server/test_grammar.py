"""Grammars restrict the ids that may come; what a schema asks for and is not known is refused by its name."""

import json
import random
from collections.abc import Sequence

import numpy as np
import pytest

from circuit_exec.server.errors import Refused
from circuit_exec.server.fields.chat import Tool
from circuit_exec.server.grammar import Guides, Watch
from circuit_exec.server.stops import StopText
from circuit_exec.server.tools.formats import BARE, FORMATS, LISTED, TAGGED, ToolFormat
from circuit_exec.server.tools.grammar import calls_grammar
from circuit_exec.server.tools.parse import CallParser
from circuit_exec.text.stream import start_text
from circuit_exec.text.tokenizer import Tokenizer, decode

STOP_ID = 274
POINT = {
    "type": "object",
    "properties": {"x": {"type": "integer", "minimum": 0, "maximum": 99}, "on": {"type": "boolean"}},
    "required": ["x", "on"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def guides(tokenizer: Tokenizer) -> Guides:
    return Guides(tokenizer, [STOP_ID])


def walk(watch: Watch, draw: random.Random, most: int = 400) -> list[int]:
    """Ids drawn among those that may come, until the end."""
    ids: list[int] = []
    while not watch.finished() and len(ids) < most:
        mask = watch.mask()
        assert mask is not None
        allowed = np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))
        id = int(draw.choice(list(allowed)))
        watch.accept(id)
        if id == STOP_ID:
            break
        ids.append(id)
    return ids


@pytest.mark.parametrize("seed", range(5))
def test_whatever_is_drawn_fits_the_schema(guides: Guides, tokenizer: Tokenizer, seed: int) -> None:
    grammar = guides.of_schema(POINT, "response_format")
    ids = walk(guides.watch(grammar, None, start_text(tokenizer)), random.Random(seed))
    made = json.loads(decode(tokenizer, ids))
    assert set(made) == {"x", "on"}
    assert 0 <= made["x"] <= 99
    assert isinstance(made["on"], bool)


def test_the_mask_has_a_bit_for_each_id_and_the_end_only_when_the_text_is_whole(
    guides: Guides, tokenizer: Tokenizer
) -> None:
    watch = guides.watch(guides.of_schema({"const": 12}, "response_format"), None, start_text(tokenizer))
    for id, ends in ((ord("1"), False), (ord("2"), False)):
        mask = watch.mask()
        assert mask is not None
        bits = np.unpackbits(mask.view(np.uint8), bitorder="little")
        assert bits[tokenizer.n_tokens :].sum() == 0
        assert bool(bits[STOP_ID]) == ends
        assert bits[id]
        watch.accept(id)
    assert watch.finished()


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "nothing"}, "Invalid type: nothing"),
        ({"type": "object", "if": {}}, 'Unimplemented keys: ["if"]'),
        ({"$ref": "#/$defs/z"}, "Pointer '/$defs/z' does not exist"),
        ({"$ref": "http://127.0.0.1:9/x"}, "does not fetch resources"),
        ({"type": "string", "pattern": "a(?=b)"}, "look-around"),
    ],
)
def test_a_schema_that_cannot_hold_is_refused(guides: Guides, schema: object, reason: str) -> None:
    with pytest.raises(Refused) as caught:
        guides.of_schema(schema, "response_format")
    said = str(caught.value)
    assert said.startswith("the JSON schema cannot hold here: ")
    assert reason in said
    assert said.endswith("; change the schema so that it does without")
    assert (caught.value.refusal.param, caught.value.refusal.code) == ("response_format", "invalid_schema")


TOOLS = [
    Tool.model_validate({"type": "function", "function": {"name": "f", "parameters": POINT}}),
    Tool.model_validate({"type": "function", "function": {"name": "g"}}),
]


@pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.name)
@pytest.mark.parametrize("several", [False, True])
def test_whatever_is_drawn_is_calls(guides: Guides, tokenizer: Tokenizer, format: ToolFormat, several: bool) -> None:
    grammar = guides.of_lark(calls_grammar(format, TOOLS, tokenizer.controls, several), "tools")
    for seed in range(3):
        ids = walk(guides.watch(grammar, None, start_text(tokenizer)), random.Random(seed))
        calls = called(format, decode(tokenizer, ids))
        assert calls
        assert several or len(calls) == 1
        assert all(arguments == {} for name, arguments in calls if name == "g")
        assert all(set(arguments) == {"x", "on"} for name, arguments in calls if name == "f")


def called(format: ToolFormat, text: str) -> Sequence[tuple[str, dict[str, object]]]:
    parser = CallParser(format, ["f", "g"])
    first, last = parser.feed(text), parser.finish()
    assert first.text + last.text == ""
    return [(call.name, json.loads(call.arguments)) for call in (*first.calls, *last.calls)]


def test_marks_that_are_control_tokens_are_written_as_those() -> None:
    assert "<[7]>" in calls_grammar(LISTED, TOOLS, {7: "[TOOL_CALLS]"}, False)
    assert "<[" not in calls_grammar(TAGGED, TOOLS, {7: "[TOOL_CALLS]"}, False)
    assert "python_tag" not in calls_grammar(BARE, TOOLS, {}, True)


def test_a_watch_for_a_stop_text_ends_a_choice_and_masks_nothing(guides: Guides, tokenizer: Tokenizer) -> None:
    watch = guides.watch(None, StopText(["the"]), start_text(tokenizer))
    for id, ended in ((ord("t"), False), (ord("h"), False), (ord("e"), True)):
        assert watch.mask() is None
        watch.accept(id)
        assert watch.finished() == ended
