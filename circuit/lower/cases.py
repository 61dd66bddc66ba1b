"""The instances that a relation is proven on: the example of its rule, at stated sizes, with every value it may meet.

A fact that a pattern lists, or that has a closed set of values (storage formats, a bias or none), takes each of them in
some case. Of a number that a pattern leaves open (`any`), two samples are taken. What a projection or a norm reduces is
two chunks of 256 and a tail; free outputs are few, and no multiple of a panel.
"""

from collections.abc import Iterator, Sequence
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from circuit.errors import PlanError, Problem
from circuit.formats import GROUP, INT8_G32, STATE_FORMATS
from circuit.load.rules import Element, Rule
from circuit.lower.example import example_of
from circuit.lower.fuse import matches
from circuit.lower.ir import Group
from circuit.sigma.storage import PANEL_FORMATS
from circuit.tir.ir import Edge, Key, Node, Tir, Value, Weight

Item = TypeVar("Item")


class Sizes(Struct, frozen=True, kw_only=True):
    """Sizes case by case, the last repeated: `reduced` is what a projection or a norm sums over, `rows` are those of
    the step. `free` are outputs of projections that nothing else sizes, in order of the edges.
    """

    reduced: tuple[int, ...]
    rows: tuple[int, ...]
    free: tuple[tuple[int, ...], ...]


DEFINITIONS = Sizes(reduced=(544, 544, 96), rows=(3, 2, 1), free=((5, 3, 4, 7), (5, 3, 4, 7), (3, 2, 1, 1)))
"""Two chunks of 256 and a tail in the first cases; later ones vary what a reduction cannot see, as how weights are
stored. All are whole blocks of 32, and no whole pairs of them.
"""

CONTEXT = 192

SAMPLES: dict[str, tuple[Value, ...]] = {
    "bias": (False, True),
    "eps": (1e-5, 0.25),
    "head_dim": (6, 4),
    "heads": (2, 3),
    "inv_freq": ((),),
    "rotary_dim": ("whole", "part", "part", "whole"),
    "scale": (1.0, 0.75),
}
"""Values for parameters that a pattern leaves open; `inv_freq` follows from `rotary_dim`."""

WIDE = (272, 6)
"""`head_dim` where each head is normed: a sum over it then fills more than two rounds of its 128 lanes."""


class Case(Struct, frozen=True, kw_only=True):
    """An instance on which the rule takes `group`, and the rows of its step. `shape` says in words what it is."""

    tir: Tir
    group: Group
    rows: int
    shape: str


def cases_of(rule: Rule, sizes: Sizes = DEFINITIONS) -> tuple[Case, ...]:
    """The cases of a rule; one whose example does not fire at some case is a PlanError at the rule."""
    example = example_of(rule)
    members = _members(rule, example)
    facts = [fact for element, node in zip(rule.pattern, members, strict=True) for fact in _facts(rule, element, node)]
    count = max((len(values) for _, _, values in facts), default=1)
    return tuple(_case(rule, example, members, facts, k, sizes) for k in range(count))


Fact = tuple[int, str, tuple[Value, ...]]
"""A node, the name of a fact of it, and the values that it takes in turn."""


def _members(rule: Rule, tir: Tir) -> tuple[int, ...]:
    """The nodes of the example that the pattern's elements take, in the pattern's order."""
    groups = matches(tir, rule)
    if len(groups) != 1 or len(groups[0].nodes) != len(rule.pattern):
        raise _refuse(rule, "its example does not fire", "write an example that has each element of the pattern once")
    left = list(groups[0].nodes)
    found = []
    for element in rule.pattern:
        place = next(n for n in left if tir.nodes[n].op == element.op)
        left.remove(place)
        found.append(place)
    return tuple(found)


def _facts(rule: Rule, element: Element, node: int) -> Iterator[Fact]:
    """What varies from case to case in one member."""
    for name, accepted in element.accepts:
        key = name.removeprefix("param.")
        if name == "weight" and element.op == "linear":
            yield node, "weight", PANEL_FORMATS if accepted == "any" else accepted
        elif name == "state":
            yield node, "state", STATE_FORMATS if accepted == "any" else accepted
        elif name.startswith("param.") and accepted != "any":
            yield node, key, accepted
        elif name.startswith("param."):
            if key not in SAMPLES:
                message = f"no sample values are known for parameter `{key}`, which its pattern leaves open"
                raise _refuse(rule, message, "list the values it takes, or add samples to `circuit/lower/cases.py`")
            yield node, key, _samples(rule, key)


def _samples(rule: Rule, key: str) -> tuple[Value, ...]:
    normed = any(e.op == "rms_norm" and dict(e.accepts).get("param.heads") == "any" for e in rule.pattern)
    return WIDE if key == "head_dim" and normed else SAMPLES[key]


def _case(rule: Rule, example: Tir, members: Sequence[int], facts: list[Fact], k: int, sizes: Sizes) -> Case:
    chosen = {(node, key): values[k % len(values)] for node, key, values in facts}
    formats = {node: str(value) for (node, key), value in chosen.items() if key == "weight"}
    head_dim = next((v for (_, key), v in chosen.items() if key == "head_dim"), _samples(rule, "head_dim")[k % 2])
    nodes = list(example.nodes)
    for place in members:
        own = {key: value for (node, key), value in chosen.items() if node == place}
        values = {key: value for key, value in own.items() if key not in ("weight", "state")}
        nodes[place] = replace(nodes[place], params=_params(nodes[place], values))
    assert isinstance(head_dim, int), head_dim
    dims = _dims(example, nodes, head_dim, _at(sizes.reduced, k), _at(sizes.free, k))
    tir = _sized(example, nodes, dims, head_dim, formats)
    stored = {place: str(chosen[node, "state"]) for node in members for place in nodes[node].states}
    tir = replace(
        tir, states=tuple(replace(s, format=stored.get(place, s.format)) for place, s in enumerate(tir.states))
    )
    group = matches(tir, rule)
    if len(group) != 1 or len(group[0].nodes) != len(rule.pattern):
        raise _refuse(rule, f"it does not fire at case {k}", "write an example that fires at every value it takes")
    words = [f"{edge.name}={edge.dim}" for edge in tir.edges]
    words += [f"{tir.nodes[n].op}.{key}={_word(value)}" for (n, key), value in chosen.items() if key != "inv_freq"]
    words = list(dict.fromkeys(words))
    return Case(tir=tir, group=group[0], rows=_at(sizes.rows, k), shape=" ".join(words))


def _params(node: Node, values: dict[str, Value]) -> tuple[tuple[str, Value], ...]:
    """The node's parameters with the chosen values; those of a rotation agree with each other."""
    params = dict(node.params) | values
    if node.op == "rope":
        head_dim, rotary = params["head_dim"], params["rotary_dim"]
        assert isinstance(head_dim, int), head_dim
        if isinstance(rotary, str):
            rotary = head_dim if rotary == "whole" else head_dim // 4 * 2 or 2
        assert isinstance(rotary, int), rotary
        params |= {"rotary_dim": rotary, "inv_freq": tuple(0.5**i for i in range(rotary // 2))}
    return tuple(sorted(params.items()))


def _dims(tir: Tir, nodes: list[Node], head_dim: int, wide: int, widths: tuple[int, ...]) -> list[int]:
    """A width for every edge: what ops demand, what is reduced, then what is free."""
    same = list(range(len(tir.edges)))
    given: dict[int, int] = {}
    reduced: set[int] = set()

    def root(edge: int) -> int:
        while same[edge] != edge:
            edge = same[edge]
        return edge

    def demand(edge: int, dim: int) -> None:
        assert given.setdefault(root(edge), dim) == dim, f"{tir.edges[edge].name}: {given[root(edge)]} and {dim}"

    for node in nodes:
        if node.op not in ("linear", "argmax", "sample", "log_sum_exp", "embed"):
            for edge in (*node.inputs, *node.outputs):
                same[root(edge)] = root((*node.inputs, *node.outputs)[0])
    for node in nodes:
        params = dict(node.params)
        heads = params.get("heads")
        if node.op in ("rope", "kv_write") or (node.op == "rms_norm" and heads != 1):
            assert isinstance(heads, int), heads
            demand(node.inputs[0], heads * head_dim)
        elif node.op in ("rms_norm", "linear", "act_quant"):
            reduced.add(root(node.inputs[0]))
    coded = {root(edge) for edge, record in enumerate(tir.edges) if record.format == INT8_G32}
    free = iter(widths)
    found: dict[int, int] = {}
    for edge in range(len(tir.edges)):
        at = root(edge)
        if at not in found:
            groups = GROUP if at in coded else 1
            found[at] = given.get(at) or (-(-wide // groups) * groups if at in reduced else next(free))
    return [found[root(edge)] for edge in range(len(tir.edges))]


def _sized(tir: Tir, nodes: list[Node], dims: list[int], head_dim: int, formats: dict[int, str]) -> Tir:
    """The instance at these widths. Its inputs are edges like any other: what is there stands for any producer."""
    weights: list[Weight] = []
    sized: list[Node] = []
    for place, node in enumerate(nodes):
        params = dict(node.params)
        shapes: list[tuple[int, ...]] = []
        if node.op == "linear":
            shapes = [(dims[node.outputs[0]], dims[node.inputs[0]])]
            shapes += [(dims[node.outputs[0]],)] if params["bias"] else []
        elif node.op == "rms_norm":
            heads = params["heads"]
            assert isinstance(heads, int), heads
            shapes = [(dims[node.inputs[0]] // heads,)]
        first = len(weights)
        for part, shape in zip(("weight", "bias"), shapes, strict=False):
            old = tir.weights[node.weights[0]]
            name = f"{place}.{part}"
            format = formats.get(place, old.format) if len(shape) == 2 else "f32"
            recipe = Key(key=name)
            weights.append(replace(old, name=name, shape=shape, format=format, recipe=recipe))
        sized.append(replace(node, weights=tuple(range(first, len(weights)))))
    of_state = next((dict(node.params) for node in nodes if node.states), {})
    kv_heads = of_state.get("kv_heads", of_state.get("heads", 1))
    assert isinstance(kv_heads, int), kv_heads
    return replace(
        tir,
        context=CONTEXT,
        edges=tuple(
            Edge(name=e.name, rows=e.rows, dim=dim, format=e.format) for e, dim in zip(tir.edges, dims, strict=True)
        ),
        weights=tuple(weights),
        states=tuple(replace(state, heads=kv_heads, head_dim=head_dim) for state in tir.states),
        nodes=tuple(sized),
        inputs=(),
    )


def _at(values: tuple[Item, ...], k: int) -> Item:
    return values[min(k, len(values) - 1)]


def _word(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _refuse(rule: Rule, message: str, fix: str) -> PlanError:
    return PlanError(Problem(message=f"rule `{rule.id}`: {message}", fix=fix, file=rule.file, line=rule.line))
