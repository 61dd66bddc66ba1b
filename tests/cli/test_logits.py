"""`met logits`: the file, the hash, and that nothing but the model and the tokens changes it."""

import hashlib
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Home
from tests.cli.harness import leftovers, refused
from tests.models import tiny_config, write_gguf


def ids(home: Home, name: str, text: str) -> Path:
    path = home.folder / name
    path.write_text(text, encoding="utf-8")
    return path


def printed_hash(home: Home, *arguments: str) -> str:
    ids(home, "ids.txt", " ".join(str(i * 7 % 290) for i in range(70)))
    ran = home.met("logits", *arguments, "--tokens", "ids.txt", "--out", "logits.npy")
    assert ran.code == 0, ran.err
    digest, _, shape = ran.out.strip().partition("  ")
    assert shape == "70 x 290 float32"
    return digest


def test_the_hash_is_that_of_the_values_in_the_file(home: Home) -> None:
    digest = printed_hash(home, "model")
    values = np.load(home.folder / "logits.npy")
    assert (values.shape, values.dtype) == ((70, 290), np.dtype("<f4"))
    assert digest == hashlib.sha256(values.tobytes()).hexdigest()


def test_two_processes_give_equal_bytes(home: Home) -> None:
    assert printed_hash(home, "model") == printed_hash(home, "model")


@pytest.mark.parametrize("change", [["--threads", "1"], ["--chunk", "1"], ["--chunk", "32"], ["--rules", "reference"]])
def test_threads_chunks_and_rules_change_no_byte(home: Home, change: list[str]) -> None:
    assert printed_hash(home, "model", *change) == printed_hash(home, "model")


def test_a_gguf_file_gives_the_bytes_of_its_safetensors_twin(home: Home) -> None:
    write_gguf(home.folder / "twin.gguf", tiny_config("llama"))
    assert printed_hash(home, "twin.gguf") == printed_hash(home, "model")


def test_a_token_beyond_the_vocabulary_is_refused_and_no_file_is_left(home: Home) -> None:
    ids(home, "far.txt", "1 2 290")
    refused(
        home.met("logits", "model", "--tokens", "far.txt", "--out", "far.npy"),
        message="token id 290 is outside 0 to 289",
    )
    assert [name for name in leftovers(home.folder) if "far.npy" in name] == []


def test_a_word_that_is_no_id_is_refused_with_its_line(home: Home) -> None:
    ids(home, "words.txt", "1 2\nthree\n")
    refused(
        home.met("logits", "model", "--tokens", "words.txt", "--out", "words.npy"),
        message="`three` is no token id",
        at="words.txt:2",
    )


def test_more_tokens_than_the_context_are_refused(home: Home) -> None:
    ids(home, "long.txt", "1 " * 1025)
    refused(
        home.met("logits", "model", "--tokens", "long.txt", "--out", "long.npy"),
        message="the prompt has 1025 tokens, the context is 1024",
    )


@pytest.mark.parametrize(
    ("tokens", "out", "message", "fix"),
    [
        ("none.txt", "a.npy", "the token file cannot be read: no such file or directory", "give a file of token ids"),
        ("ids.txt", "a.txt", "the output is a NumPy file", "give --out a name that ends in .npy"),
        ("ids.txt", "none/a.npy", "the folder of the output does not exist", "make it: mkdir -p none"),
        (
            "ids.txt",
            f"{'a' * 250}.npy",
            "the logits cannot be written: file name too long",
            "make room, or give --out a place that can be written",
        ),
    ],
)
def test_a_file_that_cannot_be_read_or_written_is_refused(
    home: Home, tokens: str, out: str, message: str, fix: str
) -> None:
    ids(home, "ids.txt", "1 2 3")
    refused(home.met("logits", "model", "--tokens", tokens, "--out", out), message=message, fix=fix)
