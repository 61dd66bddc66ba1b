"""The two sides of a relation on one case: the fused group's definition, and its members' one after the other.

Both are run on one Dag. Edges between members of the chain are stored and loaded again, which changes no f32 value, so
they are transparent; weights resolve through concatenated recipes to the words of the tensors they come from; states
and page tables resolve to the words that are read and written.
"""

from collections.abc import Iterator

from msgspec import Struct

from circuit.formats import FORMATS, halves_together
from circuit.lower.cases import Case
from circuit.lower.ir import Definition, Group, Slot
from circuit.lower.realize import FORMATS as FORMATS_OF_EDGES
from circuit.lower.realize import Wiring, define
from circuit.lower.weights import weights_of
from circuit.sigma.page import page_words, pages_of
from circuit.tir.ir import Concat, Key, Recipe, Tir, Unpermute, Weight, row_words
from circuit.uop.node import DType
from circuit.uop.prove import Dag, Scalar
from circuit.uop.text import digest

PANEL = 4
"""Outputs in a panel where definitions are compared: small, so that a few outputs fill more than one."""

PAGES = 4
POSITIONS = (70, 0, 129, 64, 191)
SEQUENCES = (1, 0, 1, 0, 1)
PAGE_TABLES = ((2, 0, 1, 3), (3, 1, 2, 0))
"""What addresses, row by row, and page by page of two sequences. Rows of one sequence differ in position."""


class Side(Struct, frozen=True, kw_only=True):
    """Definitions in the order they run, each with its group: one of a fused group, or one a member."""

    parts: tuple[tuple[Group, Definition], ...]

    def digest(self) -> str:
        """The digest of what runs, whatever its names."""
        return digest(*(effect for _, definition in self.parts for effect in definition.effects))


def fused(case: Case) -> Side:
    """The side that a rule makes: one launch."""
    return Side(parts=((case.group, define(case.tir, case.group, wiring(case, case.group, PANEL, case.rows))),))


def chain(case: Case) -> Side:
    """The side that it is equal to: a launch for each member, in execution order."""
    groups = [Group(rule="", family="", numerics="reference", nodes=(node,)) for node in case.group.nodes]
    return Side(
        parts=tuple((group, define(case.tir, group, wiring(case, group, PANEL, case.rows))) for group in groups)
    )


def wiring(case: Case, group: Group, panel: int, rows_hi: int) -> Wiring:
    """Which edges the group stores, and how its buffers are laid out."""
    tir, stored = case.tir, stored_edges(case, group)
    columns = {edge: row_words(record) for edge, record in enumerate(tir.edges)}
    if group.derived:
        columns |= dict.fromkeys(stored, sum(row_words(tir.edges[edge]) for edge in stored))
    return Wiring(stored=frozenset(stored), columns=columns, rows_hi=rows_hi, panel=panel)


def stored_edges(case: Case, group: Group) -> tuple[int, ...]:
    """The edges of the group that somebody outside reads, in the order that its launch writes them."""
    tir, nodes = case.tir, case.tir.nodes
    read = {edge for place, node in enumerate(nodes) if place not in group.nodes for edge in node.inputs}
    written = (edge for place in group.nodes for edge in nodes[place].outputs)
    return tuple(edge for edge in written if edge in read or edge in tir.outputs)


def read_edges(tir: Tir, group: Group) -> tuple[int, ...]:
    """The edges that the group's launch is given, in the order of its first use."""
    made = {edge for place in group.nodes for edge in tir.nodes[place].outputs}
    reads = (edge for place in group.nodes for edge in tir.nodes[place].inputs)
    return tuple(dict.fromkeys(edge for edge in reads if edge not in made))


class Memory(Struct, frozen=True, kw_only=True):
    """What edges and states hold: rows x dim of an edge, the words of a state's pool."""

    edges: dict[int, list[Scalar]]
    states: dict[int, list[Scalar]]


def computed(dag: Dag, case: Case, side: Side) -> Memory:
    """What the side leaves behind; all that it is given is leaves."""
    tir = case.tir
    memory = Memory(
        edges={
            e: dag.leaves(edge.name, case.rows * row_words(edge), FORMATS_OF_EDGES[edge.format])
            for e, edge in enumerate(tir.edges)
        },
        states={
            s: dag.leaves(state.name, PAGES * page_words(state.format, state.heads, state.head_dim), DType.U32)
            for s, state in enumerate(tir.states)
        },
    )
    for group, definition in side.parts:
        _run(dag, case, memory, group, definition)
    return memory


def _run(dag: Dag, case: Case, memory: Memory, group: Group, definition: Definition) -> None:
    tir = case.tir
    reads, stored = read_edges(tir, group), stored_edges(case, group)
    weights = weights_of(tir, group)
    states = tuple(dict.fromkeys(s for place in group.nodes for s in tir.nodes[place].states))
    buffers: dict[int, list[Scalar]] = {}
    params: dict[int, Scalar] = {}
    shared: list[Scalar] | None = None
    for slot in definition.slots:
        match slot.kind:
            case "in":
                buffers[slot.slot] = memory.edges[reads[slot.place]]
            case "out" if group.derived:
                shared = buffers[slot.slot] = dag.leaves("unwritten", case.rows * slot.columns)
            case "out":
                buffers[slot.slot] = memory.edges[stored[slot.place]]
            case "scratch":
                buffers[slot.slot] = dag.leaves("unwritten", case.rows * slot.columns)
            case "weight":
                buffers[slot.slot] = _words(dag, tir, weights[slot.place])
            case "state":
                buffers[slot.slot] = memory.states[states[slot.place]]
            case "step" if slot.name in ("n", "m"):
                params[slot.slot] = case.rows
            case "step":
                buffers[slot.slot] = list(step_values(slot, case.rows, tir.context))
            case kind:
                raise AssertionError(f"a slot of kind {kind}")
    dag.run(definition.effects, buffers, params)
    if shared is not None:
        _share(case, memory, stored, shared)


def _share(case: Case, memory: Memory, stored: tuple[int, ...], shared: list[Scalar]) -> None:
    """The columns of the one buffer of a horizontal fusion, back to its edges."""
    width, first = len(shared) // case.rows, 0
    for edge in stored:
        dim = row_words(case.tir.edges[edge])
        for row in range(case.rows):
            memory.edges[edge][row * dim : row * dim + dim] = shared[row * width + first : row * width + first + dim]
        first += dim


def step_values(slot: Slot, rows: int, context: int) -> Iterator[int]:
    """The numbers of a step array."""
    match slot.name:
        case "positions":
            yield from POSITIONS[:rows]
        case "sequences":
            yield from SEQUENCES[:rows]
        case "page_tables":
            for table in PAGE_TABLES:
                assert len(table) == pages_of(context), "a page for every position of the context"
                yield from table
        case "logit_rows":
            yield from reversed(range(rows))
        case name:
            raise AssertionError(f"no relation reads the step array {name}")


def _words(dag: Dag, tir: Tir, weight: Weight) -> list[Scalar]:
    """The baked words of a weight as leaves of the tensors it comes from; words that fill a panel up are zero."""
    rows = tensor_rows(tir, weight.recipe)
    if len(weight.shape) == 1:
        return [dag.leaf(key, row) for key, row in rows]
    n, k = weight.shape

    def leaf(j: int, place: int) -> Scalar:
        return dag.leaf(f"{rows[j][0]}.{rows[j][1]}", place, DType.U32) if j < n else 0

    panels = [range(first, first + PANEL) for first in range(0, n, PANEL)]
    if weight.format != "f16":
        per_row = FORMATS[weight.format].row_words(k)
        return [leaf(j, word) for panel in panels for word in range(per_row) for j in panel]
    side, inputs = halves_together(PANEL), range(k + k % 2)
    return [
        dag.halves(leaf(j, i), leaf(j + 1, i))
        for panel in panels
        for unit in inputs[::2]
        for first in panel[::side]
        for i in (unit, unit + 1)
        for j in range(first, first + side, 2)
    ]


def tensor_rows(tir: Tir, recipe: Recipe) -> list[tuple[str, int]]:
    """For each row (each value, of a vector) of what a recipe gives: the tensor and the row there."""
    match recipe:
        case Key(key=key):
            n = next(weight.shape[0] for weight in tir.weights if weight.recipe == recipe)
            return [(key, row) for row in range(n)]
        case Unpermute(of=of, heads=heads):
            rows = tensor_rows(tir, of)
            per_head = len(rows) // heads
            order = [h * per_head + 2 * i + s for h in range(heads) for s in range(2) for i in range(per_head // 2)]
            return [rows[place] for place in order]
        case Concat(parts=parts):
            return [row for part in parts for row in tensor_rows(tir, part)]
        case _:
            raise AssertionError(f"the weight of a case is no {recipe}")
