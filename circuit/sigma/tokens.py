"""embed, index_select: a row of a table by token id, and the rows that get logits."""

from circuit.sigma.op import OpKind, Use, Values
from circuit.uop.build import index, loop, stage


def _embed(use: Use) -> Values:
    """y[d] = table[token, d]."""
    table = use.weights[0]
    d = loop("d", table.shape[1])
    return (stage(index(table, index(use.inputs[0], 0), d), d),)


def _index_select(use: Use) -> Values:
    """y[d] = x[d] of the row that `logit_rows` names; the input is given for that row."""
    return (use.inputs[0],)


EMBED = OpKind(name="embed", n_inputs=1, params=(), weights=("table",), steps=("gather",), define=_embed)
INDEX_SELECT = OpKind(
    name="index_select", n_inputs=1, params=(), step_inputs=("logit_rows",), steps=("move",), define=_index_select
)
