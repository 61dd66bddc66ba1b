"""What the program reads of the running choices, as arrays with a row for each slot."""

import numpy as np
from numpy.typing import NDArray

from circuit.emit.layout import Layout
from circuit_exec.engine.request import Request
from circuit_exec.engine.sequence import Sequence
from circuit_exec.step import Ints, Sampler

GREEDY_PLAIN, GREEDY_CHANGED, SAMPLE_CHANGED, SAMPLE_PLAIN = range(4)
"""How a choice's next token is taken. In this order each section's rows lie together, and those that are changed."""


class Slots:
    """[slots, ...] `token` is the next one to compute, at `position`; `kind` how the token behind it is taken."""

    def __init__(self, n: int, layout: Layout) -> None:
        self.table = np.zeros((n, layout.table_width), np.int32)
        self.token = np.zeros(n, np.int32)
        self.position = np.zeros(n, np.int32)
        self.kind = np.zeros(n, np.int8)
        self.scores = np.zeros(n, np.bool_)
        self.deadline = np.full(n, np.inf)
        self._temperature = np.ones(n, np.float32)
        self._top_p = np.ones(n, np.float32)
        self._seed = np.zeros((n, 2), np.uint32)
        self._choice = np.zeros(n, np.uint32)
        self._free = list(range(n - 1, -1, -1))

    def free(self) -> int:
        """Slots that nobody has."""
        return len(self._free)

    def take(self, sequence: Sequence) -> None:
        """Gives the choice a slot, and its pages a row of the table."""
        slot = sequence.slot = self._free.pop()
        self.table[slot, : len(sequence.pages)] = sequence.pages
        request = sequence.request
        self.deadline[slot] = np.inf if request.deadline is None else request.deadline
        self.scores[slot] = sequence.n_logprobs is not None
        self.set_kind(sequence)
        if isinstance(request, Request):
            self._temperature[slot] = request.temperature
            self._top_p[slot] = request.top_p
            self._seed[slot] = (request.seed & 0xFFFFFFFF, request.seed >> 32)
            self._choice[slot] = sequence.choice

    def give_back(self, sequence: Sequence) -> None:
        """The choice's slot is free."""
        self.table[sequence.slot] = 0
        self.deadline[sequence.slot] = np.inf
        self._free.append(sequence.slot)
        sequence.slot = -1

    def set_kind(self, sequence: Sequence) -> None:
        """How the next token of the choice is taken."""
        changed = sequence.changes is not None
        plain, other = (GREEDY_PLAIN, GREEDY_CHANGED) if sequence.greedy else (SAMPLE_PLAIN, SAMPLE_CHANGED)
        self.kind[sequence.slot] = other if changed else plain

    def sampler(self, slots: NDArray[np.intp], positions: Ints) -> Sampler:
        """The draws of the tokens at `positions` of the choices in `slots`."""
        return Sampler(
            temperature=self._temperature[slots],
            top_p=self._top_p[slots],
            seeds=self._seed[slots],
            choices=self._choice[slots],
            positions=positions,
        )
