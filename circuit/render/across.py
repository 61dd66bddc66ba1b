"""Exact folds along lanes: the largest of integers, and their sum, are the same in any order.

So the places of such a fold, where it is written out and its value is one for all lanes around it, are the lanes of
vectors: these are folded into one, and its lanes at last (prelude_codes.py).

The largest of magnitudes is found among their bits. A bitcast makes every NaN the canonical one; that never changes the
order of two magnitudes, so it is done once, with the largest of the bits as they are.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct

from circuit.render.expr import c_type, step
from circuit.render.lanes import Piece
from circuit.uop.node import Axis, DType, Fold, Loop, Op, UOp, bound_ranges, const

_EXACT = ("add", "max")


class Writer(Struct, frozen=True):
    """What writing needs of a body: a line of C, a new name, a value of a piece as an operand."""

    line: Callable[[str], None]
    name: Callable[[], str]
    operand: Callable[[UOp, Piece | None, int], str]


def along(node: UOp) -> UOp | None:
    """The range that vectors may run along; None where the fold is in order, or a loop."""
    assert isinstance(node.arg, Fold), node
    ranges = bound_ranges(node)
    exact = node.arg.op in _EXACT and node.dtype is DType.I32
    return ranges[0] if exact and len(ranges) == 1 and _written_out(ranges[0]) else None


def write_across(node: UOp, pieces: Sequence[Piece], to: Writer) -> str:
    """Writes a fold whose lanes are cut into `pieces`; the name of its total."""
    assert isinstance(node.arg, Fold), node
    op, value = node.arg.op, node.src[0]
    x = magnitude_of(value) if op == "max" else None
    totals: dict[int, str] = {}
    for piece in pieces:
        if x is not None and piece.width > 1:
            term = f"met_magnitude_x{piece.width}({to.operand(x, piece, piece.width)})"
        else:
            term = to.operand(value, piece, piece.width)
        if piece.width in totals:
            to.line(step(op, node.dtype, piece.width, totals[piece.width], [term]))
        else:
            totals[piece.width] = to.name()
            to.line(f"{c_type(node.dtype, piece.width)} {totals[piece.width]} = {term};")
    total = to.name()
    for at, (width, name) in enumerate(totals.items()):
        part = name if width == 1 else f"met_across_{op}_i32x{width}({name})"
        to.line(step(op, node.dtype, 1, total, [part]) if at else f"i32 {total} = {part};")
    if x is not None:
        to.line(f"{total} = met_canonical({total});")
    return total


def magnitude_of(value: UOp) -> UOp | None:
    """The f32 whose bits, all but the sign, are the value."""
    if value.op is not Op.CAST or value.dtype is not DType.I32 or value.src[0].op is not Op.FLOORMOD:
        return None
    bits, sign = value.src[0].src
    return bits.src[0] if bits.op is Op.BITCAST and sign is const(DType.U32, 2**31) else None


def _written_out(r: UOp) -> bool:
    assert isinstance(r.arg, Loop), r
    return r.arg.axis is Axis.UPCAST
