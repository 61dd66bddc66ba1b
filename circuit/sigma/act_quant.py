"""act_quant(format): a row as integer codes with a scale for each group, for projections that multiply integers.

int8_g32, the one format: groups of 32 values. With M the largest magnitude of a group,

    scale = M * (1/127)      code[k] = clamp(rint(x[k] * (1/scale)), -127, 127)      sum = the sum of the codes

where 1/127 is the float32 nearest to it, each operation rounds to float32, rint rounds ties to even, and the sum is an
exact i32. A group whose M is below 2**-100 (all zeros among them) has scale 0 and codes 0. M is the largest of the
magnitudes' bits, so a NaN counts as larger than all numbers: a group with a NaN or an infinity has a scale that is one,
and codes 0 for it; then a projection, whose terms have the scale as a factor, gives NaN. |x / scale| is below 127.1, so
rounding to a code never meets the clamp, which is there for the bounds of what follows.

A row is stored as 10 words a group: eight words of four codes, k ascending from the lowest byte, the scale's bits, and
the sum. Source of the scheme: Q8_1 of llama.cpp (ggml-quants.c, quantize_row_q8_1_ref), whose scale is the quotient
M / 127 in f16, whose ties go away from zero, and which stores scale * sum.
"""

from circuit.formats import GROUP, INT8_G32, edge_words
from circuit.sigma.op import OpKind, Use, Values
from circuit.uop.build import (
    bitcast,
    cast,
    f32,
    i32,
    index,
    loop,
    maximum,
    reciprocal,
    reduce,
    reshape,
    shl,
    stage,
    u32,
    where,
)
from circuit.uop.node import DType, UOp

TINY = 2.0**-100
LARGEST = 127
CODE_WORDS = GROUP // 4
"""Words of a group's codes. Behind them stand its scale and its sum."""
WORDS = edge_words(INT8_G32, GROUP)
_TO_EVEN = 1.5 * 2.0**23
"""Added to a number below 2**22 and taken away again, it leaves the nearest integer, ties to even."""


def _act_quant(use: Use) -> Values:
    assert use.params["format"] == INT8_G32, use.params
    groups = use.inputs[0].shape[0] // GROUP
    g, w = loop("group", groups), loop("word", WORDS)
    k = loop("k_value", GROUP)
    x = stage(index(reshape(use.inputs[0], groups, GROUP), g, k), k, where="local")  # whatever makes it, makes it once
    k = loop("k_largest", GROUP)
    largest = reduce("max", cast(bitcast(index(x, k), DType.U32) % 2**31, DType.I32), k)
    magnitude = bitcast(cast(largest, DType.U32), DType.F32)
    tiny = magnitude < f32(TINY)
    scale = where(tiny, f32(0.0), magnitude * f32(1.0 / LARGEST))
    inverse = where(tiny, f32(0.0), reciprocal(scale))

    k = loop("k_code", GROUP)
    near = index(x, k) * inverse + f32(_TO_EVEN) + f32(-_TO_EVEN)
    code = _least(maximum(cast(near, DType.I32), i32(-LARGEST)), i32(LARGEST))
    codes = stage(code, k, where="local")
    k = loop("k_sum", GROUP)
    total = reduce("add", index(codes, k), k)

    of_codes = w < CODE_WORDS
    word = u32(0)
    for byte in range(4):
        code = index(codes, where(of_codes, w * 4 + byte, byte))
        word = word + shl(cast(code, DType.U32) % 256, 8 * byte)
    head = where(w < CODE_WORDS + 1, bitcast(scale, DType.U32), cast(total, DType.U32))
    return (stage(where(of_codes, word, head), g, w),)


def _least(a: UOp, b: UOp) -> UOp:
    return where(a < b, a, b)


def scale_of(row: UOp, group: UOp) -> UOp:
    """The scale of a group of a stored row: [words] u32."""
    return bitcast(index(row, group * WORDS + CODE_WORDS), DType.F32)


def sum_of(row: UOp, group: UOp) -> UOp:
    """The exact sum of its codes, as an i32."""
    return cast(index(row, group * WORDS + CODE_WORDS + 1), DType.I32)


def word_of_codes(row: UOp, group: UOp, place: UOp) -> UOp:
    """Word `place` of its codes: four of them."""
    return index(row, group * WORDS + place)


ACT_QUANT = OpKind(
    name="act_quant", n_inputs=1, params=("format",), steps=("largest", "scale", "round"), define=_act_quant
)
