"""What all requests that make tokens share on their way to the engine."""

import secrets
import time
from collections.abc import Sequence

from circuit_exec.engine.request import Grammar, Request
from circuit_exec.server.errors import refused
from circuit_exec.server.fields.base import Sampled
from circuit_exec.server.served import Served

LEAST_TEMPERATURE = 1e-4
"""The engine divides by it: below, logits overflow. 0 takes the likeliest token."""


def check_model(served: Served, model: str) -> None:
    """Refuses another model than the one that is served."""
    name = served.options.name
    if model != name:
        message = f"the model {model[:100]} is not served here"
        raise refused(message, f"ask for {name}", code="model_not_found", param="model", status=404)


def stops_of(fields: Sampled) -> tuple[str, ...]:
    """The stop texts."""
    return () if fields.stop is None else (fields.stop,) if isinstance(fields.stop, str) else tuple(fields.stop)


def choices_of(fields: Sampled) -> int:
    """How many answers a prompt gets."""
    return 1 if fields.n is None else fields.n


def check_stream(fields: Sampled) -> None:
    """Refuses what is said of a stream when there is none."""
    if fields.stream_options is not None and not fields.stream:
        fix = "set stream to true, or leave stream_options out"
        raise refused("stream_options is given without a stream", fix, param="stream_options")


def room(served: Served, n_prompt: int, asked: int | None, param: str) -> int:
    """How many tokens are made at most: what is asked for, or what fits where nothing is."""
    context = served.options.context
    code = "context_length_exceeded"
    if n_prompt > context:
        message = f"the prompt has {n_prompt} tokens, the context is {context}"
        raise refused(message, f"shorten it to {context} tokens or fewer", code=code, param=param)
    fits = context - n_prompt + 1
    if asked is not None and asked > fits:
        message = f"the prompt has {n_prompt} tokens and {asked} more are asked for, the context is {context}"
        fix = f"shorten the prompt, or ask for {fits} tokens or fewer"
        raise refused(message, fix, code=code, param=param)
    return fits if asked is None else asked


def seed_of(fields: Sampled) -> int:
    """The seed that is stated, else a new one."""
    return secrets.randbits(63) if fields.seed is None else fields.seed


def engine_request(
    served: Served,
    fields: Sampled,
    seed: int,
    prompt: tuple[int, ...],
    max_tokens: int,
    n_logprobs: int | None,
    grammars: Sequence[Grammar],
    score_prompt: bool,
) -> Request:
    """The request as the engine takes it. What is absent has OpenAI's default: temperature 1 and top_p 1."""
    temperature = 1.0 if fields.temperature is None else float(fields.temperature)
    if 0 < temperature < LEAST_TEMPERATURE:
        message = f"the temperature {temperature} is too close to 0"
        raise refused(message, f"give 0, or at least {LEAST_TEMPERATURE}", param="temperature")
    return Request(
        prompt=prompt,
        max_tokens=max_tokens,
        temperature=temperature,
        top_p=1.0 if fields.top_p is None else float(fields.top_p),
        seed=seed,
        n=choices_of(fields),
        top_k=fields.top_k or 0,
        min_p=0.0 if fields.min_p is None else float(fields.min_p),
        presence_penalty=0.0 if fields.presence_penalty is None else float(fields.presence_penalty),
        frequency_penalty=0.0 if fields.frequency_penalty is None else float(fields.frequency_penalty),
        repetition_penalty=1.0 if fields.repetition_penalty is None else float(fields.repetition_penalty),
        bias=_bias(served, fields),
        stop_ids=frozenset() if fields.ignore_eos else served.stop_ids,
        min_tokens=fields.min_tokens or 0,
        n_logprobs=n_logprobs,
        score_prompt=score_prompt,
        grammars=tuple(grammars),
        deadline=time.monotonic() + served.options.timeout_s,
    )


def _bias(served: Served, fields: Sampled) -> dict[int, float]:
    most = served.description.vocabulary
    bias = {int(id): float(value) for id, value in (fields.logit_bias or {}).items()}
    wrong = next((id for id in bias if id >= most), None)
    if wrong is not None:
        message = f"{wrong} is no token id, the vocabulary has {most}"
        raise refused(message, f"give ids from 0 to {most - 1}", param="logit_bias")
    return bias
