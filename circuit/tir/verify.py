"""What must hold in every typed circuit: places in range, edges written before read, and each op's shapes."""

from collections.abc import Iterator

from circuit.errors import PlanError, Problem
from circuit.formats import EDGE_FORMATS, GROUP, INT8_G32, STATE_FORMATS
from circuit.load.ops import OPS, SECTIONS, STATE_KINDS
from circuit.text import listed
from circuit.tir.ir import Edge, Node, State, Tir, Value, Weight


def verify(tir: Tir) -> Tir:
    """The same circuit, or a PlanError with every problem."""
    return _refused(tir, _problems(tir))


def verify_states(tir: Tir) -> Tir:
    """The same of a circuit that differs in its states from one that was verified."""
    return _refused(tir, _states(tir))


def _refused(tir: Tir, messages: Iterator[str]) -> Tir:
    problems = tuple(Problem(message=message, fix="correct the typed circuit") for message in messages)
    if problems:
        raise PlanError(problems)
    return tir


def _problems(tir: Tir) -> Iterator[str]:
    in_range = True
    for node in tir.nodes:
        for what, places, count in (
            ("edge", (*node.inputs, *node.outputs), len(tir.edges)),
            ("weight", node.weights, len(tir.weights)),
            ("state", node.states, len(tir.states)),
        ):
            for place in places:
                if not 0 <= place < count:
                    in_range = False
                    yield f"{node.id}: there is no {what} {place}"
    for place in (*tir.inputs, *tir.outputs):
        if not 0 <= place < len(tir.edges):
            in_range = False
            yield f"there is no edge {place} to be given or left"
    if not in_range:
        return
    yield from _order(tir)
    for node in tir.nodes:
        yield from (f"{node.id}: {message}" for message in _node(tir, node))
    for edge in tir.edges:
        if edge.rows not in ("n", "m") or edge.dim < 1 or edge.format not in EDGE_FORMATS:
            yield f"edge {edge.name}: {edge.rows} x {edge.dim} in {edge.format} is no edge type"
    yield from _states(tir)


def _states(tir: Tir) -> Iterator[str]:
    for state in tir.states:
        if state.kind not in STATE_KINDS or state.format not in STATE_FORMATS:
            yield f"state {state.name}: {state.kind} in {state.format} is no state type"


def _order(tir: Tir) -> Iterator[str]:
    written = set(tir.inputs)
    read: set[int] = set()
    weights: set[int] = set()
    for node in tir.nodes:
        for place in node.inputs:
            if place not in written:
                yield f"{node.id}: reads {tir.edges[place].name} before it is written"
            read.add(place)
        for place in node.outputs:
            if place in written:
                yield f"{node.id}: writes {tir.edges[place].name} a second time"
            written.add(place)
        weights.update(node.weights)
    for place, edge in enumerate(tir.edges):
        if place not in written:
            yield f"edge {edge.name} is never written"
        elif place not in read and place not in tir.outputs:
            yield f"edge {edge.name} is neither read nor an output"
    for place, weight in enumerate(tir.weights):
        if place not in weights:
            yield f"weight {weight.name} is read by no node"


def _node(tir: Tir, node: Node) -> Iterator[str]:
    use = OPS.get(node.op)
    if use is None:
        yield f"unknown op {node.op}"
        return
    if (node.role or "") not in (use.roles or ("",)):
        yield f"{node.op} has no role {node.role}"
    if node.section not in SECTIONS:
        yield f"unknown section {node.section}"
    names = tuple(name for name, _ in node.params)
    wanted = tuple(name for name, _ in use.params)
    if names != wanted:
        yield f"has the params {listed(names)}; {node.op} has {listed(wanted)}"
        return
    types = dict(use.params)
    for name, value in node.params:
        if not _is(value, types[name]):
            yield f"param {name} is {value!r}, {types[name]} is expected"
            return
    if len(node.inputs) != use.inputs or len(node.outputs) != use.outputs or len(node.states) != use.state:
        yield f"{node.op} takes {use.inputs} edges, gives {use.outputs} and has {int(use.state)} states"
        return
    inputs = tuple(tir.edges[place] for place in node.inputs)
    outputs = tuple(tir.edges[place] for place in node.outputs)
    weights = tuple(tir.weights[place] for place in node.weights)
    states = tuple(tir.states[place] for place in node.states)
    yield from _shapes(node, dict(node.params), inputs, outputs, weights, states)


def _is(value: Value, wanted: str) -> bool:
    match wanted:
        case "bool":
            return isinstance(value, bool)
        case "int":
            return isinstance(value, int) and not isinstance(value, bool)
        case "float":
            return isinstance(value, float)
        case "str":
            return isinstance(value, str)
        case _:
            return isinstance(value, tuple)


def _shapes(
    node: Node,
    params: dict[str, Value],
    inputs: tuple[Edge, ...],
    outputs: tuple[Edge, ...],
    weights: tuple[Weight, ...],
    states: tuple[State, ...],
) -> Iterator[str]:
    def number(name: str) -> int:
        value = params[name]
        assert isinstance(value, int)
        return value

    def want(what: str, found: object, wanted: object) -> Iterator[str]:
        if found != wanted:
            yield f"{what} is {found}, {wanted} is expected"

    first = inputs[0]
    shapes = tuple(weight.shape for weight in weights)
    dims = tuple(edge.dim for edge in inputs)
    rows = outputs[0].rows if outputs else first.rows
    wanted_rows = "m" if node.op == "index_select" else first.rows
    yield from want("rows", rows, wanted_rows)
    match node.op:
        case "embed":
            yield from want("weight", tuple(shape[1:] for shape in shapes), ((outputs[0].dim,),))
        case "rms_norm":
            yield from want("output", outputs[0].dim, first.dim)
            heads = number("heads")
            if heads < 1 or first.dim % heads:
                yield f"{first.dim} values are not {heads} heads"
            else:
                yield from want("weight", shapes, ((first.dim // heads,),))
        case "act_quant":
            yield from want("output", (outputs[0].dim, outputs[0].format), (first.dim, params["format"]))
            yield from want("format", params["format"], INT8_G32)
            if first.dim % GROUP:
                yield f"{first.dim} values are not whole groups of {GROUP}"
        case "linear":
            bias = ((outputs[0].dim,),) if params["bias"] else ()
            yield from want("weight", shapes, ((outputs[0].dim, first.dim), *bias))
        case "rope":
            size, turned, freqs = number("head_dim"), number("rotary_dim"), params["inv_freq"]
            assert isinstance(freqs, tuple)
            yield from want("input", first.dim, number("heads") * size)
            yield from want("output", outputs[0].dim, first.dim)
            yield from want("inv_freq", len(freqs), turned // 2)
            if turned % 2 or not 0 < turned <= size:
                yield f"rotary_dim is {turned} of {size}"
        case "kv_write":
            wanted = number("heads") * number("head_dim")
            yield from want("input", dims, (wanted, wanted))
            yield from want("state", (states[0].heads, states[0].head_dim), (number("heads"), number("head_dim")))
        case "attention":
            heads, kv_heads, size = number("heads"), number("kv_heads"), number("head_dim")
            yield from want("input", first.dim, heads * size)
            yield from want("output", outputs[0].dim, heads * size)
            yield from want("state", (states[0].heads, states[0].head_dim), (kv_heads, size))
            if kv_heads < 1 or heads % kv_heads:
                yield f"{heads} heads do not share {kv_heads} heads of keys"
        case "glu" | "residual_add":
            yield from want("input", dims, (outputs[0].dim, outputs[0].dim))
        case "index_select":
            yield from want("output", outputs[0].dim, first.dim)
        case "argmax" | "sample":
            yield from want("output", (outputs[0].dim, outputs[0].format), (1, "i32"))
        case "log_sum_exp":
            yield from want("output", (outputs[0].dim, outputs[0].format), (2, "f32"))
        case _:
            raise AssertionError(f"no shape rule for {node.op}")
