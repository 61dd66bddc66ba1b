"""Named texts, and how the stages write numbers and names so that they read back to the bit."""

import re
import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct

from circuit.errors import LoadError, Problem

if TYPE_CHECKING:
    from decimal import Decimal
    from fractions import Fraction


class Source(Struct, frozen=True, kw_only=True):
    """A text and the path that the user knows it by. Nobody here opens the path."""

    path: str
    text: str


def excerpt(source: Source, line: int | None) -> str | None:
    """The text of line `line` (from 1) for an error message, stripped; None where there is none."""
    if line is None:
        return None
    lines = source.text.split("\n")
    return lines[line - 1].strip()[:120] if 0 < line <= len(lines) else None


def problem_at(source: Source, line: int | None, message: str, fix: str) -> Problem:
    """A problem in `source`, with its excerpt."""
    return Problem(message=message, fix=fix, file=source.path, line=line, excerpt=excerpt(source, line))


def round_f32(value: "Decimal | Fraction | int | float") -> float:
    """`value` rounded once to the nearest IEEE binary32, ties to even; beyond its range is a broken invariant."""
    from fractions import Fraction

    exact = Fraction(value)
    if exact == 0:
        return 0.0
    magnitude = abs(exact)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if magnitude < Fraction(2) ** exponent:
        exponent -= 1
    unit = Fraction(2) ** (max(exponent, -126) - 23)
    rounded = float(round(exact / unit) * unit)  # Fraction.__round__ is ties-to-even
    assert abs(rounded) < 2.0**128, f"{float(exact)} is beyond float32"
    assert struct.unpack("<f", struct.pack("<f", rounded))[0] == rounded, "not a float32"
    return rounded


def quoted(text: str) -> str:
    """A string literal on one line, as the text forms write it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped.replace(chr(13), chr(92) + "r")}"'


_ESCAPES = {"\\": "\\", '"': '"', "n": "\n", "t": "\t", "r": "\r"}


def unquoted(literal: str) -> str:
    """The string that `quoted` wrote; ValueError for anything else."""
    if len(literal) < 2 or literal[0] != '"' or literal[-1] != '"':
        raise ValueError(f"{literal} is not a quoted string")
    if not re.fullmatch(r'(?:[^"\\]|\\[\\"ntr])*', literal[1:-1]):
        raise ValueError(f"{literal} is not a quoted string")
    return re.sub(r"\\(.)", lambda found: _ESCAPES[found.group(1)], literal[1:-1])


def listed(names: Iterable[str]) -> str:
    """`a, b, c`, or `none`."""
    return ", ".join(names) or "none"


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The name that a misspelt one most likely stands for; None where none is alike."""
    import difflib  # for messages alone

    found = difflib.get_close_matches(name, list(names), n=1, cutoff=0.7)
    return found[0] if found else None


def check(problems: Iterable[Problem]) -> None:
    """Raise every problem at once, or nothing."""
    found = tuple(problems)
    if found:
        raise LoadError(found)


Literal = bool | int | float | str
"""A value that the text forms write as one word, or as one quoted string."""


def literal(value: Literal) -> str:
    """`true`, `12`, `0x1.8p+1` or `"text"`: the type can be read off it, and a float keeps its bits."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        mantissa, _, exponent = value.hex().partition("p")
        return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}p{exponent}"
    return quoted(value)


def parse_literal(text: str) -> Literal:
    """What `literal` wrote; ValueError for anything else."""
    if text in ("true", "false"):
        return text == "true"
    if text.startswith('"'):
        return unquoted(text)
    if re.fullmatch(r"-?[0-9]+", text):
        return int(text)
    if re.fullmatch(r"-?0x[0-9a-f]+(\.[0-9a-f]+)?p[-+][0-9]+", text):
        return float.fromhex(text)
    raise ValueError(f"`{text}` is no value")


_WORD = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[^\s"=(),\[\]{}]+|[=(),\[\]{}])')


def words(line: str) -> list[str]:
    """A line of a text form as its words: quoted strings, names and numbers, and single marks of `=(),[]{}`."""
    found, at = [], 0
    line = line.rstrip()
    while at < len(line):
        word = _WORD.match(line, at)
        if word is None:
            raise ValueError(f"`{line[at:].strip()}` cannot be read")
        found.append(word.group(1))
        at = word.end()
    return found


def whole_number(word: str) -> int:
    """The integer that the word is; ValueError for anything else."""
    if not re.fullmatch(r"-?[0-9]+", word):
        raise ValueError(f"`{word}` is no integer")
    return int(word)


def malformed(source: Source, number: int, error: Exception, stage: str) -> Problem:
    """The problem of a line that could not be read: a ValueError with a reason, or a word that is missing."""
    says_why = type(error) is ValueError and "to unpack" not in str(error)
    reason = str(error) if says_why else "the line is not whole"
    fix = f"write it as `met circuit show --stage {stage}` does"
    return problem_at(source, number, f"malformed line: {reason}", fix)
