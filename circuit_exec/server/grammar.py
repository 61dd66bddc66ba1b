"""Grammars of answers, by llguidance: JSON, JSON of a schema, calls of tools; and what watches one choice.

llguidance says which ids may come next, a bit an id (`LLMatcher.compute_bitmask`); the engine applies it to the logits.
"""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from circuit_exec.engine.request import Mask
from circuit_exec.server.errors import refused
from circuit_exec.server.stops import StopText
from circuit_exec.text.stream import StreamDecoder
from circuit_exec.text.tokenizer import Tokenizer, encode, piece_of

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

MOST_SPACE = r"[\x20\x0A\x09]{0,40}"
"""White space between the parts of JSON, which a model could otherwise go on with for ever."""


class Guides:
    """Makes what watches choices. The vocabulary is prepared once, when a grammar is first asked for."""

    def __init__(self, tokenizer: Tokenizer, stop_ids: Sequence[int]) -> None:
        self._tokenizer = tokenizer
        self._stop_ids = list(stop_ids)
        self._vocabulary: LLTokenizer | None = None

    def watch(self, grammar: str | None, stop: StopText | None, decoder: StreamDecoder) -> "Watch":
        """For one choice. `grammar` is one that was checked."""
        from llguidance import LLMatcher

        matcher = None if grammar is None else LLMatcher(self._prepared(), grammar, log_level=0)
        return Watch(matcher, stop, decoder)

    def of_schema(self, schema: object, param: str) -> str:
        """The grammar of a JSON schema; what of a schema is not known is refused by its name."""
        return self._checked(json_grammar(schema), param)

    def of_lark(self, lark: str, param: str) -> str:
        """The grammar of a text in llguidance's kind of Lark."""
        from llguidance import LLMatcher

        return self._checked(LLMatcher.grammar_from_lark(lark), param)

    def _checked(self, grammar: str, param: str) -> str:
        from llguidance import LLMatcher

        is_error, messages = LLMatcher.validate_grammar_with_warnings(grammar, self._prepared())
        if is_error or messages:
            reason = " ".join(messages[0].split())[:300]
            message = f"the JSON schema cannot hold here: {reason}"
            raise refused(message, "change the schema so that it does without", code="invalid_schema", param=param)
        return grammar

    def _prepared(self) -> "LLTokenizer":
        from llguidance import LLTokenizer, TokenizerWrapper

        if self._vocabulary is None:
            n = self._tokenizer.n_tokens
            self._vocabulary = LLTokenizer(
                TokenizerWrapper(_Vocabulary(self._tokenizer, self._stop_ids)), n_vocab=n, eos_token=self._stop_ids
            )
        return self._vocabulary


def json_grammar(schema: object) -> str:
    """A JSON schema as llguidance's grammar."""
    from llguidance import LLMatcher

    return LLMatcher.grammar_from_json_schema(json.dumps(schema), overrides={"whitespace_pattern": MOST_SPACE})


class Watch:
    """A `Grammar` of the engine: the ids that a grammar allows, and the end at a stop text."""

    def __init__(self, matcher: "LLMatcher | None", stop: StopText | None, decoder: StreamDecoder) -> None:
        self._matcher = matcher
        self._stop = stop
        self._decoder = decoder

    def mask(self) -> Mask | None:
        """The ids that may come next."""
        if self._matcher is None:
            return None
        return np.frombuffer(self._matcher.compute_bitmask(), np.uint32)

    def accept(self, id: int) -> None:
        """The id came."""
        if self._matcher is not None and not self._matcher.consume_token(id):
            raise RuntimeError(f"the grammar does not take what its mask allowed: {self._matcher.get_error()}")
        if self._stop is not None:
            self._stop.feed(self._decoder.feed(id))

    def finished(self) -> bool:
        """Whether a stop text was seen, or the grammar allows nothing more."""
        seen = self._stop is not None and self._stop.found
        return seen or (self._matcher is not None and self._matcher.is_stopped())


class _Vocabulary:
    """A tokenizer as llguidance wants it: control tokens begin with byte 255, which no text has."""

    def __init__(self, tokenizer: Tokenizer, stop_ids: Sequence[int]) -> None:
        self.eos_token_id = stop_ids[0]
        self.bos_token_id = tokenizer.bos_id
        self.special_token_ids = list(tokenizer.controls)
        names = tokenizer.controls
        self.tokens = [
            b"\xff" + names[id].encode() if id in names else piece_of(tokenizer, id) for id in range(tokenizer.n_tokens)
        ]
        self._tokenizer = tokenizer

    def __call__(self, text: str) -> list[int]:
        return encode(self._tokenizer, text)
