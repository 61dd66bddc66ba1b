"""Ids equal those of llama.cpp, which tests/fixtures/llama_cpp/make.py wrote down."""

import gzip
import hashlib
import json
from pathlib import Path

import pytest

from circuit_exec.cache import user_cache
from circuit_exec.checkpoint.open import open_checkpoint
from circuit_exec.fetch import find_model
from circuit_exec.text.load import load_tokenizer
from circuit_exec.text.tokenizer import Tokenizer, encode
from tests.text.vocabularies import Metadata, from_gguf

FIXTURES = Path(__file__).parents[1] / "fixtures" / "llama_cpp"
NAMES = (
    "gpt2 smollm",
    "gpt2 gpt-2",
    "gpt2 llama-bpe",
    "gpt2 smaug-bpe",
    "gpt2 qwen2",
    "llama words",
    "llama phrases",
    "llama no_prefix",
)


def check(tokenizer: Tokenizer, texts: list[str], expected: list[list[int]]) -> None:
    assert len(texts) == len(expected) > 0
    wrong = [
        (text, ids, got) for text, ids in zip(texts, expected, strict=True) if (got := encode(tokenizer, text)) != ids
    ]
    assert not wrong, f"{len(wrong)} of {len(texts)} texts differ, first {wrong[0]}"


@pytest.fixture(scope="module")
def small() -> dict[str, object]:
    fixture = json.loads(gzip.decompress((FIXTURES / "small.json.gz").read_bytes()))
    assert isinstance(fixture, dict)
    return fixture


@pytest.mark.parametrize("name", NAMES)
def test_ids_of_small_vocabularies_equal_those_of_llama_cpp(small: dict[str, object], name: str) -> None:
    cases, texts = small["cases"], small["texts"]
    assert isinstance(cases, list)
    assert isinstance(texts, list)
    assert [case["name"] for case in cases] == list(NAMES)
    case = cases[NAMES.index(name)]
    check(from_gguf(_metadata(case["metadata"])), texts, case["ids"])


def test_the_pre_tokenizers_give_different_ids_so_that_a_mix_up_is_seen(small: dict[str, object]) -> None:
    cases = small["cases"]
    assert isinstance(cases, list)
    ids = {case["name"]: json.dumps(case["ids"]) for case in cases if case["name"].startswith("gpt2")}
    assert len(set(ids.values())) == len(ids) == 5


@pytest.mark.slow
def test_ids_of_the_demo_model_equal_those_of_llama_cpp() -> None:
    path = find_model("smollm2", user_cache())
    if path is None:
        pytest.skip("the demo model is not in the cache: met fetch smollm2")
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
