"""Sums of products of bytes, which processors make four at a time: where an integer fold is one, and in which words.

A fold over k of code_w * code_x whose codes stand in u32 words, four k a word, is a sum over words. It is found by
building what the storage programs make of a word and comparing nodes, so nothing is taken for one that is not. The
products and their sum are exact integers, so no order matters.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Literal

from msgspec import Struct

from circuit.render.expr import c_type, literal
from circuit.render.lanes import Piece
from circuit.render.peephole import fit_to_processor
from circuit.sigma.storage_codes import fifth_bit, nibble, signed_byte
from circuit.uop.build import cast, i32
from circuit.uop.node import DType, Op, UOp, toposort
from circuit.uop.simplify import simplify

Kind = Literal["u4", "u7", "s8"]
"""The bytes of a word of codes: at most 15, at most 127, or signed. Of u4, sums of 32 products fit in 16 bits."""

MOST_QUADS = 8
"""Words of codes whose products with signed bytes can be added in 16 bits: 8 * 2 * 15 * 128 < 2**15."""


class Quad(Struct, frozen=True):
    """Four products: the bytes that are made of `words`, each times the signed byte of `x` at its place.

    `place` says which bytes: in u4 the half of each byte of the word; in u7 the quarter of the 32 fifth bits too.
    """

    kind: Kind
    words: tuple[UOp, ...]
    place: int
    x: UOp

    def codes(self, words: Sequence[str]) -> str:
        """C for a word of the four codes."""
        half = f"{words[0]} >> 4" if self.place % 2 else words[0]
        match self.kind:
            case "s8":
                return words[0]
            case "u4":
                return f"({half}) & 0x0f0f0f0fu"
            case "u7":
                bits = f"{words[1]} << {4 - self.place}" if self.place < 5 else f"{words[1]} >> {self.place - 4}"
                return f"(({half}) & 0x0f0f0f0fu) | (({bits}) & 0x10101010u)"


def quads(products: Sequence[tuple[UOp, UOp]]) -> tuple[Quad, ...] | None:
    """The fold of these products as quads of one kind, or None where it is none."""
    if len(products) % 4 or products[0][0].dtype is not DType.I32:
        return None
    found = [_quad(products[at : at + 4]) for at in range(0, len(products), 4)]
    made = tuple(quad for quad in found if quad is not None)
    kinds = {quad.kind for quad in made}
    return made if len(made) == len(found) <= MOST_QUADS and len(kinds) == 1 else None


def same_codes(one: tuple[Quad, ...], other: tuple[Quad, ...]) -> bool:
    """Whether both multiply the same bytes of codes."""
    return [(q.kind, q.words, q.place) for q in one] == [(q.kind, q.words, q.place) for q in other]


class Writer(Struct, frozen=True):
    """What writing needs of a body: a line of C, a new name, a load as C, a value as an operand of some width."""

    line: Callable[[str], None]
    name: Callable[[], str]
    load: Callable[[UOp, Piece | None, int], str]
    operand: Callable[[UOp, Piece | None, int], str]


def write_dots(
    copies: dict[UOp, tuple[Quad, ...]], pieces: tuple[Piece | None, ...], to: Writer
) -> dict[tuple[UOp, Piece | None], str]:
    """Writes folds that have the same codes; the name of each fold's total, piece by piece.

    A word of codes is loaded here, not where a loop outside knows it: no register would hold it until then.
    """
    first = next(iter(copies.values()))
    sums = {(copy, piece): to.name() for piece in pieces for copy in copies}
    for (_, piece), name in sums.items():
        of = f"{first[0].kind}_x{_width(piece)}"
        to.line(f"met_sum_{of} {name} = met_start_{of}();")
    excess = {piece: to.name() for piece in pieces if first[0].kind == "s8"}
    for piece, name in excess.items():
        to.line(f"{c_type(DType.I32, _width(piece))} {name} = {literal(i32(0), _width(piece))};")
    loaded: dict[tuple[UOp, Piece | None], str] = {}
    for at, quad in enumerate(first):
        for piece in pieces:
            width, vector = _width(piece), c_type(DType.U32, _width(piece))
            for word in quad.words:
                if (word, piece) not in loaded:
                    loaded[word, piece] = to.name()
                    to.line(f"const {vector} {loaded[word, piece]} = {to.load(word, piece, width)};")
            code = to.name()
            to.line(f"const {vector} {code} = {quad.codes([loaded[word, piece] for word in quad.words])};")
            if piece in excess:
                to.line(f"{excess[piece]} = met_excess_x{width}({excess[piece]}, {code});")
            for copy, own in copies.items():
                name, x = sums[copy, piece], to.operand(own[at].x, piece, width)
                to.line(f"{name} = met_add_{quad.kind}_x{width}({name}, {code}, {x});")
    totals = {want: to.name() for want in sums}
    for want, name in sums.items():
        width = _width(want[1])
        total = f"met_end_{first[0].kind}_x{width}({name})"
        if want[1] in excess:
            total = f"met_rest_x{width}({total}, {excess[want[1]]})"
        to.line(f"const {c_type(DType.I32, width)} {totals[want]} = {total};")
    return totals


def _width(piece: Piece | None) -> int:
    return 1 if piece is None else piece.width


def _quad(four: Sequence[tuple[UOp, UOp]]) -> Quad | None:
    x = _word_of([b for _, b in four])
    if x is None:
        return None
    for kind, words, place in _candidates(four[0][0]):
        if all(_code(kind, words, place, byte) is a for byte, (a, _) in enumerate(four)):
            return Quad(kind, words, place, x)
    return None


def _word_of(values: Sequence[UOp]) -> UOp | None:
    """The word that all values are bytes of, in order."""
    for word in _loads(values[0]):
        if all(_code("s8", (word,), 0, byte) is value for byte, value in enumerate(values)):
            return word
    return None


def _candidates(value: UOp) -> Iterator[tuple[Kind, tuple[UOp, ...], int]]:
    """What a code may be a byte of."""
    loads = _loads(value)
    for word in loads:
        yield "s8", (word,), 0
        yield from (("u4", (word,), half) for half in range(2))
        others = (bits for bits in loads if bits is not word)
        yield from (("u7", (word, bits), place) for bits in others for place in range(8))


def _loads(value: UOp) -> tuple[UOp, ...]:
    return tuple(n for n in toposort(value) if n.op is Op.LOAD and n.dtype is DType.U32)


@cache
def _code(kind: Kind, words: tuple[UOp, ...], place: int, byte: int) -> UOp:
    """The i32 that the storage programs make of a byte, as it is rendered."""
    match kind:
        case "s8":
            value = signed_byte(words[0], i32(byte))
        case "u4":
            value = nibble(words[0], i32(4 * place + byte))
        case "u7":
            k = i32(4 * place + byte)
            value = nibble(words[0], k) + fifth_bit(words[1], k) * 16
    return fit_to_processor((simplify(cast(value, DType.I32)),))[0]
