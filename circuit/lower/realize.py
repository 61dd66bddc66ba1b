"""A group of nodes to its kernel's definition: the ops' programs composed, in loops form.

A member's output is the next member's input. Where a projection reads what a member computed, the whole row is needed
before the first output. What threads can share out is written to scratch and all wait, one launch of two phases. A norm
cannot be shared out: each thread makes the rows for itself, in local storage, and nobody waits.
"""

from collections.abc import Mapping

from msgspec import Struct

from circuit.formats import INT8_G32
from circuit.lower.ir import Definition, Group, Slot
from circuit.lower.steps import room_of, step_array
from circuit.sigma import OPS
from circuit.sigma.op import Coded, OpKind, Room, Use, Writes
from circuit.sigma.storage import decode_panel, panel_words
from circuit.sigma.storage_coded import coded_panel
from circuit.tir.ir import Node, Tir, Weight, row_words
from circuit.uop.build import after, alloc, barrier, end, index, loop, param, reshape, stage, store
from circuit.uop.build import group as together
from circuit.uop.node import DType, Op, UOp, bound_ranges, substitute
from circuit.uop.rangeify import Lowering, loop_name
from circuit.uop.simplify import simplify

FORMATS = {"f32": DType.F32, "i32": DType.I32, INT8_G32: DType.U32}


class Wiring(Struct, frozen=True, kw_only=True):
    """What a group's kernel may touch: its edges that others read, and the row stride of each buffer it meets.

    `columns`: edge -> elements from one row of its buffer to the next; of a horizontal fusion, all its outputs share
    one buffer. `panel`: outputs in a panel of the baked weights.
    """

    stored: frozenset[int]
    columns: Mapping[int, int]
    rows_hi: int
    panel: int


def define(tir: Tir, group: Group, wiring: Wiring) -> Definition:
    """The program of a group: what its launch must compute, in the order of its ops."""
    return _Program(tir, group, wiring).definition()


class _Program:
    """One definition in the making: slots are numbered in the order that the program first needs them."""

    def __init__(self, tir: Tir, group: Group, wiring: Wiring) -> None:
        self.tir = tir
        self.group = group
        self.wiring = wiring
        self.slots: list[Slot] = []
        self.made: dict[int, UOp] = {}  # edge -> the value of one row, [dim]
        self.inputs: list[int] = []
        self.effects: list[UOp] = []  # of the phase in the making
        self.phases: list[UOp] = []
        self.gone: set[int] = set()  # edges made in an earlier phase and not kept
        self.lowering = Lowering()
        self.row: UOp

    def definition(self) -> Definition:
        nodes = [self.tir.nodes[n] for n in self.group.nodes]
        self._open(self._rows(nodes[0]))
        together = [node for node in nodes if node.op == "linear"] if self.group.derived else []
        for node in nodes:
            if node not in together:
                self._node(node)
        if together:
            self._horizontal(together)
        self._close()
        return Definition(effects=tuple(self.phases), slots=tuple(self.slots))

    def _rows(self, node: Node) -> str:
        edges = node.outputs or node.inputs
        return self.tir.edges[edges[0]].rows

    def _open(self, rows: str) -> None:
        fewest = 1 if rows == "n" else 0  # a prefill chunk before the last has no row that gets logits
        count = param(self._slot("step", name=rows), DType.I32, (), rows, lo=fewest, hi=self.wiring.rows_hi)
        self.row = self.lowering.loop("row", simplify(count))

    def _close(self) -> None:
        self.phases.append(self._rows_of_phase())
        self.effects = []

    def _rows_of_phase(self) -> UOp:
        """The effects for all rows; one effect alone joins its loops with the rows', so that a schedule may reorder
        them.
        """
        if len(self.effects) == 1 and self.effects[0].op is Op.END:
            only = self.effects[0]
            return end(only.src[0], self.row, *bound_ranges(only))
        return end(together(*self.effects), self.row)

    def _node(self, node: Node) -> None:
        kind = OPS[node.op]
        if node.op == "linear":
            self._whole(node.inputs[0])
        for edge in node.inputs:
            if edge in self.made and self._reads_again(node):
                self._keep(edge)
        use = self._use(node, kind, tuple(self.tir.weights[w] for w in node.weights))
        if kind.writes is not None:
            for writes in kind.writes(use):
                self._write_state(use, writes)
            return
        assert kind.define is not None
        for edge, value in zip(node.outputs, kind.define(use), strict=True):
            self.made[edge] = reshape(value, row_words(self.tir.edges[edge]))
            if edge in self.wiring.stored:
                self._store(edge, value)

    def _horizontal(self, nodes: list[Node]) -> None:
        """One projection of the derived weights; its outputs are the columns of one buffer."""
        kind = OPS[nodes[0].op]
        assert kind.define is not None
        self._whole(nodes[0].inputs[0])
        (value,) = kind.define(self._use(nodes[0], kind, self.group.derived))
        self._store(nodes[0].outputs[0], value)

    def _use(self, node: Node, kind: OpKind, weights: tuple[Weight, ...]) -> Use:
        row = self.row
        if node.op == "index_select":
            row = index(self._step("logit_rows"), self.row)
        inputs = tuple(self._input(edge, row) for edge in node.inputs)
        coded = self._coded(node, weights)
        return Use(
            row=self.row,
            inputs=inputs,
            weights=tuple(self._weight(weight) for weight in weights[coded is not None :]),
            states=tuple(self._state(state) for state in node.states),
            step={name: self._step(name) for name in kind.step_inputs},
            params=dict(node.params),
            context=self.tir.context,
            coded=coded,
        )

    def _coded(self, node: Node, weights: tuple[Weight, ...]) -> Coded | None:
        """The weight of a projection of integers."""
        if node.op != "linear" or self.tir.edges[node.inputs[0]].format != INT8_G32:
            return None
        n, k = weights[0].shape
        return coded_panel(weights[0].format, self._words(weights[0]), (n, k), self.wiring.panel)

    def _input(self, edge: int, row: UOp) -> UOp:
        if edge in self.made:
            return self.made[edge]
        assert edge not in self.gone, f"{self.tir.edges[edge].name} was made in an earlier phase of {self.group.rule}"
        if edge not in self.inputs:
            self.inputs.append(edge)
        record = self.tir.edges[edge]
        if edge in self.tir.inputs:
            tokens = self._step(record.name)
            return stage(index(tokens, row), loop("one", 1))
        place = self.inputs.index(edge)
        return self._row_of("in", place, edge, record.rows, row)

    def _row_of(self, kind: str, place: int, edge: int, rows: str, row: UOp) -> UOp:
        storage = self._array(kind, place, edge, rows)
        d = loop("d", row_words(self.tir.edges[edge]))
        return stage(index(storage, row * self.wiring.columns[edge] + d), d)

    def _array(self, kind: str, place: int, edge: int, rows: str) -> UOp:
        columns = self.wiring.columns[edge]
        slot = self._slot(kind, place, rows=rows, columns=columns)
        return param(slot, FORMATS[self.tir.edges[edge].format], (self.wiring.rows_hi * columns,), f"{kind}{place}")

    def _weight(self, weight: Weight) -> UOp:
        if len(weight.shape) == 1:
            known = sum(slot.kind == "weight" for slot in self.slots)
            return param(self._slot("weight", known), DType.F32, weight.shape, f"weight{known}")
        n, k = weight.shape
        words = self._words(weight)
        j, i = loop("j_weight", n), loop("k_weight", k)
        return stage(decode_panel(weight.format, words, (n, k), self.wiring.panel, j, i), j, i)

    def _words(self, weight: Weight) -> UOp:
        """The baked words of a matrix."""
        known = sum(slot.kind == "weight" for slot in self.slots)
        size = panel_words(weight.format, weight.shape[0], weight.shape[1], self.wiring.panel)
        return param(self._slot("weight", known), DType.U32, (size,), f"weight{known}")

    def _state(self, state: int) -> Room:
        return room_of(self.tir, self.tir.states[state], self._slot("state", 0))

    def _step(self, name: str) -> UOp:
        return step_array(self.tir, self.wiring.rows_hi, name, self._slot("step", name=name))

    def _store(self, edge: int, value: UOp) -> None:
        known = sum(slot.kind == "out" for slot in self.slots)
        storage = self._array("out", known, edge, self.tir.edges[edge].rows)
        names = _AXES[len(value.shape)] if value.dtype is not DType.U32 else ("group", "word")
        self.effects.append(self.lowering.write(storage, value, names, base=self.row * self.wiring.columns[edge]))

    def _write_state(self, use: Use, writes: Writes) -> None:
        own = tuple(self.lowering.loop(loop_name(r), r.src[0]) for r in writes.loops)
        place, value = (self.lowering.at(stage(x, *writes.loops), *own) for x in (writes.place, writes.value))
        self.effects.append(end(store(index(use.states[0].words, place), value), *own))

    def _reads_again(self, node: Node) -> bool:
        """Whether the node reads an element of its input more than once, and each costs more than to keep it."""
        packed = any(self.tir.states[state].format != "f32" for state in node.states)
        return node.op == "rope" or packed

    def _keep(self, edge: int) -> None:
        """The row of `edge` goes to local storage: what follows reads an element more than once."""
        (value,) = self.made[edge].src  # in the axes of its op, before it was made a row
        own = tuple(loop(f"{name}_kept", size) for name, size in zip(_AXES[len(value.shape)], value.shape, strict=True))
        kept = stage(index(value, *own), *own, where="local")
        self.made[edge] = reshape(kept, self.tir.edges[edge].dim)

    def _whole(self, edge: int) -> None:
        """A projection is to read the row of `edge`; where a member makes it, it is made whole first."""
        if edge not in self.made:
            return
        maker = next(n for n in self.group.nodes if edge in self.tir.nodes[n].outputs)
        if self.tir.nodes[maker].op == "rms_norm":
            self._own(edge)
        else:
            self._phase(edge)

    def _own(self, edge: int) -> None:
        """Each thread makes all rows of `edge` for itself, and what follows reads them there."""
        dim, value, row = self.tir.edges[edge].dim, self.made[edge], self.row
        room, d = alloc(0, self.wiring.rows_hi * dim, DType.F32, "own"), loop("d_own", dim)
        made = end(store(index(room, row * dim + d), index(value, d)), row, d)
        if self.effects:
            self._close()
        self._open(self.tir.edges[edge].rows)
        ready, d = after(room, made), loop("d", dim)
        self.gone |= set(self.made) - {edge}
        self.made = {edge: stage(index(ready, self.row * dim + d), d)}

    def _phase(self, edge: int) -> None:
        """The row of `edge` goes to scratch, all threads wait, and what follows reads it from there."""
        known = sum(slot.kind == "scratch" for slot in self.slots)
        storage = self._array("scratch", known, edge, self.tir.edges[edge].rows)
        base = self.row * self.wiring.columns[edge]
        self.effects.append(self.lowering.write(storage, self.made[edge], ("column",), base=base))
        own = self.lowering.loop("column.row", self.row.src[0])
        done = barrier(substitute(self._rows_of_phase(), {self.row: own}))
        self.effects = []
        self._open(self.tir.edges[edge].rows)
        ready, d = after(storage, done), loop("d", self.tir.edges[edge].dim)
        self.gone |= set(self.made) - {edge}
        self.made = {edge: stage(index(ready, self.row * self.wiring.columns[edge] + d), d)}

    def _slot(self, kind: str, place: int = 0, name: str = "", rows: str = "", columns: int = 0) -> int:
        for known in self.slots:
            if (known.kind, known.place, known.name) == (kind, place, name):
                return known.slot
        slot = Slot(slot=len(self.slots), kind=kind, place=place, name=name, rows=rows, columns=columns)
        self.slots.append(slot)
        return slot.slot


_AXES = {1: ("out",), 2: ("h", "d"), 3: ("h", "half", "i")}
