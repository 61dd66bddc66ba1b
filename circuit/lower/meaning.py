"""What a node means for one row, as a program over decoded weights: no rule, kernel or storage format in it."""

from circuit.lower.steps import LARGEST_INDEX, pages_limit, step_array
from circuit.sigma import OPS
from circuit.sigma.attention import page_words
from circuit.sigma.op import Room, Use
from circuit.tir.ir import Node, Tir
from circuit.uop.build import i32, loop, param
from circuit.uop.node import DType, UOp

TYPES = {"f32": DType.F32, "i32": DType.I32}
ROWS = 1
"""Rows of the arrays of the step: a definition is for one row, so any number would do."""


def meaning_of(tir: Tir, node: Node) -> tuple[UOp, ...]:
    """The node's definition, applied to parameters: its outputs, or where it writes what."""
    kind = OPS[node.op]
    slots = iter(range(len(node.inputs) + len(node.weights) + len(node.states) + len(kind.step_inputs)))
    inputs = []
    for place in node.inputs:
        edge = tir.edges[place]
        inputs.append(param(next(slots), TYPES[edge.format], (edge.dim,), "in"))
    weights = tuple(param(next(slots), DType.F32, tir.weights[w].shape, "weight") for w in node.weights)
    rooms = []
    for place in node.states:
        state = tir.states[place]
        words = min(pages_limit(tir) * page_words(state.heads, state.head_dim), LARGEST_INDEX)
        storage = param(next(slots), DType.F32, (words,), "state")
        rooms.append(Room(words=storage, heads=state.heads, head_dim=state.head_dim))
    use = Use(
        row=loop("row", i32(ROWS)),
        inputs=tuple(inputs),
        weights=weights,
        states=tuple(rooms),
        step={name: step_array(tir, ROWS, name, next(slots)) for name in kind.step_inputs},
        params=dict(node.params),
        context=tir.context,
    )
    if kind.writes is not None:
        return tuple(part for writes in kind.writes(use) for part in (writes.place, writes.value))
    assert kind.define is not None, node.op
    return kind.define(use)
