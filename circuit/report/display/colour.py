"""Colours of a diagram in a terminal: escape sequences around pieces of finished lines, so that no width changes."""

from collections.abc import Mapping

from circuit.report.display.rows import Row

Colours = Mapping[str, str]
"""The parameter of Select Graphic Rendition for what a diagram has. Source: ECMA-48, 5th edition, 8.3.117."""

PLAIN: Colours = {}
TERMINAL: Colours = {"memory": "34", "chip": "36", "frame": "2", "op": "1", "weight": "33", "state": "35"}


def coloured(row: Row, line: str, mark: str, colours: Colours) -> str:
    """The line of a row with its colours: lanes outside, the frame's sides, lanes inside, and the mark of its text."""
    if not colours:
        return line
    outer, inner = 2 * len(row.outer), 2 * len(row.inner)
    if row.kind in ("open", "close"):
        return _in(line[:outer], "memory", colours) + _in(line[outer:], "" if row.kind == "open" else "frame", colours)
    at = outer + 2 + inner
    last = len(line) if row.frame is None else len(line) - 1
    pieces = (
        (line[:outer], "memory"),
        (line[outer : outer + 2], "memory" if row.frame is None else "frame"),
        (line[outer + 2 : at], "memory" if row.frame is None else "chip"),
        (line[at : at + 1], mark),
        (line[at + 1 : last], ""),
        (line[last:], "frame"),
    )
    return "".join(_in(text, what, colours) for text, what in pieces)


def _in(text: str, what: str, colours: Colours) -> str:
    return f"\x1b[{colours[what]}m{text}\x1b[0m" if what in colours and text.strip() else text
