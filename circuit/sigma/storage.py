"""What stored words mean: the UOp programs that decode weights, and where a value's word is.

A baked tensor is an array of little-endian u32 words. `vector`: a word is one f32. `panel`: outputs stand in panels
of P, a panel's words are lane-interleaved (word of lane l at ... + l), and the words of a panel follow the inputs k
in ascending order, so that a kernel whose lanes are outputs streams it. Scales stand beside the codes that they
belong to:

| format     | a unit is          | words of a unit in a panel, in order                                     |
|------------|--------------------|--------------------------------------------------------------------------|
| f32        | one k              | P values                                                                 |
| f16, bf16  | two k              | P pairs, the even k in the low half                                      |
| q8_0       | two blocks of 32 k | P scale pairs (the even block low), 2 x 8 x P words of four signed bytes |
| q4_0       | two blocks of 32 k | P scale pairs (the even block low), 2 x 4 x P words of eight nibbles     |
| q4_1       | one block of 32 k  | P words (scale low, minimum high), 4 x P words of eight nibbles          |

Values: q4_0 (code-8)*d, q8_0 code*d, q4_1 fma(code, d, m); d and m are f16. Equal to ggml's decoders to the byte.
"""

from collections.abc import Callable

from circuit.uop.build import bitcast, cast, equal, f32, index, logical_not, mulacc, shl, shr, u32, where
from circuit.uop.node import DType, UOp


def panel_words(format: str, n: int, k: int, panel: int) -> int:
    """Words of a baked (n, k) weight; n is padded to whole panels."""
    unit_k, unit_words = _UNITS[format]
    return -(-n // panel) * -(-k // unit_k) * unit_words * panel


def unit_inputs(format: str) -> int:
    """Inputs of one unit of storage."""
    return _UNITS[format][0]


def decode_panel(format: str, words: UOp, shape: tuple[int, int], panel: int, j: UOp, k: UOp) -> UOp:
    """The f32 value of input k of output j. words: [panel_words] u32 array; j, k: i32 of any bounds inside `shape`."""
    unit_k, unit_words = _UNITS[format]
    units = -(-shape[1] // unit_k)
    lane = j % panel
    base = (j // panel * units + k // unit_k) * (unit_words * panel) + lane

    def word(place: UOp | int) -> UOp:
        return index(words, base + place)

    match format:
        case "f32":
            return bitcast(word(0), DType.F32)
        case "bf16":
            return bitcast(_half(word(0), k, high=lambda w: w - w % 65536, low=lambda w: shl(w, 16)), DType.F32)
        case "f16":
            return decode_f16(_half(word(0), k, high=lambda w: w // 65536, low=lambda w: w % 65536))
        case "q8_0":
            scale = decode_f16(_half(word(0), k // 32, high=lambda w: w // 65536, low=lambda w: w % 65536))
            codes = word((k % 64 // 4) * panel + panel)
            return cast(_signed_byte(codes, k % 4), DType.F32) * scale
        case "q4_0":
            scale = decode_f16(_half(word(0), k // 32, high=lambda w: w // 65536, low=lambda w: w % 65536))
            codes = word((k % 64 // 8) * panel + panel)
            return cast(cast(_nibble(codes, k % 8), DType.I32) - 8, DType.F32) * scale
        case "q4_1":
            codes = word((k % 32 // 8) * panel + panel)
            d, m = decode_f16(word(0) % 65536), decode_f16(word(0) // 65536)
            return mulacc(cast(_nibble(codes, k % 8), DType.F32), d, m)
    raise AssertionError(f"no panel layout for format {format}")


def decode_f16(half: UOp) -> UOp:
    """The value of f16 bits in the low half of a u32 whose high half is zero.

    The exponent and mantissa, moved to their f32 places, are 2**-112 times the value (subnormals too); infinities and
    NaNs take the largest exponent instead.
    """
    magnitude = half % 0x8000
    finite = bitcast(bitcast(shl(magnitude, 13), DType.F32) * f32(2.0**112), DType.U32)
    special = shl(magnitude, 13) + u32(0x70000000)
    bits = where(magnitude < 0x7C00, finite, special)
    return bitcast(bits ^ shl(half // 0x8000, 31), DType.F32)


Pick = Callable[[UOp], UOp]

_UNITS = {"f32": (1, 1), "f16": (2, 1), "bf16": (2, 1), "q8_0": (64, 17), "q4_0": (64, 9), "q4_1": (32, 5)}
"""Inputs of a unit, and its words for one lane."""


def _half(word: UOp, parity: UOp, high: Pick, low: Pick) -> UOp:
    return where(logical_not(equal(parity % 2, 0)), high(word), low(word))


def _nibble(word: UOp, place: UOp) -> UOp:
    return shr(shl(word, cast(-4 * place + 28, DType.U32)), 28)


def _signed_byte(word: UOp, place: UOp) -> UOp:
    return shr(cast(shl(word, cast(-8 * place + 24, DType.U32)), DType.I32), 24)
