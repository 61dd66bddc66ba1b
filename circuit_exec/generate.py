"""From prompt ids to answer ids: prefill in chunks, then one token at a time."""

import time
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from msgspec import Struct

from circuit.emit.runtime import GREEDY, MAIN, SAMPLE
from circuit.errors import Problem, RunError
from circuit_exec.cpu import Program
from circuit_exec.kv import Pages
from circuit_exec.step import Draw, Rows


class Sampling(Struct, frozen=True, kw_only=True):
    """How tokens are chosen: the most likely one at temperature 0, else drawn, the same for a seed and choice."""

    temperature: float
    top_p: float
    seed: int
    choice: int = 0


class Answer(Struct, frozen=True, kw_only=True):
    """The ids that were made; a stop id that ended them is not among them. Times are in seconds.

    `decode_s` is the time of all steps after the prefill, which gives the first token.
    """

    ids: tuple[int, ...]
    ended: Literal["stop", "length"]
    prefill_s: float
    decode_s: float


def generate(
    program: Program,
    pages: Pages,
    prompt: Sequence[int],
    n: int,
    sampling: Sampling,
    chunk: int,
    stop_ids: Sequence[int],
    on_token: Callable[[int], None],
) -> Answer:
    """Up to `n` ids after the prompt. `chunk` is the most prompt rows in one step; no byte depends on it."""
    _check(program, prompt, n, sampling, chunk)
    started = time.perf_counter()
    pages.grow(0, len(prompt) + n - 1)
    try:
        last = len(prompt) - 1
        first_of_last = last // chunk * chunk
        for first in range(0, first_of_last, chunk):
            run_rows(program, pages, "prefill", prompt[first : first + chunk], first, (), MAIN, ())
        drawn = _draw(program, pages, "prefill", prompt[first_of_last:], first_of_last, sampling)
        prefilled = time.perf_counter()
        ids: list[int] = []
        ended: Literal["stop", "length"] = "length"
        while True:
            if drawn in stop_ids:
                ended = "stop"
                break
            ids.append(drawn)
            on_token(drawn)
            if len(ids) == n:
                break
            drawn = _draw(program, pages, "decode", (drawn,), last + len(ids), sampling)
    finally:
        pages.release(0)
    ended_at = time.perf_counter()
    return Answer(ids=tuple(ids), ended=ended, prefill_s=prefilled - started, decode_s=ended_at - prefilled)


def run_rows(
    program: Program,
    pages: Pages,
    mode: str,
    tokens: Sequence[int],
    first: int,
    logit_rows: Sequence[int],
    section: int,
    draws: Sequence[Draw],
) -> None:
    """One step of sequence 0: `tokens` stand at positions from `first` on."""
    rows = Rows(
        mode=mode,
        tokens=tokens,
        positions=range(first, first + len(tokens)),
        sequences=(0,) * len(tokens),
        page_tables=pages.tables((0,), program.layout.table_width),
        logit_rows=logit_rows,
        section=section,
        draws=draws,
    )
    program.step(rows)


def _draw(program: Program, pages: Pages, mode: str, tokens: Sequence[int], first: int, sampling: Sampling) -> int:
    """Runs the rows and gives the token that follows the last of them."""
    section = GREEDY if sampling.temperature == 0 else SAMPLE
    position = first + len(tokens)
    draw = Draw(
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        seed=sampling.seed,
        choice=sampling.choice,
        position=position,
    )
    draws = (draw,) if section == SAMPLE else ()
    run_rows(program, pages, mode, tokens, first, (len(tokens) - 1,), section, draws)
    return int(program.drawn(section)[0])


def check_fits(program: Program, n_prompt: int, n: int) -> None:
    """Refuses a prompt that leaves no room for `n` more tokens in the model's context."""
    check_room(program.layout.context, n_prompt, n)


def check_room(context: int, n_prompt: int, n: int) -> None:
    """The same for a context that is stated, as a recipe does."""
    if n_prompt > context:
        raise RunError(
            Problem(
                message=f"the prompt has {n_prompt} tokens, the context is {context}",
                fix=f"shorten the prompt to {context} tokens or fewer",
            )
        )
    if n_prompt + n - 1 > context:
        raise RunError(
            Problem(
                message=f"the prompt has {n_prompt} tokens and {n} more are asked for, the context is {context}",
                fix=f"shorten the prompt, or ask for {context - n_prompt + 1} tokens or fewer with -n",
            )
        )


def check_chunk(program: Program, chunk: int) -> None:
    """Refuses a chunk that no prefill plan covers."""
    most = program.max_rows("prefill")
    if not 1 <= chunk <= most:
        raise RunError(
            Problem(
                message=f"the chunk is {chunk} rows, a prefill step has 1 to {most}", fix="give --chunk in that range"
            )
        )


def _check(program: Program, prompt: Sequence[int], n: int, sampling: Sampling, chunk: int) -> None:
    if not prompt:
        raise RunError(Problem(message="the prompt is empty: it has no tokens", fix="give a prompt with some text"))
    if n < 1:
        raise RunError(Problem(message=f"{n} tokens are asked for", fix="ask for at least one with -n"))
    check_chunk(program, chunk)
    check_fits(program, len(prompt), n)
    if not 0 <= sampling.temperature < float("inf"):
        raise RunError(
            Problem(
                message=f"the temperature is {sampling.temperature}",
                fix="give --temperature 0 for the most likely token, or a number above it",
            )
        )
    if not 0 < np.float32(sampling.top_p) <= 1:  # what the sampler gets
        raise RunError(Problem(message=f"top-p is {sampling.top_p}", fix="give --top-p above 0 and at most 1"))
    if not 0 <= sampling.seed < 2**64:
        raise RunError(Problem(message=f"the seed is {sampling.seed}", fix="give --seed from 0 to 2**64 - 1"))
