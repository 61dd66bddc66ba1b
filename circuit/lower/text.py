"""Groups as text, one line a group: what `--stage groups` prints."""

from circuit.lower.graph import graph_of
from circuit.lower.ir import Group
from circuit.tir.ir import Tir


def groups_text(tir: Tir, groups: tuple[Group, ...]) -> str:
    """A line of counts, then for each group its rule, family, tag, members, and the edges that nobody else sees."""
    graph = graph_of(tir)
    lines = [f"{len(groups)} groups of {len(tir.nodes)} nodes"]
    for place, group in enumerate(groups):
        members = set(group.nodes)
        inner = [
            tir.edges[edge].name
            for node in group.nodes
            for edge in tir.nodes[node].outputs
            if edge not in graph.outputs and members.issuperset(graph.readers[edge])
        ]
        line = (
            f"g{place} {group.rule} {group.family} {group.numerics} [{' '.join(tir.nodes[n].id for n in group.nodes)}]"
        )
        line += f" inner={','.join(inner)}" if inner else ""
        line += f" derived={','.join(weight.name for weight in group.derived)}" if group.derived else ""
        lines.append(line)
    return "\n".join(lines) + "\n"
