"""What a kernel reads, writes and computes in one step, counted on its definition: no table of costs.

A value is computed once for each combination of the loops that it depends on. An array's bytes are those of the
distinct elements that are touched, as if a cache kept each until its last use; so both are what any kernel of the
definition must do at least, and a schedule can only add to them.
"""

import math
from collections import Counter

from msgspec import Struct
from msgspec.structs import replace

from circuit.lower.ir import Kernel
from circuit.report.positions import Step, counts
from circuit.report.touched import Indices, Leaves, Touched, leaves, slot_of
from circuit.uop.node import DType, Fold, Op, UOp, bound_ranges, const_value, toposort
from circuit.uop.orders import CHUNK, LANES

ELEMENT_BYTES = 4
"""Every array of a kernel has elements of four bytes; smaller formats are packed into words."""


class Cost(Struct, frozen=True, kw_only=True):
    """Of one launch. `read` and `written` are bytes for each slot of the kernel, in the order of its slots.

    `products`: multiply-adds of folds, which a matrix unit can do; `others`: every other f32 operation, each of which
    takes the place of a multiply-add in a vector unit. `codes`: integer operations on stored codes, which take a weight
    apart; index arithmetic is not counted. `dots`: integer multiply-adds of codes with codes.
    """

    read: tuple[int, ...]
    written: tuple[int, ...]
    products: int
    others: int
    codes: int
    dots: int


class Costs:
    """What a report knows of kernels' costs: a definition is gone through once, and each step counted once."""

    def __init__(self) -> None:
        self._tallies: dict[Kernel, _Tally] = {}
        self._known: dict[tuple[Kernel, Step], Cost] = {}

    def of(self, kernel: Kernel, step: Step) -> Cost:
        """The cost of one launch of the kernel in such a step."""
        if step.rows == 1 and not self._tally(kernel).follows_position:  # one row is as any other
            step = replace(step, first=0)
        if (kernel, step) not in self._known:
            self._known[kernel, step] = _Count(self._tally(kernel), step).cost()
        return self._known[kernel, step]

    def at_any_position(self, kernel: Kernel, step: Step) -> Cost:
        """The same, where a kernel without a loop over positions counts as at the first ones. Of several rows, which
        page tables they look up is by where pages begin; that is left out, so that all steps of a prefill count once.
        """
        return self.of(kernel, step if self._tally(kernel).follows_position else replace(step, first=0))

    def _tally(self, kernel: Kernel) -> "_Tally":
        if kernel not in self._tallies:
            self._tallies[kernel] = _Tally(kernel)
        return self._tallies[kernel]


Ranges = frozenset[UOp]


class _Tally:
    """What a kernel does, whatever the step: how many nodes do the same kind of work under the same loops.

    `loaded` and `stored`: the places of a slot, each once. `products` and `dots` are folds of products, `folds` all
    others of f32; `joins` those that add up parts. `values` and `codes` are told apart by loops and leaves.
    `follows_position`: a loop runs over positions, so the cost depends on where in their sequences the rows are.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.indices = Indices(kernel)
        self.loaded: dict[int, dict[UOp, None]] = {}
        self.stored: dict[int, dict[UOp, None]] = {}
        self.products, self.folds, self.dots = Counter[Ranges](), Counter[Ranges](), Counter[Ranges]()
        self.values, self.codes = Counter[tuple[Ranges, Leaves]](), Counter[tuple[Ranges, Leaves]]()
        self.joins: list[UOp] = []
        self.follows_position = False
        self._leaves: dict[UOp, Leaves] = {}
        self._of_codes: dict[UOp, bool] = {}
        for node in toposort(*kernel.definition):
            self._add(node)

    def _add(self, node: UOp) -> None:
        """`node` comes after what it is made of."""
        self._leaves[node] = leaves(node, self._leaves)
        integers = (s for s in node.src if s.dtype in (DType.U32, DType.I32))
        self._of_codes[node] = node.op is Op.LOAD or any(self._of_codes[s] for s in integers)
        match node.op:
            case Op.RANGE if node.src[0].op not in (Op.CONST, Op.PARAM):
                self.follows_position = True
            case Op.LOAD | Op.STORE:
                slot = slot_of(node.src[0].src[0])
                if slot is not None:
                    touched = self.loaded if node.op is Op.LOAD else self.stored
                    touched.setdefault(slot, {}).setdefault(node.src[0].src[1])
            case Op.REDUCE if node.dtype is DType.F32:
                of = self.products if multiplies(node) else self.folds
                of[node.ranges | frozenset(bound_ranges(node))] += 1
                self.joins.append(node)
            case Op.REDUCE if node.dtype is DType.I32 and multiplies(node):
                self.dots[node.ranges | frozenset(bound_ranges(node))] += 1
            case _ if node.dtype is DType.F32 and node.op in _WORK:
                self.values[node.ranges, self._leaves[node]] += 1
            case _ if node.dtype is DType.U32 and node.op in _ON_CODES and self._of_codes[node]:
                self.codes[node.ranges, self._leaves[node]] += 1


def multiplies(node: UOp) -> bool:
    """Whether a node is a fold of products."""
    return isinstance(node.arg, Fold) and node.arg.op == "mulacc"


class _Count:
    """Counts what a kernel does in one step."""

    def __init__(self, tally: _Tally, step: Step) -> None:
        self._tally, self._step = tally, step
        self._touched = Touched(tally.indices, step)
        self._trips: dict[Ranges, int] = {}
        self._ends: dict[tuple[UOp, int], list[int]] = {}

    def cost(self) -> Cost:
        tally = self._tally
        return Cost(
            read=self._bytes(tally.loaded),
            written=self._bytes(tally.stored),
            products=self._times(tally.products),
            others=self._times(tally.folds) + sum(map(self._joins, tally.joins)) + self._apart(tally.values),
            codes=self._apart(tally.codes),
            dots=self._times(tally.dots),
        )

    def _bytes(self, touched: dict[int, dict[UOp, None]]) -> tuple[int, ...]:
        slots = range(len(self._tally.indices.slots))
        return tuple(ELEMENT_BYTES * self._touched.elements(slot, tuple(touched.get(slot, ()))) for slot in slots)

    def _times(self, found: Counter[Ranges]) -> int:
        """How often nodes are computed: once for each combination of their loops."""
        return sum(nodes * self._count(ranges) for ranges, nodes in found.items())

    def _apart(self, found: Counter[tuple[Ranges, Leaves]]) -> int:
        """How often values are computed: once for each combination of what they are made of, or of their loops."""
        total = 0
        for (ranges, of), nodes in found.items():
            count = self._count(ranges)
            total += nodes * (count if of is None else min(count, self._touched.distinct(of)))
        return total

    def _count(self, ranges: Ranges) -> int:
        """How often what depends on the ranges is computed."""
        if ranges not in self._trips:
            self._trips[ranges] = self._product(ranges)
        return self._trips[ranges]

    def _joins(self, node: UOp) -> int:
        """How many sums of parts a REDUCE adds up: its lanes, or its chunks."""
        assert isinstance(node.arg, Fold), node
        match node.arg.order:
            case "lanes:128":
                return (LANES - 1) * self._count(node.ranges)
            case "fold:256":
                (r,) = bound_ranges(node)
                return self._product(node.ranges | {r}, chunked=r)
        return 0

    def _product(self, ranges: Ranges, chunked: UOp | None = None) -> int:
        """The product of the ends of the ranges, summed over rows; of `chunked`, its chunks count."""
        fixed = 1
        of_rows: list[tuple[UOp, int]] = []
        by_row = False
        for r in ranges:
            end, part = r.src[0], CHUNK if r is chunked else 1
            if end.op is Op.CONST:
                fixed *= -(-int(const_value(end)) // part)
            elif end.op is Op.PARAM:
                if self._touched.rows_of(end) == "n":
                    by_row = True
                else:
                    fixed *= self._step.logit_rows
            else:
                of_rows.append((end, part))
        if not of_rows:
            return fixed * (self._step.sequences * self._step.rows if by_row else 1)
        ends = [self._counts(end, part)[: None if by_row else 1] for end, part in of_rows]
        return fixed * self._step.sequences * sum(map(math.prod, zip(*ends, strict=True)))

    def _counts(self, end: UOp, part: int) -> list[int]:
        """The end of a loop in parts, for each row of a sequence."""
        if (end, part) not in self._ends:
            positions = range(self._step.first, self._step.first + self._step.rows)
            self._ends[end, part] = counts(end, part, positions)
        return self._ends[end, part]


_ON_CODES = frozenset((Op.ADD, Op.MUL, Op.XOR, Op.SHL, Op.FLOORDIV, Op.FLOORMOD))
"""What is done to words to get at the codes in them: masks and shifts are divisions by powers of two."""

_WORK = frozenset((Op.ADD, Op.MUL, Op.MULACC, Op.MAX, Op.RECIPROCAL, Op.TRUNC, Op.CAST))
"""What takes a vector unit's time; comparisons, selections and moves of bits are not counted."""
