"""What a request must be before it waits: each refusal says what there is and what to change."""

import math
from collections.abc import Iterator

import numpy as np

from circuit.errors import Problem
from circuit_exec.engine.interface import Limits
from circuit_exec.engine.request import MOST_LOGPROBS, CannotFit, EmbeddingRequest, Request
from circuit_exec.kv import pages_for

LEAST_TEMPERATURE, MOST_TEMPERATURE = 1e-4, 1e4


def check(request: Request | EmbeddingRequest, context: int, n_ids: int, n_logits: int, limits: Limits) -> None:
    """CannotFit with every reason why the request can never run here. `n_ids`: those that the model takes."""
    problems = [
        Problem(message=message, fix=fix) for message, fix in _problems(request, context, n_ids, n_logits, limits)
    ]
    if problems:
        raise CannotFit(problems)


def _problems(
    request: Request | EmbeddingRequest, context: int, n_ids: int, n_logits: int, limits: Limits
) -> Iterator[tuple[str, str]]:
    n = len(request.prompt)
    if not n:
        yield "the prompt has no tokens", "give a prompt with some text"
        return
    if not all(0 <= id < n_ids for id in request.prompt):
        wrong = next(id for id in request.prompt if not 0 <= id < n_ids)
        yield f"the prompt has the token id {wrong}, the model takes 0 to {n_ids - 1}", "use this model's tokenizer"
    length = n
    if isinstance(request, Request):
        yield from _sampling_problems(request, n_logits)
        most = limits.max_seqs + limits.max_queue
        if request.n > most:
            yield f"{request.n} choices are asked for, {most} can run and wait", "ask for fewer"
        length = n + max(request.max_tokens - 1, 0)
    if n > context:
        yield f"the prompt has {n} tokens, the context is {context}", f"shorten it to {context} tokens or fewer"
    elif length > context:
        most = context - n + 1
        yield (
            f"the prompt has {n} tokens and {length - n + 1} more are asked for, the context is {context}",
            f"ask for {most} tokens or fewer, or shorten the prompt",
        )
    elif pages_for(length) > limits.n_pages:
        yield (
            f"{length} positions take {pages_for(length)} KV pages, the pool has {limits.n_pages}",
            "ask for fewer tokens, or start the engine with a larger pool",
        )


def _sampling_problems(request: Request, n_logits: int) -> Iterator[tuple[str, str]]:
    if request.max_tokens < (0 if request.score_prompt else 1):
        yield f"{request.max_tokens} tokens are asked for", "ask for at least one"
    if request.n < 1:
        yield f"{request.n} choices are asked for", "ask for at least one"
    if request.temperature != 0 and not LEAST_TEMPERATURE <= request.temperature <= MOST_TEMPERATURE:
        yield (
            f"the temperature is {request.temperature}",
            f"give 0 for the most likely token, or {LEAST_TEMPERATURE} to {MOST_TEMPERATURE:g}",
        )
    if not 0 < np.float32(request.top_p) <= 1:  # what the sampler gets
        yield f"top_p is {request.top_p}", "give a number above 0 and at most 1"
    if not 0 <= request.min_p <= 1:
        yield f"min_p is {request.min_p}", "give a number from 0 to 1"
    if request.top_k < 0:
        yield f"top_k is {request.top_k}", "give the number of tokens to keep, or 0 for all"
    if not 0 <= request.seed < 2**64:
        yield f"the seed is {request.seed}", "give an integer from 0 to 2**64 - 1"
    if not (0 < request.repetition_penalty < math.inf):
        yield f"the repetition penalty is {request.repetition_penalty}", "give a number above 0; 1 is none"
    for name in ("presence", "frequency"):
        value = getattr(request, f"{name}_penalty")
        if not math.isfinite(value):
            yield f"the {name} penalty is {value}", "give a finite number; 0 is none"
    for id, value in request.bias.items():
        if not 0 <= id < n_logits or math.isnan(value):
            yield f"the bias of token id {id} is {value}", f"give numbers for ids from 0 to {n_logits - 1}"
    wrong = sorted(id for id in request.stop_ids if not 0 <= id < n_logits)
    if wrong:
        yield f"the stop id {wrong[0]} is no id of the model", f"give ids from 0 to {n_logits - 1}"
    if request.min_tokens < 0 or request.min_tokens > request.max_tokens:
        yield (
            f"at least {request.min_tokens} tokens and at most {request.max_tokens} are asked for",
            "ask for no more at least than at most",
        )
    if request.n_logprobs is not None and not 0 <= request.n_logprobs <= MOST_LOGPROBS:
        yield f"{request.n_logprobs} alternatives of each token are asked for", f"ask for 0 to {MOST_LOGPROBS}"
    if len(request.grammars) not in (0, request.n):
        yield f"there are {len(request.grammars)} grammars for {request.n} choices", "give one for each choice, or none"
