"""One choice as it grows: ids become whole characters, text before a stop text, and the tokens that belong to it."""

from collections import deque
from collections.abc import Sequence

from msgspec import Struct

from circuit_exec.engine.request import Token
from circuit_exec.server.stops import StopText
from circuit_exec.text.stream import StreamDecoder


class Placed(Struct, frozen=True, kw_only=True):
    """A token, and the character of the answer at which what it completes begins."""

    token: Token
    offset: int


class Grown(Struct, frozen=True, kw_only=True):
    """What may be sent: text, and the tokens that begin in it."""

    text: str
    tokens: tuple[Placed, ...]


class ChoiceText:
    """The text of one choice. A token is given with the first text of its own, one without text with what follows."""

    def __init__(self, decoder: StreamDecoder, stops: Sequence[str]) -> None:
        self._decoder = decoder
        self._stop = StopText(stops)
        self._decoded = 0
        self._released = 0
        self._waiting: deque[Placed] = deque()

    def feed(self, token: Token) -> Grown:
        """What the token adds."""
        self._waiting.append(Placed(token=token, offset=self._decoded))
        text = self._decoder.feed(token.id)
        self._decoded += len(text)
        return self._grown(self._stop.feed(text))

    def finish(self) -> Grown:
        """What is left at the end."""
        text = self._stop.feed(self._decoder.finish()) + self._stop.finish()
        grown = self._grown(text)
        if self._stop.found:
            return grown
        rest = tuple(self._waiting)
        self._waiting.clear()
        return Grown(text=grown.text, tokens=grown.tokens + rest)

    def _grown(self, text: str) -> Grown:
        self._released += len(text)
        tokens = []
        while self._waiting and self._waiting[0].offset < self._released:
            tokens.append(self._waiting.popleft())
        return Grown(text=text, tokens=tuple(tokens))
