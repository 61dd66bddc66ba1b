"""The logits of every position of a token list, and their hash: what two runs compare to know that they are equal."""

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from circuit.emit.runtime import MAIN
from circuit.errors import Problem, RunError
from circuit_exec.cpu import Program
from circuit_exec.generate import check_chunk, check_fits, run_rows
from circuit_exec.kv import Pages


def all_logits(program: Program, pages: Pages, tokens: Sequence[int], chunk: int) -> NDArray[np.float32]:
    """[positions, vocabulary]. `chunk` is the most rows in one step; no byte depends on it."""
    if not tokens:
        raise RunError(Problem(message="there are no tokens", fix="give at least one token id"))
    check_chunk(program, chunk)
    check_fits(program, len(tokens), 1)
    pages.grow(0, len(tokens))
    parts = []
    try:
        for first in range(0, len(tokens), chunk):
            part = tokens[first : first + chunk]
            run_rows(program, pages, "prefill", part, first, range(len(part)), MAIN, ())
            parts.append(program.logits().copy())
    finally:
        pages.release(0)
    return np.concatenate(parts)


def logits_hash(logits: NDArray[np.float32]) -> str:
    """SHA-256 over the little-endian bytes, row by row; every NaN counts as 7fc00000."""
    words = np.ascontiguousarray(logits, "<f4").view("<u4").copy()
    words[np.isnan(logits)] = 0x7FC00000
    return hashlib.sha256(words.data).hexdigest()
