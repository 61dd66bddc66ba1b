"""What must hold in a circuit on its own, before any model uses it."""

from collections.abc import Iterator

from msgspec.structs import replace

from circuit.errors import Problem
from circuit.load.circuits import Block, Circuit, NodeSpec, reads
from circuit.load.dim_expr import Expr, names_of
from circuit.load.ops import OPS, OpUse
from circuit.load.source import Document
from circuit.text import listed, problem_at


def circuit_problems(circuit: Circuit, documents: tuple[Document, ...]) -> Iterator[Problem]:
    """Every rule of the schema that the circuit breaks, with the file and line of the node."""
    sources = {document.source.path: document.source for document in documents}

    def at(file: str, line: int | None, message: str, fix: str) -> Problem:
        return problem_at(sources[file], line, message, fix)

    known = {block.name for block in circuit.blocks}
    used: list[str] = [*circuit.prologue, *circuit.epilogue]
    for kind in circuit.kinds:
        used.extend(kind.blocks)
    for name in dict.fromkeys(used):
        if name not in known:
            yield at(circuit.file, None, f"block `{name}` does not exist", f"use one of: {listed(sorted(known))}")
    for block in circuit.blocks:
        if block.name not in used:
            message = f"block `{block.name}` is used by no layer kind"
            yield at(block.file, None, message, "remove it or name it in the layout")
        given = {edge.edge for edge in circuit.inputs}
        for node, message, fix in _block_problems(circuit, block, given):
            yield at(block.file, node.line if node else None, f"{block.name}: {message}", fix)


def _block_problems(circuit: Circuit, block: Block, given: set[str]) -> Iterator[tuple[NodeSpec | None, str, str]]:
    lets = {name for kind in circuit.kinds for name, _ in kind.let}
    edges = set(given) | ({block.stream_in} if block.stream_in else set())
    read: set[str] = set()
    ids: set[str] = set()
    states = {state.id for state in block.states}
    touched: set[str] = set()
    for node in block.nodes:
        if node.id in ids:
            yield node, f"node `{node.id}` is there twice", "rename one of the two"
        ids.add(node.id)
        use = OPS.get(node.op)
        if use is None:
            yield node, f"`{node.id}` has the unknown op `{node.op}`", f"use one of: {listed(OPS)}"
        else:
            yield from ((node, *found) for found in _use_problems(node, use))
        yield from ((node, *found) for found in _same_problems(block, node))
        for name in node.inputs:
            if name not in edges:
                yield node, f"`{node.id}` reads the edge `{name}`, which nothing before it writes", "write it first"
            read.add(name)
        for edge in node.outputs:
            if edge.edge in edges:
                yield node, f"edge `{edge.edge}` is written twice", "rename one of the two"
            edges.add(edge.edge)
        for name in _undeclared(circuit, node, lets):
            yield node, f"`{node.id}` reads the undeclared dim `{name}`", f"declare `{name}` in `dims`"
        if node.state is not None:
            touched.add(node.state)
            if node.state not in states:
                yield node, f"`{node.id}` reads the state `{node.state}`, which the block has not", "declare the state"
    final = {*block.outputs, *([block.stream_out] if block.stream_out else [])}
    for name in sorted(final - edges):
        yield None, f"the output edge `{name}` is never written", "write it or remove it from the outputs"
    for node in block.nodes:
        for edge in node.outputs:
            if edge.edge not in read and edge.edge not in final:
                yield node, f"edge `{edge.edge}` is neither read nor an output", "read it or remove its node"
    for name in sorted(states - touched):
        yield None, f"state `{name}` is never touched", "remove the state"


def _use_problems(node: NodeSpec, use: OpUse) -> Iterator[tuple[str, str]]:
    if len(node.inputs) != use.inputs or len(node.outputs) != use.outputs:
        message = f"`{node.id}` has {len(node.inputs)} inputs and {len(node.outputs)} outputs"
        yield message, f"{node.op} takes {use.inputs} and gives {use.outputs}"
    if (node.role or "") not in (use.roles or ("",)):
        yield f"`{node.id}` has the role `{node.role}`", f"the roles of {node.op} are: {listed(use.roles)}"
    if use.weights and node.binding is None:
        yield (
            f"`{node.id}` has no binding",
            f"{node.op} reads tensors: add `binding = {{ module = ..., weight = ... }}`",
        )
    if node.binding is not None:
        parts = tuple(weight.part for weight in node.binding.weights)
        allowed = (*use.weights, *use.optional_weights)
        if not use.weights or any(part not in allowed for part in parts):
            yield f"`{node.id}` binds {listed(parts)}", f"{node.op} reads: {listed(allowed)}"
    names = tuple(name for name, _ in node.params)
    wanted = tuple(name for name, _ in use.params)
    if names != wanted:
        yield f"`{node.id}` has the params {listed(names)}", f"{node.op} has: {listed(wanted)}"
    if (node.state is not None) != use.state:
        yield (
            f"`{node.id}` {'has no' if use.state else 'has a'} state",
            f"{node.op} {'needs one' if use.state else 'has none'}",
        )


def _same_problems(block: Block, node: NodeSpec) -> Iterator[tuple[str, str]]:
    if node.binding is None or node.binding.same_as is None:
        return
    name = node.binding.same_as
    before = next((other for other in block.nodes[: block.nodes.index(node)] if other.id == name), None)
    if before is None or before.binding is None:
        yield f"`{node.id}` binds the same as `{name}`, which binds nothing before it", "name an earlier node that does"
    elif replace(node.binding, same_as=None) != before.binding:
        message = f"`{node.id}` binds the same as `{name}`, but another module or other tensors"
        yield message, f"write the binding of `{name}`"


def _undeclared(circuit: Circuit, node: NodeSpec, lets: set[str]) -> Iterator[str]:
    declared = {*circuit.dims, *lets}
    exprs: list[Expr] = [edge.dim for edge in node.outputs]
    names: list[str] = [node.when] if node.when else []
    if node.binding is not None:
        exprs.extend(side for weight in node.binding.weights for side in weight.shape)
        names.extend(weight.when for weight in node.binding.weights if weight.when)
        names.extend([node.binding.tied_when] if node.binding.tied_when else [])
    names.extend(name for expr in exprs for name in names_of(expr))
    names.extend(name for _, value in node.params for name in reads(value))
    yield from (name for name in dict.fromkeys(names) if name not in declared)
