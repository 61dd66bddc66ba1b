"""Who feeds whom in an instance: producers and readers of edges, and the order that states impose."""

from msgspec import Struct

from circuit.tir.ir import Tir


class Graph(Struct, frozen=True, kw_only=True):
    """`readers[edge]` are nodes, in execution order; `after[node]` are the nodes that must run after it."""

    producer: tuple[int | None, ...]
    readers: tuple[tuple[int, ...], ...]
    after: tuple[tuple[int, ...], ...]
    outputs: frozenset[int]


def graph_of(tir: Tir) -> Graph:
    """The graph of the instance. Nodes that touch one state keep their order."""
    producer: list[int | None] = [None] * len(tir.edges)
    readers: list[list[int]] = [[] for _ in tir.edges]
    after: list[list[int]] = [[] for _ in tir.nodes]
    last_use: dict[int, int] = {}
    for place, node in enumerate(tir.nodes):
        for edge in dict.fromkeys(node.inputs):
            readers[edge].append(place)
            source = producer[edge]
            if source is not None:
                after[source].append(place)
        for state in node.states:
            if state in last_use:
                after[last_use[state]].append(place)
            last_use[state] = place
        for edge in node.outputs:
            producer[edge] = place
    return Graph(
        producer=tuple(producer),
        readers=tuple(map(tuple, readers)),
        after=tuple(map(tuple, after)),
        outputs=frozenset(tir.outputs),
    )
