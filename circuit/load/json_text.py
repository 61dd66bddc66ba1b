"""JSON with lines: duplicate keys are refused, bare Infinity and NaN are accepted, the depth is limited.

Published config files have bare Infinity; Python's json module reads it too, but tells no lines.
"""

import json
import re

from msgspec import Struct, field

from circuit.errors import LoadError, Problem
from circuit.load.source import Document, Path, Plain, path_text
from circuit.text import Source, check, problem_at

_SPACE = re.compile(r"[ \t\r\n]*")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?(?![0-9A-Za-z_.])")
_WORD = re.compile(r"-?[A-Za-z]+")
_WORDS: dict[str, Plain] = {
    "null": None,
    "true": True,
    "false": False,
    "NaN": float("nan"),
    "Infinity": float("inf"),
    "-Infinity": float("-inf"),
}
_DEPTH = 64
_DIGITS = 400


def read_json(source: Source) -> Document:
    """The object that the text holds; a syntax error or a duplicate key is a LoadError with its line."""
    reader = _Reader(source=source)
    at = reader.space(1 if source.text.startswith("\ufeff") else 0)
    value, at = reader.value(at, ())
    at = reader.space(at)
    if at != len(source.text):
        raise reader.error(at, "text after the end of the JSON value")
    check(reader.duplicates)
    if not isinstance(value, dict):
        raise reader.error(0, "the file holds no JSON object")
    return Document(source=source, data=value, lines=reader.lines)


class _Reader(Struct, kw_only=True):
    source: Source
    lines: dict[Path, int] = field(default_factory=dict)
    duplicates: list[Problem] = field(default_factory=list)
    seen: tuple[int, int] = (0, 1)  # a place in the text and its line, to count newlines once

    def line(self, at: int) -> int:
        place, line = self.seen
        if at < place:
            place, line = 0, 1
        line += self.source.text.count("\n", place, at)
        self.seen = (at, line)
        return line

    def error(self, at: int, message: str) -> LoadError:
        return LoadError(problem_at(self.source, self.line(at), message, "correct the JSON text on this line"))

    def space(self, at: int) -> int:
        found = _SPACE.match(self.source.text, at)
        assert found is not None
        return found.end()

    def value(self, at: int, path: Path) -> tuple[Plain, int]:
        text = self.source.text
        if len(path) > _DEPTH:
            raise self.error(at, f"JSON is nested deeper than {_DEPTH}")
        if at >= len(text):
            raise self.error(at, "the JSON text ends in the middle")
        if text[at] == "{":
            return self.object(at, path)
        if text[at] == "[":
            return self.array(at, path)
        if text[at] == '"':
            return self.string(at)
        if number := _NUMBER.match(text, at):
            if len(number.group()) > _DIGITS:
                raise self.error(at, f"a number has more than {_DIGITS} digits")
            whole = number.group(1) is None and number.group(2) is None
            return (int(number.group()) if whole else float(number.group())), number.end()
        word = _WORD.match(text, at)
        if word is None or word.group() not in _WORDS:
            raise self.error(at, "a JSON value is expected here")
        return _WORDS[word.group()], word.end()

    def string(self, at: int) -> tuple[str, int]:
        found = _STRING.match(self.source.text, at)
        if found is None:
            raise self.error(at, "a JSON string is expected here")
        text = json.loads(found.group())
        assert isinstance(text, str)
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise self.error(at, "the string has half of a surrogate pair")
        return text, found.end()

    def array(self, at: int, path: Path) -> tuple[Plain, int]:
        items: list[Plain] = []
        at = self.space(at + 1)
        if self.source.text[at : at + 1] == "]":
            return items, at + 1
        while True:
            item, at = self.value(at, (*path, len(items)))
            items.append(item)
            at = self.space(at)
            end = self.source.text[at : at + 1]
            if end == "]":
                return items, at + 1
            if end != ",":
                raise self.error(at, "`,` or `]` is expected here")
            at = self.space(at + 1)

    def object(self, at: int, path: Path) -> tuple[dict[str, Plain], int]:
        items: dict[str, Plain] = {}
        at = self.space(at + 1)
        if self.source.text[at : at + 1] == "}":
            return items, at + 1
        while True:
            start = at
            key, at = self.string(at)
            at = self.space(at)
            if self.source.text[at : at + 1] != ":":
                raise self.error(at, "`:` is expected here")
            line = self.line(start)
            if key in items:
                name, first = path_text((*path, key)), self.lines[(*path, key)]
                message = f"key `{name}` is written twice, first on line {first}"
                self.duplicates.append(problem_at(self.source, line, message, f"remove one of the two `{name}`"))
            else:
                self.lines[(*path, key)] = line
            item, at = self.value(self.space(at + 1), (*path, key))
            items.setdefault(key, item)
            at = self.space(at)
            end = self.source.text[at : at + 1]
            if end == "}":
                return items, at + 1
            if end != ",":
                raise self.error(at, "`,` or `}` is expected here")
            at = self.space(at + 1)
