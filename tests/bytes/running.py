"""Tiny random models that run, compiled once in a test run, and their logits by prefill, by decode and in batches."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from circuit.emit.runtime import MAIN
from circuit_exec.cache import Cache
from circuit_exec.cpu import Rows
from circuit_exec.logits import all_logits
from circuit_exec.model import Model, Which, load_model
from tests import models

Logits = NDArray[np.float32]
N_SEQUENCES = 8
N_TOKENS = 300
"""More than one chunk of 256 positions."""


class Running:
    """Models by name in one folder; `folder` holds their checkpoints and the cache."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._cache = Cache(root=folder / "cache")
        self._loaded: dict[tuple[str, int, Which], Model] = {}

    def model(self, model_type: str, n_threads: int = 2, rules: Which = "all") -> Model:
        """The model, loaded once."""
        key = (model_type, n_threads, rules)
        if key not in self._loaded:
            self._loaded[key] = self.fresh(model_type, n_threads, rules)
        return self._loaded[key]

    def fresh(self, model_type: str, n_threads: int = 2, rules: Which = "all") -> Model:
        """The model, loaded anew; the caller closes it."""
        at = self._folder / model_type
        if not at.exists():
            models.write_checkpoint(at, models.tiny_config(model_type))
        return load_model(str(at), self._cache, n_threads, rules, (), lambda what, part: None, N_SEQUENCES)

    def close(self) -> None:
        """Ends all threads."""
        for model in self._loaded.values():
            model.close()


def tokens(seed: int, n: int = N_TOKENS) -> list[int]:
    """Token ids of the tiny models' vocabulary."""
    return [int(id) for id in np.random.default_rng(seed).integers(0, 290, n)]


def prefilled(model: Model, ids: Sequence[int], chunk: int) -> Logits:
    """[positions, vocabulary] by prefill steps of `chunk` rows."""
    return all_logits(model.program, model.pages, ids, chunk)


def decoded(model: Model, sequences: Sequence[Sequence[int]], order: Sequence[int], first: int) -> list[Logits]:
    """The logits of each sequence from position `first` on, by decode steps that hold all sequences in `order`.

    The positions before are prefilled, each sequence by itself.
    """
    program, pages, width = model.program, model.pages, model.program.layout.table_width
    for place, ids in enumerate(sequences):
        pages.grow(place, len(ids))
    try:
        for place, ids in enumerate(sequences):
            step(model, "prefill", ids[:first], range(first), [0] * first, pages.tables((place,), width))
        found: list[list[Logits]] = [[] for _ in sequences]
        for position in range(first, len(sequences[0])):
            row_ids = [sequences[place][position] for place in order]
            tables = pages.tables(tuple(range(len(sequences))), width)
            step(model, "decode", row_ids, [position] * len(order), order, tables)
            for row, place in enumerate(order):
                found[place].append(program.logits()[row].copy())
    finally:
        for place in range(len(sequences)):
            pages.release(place)
    return [np.stack(rows) for rows in found]


def step(
    model: Model,
    mode: str,
    ids: Sequence[int],
    positions: Sequence[int],
    sequences: Sequence[int],
    tables: NDArray[np.int32],
) -> None:
    """One step that gives the logits of every row."""
    model.program.step(
        Rows(
            mode=mode,
            tokens=ids,
            positions=positions,
            sequences=sequences,
            page_tables=tables,
            logit_rows=range(len(ids)),
            section=MAIN,
        )
    )


def assert_equal_bytes(a: Logits, b: Logits) -> None:
    """Equal to the last bit, NaNs apart from each other only by being NaN."""
    assert a.shape == b.shape
    assert not np.isnan(a).any(), "the model's logits are no numbers"
    different = np.argwhere(a.view(np.uint32) != b.view(np.uint32))
    assert len(different) == 0, f"{len(different)} of {a.size} logits differ, the first at {different[0].tolist()}"
