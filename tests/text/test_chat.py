"""Rendered chats equal those of transformers; a template that fails names its file or key, and its line."""

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from circuit.errors import LoadError, MetError, RunError
from circuit_exec.text.chat import ChatTemplate, Message, render_chat, require_template
from tests.text.vocabularies import digit_splitter, from_folder, trained, write_folder

LLAMA3 = """{{- bos_token }}
{%- set ns = namespace(system='') %}
{%- for message in messages if message.role == 'system' %}
    {%- set ns.system = ns.system ~ message['content'] | trim %}
{%- endfor %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" + ns.system + "<|eot_id|>" }}
{%- for message in messages %}
    {%- if message.role == 'system' %}{% continue %}{% endif %}
    {%- if not (message.role in ['user', 'assistant']) %}
        {{- raise_exception('only user and assistant, not ' ~ message.role) }}
    {%- endif %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}
    {{- message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""
QWEN = """{% if tools %}
tools: {{ tools | tojson }}
{% elif messages[0]['role'] != 'system' %}
<|im_start|>system
You are a helpful assistant.<|im_end|>
{% endif %}
{% for message in messages %}
    {% if message.role == "assistant" %}
<|im_start|>assistant
{% generation %}{{ message.content.split('</think>')[-1].lstrip('\\n') }}{% endgeneration %}<|im_end|>
    {% else %}
<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
    {% endif %}
    {% if loop.index0 == 9 %}{% break %}{% endif %}
{% endfor %}
{{ messages | map(attribute='content') | list | tojson }}
{{ {'<é>': [1, none, true]} | tojson(indent=2) }}
{{ dict(a=1).a }}{{ documents is none }}{{ pad_token is defined }}{{ eos_token }}
{% if add_generation_prompt %}
<|im_start|>assistant
{% endif %}
"""
SMOLLM = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}"
    "{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
CHATS = [
    [Message(role="user", content="Hi  <é> & 'you'\n")],
    [Message(role="system", content=" Be brief. "), Message(role="user", content="2+2?")],
    [
        Message(role="user", content="a"),
        Message(role="assistant", content="<think>\nx\n</think>\n\nb"),
        Message(role="user", content="c"),
    ],
]
NAMED = {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>"}
USER = [Message(role="user", content="hi")]
DAY = datetime.date(2024, 7, 5)


def jinja(text: str) -> ChatTemplate:
    """A template in a file of its own."""
    return ChatTemplate(text=text, file="chat_template.jinja", key=None)


def in_config(text: str) -> ChatTemplate:
    """A template under a key."""
    return ChatTemplate(text=text, file="m.gguf", key="tokenizer.chat_template")


def error_of(template: ChatTemplate, expected: type[MetError]) -> str:
    with pytest.raises(expected) as caught:
        render_chat(template, NAMED, USER, None)
    return str(caught.value)


@pytest.mark.parametrize("chat", CHATS, ids=["user", "system", "dialogue"])
@pytest.mark.parametrize("text", [LLAMA3, QWEN, SMOLLM], ids=["llama3", "qwen", "smollm"])
def test_a_chat_renders_as_in_transformers(tmp_path: Path, text: str, chat: Sequence[Message]) -> None:
    config = {**NAMED, "chat_template": text, "tokenizer_class": "PreTrainedTokenizerFast"}
    folder = write_folder(tmp_path, trained(digit_splitter()), config)
    ours, theirs = from_folder(folder), AutoTokenizer.from_pretrained(folder)
    rendered = render_chat(require_template(ours.template, "m"), ours.named, chat, None)
    expected = theirs.apply_chat_template(_plain(chat), tokenize=False, add_generation_prompt=True)
    assert rendered == expected
    assert ours.segment(rendered) == theirs.apply_chat_template(_plain(chat), add_generation_prompt=True)["input_ids"]


def test_the_smollm_template_says_what_it_said_when_it_was_published() -> None:
    assert render_chat(jinja(SMOLLM), NAMED, USER, None) == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    )


def test_a_date_is_the_one_that_is_stated() -> None:
    assert render_chat(jinja("{{ strftime_now('%d %b %Y') }}"), {}, USER, DAY) == "05 Jul 2024"


def test_a_date_that_nobody_states_is_refused() -> None:
    assert error_of(in_config("{{ strftime_now('%d %b %Y') }}"), RunError) == (
        "error: the chat template writes the current date, so the answer would depend on the day\n"
        " --> m.gguf\n  = fix: state the date with --date YYYY-MM-DD, or run with --no-chat"
    )


def test_a_template_that_does_not_parse_names_its_line() -> None:
    assert error_of(jinja("a\n{% for x in %}\n"), LoadError) == (
        "error: the chat template is not a Jinja template: Expected an expression, got 'end of statement block'\n"
        " --> chat_template.jinja:2\n  | {% for x in %}\n  = fix: correct the template, or run with --no-chat"
    )
    assert error_of(in_config("a\n{% endif %}"), LoadError).startswith(
        "error: the chat template (tokenizer.chat_template, line 2 of it) is not a Jinja template: "
        "Encountered unknown tag 'endif'.\n --> m.gguf\n  | {% endif %}\n"
    )


def test_what_a_template_raises_names_its_line() -> None:
    text = "\n{% for m in messages %}\n{{ raise_exception('no ' ~ m.role) }}\n{% endfor %}"
    assert error_of(jinja(text), RunError) == (
        "error: the chat template refuses the messages: no user\n"
        " --> chat_template.jinja:3\n  = fix: change the messages as it says, or run with --no-chat"
    )
    assert error_of(in_config(text), RunError) == (
        "error: the chat template (tokenizer.chat_template, line 3 of it) refuses the messages: no user\n"
        " --> m.gguf\n  = fix: change the messages as it says, or run with --no-chat"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{{ messages[3].role }}", "list object has no element 3"),
        ("{{ 1 + 'a' }}", "unsupported operand type(s) for +: 'int' and 'str'"),
        ("{{ 1 // 0 }}", "integer division or modulo by zero"),
        ("{{ messages.append(1) }}", "access to attribute 'append' of 'list' object is unsafe."),
        ("{{ ''.__class__.mro }}", "access to attribute '__class__' of 'str' object is unsafe."),
        ("{{ range(100000000) }}", "Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000)."),
        ("{% set n = namespace() %}{% set n._x = 1 %}", "a namespace cannot store the name _x"),
        ("{{ namespace(_x=1) }}", "a namespace cannot store the name _x"),
    ],
)
def test_a_template_that_fails_or_leaves_the_sandbox_is_refused(text: str, message: str) -> None:
    assert error_of(jinja(text), RunError).startswith(f"error: the chat template refuses the messages: {message}\n")


def test_a_model_without_a_template_says_how_to_go_on() -> None:
    with pytest.raises(RunError) as caught:
        require_template(None, "m.gguf")
    assert str(caught.value) == (
        "error: the model has no chat template, so how it expects messages is unknown\n --> m.gguf\n"
        "  = fix: run with --no-chat to continue the prompt as plain text"
    )


def _plain(chat: Sequence[Message]) -> list[Mapping[str, str]]:
    return [{"role": message.role, "content": message.content} for message in chat]
