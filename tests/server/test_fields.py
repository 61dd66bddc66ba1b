"""Unknown fields are refused by name, fields that do nothing here take their neutral value only, types are exact."""

import pytest
from pydantic import ValidationError

from circuit_exec.server.errors import Refusal
from circuit_exec.server.fields.base import Fields
from circuit_exec.server.fields.chat import ChatFields
from circuit_exec.server.fields.completion import CompletionFields
from circuit_exec.server.fields.other import EmbeddingFields
from circuit_exec.server.validation import details_of, refusal_of

USER = {"role": "user", "content": "x"}
CHAT: dict[str, object] = {"model": "m", "messages": [USER]}
TEXT: dict[str, object] = {"model": "m", "prompt": "x"}


def refusal(kind: type[Fields], body: object) -> Refusal:
    with pytest.raises(ValidationError) as caught:
        kind.model_validate(body)
    return refusal_of(details_of(caught.value.errors(), outside=0), body)


@pytest.mark.parametrize(
    ("changes", "param", "code", "said"),
    [
        ({"foo": 1}, "foo", "unknown_parameter", "`foo`: the field is unknown, remove it"),
        ({"messages": [USER | {"foo": 1}]}, "messages.0.foo", "unknown_parameter", "`messages.0.foo`: "),
        ({"temperature": "1"}, "temperature", "invalid_type", "`temperature`: input should be a valid number"),
        ({"temperature": 3}, "temperature", "invalid_value", "`temperature`: input should be less than or equal to 2"),
        ({"n": True}, "n", "invalid_type", "`n`: input should be a valid integer"),
        ({"top_p": 5e-324}, "top_p", "invalid_value", "`top_p`: input should be greater than or equal to 0.000001"),
        ({"repetition_penalty": 5e-324}, "repetition_penalty", "invalid_value", "greater than or equal to 0.01"),
        ({"seed": 2**64}, "seed", "invalid_value", "`seed`: input should be less than"),
        (
            {"stop": 5},
            "stop",
            "invalid_type",
            "`stop`: input should be a valid string, or input should be a valid list",
        ),
        ({"stop": [""]}, "stop.0", "invalid_value", "`stop.0`: string should have at least 1 character"),
        ({"logit_bias": {"x": 1}}, "logit_bias.x", "invalid_value", "`logit_bias.x`: string should match"),
        ({"logit_bias": {"1": 101}}, "logit_bias.1", "invalid_value", "`logit_bias.1`: input should be less"),
        ({"messages": []}, "messages", "invalid_value", "`messages`: list should have at least 1 item"),
        ({"messages": [{"role": "function"}]}, "messages.0", "invalid_value", "`messages.0`: input tag 'function'"),
        ({"messages": [{"role": "user"}]}, "messages.0.content", "missing_required_parameter", "the field is missing"),
        (
            {"store": True},
            "store",
            "unsupported_parameter",
            "`store`: nothing is stored here: leave the field out, or ",
        ),
        ({"modalities": ["audio"]}, "modalities", "unsupported_parameter", "`modalities`: the models take and make"),
        ({"functions": []}, "functions", "unsupported_parameter", "`functions`: functions are given as tools"),
        ({"reasoning_effort": "high"}, "reasoning_effort", "unsupported_parameter", "`reasoning_effort`: how a model"),
        (
            {"stream_options": {"include_obfuscation": True}},
            "stream_options.include_obfuscation",
            "unsupported_parameter",
            "streams are not padded",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
            "messages.0.content.0.type",
            "invalid_value",
            "input should be 'text'",
        ),
    ],
)
def test_a_field_is_refused_by_its_name(changes: dict[str, object], param: str, code: str, said: str) -> None:
    found = refusal(ChatFields, CHAT | changes)
    assert (found.param, found.code, found.status) == (param, code, 400)
    assert said in found.message
    assert found.fix == "GET /openapi.json describes every field"


def test_all_problems_are_told_at_once() -> None:
    found = refusal(ChatFields, {"messages": [USER], "foo": 1, "n": 0})
    assert [part.split(":")[0] for part in found.message.split("; ")] == ["`model`", "`n`", "`foo`"]


def test_a_body_of_many_wrong_fields_makes_no_long_message() -> None:
    found = refusal(ChatFields, CHAT | {f"x{n}": 1 for n in range(1000)})
    assert found.message.endswith("; 992 more")
    assert len(found.message) < 1000


def test_a_body_that_is_no_object_is_refused() -> None:
    assert refusal(ChatFields, [1]).message.startswith("input should be a valid dictionary")


@pytest.mark.parametrize(
    "neutral",
    [
        {"store": False},
        {"store": None, "metadata": {}},
        {"service_tier": "auto", "modalities": ["text"], "verbosity": "medium"},
        {"messages": [USER, {"role": "assistant", "content": "y", "refusal": None, "annotations": [], "audio": None}]},
        {"user": "me", "safety_identifier": "me", "prompt_cache_key": "k"},
    ],
)
def test_a_field_that_asks_for_nothing_is_taken(neutral: dict[str, object]) -> None:
    ChatFields.model_validate(CHAT | neutral)


def test_false_is_not_zero() -> None:
    assert refusal(ChatFields, CHAT | {"store": 0}).code == "unsupported_parameter"


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"suffix": "x"}, "suffix"),
        ({"best_of": 2}, "best_of"),
        ({"prompt": [[]]}, "prompt.0"),
        ({"prompt": []}, "prompt"),
    ],
)
def test_a_completion_refuses_what_it_cannot_do(changes: dict[str, object], param: str) -> None:
    assert refusal(CompletionFields, TEXT | changes).param == param


@pytest.mark.parametrize("prompt", ["x", ["x", "y"], [1, 2], [[1], [2, 3]]])
def test_a_prompt_is_text_or_ids_of_one_or_several(prompt: object) -> None:
    assert CompletionFields.model_validate(TEXT | {"prompt": prompt}).prompt == prompt


def test_an_embedding_of_nothing_is_refused() -> None:
    assert refusal(EmbeddingFields, {"model": "m", "input": ""}).param == "input"
