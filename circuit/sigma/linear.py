"""linear(role): y[j] = sum over k of w[j, k] * x[k] [+ b[j]].

The sum is fold:256 with MULACC, whatever the weight's storage: a weight means its decoded f32 value.
"""

from circuit.sigma.op import OpKind, Use, Values
from circuit.uop.build import expand, permute, reduce


def _linear(use: Use) -> Values:
    x, w = use.inputs[0], use.weights[0]
    rows = permute(expand(x, w.shape[0]), 1, 0)
    y = reduce("mulacc", permute(w, 1, 0), rows, pop=1, order="fold:256")
    return (y + use.weights[1] if use.params["bias"] else y,)


LINEAR = OpKind(
    name="linear",
    n_inputs=1,
    params=("bias",),
    weights=("weight", "bias"),
    steps=("act", "weight", "mma", "accumulate"),
    define=_linear,
)
