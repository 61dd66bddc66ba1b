"""Which nodes a quantization config decides about: what its keys say they are used at in the ledger."""

from circuit.load.circuits import Circuit, NodeSpec
from circuit.load.facts import Facts
from circuit.load.precision import Quantization, covers, skipped_by
from circuit.load.quantization_keys import LEFT_OUT, OF_HEAD, STORED


def quantization_uses(circuit: Circuit, facts: Facts) -> dict[str, tuple[str, ...]]:
    """For each fact of a quantization config: the projections, as `attn.q`, that it decides about in some layer."""
    declared = facts.quantization
    if declared is None:
        return {}
    on = {name for name, value in facts.dims if value}
    found: dict[str, list[str]] = {STORED: [], LEFT_OUT: [], OF_HEAD: []}
    for block in circuit.blocks:
        for node in block.nodes:
            modules = _modules(circuit, node, len(facts.layers), on)
            for fact, decided in (
                (STORED, any(covers(declared, module, node.role) for module in modules)),
                (LEFT_OUT, any(_left_out(declared, module, node.role) for module in modules)),
                (OF_HEAD, bool(modules) and node.role == "head"),
            ):
                found[fact] += [f"{block.name}.{node.id}"] if decided else []
    return {fact: tuple(nodes) for fact, nodes in found.items()}


def _modules(circuit: Circuit, node: NodeSpec, n_layers: int, on: set[str]) -> tuple[str, ...]:
    """The module of a projection in each layer; none where the node is no projection or reads another's tensor."""
    if node.op != "linear" or node.binding is None or node.binding.tied_when in on:
        return ()
    if "{L}" not in node.binding.module:
        return (node.binding.module,)
    return tuple(node.binding.module.replace("{L}", circuit.layer.replace("{i}", str(i))) for i in range(n_layers))


def _left_out(declared: Quantization, module: str, role: str | None) -> bool:
    return skipped_by(declared, module) is not None or (role == "head" and not declared.head)
