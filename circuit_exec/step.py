"""What one step computes: as lists, for who makes few steps, and as the arrays that a program reads."""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from circuit.emit.runtime import MAIN, N_SECTIONS, SAMPLE

Ints = NDArray[np.int32] | NDArray[np.int64]


class Draw(Struct, frozen=True, kw_only=True):
    """How one token is drawn; random numbers are addressed by (seed, choice, position) and the token.

    `temperature` is above 0, `top_p` above 0 and at most 1, `seed` has 64 bits; `position` is the drawn token's own.
    """

    temperature: float
    top_p: float
    seed: int
    choice: int
    position: int


class Rows(Struct, frozen=True, kw_only=True, eq=False):
    """What one step of a plan of `mode` computes: row i is token `tokens[i]` at `positions[i]` of a sequence, the one
    whose pages are row `sequences[i]` of `page_tables`. `logit_rows` are the rows that get logits; `draws` has one
    entry for each of them where the section draws tokens.
    """

    mode: str
    tokens: Sequence[int]
    positions: Sequence[int]
    sequences: Sequence[int]
    page_tables: NDArray[np.int32]
    logit_rows: Sequence[int]
    section: int
    draws: Sequence[Draw] = ()


class Sampler(Struct, frozen=True, kw_only=True, eq=False):
    """Draws as arrays, [rows] each; `seeds` is [rows, 2], the low word first."""

    temperature: NDArray[np.float32]
    top_p: NDArray[np.float32]
    seeds: NDArray[np.uint32]
    choices: NDArray[np.uint32]
    positions: Ints


NO_DRAWS = Sampler(
    temperature=np.zeros(0, np.float32),
    top_p=np.zeros(0, np.float32),
    seeds=np.zeros((0, 2), np.uint32),
    choices=np.zeros(0, np.uint32),
    positions=np.zeros(0, np.int32),
)


class Arrays(Struct, frozen=True, kw_only=True, eq=False):
    """Rows as arrays. The first `n_logits` of `logit_rows` get logits, those behind them are the hidden section's.

    `sections` has (first, count) for each section: the places in `logit_rows` that it runs for. `sampler` is that of
    the section that draws.
    """

    mode: str
    tokens: Ints
    positions: Ints
    sequences: Ints
    page_tables: NDArray[np.int32]
    logit_rows: Ints
    n_logits: int
    sections: tuple[int, ...]
    sampler: Sampler


def arrays_of(rows: Rows) -> Arrays:
    """The same step; its section runs for every row with logits."""
    m = len(rows.logit_rows)
    return Arrays(
        mode=rows.mode,
        tokens=np.array(rows.tokens, np.int64),
        positions=np.array(rows.positions, np.int64),
        sequences=np.array(rows.sequences, np.int64),
        page_tables=rows.page_tables,
        logit_rows=np.array(rows.logit_rows, np.int64),
        n_logits=m,
        sections=spans({} if rows.section == MAIN else {rows.section: (0, m)}),
        sampler=sampler_of(rows.draws) if rows.section == SAMPLE else NO_DRAWS,
    )


def sampler_of(draws: Sequence[Draw]) -> Sampler:
    """The draws as arrays."""
    return Sampler(
        temperature=np.array([draw.temperature for draw in draws], np.float32),
        top_p=np.array([draw.top_p for draw in draws], np.float32),
        seeds=np.array([(draw.seed & 0xFFFFFFFF, draw.seed >> 32) for draw in draws], np.uint32).reshape(-1, 2),
        choices=np.array([draw.choice for draw in draws], np.uint32),
        positions=np.array([draw.position for draw in draws], np.int64),
    )


def spans(given: dict[int, tuple[int, int]]) -> tuple[int, ...]:
    """`Arrays.sections` of (first, count) by section; the others run for no row."""
    return tuple(number for section in range(N_SECTIONS) for number in given.get(section, (0, 0)))
