"""Where a vector of lanes lies in memory: the pieces a lane range is cut into, and indices as affine sums."""

from collections.abc import Iterable

from msgspec import Struct

from circuit.uop.node import Const, DType, Op, UOp, const

WIDTHS = (16, 8, 4)
"""Lanes of vector types; what is left over runs one lane at a time."""


class Piece(Struct, frozen=True):
    """Lanes start .. start+width-1 of a lane range, as one C variable."""

    start: int
    width: int


class Lanes(Struct):
    """The range whose places are the lanes of vectors; None while there are none."""

    over: UOp | None = None

    def hold(self, node: UOp) -> bool:
        """Whether a value differs from lane to lane."""
        return self.over is not None and self.over in node.ranges


class Affine(Struct, frozen=True):
    """offset + the sum of factor * term: the value of an i32 node, modulo 2**32. No term is a constant."""

    terms: tuple[tuple[UOp, int], ...]
    offset: int


def widths(lanes: int) -> tuple[int, ...]:
    """The vector types of a class whose registers hold `lanes` values, the widest first."""
    found = tuple(width for width in WIDTHS if width <= lanes)
    assert found, f"registers of {lanes} lanes hold no vector of {WIDTHS[-1]}"
    return found


def pieces(count: int, lanes: int) -> tuple[Piece, ...]:
    """Lanes 0 .. count-1, in vectors of the greatest widths that fit; a register holds `lanes`."""
    cut: list[Piece] = []
    start = 0
    for width in (*widths(lanes), 1):
        while count - start >= width:
            cut.append(Piece(start, width))
            start += width
    return tuple(cut)


def affine(index: UOp) -> Affine:
    """An i32 node as a sum of terms, taken apart at ADD, and at MUL and SHL by a constant."""
    factors: dict[UOp, int] = {}
    offset = 0
    stack = [(index, 1)]
    while stack:
        node, factor = stack.pop()
        match node.op:
            case Op.CONST:
                offset += factor * _bits(node)
            case Op.ADD:
                stack.extend((s, factor) for s in reversed(node.src))
            case Op.MUL if node.src[1].op is Op.CONST:
                stack.append((node.src[0], factor * _bits(node.src[1])))
            case Op.MUL if node.src[0].op is Op.CONST:
                stack.append((node.src[1], factor * _bits(node.src[0])))
            case Op.SHL if node.src[1].op is Op.CONST:
                stack.append((node.src[0], factor << _bits(node.src[1])))
            case _:
                factors[node] = factors.get(node, 0) + factor
    return Affine(tuple((node, _wrap(f)) for node, f in factors.items() if _wrap(f)), _wrap(offset))


def stride(place: Affine, lane: UOp) -> int | None:
    """How far the place moves from one lane to the next; None where that differs from lane to lane."""
    step = 0
    for term, factor in place.terms:
        if term is lane:
            step = factor
        elif lane in term.ranges:
            return None
    return step


def total(terms: Iterable[tuple[UOp, int]]) -> UOp | None:
    """The sum of factor * term from the left; None where there is none."""
    found: UOp | None = None
    for term, factor in terms:
        part = term if factor == 1 else UOp(Op.MUL, (term, const(DType.I32, factor)))
        found = part if found is None else UOp(Op.ADD, (found, part))
    return found


def storage(node: UOp) -> tuple[UOp, tuple[UOp, ...]]:
    """The PARAM, BUFFER, ALLOC or table under an INDEX, and the effects that come before it, oldest first."""
    effects: list[UOp] = []
    base = node.src[0]
    while base.op is Op.AFTER:
        effects[:0] = [e for e in base.src[1:] if e.dtype is DType.VOID]
        base = base.src[0]
    return base, tuple(effects)


def _bits(node: UOp) -> int:
    assert isinstance(node.arg, Const), node
    return node.arg.bits


def _wrap(x: int) -> int:
    return ((x + 2**31) % 2**32) - 2**31
