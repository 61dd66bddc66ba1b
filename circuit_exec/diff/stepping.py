"""A token list run step by step, and what each step left, by the positions of the tokens."""

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from circuit.emit.layout import PAGE
from circuit.emit.runtime import MAIN
from circuit.emit.watch import InArena, InState, Watched
from circuit_exec.cpu import Program
from circuit_exec.diff.sides import Opened
from circuit_exec.generate import check_chunk, check_fits, run_rows
from circuit_exec.stored import stored

Words = NDArray[np.uint32]


class Seen(Struct, frozen=True, kw_only=True, eq=False):
    """What step `step` left of the positions from `first` up to `end`, of which those in `asked` have logits.

    Valid until the next step of the same program.
    """

    step: int
    mode: str
    first: int
    end: int
    asked: tuple[int, ...]
    watched: tuple[Watched, ...]
    program: Program
    pages: tuple[int, ...]


def steps(opened: Opened, tokens: Sequence[int], asked: Sequence[int]) -> Iterator[Seen]:
    """Prefill in chunks, then decode steps of one row; logits at the positions that are asked for."""
    side, program, pages = opened.side, opened.program, opened.pages
    chunk = program.max_rows("prefill") if side.chunk is None else side.chunk
    check_chunk(program, chunk)
    check_fits(program, len(tokens), 1)
    prefilled = len(tokens) - side.steps
    assert prefilled >= 0, f"{side.steps} steps for {len(tokens)} tokens"
    spans = [("prefill", at, min(at + chunk, prefilled)) for at in range(0, prefilled, chunk)]
    spans += [("decode", at, at + 1) for at in range(prefilled, len(tokens))]
    pages.grow(0, len(tokens))
    try:
        held = tuple(int(page) for page in pages.tables((0,), program.layout.table_width)[0])
        for step, (mode, first, end) in enumerate(spans):
            own = tuple(position for position in asked if first <= position < end)
            rows = [position - first for position in own]
            run_rows(program, pages, mode, tokens[first:end], first, rows, MAIN, ())
            place, _ = program.plan_for(mode, end - first)
            yield Seen(
                step=step,
                mode=mode,
                first=first,
                end=end,
                asked=own,
                watched=opened.made.watched[place],
                program=program,
                pages=held,
            )
    finally:
        pages.release(0)


def positions_of(seen: Seen, each: Watched, first: int, end: int) -> Sequence[int]:
    """The positions from `first` up to `end` that have a row of this edge."""
    if each.rows == "m":
        return [position for position in seen.asked if first <= position < end]
    return range(first, end)


def rows_of(seen: Seen, each: Watched, first: int, end: int) -> Words:
    """[positions, columns] the rows of an edge, or of a state side, for positions from `first` up to `end`."""
    match each.place:
        case InArena(offset_bytes=offset, stride=stride):
            n_rows = seen.end - seen.first if each.rows == "n" else len(seen.asked)
            rows = seen.program.words(offset, n_rows, stride, each.columns)
            if each.rows == "n":
                return rows[first - seen.first : end - seen.first]
            return rows[[row for row, position in enumerate(seen.asked) if first <= position < end]]
        case InState():
            return _state_rows(seen, each.place, first, end)


def _state_rows(seen: Seen, place: InState, first: int, end: int) -> Words:
    parts = []
    for page in range(first // PAGE, (end - 1) // PAGE + 1):
        a, b = max(first, page * PAGE) - page * PAGE, min(end, (page + 1) * PAGE) - page * PAGE
        words = seen.program.page(place.state, seen.pages[page])
        parts.append(stored(words, place.format, place.heads, place.head_dim, place.side)[a:b])
    return np.concatenate(parts)
