"""The weights that one launch of a group reads, in the order that its definition first needs them."""

from circuit.lower.ir import Group
from circuit.tir.ir import Tir, Weight


def weights_of(tir: Tir, group: Group) -> tuple[Weight, ...]:
    """Those of its nodes; where projections are fused horizontally, the derived ones in place of theirs."""
    found: list[Weight] = []
    for place in group.nodes:
        node = tir.nodes[place]
        if not (group.derived and node.op == "linear"):
            found += (tir.weights[weight] for weight in node.weights)
    return (*found, *group.derived)
