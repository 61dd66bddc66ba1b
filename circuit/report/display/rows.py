"""A diagram as rows with lanes, which the terminal and the browser draw alike.

Outside the frames a lane is a wire in memory, inside a frame it is on the chip. In a row, what happens to lanes is
linked to the row's text: an op joins the lanes that it reads, a wire begins its lane where it is made.
"""

from typing import Literal

from msgspec import Struct

from circuit.report.display.record import Diagram, Frame

Touch = Literal["none", "pass", "begin", "join", "end"]
"""Of a lane in a row: no wire; a wire that only passes; one that begins, is read and goes on, or is read and ends."""

Kind = Literal["given", "open", "read", "op", "kept", "inner", "written", "close", "left"]
"""given, left: a wire comes from the part before, goes to the parts behind; open, close: a frame; read, written: a wire
enters, leaves a frame; op: it is computed; kept: what it reads or writes beside wires; inner: a wire on the chip."""


class Row(Struct, frozen=True, kw_only=True):
    """`at` is the place of what the row is about: a wire, an op, a frame, or of what its frame keeps. `outer` and
    `inner` are the lanes; `frame` is the place of the frame that the row is in.
    """

    kind: Kind
    at: int
    frame: int | None
    outer: tuple[Touch, ...]
    inner: tuple[Touch, ...]


def rows_of(diagram: Diagram) -> tuple[Row, ...]:
    """The rows, from the wires that are given to those that are left. Every row has as many lanes as the widest."""
    made = _Rows(diagram).rows()
    outer, inner = (max(len(side) for side in sides) for sides in ([r.outer for r in made], [r.inner for r in made]))
    return tuple(
        Row(kind=r.kind, at=r.at, frame=r.frame, outer=_padded(r.outer, outer), inner=_padded(r.inner, inner))
        for r in made
    )


def _padded(lanes: tuple[Touch, ...], count: int) -> tuple[Touch, ...]:
    none: Touch = "none"
    return (*lanes, *[none] * (count - len(lanes)))


class _Lanes:
    """Which wire each lane has; a wire takes the first free one."""

    def __init__(self) -> None:
        self._wires: list[int | None] = []

    def touched(self, begin: int | None = None, read: dict[int, bool] | None = None) -> tuple[Touch, ...]:
        """The lanes of a row in which a wire begins, or wires are read: whether each is for the last time."""
        read = read or {}
        if begin is not None:
            place = self._wires.index(None) if None in self._wires else len(self._wires)
            self._wires[place : place + 1] = [begin]
        found: list[Touch] = []
        for place, wire in enumerate(self._wires):
            if wire is None:
                found.append("none")
            elif wire in read:
                found.append("end" if read[wire] else "join")
                self._wires[place] = None if read[wire] else wire
            else:
                found.append("begin" if wire == begin else "pass")
        return tuple(found)

    def has(self, wire: int) -> bool:
        return wire in self._wires


class _Rows:
    def __init__(self, diagram: Diagram) -> None:
        self._diagram, self._rows = diagram, list[Row]()
        self._outer, self._inner = _Lanes(), _Lanes()
        self._frame_of = {op: at for at, frame in enumerate(diagram.frames) for op in frame.ops}

    def rows(self) -> list[Row]:
        for at, wire in enumerate(self._diagram.wires):
            if wire.maker is None:
                self._row("given", at, None, self._outer.touched(begin=at), ())
        for at, frame in enumerate(self._diagram.frames):
            self._frame(at, frame)
        for at, wire in enumerate(self._diagram.wires):
            if self._outer.has(at):
                assert wire.leaves, f"{wire.name} is read by nobody"
                self._row("left", at, None, self._outer.touched(read={at: True}), ())
        return self._rows

    def _frame(self, at: int, frame: Frame) -> None:
        self._row("open", at, at, self._outer.touched(), ())
        for op in frame.ops:
            for wire in dict.fromkeys(self._diagram.ops[op].reads):
                if self._frame_of.get(self._maker(wire)) != at and not self._inner.has(wire):
                    self._read(wire, op, at)
            for place, kept in enumerate(frame.kept):
                if kept.op == op:
                    self._row("kept", place, at, self._outer.touched(), self._inner.touched())
            self._op(op, at)
        self._row("close", at, at, self._outer.touched(), self._inner.touched())

    def _maker(self, wire: int) -> int:
        maker = self._diagram.wires[wire].maker
        return -1 if maker is None else maker

    def _read(self, wire: int, op: int, at: int) -> None:
        """A wire of memory enters the frame; its lane outside ends where no later frame and nobody behind reads it."""
        record = self._diagram.wires[wire]
        last = not record.leaves and max(self._frame_of[reader] for reader in record.readers) == at
        self._row("read", wire, at, self._outer.touched(read={wire: last}), self._inner.touched(begin=wire))

    def _op(self, op: int, at: int) -> None:
        wires = self._diagram.wires
        inside = [(w, [r for r in wires[w].readers if self._frame_of[r] == at]) for w in self._diagram.ops[op].reads]
        self._row("op", op, at, self._outer.touched(), self._inner.touched(read={w: max(r) == op for w, r in inside}))
        for wire in self._diagram.ops[op].makes:
            record = wires[wire]
            within = any(self._frame_of[reader] == at for reader in record.readers)
            stored = record.where == "arena"
            self._row(
                "written" if stored else "inner",
                wire,
                at,
                self._outer.touched(begin=wire) if stored and self._read_later(wire, at) else self._outer.touched(),
                self._inner.touched(begin=wire) if within else self._inner.touched(),
            )

    def _read_later(self, wire: int, at: int) -> bool:
        record = self._diagram.wires[wire]
        return record.leaves or any(self._frame_of[reader] > at for reader in record.readers)

    def _row(self, kind: Kind, at: int, frame: int | None, outer: tuple[Touch, ...], inner: tuple[Touch, ...]) -> None:
        self._rows.append(Row(kind=kind, at=at, frame=frame, outer=outer, inner=inner))
