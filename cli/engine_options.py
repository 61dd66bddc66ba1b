"""A model behind an engine, for the commands that answer requests: their options, and opening it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct

from circuit.errors import Problem, RunError
from cli.loading import loaded
from cli.options import Rules

if TYPE_CHECKING:
    from circuit.emit.layout import Layout
    from circuit_exec.engine.engine import Engine
    from circuit_exec.engine.interface import Observer
    from circuit_exec.model import Model

BESIDE_ROWS, PROMPT_ROWS = 16, 256
"""Rows of prompts in a step, beside choices that make tokens and alone. More make prompts faster and tokens in between
later: with 8 streams on the demo model and int8 activations, 16 rows made 3.4 and 3.5 times the tokens a second of
llama.cpp's server in two runs, 24 rows 3.55 times, 32 and 56 rows 3.8 and 3.7 times, and the 95th percentile of the
time between two tokens was 0.65, 0.63, 0.79, 1.14 and 1.09 times its own (the load of `bench/serve_client.py`).
"""

MAX_SEQS = 8
MaxSeqsOption = Annotated[
    int | None,
    typer.Option("--max-num-seqs", metavar="N", min=1, show_default=f"{MAX_SEQS}", help="Choices that run together."),
]
ContextOption = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, show_default="the model's", help="The most tokens of a prompt and its answer."),
]
KvPagesOption = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, show_default="what fits", help="Pages of 64 tokens that the KV pool has."),
]
StepRowsOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=2,
        show_default=f"N of --max-num-seqs + {BESIDE_ROWS}",
        help="The most rows of a step in which choices make tokens.",
    ),
]
PromptRowsOption = Annotated[
    int,
    typer.Option(metavar="N", min=1, help="The most rows of a step of prompts alone."),
]
NoPrefixCacheOption = Annotated[
    bool, typer.Option("--no-prefix-cache", help="Compute every prompt from its beginning; no byte changes.")
]


class Asked(Struct, frozen=True, kw_only=True):
    """What the options say of the engine; None is what fits."""

    max_seqs: int
    context: int | None
    kv_pages: int | None
    step_rows: int | None
    prompt_rows: int
    max_queue: int
    prefix_cache: bool


class Ready(Struct, frozen=True, kw_only=True, eq=False):
    """A model with its engine; `context` is the most tokens of a prompt and its answer."""

    model: "Model"
    engine: "Engine"
    context: int


@contextmanager
def opened(
    name: str,
    threads: int | None,
    rules: Rules,
    policy: list[str] | None,
    asked: Asked,
    observer: "Observer | None" = None,
    hardware_class: str | None = None,
) -> Iterator[Ready]:
    """The model behind an engine, which ends with the block. Without `hardware_class` it is what this host runs."""
    from circuit_exec.engine.interface import Limits
    from circuit_exec.engine.open import open_engine
    from circuit_exec.memory import available_bytes

    layout = _layout(name, rules, policy, hardware_class)
    context = _context(layout, asked.context)
    n_pages = pages_of(layout, context, asked, available_bytes())
    with loaded(name, threads, rules, policy, n_pages, hardware_class) as model:
        limits = Limits(
            max_seqs=asked.max_seqs,
            step_rows=step_rows_of(asked),
            prompt_rows=asked.prompt_rows,
            n_pages=n_pages,
            max_queue=asked.max_queue,
            prefix_cache=asked.prefix_cache,
        )
        engine = open_engine(model, limits, observer)
        try:
            yield Ready(model=model, engine=engine, context=context)
        finally:
            engine.close()


def _layout(name: str, rules: Rules, policy: list[str] | None, hardware_class: str | None) -> "Layout":
    """What the plan set needs, before any memory is taken."""
    from circuit_exec.cache import user_cache
    from circuit_exec.checkpoint.open import opened
    from circuit_exec.model import plan_set
    from cli.models import model_path

    cache = user_cache()
    checkpoint = opened(model_path(name), cache)
    return plan_set(checkpoint, cache, rules, tuple(policy or ()), hardware_class).layout


def _context(layout: "Layout", asked: int | None) -> int:
    if asked is not None and asked > layout.context:
        message = f"a context of {asked} tokens is asked for, the model has {layout.context}"
        raise RunError(Problem(message=message, fix=f"give --context {layout.context} or less"))
    return layout.context if asked is None else asked


def step_rows_of(asked: Asked) -> int:
    """The most rows of a step in which choices make tokens."""
    return asked.max_seqs + BESIDE_ROWS if asked.step_rows is None else asked.step_rows


def pages_of(layout: "Layout", context: int, asked: Asked, free: int | None) -> int:
    """Pages of the pool: for so many choices of full length, but no more than half of the `free` bytes of memory."""
    from circuit_exec.kv import pages_for

    least = pages_for(context)
    if asked.kv_pages is not None:
        if asked.kv_pages < least:
            message = f"{asked.kv_pages} KV pages hold {asked.kv_pages * 64} tokens, the context is {context}"
            raise RunError(Problem(message=message, fix=f"give --kv-pages {least} or more, or a shorter --context"))
        return asked.kv_pages
    page_bytes = sum(room.page_words * 4 for room in layout.states)
    most = min((room.max_pages for room in layout.states), default=least)
    fitting = most if free is None or not page_bytes else min(most, free // 2 // page_bytes)
    if fitting < least:
        message = f"one choice of {context} tokens takes {least * page_bytes} bytes of KV pages, {free} bytes are free"
        raise RunError(Problem(message=message, fix=f"give --context {max(fitting, 1) * 64} or less"))
    return min(asked.max_seqs * least, fitting)
