"""Weights that are made up: which bits of each stored word are random, so that every value is a small finite number.

Word i of a tensor is (random & masks[u][0]) | masks[u][1] with u = i / lanes % the unit's words: what the words of a
unit are is the table of circuit/sigma/storage.py. Scales are random in their mantissa only, their exponent is chosen so
that values stay near 1/32; codes are random as a whole, and those of f8_e4m3 cannot be NaN. The program's own source,
session.c, says which random word belongs to which place.
"""

from circuit.bake.manifest import Entry
from circuit.formats import FORMATS

Masks = tuple[tuple[int, int], ...]
"""(and, or) for each word of a unit."""

_CODES = (0xFFFFFFFF, 0)
_SCALE_BYTES = (0x1F1F1F1F, 0)
_ZERO = 8 << 16


def fill_masks(entry: Entry, panel: int) -> tuple[int, Masks]:
    """Lanes and masks of a baked tensor: values of a vector, which are gains and biases, lie in [1/2, 1)."""
    if entry.layout == "vector":
        return 1, ((0x007FFFFF, 0x3F000000),)
    return panel, unit_masks(entry.format)


def unit_masks(format: str) -> Masks:
    """The masks of the words of one lane's unit."""
    kind = FORMATS[format]
    made = _heads(format)
    masks = made + (_codes(format),) * (kind.unit_words - len(made))
    assert len(masks) == kind.unit_words, f"{format}: {len(masks)} masks for {kind.unit_words} words"
    return masks


def _codes(format: str) -> tuple[int, int]:
    return (0xF7F7F7F7, 0) if format == "f8_e4m3" else _CODES


def _heads(format: str) -> Masks:
    """The words before the codes; of f32, f16 and bf16, all words."""
    match format:
        case "f32":
            return ((0x807FFFFF, 0x3C800000),)
        case "f16":
            return ((0x83FF83FF, 0x24002400),)
        case "bf16":
            return ((0x807F807F, 0x3C803C80),)
        case "q8_0" | "iq4_nl":
            return (_pair(-13, -13),)
        case "q4_0":
            return (_pair(-9, -9),)
        case "q5_0":
            return (_pair(-10, -10),)
        case "q4_1":
            return (_pair(-9, -6, negative=True),)
        case "q5_1":
            return (_pair(-10, -6, negative=True),)
        case "mxfp4":
            return ((0x03030303, 0x74747474),)
        case "q2_k":
            return (_pair(-11, -10), _CODES, _CODES, _CODES, _CODES)
        case "q3_k":
            return (_low(-12), *(_SCALE_BYTES,) * 4)
        case "q4_k" | "q5_k":
            return (_pair(-14, -11), *(_SCALE_BYTES,) * 4)
        case "q6_k":
            return (_low(-14), *(_SCALE_BYTES,) * 4)
        case "f8_e4m3":
            return ((0x007FFFFF, 0x39000000),)
        case _ if format.startswith("i4_f16"):
            return ((0x000003FF, _ZERO | _low(-9)[1]),)
        case _ if format.startswith("i4_bf16"):
            return ((0x0000007F, _ZERO | 0x3B00),)
        case _:
            raise AssertionError(f"no made-up values for the format {format}")


def _pair(low: int, high: int, negative: bool = False) -> tuple[int, int]:
    """Two f16 of stated powers of two; of a scale and a minimum the minimum is negative."""
    sign = 0x80000000 if negative else 0
    return 0x03FF03FF, (low + 15) << 10 | (high + 15) << 26 | sign


def _low(exponent: int) -> tuple[int, int]:
    """One f16 in the low half, zero above it."""
    return 0x000003FF, (exponent + 15) << 10
