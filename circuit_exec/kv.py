"""Which pages of the KV pool each sequence has: a sequence of `length` positions holds the pages that cover them."""

import numpy as np
from numpy.typing import NDArray

from circuit.emit.layout import PAGE
from circuit.errors import Problem, RunError


class Pages:
    """The pages of one pool, and who holds them. All states share the numbering: page p of one is page p of all."""

    def __init__(self, n_pages: int) -> None:
        self.n_pages = n_pages
        self._free = list(range(n_pages - 1, -1, -1))  # taken from the end: low numbers first
        self._held: dict[int, list[int]] = {}

    def grow(self, sequence: int, length: int) -> None:
        """Gives the sequence what it lacks to hold `length` positions; refuses without taking any if it cannot."""
        held = self._held.setdefault(sequence, [])
        missing = pages_for(length) - len(held)
        if missing > len(self._free):
            raise RunError(
                Problem(
                    message=f"the KV pool has {len(self._free)} of its {self.n_pages} pages left, "
                    f"{missing} more are needed for {length} positions",
                    fix="end other sequences first, or open the model with a larger pool",
                )
            )
        for _ in range(missing):
            held.append(self._free.pop())

    def release(self, sequence: int) -> None:
        """Takes all pages of the sequence back; one that holds none is fine."""
        self._free.extend(reversed(self._held.pop(sequence, [])))

    def free(self) -> int:
        """Pages that nobody holds."""
        return len(self._free)

    def tables(self, sequences: tuple[int, ...], width: int) -> NDArray[np.int32]:
        """[sequences, width] page numbers; entries behind a sequence's last page are 0 and never read."""
        table = np.zeros((len(sequences), width), np.int32)
        for row, sequence in enumerate(sequences):
            held = self._held[sequence]
            assert len(held) <= width, f"sequence {sequence} holds {len(held)} pages, a table row has {width}"
            table[row, : len(held)] = held
        return table


def pages_for(length: int) -> int:
    """Pages that hold `length` positions."""
    return -(-length // PAGE)
