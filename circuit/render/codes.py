"""Values as bytes of words: vectors of codes, in fewer instructions than their definitions have ops. Each is exact.

A value that is rounded and clamped is clamped first, and a conversion rounds it. Words whose bytes follow each other in
storage are made of whole vectors of these. And where the lane alone says which of two values is wanted, the lanes of a
piece may all want the same one: the other is not computed.
"""

from msgspec import Struct

from circuit.render.lanes import Piece, affine, stride
from circuit.render.places import Span
from circuit.uop.bounds import bounds
from circuit.uop.build import f32, i32, loop
from circuit.uop.node import Axis, DType, Op, UOp, const, substitute, toposort
from circuit.uop.simplify import simplify

_TO_EVEN = 1.5 * 2.0**23
"""Added to a number of at most 2**22 and taken away again, it leaves the nearest integer, ties to even."""
_MOST = 2**22
_BYTES = 4


class Rounded(Struct, frozen=True):
    """The integer nearest to `x`, ties to even, or that of lo and hi which it is beyond; 0 where x is NaN."""

    x: UOp
    lo: int
    hi: int


def rounded(node: UOp) -> Rounded | None:
    """least(max(i32(x + _TO_EVEN - _TO_EVEN), lo), hi), for constants lo <= 0 <= hi.

    Where x is beyond 2**22, so is the difference, on the same side, and the clamp makes lo or hi of it, as it does of
    x: a clamp to integers may come before the rounding.
    """
    if node.op is not Op.WHERE or node.dtype is not DType.I32 or node.src[1].op is not Op.MAX:
        return None
    clamped, hi = node.src[1:]
    whole, lo = clamped.src
    if node.src[0] is not (clamped < hi) or lo.op is not Op.CONST or hi.op is not Op.CONST:
        return None
    least, most = bounds(lo)[0], bounds(hi)[1]
    x = _rounded_by_sums(whole.src[0]) if whole.op is Op.CAST else None
    return Rounded(x, least, most) if x is not None and -_MOST <= least <= 0 <= most <= _MOST else None


def _rounded_by_sums(near: UOp) -> UOp | None:
    """x of x + _TO_EVEN - _TO_EVEN."""
    if near.op is not Op.ADD or near.src[1] is not f32(-_TO_EVEN) or near.src[0].op is not Op.ADD:
        return None
    x, added = near.src[0].src
    return x if added is f32(_TO_EVEN) else None


def four_bytes(node: UOp, lane: UOp, piece: Piece) -> Span | None:
    """What a word's bytes are loaded from, where the words of a piece are i32 of -128 .. 127 that follow each other.

    A word is the low eight bits of each of four, the lowest first.
    """
    loads: list[UOp] = []
    for byte in reversed(range(_BYTES)):
        if node.op is not (Op.ADD if byte else Op.FLOORMOD) or node.dtype is not DType.U32:
            return None
        last = node
        if byte:
            node, last = node.src
            if last.op is not Op.SHL or last.src[1] is not const(DType.U32, 8 * byte):
                return None
            last = last.src[0]
        load = _low_byte_of(last)
        if load is None:
            return None
        loads[:0] = [load]
    indices = [_in_piece(load.src[0].src[1], lane, piece) for load in loads]
    places = [affine(index) for index in indices]
    first, over = places[0], _place_of(piece)
    follow = all(
        load.src[0].src[0] is loads[0].src[0].src[0] and place.terms == first.terms and place.offset == first.offset + n
        for n, (load, place) in enumerate(zip(loads, places, strict=True))
    )
    return Span(loads[0], indices[0], over, _BYTES) if follow and stride(first, over) == _BYTES else None


def _low_byte_of(value: UOp) -> UOp | None:
    """The load of an i32 of -128 .. 127 whose low eight bits the value is."""
    if value.op is not Op.FLOORMOD or value.src[1] is not const(DType.U32, 256) or value.src[0].op is not Op.CAST:
        return None
    load = value.src[0].src[0]
    lo, hi = bounds(load) if load.dtype is DType.I32 else (0, 256)
    return load if load.op is Op.LOAD and -128 <= lo <= hi <= 127 else None


def decided(node: UOp, lane: UOp, piece: Piece) -> UOp | None:
    """The side of a WHERE that all lanes of a piece take; None where its condition does not say so."""
    if node.op is not Op.WHERE:
        return None
    condition = node.src[0]
    if condition.op is not Op.CMPLT or lane not in condition.ranges:
        return None
    if any(n.op in (Op.LOAD, Op.REDUCE) for n in toposort(condition)):
        return None
    lo, hi = bounds(_in_piece(condition, lane, piece))
    return None if lo != hi else node.src[1] if lo else node.src[2]


def _in_piece(node: UOp, lane: UOp, piece: Piece) -> UOp:
    """A value in the lanes of a piece, which `_place_of` numbers from 0."""
    return simplify(substitute(node, {lane: _place_of(piece) + piece.start}))


def _place_of(piece: Piece) -> UOp:
    return loop("lane in a piece", piece.width, Axis.UPCAST) if piece.width > 1 else i32(0)
