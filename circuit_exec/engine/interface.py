"""What a server needs of an engine: the methods of `Engine`, and the records that they give.

`open_engine(model, limits)` of circuit_exec/engine/open.py makes one.
"""

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from circuit_exec.engine.request import EmbeddingRequest, Event, Request

OnEvent = Callable[[Event], None]
"""Called by the engine's thread between two steps: it must not wait, and what it raises ends the choice."""


class Limits(Struct, frozen=True, kw_only=True):
    """`max_seqs`: choices that run together. `step_rows`: rows of a step, of running choices first, then of prompts.
    `prompt_rows`: rows of a step of prompts alone, which keeps no choice waiting for its next token. `n_pages`: of the
    KV pool. `max_queue`: choices that wait. `prefix_cache`: whether full pages are kept and shared.
    """

    max_seqs: int
    step_rows: int
    prompt_rows: int
    n_pages: int
    max_queue: int
    prefix_cache: bool


class Stats(Struct, frozen=True, kw_only=True):
    """Now, and totals since the start.

    `step_rows`, `step_s`: of the last step. `pages_used` are held by running choices, `pages_cached` by nobody but
    the prefix cache. `hit_tokens` of `prompt_tokens` were not computed again. `preempted`: choices that had to give
    their pages up and were computed again. `host_s` of `busy_s` were spent between steps.
    """

    queued: int
    running: int
    step_rows: int
    step_s: float
    pages_used: int
    pages_cached: int
    pages_total: int
    steps: int
    prompt_tokens: int
    hit_tokens: int
    made_tokens: int
    ended: int
    preempted: int
    busy_s: float
    host_s: float


class PlanShown(Struct, frozen=True, kw_only=True):
    """One plan of the set: "decode:1-2", its digest, and its launches in section main."""

    name: str
    digest: str
    launches: int


class Description(Struct, frozen=True, kw_only=True):
    """What runs. `certificate`: (axis, holds, evidence), as in the plan's text."""

    hardware_class: str
    fingerprint: str
    context: int
    vocabulary: int
    n_threads: int
    plans: tuple[PlanShown, ...]
    certificate: tuple[tuple[str, str, str], ...]
    limits: Limits


class Observer(Protocol):
    """Told by the engine's thread; it must not wait."""

    def first_token(self, seconds: float) -> None:
        """From `submit` to a choice's first token."""

    def next_tokens(self, seconds: list[float]) -> None:
        """Of one step: the time since its choice's token before, for each token that is not a first one."""

    def step(self, rows: int, seconds: float) -> None:
        """A step has run."""

    def ended(self, reason: str) -> None:
        """A choice has ended."""


class Ticket(Protocol):
    """A request that was taken. Any thread may call its methods, also after the end."""

    def cancel(self) -> None:
        """Ends every choice that still runs or waits, with "cancelled"; its pages are free before the next step."""


class Engine(Protocol):
    """Any thread may call its methods."""

    def submit(self, request: Request | EmbeddingRequest, on_event: OnEvent) -> Ticket:
        """Takes a request; each choice ends with `Ended`. CannotFit, QueueFull, Draining where it is refused."""

    def drain(self, timeout_s: float) -> bool:
        """Takes nothing more and waits for what was taken; what is not done in time ends with "cancelled".

        Gives whether all were done. The engine is closed afterwards.
        """

    def stats(self) -> Stats:
        """What it does now."""

    def describe(self) -> Description:
        """What it runs."""
