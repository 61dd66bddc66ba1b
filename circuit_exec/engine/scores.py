"""Log-probabilities of ids from logits and what the section `score` left; the most likely ids by exact comparison."""

import numpy as np
from numpy.typing import NDArray

from circuit_exec.engine.request import Scored

BLOCK = 256
"""Logits of a block."""


def highest(row: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """The ids of the k largest logits, largest first; of equal ones the lower id. A NaN counts as -inf.

    Of blocks of the row, the k-th largest maximum is at most the k-th largest logit: what is below it is left out
    before anything is sorted.
    """
    k = min(k, len(row))
    if k == 0:
        return np.zeros(0, np.int64)
    tops = np.maximum.reduceat(row, np.arange(0, len(row), BLOCK))
    if np.isnan(tops).any():
        return highest(np.where(np.isnan(row), np.float32(-np.inf), row), k)
    among = tops if k <= len(tops) else row
    least = np.partition(among, len(among) - k)[len(among) - k]
    ids = np.flatnonzero(row >= least)
    return ids[np.lexsort((ids, -row[ids]))][:k]


def scored(row: NDArray[np.float32], log_sum: NDArray[np.float32], id: int, n_top: int) -> Scored:
    """An id's score, and those of the `n_top` most likely ids. row: [vocabulary] logits; log_sum: [2]."""
    ids = highest(row, n_top)
    values = (row[ids] - log_sum[0]) - log_sum[1]
    own = (row[id] - log_sum[0]) - log_sum[1]
    return Scored(logprob=float(own), top=tuple(zip(ids.tolist(), values.tolist(), strict=True)))
