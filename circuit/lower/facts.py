"""What a rule may ask of a node, as named facts, and whether a pattern element takes all of them (closed matching)."""

from circuit.load.rules import Accepted, Element
from circuit.tir.ir import Node, Tir, Value

Facts = tuple[tuple[str, tuple[Value, ...]], ...]
"""Sorted by name; a fact of several values (formats of two inputs) is accepted if each value is."""


def facts_of(tir: Tir, node: Node) -> Facts:
    """Role, formats of edges, weights and states, and every parameter. A linear's second weight is its bias."""
    n_own = 1 if node.op == "linear" else len(node.weights)
    found: dict[str, tuple[Value, ...]] = {
        "role": () if node.role is None else (node.role,),
        "reads": tuple(tir.edges[e].format for e in node.inputs),
        "writes": tuple(tir.edges[e].format for e in node.outputs),
        "weight": tuple(tir.weights[w].format for w in node.weights[:n_own]),
        "bias": tuple(tir.weights[w].format for w in node.weights[n_own:]),
        "state": tuple(tir.states[s].format for s in node.states),
    }
    found |= {f"param.{name}": (value,) for name, value in node.params}
    return tuple((name, values) for name, values in sorted(found.items()) if values)


def misfits(element: Element, op: str, facts: Facts) -> tuple[str, ...]:
    """Why the element does not take a node of `op` with these facts: one text a fact; empty if it does."""
    if element.op != op:
        return (f"it is for {element.op}",)
    accepts = dict(element.accepts)
    found = []
    for name, values in facts:
        taken = accepts.get(name, ())
        found += [f"it does not take {shown(name, value)}" for value in values if not _takes(taken, value)]
    return tuple(dict.fromkeys(found))


def shown(name: str, value: Value) -> str:
    """One value of a fact, for messages."""
    key = name.removeprefix("param.")
    match value:
        case tuple():
            return f"{key} of {len(value)} values"
        case bool():
            return f"{key} = {str(value).lower()}"
        case _:
            return f"{key} = {value}"


def _takes(accepted: Accepted, value: Value) -> bool:
    if accepted == "any":
        return True
    return any(type(other) is type(value) and other == value for other in accepted)
