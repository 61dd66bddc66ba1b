"""What stored words mean: the UOp programs that decode weights, and where a value's word is.

A baked tensor is an array of little-endian u32 words. `vector`: a word is one f32. `panel`: outputs stand in panels
of P, a panel's words are lane-interleaved (word of lane l at ... + l), and the words of a panel follow the inputs k
in ascending order, so that a kernel whose lanes are outputs streams it. Scales stand beside the codes that they
belong to. f16 differs: its units of two inputs have as many words, but outputs share them, so that a vector of
lanes is converted as it is read. Of 16 outputs (`halves_together`), the halves of the even k come first, then those of
the odd k, the lane of the lower number low.

In the table, the words of a lane are in order, and fields count from the lowest bit on, in ascending k, but
for two: in a word of eight nibbles, byte b holds k = b low and k = b + 4 high, and in a word of 32 fifth bits, bit i of
byte b is that of k = 4*i + b. So one mask takes the codes of four k in a row, as bytes in ascending k, out of a word.
The nibbles of i4 are in ascending k.

| format      | unit of k | words of a unit for one lane                                                | bytes/weight |
|-------------|-----------|-----------------------------------------------------------------------------|--------------|
| f32         | 1         | the value                                                                   | 4            |
| f16         | 2         | (two lanes share two words: see above)                                      | 2            |
| bf16        | 2         | a pair, the even k low                                                      | 2            |
| q8_0        | 2 x 32    | scale pair, the even block low; 2 x 8 words of four signed bytes            | 1.0625       |
| q4_0 iq4_nl | 2 x 32    | scale pair, the even block low; 2 x 4 words of eight nibbles                | 0.5625       |
| q4_1        | 32        | scale low, minimum high; 4 words of eight nibbles                           | 0.625        |
| q5_0        | 2 x 32    | scale pair; 2 x (word of 32 fifth bits; 4 words of eight nibbles)           | 0.6875       |
| q5_1        | 32        | scale low, minimum high; word of 32 fifth bits; 4 words of eight nibbles    | 0.75         |
| mxfp4       | 4 x 32    | four scale bytes; 4 x 4 words of eight nibbles                              | 0.53125      |
| q2_k        | 256       | d low, dmin high; 4 words of four bytes (scale low nibble, minimum high) of | 0.328125     |
|             |           | 16 k each; 16 words of sixteen 2-bit codes                                  |              |
| q3_k        | 256       | d; 4 words of four signed scales of 16 k each; 8 x (2 words of sixteen      | 0.453125     |
|             |           | 2-bit codes; word of 32 third bits)                                         |              |
| q4_k        | 256       | d low, dmin high; 4 words of two pairs (scale low byte, minimum high) of    | 0.578125     |
|             |           | 32 k each; 8 x 4 words of eight nibbles                                     |              |
| q5_k        | 256       | as q4_k, but 8 x (word of 32 fifth bits; 4 words of eight nibbles)          | 0.703125     |
| q6_k        | 256       | d; 4 words of four signed scales of 16 k each; 8 x (4 words of eight        | 0.828125     |
|             |           | nibbles; 2 words of sixteen 2-bit fifth and sixth bits)                     |              |
| f8_e4m3     | 128       | f32 scale; 32 words of four codes                                           | 1.03125      |
| i4_*_128    | 128       | scale (f16 or bf16) low, zero high; 16 words of eight nibbles               | 0.53125      |
| i4_*_64     | 64        | the same with 8 words of eight nibbles                                      | 0.5625       |
| i4_*_32     | 32        | the same with 4 words of eight nibbles                                      | 0.625        |

The files' own sizes are the same but for q3_k (0.4297), q4_k (0.5625), q5_k (0.6875) and q6_k (0.8203), whose scales
of 6 bits become bytes, or whose lone f16 takes a word.

Values: code*d in q8_0, (code-8)*d in q4_0, (code-16)*d in q5_0, table[code]*d in iq4_nl and mxfp4, fma(code, d, m) in
q4_1 and q5_1; (d*scale)*(code-4) in q3_k, (d*scale)*(code-32) in q6_k, fma(code, d*scale, -(dmin*minimum)) in q2_k,
q4_k and q5_k. d, m and dmin are f16; the scale of mxfp4 is a power of two. Equal to ggml's decoders to the byte: every
product before the last step is exact. f8_e4m3 is code*scale with the code as a float of 4 bits of exponent and 3 of
mantissa (no infinities), i4 is (code-zero)*scale.
"""

from circuit.formats import BROUGHT_TOGETHER, FORMATS, IQ4_NL_VALUES, MXFP4_VALUES, halves_together
from circuit.sigma.storage_coded import CODED_FORMATS, panel_words_at, parts_of, value_of
from circuit.sigma.storage_codes import (
    byte,
    decode_f8_e4m3,
    decode_f16,
    field,
    half,
    looked_up,
    nibble,
    odd,
    signed_byte,
)
from circuit.uop.build import bitcast, cast, index, mulacc, shl, u32, where
from circuit.uop.node import DType, UOp

_OFTEN = ("f32", "bf16", "f16", "q4_1")

PANEL_FORMATS = (*_OFTEN, *(name for name in FORMATS if name not in (*_OFTEN, "i32")))
"""The formats that a projection's weight may be baked in."""


def panel_words(format: str, n: int, k: int, panel: int) -> int:
    """Words of a baked (n, k) weight; n is padded to whole panels."""
    return -(-n // panel) * FORMATS[format].row_words(k) * panel


def unit_inputs(format: str) -> int:
    """Inputs whose scales share a word, at most 64: where these are written out, a kernel knows the half to read."""
    return 1 if format in BROUGHT_TOGETHER else min(FORMATS[format].unit, 64)


def decode_panel(format: str, words: UOp, shape: tuple[int, int], panel: int, j: UOp, k: UOp) -> UOp:
    """The f32 value of input k of output j. words: [panel_words] u32 array; j, k: i32 of any bounds inside `shape`."""
    unit, word = FORMATS[format].unit, panel_words_at(format, words, shape, panel, j, k)
    if format in CODED_FORMATS:
        return value_of(format, parts_of(format, word, k))
    match format:
        case "f32":
            return bitcast(word(0), DType.F32)
        case "bf16":
            return bitcast(where(odd(k), word(0) - word(0) % 65536, shl(word(0), 16)), DType.F32)
        case "f16":
            return decode_f16(_half_in_panel(words, shape, panel, j, k))
        case "iq4_nl":
            code = nibble(word(k % 64 // 8 + 1), k)
            return _f32(looked_up(code, IQ4_NL_VALUES)) * decode_f16(half(word(0), k // 32))
        case "mxfp4":
            code = nibble(word(k % 128 // 8 + 1), k)
            return _f32(looked_up(code, MXFP4_VALUES)) * _half_of_e8m0(byte(word(0), k // 32 % 4))
        case "q2_k":
            code, scales = field(word(k % 256 // 16 + 5), k % 16, 2), byte(word(k % 256 // 64 + 1), k // 16 % 4)
            return _affine(word(0), code, scales % 16, scales // 16)
        case "q3_k":
            at = k % 256 // 32 * 3 + 5
            code = field(word(at + k % 32 // 16), k % 16, 2) + field(word(at + 2), k % 32, 1) * 4
            return _symmetric(word(0), signed_byte(word(k % 256 // 64 + 1), k // 16 % 4), _i32(code) - 4)
        case "q6_k":
            at = k % 256 // 32 * 6 + 5
            code = nibble(word(at + k % 32 // 8), k) + field(word(at + k % 32 // 16 + 4), k % 16, 2) * 16
            return _symmetric(word(0), signed_byte(word(k % 256 // 64 + 1), k // 16 % 4), _i32(code) - 32)
        case "f8_e4m3":
            return decode_f8_e4m3(byte(word(k % 128 // 4 + 1), k % 4)) * bitcast(word(0), DType.F32)
        case "i4_f16_32" | "i4_f16_64" | "i4_f16_128" | "i4_bf16_32" | "i4_bf16_64" | "i4_bf16_128":
            code = _i32(field(word(k % unit // 8 + 1), k % 8, 4)) - _i32(word(0) // 65536)
            short = bitcast(shl(word(0), 16), DType.F32)
            return _f32(code) * (_low(word(0)) if format.startswith("i4_f16") else short)
    raise AssertionError(f"no panel layout for format {format}")


def _half_in_panel(words: UOp, shape: tuple[int, int], panel: int, j: UOp, k: UOp) -> UOp:
    """The f16 of input k of output j, as a u32."""
    side, lane = halves_together(panel), j % panel
    unit = (j // panel * -(-shape[1] // 2) + k // 2) * panel
    return half(index(words, unit + lane // side * side + k % 2 * (side // 2) + lane % side // 2), lane)


def _symmetric(head: UOp, scale: UOp, code: UOp) -> UOp:
    return (_low(head) * _f32(scale)) * _f32(code)


def _affine(head: UOp, code: UOp, scale: UOp, least: UOp) -> UOp:
    return mulacc(_f32(code), _low(head) * _f32(scale), -(_high(head) * _f32(least)))


def _half_of_e8m0(exponent: UOp) -> UOp:
    """2**(exponent - 128), subnormal below 2; there is no NaN. Source: ggml_e8m0_to_fp32_half of ggml-impl.h."""
    normal = shl(exponent - 1, 23)
    return bitcast(where(exponent < 2, shl(u32(0x00200000), exponent % 2), normal), DType.F32)


def _low(word: UOp) -> UOp:
    return decode_f16(word % 65536)


def _high(word: UOp) -> UOp:
    return decode_f16(word // 65536)


def _f32(code: UOp) -> UOp:
    return cast(code, DType.F32)


def _i32(code: UOp) -> UOp:
    return cast(code, DType.I32)
