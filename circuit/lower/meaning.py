"""What a node means for one row, as a program over decoded weights: no rule, kernel or storage format in it."""

from collections.abc import Iterator
from itertools import count

from circuit.formats import GROUP, INT8_G32
from circuit.lower.steps import room_of, step_array
from circuit.sigma import OPS
from circuit.sigma.op import Coded, Use
from circuit.sigma.storage_coded import CODINGS
from circuit.tir.ir import Node, Tir, row_words
from circuit.uop.build import i32, loop, param
from circuit.uop.node import DType, UOp

TYPES = {"f32": DType.F32, "i32": DType.I32, INT8_G32: DType.U32}
ROWS = 1
"""Rows of the arrays of the step: a definition is for one row, so any number would do."""


def meaning_of(tir: Tir, node: Node) -> tuple[UOp, ...]:
    """The node's definition, applied to parameters: its outputs, or where it writes what."""
    kind = OPS[node.op]
    slots = count()
    inputs = []
    for place in node.inputs:
        edge = tir.edges[place]
        inputs.append(param(next(slots), TYPES[edge.format], (row_words(edge),), "in"))
    coded = _coded(tir, node, slots) if reads_codes(tir, node) else None
    decoded = node.weights[coded is not None :]
    weights = tuple(param(next(slots), DType.F32, tir.weights[w].shape, "weight") for w in decoded)
    rooms = tuple(room_of(tir, tir.states[place], next(slots)) for place in node.states)
    use = Use(
        row=loop("row", i32(ROWS)),
        inputs=tuple(inputs),
        weights=weights,
        states=rooms,
        step={name: step_array(tir, ROWS, name, next(slots)) for name in kind.step_inputs},
        params=dict(node.params),
        context=tir.context,
        coded=coded,
    )
    if kind.writes is not None:
        return tuple(part for writes in kind.writes(use) for part in (writes.place, writes.value))
    assert kind.define is not None, node.op
    return kind.define(use)


def reads_codes(tir: Tir, node: Node) -> bool:
    """Whether the node is a projection of integers: then what its weight's codes are is part of its meaning."""
    return node.op == "linear" and tir.edges[node.inputs[0]].format == INT8_G32


def _coded(tir: Tir, node: Node, slots: Iterator[int]) -> Coded:
    weight = tir.weights[node.weights[0]]
    n, k = weight.shape
    scales = (n, k // GROUP)
    coding = CODINGS[weight.format]
    return Coded(
        codes=param(next(slots), DType.I32, (n, k), "codes"),
        scales=param(next(slots), DType.F32, scales, "scales"),
        minima=param(next(slots), DType.F32, scales, "minima") if coding.minima else None,
        zero=coding.zero,
    )
