"""Stop texts: they may begin in one token and end in another, so what could be the beginning of one is held back."""

from collections.abc import Sequence


class StopText:
    """Takes text piece by piece and releases what is before the first stop text; `found` once one was seen.

    The one that ends first counts, of those that end together the longest: so it does not matter how the text comes.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        assert all(stops), "an empty stop text would end everything"
        self._stops = tuple(stops)
        self._held = ""
        self.found = False

    def feed(self, text: str) -> str:
        """What is released by this piece."""
        if self.found:
            return ""
        held = self._held + text
        seen = [(place + len(stop), place) for stop in self._stops if (place := held.find(stop)) >= 0]
        if seen:
            self.found = True
            self._held = ""
            return held[: min(seen)[1]]
        keep = max((_beginning(held, stop) for stop in self._stops), default=0)
        self._held = held[len(held) - keep :]
        return held[: len(held) - keep]

    def held(self) -> str:
        """What is held back now."""
        return self._held

    def finish(self) -> str:
        """What was held back and was no stop text after all."""
        held, self._held = self._held, ""
        return held


def _beginning(text: str, stop: str) -> int:
    """Characters at the end of the text that are a proper beginning of the stop text, as many as possible."""
    for n in range(min(len(text), len(stop) - 1), 0, -1):
        if text.endswith(stop[:n]):
            return n
    return 0
