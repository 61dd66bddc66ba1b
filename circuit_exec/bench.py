"""How fast a model runs, against how fast its bytes could be read: both measured in turn, in the same process."""

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

from msgspec import Struct

from circuit.emit.layout import PAGE, Layout
from circuit.emit.runtime import GREEDY
from circuit.errors import Problem, RunError
from circuit_exec.build import Progress
from circuit_exec.cache import Cache
from circuit_exec.cpu import Program
from circuit_exec.generate import check_fits
from circuit_exec.kv import Pages
from circuit_exec.probe import ReadProbe
from circuit_exec.step import Rows


class Work(Struct, frozen=True, kw_only=True):
    """What is timed: `n_tokens` in each of `n_sequences` sequences that hold `n_before` positions already.

    Prefill runs all tokens of a sequence together; decode one step a token, each step a row of every sequence.
    """

    name: str
    mode: Literal["prefill", "decode"]
    n_sequences: int
    n_before: int
    n_tokens: int


WORKS = (
    Work(name="prefill_512", mode="prefill", n_sequences=1, n_before=0, n_tokens=512),
    Work(name="decode_1", mode="decode", n_sequences=1, n_before=32, n_tokens=128),
    Work(name="decode_8", mode="decode", n_sequences=8, n_before=32, n_tokens=64),
    Work(name="decode_2048", mode="decode", n_sequences=1, n_before=2048, n_tokens=64),
)
"""The last keeps a long context: 2048 positions and those that it adds."""

USUAL = WORKS[:2]
"""What is measured where nothing else is asked for."""


class Rate(Struct, frozen=True, kw_only=True):
    """Tokens a second of all sequences together: the median of the rounds, and the lowest and highest.

    `step_bytes` is what a decode step reads: all weights that it multiplies with, and the keys and values so far, on
    average over the steps. `share` is the part of the read bandwidth that this used. Both are 0 of a prefill.
    """

    work: Work
    tok_s: float
    tok_s_range: tuple[float, float]
    step_bytes: float
    share: float


class Measured(Struct, frozen=True, kw_only=True):
    """The rates, and the read bandwidth in bytes a second: the median of readings between all rounds."""

    n_threads: int
    rounds: int
    bandwidth: float
    rates: tuple[Rate, ...]


def bench(
    program: Program,
    pages: Pages,
    cache: Cache,
    progress: Progress,
    works: Sequence[Work] = USUAL,
    rounds: int = 5,
) -> Measured:
    """Runs each work `rounds` times, in turn with a read probe, after one round that is not counted."""
    for work in works:
        check_work(program, work)
    probe = ReadProbe(cache, program.n_threads, progress)
    bandwidths: list[float] = []
    times: list[list[float]] = []
    try:
        for place, work in enumerate(works):
            times.append([])
            with prepared(program, pages, work) as run:
                run()  # brings weights and caches in
                for round in range(rounds):
                    progress("measuring", (place + round / rounds) / len(works))
                    bandwidths.append(probe.bytes_per_s())
                    times[-1].append(run())
    finally:
        probe.close()
    progress("measuring", 1.0)
    bandwidth = statistics.median(bandwidths)
    return Measured(
        n_threads=program.n_threads,
        rounds=rounds,
        bandwidth=bandwidth,
        rates=tuple(
            _rate(work, seconds, step_bytes(program.layout, work), bandwidth)
            for work, seconds in zip(works, times, strict=True)
        ),
    )


@contextmanager
def prepared(program: Program, pages: Pages, work: Work) -> Iterator[Callable[[], float]]:
    """Fills the sequences up to where the work begins; the function it gives does the work once and returns seconds.

    Every call does the same: it begins at the same positions, over what the call before wrote there.
    """
    check_work(program, work)
    sequences = range(work.n_sequences)
    try:
        for sequence in sequences:
            pages.grow(sequence, work.n_before + work.n_tokens)
        if work.mode == "prefill":
            yield lambda: _timed(lambda: [_prefill(program, pages, s, work.n_tokens) for s in sequences])
        else:
            first = [_prefill(program, pages, sequence, work.n_before) for sequence in sequences]
            yield lambda: _timed(lambda: _decode(program, pages, first, work))
    finally:
        for sequence in sequences:
            pages.release(sequence)


def check_work(program: Program, work: Work) -> None:
    """Refuses a work that does not fit the context or the rows of a step."""
    if work.mode == "prefill":
        check_fits(program, work.n_tokens, 1)
    else:
        check_fits(program, work.n_before, work.n_tokens + 1)
    most = program.max_rows("decode")
    if work.n_sequences > most:
        raise RunError(
            Problem(
                message=f"{work.name} decodes {work.n_sequences} sequences at once, a decode step has 1 to {most} rows",
                fix="leave it out",
            )
        )


def step_bytes(layout: Layout, work: Work) -> float:
    """Bytes that a decode step reads: the weights, and the positions up to its own, on average over the steps."""
    if work.mode == "prefill":
        return 0.0
    position_bytes = sum(room.page_words * 4 // PAGE for room in layout.states)
    positions = (work.n_before + 1 + work.n_before + work.n_tokens) / 2
    return layout.read_bytes + work.n_sequences * position_bytes * positions


def _rate(work: Work, seconds: list[float], n_bytes: float, bandwidth: float) -> Rate:
    tok_s = [work.n_sequences * work.n_tokens / each for each in seconds]
    median = statistics.median(tok_s)
    return Rate(
        work=work,
        tok_s=median,
        tok_s_range=(min(tok_s), max(tok_s)),
        step_bytes=n_bytes,
        share=n_bytes * median / work.n_sequences / bandwidth,
    )


def _timed(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def _prefill(program: Program, pages: Pages, sequence: int, n: int) -> int:
    """Runs `n` token ids that depend on nothing; gives the token that follows."""
    tokens = next(given for given in program.layout.inputs if given.name == "tokens")
    prompt = [(i * 7919 + 13) % (tokens.hi + 1) for i in range(n)]
    chunk = program.max_rows("prefill")
    for first in range(0, n, chunk):
        part = prompt[first : first + chunk]
        _step(program, pages, "prefill", part, range(first, first + len(part)), (sequence,), (len(part) - 1,))
    return int(program.drawn(GREEDY)[0])


def _decode(program: Program, pages: Pages, first: list[int], work: Work) -> None:
    """Each sequence goes on from its first token, with the token that it chose."""
    sequences = range(work.n_sequences)
    tokens = first
    for position in range(work.n_before, work.n_before + work.n_tokens):
        _step(program, pages, "decode", tokens, (position,) * len(tokens), sequences, sequences)
        tokens = program.drawn(GREEDY).tolist()


def _step(
    program: Program,
    pages: Pages,
    mode: str,
    tokens: Sequence[int],
    positions: Sequence[int],
    sequences: Sequence[int],
    logit_rows: Sequence[int],
) -> None:
    """One step: rows of one sequence, or one row of each sequence."""
    program.step(
        Rows(
            mode=mode,
            tokens=tokens,
            positions=positions,
            sequences=range(len(tokens)) if len(sequences) > 1 else (0,) * len(tokens),
            page_tables=pages.tables(tuple(sequences), program.layout.table_width),
            logit_rows=logit_rows,
            section=GREEDY,
        )
    )
