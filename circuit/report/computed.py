"""What the launches of a plan compute, as named facts: launches with the same facts run the same program.

The facts are those that a kernel's program can depend on, but for the rows of the step, which are given at run time. So
kernels of two models can be compared fact by fact, and what is told is why they differ.
"""

import hashlib
import re
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from circuit.formats import INT8_G32
from circuit.lower.ir import Group, Kernel
from circuit.plan.ir import Plan
from circuit.plan.text import relative
from circuit.plan.wires import Wires
from circuit.sigma import OPS
from circuit.text import round_f32
from circuit.tir.ir import Node, Tir, Value, row_words

FactKind = Literal["chain", "dim", "format", "param", "policy", "plan"]
"""plan: what a plan says of the launch itself; chain: which ops, and which of their edges leave the launch; format: of
a weight; policy: a format that the policy states, of rows and of states; param: a parameter of an op."""

ADDRESSED = ("page_tables", "positions", "sample_positions")
"""Arrays of the step whose values are below the context."""


class Fact(Struct, frozen=True, kw_only=True):
    """One thing that a kernel is made for, under the op that it is of: `linear.weight`, `rms_norm#2.eps`."""

    name: str
    kind: FactKind
    value: str


class Computed(Struct, frozen=True, kw_only=True):
    """Launches of one plan that have the same rule, kernel and members but for the layer.

    `kernel` is its name in the plan; `members` are relative to the layer (`l{i}.attn.q`); `launches` are places in the
    plan, `layers` those that they are of.
    """

    rule: str
    numerics: str
    family: str
    point: str
    kernel: str
    section: str
    ops: tuple[str, ...]
    facts: tuple[Fact, ...]
    members: tuple[str, ...]
    layers: tuple[int, ...]
    launches: tuple[int, ...]


class Difference(Struct, frozen=True, kw_only=True):
    """One fact in which two kernels differ; "" where one of them has no such fact."""

    name: str
    kind: FactKind
    own: str
    other: str


def computed(tir: Tir, groups: tuple[Group, ...], wires: Wires, plan: Plan) -> tuple[Computed, ...]:
    """Everything that the plan computes, in the order of its launches. `groups` are those that it was made of, with
    their wires."""
    known: dict[int, tuple[Fact, ...]] = {}
    alike: dict[tuple[str, int, tuple[str, ...]], list[int]] = {}
    for place, launch in enumerate(plan.launches):
        members = tuple(relative(name, launch.layer) for name in launch.members)
        alike.setdefault((launch.rule, launch.kernel, members), []).append(place)
    found = []
    for (rule, at, members), places in alike.items():
        kernel, launch, group = plan.kernels[at], plan.launches[places[0]], groups[places[0]]
        if at not in known:
            known[at] = tuple(_facts(tir, group, kernel, wires))
        found.append(
            Computed(
                rule=rule,
                numerics=launch.numerics,
                family=kernel.family,
                point=kernel.point,
                kernel=kernel.name,
                section=launch.section,
                ops=tuple(tir.nodes[node].op for node in group.nodes),
                facts=known[at],
                members=members,
                layers=tuple(layer for p in places if (layer := plan.launches[p].layer) is not None),
                launches=tuple(places),
            )
        )
    return tuple(found)


def differences(one: Computed, other: Computed) -> tuple[Difference, ...]:
    """In what two kernels differ. Where their ops do, only what both have of the same op is compared; other ops are the
    policy's doing where one side has codes in place of rows."""
    own, there = ({fact.name: fact for fact in each.facts} for each in (one, other))
    names = list(dict.fromkeys((*own, *there)))
    found = []
    if one.ops != other.ops:
        kind: FactKind = "chain" if has_codes(one) == has_codes(other) else "policy"
        found.append(Difference(name="ops", kind=kind, own=" ".join(one.ops), other=" ".join(other.ops)))
        names = [name for name in names if name in own and name in there and not _of_chain(own[name])]
    for name in names:
        a, b = own.get(name), there.get(name)
        values = (a.value if a is not None else "", b.value if b is not None else "")
        if values[0] != values[1]:
            fact = a or there[name]
            found.append(Difference(name=name, kind=fact.kind, own=values[0], other=values[1]))
    return tuple(found)


def has_codes(part: Computed) -> bool:
    """Whether a row of it is codes with scales: what the policy of activations decides."""
    return any(fact.kind == "policy" and INT8_G32 in fact.value.split(" ") for fact in part.facts)


def _of_chain(fact: Fact) -> bool:
    """Whether the fact follows from which ops are in the launch: what leaves it, and beside what it is stored."""
    return fact.kind == "chain" or fact.name.endswith(".strides")


def numberless(name: str) -> str:
    """`linear.weight` for `linear#2.weight`: the fact of any op of the kind."""
    return re.sub(r"#[0-9]+", "", name)


def value_text(value: Value) -> str:
    """A parameter's value on one line; of many values, how many and a digest."""
    match value:
        case bool():
            return str(value).lower()
        case tuple():
            digest = hashlib.sha256(" ".join(each.hex() for each in value).encode()).hexdigest()
            return f"{len(value)} values {digest[:8]}"
        case float():
            short = (f"{value:.{digits}g}" for digits in range(1, 10))  # nine are enough for a float32
            return next((text for text in short if round_f32(float(text)) == value), value.hex())
        case int():
            return str(value)
        case str():
            return value


def _facts(tir: Tir, group: Group, kernel: Kernel, wires: Wires) -> Iterator[Fact]:
    nodes = [tir.nodes[place] for place in group.nodes]
    made = {edge for node in nodes for edge in node.outputs}
    yield Fact(name="wiring", kind="chain", value=_wiring(tir, group, nodes, wires))
    counts: dict[str, int] = {}
    for node in nodes:
        counts[node.op] = counts.get(node.op, 0) + 1
        label = node.op if counts[node.op] == 1 else f"{node.op}#{counts[node.op]}"
        yield from _of_node(tir, node, label, made)
        yield from _strides(tir, node, label, wires)
    if any(slot.kind == "step" and slot.name in ADDRESSED for slot in kernel.slots):
        yield Fact(name="context", kind="dim", value=str(tir.context))


def _of_node(tir: Tir, node: Node, label: str, made: set[int]) -> Iterator[Fact]:
    for name, value in node.params:
        yield Fact(name=f"{label}.{name}", kind="param", value=value_text(value))
    outside = [tir.edges[edge] for edge in node.inputs if edge not in made]
    outputs = [tir.edges[edge] for edge in node.outputs]
    for name, verb, edges in (("in", "reads", outside), ("out", "writes", outputs)):
        if edges:
            yield Fact(name=f"{label}.{name}", kind="dim", value=" ".join(str(edge.dim) for edge in edges))
            yield Fact(name=f"{label}.{verb}", kind="policy", value=" ".join(edge.format for edge in edges))
    for name, place in zip(OPS[node.op].weights, node.weights, strict=False):
        weight = tir.weights[place]
        yield Fact(name=f"{label}.{name}", kind="dim", value="x".join(map(str, weight.shape)))
        yield Fact(name=f"{label}.{name} format", kind="format", value=weight.format)
    for state in (tir.states[place] for place in node.states):
        yield Fact(name=f"{label}.{state.kind}", kind="dim", value=f"{state.heads}x{state.head_dim}")
        yield Fact(name=f"{label}.{state.kind} format", kind="policy", value=state.format)


def _strides(tir: Tir, node: Node, label: str, wires: Wires) -> Iterator[Fact]:
    """From row to row of a buffer that holds more than the edge; - where it does not."""
    edges = [edge for edge in (*node.inputs, *node.outputs) if edge in wires.home]
    strides = [(wires.columns[edge], row_words(tir.edges[edge])) for edge in edges]
    if any(stride != own for stride, own in strides):
        value = " ".join("-" if stride == own else str(stride) for stride, own in strides)
        yield Fact(name=f"{label}.strides", kind="dim", value=value)


def _wiring(tir: Tir, group: Group, nodes: list[Node], wires: Wires) -> str:
    """Edges by number in order of use: `rms_norm(0)=1 linear(1)=2*`; * leaves the launch, ' has rows with logits."""
    local: dict[int, str] = {}

    def edge(place: int) -> str:
        rows = "'" if tir.edges[place].rows == "m" else ""
        return local.setdefault(place, f"{len(local)}{rows}{'*' if place in wires.stored else ''}")

    parts = [f"{node.op}({','.join(map(edge, node.inputs))})={','.join(map(edge, node.outputs))}" for node in nodes]
    return " ".join(parts) + (" concat" if group.derived else "")
