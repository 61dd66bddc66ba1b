"""The hand-made plan of tests/emit/small.py as a running program, and what it computes in plain Python."""

from collections.abc import Sequence

import numpy as np

from circuit.emit.derive import layout
from circuit.emit.program import emit_program
from circuit_exec.build import build
from circuit_exec.cache import Cache
from circuit_exec.cpu import Program
from tests.emit import small

PLANS = (small.plan("decode"), small.plan("prefill"))
WEIGHT = np.arange(1, small.COLUMNS + 1, dtype=np.float32)


def program(cache: Cache, n_threads: int) -> Program:
    """The compiled plan on `n_threads` threads."""
    library = build(emit_program(PLANS), cache, lambda what, part: None)
    return Program(library, layout(PLANS), WEIGHT.view(np.uint8), n_threads, small.PAGES)


def logits(tokens: Sequence[int]) -> np.ndarray:
    """[positions, columns]: the running sum times the weight."""
    return np.cumsum(np.array(tokens, np.float32))[:, None] * WEIGHT[None, :]


def greedy(prompt: Sequence[int], n: int) -> list[int]:
    """The next token is the running sum, modulo the vocabulary."""
    ids = list(prompt)
    for _ in range(n):
        ids.append(sum(ids) % small.VOCAB)
    return ids[len(prompt) :]
