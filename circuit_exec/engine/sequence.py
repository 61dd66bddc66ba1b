"""One choice while it waits and runs: its ids, how far they are computed, and what it says of itself."""

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from circuit.emit.layout import PAGE
from circuit.errors import Problem
from circuit_exec.engine.changes import Changes
from circuit_exec.engine.mean import Mean
from circuit_exec.engine.pool import Kept
from circuit_exec.engine.request import (
    EmbeddingRequest,
    Ended,
    Event,
    Grammar,
    PromptScored,
    Reason,
    Request,
    Scored,
    Token,
    Usage,
)
from circuit_exec.kv import pages_for


class Sequence:
    """`ids` are the prompt's and those that were made; the first `computed` of them stand on pages.

    `pages` are in the order of positions; the first ones are those of `path`, in the pool's tree. `slot` is its row of
    the engine's arrays, -1 while it waits.
    """

    def __init__(
        self,
        request: Request | EmbeddingRequest,
        choice: int,
        on_event: Callable[[Event], None],
        leader: "Sequence | None",
    ) -> None:
        self.request, self.choice, self.leader = request, choice, leader
        self._on_event = on_event
        self.n_prompt = len(request.prompt)
        room = request.max_tokens if isinstance(request, Request) else 0
        self._ids = np.zeros(self.n_prompt + room, np.int32)
        self._ids[: self.n_prompt] = request.prompt
        self.length = self.n_prompt
        self.computed = 0
        self.cached = 0
        self.pages: list[int] = []
        self.path: list[Kept] = []
        self.slot = -1
        self.prefilled = False
        self.ended: Reason | None = None
        self.submitted = time.monotonic()
        self.token_at: float | None = None
        self.scores: list[Scored | None] | None = None
        self.mean: Mean | None = None
        self.changes: Changes | None = None
        self.grammar: Grammar | None = None
        self.stop_ids: frozenset[int] = frozenset()
        self.n_logprobs: int | None = None
        if isinstance(request, Request):
            self.stop_ids = request.stop_ids
            self.n_logprobs = request.n_logprobs
            self.grammar = request.grammars[choice] if request.grammars else None
            changes = Changes(request, self.grammar)
            self.changes = changes if changes.due() else None
            if request.score_prompt and choice == 0:
                self.scores = [None]

    @property
    def made(self) -> int:
        """Ids behind the prompt."""
        return self.length - self.n_prompt

    @property
    def greedy(self) -> bool:
        """Whether the most likely token is taken."""
        return isinstance(self.request, Request) and self.request.temperature == 0

    @property
    def draws(self) -> bool:
        """Whether a token is wanted behind the ids."""
        return isinstance(self.request, Request) and self.made < self.request.max_tokens

    @property
    def reads_cache(self) -> bool:
        """Whether pages that others computed serve it: not where every row of the prompt is looked at."""
        return isinstance(self.request, Request) and (self.scores is None or self.prefilled)

    def most_pages(self) -> int:
        """The pages that it can ever hold: the last id that is made is never computed."""
        return pages_for(max(len(self._ids) - (len(self._ids) > self.n_prompt), self.n_prompt))

    def tokens(self, first: int, end: int) -> NDArray[np.int32]:
        """The ids at positions from `first` up to `end`: a view."""
        return self._ids[first:end]

    def known(self) -> NDArray[np.int32]:
        """All ids so far: a view."""
        return self._ids[: self.length]

    def full_page(self, place: int) -> NDArray[np.int32]:
        """The ids of page `place`, all computed."""
        assert (place + 1) * PAGE <= self.computed, f"page {place} of {self.computed} positions is not full"
        return self._ids[place * PAGE : (place + 1) * PAGE]

    def accept(self, id: int, scored: Scored | None) -> Reason | None:
        """The token came; gives why the choice ends behind it, if it does."""
        request = self.request
        assert isinstance(request, Request)
        if self.changes is not None:
            self.changes.accept(id)
            if not self.changes.due():
                self.changes = None
        self._ids[self.length] = id
        self.length += 1
        if self.grammar is not None:
            self.grammar.accept(id)
        if id in self.stop_ids:
            return "stop"
        self.say(Token(choice=self.choice, id=id, scored=scored))
        if self.grammar is not None and self.grammar.finished():
            return "stop"
        return "length" if self.made == request.max_tokens else None

    def say_scores(self) -> None:
        """The prompt is scored."""
        assert self.scores is not None
        self.say(PromptScored(choice=self.choice, scored=tuple(self.scores)))
        self.scores = None

    def say(self, event: Event) -> None:
        """Tells whoever asked."""
        self._on_event(event)

    def end(self, reason: Reason, problem: Problem | None) -> None:
        """Tells that it has ended; nothing is said afterwards."""
        assert self.ended is None, f"it has ended by {self.ended}"
        self.ended = reason
        last = int(self._ids[self.length - 1])
        stop = last if reason == "stop" and self.made and last in self.stop_ids else None
        usage = Usage(prompt=self.n_prompt, cached=self.cached, made=self.made)
        say, self._on_event = self._on_event, _nobody  # who asked often holds the ticket: no circle of references
        say(Ended(choice=self.choice, reason=reason, usage=usage, stop_id=stop, problem=problem))


def _nobody(event: Event) -> None:
    raise AssertionError(f"{event} after the end")
