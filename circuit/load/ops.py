"""How a circuit may use each op of Sigma: how many edges, which tensors, which parameters, whether a state.

What an op means is its definition in `sigma/`; a test compares the two.
"""

from typing import Literal

from msgspec import Struct

Mode = Literal["decode", "prefill"]
"""What a step does."""


class OpUse(Struct, frozen=True, kw_only=True):
    """The use of one op. `params` are (name, type) with type in bool, int, float, str, floats, sorted by name."""

    inputs: int
    outputs: int
    weights: tuple[str, ...] = ()
    optional_weights: tuple[str, ...] = ()
    params: tuple[tuple[str, str], ...] = ()
    state: bool = False
    roles: tuple[str, ...] = ()


OPS: dict[str, OpUse] = {
    "embed": OpUse(inputs=1, outputs=1, weights=("weight",)),
    "rms_norm": OpUse(
        inputs=1,
        outputs=1,
        weights=("weight",),
        params=(("eps", "float"), ("heads", "int"), ("weight_form", "str")),
    ),
    "act_quant": OpUse(inputs=1, outputs=1, params=(("format", "str"),)),
    "linear": OpUse(
        inputs=1,
        outputs=1,
        weights=("weight",),
        optional_weights=("bias",),
        params=(("bias", "bool"),),
        roles=("q", "k", "v", "o", "gate", "up", "down", "head"),
    ),
    "rope": OpUse(
        inputs=1,
        outputs=1,
        params=(
            ("head_dim", "int"),
            ("heads", "int"),
            ("inv_freq", "floats"),
            ("rotary_dim", "int"),
            ("scale", "float"),
            ("style", "str"),
        ),
    ),
    "kv_write": OpUse(inputs=2, outputs=0, params=(("head_dim", "int"), ("heads", "int")), state=True),
    "attention": OpUse(
        inputs=1,
        outputs=1,
        params=(
            ("causal", "bool"),
            ("head_dim", "int"),
            ("heads", "int"),
            ("kv_heads", "int"),
            ("scale", "float"),
            ("window", "int"),
        ),
        state=True,
    ),
    "glu": OpUse(inputs=2, outputs=1, params=(("kind", "str"),)),
    "residual_add": OpUse(inputs=2, outputs=1),
    "index_select": OpUse(inputs=1, outputs=1),
    "argmax": OpUse(inputs=1, outputs=1),
    "sample": OpUse(inputs=1, outputs=1),
    "log_sum_exp": OpUse(inputs=1, outputs=1),
}

STATE_KINDS = ("paged_kv",)
SECTIONS = ("main", "greedy", "sample", "score", "hidden")
"""The parts of a step, in the order in which they run."""
