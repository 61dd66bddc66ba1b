"""Formats whose values are integer codes under one scale for each 32 inputs: (code - zero) * scale [+ minimum].

What such a format is stands here once: decoding multiplies it out, and projections of integer rows read the parts.
"""

from msgspec import Struct

from circuit.formats import FORMATS, GROUP
from circuit.sigma.op import Coded
from circuit.sigma.storage_codes import Words, decode_f16, fifth_bit, half, nibble, signed_byte
from circuit.uop.build import cast, index, loop, mulacc, stage
from circuit.uop.node import DType, UOp


class Coding(Struct, frozen=True, kw_only=True):
    """What all weights of a format have: the code that stands for 0 (where there are no minima), and whether minima."""

    zero: int = 0
    minima: bool = False


CODINGS = {
    "q8_0": Coding(),
    "q4_0": Coding(zero=8),
    "q4_1": Coding(minima=True),
    "q5_0": Coding(zero=16),
    "q5_1": Coding(minima=True),
    "q4_k": Coding(minima=True),
    "q5_k": Coding(minima=True),
}
"""The formats of this file: codes of at most 8 bits, integers, and no scale of fewer than 32 inputs."""

CODED_FORMATS = tuple(CODINGS)


class Parts(Struct, frozen=True, kw_only=True):
    """Of one input: its code (u32, or i32 where it has a sign), and what the 32 inputs around it share."""

    code: UOp
    scale: UOp
    minimum: UOp | None = None


def parts_of(format: str, word: Words, k: UOp) -> Parts:
    """Of input k; `word` gives the words of its unit."""
    match format:
        case "q8_0":
            return Parts(code=signed_byte(word(k % 64 // 4 + 1), k % 4), scale=decode_f16(half(word(0), k // 32)))
        case "q4_0":
            return Parts(code=nibble(word(k % 64 // 8 + 1), k), scale=decode_f16(half(word(0), k // 32)))
        case "q4_1":
            return Parts(code=nibble(word(k % 32 // 8 + 1), k), scale=_low(word(0)), minimum=_high(word(0)))
        case "q5_0":
            at = k % 64 // 32 * 5 + 1
            code = five_bits(word(at + k % 32 // 8 + 1), word(at), k)
            return Parts(code=code, scale=decode_f16(half(word(0), k // 32)))
        case "q5_1":
            code = five_bits(word(k % 32 // 8 + 2), word(1), k)
            return Parts(code=code, scale=_low(word(0)), minimum=_high(word(0)))
        case "q4_k":
            code = nibble(word(k % 256 // 8 + 5), k)
        case "q5_k":
            at = k % 256 // 32 * 5 + 5
            code = five_bits(word(at + k % 32 // 8 + 1), word(at), k)
        case _:
            raise AssertionError(f"{format} is no coded format")
    scales = half(word(k % 256 // 64 + 1), k // 32)
    scale, least = _low(word(0)) * _f32(scales % 256), _high(word(0)) * _f32(scales // 256)
    return Parts(code=code, scale=scale, minimum=-least)


def value_of(format: str, parts: Parts) -> UOp:
    """The f32 that the parts mean."""
    if parts.minimum is not None:
        return mulacc(_f32(parts.code), parts.scale, parts.minimum)
    zero = CODINGS[format].zero
    code = cast(parts.code, DType.I32) - zero if zero else parts.code
    return _f32(code) * parts.scale


def coded_panel(format: str, words: UOp, shape: tuple[int, int], panel: int) -> Coded:
    """A baked weight as arrays of its parts. words: [panel_words] u32 array."""
    n, k = shape

    def parts(j: UOp, place: UOp) -> Parts:
        return parts_of(format, panel_words_at(format, words, shape, panel, j, place), place)

    j, i, g = loop("j_weight", n), loop("k_weight", k), loop("g_weight", k // GROUP)
    least = parts(j, g * GROUP).minimum
    return Coded(
        codes=stage(cast(parts(j, i).code, DType.I32), j, i),
        scales=stage(parts(j, g * GROUP).scale, j, g),
        minima=None if least is None else stage(least, j, g),
        zero=CODINGS[format].zero,
    )


def panel_words_at(format: str, words: UOp, shape: tuple[int, int], panel: int, j: UOp, k: UOp) -> Words:
    """The words of the unit of input k of output j in a panel."""
    unit, unit_words = FORMATS[format].unit, FORMATS[format].unit_words
    units = -(-shape[1] // unit)
    base = (j // panel * units + k // unit) * (unit_words * panel) + j % panel
    return lambda place: index(words, base + place * panel)


def five_bits(nibbles: UOp, bits: UOp, k: UOp) -> UOp:
    """A nibble and its fifth bit."""
    return nibble(nibbles, k) + fifth_bit(bits, k) * 16


def _low(word: UOp) -> UOp:
    return decode_f16(word % 65536)


def _high(word: UOp) -> UOp:
    return decode_f16(word // 65536)


def _f32(code: UOp) -> UOp:
    return cast(code, DType.F32)
