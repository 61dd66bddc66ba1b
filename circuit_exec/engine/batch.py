"""The rows of a step as arrays, and what is to be read from what they leave.

Rows that get logits stand in this order: those that are drawn from, by kind of drawing, so that each section has one
span; those of prompts that are scored; behind them, without logits, those that embeddings are made of.
"""

from collections.abc import Sequence as Listed

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from circuit.emit.runtime import GREEDY, HIDDEN, SAMPLE, SCORE
from circuit_exec.engine.request import EmbeddingRequest
from circuit_exec.engine.schedule import Chunk
from circuit_exec.engine.sequence import Sequence
from circuit_exec.engine.slots import Slots
from circuit_exec.step import NO_DRAWS, Arrays, Ints, Sampler, spans


class Part(Struct, frozen=True, kw_only=True, eq=False):
    """Rows of one choice at positions from `first` up to `end`, from place `at` of the rows with logits on."""

    sequence: Sequence
    at: int
    first: int
    end: int


class Batch(Struct, frozen=True, kw_only=True, eq=False):
    """One step. `drawing[i]`, in slot `slots[i]`, is the choice that takes the token at `positions[i]` from row i with
    logits; the first `n_greedy` take the most likely one. Logits of rows from `changed[0]` up to `changed[1]` are
    changed before, and `again` and `again_sampler` are then the sections that take tokens from them. `scored` are parts
    of prompts.
    """

    arrays: Arrays
    drawing: tuple[Sequence, ...]
    slots: NDArray[np.intp]
    positions: Ints
    n_greedy: int
    changed: tuple[int, int]
    again: tuple[int, ...]
    again_sampler: Sampler
    scored: tuple[Part, ...]
    hidden: tuple[Part, ...]


def batch_of(mode: str, slots: Slots, making: Listed[Sequence], chunks: Listed[Chunk]) -> Batch:
    """The step of a token of each choice in `making` and of chunks."""
    own = np.fromiter((sequence.slot for sequence in making), np.intp, len(making))
    tokens, positions, rows_of = [slots.token[own]], [slots.position[own]], [own.astype(np.int32)]
    ended: list[Sequence] = []
    last_rows: list[int] = []
    scored: list[tuple[Sequence, int, int, int]] = []  # choice, row of its first position, positions
    hidden: list[tuple[Sequence, int, int, int]] = []
    at = len(making)
    for chunk in chunks:
        sequence, first, end = chunk.sequence, chunk.first, chunk.end
        tokens.append(sequence.tokens(first, end))
        positions.append(np.arange(first, end, dtype=np.int32))
        rows_of.append(np.full(end - first, sequence.slot, np.int32))
        if isinstance(sequence.request, EmbeddingRequest):
            hidden.append((sequence, at, first, end))
        elif end == sequence.length and sequence.draws:
            ended.append(sequence)
            last_rows.append(at + end - first - 1)
        if sequence.scores is not None:
            a, b = max(first, len(sequence.scores) - 1), min(end, sequence.n_prompt - 1)
            if a < b:
                scored.append((sequence, at + a - first, a, b))
        at += end - first
    drawn = _Drawn(slots, making, own, ended, last_rows)
    logit_rows, n_drawn = [drawn.rows], len(drawn.rows)
    scored_parts = _parts(scored, n_drawn, logit_rows)
    n_logits = n_drawn + sum(part.end - part.first for part in scored_parts)
    hidden_parts = _parts(hidden, n_logits, logit_rows)
    n_hidden = sum(part.end - part.first for part in hidden_parts)
    wanted = np.flatnonzero(slots.scores[drawn.slots])
    first_scored = int(wanted[0]) if len(wanted) else n_drawn
    end_scored = n_logits if scored_parts else (int(wanted[-1]) + 1 if len(wanted) else first_scored)
    gp, gc, sc, sp = drawn.counts
    sections = {
        GREEDY: (0, gp),
        SAMPLE: (gp + gc + sc, sp),
        SCORE: (first_scored, end_scored - first_scored),
        HIDDEN: (n_logits, n_hidden),
    }
    return Batch(
        arrays=Arrays(
            mode=mode,
            tokens=_joined(tokens),
            positions=_joined(positions),
            sequences=_joined(rows_of),
            page_tables=slots.table,
            logit_rows=_joined(logit_rows),
            n_logits=n_logits,
            sections=spans(sections),
            sampler=drawn.sampler(gp + gc + sc, sp),
        ),
        drawing=drawn.sequences,
        slots=drawn.slots,
        positions=drawn.positions,
        n_greedy=gp + gc,
        changed=(gp, gp + gc + sc),
        again=spans({GREEDY: (gp, gc), SAMPLE: (gp + gc, sc)}),
        again_sampler=drawn.sampler(gp + gc, sc),
        scored=tuple(scored_parts),
        hidden=tuple(hidden_parts),
    )


class _Drawn:
    """The choices that take a token, by kind."""

    def __init__(
        self,
        slots: Slots,
        making: Listed[Sequence],
        own: NDArray[np.intp],
        ended: list[Sequence],
        last_rows: list[int],
    ) -> None:
        places, positions = own, slots.position[own] + 1
        rows = np.arange(len(making), dtype=np.int32)
        if ended:
            after = [sequence.slot for sequence in ended]
            lengths = [sequence.length for sequence in ended]
            places = np.concatenate([own, np.array(after, np.intp)])
            positions = np.concatenate([positions, np.array(lengths, np.int32)])
            rows = np.concatenate([rows, np.array(last_rows, np.int32)])
        kinds = slots.kind[places]
        order = np.argsort(kinds, kind="stable")
        self._all = slots
        self.positions: Ints = positions[order]
        self.slots = places[order]
        self.rows = rows[order]
        self.counts: tuple[int, ...] = tuple(np.bincount(kinds, minlength=4).tolist())
        everyone = (*making, *ended)
        self.sequences = tuple(everyone[place] for place in order.tolist())

    def sampler(self, first: int, count: int) -> Sampler:
        """The draws of `count` choices from place `first` on."""
        if not count:
            return NO_DRAWS
        return self._all.sampler(self.slots[first : first + count], self.positions[first : first + count])


def _joined(parts: list[NDArray[np.int32]]) -> NDArray[np.int32]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _parts(
    given: list[tuple[Sequence, int, int, int]], at: int, logit_rows: list[NDArray[np.int32]]
) -> tuple[Part, ...]:
    """The parts, whose rows are put behind those that there are."""
    parts = []
    for sequence, row, first, end in given:
        parts.append(Part(sequence=sequence, at=at, first=first, end=end))
        logit_rows.append(np.arange(row, row + end - first, dtype=np.int32))
        at += end - first
    return tuple(parts)
