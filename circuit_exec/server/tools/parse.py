"""Finds calls of tools in an answer while it grows: text before a call leaves at once, a call when it is whole."""

import json
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from circuit_exec.server.stops import StopText
from circuit_exec.server.tools.formats import Call, ToolFormat, call_of
from circuit_exec.text.tokenizer import Tokenizer


class Said(Struct, frozen=True, kw_only=True):
    """What an answer says next: text for the reader, calls to make."""

    text: str
    calls: tuple[Call, ...]


class CallParser:
    """Of one choice. What begins like a call and is none is text, as the model wrote it."""

    def __init__(self, format: ToolFormat, names: Sequence[str]) -> None:
        self._format = format
        self._names = names
        self._before = StopText([format.opening])
        self._inside = ""
        self._empty = True
        self._after_call = False

    def feed(self, text: str) -> Said:
        """What this piece completes."""
        if self._format.kind == "bare" and self._is_bare(text):
            return Said(text="", calls=())
        if self._before.found:
            self._inside += text
            return self._tagged() if self._format.kind == "tagged" else Said(text="", calls=())
        out, opened = self._outside(text)
        if not opened:
            return Said(text=out, calls=())
        rest = self._tagged() if self._format.kind == "tagged" else Said(text="", calls=())
        return replace(rest, text=out + rest.text)

    def finish(self) -> Said:
        """What is left when the answer ends."""
        if not self._before.found and not self._inside:
            return Said(text=self._before.finish(), calls=())
        values = _values(self._inside, self._format)
        calls = [call_of(self._format, value, self._names) for value in values]
        whole = tuple(call for call in calls if call is not None)
        if values and len(whole) == len(values):
            return Said(text="", calls=whole)
        opening = self._format.opening if self._before.found else ""
        return Said(text=opening + self._inside if self._inside.strip() or opening else "", calls=())

    def _is_bare(self, text: str) -> bool:
        """Whether the answer is an object from its first character on: then all of it waits for its end."""
        if self._empty and text.strip():
            self._empty = False
            if text.lstrip().startswith("{"):
                self._inside = text
                return True
        elif self._inside and not self._before.found:
            self._inside += text
            return True
        return False

    def _outside(self, text: str) -> tuple[str, bool]:
        """The text before the opening, and whether that came; what comes behind it is kept.

        White space behind a call belongs to the call.
        """
        if self._after_call:
            text = text.lstrip()
            self._after_call = not text
        held = self._before.held() + text
        out = self._before.feed(text)
        if self._before.found:
            self._inside = held[len(out) + len(self._format.opening) :]
        return out, self._before.found

    def _tagged(self) -> Said:
        """Calls whose closing mark has come; behind one, text and further calls may follow."""
        calls, text = [], ""
        while self._before.found and self._format.closing in self._inside:
            body, _, rest = self._inside.partition(self._format.closing)
            values = _values(body, self._format)
            call = call_of(self._format, values[0], self._names) if len(values) == 1 else None
            if call is None:
                text += self._format.opening + body + self._format.closing
            else:
                calls.append(call)
            self._before, self._inside = StopText([self._format.opening]), ""
            self._after_call = call is not None
            text += self._outside(rest)[0]
        return Said(text=text, calls=tuple(calls))


def parser_view(tokenizer: Tokenizer, format: ToolFormat) -> Tokenizer:
    """The tokenizer with the format's marks as text, also where they are control tokens, which no text shows."""
    marks = {id: name for id, name in tokenizer.controls.items() if name in (format.opening, format.closing)}
    piece = tokenizer.piece
    return replace(tokenizer, piece=lambda id: marks[id].encode() if id in marks else piece(id))


def _values(text: str, format: ToolFormat) -> list[object]:
    """The JSON values of what stands in a call; none where it is not JSON."""
    found: list[object] = []
    decoder = json.JSONDecoder()
    at = 0
    body = text.strip()
    while at < len(body):
        try:
            value, at = decoder.raw_decode(body, at)
        except (ValueError, RecursionError):
            return []
        found += value if format.kind == "listed" and isinstance(value, list) else [value]
        rest = body[at:].lstrip()
        if rest and not (format.kind == "bare" and rest.startswith(";")):
            return []
        at = len(body) - len(rest.removeprefix(";").lstrip())
    return found
