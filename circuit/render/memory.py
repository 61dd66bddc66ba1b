"""C that reads and writes storage: a vector where the lanes of a piece follow each other, else an element a lane.

What follows a vector of words that the kernel is given is asked for ahead of its time (ahead.py).
"""

from collections.abc import Callable

from circuit.render.ahead import Ahead
from circuit.render.blocks import Nest
from circuit.render.declared import Declared
from circuit.render.expr import c_type, memory_type
from circuit.render.lanes import Lanes, Piece, storage
from circuit.render.places import Place, Span, place
from circuit.uop.node import DType, Op, UOp, range_size


class Memory:
    """The storage of one kernel. `value`: C for a value in a piece of the lanes."""

    def __init__(
        self, nest: Nest, declared: Declared, ahead: Ahead, lanes: Lanes, value: Callable[[UOp, Piece | None], str]
    ) -> None:
        self._nest = nest
        self._declared = declared
        self._ahead = ahead
        self._lanes = lanes
        self._value = value

    def load(self, node: UOp, piece: Piece | None, width: int) -> str:
        """A value of storage; what follows a piece of words is asked for."""
        text, at = self._loaded(node, piece, width)
        if at is not None and node.dtype is DType.U32 and piece is not None:
            self._ask(node, at, piece.start % 16 == 0, 4 * width)
        return text

    def loaded(self, node: UOp, piece: Piece | None, width: int) -> str:
        """A value of storage; nothing is asked for."""
        return self._loaded(node, piece, width)[0]

    def address(self, span: Span) -> str:
        """Where a span begins; what follows one that the kernel is given is asked for."""
        base, where = storage(span.load.src[0])[0], span.place(self._nest.depth)
        at = self._at(self._declared.pointer(base), where)
        if base.op is Op.PARAM:
            n_bytes = 4 * span.step * range_size(span.over)
            self._ask(span.load, at, where.offset % 16 == 0, n_bytes)
        return at

    def store(self, at: UOp, piece: Piece | None, text: str, dtype: DType) -> list[str]:
        """The lines that store a vector or an element, whose C is `text`, where the INDEX `at` says."""
        width, where = piece.width if piece is not None else 1, self._place(at.src[1], piece)
        pointer = self._declared.pointer(storage(at)[0])
        if width > 1 and where.step == 1:
            return [f"*({memory_type(dtype, width)} *){self._at(pointer, where)} = {text};"]
        elements = self._elements(pointer, where, piece)
        if width == 1:
            return [f"{elements[0]} = {text};"]
        return [f"{element} = {text}[{n}];" for n, element in enumerate(elements)]

    def _ask(self, load: UOp, at: str, first: bool, n_bytes: int) -> None:
        base, _ = storage(load.src[0])
        self._nest.home(load).lines += self._ahead.lines(load, base, at, first, n_bytes)

    def _loaded(self, node: UOp, piece: Piece | None, width: int) -> tuple[str, str | None]:
        """A value of storage, and its address where a vector is read from what the kernel is given."""
        base, _ = storage(node.src[0])
        pointer, where = self._declared.pointer(base), self._place(node.src[0].src[1], piece)
        at = None
        if width > 1 and where.step == 1:
            at = self._at(pointer, where)
            text = f"*(const {memory_type(node.dtype, width)} *){at}"
        else:
            elements = self._elements(pointer, where, piece)
            text = elements[0] if width == 1 else f"({c_type(node.dtype, width)}){{{', '.join(elements)}}}"
        if node.dtype is DType.BOOL:
            text = f"{text} != 0" if width == 1 else f"(i32x{width})({text} != 0)"
        return text, at if base.op is Op.PARAM else None

    def _place(self, index: UOp, piece: Piece | None) -> Place:
        return place(index, self._lanes.over if self._lanes.hold(index) else None, piece, self._nest.depth)

    def _at(self, pointer: str, where: Place) -> str:
        base = f" + {self._value(where.base, None)}" if where.base is not None else ""
        return f"({pointer}{base} + {where.offset})"

    def _elements(self, pointer: str, where: Place, piece: Piece | None) -> list[str]:
        """One C element a lane."""
        width = piece.width if piece is not None else 1
        if where.gather is not None:
            index = self._value(where.gather, piece)
            return [f"{pointer}[{index}]"] if width == 1 else [f"{pointer}[{index}[{n}]]" for n in range(width)]
        base = f"({pointer} + {self._value(where.base, None)})" if where.base is not None else pointer
        return [f"{base}[{where.offset + n * where.step}]" for n in range(width)]
