"""Circuit TOML -> records: blocks of nodes on named edges, and which blocks each kind of layer has."""

from msgspec import Struct

from circuit.load.dim_expr import Expr
from circuit.load.inputs import Library, once

ParamValue = bool | int | float | str
"""A parameter as written; `"{name}"` stands for a dim, a parameter of the config map, or a `let` of the layer kind."""


class OutEdge(Struct, frozen=True, kw_only=True):
    """An edge that a node writes: `rows` is "n" or "m"."""

    edge: str
    format: str
    rows: str
    dim: Expr


class WeightSpec(Struct, frozen=True, kw_only=True):
    """One tensor of a binding: `part` is its suffix (weight, bias); `when` is the switch that must be 1."""

    part: str
    shape: tuple[Expr, ...]
    when: str | None


class Binding(Struct, frozen=True, kw_only=True):
    """The module whose tensors a node reads; `{L}` is the layer's module path. Under `tied_when`, `tied_to` is read.

    `same_as` is an earlier node of the block that reads the same tensors.
    """

    module: str
    weights: tuple[WeightSpec, ...]
    tied_when: str | None
    tied_to: str | None
    same_as: str | None


class NodeSpec(Struct, frozen=True, kw_only=True):
    """A node of a block. `when` is a switch dim: 0 leaves the node out and its output names its input."""

    id: str
    op: str
    role: str | None
    inputs: tuple[str, ...]
    outputs: tuple[OutEdge, ...]
    binding: Binding | None
    params: tuple[tuple[str, ParamValue], ...]
    state: str | None
    when: str | None
    section: str
    line: int | None


class StateSpec(Struct, frozen=True, kw_only=True):
    """A cache that a block owns."""

    id: str
    kind: str
    format: str
    heads: Expr
    head_dim: Expr


class Block(Struct, frozen=True, kw_only=True):
    """A named piece of the circuit. Node order is execution order."""

    name: str
    file: str
    stream_in: str | None
    stream_out: str | None
    outputs: tuple[str, ...]
    states: tuple[StateSpec, ...]
    nodes: tuple[NodeSpec, ...]


class LayerKind(Struct, frozen=True, kw_only=True):
    """The blocks of a kind of layer, and the values it gives to names that its params read."""

    name: str
    blocks: tuple[str, ...]
    let: tuple[tuple[str, ParamValue], ...]


class Circuit(Struct, frozen=True, kw_only=True):
    """An architecture over Sigma. `layer` is the module path of layer `{i}`."""

    arch: str
    file: str
    layer: str
    dims: tuple[str, ...]
    inputs: tuple[OutEdge, ...]
    prologue: tuple[str, ...]
    kinds: tuple[LayerKind, ...]
    epilogue: tuple[str, ...]
    blocks: tuple[Block, ...]


def load_circuit(library: Library, arch: str) -> Circuit:
    """The circuit `arch` of the library, or a LoadError with every problem of its files."""

    def read() -> Circuit:
        from circuit.load.circuit_file import read_circuit  # kept records need no reader

        return read_circuit(library, arch)

    return once(library, ("circuit", arch), read)


def block_named(circuit: Circuit, name: str) -> Block:
    """The block `name`, which the loader has checked to exist."""
    return next(block for block in circuit.blocks if block.name == name)


def kind_named(circuit: Circuit, name: str) -> LayerKind | None:
    """The layer kind `name`, or None."""
    return next((kind for kind in circuit.kinds if kind.name == name), None)


def fact_uses(circuit: Circuit, off: frozenset[str]) -> dict[str, tuple[str, ...]]:
    """For each dim or parameter: the nodes that read it, as `attn.q`, or `attn.q.bias` where a param or a tensor does.

    `off` are the switches that are 0: what they leave out reads nothing, but the switch itself.
    """
    uses: dict[str, list[str]] = {}

    def note(names: tuple[str, ...], use: str) -> None:
        for name in names:
            listed = uses.setdefault(name, [])
            if use not in listed:
                listed.append(use)

    lets = {name: value for kind in circuit.kinds for name, value in kind.let if reads(value)}
    for block in circuit.blocks:
        for state in block.states:
            note(_dims(state.heads, state.head_dim), f"{block.name}.{state.id}")
        for node in block.nodes:
            own = f"{block.name}.{node.id}"
            if node.when is not None:
                note((node.when,), own)
            if node.when in off:
                continue
            note(_dims(*(edge.dim for edge in node.outputs)), own)
            if node.binding:
                if node.binding.tied_when:
                    note((node.binding.tied_when,), own)
                for weight in node.binding.weights:
                    if weight.when is not None:
                        note((weight.when,), f"{own}.{weight.part}")
                    if weight.when not in off:
                        note(_dims(*weight.shape), own)
            for name, value in node.params:
                for read in reads(value):
                    note((read,), f"{own}.{name}")
                    note(reads(lets.get(read, 0)), f"{own}.{name}")
    return {name: tuple(found) for name, found in uses.items()}


def reads(value: ParamValue) -> tuple[str, ...]:
    """The name in `"{name}"`, if the value is one."""
    if isinstance(value, str) and value.startswith("{") and value.endswith("}"):
        return (value[1:-1],)
    return ()


def _dims(*exprs: Expr) -> tuple[str, ...]:
    from_all = [factor for expr in exprs for term in expr for factor in term if not factor[0].isdigit()]
    return tuple(dict.fromkeys(from_all))
