"""Log-probabilities of ids from logits and what the section `score` left; the most likely ids by exact comparison."""

import numpy as np
from numpy.typing import NDArray

from circuit_exec.engine.request import Scored


def highest(row: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """The ids of the k largest logits, largest first; of equal ones the lower id. A NaN counts as -inf."""
    if np.isnan(row).any():
        row = np.where(np.isnan(row), np.float32(-np.inf), row)
    k = min(k, len(row))
    if k == 0:
        return np.zeros(0, np.int64)
    least = np.partition(row, len(row) - k)[len(row) - k]
    above = np.flatnonzero(row > least)
    ids = np.concatenate([above, np.flatnonzero(row == least)[: k - len(above)]])
    return ids[np.lexsort((ids, -row[ids]))]


def scored(row: NDArray[np.float32], log_sum: NDArray[np.float32], id: int, n_top: int) -> Scored:
    """An id's score, and those of the `n_top` most likely ids. row: [vocabulary] logits; log_sum: [2]."""
    ids = highest(row, n_top)
    values = (row[ids] - log_sum[0]) - log_sum[1]
    own = (row[id] - log_sum[0]) - log_sum[1]
    return Scored(logprob=float(own), top=tuple(zip(ids.tolist(), values.tolist(), strict=True)))
