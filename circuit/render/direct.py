"""Values that processors give in fewer instructions than their definitions have ops.

An f16 that is decoded is converted, as it is read where the halves of the lanes stand side by side; bits of a word that
stay where they are are masked; a signed byte or nibble is shuffled to the top of its word; a value that depends on four
bits of a word alone is picked from its sixteen possible values; and what codes.py says of codes. Each gives the same
value, for every operand.
"""

from msgspec import Struct

from circuit.render.codes import decided, four_bytes, rounded
from circuit.render.lanes import Piece
from circuit.render.peephole import byte_on_top_of, half_of, mask_of, nibble_on_top_of
from circuit.render.places import Span, halves
from circuit.uop.bounds import bounds
from circuit.uop.node import Const, DType, Op, UOp, const, substitute, toposort
from circuit.uop.simplify import simplify

PICKED = 16
"""Values in a table, and lanes of the vectors whose processors pick from it in one instruction."""


class Direct(Struct, frozen=True):
    """C for a vector, with `{x}` for that of the operand, or for the address of the span that it is, and `{table}`
    for the constants that it picks from.
    """

    text: str
    operand: UOp | Span
    table: tuple[UOp, ...] = ()


def direct(node: UOp, lane: UOp, piece: Piece) -> Direct | None:
    """How a piece of the lanes of a value is computed at once; None where by its ops."""
    side = decided(node, lane, piece)
    if side is not None:
        return Direct("{x}", side)
    width = piece.width
    match node.op:
        case _ if width == 1:
            return None
        case Op.WHERE:
            found = rounded(node)
            return None if found is None else Direct(f"met_rounded_x{width}({{x}}, {found.lo}, {found.hi})", found.x)
        case Op.ADD:
            span = four_bytes(node, lane, piece)
            return None if span is None else Direct(f"met_four_bytes_x{width}({{x}})", span)
        case Op.BITCAST:
            return _half(node, lane, piece)
        case Op.SHL:
            return _on_top(node, width) or _masked(node)
        case Op.CAST if width == PICKED and node.dtype is DType.F32 and mask_of(node.src[0]) is None:
            return _picked(node)
    return None


def _half(node: UOp, lane: UOp, piece: Piece) -> Direct | None:
    half, width = half_of(node), piece.width
    if half is None:
        return None
    span = halves(half, lane, piece)
    if span is not None:
        return Direct(f"met_halves_x{width}({{x}})", span)
    if half.op in (Op.FLOORDIV, Op.FLOORMOD):  # by 2**16: half of a word
        which = "high" if half.op is Op.FLOORDIV else "low"
        return Direct(f"met_{which}_half_x{width}({{x}})", half.src[0])
    return Direct(f"met_half_x{width}({{x}})", half)


def _on_top(node: UOp, width: int) -> Direct | None:
    """A byte or four bits of a word, moved to its top: by a shuffle of bytes, which leaves the units that multiply and
    convert alone. Shifts share units with them.
    """
    for kind, found in (("byte", byte_on_top_of(node)), ("nibble", nibble_on_top_of(node))):
        if found is not None:
            word, at = found
            text = f"met_{kind}_on_top_x{width}({{x}}, {at})"
            return Direct(text if node.dtype is DType.U32 else f"(i32x{width}){text}", word)
    return None


def _masked(node: UOp) -> Direct | None:
    found = mask_of(node)
    if found is None:
        return None
    word, mask = found
    return Direct(f"{{x}} & {mask}u" if node.dtype is DType.U32 else f"{{x}} & {mask - (mask >> 31 << 32)}", word)


def _picked(node: UOp) -> Direct | None:
    """The table of a value whose only variable is a number below 16."""
    codes = [
        n
        for n in toposort(node)
        if n.dtype is DType.U32 and n.op in (Op.FLOORMOD, Op.FLOORDIV) and bounds(n) == (0, PICKED - 1)
    ]
    code = next((n for n in codes if _depends_on_one(node, n)), None)
    if code is None:
        return None
    table = tuple(simplify(substitute(node, {code: const(DType.U32, n)})) for n in range(PICKED))
    assert all(value.op is Op.CONST for value in table), "an op of constants is not folded"
    return Direct(f"met_pick_x{PICKED}({{table}}, {{x}})", _low_bits(code), table)


def _depends_on_one(node: UOp, code: UOp) -> bool:
    stack, seen = [node], {code}
    while stack:
        found = stack.pop()
        if found not in seen:
            seen.add(found)
            if not found.src and found.op is not Op.CONST:
                return False
            stack.extend(found.src)
    return True


def _low_bits(code: UOp) -> UOp:
    """What has the code in its low four bits: the pick looks at no other."""
    value, divisor = code.src
    of_lowest = code.op is Op.FLOORMOD and isinstance(divisor.arg, Const) and divisor.arg.bits == PICKED
    return value if of_lowest else code
