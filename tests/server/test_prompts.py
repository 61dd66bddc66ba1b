"""From a request to the ids of its prompt: templates, tools, the beginning, and what is refused on the way."""

import json
from datetime import date
from typing import Any, cast

import pytest
from msgspec.structs import replace

from circuit_exec.engine.interface import Description, Engine, Limits
from circuit_exec.server.chat import prepare
from circuit_exec.server.errors import Refused
from circuit_exec.server.fields.chat import ChatFields
from circuit_exec.server.grammar import Guides
from circuit_exec.server.prompts import chat_text, check_ids, text_ids
from circuit_exec.server.served import Options, Served
from circuit_exec.server.tickets import Tickets
from circuit_exec.server.tools.formats import format_of
from circuit_exec.text.chat import ChatTemplate
from circuit_exec.text.tokenizer import Tokenizer, encode

USER = {"role": "user", "content": "hi"}
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": "é"}'}}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}, "strict": True}}


def served(tokenizer: Tokenizer, template: str | None = None, today: date | None = None) -> Served:
    """A model that only takes requests; no prompt reaches its engine."""
    if template is not None:
        tokenizer = replace(tokenizer, template=ChatTemplate(text=template, file="here", key=None))
    limits = Limits(max_seqs=1, step_rows=65, prompt_rows=64, n_pages=16, max_queue=0, prefix_cache=True)
    return Served(
        options=Options(
            name="m", created=0, context=1024, today=today, timeout_s=1, drain_s=0, most_body_bytes=0, log_prompts=False
        ),
        engine=cast(Engine, None),
        description=Description(
            hardware_class="cpu", fingerprint="f", context=1024, vocabulary=290, n_threads=1, plans=(), certificate=(),
            limits=limits,
        ),
        tokenizer=tokenizer,
        stop_ids=frozenset([274]),
        guides=Guides(tokenizer, [274]),
        tools=None if tokenizer.template is None else format_of(tokenizer.template.text),
        tickets=Tickets(),
        launches=(),
    )  # fmt: skip


def fields(*messages: object, **changes: object) -> ChatFields:
    return ChatFields.model_validate({"model": "m", "messages": list(messages), **changes})


def text(model: Served, asked: ChatFields) -> str:
    return chat_text(model, asked.messages, asked.tools, asked.chat_template_kwargs)


def refusal(model: Served, asked: ChatFields, code: str = "chat_template") -> str:
    with pytest.raises(Refused) as caught:
        prepare(model, asked)
    assert caught.value.refusal.code == code
    return str(caught.value)


def test_messages_reach_the_template_as_it_reads_them(tokenizer: Tokenizer) -> None:
    model = served(tokenizer, "{% for m in messages %}{{ m | tojson }}\n{% endfor %}{{ tools | tojson }}")
    asked = fields(
        {"role": "developer", "content": [{"type": "text", "text": "be"}, {"type": "text", "text": "brief"}]},
        USER | {"name": "me"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "done"},
        tools=[TOOL],
    )
    assert [json.loads(line) for line in text(model, asked).split("\n")] == [
        {"role": "system", "content": "be\nbrief"},
        {"role": "user", "content": "hi", "name": "me"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "f", "arguments": {"a": "é"}}},
            ],
        },
        {"role": "tool", "content": "done", "tool_call_id": "c1"},
        [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
    ]


def test_names_for_the_template_reach_it(tokenizer: Tokenizer) -> None:
    model = served(tokenizer, "{{ enable_thinking }} {{ eos_token }}")
    assert text(model, fields(USER, chat_template_kwargs={"enable_thinking": False})) == "False <|im_end|>"


def test_the_beginning_is_never_doubled(tokenizer: Tokenizer) -> None:
    begins = replace(tokenizer, adds_bos=True)
    bos = tokenizer.bos_id
    assert bos is not None
    model = served(begins, "{{ bos_token }}{{ messages[0].content }}")
    assert list(prepare(model, fields(USER)).request.prompt).count(bos) == 1
    assert list(text_ids(model, "hi", "prompt")) == [bos, *encode(tokenizer, "hi")]
    assert list(text_ids(model, "<|endoftext|>hi", "prompt")) == [bos, *encode(tokenizer, "hi")]


def test_a_template_that_writes_the_date_gets_the_stated_one(tokenizer: Tokenizer) -> None:
    template = "{{ strftime_now('%Y-%m-%d') }}"
    assert text(served(tokenizer, template, date(2026, 1, 2)), fields(USER)) == "2026-01-02"
    assert refusal(served(tokenizer, template), fields(USER)) == (
        "the chat template writes the current date, so the answer would depend on the day; state the date with --date "
        "YYYY-MM-DD"
    )


def test_a_template_that_refuses_the_messages_says_why(tokenizer: Tokenizer) -> None:
    said = refusal(served(tokenizer, "{{ raise_exception('only one turn') }}"), fields(USER))
    assert said == "the chat template refuses the messages: only one turn; change the messages as it says"


def test_a_model_without_a_template_takes_no_chat(tokenizer: Tokenizer) -> None:
    assert refusal(served(replace(tokenizer, template=None)), fields(USER), "no_chat_template") == (
        "the model has no chat template, so how it expects messages is unknown; use /v1/completions with a prompt"
    )


def test_tools_are_refused_where_the_template_takes_none(tokenizer: Tokenizer) -> None:
    model = served(tokenizer, "{{ messages }}")
    assert refusal(model, fields(USER, tools=[TOOL]), "unsupported_parameter") == (
        "the model's chat template takes no tools, or has calls written in a way that is not known; leave tools out, "
        "or serve a model with the template of Qwen2.5, Qwen3, Llama 3.1 or Mistral v0.3"
    )
    prepare(model, fields(USER, tools=[TOOL], tool_choice="none"))


def test_ids_outside_of_the_vocabulary_are_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(Refused, match="290 is no token id, the vocabulary has 290; give ids from 0 to 289") as caught:
        check_ids(served(tokenizer), [1, 290], "prompt")
    assert caught.value.refusal.code == "invalid_prompt"


def test_what_is_absent_has_the_defaults_of_the_api(tokenizer: Tokenizer) -> None:
    request = prepare(served(tokenizer), fields(USER)).request
    assert (request.temperature, request.top_p, request.n, request.top_k, request.min_p) == (1.0, 1.0, 1, 0, 0.0)
    assert (request.presence_penalty, request.frequency_penalty, request.repetition_penalty) == (0.0, 0.0, 1.0)
    assert request.max_tokens == 1024 - len(request.prompt) + 1
    assert request.stop_ids == {274}
    assert request.n_logprobs is None
    assert request.grammars == ()


def test_what_is_asked_for_reaches_the_engine(tokenizer: Tokenizer) -> None:
    changes: dict[str, Any] = {
        "temperature": 0.5, "top_p": 0.25, "top_k": 3, "min_p": 0.125, "seed": 7, "n": 2, "presence_penalty": 1,
        "frequency_penalty": -1, "repetition_penalty": 2, "logit_bias": {"5": -100}, "ignore_eos": True,
        "min_tokens": 4, "max_completion_tokens": 9, "logprobs": True, "top_logprobs": 2, "stop": "x",
    }  # fmt: skip
    request = prepare(served(tokenizer), fields(USER, **changes)).request
    assert (request.temperature, request.top_p, request.top_k, request.min_p) == (0.5, 0.25, 3, 0.125)
    assert (request.seed, request.n, request.min_tokens, request.max_tokens) == (7, 2, 4, 9)
    assert (request.presence_penalty, request.frequency_penalty, request.repetition_penalty) == (1, -1, 2)
    assert (dict(request.bias), request.stop_ids, request.n_logprobs) == ({5: -100.0}, frozenset(), 2)
    assert len(request.grammars) == 2
    assert request.grammars[0] is not request.grammars[1]
