"""A diagram as SVG: the rows of the terminal, with lanes as strings and frames as boxes. Looks are in a style sheet."""

from collections.abc import Iterator

from msgspec import Struct

from circuit.report.display.lines import UNICODE, op_text, tag
from circuit.report.display.markup import Inside, Markup, element, joined
from circuit.report.display.record import Diagram, Frame, Kept, Wire
from circuit.report.display.rows import Row, rows_of
from circuit.report.sections import bytes_text, operations_text, time_text

ROW, HEAD, GAP = 20.0, 40.0, 8.0
"""Heights: of a row, of a frame's head, and between frames."""
PITCH, LETTER, SMALL = 13.0, 7.0, 6.4
"""Widths: of a lane, and of a letter at the two sizes of text, with room to spare for any monospace font."""
MARGIN, ROUND = 10.0, 6.0


class Drawing(Struct, frozen=True, kw_only=True):
    """Markup that fills a box of that size."""

    markup: Markup
    width: float
    height: float


def drawing(diagram: Diagram) -> Drawing:
    """The diagram, in a box of its own."""
    return _Draw(diagram).drawing()


class _Said(Struct, frozen=True, kw_only=True):
    """The text of a row: a name, what is right of it, and what a pointer over it tells."""

    name: str
    right: str
    tells: str
    look: str


class _Draw:
    def __init__(self, diagram: Diagram) -> None:
        self._diagram, self._rows = diagram, rows_of(diagram)
        self._said = [_said(diagram, row) for row in self._rows]
        outer, inner = len(self._rows[0].outer), len(self._rows[0].inner)
        self._frame_x = MARGIN + PITCH * outer
        self._text_x = self._frame_x + PITCH * (inner + 1) + 4
        texts = [LETTER * len(s.name) + SMALL * len(s.right) + 3 * LETTER for s in self._said if s]
        heads = [_head_width(frame) for frame in diagram.frames]
        self._width = max(self._text_x + max(texts), self._frame_x + max(heads)) + 2 * MARGIN
        self._tops: list[float] = []
        top = MARGIN / 2
        for row in self._rows:
            self._tops.append(top)
            top += {"open": HEAD, "close": GAP}.get(row.kind, ROW)
        self._height = top + MARGIN / 2

    def drawing(self) -> Drawing:
        layers = (self._frames(), self._links(), self._lanes(), self._marks(), self._texts())
        return Drawing(
            markup=joined(*(each for layer in layers for each in layer)), width=self._width, height=self._height
        )

    def _middle(self, at: int) -> float:
        return self._tops[at] + ROW / 2

    def _xs(self) -> list[float]:
        """Of every lane, those outside first."""
        outer, inner = len(self._rows[0].outer), len(self._rows[0].inner)
        first = self._frame_x + PITCH
        return [*(MARGIN + PITCH * at for at in range(outer)), *(first + PITCH * at for at in range(inner))]

    def _frames(self) -> Iterator[Markup]:
        opened = 0.0
        for at, row in enumerate(self._rows):
            if row.kind == "open":
                opened = self._tops[at]
            elif row.kind == "close":
                frame = self._diagram.frames[row.at]
                width = self._width - self._frame_x - MARGIN
                box = element(
                    "rect", x=self._frame_x, y=opened, width=width, height=self._tops[at] - opened, rx=6,
                    class_=f"frame {frame.numerics}",
                )  # fmt: skip
                yield element("g", element("title", _tells(frame)), box, *self._head(frame, opened))

    def _head(self, frame: Frame, top: float) -> Iterator[Markup]:
        left, right = self._frame_x + 10, self._width - MARGIN - 8
        yield element("text", tag(frame, UNICODE), x=left, y=top + 16, class_=f"tag {frame.numerics}")
        yield element("text", frame.rule, x=left + 14, y=top + 16, class_="rule")
        yield element("text", _time(frame), x=right, y=top + 16, class_="small right")
        yield element("text", f"{frame.family}.{frame.point}", x=left + 14, y=top + 31, class_="small")
        yield element("text", _does(frame), x=right, y=top + 31, class_="small right")

    def _links(self) -> Iterator[Markup]:
        """From the first lane that a row touches to its text."""
        xs = self._xs()
        for at, row in enumerate(self._rows):
            lanes = (*row.outer, *row.inner)
            touched = [place for place, touch in enumerate(lanes) if touch not in ("none", "pass")]
            if not touched:
                continue
            y, first = self._middle(at), touched[0]
            x = xs[first]
            turn = {"begin": ROUND, "end": -ROUND}.get(lanes[first], 0.0)
            start = f"M{x:g} {y + turn:g}Q{x:g} {y:g} {x + ROUND:g} {y:g}" if turn else f"M{x:g} {y:g}"
            look = "chip" if row.kind in ("op", "inner") else "memory"
            yield element("path", d=f"{start}H{self._text_x - 3:g}", class_=f"wire {look}")

    def _lanes(self) -> Iterator[Markup]:
        """Each lane from where its wire begins to where it ends."""
        outer = len(self._rows[0].outer)
        for lane, x in enumerate(self._xs()):
            begun: float | None = None
            linked_before = False
            for at, row in enumerate(self._rows):
                lanes = (*row.outer, *row.inner)
                touch, y = lanes[lane], self._middle(at)
                linked_before = any(each not in ("none", "pass") for each in lanes[:lane])
                turn = 0.0 if linked_before else ROUND
                if touch == "begin":
                    begun = y + turn
                elif touch == "end":
                    assert begun is not None, "a lane ends that never began"
                    look = "memory" if lane < outer else "chip"
                    yield element("path", d=f"M{x:g} {begun:g}V{y - turn:g}", class_=f"wire over {look}")
                    yield element("path", d=f"M{x:g} {begun:g}V{y - turn:g}", class_=f"wire {look}")
                    begun = None

    def _marks(self) -> Iterator[Markup]:
        """Joints of lanes; ops, weights and states."""
        xs, outer = self._xs(), len(self._rows[0].outer)
        for at, row in enumerate(self._rows):
            y, lanes = self._middle(at), (*row.outer, *row.inner)
            touched = [place for place, touch in enumerate(lanes) if touch not in ("none", "pass")]
            for place in touched:
                if lanes[place] == "join" or place != touched[0]:
                    yield element(
                        "circle", cx=xs[place], cy=y, r=2.2, class_="joint " + ("memory" if place < outer else "chip")
                    )
            x = self._text_x
            if row.kind == "op":
                yield element("circle", cx=x, cy=y, r=4, class_="op")
            elif row.kind == "kept":
                kept = self._kept(row)
                turned = None if kept.kind == "weight" else f"rotate(45 {x:g} {y:g})"
                yield element("rect", x=x - 3.5, y=y - 3.5, width=7, height=7, transform=turned, class_=kept.kind)

    def _kept(self, row: Row) -> Kept:
        assert row.frame is not None
        return self._diagram.frames[row.frame].kept[row.at]

    def _texts(self) -> Iterator[Markup]:
        right = self._width - MARGIN - 8
        for at, said in enumerate(self._said):
            if said is None:
                continue
            y = self._middle(at) + 4
            parts: list[Inside] = [element("title", said.tells)] if said.tells else []
            parts.append(element("text", said.name, x=self._text_x + 9, y=y, class_=said.look))
            if said.right:
                parts.append(element("text", said.right, x=right, y=y, class_="small right"))
            yield element("g", *parts)


def _said(diagram: Diagram, row: Row) -> _Said | None:
    match row.kind:
        case "open" | "close":
            return None
        case "op":
            op = diagram.ops[row.at]
            params = "".join(f"; {name}={value}" for name, value in op.params)
            reads, makes = (", ".join(diagram.wires[w].name for w in wires) for wires in (op.reads, op.makes))
            return _Said(
                name=op.name,
                right=op_text(op),
                tells=f"{op.op}: reads {reads}; makes {makes or 'a state'}{params}",
                look="name",
            )
        case "kept":
            assert row.frame is not None
            kept = diagram.frames[row.frame].kept[row.at]
            shape = UNICODE.times.join(map(str, kept.shape))
            of = "as stored" if kept.kind == "weight" else "a position"
            tells = f"{kept.name}: {kept.kind}, {kept.format}, {kept.n_bytes:,} B {of}; a step moves {kept.moved:,} B"
            return _Said(
                name=kept.name, right=f"{shape} {kept.format} {bytes_text(kept.moved)}", tells=tells, look="kept"
            )
        case "read" | "left":
            wire = diagram.wires[row.at]
            right = "to what is behind" if row.kind == "left" else ""
            return _Said(name=wire.name, right=right, tells=_of(wire), look="edge")
        case _:
            wire = diagram.wires[row.at]
            where = f" {wire.where}" if wire.where in ("scratch", "step") else ""
            right = f"{wire.rows}{UNICODE.times}{wire.dim} {wire.format} {bytes_text(wire.n_bytes)}{where}"
            return _Said(name=wire.name, right=right, tells=_of(wire), look="edge")


def _of(wire: Wire) -> str:
    shape = f"{wire.rows}{UNICODE.times}{wire.dim}"
    return f"{wire.name}: {shape} {wire.format}, {wire.n_bytes:,} B, {wire.where}"


def _time(frame: Frame) -> str:
    if frame.figures is None:
        return "on request"
    return time_text(frame.figures.timed.ceiling_s) if frame.figures.timed else ""


def _does(frame: Frame) -> str:
    if frame.figures is None:
        return ""
    each = frame.figures
    return f"{bytes_text(each.weights + each.states + each.edges)} {operations_text(each.flops)}"


def _tells(frame: Frame) -> str:
    said = f"{frame.rule} ({frame.numerics}): {frame.kernel} by {frame.family}.{frame.point}"
    if frame.figures is None:
        return f"{said}; made on request, in no step of answering"
    each = frame.figures
    moved = f"weights {bytes_text(each.weights)}, states {bytes_text(each.states)}, edges {bytes_text(each.edges)}"
    said = f"{said}; {moved}; {operations_text(each.flops)}"
    if each.timed is None:
        return said
    return f"{said}; ceiling {time_text(each.timed.ceiling_s)}, bound by {each.timed.bound}"


def _head_width(frame: Frame) -> float:
    first = LETTER * (len(frame.rule) + len(_time(frame)) + 6)
    second = SMALL * (len(frame.family) + len(frame.point) + len(_does(frame)) + 7)
    return max(first, second)
