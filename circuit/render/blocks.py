"""The nest of C blocks under construction, and which of them a value belongs to.

A value belongs to the innermost open block among its free ranges, so what a loop does not change is computed before the
loop. A block's lines join its parent's when it closes; until then whatever the parent gets stands before the loop.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct, field

from circuit.render.lanes import Piece
from circuit.uop.node import Axis, Loop, UOp

Want = tuple[UOp, Piece | None]  # a value; in lanes, one piece of it


class Block(Struct):
    """Lines of C between braces; `over` is the range of the loop, None for the body of a function or of an `if`."""

    over: UOp | None
    lines: list[str] = field(default_factory=list)
    known: dict[Want, str] = field(default_factory=dict)  # what each name in scope holds


class Nest:
    """The open blocks, outermost first."""

    def __init__(self) -> None:
        self._open: list[Block] = [Block(None)]
        self._names = 0

    def name(self, prefix: str = "v") -> str:
        """A C name that is not in use."""
        self._names += 1
        return f"{prefix}{self._names}"

    def home(self, node: UOp) -> Block:
        """The block that a value belongs to."""
        for block in reversed(self._open):
            if block.over is not None and block.over in node.ranges:
                return block
        return self._open[0]

    def around(self, node: UOp) -> list[Block]:
        """The blocks down to the one that a value belongs to, outermost first."""
        return self._open[: self._open.index(self.home(node)) + 1]

    def depth(self, node: UOp) -> int:
        """How many blocks are around a value."""
        return self._open.index(self.home(node))

    def find(self, want: Want) -> str | None:
        """The name of a value that has been computed in a block still open."""
        return self.home(want[0]).known.get(want)

    @contextmanager
    def inside(self, parent: Block, head: str, over: UOp | None) -> Iterator[Block]:
        """A new block at the end of `parent`. Blocks open below `parent` are out of scope in it."""
        outer = self._open
        block = Block(over)
        self._open = [*outer[: outer.index(parent) + 1], block]
        yield block
        self._open = outer
        parent.lines += [f"{head} {{", *(f"  {line}" for line in block.lines), "}"]

    def top(self) -> list[str]:
        """The lines of the function."""
        assert len(self._open) == 1, "blocks are still open"
        return self._open[0].lines


def axis_of(r: UOp) -> Axis:
    """What becomes of a RANGE."""
    assert isinstance(r.arg, Loop), r
    return r.arg.axis
