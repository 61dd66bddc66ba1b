"""One tiny model with its texts, and a server of it that all tests of a process share."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from circuit_exec.cache import Cache
from circuit_exec.checkpoint.open import open_checkpoint
from circuit_exec.text.load import load_tokenizer
from circuit_exec.text.tokenizer import Tokenizer
from tests.models import tiny_config, write_checkpoint
from tests.server.harness import Server, serving

TEMPLATE = """\
{%- if tools %}<|im_start|>system
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}<tool_call>
{"name": <name>, "arguments": <object>}
</tool_call><|im_end|>
{% endif %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}
{%- for call in message.tool_calls or [] %}<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% if style %}{{ style }}{% endif %}{% endif %}"""
"""Writes calls as Qwen2.5's template does."""


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory, share: Callable[[Cache], Cache]) -> Path:
    """A folder with `model` and a cache, where commands run."""
    folder = tmp_path_factory.mktemp("home")
    share(Cache(root=folder / "cache" / "met"))
    write_checkpoint(folder / "model", tiny_config("llama"))
    settings = folder / "model" / "tokenizer_config.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"chat_template": TEMPLATE}))
    return folder


@pytest.fixture(scope="session")
def tokenizer(home: Path) -> Tokenizer:
    return load_tokenizer(open_checkpoint(str(home / "model")))


@pytest.fixture(scope="session")
def server(home: Path) -> Iterator[Server]:
    """A server that no test changes."""
    with serving(home, "model", "--max-num-seqs", "4") as running:
        yield running
