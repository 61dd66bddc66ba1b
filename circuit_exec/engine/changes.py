"""What a request changes in its logits before the most likely or a drawn token is taken from them.

Every change is one f32 operation a logit, rounded once, or a comparison: the same bytes on every machine. The
logarithm of `min_p` is computed in decimal, rounded to float64 and then to float32.
"""

from collections.abc import Sequence
from decimal import Context, Decimal

import numpy as np
from numpy.typing import NDArray

from circuit_exec.engine.request import Grammar, Request
from circuit_exec.engine.scores import highest

Row = NDArray[np.float32]
NOTHING = np.float32(-np.inf)
_DECIMALS = 40
"""Digits of the logarithm before it is rounded to a float32, which has 8."""


class Changes:
    """Those of one choice. `apply` is for the token that comes next, `accept` for the one that came."""

    def __init__(self, request: Request, grammar: Grammar | None) -> None:
        self._grammar = grammar
        self._stops = np.array(sorted(request.stop_ids), np.int64)
        self._min_tokens = request.min_tokens
        self._top_k = request.top_k if request.temperature > 0 else 0
        self._limit = _limit(request) if request.temperature > 0 else None
        self._biased = np.array(list(request.bias), np.int64)
        self._bias = np.array(list(request.bias.values()), np.float32)
        self._repetition = np.float32(request.repetition_penalty)
        self._frequency = np.float32(request.frequency_penalty)
        self._presence = np.float32(request.presence_penalty)
        self._penalizes = bool(self._frequency or self._presence)
        self._repeats = bool(self._repetition != 1)
        self._counts = Counts() if self._penalizes else None
        self._seen = Counts(request.prompt) if self._repeats else None
        self._made = 0

    def accept(self, id: int) -> None:
        """The token came."""
        self._made += 1
        for counts in (self._counts, self._seen):
            if counts is not None:
                counts.add(id)

    def due(self) -> bool:
        """Whether the next token's logits are changed."""
        return bool(
            self._penalizes
            or self._repeats
            or len(self._biased)
            or self._made < self._min_tokens
            or self._top_k
            or self._limit is not None
            or self._grammar is not None
        )

    def apply(self, row: Row) -> bool:
        """Changes the logits in place; gives whether any token is left."""
        if self._seen is not None:
            ids = self._seen.ids()
            x = row[ids]
            row[ids] = np.where(x > 0, x / self._repetition, x * self._repetition)
        if self._counts is not None:
            ids = self._counts.ids()
            row[ids] = row[ids] - self._frequency * self._counts.counts() - self._presence
        row[self._biased] += self._bias
        if self._made < self._min_tokens:
            row[self._stops] = NOTHING
        if self._grammar is not None:
            mask = self._grammar.mask()
            if mask is not None:
                row[~_allowed(mask, len(row))] = NOTHING
        if 0 < self._top_k < len(row):
            kept = highest(row, self._top_k)
            values = row[kept]
            row[:] = NOTHING
            row[kept] = values
        if self._limit is not None:
            row[row - row.max() < self._limit] = NOTHING
        return bool((row > NOTHING).any())


class Counts:
    """Ids that came, each once, and how often."""

    def __init__(self, ids: Sequence[int] = ()) -> None:
        self._place: dict[int, int] = {}
        self._ids = np.zeros(16, np.int64)
        self._counts = np.zeros(16, np.float32)
        for id in ids:
            self.add(id)

    def add(self, id: int) -> None:
        """The id came once more."""
        place = self._place.setdefault(id, len(self._place))
        if place == len(self._ids):
            self._ids = np.concatenate([self._ids, np.zeros_like(self._ids)])
            self._counts = np.concatenate([self._counts, np.zeros_like(self._counts)])
        self._ids[place] = id
        self._counts[place] += 1

    def ids(self) -> NDArray[np.int64]:
        """[ids]"""
        return self._ids[: len(self._place)]

    def counts(self) -> NDArray[np.float32]:
        """[ids] how often each came."""
        return self._counts[: len(self._place)]


def _limit(request: Request) -> np.float32 | None:
    """What x - max x must reach: temperature * ln(min_p), each rounded to float32 and the product once more."""
    if request.min_p == 0:
        return None
    logarithm = np.float32(float(Decimal(request.min_p).ln(Context(prec=_DECIMALS))))
    return np.float32(request.temperature) * logarithm


def _allowed(mask: NDArray[np.bool_] | NDArray[np.int32] | NDArray[np.uint32], n: int) -> NDArray[np.bool_]:
    """[n] bool of a mask of either form."""
    flat = mask.reshape(-1)
    bits = flat if flat.dtype == np.bool_ else np.unpackbits(flat.view(np.uint8), bitorder="little").view(np.bool_)
    allowed = np.zeros(n, np.bool_)
    allowed[: min(n, len(bits))] = bits[:n]
    return allowed
