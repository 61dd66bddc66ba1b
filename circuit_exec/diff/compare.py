"""Two runs of the same tokens, side by side: how many elements differ, and the first of them.

Steps of different lengths are compared over the positions that both have just computed, so that each run needs the
memory of one step. First means: in the earliest such range, of the earliest launch, in the lowest row and column.
"""

from collections.abc import Iterator

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from circuit.emit.watch import InArena, Watched
from circuit_exec.diff.stepping import Seen, Words, positions_of, rows_of

NAN = 0x7FC00000


class Where(Struct, frozen=True, kw_only=True):
    """The step and launch of one side that made an element, and its row in that step."""

    step: int
    mode: str
    row: int
    launch: int
    rule: str
    members: tuple[str, ...]


class Difference(Struct, frozen=True, kw_only=True):
    """One element of an edge that two runs computed differently; `ulps` is None where one of them is no number.

    `format` is f32 or i32, `words` are the bits; `n_different` elements of the edge's `n_elements` differ in this step.
    """

    edge: str
    format: str
    position: int
    column: int
    words: tuple[int, int]
    ulps: int | None
    n_different: int
    n_elements: int
    at: tuple[Where, Where]


class Comparison(Struct, frozen=True, kw_only=True):
    """What two runs have in common. `only` counts the edges that one side alone has: fused away in the other."""

    n_edges: int
    only: tuple[int, int]
    n_elements: int
    n_different: int
    first: Difference | None


def compare(one: Iterator[Seen], other: Iterator[Seen]) -> Comparison:
    """Runs both to their end."""
    a, b = next(one), next(other)
    n_elements = n_different = 0
    first: Difference | None = None
    shared: set[str] = set()
    alone: tuple[set[str], set[str]] = (set(), set())
    while True:
        begin, end = max(a.first, b.first), min(a.end, b.end)
        theirs = {each.name: each for each in b.watched}
        for each in a.watched:
            match = theirs.pop(each.name, None)
            if match is None:
                alone[0].add(each.name)
                continue
            shared.add(each.name)
            assert each.columns == match.columns, f"{each.name}: {each.columns} and {match.columns} columns"
            left, right = rows_of(a, each, begin, end), rows_of(b, match, begin, end)
            n_elements += left.size
            unequal = _unequal(left, right, _format(each))
            if unequal is not None:
                n_different += len(unequal[0])
                first = first or _difference(a, b, each, match, (begin, end), (left, right), unequal)
        alone[1].update(theirs)
        next_a = next(one, None) if a.end == end else a
        next_b = next(other, None) if b.end == end else b
        if next_a is None or next_b is None:
            break
        a, b = next_a, next_b
    assert a.end == b.end, f"one run has {a.end} positions, the other {b.end}"
    return Comparison(
        n_edges=len(shared),
        only=(len(alone[0] - shared), len(alone[1] - shared)),
        n_elements=n_elements,
        n_different=n_different,
        first=first,
    )


def ulps(one: int, other: int) -> int | None:
    """The distance of two f32 words in units in the last place: steps from one to the other through all f32 values
    between. Plus and minus zero are one step apart. None where one is NaN."""
    if _is_nan(one) or _is_nan(other):
        return None
    return abs(_rank(one) - _rank(other))


def _rank(word: int) -> int:
    return word if word < 1 << 31 else (1 << 31) - 1 - word


def _is_nan(word: int) -> bool:
    return word & 0x7FFFFFFF > 0x7F800000


def _format(each: Watched) -> str:
    return each.place.format if isinstance(each.place, InArena) else "f32"


Places = tuple[NDArray[np.intp], NDArray[np.intp]]


def _unequal(left: Words, right: Words, format: str) -> Places | None:
    """Rows and columns that differ; all NaNs count as equal."""
    different = left != right
    if not different.any():
        return None
    if format == "f32":
        different &= ~((left & 0x7FFFFFFF > 0x7F800000) & (right & 0x7FFFFFFF > 0x7F800000))
    rows, columns = np.nonzero(different)
    return (rows, columns) if len(rows) else None


def _difference(
    a: Seen, b: Seen, one: Watched, other: Watched, span: tuple[int, int], data: tuple[Words, Words], found: Places
) -> Difference:
    row, column = int(found[0][0]), int(found[1][0])
    position = positions_of(a, one, *span)[row]
    words = int(data[0][row, column]), int(data[1][row, column])
    return Difference(
        edge=one.name,
        format=_format(one),
        position=position,
        column=column,
        words=words,
        ulps=ulps(*words) if _format(one) == "f32" else None,
        n_different=len(found[0]),
        n_elements=data[0].size,
        at=(_where(a, one, position), _where(b, other, position)),
    )


def _where(seen: Seen, each: Watched, position: int) -> Where:
    return Where(
        step=seen.step,
        mode=seen.mode,
        row=position - seen.first if each.rows == "n" else seen.asked.index(position),
        launch=each.launch,
        rule=each.rule,
        members=each.members,
    )
