"""TOML with lines. The parser is tomli, which is compiled; where each key is written is found by one more pass."""

import re

import tomli

from circuit.errors import LoadError
from circuit.load.source import Document, Path
from circuit.text import Source, problem_at

_PART = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_DOTTED = re.compile(rf"{_PART}(?:[ \t]*\.[ \t]*{_PART})*")
_PARTS = re.compile(_PART)
_PLAIN = re.compile(  # a statement on one line whose value is no list and no table: most are
    rf"""({_PART}(?:\.{_PART})*)[ \t]*=[ \t]*(?:"[^"\\\n]*"|[^\s"'#\[\]{{}}]+)[ \t]*(?:#[^\n]*)?(?:\n|\Z)"""
)
_SKIP = re.compile(  # the pieces of a value: strings in their four forms, comments, brackets, the rest
    r'"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'|#[^\n]*'
    r'|[\[{]|[\]}]|\n|[^\s"\'#\[\]{}]+|[ \t\r]+',
    re.DOTALL,
)
_INSIDE = re.compile(r'(?:[^"\'#\[\]{}]+|"(?:[^"\\\n]|\\.)*"(?!")|#[^\n]*)+')
"""The pieces of a value within brackets, up to a bracket or a string of another form."""


def read_toml(source: Source) -> Document:
    """The tables of the text; a syntax error is a LoadError with its line."""
    try:
        data = tomli.loads(source.text)
    except tomli.TOMLDecodeError as error:
        line = min(error.lineno, source.text.rstrip("\n").count("\n") + 1)
        message = str(error).partition(f" (at line {error.lineno},")[0].rstrip(".")
        message = message[:1].lower() + message[1:]
        raise LoadError(problem_at(source, line, message, "correct the TOML text on this line")) from None
    return Document(source=source, data=data, lines=_lines(source.text))


def _lines(text: str) -> dict[Path, int]:
    """Key path -> line, for a text that tomli accepts. Keys of inline tables have their statement's line."""
    lines: dict[Path, int] = {}
    counts: dict[Path, int] = {}
    table: Path = ()
    at, line = 0, 1
    while at < len(text):
        if text[at] in " \t\r\n":
            line += text[at] == "\n"
            at += 1
        elif text[at] == "#":
            at = _end_of_line(text, at)
        elif text[at] == "[":
            is_list = text.startswith("[[", at)
            at += 2 if is_list else 1
            table, at = _header(text, at, counts, is_list)
            _note(lines, table, line)
            at = _end_of_line(text, at)
        elif plain := _PLAIN.match(text, at):
            _note(lines, (*table, *_names(plain.group(1))), line)
            line, at = line + 1, plain.end()
        else:
            found = _DOTTED.match(text, at)
            assert found is not None, f"line {line} is no TOML statement"
            _note(lines, (*table, *_names(found.group())), line)
            start, at = at, _end_of_value(text, text.index("=", found.end()) + 1)
            line += text.count("\n", start, at)
    return lines


def _note(lines: dict[Path, int], path: Path, line: int) -> None:
    for end in range(1, len(path) + 1):
        lines.setdefault(path[:end], line)


def _header(text: str, at: int, counts: dict[Path, int], is_list: bool) -> tuple[Path, int]:
    found = _DOTTED.match(text, at + len(text[at:]) - len(text[at:].lstrip(" \t")))
    assert found is not None, "no name in a table header"
    names = _names(found.group())
    path: Path = ()
    for place, name in enumerate(names):
        path = (*path, name)
        if is_list and place == len(names) - 1:
            counts[path] = counts.get(path, -1) + 1
        if path in counts:
            path = (*path, counts[path])
    return path, found.end()


def _names(dotted: str) -> tuple[str, ...]:
    if dotted.isidentifier():
        return (dotted,)
    return tuple(str(tomli.loads(f"x = {part}")["x"]) if part[0] in "\"'" else part for part in _PARTS.findall(dotted))


def _end_of_line(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _end_of_value(text: str, at: int) -> int:
    """The place of the newline that ends the value starting at `at`."""
    depth = 0
    while at < len(text):
        found = (_INSIDE.match(text, at) if depth else None) or _SKIP.match(text, at)
        assert found is not None, f"no TOML value at {text[at : at + 20]!r}"
        piece = found.group()
        if piece == "\n" and depth == 0:
            return at
        depth += (piece in ("[", "{")) - (piece in ("]", "}"))
        at = found.end()
    return at
