"""A report as sections, each a heading, a table and notes; and the same sections as text for a terminal or Markdown."""

from collections.abc import Iterator
from textwrap import wrap

from msgspec import Struct

WIDTH = 80


class Table(Struct, frozen=True, kw_only=True):
    """Rows of cells under headings. The first column is words, aligned left; all others are aligned right.

    Where a table is too wide, the first column is cut, and the cut is marked.
    """

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class Section(Struct, frozen=True, kw_only=True):
    """One part of a report. `notes` stand below the table, a paragraph each."""

    title: str
    table: Table | None = None
    notes: tuple[str, ...] = ()


def sections_text(sections: tuple[Section, ...], width: int = WIDTH) -> str:
    """The sections for a terminal, within `width` columns."""
    return "\n".join("\n".join(_section(section, width)) + "\n" for section in sections)


def sections_markdown(sections: tuple[Section, ...]) -> str:
    """The sections as Markdown."""
    return "\n".join("\n".join(_markdown(section)) + "\n" for section in sections)


def not_rendered(language: str, rendered: bool) -> tuple[str, ...]:
    """What a report says of a class whose kernels nothing renders."""
    said = f"Nothing renders {language} yet: the plan is made from definitions, and none of it has run."
    return () if rendered else (said,)


def _section(section: Section, width: int) -> Iterator[str]:
    yield from wrap(section.title, width, subsequent_indent="  ", break_on_hyphens=False)
    if section.table is not None:
        yield from _table(section.table, width - 2)
    for note in section.notes:
        yield from wrap(note, width, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)


def _table(table: Table, width: int) -> Iterator[str]:
    lines = (table.head, *table.rows)
    widths = [max(len(line[at]) for line in lines) for at in range(len(table.head))]
    room = width - sum(widths[1:]) - 2 * (len(widths) - 1)
    widths[0] = min(widths[0], max(room, 12))
    for line in lines:
        first = line[0] if len(line[0]) <= widths[0] else line[0][: widths[0] - 1] + "…"
        cells = [first.ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(line[1:], widths[1:], strict=True))]
        yield "  " + "  ".join(cells).rstrip()


def _markdown(section: Section) -> Iterator[str]:
    yield f"## {section.title}"
    if section.table is not None:
        yield ""
        yield _row(section.table.head)
        yield _row((":--", *("--:" for _ in section.table.head[1:])))
        yield from map(_row, section.table.rows)
    for note in section.notes:
        yield ""
        yield note


def _row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def bytes_text(count: float) -> str:
    """`16.06 GB`: decimal units, as devices are sold in."""
    return _scaled(count, ("B", "kB", "MB", "GB", "TB"))


def rate_text(per_s: float, unit: str) -> str:
    """`4.80 TB/s`, `67.0 TFLOP/s`."""
    return _scaled(per_s, tuple(f"{prefix}{unit}/s" for prefix in ("", "k", "M", "G", "T", "P")))


def operations_text(count: float) -> str:
    """`269.1 MFLOP`."""
    return _scaled(count, tuple(f"{prefix}FLOP" for prefix in ("", "k", "M", "G", "T", "P")))


def time_text(seconds: float) -> str:
    """`3.13 ms`, with three digits."""
    for unit, factor in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= factor or unit == "us":
            return f"{_digits(seconds / factor)} {unit}"
    raise AssertionError(seconds)


def count_text(count: float) -> str:
    """`2,219`; below 100 with a digit after the point."""
    return f"{count:,.0f}" if count >= 100 else f"{count:.1f}"


def _scaled(value: float, units: tuple[str, ...]) -> str:
    place = 0
    while value >= 1000 and place < len(units) - 1:
        value /= 1000
        place += 1
    return f"{_digits(value)} {units[place]}" if place or value != int(value) else f"{int(value)} {units[0]}"


def _digits(value: float) -> str:
    """Four digits, or all before the point."""
    return f"{value:.0f}" if value >= 1000 else f"{value:.1f}" if value >= 100 else f"{value:.2f}"
