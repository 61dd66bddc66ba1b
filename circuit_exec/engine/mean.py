"""The mean of a sequence's hidden rows, in an order that chunks of prefill cannot change.

fold:256 over positions: each chunk of 256 positions from +0, the total from +0, chunk sums added in ascending order;
then one product with the float32 nearest to 1/n. Every step is one f32 addition a column.
"""

import numpy as np
from numpy.typing import NDArray

CHUNK = 256
"""Positions of a chunk, as in the folds of circuit/uop/orders.py."""


class Mean:
    """Rows are added in the order of their positions."""

    def __init__(self, dim: int) -> None:
        self._total = np.zeros(dim, np.float32)
        self._chunk = np.zeros(dim, np.float32)
        self._n = 0

    def add(self, rows: NDArray[np.float32]) -> None:
        """rows: [positions, dim], those behind the rows before."""
        at = 0
        while at < len(rows):
            count = min(len(rows) - at, CHUNK - self._n % CHUNK)
            parts = np.concatenate([self._chunk[None], rows[at : at + count]])
            self._chunk = np.add.accumulate(parts, axis=0)[-1].copy()
            self._n += count
            at += count
            if self._n % CHUNK == 0:
                self._total = self._total + self._chunk
                self._chunk = np.zeros_like(self._chunk)

    def value(self) -> NDArray[np.float32]:
        """[dim] of all rows."""
        total = self._total if self._n % CHUNK == 0 else self._total + self._chunk
        return total * np.float32(1.0 / self._n)
