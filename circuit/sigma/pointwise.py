"""glu, residual_add: what happens between projections, value by value."""

from circuit.sigma.op import OpKind, Use, Values
from circuit.uop.math import silu


def _glu(use: Use) -> Values:
    """y = act(gate) * up. Sources: Shazeer 2020, arXiv:2002.05202; silu, Elfwing et al. 2017, arXiv:1702.03118."""
    gate, up = use.inputs
    assert use.params["kind"] == "silu", f"glu kind {use.params['kind']} has no definition"
    return (silu(gate) * up,)


def _residual_add(use: Use) -> Values:
    """y = x + d."""
    return (use.inputs[0] + use.inputs[1],)


GLU = OpKind(name="glu", n_inputs=2, params=("kind",), define=_glu)
RESIDUAL_ADD = OpKind(name="residual_add", n_inputs=2, params=(), define=_residual_add)
