"""Circuit and facts -> `.bir`: each layer written out, every expression a number, every binding a tensor name."""

from collections.abc import Iterable, Mapping

from msgspec import Struct, field

from circuit.errors import PlanError, Problem
from circuit.front.bir import Bir, BirBind, BirBlock, BirEdge, BirShare, BirState, BirStep, BirValue
from circuit.load.circuits import (
    Binding,
    Block,
    Circuit,
    LayerKind,
    NodeSpec,
    OutEdge,
    ParamValue,
    block_named,
    kind_named,
    reads,
)
from circuit.load.dim_expr import expr_text, value_of
from circuit.load.facts import Facts
from circuit.load.ops import OPS
from circuit.text import listed


def blocks(circuit: Circuit, facts: Facts) -> Bir:
    """The model with everything written out; a PlanError if the facts do not fit the circuit."""
    values: dict[str, BirValue] = dict([*facts.dims, *facts.params])
    known = {*values, *(name for kind in circuit.kinds for name, _ in kind.let)}
    # A dim that only a kind of layer without a use here reads may be absent, as a window is where no layer slides.
    kinds = [_kind(circuit, name) for name in dict.fromkeys(facts.layers)]
    needed = {name for kind in kinds for _, value in kind.let for name in reads(value)}
    missing = sorted((set(circuit.dims) - known - _only_in_lets(circuit)) | (needed - known))
    if missing:
        message = f"the circuit {circuit.arch} needs {listed(missing)}, which the config map does not give"
        raise PlanError(Problem(message=message, fix="add them to the config map", file=circuit.file))
    writer = _Writer(circuit=circuit, facts=facts, values=values, dims=dict(facts.dims))
    for name in circuit.prologue:
        writer.block(block_named(circuit, name), name, None, {})
    for layer_idx, kind_name in enumerate(facts.layers):
        kind = _kind(circuit, kind_name)
        lets = {
            name: values[value[1:-1]] if reads(value) else value for name, value in kind.let if isinstance(value, str)
        }
        lets |= {name: value for name, value in kind.let if not isinstance(value, str)}
        for name in kind.blocks:
            writer.block(block_named(circuit, name), f"l{layer_idx}.{name}", layer_idx, lets)
    for name in circuit.epilogue:
        writer.block(block_named(circuit, name), name, None, {})
    return Bir(
        arch=circuit.arch,
        context=facts.context,
        dims=facts.dims,
        consts=facts.params,
        inputs=tuple(writer.edge(edge, edge.edge) for edge in circuit.inputs),
        blocks=tuple(writer.blocks),
        shares=tuple(writer.shares),
        binds=tuple(writer.binds),
        steps=tuple(writer.steps),
    )


def _kind(circuit: Circuit, name: str) -> LayerKind:
    kind = kind_named(circuit, name)
    if kind is None:
        message = f"the circuit {circuit.arch} has no layer kind `{name}`"
        fix = f"it has: {listed(each.name for each in circuit.kinds)}"
        raise PlanError(Problem(message=message, fix=fix, file=circuit.file))
    return kind


def _only_in_lets(circuit: Circuit) -> set[str]:
    return {name for kind in circuit.kinds for _, value in kind.let for name in reads(value)}


class _Writer(Struct, kw_only=True):
    """The lines so far, and the edge that the stream is on."""

    circuit: Circuit
    facts: Facts
    values: Mapping[str, BirValue]
    dims: Mapping[str, int]
    stream: str = ""
    blocks: list[BirBlock] = field(default_factory=list)
    shares: list[BirShare] = field(default_factory=list)
    binds: list[BirBind] = field(default_factory=list)
    steps: list[BirStep] = field(default_factory=list)

    def block(self, block: Block, name: str, layer: int | None, lets: Mapping[str, BirValue]) -> None:
        edges = {edge.edge: edge.edge for edge in self.circuit.inputs}
        if block.stream_in is not None:
            edges[block.stream_in] = self.stream
        at = len(self.blocks)
        for node in block.nodes:
            if node.when is not None and not self.dims[node.when]:
                edges[node.outputs[0].edge] = edges[node.inputs[0]]
            else:
                self.steps.append(self.step(node, name, layer, edges, lets))
        states = tuple(
            BirState(
                name=f"{name}.{state.id}",
                kind=state.kind,
                heads=value_of(state.heads, self.dims),
                head_dim=value_of(state.head_dim, self.dims),
                format=state.format,
            )
            for state in block.states
        )
        outputs = tuple(edges[edge] for edge in block.outputs)
        self.blocks.insert(at, BirBlock(name=name, layer=layer, states=states, outputs=outputs))
        if block.stream_out is not None:
            self.stream = edges[block.stream_out]

    def step(
        self, node: NodeSpec, block: str, layer: int | None, edges: dict[str, str], lets: Mapping[str, BirValue]
    ) -> BirStep:
        inputs = tuple(edges[name] for name in node.inputs)
        for edge in node.outputs:
            edges[edge.edge] = f"{block}.{edge.edge}"
        step_id = f"{block}.{node.id}"
        return BirStep(
            id=step_id,
            block=block,
            op=node.op,
            role=node.role,
            inputs=inputs,
            outputs=tuple(self.edge(edge, edges[edge.edge]) for edge in node.outputs),
            weights=() if node.binding is None else tuple(self.weights(node.binding, step_id, block, layer)),
            state=None if node.state is None else f"{block}.{node.state}",
            params=tuple(self.params(node, lets)),
            section=node.section,
        )

    def edge(self, edge: OutEdge, name: str) -> BirEdge:
        return BirEdge(name=name, format=edge.format, rows=edge.rows, dim=value_of(edge.dim, self.dims))

    def params(self, node: NodeSpec, lets: Mapping[str, BirValue]) -> Iterable[tuple[str, BirValue]]:
        types = dict(OPS[node.op].params)
        for name, written in node.params:
            yield name, _typed(self.param(written, lets), types[name])

    def param(self, written: ParamValue, lets: Mapping[str, BirValue]) -> BirValue:
        for name in reads(written):
            return lets[name] if name in lets else self.values[name]
        return written

    def weights(self, binding: Binding, step_id: str, block: str, layer: int | None) -> Iterable[str]:
        for weight in binding.weights:
            if weight.when is not None and not self.dims[weight.when]:
                continue
            if binding.same_as is not None:
                yield f"{block}.{binding.same_as}.{weight.part}"
                continue
            key = f"{self.module(binding.module, layer)}.{weight.part}"
            if binding.tied_when is not None and self.dims[binding.tied_when]:
                assert binding.tied_to is not None
                shared_key = f"{self.module(binding.tied_to, layer)}.{weight.part}"
                shared = next(bind for bind in self.binds if bind.key == shared_key)
                self.shares.append(BirShare(key=key, weight=shared.name))
                yield shared.name
                continue
            heads = dict(self.facts.naming.unpermute).get(binding.module)
            name = f"{step_id}.{weight.part}"
            self.binds.append(
                BirBind(
                    name=name,
                    block=block,
                    format=self.facts.format,
                    shape=tuple(value_of(side, self.dims) for side in weight.shape),
                    axes=tuple(expr_text(side) for side in weight.shape),
                    key=key,
                    heads=0 if heads is None else self.dims[heads],
                )
            )
            yield name

    def module(self, pattern: str, layer: int | None) -> str:
        """The module path in the checkpoint."""
        names = dict(self.facts.naming.names)
        if names and pattern not in names:
            message = f"the config map names no tensor for `{pattern}`"
            raise PlanError(Problem(message=message, fix="add it to `names` in the map", file=self.circuit.file))
        path = names.get(pattern, pattern).replace("{L}", self.circuit.layer)
        return path if layer is None else path.replace("{i}", str(layer))


def _typed(value: BirValue, wanted: str) -> BirValue:
    """Switches are numbers in the facts and booleans in an op's params."""
    match wanted:
        case "bool" if isinstance(value, int):
            return bool(value)
        case "int" if isinstance(value, int) and not isinstance(value, bool):
            return value
        case "float" if isinstance(value, float):
            return value
        case "str" if isinstance(value, str):
            return value
        case "floats" if isinstance(value, tuple):
            return value
        case _:
            raise AssertionError(f"{value!r} is no {wanted}")
