"""The circuit TOML and its block files, checked: what a circuit says must be whole before any model uses it."""

from typing import Literal

from msgspec import field

from circuit.errors import LoadError, Problem
from circuit.formats import FORMATS, STATE_FORMATS
from circuit.load.circuit_checks import circuit_problems
from circuit.load.circuits import (
    Binding,
    Block,
    Circuit,
    LayerKind,
    NodeSpec,
    OutEdge,
    ParamValue,
    StateSpec,
    WeightSpec,
)
from circuit.load.dim_expr import parse_expr, parse_shape
from circuit.load.edge import FileShape, validated
from circuit.load.inputs import Library, files_under
from circuit.load.shapes import Schema
from circuit.load.source import Document, Path, line_of
from circuit.load.toml_text import read_toml
from circuit.text import check, listed, problem_at


class _Edge(FileShape, frozen=True, kw_only=True):
    edge: str
    format: str
    shape: str


class _Binding(FileShape, frozen=True, kw_only=True):
    module: str
    weight: str
    bias: str | None = None
    bias_when: str | None = None
    tied_when: str | None = None
    tied_to: str | None = None
    same_as: str | None = None


class _Node(FileShape, frozen=True, kw_only=True):
    id: str
    op: str
    role: str | None = None
    reads: list[str]
    writes: list[_Edge] = field(default_factory=list)
    binding: _Binding | None = None
    params: dict[str, bool | int | float | str] = field(default_factory=dict)
    state: str | None = None
    when: str | None = None
    section: Literal["main", "greedy", "sample", "score", "hidden"] = "main"


class _State(FileShape, frozen=True, kw_only=True):
    id: str
    kind: Literal["paged_kv"]
    format: str
    heads: str
    head_dim: str


class _Block(FileShape, frozen=True, kw_only=True):
    stream_in: str | None = None
    stream_out: str | None = None
    outputs: list[str] = field(default_factory=list)
    state: list[_State] = field(default_factory=list)
    node: list[_Node]


class _Kind(FileShape, frozen=True, kw_only=True):
    blocks: list[str]
    let: dict[str, bool | int | float | str] = field(default_factory=dict)


class _BlocksFile(FileShape, frozen=True, kw_only=True):
    schema: Schema
    description: str
    block: dict[str, _Block]


class _CircuitFile(FileShape, frozen=True, kw_only=True):
    schema: Schema
    arch: str
    description: str
    layer: str
    include: list[str]
    dims: list[str]
    input: list[_Edge]
    prologue: list[str]
    epilogue: list[str]
    layout: dict[str, _Kind]
    block: dict[str, _Block] = field(default_factory=dict)


def read_circuit(library: Library, arch: str) -> Circuit:
    """The circuit `arch` of the library, read, or a LoadError with every problem of its files."""
    document = _circuit_document(library, arch)
    shape = validated(document, _CircuitFile)
    blocks_files = {source.path.rpartition("/")[2]: source for source in files_under(library, "blocks", ".toml")}
    documents = [(document, shape.block)]
    problems: list[Problem] = []
    for place, name in enumerate(shape.include):
        source = blocks_files.get(f"{name}.toml")
        if source is None:
            line = line_of(document, ("include", place))
            fix = f"include one of: {listed(sorted(file[: -len('.toml')] for file in blocks_files))}"
            problems.append(problem_at(document.source, line, f"there is no block file `{name}`", fix))
            continue
        blocks_document = read_toml(source)
        documents.append((blocks_document, validated(blocks_document, _BlocksFile).block))
    check(problems)
    builder = _Builder(problems)
    blocks: list[Block] = []
    for each, block_shapes in documents:
        for name, block in block_shapes.items():
            if any(other.name == name for other in blocks):
                line = line_of(each, ("block", name))
                builder.add(each, line, f"block `{name}` is defined twice", "rename or remove one of the two")
            blocks.append(builder.block(each, name, block))
    circuit = Circuit(
        arch=shape.arch,
        file=document.source.path,
        layer=shape.layer,
        dims=tuple(shape.dims),
        inputs=tuple(builder.edge(document, ("input", place), edge) for place, edge in enumerate(shape.input)),
        prologue=tuple(shape.prologue),
        kinds=tuple(
            LayerKind(name=name, blocks=tuple(kind.blocks), let=tuple(sorted(kind.let.items())))
            for name, kind in shape.layout.items()
        ),
        epilogue=tuple(shape.epilogue),
        blocks=tuple(blocks),
    )
    check(builder.problems)
    check(circuit_problems(circuit, tuple(each for each, _ in documents)))
    return circuit


def circuit_names(library: Library) -> tuple[str, ...]:
    """The architectures that the library has a circuit for."""
    files = files_under(library, "circuits", ".toml")
    names = [source.path.rpartition("/")[2][: -len(".toml")] for source in files]
    return tuple(name for name in names if "." not in name)


def _circuit_document(library: Library, arch: str) -> Document:
    for source in files_under(library, "circuits", ".toml"):
        if source.path.rpartition("/")[2] == f"{arch}.toml":
            return read_toml(source)
    message = f"there is no circuit `{arch}`; these exist: {listed(circuit_names(library))}"
    raise LoadError(Problem(message=message, fix=f"add kernels/circuits/{arch}.toml"))


class _Builder:
    """Shapes -> records; collects what does not parse."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems

    def add(self, document: Document, line: int | None, message: str, fix: str) -> None:
        self.problems.append(problem_at(document.source, line, message, fix))

    def edge(self, document: Document, path: Path, edge: _Edge) -> OutEdge:
        rows, _, dim = edge.shape.partition(" x ")
        if rows not in ("n", "m") or not dim:
            message = f"edge `{edge.edge}` has the shape `{edge.shape}`"
            self.add(document, line_of(document, path), message, "write `n x DIM` or `m x DIM`")
            rows, dim = "n", "1"
        if edge.format not in FORMATS:
            message = f"edge `{edge.edge}` has the unknown format `{edge.format}`"
            self.add(document, line_of(document, path), message, f"use one of: {listed(FORMATS)}")
        return OutEdge(edge=edge.edge, format=edge.format, rows=rows, dim=self.expr(document, path, dim)[0])

    def expr(self, document: Document, path: Path, text: str) -> tuple[tuple[tuple[str, ...], ...], ...]:
        try:
            return parse_shape(text)
        except ValueError as error:
            self.add(document, line_of(document, path), str(error), "write a dim expression such as `heads*head_dim`")
            return (parse_expr("1"),)

    def block(self, document: Document, name: str, block: _Block) -> Block:
        base: Path = ("block", name)
        states = []
        for place, state in enumerate(block.state):
            at = (*base, "state", place)
            if state.format not in STATE_FORMATS:
                message = f"state `{state.id}` has the unknown format `{state.format}`"
                self.add(document, line_of(document, at), message, f"use one of: {listed(STATE_FORMATS)}")
            heads, head_dim = (self.expr(document, at, text)[0] for text in (state.heads, state.head_dim))
            states.append(StateSpec(id=state.id, kind=state.kind, format=state.format, heads=heads, head_dim=head_dim))
        return Block(
            name=name,
            file=document.source.path,
            stream_in=block.stream_in,
            stream_out=block.stream_out,
            outputs=tuple(block.outputs),
            states=tuple(states),
            nodes=tuple(self.node(document, (*base, "node", place), node) for place, node in enumerate(block.node)),
        )

    def node(self, document: Document, path: Path, node: _Node) -> NodeSpec:
        params: dict[str, ParamValue] = dict(sorted(node.params.items()))
        return NodeSpec(
            id=node.id,
            op=node.op,
            role=node.role,
            inputs=tuple(node.reads),
            outputs=tuple(self.edge(document, path, edge) for edge in node.writes),
            binding=None if node.binding is None else self.binding(document, path, node.binding),
            params=tuple(params.items()),
            state=node.state,
            when=node.when,
            section=node.section,
            line=line_of(document, path),
        )

    def binding(self, document: Document, path: Path, binding: _Binding) -> Binding:
        weights = [WeightSpec(part="weight", shape=self.expr(document, path, binding.weight), when=None)]
        if binding.bias is not None:
            shape = self.expr(document, path, binding.bias)
            weights.append(WeightSpec(part="bias", shape=shape, when=binding.bias_when))
        return Binding(
            module=binding.module,
            weights=tuple(weights),
            tied_when=binding.tied_when,
            tied_to=binding.tied_to,
            same_as=binding.same_as,
        )
