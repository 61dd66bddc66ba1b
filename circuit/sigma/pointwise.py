"""glu, residual_add: what happens between projections, value by value."""

import math

from circuit.sigma.op import OpKind, Use, Values
from circuit.uop.build import f32, reciprocal
from circuit.uop.math import exp2
from circuit.uop.node import UOp


def silu(x: UOp) -> UOp:
    """x * (1 / (1 + 2**(-x * log2 e))). Source: Elfwing et al. 2017, arXiv:1702.03118."""
    return x * reciprocal(exp2(x * f32(-math.log2(math.e))) + f32(1.0))


def _glu(use: Use) -> Values:
    """y = act(gate) * up. Source: Shazeer 2020, arXiv:2002.05202."""
    gate, up = use.inputs
    assert use.params["kind"] == "silu", f"glu kind {use.params['kind']} has no definition"
    return (silu(gate) * up,)


def _residual_add(use: Use) -> Values:
    """y = x + d."""
    return (use.inputs[0] + use.inputs[1],)


GLU = OpKind(name="glu", n_inputs=2, params=("kind",), define=_glu)
RESIDUAL_ADD = OpKind(name="residual_add", n_inputs=2, params=(), define=_residual_add)
