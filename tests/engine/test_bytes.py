"""No answer depends on what else runs: alone, in a crowd, after a restart, with and without the prefix cache."""

import random

import pytest
from msgspec.structs import replace

from circuit_exec.engine.engine import Engine
from circuit_exec.engine.request import EmbeddingRequest, Request
from circuit_exec.model import Model
from tests.engine.asking import ASKED, Asked, answers, engine_of, one
from tests.engine.conftest import Load

pytestmark = pytest.mark.slow

Answers = list[tuple[object, ...]]
SYSTEM = tuple(range(10, 10 + 150))
"""What many prompts begin with: two full pages and a part of one."""


def requests() -> list[Request | EmbeddingRequest]:
    """Of every kind: short and long prompts, prefixes in common, drawn and not, scored, changed, with many choices."""
    draw = random.Random(3)
    prompts = [tuple(draw.randrange(290) for _ in range(n)) for n in (1, 3, 40, 64, 65, 130, 200, 300)]
    prompts += [SYSTEM + tuple(draw.randrange(290) for _ in range(n)) for n in (1, 20, 60, 90)]
    made: list[Request | EmbeddingRequest] = []
    for seed, prompt in enumerate(prompts):
        asked = replace(ASKED, prompt=prompt, seed=seed)
        made.append(asked)
        made.append(replace(asked, temperature=0.0, n_logprobs=3))
        made.append(replace(asked, top_k=20, min_p=0.02, n_logprobs=2, repetition_penalty=1.2))
    base = replace(ASKED, prompt=prompts[-1], seed=2**63 + 5)
    made.append(replace(base, n=3, max_tokens=70))
    made.append(replace(base, presence_penalty=0.5, frequency_penalty=0.3, bias={5: 4.0, 280: -100.0}, seed=99))
    made.append(replace(base, score_prompt=True, n_logprobs=4, max_tokens=0))
    made.append(replace(base, score_prompt=True, n_logprobs=1, prompt=prompts[5], max_tokens=3))
    made.append(EmbeddingRequest(prompt=prompts[7]))
    made.append(EmbeddingRequest(prompt=prompts[1]))
    return made


def alone(engine: Engine) -> Answers:
    """Each request after the one before has ended."""
    return [answer for request in requests() for answer in answers(engine, [request])]


@pytest.fixture(scope="module")
def expected(model: Model) -> Answers:
    """The answers alone, without a prefix cache."""
    engine = engine_of(model, prefix_cache=False)
    found = alone(engine)
    engine.close()
    assert engine.stats().pages_used == engine.stats().pages_cached == 0
    return found


def crowd(engine: Engine, seed: int) -> Answers:
    """All at once in random order, with others among them that are cancelled at some point."""
    draw, asked = random.Random(seed), requests()
    order = list(range(len(asked)))
    draw.shuffle(order)
    running: dict[int, Asked] = {}
    others: list[Asked] = []
    for place in order:
        running[place] = Asked(engine, asked[place])
        if draw.random() < 0.4:
            prompt = SYSTEM + tuple(draw.randrange(290) for _ in range(draw.randrange(1, 150)))
            others.append(Asked(engine, replace(ASKED, prompt=prompt, max_tokens=200, seed=draw.randrange(100))))
        if others and draw.random() < 0.5:
            others[draw.randrange(len(others))].ticket.cancel()
    found = {place: [choice.bytes() for choice in each.wait()] for place, each in running.items()}
    for each in others:
        each.ticket.cancel()
        each.wait()
    return [answer for place in range(len(asked)) for answer in found[place]]


def test_a_crowd_in_random_order_with_cancellations_gives_equal_bytes(model: Model, expected: Answers) -> None:
    engine = engine_of(model)
    assert crowd(engine, 1) == expected
    assert crowd(engine, 2) == expected
    assert engine.stats().hit_tokens > 0
    assert engine.drain(10)
    assert engine.stats().pages_used == 0


def test_a_prefix_hit_gives_the_bytes_of_a_cold_start(model: Model, expected: Answers) -> None:
    engine = engine_of(model)
    assert alone(engine) == expected
    cold = engine.stats().hit_tokens
    assert alone(engine) == expected
    assert engine.stats().hit_tokens > cold > 0
    engine.close()


def test_a_small_pool_preempts_and_gives_equal_bytes(model: Model, expected: Answers) -> None:
    engine = engine_of(model, n_pages=8)
    assert crowd(engine, 3) == expected
    assert engine.stats().preempted > 0
    engine.close()


@pytest.mark.parametrize(("threads", "rows", "seqs"), [(1, 7, 3), (2, 512, 40), (3, 65, 2)])
def test_other_threads_chunks_and_counts_after_a_restart_give_equal_bytes(
    load: Load, expected: Answers, threads: int, rows: int, seqs: int
) -> None:
    again = load(n_threads=threads, n_pages=200)
    engine = engine_of(again, step_rows=rows, max_seqs=seqs, n_pages=200)
    assert crowd(engine, threads) == expected
    engine.close()


def test_another_seed_gives_another_answer(model: Model) -> None:
    engine = engine_of(model)
    long = replace(ASKED, max_tokens=30)
    assert one(engine, long).bytes() == one(engine, long).bytes()
    assert one(engine, long).bytes() != one(engine, replace(long, seed=8)).bytes()
    first, second = Asked(engine, replace(long, n=2)).wait()
    assert first.bytes() != second.bytes()
    engine.close()
