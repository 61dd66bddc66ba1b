"""Requests of an engine and what it says of them, gathered until each choice has ended."""

from collections.abc import Sequence
from threading import Condition

import numpy as np
from msgspec.structs import replace

from circuit.errors import Problem
from circuit_exec.engine.engine import Engine, Ticket
from circuit_exec.engine.interface import Limits
from circuit_exec.engine.open import open_engine
from circuit_exec.engine.request import (
    Embedding,
    EmbeddingRequest,
    Ended,
    Event,
    PromptScored,
    Request,
    Scored,
    Token,
    Usage,
)
from circuit_exec.model import Model

PATIENCE_S = 120.0

LIMITS = Limits(max_seqs=6, step_rows=48, prompt_rows=70, n_pages=40, max_queue=100, prefix_cache=True)

ASKED = Request(prompt=(5, 9, 200), max_tokens=12, temperature=0.8, top_p=0.95, seed=7)


class Heard:
    """What was said of one choice; `bytes` is all of it that may depend on nothing but request and model."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.scores: list[Scored | None] = []
        self.prompt: tuple[Scored | None, ...] | None = None
        self.embedding: bytes | None = None
        self.reason = ""
        self.stop_id: int | None = None
        self.usage: Usage | None = None
        self.problem: Problem | None = None

    def hear(self, event: Event) -> None:
        """One event."""
        assert not self.reason, f"{event} after the end"
        match event:
            case Token(id=id, scored=scored):
                self.ids.append(id)
                self.scores.append(scored)
            case PromptScored(scored=prompt):
                assert not self.ids, "the prompt is scored before the first token"
                self.prompt = prompt
            case Embedding(values=values):
                self.embedding = np.ascontiguousarray(values, np.float32).tobytes()
            case Ended(reason=reason, usage=usage, stop_id=stop_id, problem=problem):
                self.reason, self.usage, self.stop_id, self.problem = reason, usage, stop_id, problem

    def bytes(self) -> tuple[object, ...]:
        """Floats in hex: equal bits, not close numbers."""
        scores = tuple(_hex(each) for each in (*self.scores, *(self.prompt or ())))
        return (tuple(self.ids), scores, self.embedding, self.reason, self.stop_id)


class Asked:
    """A request that was submitted."""

    def __init__(self, engine: Engine, request: Request | EmbeddingRequest) -> None:
        self._done = Condition()
        self.choices = [Heard() for _ in range(request.n if isinstance(request, Request) else 1)]
        self.n_events = 0
        self.ticket: Ticket = engine.submit(request, self._hear)

    def _hear(self, event: Event) -> None:
        with self._done:
            self.choices[event.choice].hear(event)
            self.n_events += 1
            self._done.notify_all()

    def wait(self) -> list[Heard]:
        """Until every choice has ended."""
        with self._done:
            assert self._done.wait_for(lambda: all(each.reason for each in self.choices), PATIENCE_S), "it never ends"
        return self.choices

    def wait_for_events(self, n: int) -> None:
        """Until so many events were heard."""
        with self._done:
            assert self._done.wait_for(lambda: self.n_events >= n, PATIENCE_S), "nothing is said"


def answers(engine: Engine, requests: Sequence[Request | EmbeddingRequest]) -> list[tuple[object, ...]]:
    """The bytes of every choice of requests that are asked all at once, in the order of the requests."""
    asked = [Asked(engine, request) for request in requests]
    return [choice.bytes() for each in asked for choice in each.wait()]


def one(engine: Engine, request: Request | EmbeddingRequest) -> Heard:
    """The only choice of a request that is asked alone."""
    (choice,) = Asked(engine, request).wait()
    return choice


OPENED: list[Engine] = []
"""Closed after each test, also one that fails: two engines cannot run on one program."""


def engine_of(model: Model, **changes: int | bool) -> Engine:
    """An engine with other limits where they are given."""
    OPENED.append(open_engine(model, replace(LIMITS, **changes)))  # fields of one record
    return OPENED[-1]


def _hex(scored: Scored | None) -> object:
    if scored is None:
        return None
    return scored.logprob.hex(), tuple((id, value.hex()) for id, value in scored.top)
