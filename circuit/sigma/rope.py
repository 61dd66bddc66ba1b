"""rope: pairs of a head's first `rotary_dim` values turned by position * inv_freq; the rest passes.

neox pairs value i with i + rotary_dim/2, interleaved pairs 2i with 2i + 1. Source: Su et al. 2021, arXiv:2104.09864.
`scale` multiplies sine and cosine (YaRN's attention factor; Peng et al. 2023, arXiv:2309.00071), once. The angle is the
float32 product of the position and the frequency, as the published model classes compute it.
"""

from circuit.sigma.op import OpKind, Use, Values
from circuit.uop.build import cast, f32, index, loop, stack, stage, where
from circuit.uop.math import cos, sin
from circuit.uop.node import DType, UOp


def _rope(use: Use) -> Values:
    heads, head_dim, rotary = use.count("heads"), use.count("head_dim"), use.count("rotary_dim")
    x, pairs = use.inputs[0], rotary // 2
    cosines, sines = _turns(use, pairs)
    if rotary == head_dim:
        h, side, i = loop("h", heads), loop("side", 2), loop("i", pairs)
        first, step = (pairs, 1) if use.params["style"] == "neox" else (1, 2)
        here = index(x, h * head_dim + side * first + i * step)
        there = index(x, h * head_dim + (side * -1 + 1) * first + i * step)
        turned = _turn(here, there, side < 1, index(cosines, i), index(sines, i))
        return (stage(turned, h, side, i) if use.params["style"] == "neox" else stage(turned, h, i, side),)
    h, d = loop("h", heads), loop("d", head_dim)
    inside = where(d < rotary, d, 0)
    if use.params["style"] == "neox":
        pair, is_first = inside % pairs, inside < pairs
        other = where(is_first, inside + pairs, inside + -pairs)
    else:
        pair, is_first = inside // 2, inside % 2 < 1
        other = where(is_first, inside + 1, inside + -1)
    here = index(x, h * head_dim + d)
    there = index(x, h * head_dim + where(d < rotary, where(other < 0, 0, other), 0))
    turned = _turn(here, there, is_first, index(cosines, pair), index(sines, pair))
    return (stage(where(d < rotary, turned, here), h, d),)


def _turn(here: UOp, there: UOp, is_first: UOp, c: UOp, s: UOp) -> UOp:
    """first*c - second*s for the first of a pair, second*c + first*s for the second; each product is rounded."""
    return here * c + where(is_first, -there, there) * s


def _turns(use: Use, pairs: int) -> tuple[UOp, UOp]:
    """Cosine and sine of each pair, computed once a row."""
    frequencies = use.params["inv_freq"]
    assert isinstance(frequencies, tuple), "inv_freq is a list"
    assert len(frequencies) == pairs, "one frequency a pair"
    i = loop("turn", pairs)
    position = cast(index(use.step["positions"], use.row), DType.F32)
    angle = position * index(stack(*(f32(v) for v in frequencies)), i)
    scale = use.number("scale")
    c, s = cos(angle), sin(angle)
    if scale != 1.0:
        c, s = c * f32(scale), s * f32(scale)
    return stage(c, i, where="local"), stage(s, i, where="local")


ROPE = OpKind(
    name="rope",
    n_inputs=1,
    params=("heads", "head_dim", "inv_freq", "rotary_dim", "scale", "style"),
    step_inputs=("positions",),
    define=_rope,
)
