"""rms_norm: y[d] = x[d] * rsqrt(mean(x^2) + eps) * w[d], over the whole row or over each head.

Source: Zhang & Sennrich 2019, arXiv:1910.07467. The sum of squares is lanes:128; the mean is the sum times the
float32 nearest to 1/n; the product with the weight comes last, as in the published model classes.
"""

from circuit.sigma.op import OpKind, Use, Values
from circuit.uop.build import broadcast_last, f32, permute, reduce, reshape
from circuit.uop.math import rsqrt


def _rms_norm(use: Use) -> Values:
    heads = use.count("heads")
    n = use.inputs[0].shape[0] // heads
    x = reshape(use.inputs[0], heads, n)
    squares = reduce("mulacc", permute(x, 1, 0), permute(x, 1, 0), pop=1, order="lanes:128")
    scale = rsqrt(squares * f32(1.0 / n) + f32(use.number("eps")))
    return (x * broadcast_last(scale, n) * use.weights[0],)


RMS_NORM = OpKind(
    name="rms_norm", n_inputs=1, params=("eps", "heads", "weight_form"), weights=("weight",), define=_rms_norm
)
