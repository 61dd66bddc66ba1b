"""Ids equal those of llama.cpp, which tests/fixtures/llama_cpp/make.py wrote down."""

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from circuit_exec.checkpoint.open import open_checkpoint
from circuit_exec.text.load import load_tokenizer
from circuit_exec.text.pretokenizers import PRE_TOKENIZERS
from circuit_exec.text.tokenizer import Tokenizer, encode
from tests.demo import demo_file
from tests.fixtures.llama_cpp import texts
from tests.text.vocabularies import Metadata, from_gguf

FIXTURES = Path(__file__).parents[1] / "fixtures" / "llama_cpp"


def check(tokenizer: Tokenizer, asked: list[str], expected: list[list[int]]) -> None:
    assert len(asked) == len(expected) > 0
    wrong = [
        (text, ids, got) for text, ids in zip(asked, expected, strict=True) if (got := encode(tokenizer, text)) != ids
    ]
    assert not wrong, f"{len(wrong)} of {len(asked)} texts differ, first {wrong[0]}"


def small() -> dict[str, Any]:
    fixture: dict[str, Any] = json.loads(gzip.decompress((FIXTURES / "small.json.gz").read_bytes()))
    return fixture


SMALL = small()
"""Vocabularies, and for each case four digits of the hash of the ids of every text."""
BYTE_LEVEL = [name.removeprefix("gpt2 ") for name in SMALL["checks"] if name.startswith("gpt2 ")]
PIECES = [name.removeprefix("llama ") for name in SMALL["checks"] if name.startswith("llama ")]


@pytest.fixture(scope="module")
def asked() -> list[str]:
    found = texts.texts(3000) + texts.mixtures(1000)
    assert hashlib.sha256(json.dumps(found).encode()).hexdigest() == SMALL["texts"]
    return found


def check_small(case: str, metadata: dict[str, object], asked: list[str]) -> None:
    tokenizer, checks = from_gguf(_metadata(metadata)), SMALL["checks"][case]
    assert len(checks) == 4 * len(asked)
    expected = [checks[at : at + 4] for at in range(0, len(checks), 4)]
    wrong = [t for t, digits in zip(asked, expected, strict=True) if texts.check(encode(tokenizer, t)) != digits]
    assert not wrong, f"{len(wrong)} of {len(asked)} texts differ, first {wrong[0]!r}"


@pytest.mark.parametrize("pre", BYTE_LEVEL)
def test_ids_of_every_pre_tokenizer_equal_those_of_llama_cpp(pre: str, asked: list[str]) -> None:
    check_small(f"gpt2 {pre}", SMALL["byte_level"] | {"tokenizer.ggml.pre": pre}, asked)


@pytest.mark.parametrize("name", PIECES)
def test_ids_of_pieces_with_scores_equal_those_of_llama_cpp(name: str, asked: list[str]) -> None:
    check_small(f"llama {name}", SMALL["sentencepiece"][name], asked)


def test_every_kind_of_pre_tokenizer_is_among_the_cases() -> None:
    kinds = {(pre.patterns, pre.whole_words) for pre in PRE_TOKENIZERS.values()}
    assert {(PRE_TOKENIZERS[name].patterns, PRE_TOKENIZERS[name].whole_words) for name in BYTE_LEVEL} == kinds


def test_the_pre_tokenizers_give_different_ids_so_that_a_mix_up_is_seen() -> None:
    checks = [SMALL["checks"][f"gpt2 {pre}"] for pre in BYTE_LEVEL]
    assert len(set(checks)) == len(checks) > 15


@pytest.mark.slow
def test_ids_of_the_demo_model_equal_those_of_llama_cpp() -> None:
    path = demo_file()
    demo = json.loads(gzip.decompress((FIXTURES / "demo.json.gz").read_bytes()))
    assert hashlib.sha256(path.read_bytes()).hexdigest() == demo["sha256"]
    assert len(demo["texts"]) == 4000
    check(load_tokenizer(open_checkpoint(str(path))), demo["texts"], demo["ids"])


def _metadata(stored: dict[str, object]) -> Metadata:
    metadata: Metadata = {}
    for key, value in stored.items():
        held = tuple(value) if isinstance(value, list) else value
        assert isinstance(held, bool | int | float | str | tuple)
        metadata[key] = held
    return metadata
