"""Circuits of one act_quant or of one linear on its rows, and the words that their definitions make."""

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from circuit.formats import FORMATS, INT8_G32
from circuit.lower.ir import Definition, Group
from circuit.lower.realize import Wiring, define
from circuit.tir.ir import Edge, Key, Node, Tir, Weight, row_words
from circuit.uop.build import group
from circuit.uop.evaluate import evaluate
from circuit.uop.scalar import Value
from circuit_exec.checkpoint.raw import Bytes
from circuit_exec.pack import pack_panels

F32 = NDArray[np.float32]
U32 = NDArray[np.uint32]
PANEL = 48


class Coded(Struct, frozen=True, kw_only=True, eq=False):
    """Rows of act_quant: scales and sums [rows, groups], codes [rows, groups, 32]."""

    scales: F32
    sums: NDArray[np.int32]
    codes: NDArray[np.int8]


class OneOp(Struct, frozen=True, kw_only=True, eq=False):
    """The definition of the one node, its buffers and scalars by slot, and the slot and width of what it writes."""

    definition: Definition
    buffers: dict[int, list[Value]]
    scalars: dict[int, Value]
    out: int
    width: int


def codes_of(words: U32) -> Coded:
    """Stored rows, read."""
    groups = np.ascontiguousarray(words).reshape(len(words), -1, 10)
    codes = np.ascontiguousarray(groups[..., :8]).view(np.int8)
    return Coded(scales=groups[..., 8].copy().view(np.float32), sums=groups[..., 9].copy().view(np.int32), codes=codes)


def stored_row(rows: Coded) -> U32:
    """Rows, as act_quant stores them."""
    heads = [rows.scales.view(np.uint32)[..., None], rows.sums.view(np.uint32)[..., None]]
    codes = np.ascontiguousarray(rows.codes).view(np.uint32)
    return np.concatenate([codes, *heads], axis=2).reshape(len(rows.scales), -1)


def quant_case(x: F32) -> OneOp:
    """act_quant of rows."""
    node = Node(id="node", op="act_quant", inputs=(0,), outputs=(1,), params=(("format", INT8_G32),), block="test")
    edges = _edges(x.shape[1], "f32", x.shape[1], INT8_G32)
    return _case(node, edges, (), [x.reshape(-1).tolist()], len(x))


def linear_case(x: U32, format: str, stored: Bytes, bias: F32 | None = None) -> OneOp:
    """A projection of stored rows. stored: [outputs, bytes] of a block format."""
    n, k = len(stored), stored.shape[1] // FORMATS[format].block_bytes * FORMATS[format].block
    weights = [Weight(name="w", shape=(n, k), format=format, recipe=Key(key="w"))]
    given = [x.reshape(-1).tolist(), pack_panels(stored, format, k, PANEL).tolist()]
    if bias is not None:
        weights.append(Weight(name="b", shape=(n,), format="f32", recipe=Key(key="b")))
        given.append(bias.tolist())
    node = Node(
        id="node",
        op="linear",
        role="o",
        inputs=(0,),
        outputs=(1,),
        weights=tuple(range(len(weights))),
        params=(("bias", bias is not None),),
        block="test",
    )
    return _case(node, _edges(k, INT8_G32, n, "f32"), tuple(weights), given, len(x))


def run_words(case: OneOp) -> U32:
    """[rows, words] that the definition writes, by the evaluator."""
    buffers = {slot: list(values) for slot, values in case.buffers.items()}
    evaluate(group(*case.definition.effects), buffers, case.scalars)
    values = np.array(buffers[case.out])
    kind = np.uint32 if values.dtype.kind in "iu" else np.float32
    return values.astype(kind).view(np.uint32).reshape(-1, case.width)


def _edges(dim_in: int, format_in: str, dim_out: int, format_out: str) -> tuple[Edge, ...]:
    return (
        Edge(name="x", rows="n", dim=dim_in, format=format_in),
        Edge(name="y", rows="n", dim=dim_out, format=format_out),
    )


def _case(
    node: Node, edges: tuple[Edge, ...], weights: tuple[Weight, ...], given: list[list[Value]], rows: int
) -> OneOp:
    tir = Tir(
        arch="test",
        context=64,
        dims=(),
        edges=edges,
        weights=weights,
        states=(),
        nodes=(node,),
        inputs=(),
        outputs=(1,),
    )
    columns = {place: row_words(edge) for place, edge in enumerate(edges)}
    wiring = Wiring(stored=frozenset((1,)), columns=columns, rows_hi=max(rows, 1), panel=PANEL)
    made = define(tir, Group(rule=node.op, family="test", numerics="reference", nodes=(0,)), wiring)
    buffers: dict[int, list[Value]] = {}
    scalars: dict[int, Value] = {}
    left = iter(given)
    out = 0
    for slot in made.slots:
        match slot.kind:
            case "in" | "weight":
                buffers[slot.slot] = next(left)
            case "out":
                out, buffers[slot.slot] = slot.slot, [0] * (rows * slot.columns)
            case _:
                scalars[slot.slot] = rows
    return OneOp(definition=made, buffers=buffers, scalars=scalars, out=out, width=row_words(edges[1]))
