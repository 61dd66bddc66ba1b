"""Where a piece of lanes lies: an affine place, or an index for every lane."""

from collections.abc import Callable

from msgspec import Struct

from circuit.render.lanes import Affine, Piece, affine, stride, total
from circuit.uop.build import i32, loop, u32
from circuit.uop.node import Axis, Op, UOp, substitute
from circuit.uop.simplify import simplify


class Place(Struct, frozen=True):
    """Lane n is at base + offset + n * step; where there is no such form, `gather` is the index of every lane.

    `base` is the same in all lanes. Indices are in range, so the wrapping sums that lead to them do not matter.
    """

    base: UOp | None
    offset: int
    step: int
    gather: UOp | None = None


def place(index: UOp, lane: UOp | None, piece: Piece | None, depth: Callable[[UOp], int]) -> Place:
    """The place of an index that depends on `lane` (None: on none). `depth`: outer terms are summed first."""
    sum_of = affine(index)
    if lane is None or piece is None:
        return _affine_place(sum_of, None, 0, 0, depth)
    step = stride(sum_of, lane)
    if step is not None:
        return _affine_place(sum_of, lane, step, piece.start, depth)
    if piece.width == 1:
        fixed = substitute(index, {lane: i32(piece.start)})
        return _affine_place(affine(simplify(fixed)), None, 0, 0, depth)
    inner = loop("lane in a piece", piece.width, Axis.UPCAST)
    shifted = substitute(index, {lane: inner + piece.start})
    sum_of = affine(simplify(shifted))
    step = stride(sum_of, inner)
    if step is not None:
        return _affine_place(sum_of, inner, step, 0, depth)
    return Place(None, 0, 0, gather=index)


class Span(Struct, frozen=True):
    """Elements that stand one behind the other, read at once: `load` says of what, and that of `over` = n, the place of
    a lane or of a pair of lanes, is at `index`, which ascends by `step`.
    """

    load: UOp
    index: UOp
    over: UOp
    step: int

    def place(self, depth: Callable[[UOp], int]) -> Place:
        """Of the elements."""
        return _affine_place(affine(self.index), self.over, self.step, 0, depth)


def halves(half: UOp, lane: UOp, piece: Piece) -> Span | None:
    """The words whose halves, the low one first, are those of the lanes of a piece, where they stand so in what the
    kernel is given; `half` is the 16 bits of a lane.
    """
    if half.op is not Op.WHERE or piece.width % 2:
        return None
    pair = loop("pair of lanes", piece.width // 2, Axis.UPCAST)
    low, high = (simplify(substitute(half, {lane: pair * 2 + (piece.start + n)})) for n in (0, 1))
    if (low.op, high.op) != (Op.FLOORMOD, Op.FLOORDIV) or low.src != high.src or low.src[1] is not u32(0x10000):
        return None
    load = low.src[0]
    if load.op is not Op.LOAD or load.src[0].src[0].op is not Op.PARAM or stride(affine(load.src[0].src[1]), pair) != 1:
        return None
    return Span(load, load.src[0].src[1], pair, 1)


def _affine_place(sum_of: Affine, lane: UOp | None, step: int, start: int, depth: Callable[[UOp], int]) -> Place:
    terms = [(term, factor) for term, factor in sum_of.terms if term is not lane]
    terms.sort(key=lambda t: depth(t[0]))
    return Place(total(terms), sum_of.offset + step * start, step)
