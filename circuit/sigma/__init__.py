"""Sigma, the closed signature: every op that a circuit may use, in the order a model meets them."""

from circuit.sigma.act_quant import ACT_QUANT
from circuit.sigma.attention import ATTENTION, KV_WRITE
from circuit.sigma.choose import ARGMAX, LOG_SUM_EXP, SAMPLE
from circuit.sigma.linear import LINEAR
from circuit.sigma.norm import RMS_NORM
from circuit.sigma.op import OpKind
from circuit.sigma.pointwise import GLU, RESIDUAL_ADD
from circuit.sigma.rope import ROPE
from circuit.sigma.tokens import EMBED, INDEX_SELECT

SIGMA: tuple[OpKind, ...] = (
    EMBED,
    RMS_NORM,
    ACT_QUANT,
    LINEAR,
    ROPE,
    KV_WRITE,
    ATTENTION,
    GLU,
    RESIDUAL_ADD,
    INDEX_SELECT,
    ARGMAX,
    SAMPLE,
    LOG_SUM_EXP,
)

ROLES: tuple[str, ...] = ("q", "k", "v", "o", "gate", "up", "down", "head")
"""The roles of `linear`."""

OPS: dict[str, OpKind] = {op.name: op for op in SIGMA}
