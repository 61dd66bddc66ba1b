"""JSON and TOML texts as plain data, with the line on which each key is written."""

from collections.abc import Mapping

from msgspec import Struct

from circuit.text import Source


class Length(Struct, frozen=True):
    """A list of which only the length is known: a vocabulary, on whose elements no plan depends."""

    count: int


Plain = None | bool | int | float | str | list["Plain"] | dict[str, "Plain"] | Length
"""What a JSON or TOML text holds, or the metadata of a GGUF file."""

Path = tuple[str | int, ...]
"""Where a value is: keys and list places from the top."""


class Document(Struct, frozen=True, kw_only=True):
    """A parsed text. `lines` maps key paths to lines from 1; a path that is not there has its nearest parent's line."""

    source: Source
    data: dict[str, Plain]
    lines: Mapping[Path, int]


def line_of(document: Document, path: Path) -> int | None:
    """The line of the key at `path`, or of its nearest written parent; the top is line 1."""
    for end in range(len(path), 0, -1):
        line = document.lines.get(path[:end])
        if line is not None:
            return line
    return 1 if document.source.text else None


def path_text(path: Path) -> str:
    """`rope_scaling.factor`, `node[2].op`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text
