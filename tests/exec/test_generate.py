"""generate and all_logits on the hand-made program: right values, whatever the threads and the chunk."""

from collections.abc import Iterator

import numpy as np
import pytest

from circuit.errors import RunError
from circuit_exec.cache import Cache
from circuit_exec.cpu import Program
from circuit_exec.generate import Sampling, generate
from circuit_exec.kv import Pages
from circuit_exec.logits import all_logits, logits_hash
from tests.emit.small import CONTEXT, PAGES, ROWS
from tests.exec import small

GREEDY = Sampling(temperature=0.0, top_p=1.0, seed=0)
PROMPT = [(7 * i + 3) % 32 for i in range(70)]


@pytest.fixture(scope="module", params=[1, 2, 3])
def program(cache: Cache, request: pytest.FixtureRequest) -> Iterator[Program]:
    made = small.program(cache, request.param)
    yield made
    made.close()


@pytest.mark.parametrize("chunk", [1, 7, ROWS])
def test_the_answer_is_the_same_for_every_chunk(program: Program, chunk: int) -> None:
    seen: list[int] = []
    answer = generate(program, Pages(PAGES), PROMPT, 20, GREEDY, chunk, (), seen.append)
    assert list(answer.ids) == small.greedy(PROMPT, 20) == seen
    assert answer.ended == "length"


@pytest.mark.parametrize("chunk", [1, 7, ROWS])
def test_logits_of_all_positions_are_right_for_every_chunk(program: Program, chunk: int) -> None:
    found = all_logits(program, Pages(PAGES), PROMPT, chunk)
    np.testing.assert_array_equal(found, small.logits(PROMPT))


def test_a_stop_token_ends_the_answer_and_is_no_part_of_it(program: Program) -> None:
    expected = small.greedy(PROMPT, 20)
    stop = expected[4]
    answer = generate(program, Pages(PAGES), PROMPT, 20, GREEDY, ROWS, (stop,), lambda token: None)
    assert list(answer.ids) == expected[: expected.index(stop)]
    assert answer.ended == "stop"


def test_the_context_can_be_filled_to_its_last_position(program: Program) -> None:
    pages = Pages(PAGES)
    answer = generate(program, pages, PROMPT, CONTEXT - len(PROMPT) + 1, GREEDY, ROWS, (), lambda token: None)
    assert list(answer.ids) == small.greedy(PROMPT, CONTEXT - len(PROMPT) + 1)
    assert pages.free() == PAGES


def test_pages_are_given_back_when_the_caller_stops_reading(program: Program) -> None:
    def interrupt(token: int) -> None:
        raise KeyboardInterrupt

    pages = Pages(PAGES)
    with pytest.raises(KeyboardInterrupt):
        generate(program, pages, PROMPT, 3, GREEDY, ROWS, (), interrupt)
    assert pages.free() == PAGES


def refused(program: Program, prompt: list[int], n: int, sampling: Sampling, chunk: int) -> str:
    pages = Pages(PAGES)
    with pytest.raises(RunError) as caught:
        generate(program, pages, prompt, n, sampling, chunk, (), lambda token: None)
    assert pages.free() == PAGES
    return str(caught.value)


def test_what_cannot_be_generated_is_refused_before_anything_runs(program: Program) -> None:
    assert refused(program, [1] * 151, 1, GREEDY, 8) == (
        "error: the prompt has 151 tokens, the context is 150\n  = fix: shorten the prompt to 150 tokens or fewer"
    )
    assert refused(program, [1] * 149, 3, GREEDY, 8) == (
        "error: the prompt has 149 tokens and 3 more are asked for, the context is 150\n"
        "  = fix: shorten the prompt, or ask for 2 tokens or fewer with -n"
    )
    assert refused(program, [], 3, GREEDY, 8) == (
        "error: the prompt is empty: it has no tokens\n  = fix: give a prompt with some text"
    )
    assert refused(program, [1], 0, GREEDY, 8) == "error: 0 tokens are asked for\n  = fix: ask for at least one with -n"
    assert refused(program, [1], 1, GREEDY, 17) == (
        "error: the chunk is 17 rows, a prefill step has 1 to 16\n  = fix: give --chunk in that range"
    )
    assert refused(program, [1, 32], 1, GREEDY, 8) == (
        "error: token id 32 is outside 0 to 31\n  = fix: use the tokenizer of this checkpoint"
    )
    assert refused(program, [1], 1, Sampling(temperature=-0.5, top_p=1.0, seed=0), 8) == (
        "error: the temperature is -0.5\n  = fix: give --temperature 0 for the most likely token, or a number above it"
    )
    assert refused(program, [1], 1, Sampling(temperature=1.0, top_p=0.0, seed=0), 8) == (
        "error: top-p is 0.0\n  = fix: give --top-p above 0 and at most 1"
    )
    assert refused(program, [1], 1, Sampling(temperature=1.0, top_p=1e-50, seed=0), 8) == (  # 0 in float32
        "error: top-p is 1e-50\n  = fix: give --top-p above 0 and at most 1"
    )
    assert refused(program, [1], 1, Sampling(temperature=1.0, top_p=1.0, seed=-1), 8) == (
        "error: the seed is -1\n  = fix: give --seed from 0 to 2**64 - 1"
    )


def test_logits_without_tokens_are_refused(program: Program) -> None:
    with pytest.raises(RunError) as caught:
        all_logits(program, Pages(PAGES), [], 8)
    assert str(caught.value) == "error: there are no tokens\n  = fix: give at least one token id"


def test_the_hash_counts_every_nan_as_one_and_sees_signed_zeros() -> None:
    plain = np.array([[1.0, np.nan]], np.float32)
    other = plain.copy()
    other.view(np.uint32)[0, 1] = 0xFFC00001
    assert logits_hash(plain) == logits_hash(other)
    assert logits_hash(np.zeros((1, 1), np.float32)) != logits_hash(-np.zeros((1, 1), np.float32))
