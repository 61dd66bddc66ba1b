"""Every tokenizer key of a GGUF file that is read changes what the tokenizer does, or is refused; every ignored one
changes nothing.
"""

import pytest

from circuit.errors import LoadError
from circuit_exec.text import gguf_keys as gguf
from circuit_exec.text.gguf_keys import Value
from circuit_exec.text.tokenizer import encode, encode_prompt
from tests.text.vocabularies import (
    Metadata,
    digit_splitter,
    from_gguf,
    gguf_metadata,
    sentencepiece_metadata,
    trained,
)

ROLES: Metadata = {
    gguf.UNKNOWN: 0,
    gguf.PADDING: 0,
    gguf.ADD_BOS: True,
    gguf.ADD_EOS: False,
    gguf.TEMPLATE: "{{ bos_token }}",
}
BYTES = (
    gguf_metadata(trained(digit_splitter()), "smollm") | ROLES | {gguf.EOT: 0, gguf.EOM: 0, gguf.SPACE_PREFIX: False}
)
PIECES = sentencepiece_metadata("\u2581", "a", "b", "ab", "\u2581ab", "b\u2581") | ROLES
PIECES |= {gguf.EOT: 0, gguf.EOM: 0, gguf.SPACE_PREFIX: True, gguf.EXTRA_SPACES: False, gguf.PRE: "default"}
BASES = {"gpt2": BYTES, "llama": PIECES}
TEXTS = ("The quick fox", "12 2024 ab ab", " ab  b", "<|im_end|>x</s>", "def f(x):\n    return x\n", "naïve 日本")

Change = Value | tuple[Value, ...] | None


def does(metadata: Metadata) -> tuple[object, ...] | None:
    """All that the executor gets of a tokenizer; None where it is refused."""
    try:
        found = from_gguf(metadata)
        return (
            [encode(found, text) for text in TEXTS],
            [encode_prompt(found, text) for text in TEXTS],
            [found.piece(id) for id in range(found.n_tokens)],
            (found.strips_space, found.bos_id, found.stop_ids),
            dict(found.named),
            found.template and found.template.text,
        )
    except LoadError:
        return None


def others(metadata: Metadata, key: str) -> tuple[Change, ...]:
    """Other values of a key that files have."""
    match key:
        case gguf.MODEL:
            return ("gpt2", "llama", "bert")
        case gguf.PRE:
            return ("gpt-2", "default", "another", None)
        case gguf.SCORES:
            return (tuple(-score for score in _numbers(metadata[key])), None)
        case gguf.MERGES:
            return (_items(metadata[key])[:20], None)
        case gguf.TOKENS | gguf.TYPES:
            return (_items(metadata[key])[::-1], None)
        case gguf.TEMPLATE:
            return ("{{ eos_token }}", None)
        case gguf.ADD_BOS | gguf.ADD_EOS | gguf.SPACE_PREFIX | gguf.EXTRA_SPACES:
            return (not metadata[key],)
        case _:
            return (1 if metadata[key] != 1 else 2,)


CASES = [(name, key) for name, metadata in BASES.items() for key in metadata if key.startswith("tokenizer.")]
SAME = {
    ("gpt2", gguf.MODEL, "gpt2"): "the value itself",
    ("llama", gguf.MODEL, "llama"): "the value itself",
    ("llama", gguf.PRE, "default"): "the value itself",
    ("llama", gguf.PRE, None): "a vocabulary of pieces has no pre-tokenizer, which default says too",
}
"""Values that mean the same as the file's own, and why."""


def test_every_key_that_is_read_is_in_some_case() -> None:
    assert {key for _, key in CASES} == set(gguf.READ)


@pytest.mark.parametrize(("name", "key"), CASES)
def test_another_value_of_a_read_key_changes_the_tokenizer_or_is_refused(name: str, key: str) -> None:
    metadata = BASES[name]
    before = does(metadata)
    assert before is not None
    for value in others(metadata, key):
        changed = {k: v for k, v in metadata.items() if k != key} | ({} if value is None else {key: value})
        assert (does(changed) == before) == ((name, key, value) in SAME), value


@pytest.mark.parametrize("name", BASES)
def test_ignored_keys_change_nothing_whatever_their_value(name: str) -> None:
    before = does(BASES[name])
    assert before is not None
    for key in gguf.IGNORED:
        for value in (3, "x", True, (1, 2)):
            assert does(BASES[name] | {key: value}) == before


def _items(value: Change) -> tuple[Value, ...]:
    assert isinstance(value, tuple)
    return value


def _numbers(value: Change) -> list[float]:
    return [item for item in _items(value) if isinstance(item, float)]
