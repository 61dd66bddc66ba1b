"""Which choices run, and which rows the next step has.

Choices are admitted in the order in which they came, where there is a slot and where the pages of all their ids are
free, with one more for each choice that runs. A choice that needs a page where none is free takes those of the one
that was admitted last: that one waits in front of all others and is computed again, to the same bytes, because noise
is addressed and prefill gives what decode gave. The choice that was admitted first never gives its pages up, and every
request fits the pool alone: so all end.

A step has a row for each choice that makes tokens, then rows of prompts: what is left of the step's rows is shared out
among all prompts, so that a short one does not wait for a long one. Where no choice makes tokens, a step may be longer.
"""

from collections import deque

import numpy as np
from msgspec import Struct

from circuit.emit.layout import PAGE, Layout
from circuit_exec.engine.interface import Limits
from circuit_exec.engine.pool import Pool
from circuit_exec.engine.sequence import Sequence
from circuit_exec.engine.slots import Slots
from circuit_exec.kv import pages_for

LEAST_SHARE = 8
"""Rows of a prompt in a step where several are computed: a tile of a projection's rows."""


class Chunk(Struct, frozen=True, kw_only=True, eq=False):
    """Positions from `first` up to `end` of a choice's ids."""

    sequence: Sequence
    first: int
    end: int


class Scheduler:
    """`filling` are admitted choices whose ids are not all computed, `making` those that feed their last token."""

    def __init__(self, limits: Limits, layout: Layout, fingerprint: str) -> None:
        self.limits = limits
        self.pool = Pool(limits.n_pages, fingerprint, limits.prefix_cache)
        self.slots = Slots(limits.max_seqs, layout)
        self.waiting: deque[Sequence] = deque()
        self.filling: list[Sequence] = []
        self.making: list[Sequence] = []
        self.preempted = 0
        self.hit_tokens = 0
        self.prompt_tokens = 0
        self._admitted: dict[Sequence, None] = {}  # in order

    def running(self) -> int:
        """Choices that have a slot."""
        return len(self._admitted)

    def admitted(self) -> tuple[Sequence, ...]:
        """Choices that have a slot, in the order in which they got it."""
        return tuple(self._admitted)

    def admit(self) -> None:
        """Gives slots and pages to those that wait, as long as there are some."""
        place = 0
        while place < len(self.waiting) and self.slots.free():
            sequence = self.waiting[place]
            if self._follows(sequence):
                place += 1
            elif self._enter(sequence):
                del self.waiting[place]
            else:
                return

    def grow(self) -> None:
        """Gives every choice that makes tokens the page that its next row is written to."""
        slots = self.slots
        rows = np.fromiter((sequence.slot for sequence in self.making), np.intp, len(self.making))
        for place in np.flatnonzero(slots.position[rows] % PAGE == 0).tolist():
            sequence = self.making[place]
            if sequence.slot >= 0:  # it may have lost its pages to one before it
                self._grow(sequence)
        self.making = [sequence for sequence in self.making if sequence.slot >= 0]

    def chunks(self) -> list[Chunk]:
        """The rows of prompts in the next step."""
        left = self.limits.step_rows - len(self.making) if self.making else self.limits.prompt_rows
        found = []
        for place, sequence in enumerate(self.filling):
            share = max(-(-left // (len(self.filling) - place)), LEAST_SHARE)
            count = min(share, left, sequence.length - sequence.computed)
            if count > 0:
                first = sequence.computed
                found.append(Chunk(sequence=sequence, first=first, end=first + count))
                left -= count
        return found

    def computed(self, sequence: Sequence, end: int) -> None:
        """All positions up to `end` stand on the choice's pages; full ones are kept."""
        sequence.computed = end
        if not self.limits.prefix_cache:
            return
        for place in range(len(sequence.path), end // PAGE):
            page = self.pool.keep(sequence.path, sequence.full_page(place), sequence.pages[place])
            sequence.pages[place] = self.slots.table[sequence.slot, place] = page

    def makes(self, sequence: Sequence) -> None:
        """All ids of a choice that was filling are computed but the last, which has just come: it is the next row."""
        sequence.prefilled = True
        self.filling.remove(sequence)
        self.making.append(sequence)

    def remove(self, sequence: Sequence) -> None:
        """The choice has ended: what it held is free."""
        if sequence.slot < 0:
            self.waiting.remove(sequence)
            return
        self._leave(sequence)

    def _follows(self, sequence: Sequence) -> bool:
        """Whether the pages that it will share are being computed by the first choice of its request."""
        leader = sequence.leader
        shares = self.limits.prefix_cache and sequence.n_prompt > PAGE
        return shares and leader is not None and not leader.prefilled and leader.ended is None

    def _enter(self, sequence: Sequence) -> bool:
        path = self.pool.find(sequence.known()) if sequence.reads_cache else []
        self.pool.hold(path)
        lacking = pages_for(sequence.length) - len(path)
        if self.pool.free() < lacking + self.running():
            self.pool.release(path, ())
            return False
        sequence.path = path
        sequence.pages = [kept.page for kept in path]
        for _ in range(lacking):
            page = self.pool.take()
            assert page is not None, "the pool has fewer pages than it says"
            sequence.pages.append(page)
        sequence.computed = PAGE * len(path)
        if not sequence.prefilled:
            sequence.cached = sequence.computed
            self.hit_tokens += sequence.computed
            self.prompt_tokens += sequence.n_prompt
        self.slots.take(sequence)
        self._admitted[sequence] = None
        self.filling.append(sequence)
        return True

    def _grow(self, sequence: Sequence) -> None:
        page = self.pool.take()
        while page is None:
            last = next(reversed(self._admitted))
            self._preempt(last)
            if last is sequence:
                return
            page = self.pool.take()
        self.slots.table[sequence.slot, len(sequence.pages)] = page
        sequence.pages.append(page)

    def _preempt(self, sequence: Sequence) -> None:
        was_making = sequence in self.making
        self._leave(sequence, keeps_place=was_making)
        sequence.computed = 0
        sequence.mean = None
        self.preempted += 1
        self.waiting.appendleft(sequence)

    def _leave(self, sequence: Sequence, keeps_place: bool = False) -> None:
        """Takes slot and pages; with `keeps_place`, whoever walks over `making` takes it out."""
        del self._admitted[sequence]
        if sequence in self.filling:
            self.filling.remove(sequence)
        elif not keeps_place:
            self.making.remove(sequence)
        self.pool.release(sequence.path, sequence.pages[len(sequence.path) :])
        self.slots.give_back(sequence)
        sequence.path, sequence.pages = [], []
