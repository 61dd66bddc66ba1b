"""A completion request on its way to the engine, and its choices while they grow."""

from collections.abc import Sequence

from msgspec import Struct

from circuit_exec.engine.request import Request, Scored, Token
from circuit_exec.server.answers import Finish, TextChoice, TextLogprobs
from circuit_exec.server.choice_text import ChoiceText, Grown
from circuit_exec.server.errors import refused
from circuit_exec.server.fields.completion import CompletionFields
from circuit_exec.server.logprobs import text_logprobs
from circuit_exec.server.prompts import prompt_list
from circuit_exec.server.sampling import check_model, check_stream, choices_of, engine_request, room, seed_of, stops_of
from circuit_exec.server.served import Served
from circuit_exec.server.stops import StopText
from circuit_exec.text.stream import continue_text

MOST_TOKENS = 16
"""Tokens that are made where none are asked for, as in OpenAI's API."""
MOST_CHOICES = 1024
"""Of all prompts together."""


class Prepared(Struct, frozen=True, kw_only=True, eq=False):
    """One request of the engine a prompt. `n_top`: None where no log-probabilities are asked for."""

    requests: tuple[Request, ...]
    stops: tuple[str, ...]
    n_top: int | None
    echo: bool


def prepare(served: Served, fields: CompletionFields) -> Prepared:
    """Everything of a request that can be refused, before the engine sees it. Slow: not for the event loop."""
    check_model(served, fields.model)
    check_stream(fields)
    n, stops, seed, echo = choices_of(fields), stops_of(fields), seed_of(fields), bool(fields.echo)
    if fields.max_tokens == 0 and not echo:
        raise refused("max_tokens is 0, so nothing would be made", "ask for 1 or more, or for echo", param="max_tokens")
    prompts = prompt_list(served, fields.prompt, "prompt")
    if not all(prompts):
        raise refused("a prompt is empty: it has no tokens", "give a prompt with some text", param="prompt")
    if len(prompts) * n > MOST_CHOICES:
        message = f"{len(prompts)} prompts with {n} choices each are {len(prompts) * n} choices"
        raise refused(message, f"ask for {MOST_CHOICES} or fewer together", param="prompt")
    scored = echo and fields.logprobs is not None
    requests = []
    for prompt in prompts:
        asked = MOST_TOKENS if fields.max_tokens is None else fields.max_tokens
        max_tokens = room(served, len(prompt), asked, "prompt")
        watches = [served.guides.watch(None, StopText(stops), continue_text(served.tokenizer)) for _ in range(n)]
        requests.append(
            engine_request(served, fields, seed, prompt, max_tokens, fields.logprobs, watches if stops else (), scored)
        )
    return Prepared(requests=tuple(requests), stops=stops, n_top=fields.logprobs, echo=echo)


class Choice:
    """One completion while it grows. `echoed` is the prompt's text, and what its tokens had."""

    def __init__(self, served: Served, prepared: Prepared, prompt: tuple[int, ...]) -> None:
        self._served = served
        self._prepared = prepared
        self._prompt = prompt
        self._text = ChoiceText(continue_text(served.tokenizer), prepared.stops)
        self._offset = 0

    def echo(self, scored: Sequence[Scored | None]) -> tuple[str, TextLogprobs | None]:
        """The prompt again; `scored` is empty where no log-probabilities are asked for."""
        tokenizer = self._served.tokenizer
        decoder, offsets, text = continue_text(tokenizer), [], ""
        for id in self._prompt:
            offsets.append(len(text))
            text += decoder.feed(id)
        text += decoder.finish()
        self._offset = len(text)
        if self._prepared.n_top is None:
            return text, None
        tokens = list(zip(self._prompt, offsets, scored, strict=True))
        return text, text_logprobs(tokenizer, tokens, self._prepared.n_top)

    def feed(self, token: Token) -> tuple[str, TextLogprobs | None]:
        """One more token."""
        return self._part(self._text.feed(token))

    def finish(self) -> tuple[str, TextLogprobs | None]:
        """What is left at the end."""
        return self._part(self._text.finish())

    def _part(self, grown: Grown) -> tuple[str, TextLogprobs | None]:
        if self._prepared.n_top is None:
            return grown.text, None
        tokens = [(each.token.id, self._offset + each.offset, each.token.scored) for each in grown.tokens]
        return grown.text, text_logprobs(self._served.tokenizer, tokens, self._prepared.n_top)


def joined(index: int, parts: Sequence[tuple[str, TextLogprobs | None]], finish: Finish) -> TextChoice:
    """The whole choice."""
    logprobs = [part for _, part in parts if part is not None]
    return TextChoice(
        index=index,
        text="".join(text for text, _ in parts),
        logprobs=_joined_logprobs(logprobs) if logprobs else None,
        finish_reason=finish,
    )


def _joined_logprobs(parts: Sequence[TextLogprobs]) -> TextLogprobs:
    tops = [part.top_logprobs for part in parts]
    return TextLogprobs(
        tokens=[each for part in parts for each in part.tokens],
        token_logprobs=[each for part in parts for each in part.token_logprobs],
        top_logprobs=None if None in tops else [each for top in tops for each in top or []],
        text_offset=[each for part in parts for each in part.text_offset],
    )
