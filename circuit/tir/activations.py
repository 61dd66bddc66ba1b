"""The policy `activations`: projections that read integer rows, and the act_quant nodes that make them.

With int8/g32, an edge that a served projection reads gets one act_quant, before its first reader, and every served
reader of it reads the codes. Served is a projection whose weight is stored as integer codes with one scale for each 32
inputs; every other one goes on reading the f32 row. This changes numerics, so it is done where the policy asks for it
alone; the ops that result define their own, and rules and kernels keep those to the byte.
"""

from msgspec.structs import replace

from circuit.formats import GROUP, INT8_G32
from circuit.load.policy import Policy, policy_value
from circuit.sigma.storage_coded import CODED_FORMATS
from circuit.text import listed
from circuit.tir.ir import Edge, Node, Tir
from circuit.tir.verify import verify


def with_activations(tir: Tir, policy: Policy) -> Tir:
    """The circuit that computes what the policy asks for."""
    if policy_value(policy, "activations") != "int8/g32":
        return tir
    edges = list(tir.edges)
    nodes: list[Node] = []
    coded: dict[int, int] = {}
    for node in tir.nodes:
        if node.op != "linear" or why_not_coded(tir, node):
            nodes.append(node)
            continue
        source = node.inputs[0]
        if source not in coded:
            coded[source] = len(edges)
            edges.append(replace(tir.edges[source], name=f"{tir.edges[source].name}.codes", format=INT8_G32))
            nodes.append(_act_quant(node, edges, source, coded[source]))
        nodes.append(replace(node, inputs=(coded[source],)))
    return verify(replace(tir, edges=tuple(edges), nodes=tuple(nodes)))


def why_not_coded(tir: Tir, node: Node) -> str | None:
    """Why a projection cannot read an integer row; None where it can."""
    weight = tir.weights[node.weights[0]]
    if tir.edges[node.inputs[0]].format != "f32":
        return f"it reads {tir.edges[node.inputs[0]].format} already"
    return _not_codes(weight.format) if weight.format not in CODED_FORMATS else None


def activation_notes(tir: Tir, policy: Policy) -> tuple[str, ...]:
    """What the policy came to: how many projections read integer rows, and why each other kind does not."""
    if policy_value(policy, "activations") != "int8/g32":
        return ()
    linears = [node for node in tir.nodes if node.op == "linear"]
    coded = [node for node in linears if tir.edges[node.inputs[0]].format == INT8_G32]
    found = [f"activations: {len(coded)} of {len(linears)} projections read {INT8_G32} rows"]
    others: dict[str, list[Node]] = {}
    for node in linears:
        if node not in coded:
            others.setdefault(tir.weights[node.weights[0]].format, []).append(node)
    for format, nodes in others.items():
        more = f" and {len(nodes) - 1} more" if len(nodes) > 1 else ""
        found.append(f"activations: {nodes[0].id}{more} read f32 rows: {_not_codes(format)}")
    return tuple(found)


def _not_codes(format: str) -> str:
    said = "is not codes under one scale for each"
    return f"a weight stored as {format} {said} {GROUP} inputs, as {listed(CODED_FORMATS)} are"


def _act_quant(reader: Node, edges: list[Edge], source: int, made: int) -> Node:
    """The node that makes the codes for its first reader, in that one's block."""
    name = edges[source].name
    return Node(
        id=f"{name}.act_quant",
        op="act_quant",
        inputs=(source,),
        outputs=(made,),
        params=(("format", INT8_G32),),
        layer=reader.layer,
        block=reader.block,
        section=reader.section,
    )
