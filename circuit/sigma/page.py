"""What a page of a state stores: the keys and values of PAGE positions, in the state's format.

A page is words of 4 bytes: keys as [head][tile of TILE positions][word of a head][TILE], then values as
[head][part of a head][PAGE][word of a part], so that lanes may run over positions for scores and over words for the sum
of values, and a kernel reads what it needs in one stream. A part has TILE words; a head of another size is one part. A
row writes whole words.

| format    | values in a word | key d of a head  | value d of a head | bytes a position, head and side |
|-----------|------------------|------------------|-------------------|---------------------------------|
| f32       | 1                | word d           | word d            | 4 head_dim                      |
| f16, bf16 | 2                | word d // 2      | word d % w        | 2 head_dim                      |
| int8      | 4                | word d // 4      | word d % w        | head_dim + 4                    |

w is the number of a head's words; of the values that share one, the lowest bits have the lowest d. So the fold over a
key meets its words in order, and lanes over values read words in order. int8 has one f32 scale for each position, head
and side, max|x| / 127; all key scales as [head][PAGE] stand behind the values, the value scales behind them.

A stored value means its decoded float32 value; whoever reads a state reads decoded values.
"""

from msgspec import Struct

from circuit.sigma.encode import encode_bf16, encode_f16, encode_int8, magnitude_of, scale_of
from circuit.sigma.op import Room, Writes
from circuit.sigma.storage_codes import decode_f16, half, signed_byte
from circuit.uop.build import bitcast, cast, index, loop, shl, stage, u32, where
from circuit.uop.node import DType, UOp

PAGE = 64
TILE = 32

_SHARE = {"f32": 1, "f16": 2, "bf16": 2, "int8": 4}
"""Values in a word."""


def page_words(format: str, heads: int, head_dim: int) -> int:
    """Words of one page of a state."""
    return 2 * heads * PAGE * (head_words(format, head_dim) + _scaled(format))


def head_words(format: str, head_dim: int) -> int:
    """Words of a head's keys, or values, at one position."""
    return -(-head_dim // _SHARE[format])


def part_words(format: str, head_dim: int) -> int:
    """Words of a part of a head's values at one position."""
    n = head_words(format, head_dim)
    return n if n % TILE else TILE


def pages_of(context: int) -> int:
    """The row length of a page table: pages of `context` positions, and one more that a loop's end may look up
    unused.
    """
    return context // PAGE + 1


class Spot(Struct, frozen=True, kw_only=True):
    """A position: the first word of its page in the pool, and its place in the page."""

    page: UOp
    inner: UOp


def key_at(room: Room, spot: Spot, head: UOp, d: UOp) -> UOp:
    """Key d of a head, decoded."""
    share = _SHARE[room.format]
    word = index(room.words, _key_place(room, spot, head, d // share))
    return _decoded(room, word, d % share, spot, head, "keys")


def value_at(room: Room, spot: Spot, head: UOp, d: UOp) -> UOp:
    """Value d of a head, decoded."""
    n = head_words(room.format, room.head_dim)
    word = index(room.words, _value_place(room, spot, head, d % n))
    return _decoded(room, word, d // n, spot, head, "values")


def writes(room: Room, spot: Spot, keys: UOp, values: UOp) -> tuple[Writes, ...]:
    """What a row stores; `keys` and `values`: [heads * head_dim] f32."""
    share, n = _SHARE[room.format], head_words(room.format, room.head_dim)
    made: list[Writes] = []
    for side, row, place, first, step in (("keys", keys, _key_place, share, 1), ("values", values, _value_place, 1, n)):
        magnitudes = _magnitudes(room, row)
        h, j = loop("h", room.heads), loop("d", n)
        codes = [_code(room, row, magnitudes, h, j * first + f * step) for f in range(share)]
        word = codes[0]
        for f, code in enumerate(codes[1:], start=1):
            word = word + shl(code, f * (32 // share))
        made.append(Writes(loops=(h, j), place=place(room, spot, h, j), value=word))
        if magnitudes is not None:
            h = loop("h", room.heads)
            scale = bitcast(scale_of(index(magnitudes, h)), DType.U32)
            made.append(Writes(loops=(h,), place=_scale_place(room, spot, h, side), value=scale))
    return tuple(made)


def _scaled(format: str) -> bool:
    """Whether values stand under scales."""
    return format == "int8"


def _key_place(room: Room, spot: Spot, head: UOp, word: UOp) -> UOp:
    tile = head * (PAGE // TILE) + spot.inner // TILE
    return spot.page + (tile * head_words(room.format, room.head_dim) + word) * TILE + spot.inner % TILE


def _value_place(room: Room, spot: Spot, head: UOp, word: UOp) -> UOp:
    n = head_words(room.format, room.head_dim)
    width = part_words(room.format, room.head_dim)
    part = head * (n // width) + word // width
    return spot.page + room.heads * PAGE * n + (part * PAGE + spot.inner) * width + word % width


def _scale_place(room: Room, spot: Spot, head: UOp, side: str) -> UOp:
    n = head_words(room.format, room.head_dim)
    before = 2 * n if side == "keys" else 2 * n + 1
    return spot.page + room.heads * PAGE * before + head * PAGE + spot.inner


def _decoded(room: Room, word: UOp, field: UOp, spot: Spot, head: UOp, side: str) -> UOp:
    """The value of a field of a word, 0 the lowest."""
    match room.format:
        case "f32":
            return bitcast(word, DType.F32)
        case "f16":
            return decode_f16(half(word, field))
        case "bf16":
            return bitcast(where(field < 1, shl(word, 16), word // 65536 * 65536), DType.F32)
        case "int8":
            scale = bitcast(index(room.words, _scale_place(room, spot, head, side)), DType.F32)
            return cast(signed_byte(word, field), DType.F32) * scale
    raise AssertionError(f"no page stores {room.format}")


def _code(room: Room, row: UOp, magnitudes: UOp | None, head: UOp, d: UOp) -> UOp:
    """The bits of value d of a head; 0 where the head's last word has a field too many."""
    padded = room.head_dim % _SHARE[room.format] != 0
    inside = d < room.head_dim
    x = index(row, head * room.head_dim + (where(inside, d, 0) if padded else d))
    match room.format:
        case "f32":
            code = bitcast(x, DType.U32)
        case "f16":
            code = encode_f16(x)
        case "bf16":
            code = encode_bf16(x)
        case "int8":
            assert magnitudes is not None
            code = encode_int8(x, index(magnitudes, head))
        case format:
            raise AssertionError(f"no page stores {format}")
    return where(inside, code, u32(0)) if padded else code


def _magnitudes(room: Room, row: UOp) -> UOp | None:
    """[heads] the largest magnitude of each head, where values stand under scales."""
    if not _scaled(room.format):
        return None
    h, d = loop("h_scale", room.heads), loop("d_scale", room.head_dim)
    return stage(magnitude_of(index(row, h * room.head_dim + d), d), h, where="local")
