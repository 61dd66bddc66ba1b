"""`.bir` -> `.tir`: names become places in flat lists, and the whole is verified."""

from collections.abc import Iterator

from circuit.errors import PlanError, Problem
from circuit.front.bir import Bir, BirBind, BirStep
from circuit.tir.ir import Edge, Key, Node, Recipe, State, Tir, Unpermute, Weight
from circuit.tir.verify import verify


def instantiate(bir: Bir) -> Tir:
    """The typed circuit; a PlanError with every problem if names or shapes do not fit together."""
    edges = [*bir.inputs, *(edge for step in bir.steps for edge in step.outputs)]
    states = [state for block in bir.blocks for state in block.states]
    edge_at = {edge.name: place for place, edge in enumerate(edges)}
    weight_at = {bind.name: place for place, bind in enumerate(bir.binds)}
    state_at = {state.name: place for place, state in enumerate(states)}
    layers = {block.name: block.layer for block in bir.blocks}
    problems = tuple(_unknown(bir, edge_at, weight_at, state_at))
    if problems:
        raise PlanError(problems)
    binds = {bind.name: bind for bind in bir.binds}
    return verify(
        Tir(
            arch=bir.arch,
            context=bir.context,
            dims=bir.dims,
            edges=tuple(Edge(name=edge.name, rows=edge.rows, dim=edge.dim, format=edge.format) for edge in edges),
            weights=tuple(_weight(bind) for bind in bir.binds),
            states=tuple(
                State(name=s.name, kind=s.kind, heads=s.heads, head_dim=s.head_dim, format=s.format) for s in states
            ),
            nodes=tuple(_node(step, layers[step.block], edge_at, weight_at, state_at) for step in bir.steps),
            inputs=tuple(edge_at[edge.name] for edge in bir.inputs),
            outputs=tuple(edge_at[name] for block in bir.blocks for name in block.outputs),
            shares=tuple((share.key, binds[share.weight].key) for share in bir.shares),
        )
    )


def _node(
    step: BirStep, layer: int | None, edges: dict[str, int], weights: dict[str, int], states: dict[str, int]
) -> Node:
    return Node(
        id=step.id,
        op=step.op,
        role=step.role,
        inputs=tuple(edges[name] for name in step.inputs),
        outputs=tuple(edges[edge.name] for edge in step.outputs),
        weights=tuple(weights[name] for name in step.weights),
        states=() if step.state is None else (states[step.state],),
        params=step.params,
        layer=layer,
        block=step.block,
        section=step.section,
    )


def _weight(bind: BirBind) -> Weight:
    recipe: Recipe = Key(key=bind.key)
    if bind.heads:
        recipe = Unpermute(of=recipe, heads=bind.heads)
    return Weight(name=bind.name, shape=bind.shape, format=bind.format, recipe=recipe, axes=bind.axes)


def _unknown(bir: Bir, edges: dict[str, int], weights: dict[str, int], states: dict[str, int]) -> Iterator[Problem]:
    def problem(message: str) -> Problem:
        return Problem(message=message, fix="correct the block circuit")

    for kind, names in (
        ("edge", [e.name for e in bir.inputs] + [e.name for step in bir.steps for e in step.outputs]),
        ("weight", [bind.name for bind in bir.binds]),
        ("state", [state.name for block in bir.blocks for state in block.states]),
        ("block", [block.name for block in bir.blocks]),
        ("step", [step.id for step in bir.steps]),
    ):
        seen: set[str] = set()
        for name in names:
            if name in seen:
                yield problem(f"the {kind} `{name}` is there twice")
            seen.add(name)
    for step in bir.steps:
        yield from (
            problem(f"`{step.id}` reads the unknown edge `{name}`") for name in step.inputs if name not in edges
        )
        yield from (
            problem(f"`{step.id}` reads the unknown weight `{name}`") for name in step.weights if name not in weights
        )
        if step.state is not None and step.state not in states:
            yield problem(f"`{step.id}` uses the unknown state `{step.state}`")
    for block in bir.blocks:
        yield from (
            problem(f"`{block.name}` leaves the unknown edge `{name}`") for name in block.outputs if name not in edges
        )
    for share in bir.shares:
        if share.weight not in weights:
            yield problem(f"`{share.key}` shares the unknown weight `{share.weight}`")
