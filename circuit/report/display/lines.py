"""A diagram as lines for a terminal: lanes, frames and a table beside them, in Unicode or in ASCII."""

from collections.abc import Iterator
from typing import assert_never

from msgspec import Struct

from circuit.report.display.colour import PLAIN, Colours, coloured
from circuit.report.display.record import Diagram, DrawnOp, Frame, Kept
from circuit.report.display.rows import Row, Touch, rows_of
from circuit.report.sections import bytes_text

TAGS = {"bit_identical": 0, "reference": 1, "differs": 2}
"""Numerics tags by the place of their glyph."""


class Glyphs(Struct, frozen=True, kw_only=True):
    """What lines are drawn with. `first` and `more` are a lane's junctions as the first one from the left that its row
    touches, and behind others. `corners` of a frame by the kind of the row; `frame`: side, top, a side that a wire
    crosses.
    """

    layers: str
    tags: tuple[str, str, str]
    link: str
    lane: str
    first: dict[Touch, str]
    more: dict[Touch, str]
    op: str
    wire: str
    weight: str
    state: str
    frame: dict[str, str]
    corners: dict[str, tuple[str, str]]
    cut: str
    times: str


_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
UNICODE = Glyphs(
    layers="■▲●◆★□△○◇☆" + _LETTERS,
    tags=("=", "○", "≠"),
    link="─",
    lane="│",
    first={"begin": "╭", "join": "├", "end": "╰"},
    more={"begin": "┬", "join": "┼", "end": "┴"},
    op="●",
    wire="╴",
    weight="▪",
    state="◆",
    corners={"open": ("╔", "╗"), "close": ("╚", "╝")},
    frame={"side": "║", "top": "═", "crossed": "╫"},
    cut="…",
    times="×",
)
ASCII = Glyphs(
    layers=_LETTERS,
    tags=("=", "o", "!"),
    link="-",
    lane="|",
    first={"begin": ".", "join": "+", "end": "'"},
    more={"begin": ".", "join": "+", "end": "'"},
    op="@",
    wire=" ",
    weight="*",
    state="%",
    corners={"open": ("#", "#"), "close": ("#", "#")},
    frame={"side": "#", "top": "=", "crossed": "#"},
    cut="~",
    times="x",
)


class _Said(Struct, frozen=True, kw_only=True):
    """The text of a row: a mark, a name, and either four cells under those of other rows or a text of its own. `look`:
    of the mark.
    """

    mark: str
    look: str
    name: str
    cells: tuple[str, str, str, str] | None = None
    text: str = ""


def diagram_lines(diagram: Diagram, width: int, glyphs: Glyphs, colours: Colours = PLAIN) -> Iterator[str]:
    """The diagram within `width` columns, and no wider than it must be."""
    rows = rows_of(diagram)
    said = [_said(diagram, row, glyphs) for row in rows]
    lanes = [_linked(row, glyphs) for row in rows]
    columns = _columns(said)
    least = max(len(lane) + _needed(each, columns) for lane, each in zip(lanes, said, strict=True) if each)
    titles = (
        len(lanes[at]) + len(_title(diagram.frames[row.at], glyphs)) + 4 for at, row in enumerate(rows) if not said[at]
    )
    width = min(width, max(least + 2, *titles))
    for row, lane, each in zip(rows, lanes, said, strict=True):
        if each is None:
            line, look = _border(diagram.frames[row.at], row, lane, width, glyphs), ""
        else:
            line, look = (lane + _told(each, columns, width - len(lane) - 2, glyphs)).rstrip(), each.look
            line = line if row.frame is None else f"{line.ljust(width - 1)}{glyphs.frame['side']}"
        yield coloured(row, line, look, colours)


def op_text(op: DrawnOp) -> str:
    """`attention window=64`: the op, with what tells it from those of other diagrams."""
    return " ".join((op.op, *(f"{name}={value}" for name, value in op.params if name in op.apart)))


def tag(frame: Frame, glyphs: Glyphs) -> str:
    """The glyph of the frame's numerics tag."""
    return glyphs.tags[TAGS[frame.numerics]]


def _linked(row: Row, glyphs: Glyphs) -> str:
    """The lanes of a row, two columns each, with the link from the first one touched to the text; before a border, the
    lanes outside alone.
    """
    drawn, linked = "", False
    for touch in row.outer:
        linked, text = _lane(touch, linked, glyphs)
        drawn += text
    if row.kind in ("open", "close"):
        return drawn
    fill = glyphs.link if linked else " "
    edge = fill if row.frame is None else glyphs.frame["crossed" if linked else "side"]
    drawn += edge + fill
    for touch in row.inner:
        linked, text = _lane(touch, linked, glyphs)
        drawn += text
    return drawn


def _lane(touch: Touch, linked: bool, glyphs: Glyphs) -> tuple[bool, str]:
    """Whether the row is linked behind the lane, and its two columns."""
    now = linked or touch not in ("none", "pass")
    fill = glyphs.link if now else " "
    match touch:
        case "none":
            return now, 2 * fill
        case "pass":
            return now, glyphs.lane + fill
        case _:
            return now, (glyphs.more if linked else glyphs.first)[touch] + fill


def _title(frame: Frame, glyphs: Glyphs) -> str:
    return f"{glyphs.frame['top']} {tag(frame, glyphs)} {frame.rule} "


def _border(frame: Frame, row: Row, lanes: str, width: int, glyphs: Glyphs) -> str:
    """The top with the rule, and the point where there is room; or the bottom."""
    (left, right), top, room = glyphs.corners[row.kind], glyphs.frame["top"], width - len(lanes) - 2
    if row.kind == "close":
        return lanes + left + top * room + right
    title = fitted(_title(frame, glyphs), room, glyphs)
    point = f" {frame.family}.{frame.point} {top}"
    if len(title) + len(point) >= room:
        point = ""
    return lanes + left + title + top * (room - len(title) - len(point)) + point + right


def _said(diagram: Diagram, row: Row, glyphs: Glyphs) -> _Said | None:
    """What the row says; None for a border."""
    match row.kind:
        case "open" | "close":
            return None
        case "op":
            op = diagram.ops[row.at]
            return _Said(mark=glyphs.op, look="op", name=op.name, text=op_text(op))
        case "kept":
            assert row.frame is not None
            return _kept(diagram.frames[row.frame].kept[row.at], glyphs)
        case "read":
            return _Said(mark=glyphs.wire, look="memory", name=diagram.wires[row.at].name)
        case "left":
            return _Said(mark=glyphs.wire, look="memory", name=diagram.wires[row.at].name, text="to what is behind")
        case "given" | "inner" | "written":
            wire = diagram.wires[row.at]
            shape = f"{wire.rows}{glyphs.times}{wire.dim}"
            cells = (shape, wire.format, bytes_text(wire.n_bytes), wire.where)
            look = "chip" if row.kind == "inner" else "memory"
            return _Said(mark=glyphs.wire, look=look, name=wire.name, cells=cells)
        case _:
            assert_never(row.kind)


def _kept(kept: Kept, glyphs: Glyphs) -> _Said:
    mark = glyphs.weight if kept.kind == "weight" else glyphs.state
    cells = (glyphs.times.join(map(str, kept.shape)), kept.format, bytes_text(kept.moved), kept.kind)
    return _Said(mark=mark, look=kept.kind, name=kept.name, cells=cells)


def _columns(said: list[_Said | None]) -> tuple[int, ...]:
    """Widths of the name and of the four cells."""
    names = max(len(each.name) for each in said if each)
    cells = [each.cells for each in said if each and each.cells]
    return names, *(max(len(each[at]) for each in cells) for at in range(4))


def _needed(said: _Said | None, columns: tuple[int, ...]) -> int:
    if said is None:
        return 0
    rest = sum(columns[1:]) + 6 if said.cells else len(said.text)
    return 2 + columns[0] + 2 + rest


def _told(said: _Said, columns: tuple[int, ...], room: int, glyphs: Glyphs) -> str:
    """Mark and name, then the cells under each other; where there is no room, the name is cut."""
    name, shape, format, n_bytes, where = columns
    cells = sum(columns[1:]) + 6
    name = max(min(name, room - 4 - cells), 1)
    text = said.text
    if said.cells:
        first, second, third, last = said.cells
        text = f"{first.rjust(shape)}  {second.ljust(format)}  {third.rjust(n_bytes)}  {last.ljust(where)}"
    return fitted(f"{said.mark} {fitted(said.name, name, glyphs).ljust(name)}  {text}", room, glyphs)


def fitted(text: str, room: int, glyphs: Glyphs) -> str:
    """The text, cut where it is longer than the room; the cut is marked."""
    return text if len(text) <= room else text[: max(room - 1, 0)] + glyphs.cut[: max(room, 0)]
