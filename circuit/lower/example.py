"""The example of a rule as an instance: nodes of Sigma on named edges, one a line, of no particular size.

    q = linear(h) role="q" weight=q4_1 bias=true
    kv_write(q, v) state=f32 head_dim=4 heads=2
    t:i32 = argmax(q)

Edges are f32 unless the name says another format. `role`, `weight` (a format) and `state` (a format) are of the node;
everything else is a parameter, written as TOML writes values.
"""

import re

import tomli

from circuit.errors import LoadError
from circuit.load.ops import OPS
from circuit.load.rules import Rule
from circuit.text import Source, problem_at
from circuit.tir.ir import Edge, Key, Node, State, Tir, Value, Weight

_LINE = re.compile(r"(?:(?P<outs>[\w:, ]+?) = )?(?P<op>\w+)\((?P<ins>[\w:, ]*)\)(?P<rest>.*)")
_WORD = re.compile(r"(\w+)=(\[[^\]]*\]|\"[^\"]*\"|\S+)")
DIM = 8


def example_of(rule: Rule) -> Tir:
    """The instance that the rule's example writes; a line that says nothing is a LoadError at the rule."""
    edges: dict[str, Edge] = {}
    nodes: list[Node] = []
    weights: list[Weight] = []
    states: list[State] = []

    def edge(name: str) -> int:
        key, _, format = name.strip().partition(":")
        edges.setdefault(key, Edge(name=key, rows="n", dim=DIM, format=format or "f32"))
        return list(edges).index(key)

    for place, line in enumerate(filter(None, map(str.strip, rule.example.splitlines()))):
        found = _LINE.fullmatch(line)
        if found is None or found["op"] not in OPS:
            message = f"rule `{rule.id}`: the example has `{line}`, which is no node"
            source = Source(path=rule.file, text="")
            raise LoadError(problem_at(source, rule.line, message, "write `out = op(in) name=value ...`"))
        words = dict(_WORD.findall(found["rest"]))
        use, op = OPS[found["op"]], found["op"]
        role, weight, state = words.pop("role", None), words.pop("weight", None), words.pop("state", None)
        own = [use.weights[0]] if weight else []
        own += list(use.optional_weights) if words.get("bias") == "true" else []
        inputs = tuple(edge(name) for name in found["ins"].split(","))
        outputs = tuple(edge(name) for name in (found["outs"] or "").split(",") if name)
        first, first_state = len(weights), len(states)
        for part in own:
            name = f"{place}.{part}"
            shape = (DIM, DIM) if part == "weight" else (DIM,)
            format = weight or "f32" if part == "weight" else "f32"
            weights.append(Weight(name=name, shape=shape, format=format, recipe=Key(key=name)))
        if state:
            states.append(State(name=f"{place}.kv", kind="paged_kv", heads=2, head_dim=4, format=state))
        nodes.append(
            Node(
                id=f"example.{place}",
                op=op,
                role=role.strip('"') if role else None,
                inputs=inputs,
                outputs=outputs,
                weights=tuple(range(first, len(weights))),
                states=tuple(range(first_state, len(states))),
                params=tuple(sorted((name, _value(text)) for name, text in words.items())),
                block="example",
            )
        )
    written = {e for node in nodes for e in node.outputs}
    read = {e for node in nodes for e in node.inputs}
    return Tir(
        arch="example",
        context=DIM,
        dims=(),
        edges=tuple(edges.values()),
        weights=tuple(weights),
        states=tuple(states),
        nodes=tuple(nodes),
        inputs=tuple(sorted(read - written)),
        outputs=tuple(sorted(written - read)),
    )


def _value(text: str) -> Value:
    value = tomli.loads(f"x = {text}")["x"]
    if isinstance(value, list):
        return tuple(float(part) for part in value)
    assert isinstance(value, bool | int | float | str), text
    return value
