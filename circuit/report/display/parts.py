"""A plan as parts: layers, and what stands before and behind them; and the diagram of each.

Names in a diagram are relative to its layer, so that layers which compute the same have equal diagrams.
"""

from msgspec import Struct
from msgspec.structs import replace

from circuit.lower.graph import Graph, graph_of
from circuit.lower.ir import Group
from circuit.lower.weights import weights_of
from circuit.plan.ir import Launch, Plan
from circuit.plan.text import relative
from circuit.plan.wires import Wires, wires_of
from circuit.report.cost import Costs
from circuit.report.display.record import Diagram, DrawnOp, Figures, Frame, Kept, Part, Where, Wire
from circuit.report.memory import state_bytes, stored_bytes
from circuit.report.positions import Step
from circuit.report.roofline import ON_REQUEST
from circuit.tir.ir import Node, Tir, Value, row_words

WORD_BYTES = 4


class Drawn(Struct, frozen=True, kw_only=True):
    """What diagrams are made from: one plan of an instance, its groups, a step, and the figures of each launch's site
    by rule and kernel.
    """

    tir: Tir
    groups: tuple[Group, ...]
    plan: Plan
    step: Step
    costs: Costs
    figures: dict[tuple[str, str], Figures]


def parts_of(drawn: Drawn) -> tuple[tuple[Part, ...], tuple[Diagram, ...]]:
    """The parts in the order of their first launches, and the distinct diagrams in the order of first use."""
    runs: dict[tuple[str, int | None], list[int]] = {}
    for place, launch in enumerate(drawn.plan.launches):
        runs.setdefault(_part(drawn.tir.nodes[drawn.groups[place].nodes[0]], launch), []).append(place)
    draw = _Draw(drawn, tuple(tuple(places) for places in runs.values()))
    places: dict[Diagram, int] = {}
    parts = []
    for at, ((name, layer), launches) in enumerate(runs.items()):
        diagram = draw.diagram(at, layer)
        place = places.setdefault(diagram, len(places))
        parts.append(Part(name=name, layer=layer, launches=tuple(launches), diagram=place))
    return tuple(parts), _told_apart(tuple(places))


def _told_apart(diagrams: tuple[Diagram, ...]) -> tuple[Diagram, ...]:
    """The diagrams, each op with the params that tell it from those of its name elsewhere."""
    values: dict[tuple[str, str], dict[str, None]] = {}
    for op in (op for diagram in diagrams for op in diagram.ops):
        for name, value in op.params:
            values.setdefault((op.name, name), {})[value] = None
    return tuple(
        replace(
            diagram,
            ops=tuple(
                replace(op, apart=tuple(name for name, _ in op.params if len(values[op.name, name]) > 1))
                for op in diagram.ops
            ),
        )
        for diagram in diagrams
    )


def _part(node: Node, launch: Launch) -> tuple[str, int | None]:
    """Name and layer: a section that is made on request is a part of its own."""
    if launch.layer is not None:
        return f"layer {launch.layer}", launch.layer
    return launch.section if launch.section in ON_REQUEST else node.block, None


class _Draw:
    def __init__(self, drawn: Drawn, runs: tuple[tuple[int, ...], ...]) -> None:
        self._drawn, self._runs = drawn, runs
        self._graph: Graph = graph_of(drawn.tir)
        self._wires: Wires = wires_of(drawn.tir, self._graph, drawn.groups)
        self._part_of = {
            node: at for at, launches in enumerate(runs) for place in launches for node in drawn.groups[place].nodes
        }

    def diagram(self, at: int, layer: int | None) -> Diagram:
        tir = self._drawn.tir
        groups = [self._drawn.groups[place] for place in self._runs[at]]
        nodes = [node for group in groups for node in group.nodes]
        own = {node: place for place, node in enumerate(nodes)}
        edges: dict[int, int] = {}
        for node in nodes:
            for edge in (*tir.nodes[node].inputs, *tir.nodes[node].outputs):
                edges.setdefault(edge, len(edges))
        scratch = {edge for place in self._runs[at] for edge in self._scratch(place)}
        return Diagram(
            wires=tuple(self._wire(edge, at, layer, own, scratch) for edge in edges),
            ops=tuple(
                DrawnOp(
                    name=name_in(tir.nodes[node].id, layer),
                    op=_op(tir.nodes[node]),
                    reads=tuple(edges[edge] for edge in tir.nodes[node].inputs),
                    makes=tuple(edges[edge] for edge in tir.nodes[node].outputs),
                    params=tuple((name, _value(value)) for name, value in tir.nodes[node].params),
                    apart=(),
                )
                for node in nodes
            ),
            frames=tuple(self._frame(place, layer, own) for place in self._runs[at]),
        )

    def _wire(self, edge: int, at: int, layer: int | None, own: dict[int, int], scratch: set[int]) -> Wire:
        record, maker = self._drawn.tir.edges[edge], self._graph.producer[edge]
        rows = self._rows(record.rows)
        where: Where = "arena" if edge in self._wires.stored else "scratch" if edge in scratch else "on chip"
        readers = self._graph.readers[edge]
        return Wire(
            name=self._name(record.name, maker, at, layer),
            rows=rows,
            dim=record.dim,
            format=record.format,
            n_bytes=WORD_BYTES * row_words(record) * rows,
            where="step" if maker is None else where,
            maker=None if maker is None else own.get(maker),
            readers=tuple(own[node] for node in readers if node in own),
            leaves=maker in own and (edge in self._graph.outputs or any(node not in own for node in readers)),
        )

    def _name(self, name: str, maker: int | None, at: int, layer: int | None) -> str:
        """A wire of the part before, whatever part that is, is `in`."""
        short = name_in(name, layer)
        from_before = maker is not None and self._part_of[maker] == at - 1
        return "in" if from_before and (layer is None or short.startswith("l{") or short == name) else short

    def _rows(self, rows: str) -> int:
        step = self._drawn.step
        return {"n": step.sequences * step.rows, "m": step.logit_rows, "1": 1}[rows]

    def _scratch(self, place: int) -> tuple[int, ...]:
        """The edges that go through scratch: what a projection reads of its own launch, other than a norm, which each
        thread makes for itself (circuit/lower/realize.py).
        """
        group = self._drawn.groups[place]
        members = set(group.nodes)
        found: dict[int, None] = {}
        for node in (self._drawn.tir.nodes[each] for each in group.nodes):
            maker = self._graph.producer[node.inputs[0]] if node.op == "linear" else None
            if maker in members and maker is not None and self._drawn.tir.nodes[maker].op != "rms_norm":
                found.setdefault(node.inputs[0])
        kernel = self._drawn.plan.kernels[self._drawn.plan.launches[place].kernel]
        columns = [slot.columns for slot in kernel.slots if slot.kind == "scratch"]
        assert columns == [self._wires.columns[edge] for edge in found], f"{kernel.name}: scratch {columns}"
        return tuple(found)

    def _frame(self, place: int, layer: int | None, own: dict[int, int]) -> Frame:
        launch, group = self._drawn.plan.launches[place], self._drawn.groups[place]
        kernel = self._drawn.plan.kernels[launch.kernel]
        asked = launch.section not in ON_REQUEST
        return Frame(
            rule=launch.rule,
            numerics=launch.numerics,
            kernel=kernel.name,
            family=kernel.family,
            point=kernel.point,
            ops=tuple(own[node] for node in group.nodes),
            kept=(*self._weights(place, layer, own), *self._states(place, layer, own)),
            figures=self._drawn.figures[launch.rule, kernel.name] if asked else None,
        )

    def _moved(self, place: int, kind: str) -> list[int]:
        """Bytes of each slot of a kind, in the order of their places."""
        kernel = self._drawn.plan.kernels[self._drawn.plan.launches[place].kernel]
        cost = self._drawn.costs.of(kernel, self._drawn.step)
        slots = [slot for slot in kernel.slots if slot.kind == kind]
        return [cost.read[slot.slot] + cost.written[slot.slot] for slot in sorted(slots, key=lambda slot: slot.place)]

    def _weights(self, place: int, layer: int | None, own: dict[int, int]) -> list[Kept]:
        tir, group = self._drawn.tir, self._drawn.groups[place]
        linears = [node for node in group.nodes if tir.nodes[node].op == "linear"]
        readers = {
            tir.weights[weight]: node for node in reversed(group.nodes) for weight in tir.nodes[node].weights
        } | dict.fromkeys(group.derived, linears[0] if linears else group.nodes[0])
        return [
            Kept(
                name=name_in(weight.name, layer),
                kind="weight",
                op=own[readers[weight]],
                shape=weight.shape,
                format=weight.format,
                n_bytes=stored_bytes(weight),
                moved=moved,
            )
            for weight, moved in zip(weights_of(tir, group), self._moved(place, "weight"), strict=True)
        ]

    def _states(self, place: int, layer: int | None, own: dict[int, int]) -> list[Kept]:
        tir, group = self._drawn.tir, self._drawn.groups[place]
        readers: dict[int, int] = {}
        for node in group.nodes:
            for state in tir.nodes[node].states:
                readers.setdefault(state, node)
        return [
            Kept(
                name=name_in(tir.states[state].name, layer),
                kind="state",
                op=own[node],
                shape=(tir.states[state].heads, tir.states[state].head_dim),
                format=tir.states[state].format,
                n_bytes=state_bytes(tir.states[state]),
                moved=moved,
            )
            for (state, node), moved in zip(readers.items(), self._moved(place, "state"), strict=True)
        ]


def _value(value: Value) -> str:
    """A param in a few letters: a list by its ends."""
    if isinstance(value, tuple):
        return f"{len(value)} values from {value[0]:g} to {value[-1]:g}"
    return f"{value:g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)


def _op(node: Node) -> str:
    return node.op if node.role is None else f"{node.op}:{node.role}"


def name_in(name: str, layer: int | None) -> str:
    """`l7.attn.q` as `attn.q` in layer 7, as `l{i+1}.attn.q` in layer 6."""
    return relative(name, layer).removeprefix("l{i}.")
