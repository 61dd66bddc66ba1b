"""Runs the definition of one op with the evaluator: a circuit of one node, its kernel's definition, buffers by slot."""

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from circuit.lower.ir import Definition, Group
from circuit.lower.realize import Wiring, define
from circuit.sigma import OPS
from circuit.sigma.page import page_words
from circuit.tir.ir import Edge, Key, Node, State, Tir, Value, Weight
from circuit.uop.build import group
from circuit.uop.evaluate import evaluate

F32 = NDArray[np.float32]
Numbers = NDArray[np.float32] | NDArray[np.int32]
Cells = list[int | float]
Step = Mapping[str, Sequence[int] | Sequence[float]]
CONTEXT = 640
PANEL = 48


class Case(Struct, frozen=True, kw_only=True):
    """One op on some rows. `weights` are (values, shape) with 2-D ones given as baked f32 words by `panel_f32`.

    `stored` is the format of the state, whose pool is `pool`.
    """

    op: str
    inputs: Sequence[F32]
    dims_out: Sequence[int]
    params: Mapping[str, Value]
    weights: Sequence[F32] = ()
    step: Step | None = None
    heads: int = 0
    head_dim: int = 0
    pool: Cells | None = None
    stored: str = "f32"
    rows: int = 0


def definition(case: Case) -> Definition:
    """The kernel's definition of the case's only node."""
    n_in = len(case.inputs)
    edges = [Edge(name="tokens", rows="n", dim=1, format="i32")]
    edges += [Edge(name=f"x{k}", rows="n", dim=x.shape[1], format="f32") for k, x in enumerate(case.inputs)]
    rows = "m" if case.op in ("index_select", "argmax", "sample", "log_sum_exp") else "n"
    format_out = "i32" if case.op in ("argmax", "sample") else "f32"
    edges += [Edge(name=f"y{k}", rows=rows, dim=d, format=format_out) for k, d in enumerate(case.dims_out)]
    table = Weight(name="table", shape=(300, 8), format="f32", recipe=Key(key="table"))
    weights = [
        Weight(name=f"w{k}", shape=w.shape, format="f32", recipe=Key(key=f"w{k}")) for k, w in enumerate(case.weights)
    ]
    heads, head_dim = case.heads or 1, case.head_dim or 2
    states = [State(name="kv", kind="paged_kv", heads=heads, head_dim=head_dim, format=case.stored)]
    embed = Node(id="embed", op="embed", inputs=(0,), outputs=(), weights=(len(weights),), block="embedding")
    node = Node(
        id="node",
        op=case.op,
        inputs=(0,) if case.op == "embed" else tuple(range(1, n_in + 1)),
        outputs=tuple(range(n_in + 1, n_in + 1 + len(case.dims_out))),
        weights=tuple(range(len(weights))),
        states=(0,) if OPS[case.op].state else (),
        params=tuple(sorted(case.params.items())),
        block="test",
    )
    tir = Tir(
        arch="test",
        context=CONTEXT,
        dims=(),
        edges=tuple(edges),
        weights=(*weights, table),
        states=tuple(states),
        nodes=(embed, node),
        inputs=(0,),
        outputs=node.outputs,
    )
    wiring = Wiring(
        stored=frozenset(node.outputs),
        columns={k: edge.dim for k, edge in enumerate(edges)},
        rows_hi=max(case.rows, *(len(x) for x in case.inputs), 1) if case.inputs else max(case.rows, 1),
        panel=PANEL,
    )
    return define(tir, Group(rule=case.op, family="test", numerics="reference", nodes=(1,)), wiring)


def prepared(case: Case) -> tuple[Definition, dict[int, Cells], dict[int, int | float]]:
    """The definition, its buffers and its scalars, by slot."""
    made = definition(case)
    rows = case.rows or len(case.inputs[0])
    buffers: dict[int, Cells] = {}
    scalars: dict[int, int | float] = {}
    step = dict(case.step or {})
    for slot in made.slots:
        match slot.kind:
            case "in":
                buffers[slot.slot] = case.inputs[slot.place].reshape(-1).tolist()
            case "out":
                buffers[slot.slot] = [0.0] * (rows * slot.columns)
            case "weight":
                buffers[slot.slot] = _baked(case.weights[slot.place])
            case "state":
                assert case.pool is not None
                buffers[slot.slot] = case.pool
            case "step" if slot.name in ("n", "m"):
                scalars[slot.slot] = rows
            case "step":
                buffers[slot.slot] = list(step[slot.name])
            case kind:
                raise AssertionError(f"one op has no {kind}")
    return made, buffers, scalars


def run(case: Case) -> list[Numbers]:
    """The outputs, [rows, dim] each; a state's pool is changed in place."""
    made, buffers, scalars = prepared(case)
    evaluate(group(*made.effects), buffers, scalars)
    rows = case.rows or len(case.inputs[0])
    outputs = [np.array(buffers[slot.slot]).reshape(rows, -1) for slot in made.slots if slot.kind == "out"]
    if case.op in ("argmax", "sample"):
        return [values.astype(np.int32) for values in outputs]
    return [values.astype(np.float32) for values in outputs]


def pool_of(pages: int, heads: int, head_dim: int, format: str = "f32") -> Cells:
    """The words of an empty pool."""
    return [0] * (pages * page_words(format, heads, head_dim))


def _baked(values: F32) -> Cells:
    """A vector as it is; a matrix as f32 words in panels, written out from the layout's table."""
    if values.ndim == 1:
        return list(map(float, values))
    n, k = values.shape
    panels = -(-n // PANEL)
    words = np.zeros((panels, k, PANEL), dtype=np.uint32)
    bits = values.view(np.uint32)
    for j in range(n):
        words[j // PANEL, :, j % PANEL] = bits[j]
    return list(map(int, words.reshape(-1)))
