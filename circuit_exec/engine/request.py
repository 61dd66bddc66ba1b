"""What is asked of an engine, and what it says of each choice while it answers.

A choice is one of the `n` answers to a prompt. With a seed, the ids and log-probabilities of a choice are a function of
the request and the model's fingerprint alone.
"""

from collections.abc import Mapping
from typing import Literal, Protocol

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from circuit.errors import Problem, RunError

MOST_LOGPROBS = 20
"""Alternatives of a token that a request may ask for."""

Mask = NDArray[np.bool_] | NDArray[np.int32] | NDArray[np.uint32]
"""Which ids may come next: [vocabulary] bool, or [vocabulary / 32, rounded up] words whose lowest bit is the first id.
Ids that a shorter mask leaves out may not come.
"""


class Grammar(Protocol):
    """What restricts or ends one choice; it has a state of its own, and the engine's thread alone calls it.

    A watch for stop strings is one too: its mask is None, `finished` says that a string was seen.
    """

    def mask(self) -> Mask | None:
        """The ids that may come next; None where all may. The engine reads it before the next call."""

    def accept(self, id: int) -> None:
        """The id came, a stop id too."""

    def finished(self) -> bool:
        """Whether the choice ends behind the ids that came."""


class Request(Struct, frozen=True, kw_only=True, eq=False):
    """A prompt, and how it is continued; what is off by default changes nothing.

    `max_tokens` may be 0 only where the prompt is scored. `temperature` is 0 for the most likely token, or from
    1e-4 to 1e4; `top_p` is above 0 and at most 1; `top_k` keeps so many of the highest logits, 0 all (of equal ones
    the lower ids); `min_p` keeps what has at least that part of the highest probability. The penalties are those of
    OpenAI (presence, frequency: over ids that were made) and of Keskar et al. 2019, arXiv:1909.05858 (repetition: over
    the prompt's ids too; 1 is none); `bias` is added to logits by id. They come in this order: repetition, frequency,
    presence, bias, stop ids while fewer than `min_tokens` were made, grammar, top_k, min_p, temperature, top_p.

    `n_logprobs`: None for none, else how many alternatives each token comes with; they are of the logits as the model
    gives them. `score_prompt`: the same of the prompt's tokens. `grammars` has one for each choice, or none.
    `deadline`: seconds of time.monotonic(), after which what runs ends with "timeout".
    """

    prompt: tuple[int, ...]
    max_tokens: int
    temperature: float
    top_p: float
    seed: int
    n: int = 1
    top_k: int = 0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    bias: Mapping[int, float] = field(default_factory=dict)
    stop_ids: frozenset[int] = frozenset()
    min_tokens: int = 0
    n_logprobs: int | None = None
    score_prompt: bool = False
    grammars: tuple[Grammar, ...] = ()
    deadline: float | None = None


class EmbeddingRequest(Struct, frozen=True, kw_only=True, eq=False):
    """The mean of a prompt's hidden states behind the last norm."""

    prompt: tuple[int, ...]
    deadline: float | None = None


class Scored(Struct, frozen=True, kw_only=True):
    """The natural logarithm of an id's probability, and the most likely ids with theirs, likeliest first (of equal
    ones the lower id). A logit of -inf gives -inf.
    """

    logprob: float
    top: tuple[tuple[int, float], ...]


class Token(Struct, frozen=True, kw_only=True):
    """A choice has one more id; a stop id is none. `scored` where the request asks for it."""

    choice: int
    id: int
    scored: Scored | None = None


class PromptScored(Struct, frozen=True, kw_only=True):
    """Of choice 0, before its first token: what each id of the prompt had; the first one has nothing before it."""

    choice: int
    scored: tuple[Scored | None, ...]


class Embedding(Struct, frozen=True, kw_only=True, eq=False):
    """values: [dim] f32, not normalized."""

    choice: int
    values: NDArray[np.float32]


class Usage(Struct, frozen=True, kw_only=True):
    """Tokens of one choice. `cached`: of the prompt, those that were not computed again. `made` counts a stop id."""

    prompt: int
    cached: int
    made: int


Reason = Literal["stop", "length", "cancelled", "timeout", "error"]


class Ended(Struct, frozen=True, kw_only=True):
    """The last event of a choice. "stop": a stop id came (`stop_id`), or its grammar is finished. `problem`: of
    "error".
    """

    choice: int
    reason: Reason
    usage: Usage
    stop_id: int | None = None
    problem: Problem | None = None


Event = Token | PromptScored | Embedding | Ended


class CannotFit(RunError):
    """The request can never run here, or asks for what there is not: HTTP 400."""


class QueueFull(RunError):
    """The request would have to wait behind too many others: HTTP 429."""

    def __init__(self, problem: Problem, retry_after_s: float) -> None:
        super().__init__(problem)
        self.retry_after_s = retry_after_s


class Draining(RunError):
    """The engine takes nothing more: HTTP 503."""
