"""linear(role): y[j] = sum over k of w[j, k] * x[k] [+ b[j]].

On f32 rows the sum is fold:256 with MULACC, whatever the weight's storage: a weight means its decoded f32 value.

On int8_g32 rows (act_quant) a weight is codes with a scale and perhaps a minimum for each group of 32 inputs. Groups
ascend within chunks of 256 inputs, each chunk starts from +0, and every chunk's result is added in ascending order, the
first too. With dot = the sum of code_w * code_x - zero * sum_x, an exact i32 of at most 2**24, a group does

    acc = fma(scale_w * scale_x, f32(dot), acc)
    acc = fma(minimum_w, scale_x * f32(sum_x), acc)     where the weight has minima
"""

from circuit.formats import GROUP
from circuit.sigma.act_quant import scale_of, sum_of, word_of_codes
from circuit.sigma.op import Coded, OpKind, Use, Values
from circuit.sigma.storage_codes import signed_byte
from circuit.uop.build import cast, expand, f32, index, loop, permute, reduce, stage, where
from circuit.uop.node import DType, UOp
from circuit.uop.orders import CHUNK

GROUPS_OF_CHUNK = CHUNK // GROUP


def _linear(use: Use) -> Values:
    if use.coded is not None:
        y = _on_codes(use.inputs[0], use.coded)
        return (y + use.weights[0] if use.params["bias"] else y,)
    x, w = use.inputs[0], use.weights[0]
    rows = permute(expand(x, w.shape[0]), 1, 0)
    y = reduce("mulacc", permute(w, 1, 0), rows, pop=1, order="fold:256")
    return (y + use.weights[1] if use.params["bias"] else y,)


def _on_codes(x: UOp, w: Coded) -> UOp:
    """[outputs]. x: a stored row of act_quant, [words] u32."""
    j = loop("j_coded", w.codes.shape[0])
    whole, rest = divmod(w.codes.shape[1] // GROUP, GROUPS_OF_CHUNK)
    total = f32(0.0)
    if whole:
        c, g = loop("g.chunk", whole), loop("g", GROUPS_OF_CHUNK)
        total = reduce("add", _fold(x, w, j, c * GROUPS_OF_CHUNK + g, g), c)
    if rest:
        g = loop("g", rest)
        total = total + _fold(x, w, j, g + whole * GROUPS_OF_CHUNK, g)
    return stage(total, j)


def _fold(x: UOp, w: Coded, j: UOp, group: UOp, g: UOp) -> UOp:
    """The terms of the groups of one chunk, from +0."""
    k = loop("g.k", GROUP)
    code = signed_byte(word_of_codes(x, group, k // 4), k % 4)
    dot = reduce("mulacc", index(w.codes, j, group * GROUP + k), code, k)
    if w.zero:
        dot = dot + sum_of(x, group) * -w.zero
    scale = index(w.scales, j, group) * scale_of(x, group)
    if w.minima is None:
        return reduce("mulacc", scale, cast(dot, DType.F32), g)
    term = loop("g.term", 2)
    offset = scale_of(x, group) * cast(sum_of(x, group), DType.F32)
    factor = where(term < 1, scale, index(w.minima, j, group))
    return reduce("mulacc", factor, where(term < 1, cast(dot, DType.F32), offset), g, term)


LINEAR = OpKind(
    name="linear",
    n_inputs=1,
    params=("bias",),
    weights=("weight", "bias"),
    steps=("act", "weight", "mma", "accumulate"),
    define=_linear,
)
