"""Log-probabilities of tokens in the two forms of the API."""

import math
from collections.abc import Sequence

from circuit_exec.engine.request import Scored
from circuit_exec.server.answers import ChatLogprobs, TextLogprobs, TokenLogprob, TopLogprob
from circuit_exec.server.choice_text import Placed
from circuit_exec.server.served import shown, token_bytes
from circuit_exec.text.tokenizer import Tokenizer

LEAST = -9999.0
"""What stands for a probability of 0: JSON has no infinity, and OpenAI's API writes this."""


def chat_logprobs(tokenizer: Tokenizer, tokens: Sequence[Placed]) -> ChatLogprobs:
    """Of the tokens of an answer."""
    content = []
    for placed in tokens:
        scored = placed.token.scored
        assert scored is not None, "log-probabilities were asked for"
        own = _top(tokenizer, placed.token.id, scored.logprob)
        top = [_top(tokenizer, id, logprob) for id, logprob in scored.top]
        content.append(TokenLogprob(**own.model_dump(), top_logprobs=top))
    return ChatLogprobs(content=content)


def _top(tokenizer: Tokenizer, id: int, logprob: float) -> TopLogprob:
    data = token_bytes(tokenizer, id)
    return TopLogprob(token=shown(data), logprob=_finite(logprob), bytes=list(data))


def text_logprobs(tokenizer: Tokenizer, tokens: Sequence[tuple[int, int, Scored | None]], n_top: int) -> TextLogprobs:
    """Of tokens given by id, place in the text, and what they had; the first of a prompt had nothing."""
    return TextLogprobs(
        tokens=[shown(token_bytes(tokenizer, id)) for id, _, _ in tokens],
        token_logprobs=[None if scored is None else _finite(scored.logprob) for _, _, scored in tokens],
        top_logprobs=[_best(tokenizer, id, scored) for id, _, scored in tokens] if n_top > 0 else None,
        text_offset=[offset for _, offset, _ in tokens],
    )


def _best(tokenizer: Tokenizer, id: int, scored: Scored | None) -> dict[str, float] | None:
    """The likeliest tokens, and the token itself where it is not among them; of equal texts the likelier counts."""
    if scored is None:
        return None
    found: dict[str, float] = {}
    for each, logprob in (*scored.top, (id, scored.logprob)):
        found.setdefault(shown(token_bytes(tokenizer, each)), _finite(logprob))
    return found


def _finite(logprob: float) -> float:
    return logprob if math.isfinite(logprob) else LEAST
