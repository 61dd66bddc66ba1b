"""What an engine does with ends, cancellations, deadlines, full queues and faults of others; and what it answers."""

import time
from collections.abc import Iterator

import numpy as np
import pytest
from msgspec.structs import replace

from circuit.errors import RunError
from circuit_exec.engine.engine import Engine
from circuit_exec.engine.open import open_engine
from circuit_exec.engine.request import (
    CannotFit,
    Draining,
    EmbeddingRequest,
    Event,
    Mask,
    QueueFull,
    Request,
)
from circuit_exec.generate import Sampling, generate
from circuit_exec.kv import Pages
from circuit_exec.logits import all_logits
from circuit_exec.model import Model
from tests.engine.asking import ASKED, LIMITS, Asked, engine_of, one

LONG = replace(ASKED, max_tokens=900)


@pytest.fixture
def engine(model: Model) -> Iterator[Engine]:
    made = engine_of(model)
    yield made
    made.close()


class Letters:
    """A grammar of one choice: the ids 40, 41, ... in this order, then the end."""

    def __init__(self, n: int) -> None:
        self.n, self.came = n, 0

    def mask(self) -> Mask:
        mask = np.zeros(290, np.bool_)
        mask[40 + self.came] = True
        return mask

    def accept(self, id: int) -> None:
        assert id == 40 + self.came
        self.came += 1

    def finished(self) -> bool:
        return self.came == self.n


class Broken(Letters):
    """A grammar that fails when it is asked."""

    def mask(self) -> Mask:
        raise ValueError("the grammar broke")


class Impossible(Letters):
    """A grammar that allows nothing."""

    def mask(self) -> Mask:
        return np.zeros(290, np.bool_)


def test_a_request_gets_what_generate_gives(model: Model) -> None:
    prompt = tuple(range(3, 103))
    made = generate(
        model.program,
        Pages(40),
        prompt,
        20,
        Sampling(temperature=0.9, top_p=0.8, seed=11),
        64,
        (),
        lambda id: None,
    )
    greedy = generate(
        model.program, Pages(40), prompt, 20, Sampling(temperature=0, top_p=1, seed=0), 64, (), lambda id: None
    )
    engine = engine_of(model)
    asked = replace(ASKED, prompt=prompt, max_tokens=20, temperature=0.9, top_p=0.8, seed=11)
    assert tuple(one(engine, asked).ids) == made.ids
    assert tuple(one(engine, replace(asked, temperature=0.0)).ids) == greedy.ids
    assert greedy.ids != made.ids
    engine.close()


def test_scores_are_those_of_the_logits(model: Model) -> None:
    prompt = tuple(range(100, 170))
    logits = all_logits(model.program, Pages(40), prompt, 64).astype(np.float64)
    exact = logits - logits.max(axis=1, keepdims=True)
    exact -= np.log(np.exp(exact).sum(axis=1, keepdims=True))
    engine = engine_of(model)
    heard = one(engine, replace(ASKED, prompt=prompt, max_tokens=1, n_logprobs=5, score_prompt=True))
    assert heard.prompt is not None
    assert heard.prompt[0] is None
    for place, found in enumerate((*heard.prompt[1:], *heard.scores)):
        assert found is not None
        id = (*prompt, *heard.ids)[place + 1]
        assert found.logprob == pytest.approx(exact[place, id], abs=2e-6)
        best = np.argsort(-exact[place], kind="stable")[:5]
        assert [id for id, _ in found.top] == best.tolist()
        assert [value for _, value in found.top] == pytest.approx(exact[place, best].tolist(), abs=2e-6)
    engine.close()


def test_an_embedding_has_as_many_values_as_the_model_is_wide(engine: Engine) -> None:
    heard = one(engine, EmbeddingRequest(prompt=tuple(range(100))))
    assert heard.embedding is not None
    assert len(heard.embedding) == 64 * 4
    assert (heard.reason, heard.ids) == ("length", [])
    assert heard.bytes() != one(engine, EmbeddingRequest(prompt=tuple(range(99)))).bytes()


def test_a_stop_id_ends_a_choice_and_is_no_token(engine: Engine) -> None:
    whole = one(engine, ASKED)
    stop = whole.ids[4]
    heard = one(engine, replace(ASKED, stop_ids=frozenset({stop})))
    first = whole.ids.index(stop)
    assert (heard.ids, heard.reason, heard.stop_id) == (whole.ids[:first], "stop", stop)
    assert heard.usage is not None
    assert (heard.usage.prompt, heard.usage.made) == (3, first + 1)
    held = one(engine, replace(ASKED, stop_ids=frozenset({stop}), min_tokens=12))
    assert len(held.ids) == 12
    assert stop not in held.ids


def test_a_grammar_restricts_and_ends_its_choice(engine: Engine) -> None:
    heard = Asked(engine, replace(ASKED, n=2, grammars=(Letters(5), Letters(3)))).wait()
    assert [each.ids for each in heard] == [[40, 41, 42, 43, 44], [40, 41, 42]]
    assert [each.reason for each in heard] == ["stop", "stop"]


@pytest.mark.parametrize(
    ("grammar", "message"), [(Broken(3), "the grammar broke"), (Impossible(3), "no token is allowed to come next")]
)
def test_a_grammar_that_fails_ends_its_choice_alone(engine: Engine, grammar: Letters, message: str) -> None:
    other = Asked(engine, replace(ASKED, max_tokens=40))
    heard = one(engine, replace(ASKED, grammars=(grammar,)))
    assert (heard.reason, heard.ids) == ("error", [])
    assert heard.problem is not None
    assert heard.problem.message == f"the choice ended by an error: {message}"
    assert heard.problem.fix == "look into the server's log"
    assert other.wait()[0].reason == "length"


def test_whoever_raises_while_it_is_told_ends_its_choice_alone(engine: Engine) -> None:
    def fail(event: Event) -> None:
        raise BrokenPipeError("gone")

    engine.submit(LONG, fail)
    assert one(engine, ASKED).reason == "length"
    until(lambda: engine.stats().running == 0)
    assert engine.stats().pages_used == 0


def test_cancelling_frees_the_pages_wherever_the_choice_is(engine: Engine) -> None:
    runs = [Asked(engine, replace(LONG, seed=seed)) for seed in range(9)]  # more than run at once
    runs[0].wait_for_events(5)
    for each in runs:
        each.ticket.cancel()
        each.ticket.cancel()
    assert {each.wait()[0].reason for each in runs} == {"cancelled"}
    assert runs[8].choices[0].ids == []
    until(lambda: engine.stats().pages_used == 0)
    assert (engine.stats().running, engine.stats().queued) == (0, 0)


def test_a_deadline_ends_what_runs_and_what_waits(engine: Engine) -> None:
    soon = time.monotonic() + 0.05
    runs = [Asked(engine, replace(LONG, seed=seed, deadline=soon)) for seed in range(9)]
    assert {each.wait()[0].reason for each in runs} == {"timeout"}
    assert runs[8].choices[0].ids == []


def test_a_full_queue_refuses_with_a_time_to_wait(model: Model) -> None:
    engine = engine_of(model, max_queue=2)
    runs = [Asked(engine, replace(LONG, seed=seed)) for seed in range(8)]
    with pytest.raises(QueueFull) as caught:
        engine.submit(replace(ASKED, n=2), lambda event: None)
    assert caught.value.problems[0].message == "8 choices run or wait, of 8 at most; 2 more are asked for"
    assert caught.value.problems[0].fix == "ask again later, or for fewer choices"
    assert caught.value.retry_after_s >= 1
    for each in runs:
        each.ticket.cancel()
        each.wait()
    assert one(engine, ASKED).reason == "length"
    engine.close()


def test_draining_ends_what_was_taken_and_takes_nothing_more(model: Model) -> None:
    engine = engine_of(model)
    runs = [Asked(engine, replace(ASKED, seed=seed)) for seed in range(9)]
    assert engine.drain(60)
    assert {each.wait()[0].reason for each in runs} == {"length"}
    with pytest.raises(Draining) as caught:
        engine.submit(ASKED, lambda event: None)
    assert caught.value.problems[0].message == "the engine is being shut down"
    assert caught.value.problems[0].fix == "ask another one, or ask later"


def test_draining_cancels_what_is_not_done_in_time(model: Model) -> None:
    engine = engine_of(model)
    runs = [Asked(engine, replace(LONG, seed=seed)) for seed in range(9)]
    runs[0].wait_for_events(1)
    assert not engine.drain(0.01)
    assert "cancelled" in {each.wait()[0].reason for each in runs}


def test_a_short_prompt_does_not_wait_for_a_long_one(engine: Engine) -> None:
    long = Asked(engine, replace(ASKED, prompt=tuple(i % 290 for i in range(1000)), max_tokens=1))
    assert one(engine, replace(ASKED, max_tokens=1)).reason == "length"
    assert not long.choices[0].reason
    long.wait()


def test_the_stats_count_what_was_done(engine: Engine) -> None:
    prompt = tuple(range(200))
    for _ in range(2):
        one(engine, replace(ASKED, prompt=prompt))
    until(lambda: engine.stats().ended == 2)
    stats = engine.stats()
    assert (stats.prompt_tokens, stats.hit_tokens, stats.made_tokens) == (400, 192, 24)
    assert (stats.pages_used, stats.pages_cached, stats.pages_total) == (0, 3, 40)
    assert 0 < stats.host_s < stats.busy_s
    assert stats.steps == 11 + 11 + 3 + 1


def test_the_description_says_what_runs(engine: Engine) -> None:
    shown = engine.describe()
    assert (shown.context, shown.vocabulary, shown.n_threads, shown.limits) == (1024, 290, 2, LIMITS)
    assert {plan.name.partition(":")[0] for plan in shown.plans} == {"decode", "prefill"}
    assert {plan.launches for plan in shown.plans if plan.name == "decode:1-1"} == {16}
    assert dict((axis, holds) for axis, holds, _ in shown.certificate)["rows in the batch and their order"] == "yes"
    assert len(shown.fingerprint) == 64


@pytest.mark.parametrize(
    ("changes", "message", "fix"),
    [
        ({"max_seqs": 0}, "0 choices at once and a queue of 100 are asked for", "ask for at least one choice at once"),
        ({"step_rows": 6}, "a step of 6 rows is asked for, with 6 choices at once", "give more rows than choices, and"),
        ({"step_rows": 513}, "a step of 513 rows is asked for", "and at most the 512 rows of a prefill step"),
        ({"prompt_rows": 0}, "a step of 0 rows of prompts is asked for", "give 1 or more, and at most the 512 rows"),
        ({"prompt_rows": 513}, "a step of 513 rows of prompts is asked for", "at most the 512 rows of a prefill step"),
        ({"n_pages": 41}, "41 KV pages are asked for, the model was loaded with 40", "load it with as many pages"),
    ],
)
def test_limits_that_cannot_be_kept_are_refused(model: Model, changes: dict[str, int], message: str, fix: str) -> None:
    with pytest.raises(RunError) as caught:
        open_engine(model, replace(LIMITS, **changes))  # fields of one record
    assert message in caught.value.problems[0].message
    assert fix in caught.value.problems[0].fix


REFUSED: list[tuple[dict[str, object], str, str]] = [
    ({"prompt": ()}, "the prompt has no tokens", "give a prompt with some text"),
    ({"prompt": (1, 290)}, "the prompt has the token id 290, the model takes 0 to 289", "use this model's tokenizer"),
    ({"prompt": (1,) * 1025}, "the prompt has 1025 tokens, the context is 1024", "shorten it to 1024 tokens or fewer"),
    (
        {"max_tokens": 1023},
        "the prompt has 3 tokens and 1023 more are asked for, the context is 1024",
        "ask for 1022 tokens or fewer, or shorten the prompt",
    ),
    ({"max_tokens": 0}, "0 tokens are asked for", "ask for at least one"),
    ({"n": 0}, "0 choices are asked for", "ask for at least one"),
    ({"n": 107}, "107 choices are asked for, 106 can run and wait", "ask for fewer"),
    ({"temperature": 1e-5}, "the temperature is 1e-05", "give 0 for the most likely token, or 0.0001 to 10000"),
    ({"temperature": float("nan")}, "the temperature is nan", "give 0 for the most likely token, or 0.0001 to 10000"),
    ({"top_p": 0.0}, "top_p is 0.0", "give a number above 0 and at most 1"),
    ({"top_p": 1e-50}, "top_p is 1e-50", "give a number above 0 and at most 1"),  # 0 in float32
    ({"min_p": 1.5}, "min_p is 1.5", "give a number from 0 to 1"),
    ({"top_k": -1}, "top_k is -1", "give the number of tokens to keep, or 0 for all"),
    ({"seed": -1}, "the seed is -1", "give an integer from 0 to 2**64 - 1"),
    ({"repetition_penalty": 0.0}, "the repetition penalty is 0.0", "give a number above 0; 1 is none"),
    ({"presence_penalty": float("inf")}, "the presence penalty is inf", "give a finite number; 0 is none"),
    ({"frequency_penalty": float("nan")}, "the frequency penalty is nan", "give a finite number; 0 is none"),
    ({"bias": {290: 1.0}}, "the bias of token id 290 is 1.0", "give numbers for ids from 0 to 289"),
    ({"stop_ids": frozenset({400})}, "the stop id 400 is no id of the model", "give ids from 0 to 289"),
    (
        {"min_tokens": 13},
        "at least 13 tokens and at most 12 are asked for",
        "ask for no more at least than at most",
    ),
    ({"n_logprobs": 21}, "21 alternatives of each token are asked for", "ask for 0 to 20"),
    ({"grammars": (Letters(1),), "n": 2}, "there are 1 grammars for 2 choices", "give one for each choice, or none"),
]


@pytest.mark.parametrize(("changes", "message", "fix"), REFUSED)
def test_a_request_that_can_never_run_is_refused(
    engine: Engine, changes: dict[str, object], message: str, fix: str
) -> None:
    asked: Request = replace(ASKED, **changes)  # fields of one record
    with pytest.raises(CannotFit) as caught:
        engine.submit(asked, lambda event: None)
    assert [(each.message, each.fix) for each in caught.value.problems] == [(message, fix)]
    assert engine.stats().queued == 0


def test_a_request_that_no_pool_of_this_size_holds_is_refused(model: Model) -> None:
    engine = engine_of(model, n_pages=2)
    with pytest.raises(CannotFit) as caught:
        engine.submit(replace(ASKED, prompt=(1,) * 100, max_tokens=30), lambda event: None)
    assert caught.value.problems[0].message == "129 positions take 3 KV pages, the pool has 2"
    assert caught.value.problems[0].fix == "ask for fewer tokens, or start the engine with a larger pool"
    assert one(engine, replace(ASKED, prompt=(1,) * 100, max_tokens=29)).reason == "length"
    engine.close()


def until(holds: object) -> None:
    """Waits until it holds: the engine's thread tells before it counts."""
    assert callable(holds)
    end = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end, "it never holds"
        time.sleep(0.005)
