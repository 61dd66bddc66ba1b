"""Which buffer each edge of an instance lives in, once its nodes are in groups, and which groups are alike."""

from collections.abc import Hashable

from msgspec import Struct

from circuit.lower.graph import Graph
from circuit.lower.ir import Group
from circuit.plan.ir import BufferAt
from circuit.tir.ir import Tir, Weight, row_words


class Ends(Struct, frozen=True, kw_only=True):
    """What one launch reads and writes: edges in order of first use by the group's nodes, and its states."""

    reads: tuple[int, ...]
    writes: tuple[int, ...]
    states: tuple[int, ...]


class Wires(Struct, frozen=True, kw_only=True):
    """`stored`: edges that leave their group. `home`: where they live. `columns[edge]`: elements from row to row there.

    `buffers` are (name, edges whose columns it holds), in order of first write.
    """

    ends: tuple[Ends, ...]
    stored: frozenset[int]
    home: dict[int, BufferAt]
    columns: dict[int, int]
    buffers: tuple[tuple[str, tuple[int, ...]], ...]


class Wired(Struct, frozen=True, kw_only=True):
    """The wires of groups; for each group, the number of its signature, and which of the weights it reads. `weights`
    stand in the order that launches first read them."""

    wires: Wires
    signatures: tuple[int, ...]
    weights: tuple[Weight, ...]
    reads: tuple[tuple[int, ...], ...]


def wires_of(tir: Tir, graph: Graph, groups: tuple[Group, ...]) -> Wires:
    """The wires of a plan. The outputs of a horizontal fusion are columns of one buffer, in the order of its nodes."""
    stored = frozenset(
        edge
        for group in groups
        for node in group.nodes
        for edge in tir.nodes[node].outputs
        if edge in graph.outputs or not set(group.nodes).issuperset(graph.readers[edge])
    )
    home: dict[int, BufferAt] = {}
    columns = {place: row_words(edge) for place, edge in enumerate(tir.edges)}
    buffers: list[tuple[str, tuple[int, ...]]] = []
    ends = tuple(_ends(tir, group, stored) for group in groups)
    for group, end in zip(groups, ends, strict=True):
        together = (end.writes,) if group.derived else tuple((edge,) for edge in end.writes)
        for edges in together:
            column, width = 0, sum(row_words(tir.edges[edge]) for edge in edges)
            for edge in edges:
                home[edge] = BufferAt(buffer=len(buffers), column=column)
                columns[edge] = width
                column += row_words(tir.edges[edge])
            buffers.append((_joined([tir.edges[edge].name for edge in edges]), edges))
    return Wires(ends=ends, stored=stored, home=home, columns=columns, buffers=tuple(buffers))


def _ends(tir: Tir, group: Group, stored: frozenset[int]) -> Ends:
    nodes = [tir.nodes[place] for place in group.nodes]
    made = {edge for node in nodes for edge in node.outputs}
    reads = dict.fromkeys(edge for node in nodes for edge in node.inputs if edge not in made)
    if group.derived:
        projected = [edge for node in nodes if node.op == "linear" for edge in node.outputs]
        outside = [tir.edges[edge].name for edge in projected if edge not in stored]
        assert not outside, f"{group.rule}: nobody reads {outside}"
    return Ends(
        reads=tuple(reads),
        writes=tuple(edge for node in nodes for edge in node.outputs if edge in stored),
        states=tuple(dict.fromkeys(state for node in nodes for state in node.states)),
    )


def signature_of(tir: Tir, wires: Wires, group: Group) -> Hashable:
    """All that the program of a group depends on within one instance: equal ones have equal programs."""
    local: dict[int, int] = {}

    def edge(place: int) -> Hashable:
        if place in local:
            return local[place]
        local[place] = len(local)
        record = tir.edges[place]
        given = record.name if place in tir.inputs else None
        return (record.rows, record.dim, record.format, wires.columns[place], place in wires.stored, given)

    def weight(place: int) -> Hashable:
        return (tir.weights[place].shape, tir.weights[place].format)

    def state(place: int) -> Hashable:
        record = tir.states[place]
        return (record.kind, record.heads, record.head_dim, record.format)

    members = tuple(
        (
            node.op,
            node.params,
            tuple(map(edge, node.inputs)),
            tuple(map(edge, node.outputs)),
            tuple(map(weight, node.weights)),
            tuple(map(state, node.states)),
        )
        for node in (tir.nodes[place] for place in group.nodes)
    )
    return (group.family, members, tuple((weight.shape, weight.format) for weight in group.derived))


def _joined(names: list[str]) -> str:
    """`l0.attn.q+k+v`."""
    prefix, _, first = names[0].rpartition(".")
    return "+".join([f"{prefix}.{first}" if prefix else first, *(name.rpartition(".")[2] for name in names[1:])])
