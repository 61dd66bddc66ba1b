"""What a kernel reads, writes and computes in one step, counted on its definition: no table of costs.

A value is computed once for each combination of the loops that it depends on. An array's bytes are those of the
distinct elements that are touched, as if a cache kept each until its last use; so both are what any kernel of the
definition must do at least, and a schedule can only add to them.
"""

import math

from msgspec import Struct

from circuit.lower.ir import Kernel
from circuit.report.positions import Step, counts
from circuit.report.touched import Leaves, Touched, leaves, slot_of
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


def cost_of(kernel: Kernel, step: Step) -> Cost:
    """The cost of one launch of the kernel in such a step."""
    return _Count(kernel, step).cost()


def follows_position(kernel: Kernel) -> bool:
    """Whether the cost depends on where in their sequences the rows are: whether a loop runs over positions."""
    ends = (node.src[0] for node in toposort(*kernel.definition) if node.op is Op.RANGE)
    return any(end.op not in (Op.CONST, Op.PARAM) for end in ends)


class _Count:
    def __init__(self, kernel: Kernel, step: Step) -> None:
        self._kernel, self._step = kernel, step
        self._touched = Touched(kernel, step)
        self._trips: dict[frozenset[UOp], int] = {}
        self._ends: dict[tuple[UOp, int], list[int]] = {}
        self._leaves: dict[UOp, Leaves] = {}
        self._loaded: dict[UOp, bool] = {}

    def cost(self) -> Cost:
        touched: dict[tuple[Op, int], list[UOp]] = {}
        products = others = codes = dots = 0
        for node in toposort(*self._kernel.definition):
            self._leaves[node] = leaves(node, self._leaves)
            match node.op:
                case Op.LOAD | Op.STORE:
                    slot = slot_of(node.src[0].src[0])
                    if slot is not None:
                        touched.setdefault((node.op, slot), []).append(node.src[0].src[1])
                case Op.REDUCE if node.dtype is DType.F32:
                    assert isinstance(node.arg, Fold), node
                    count = self._count(node.ranges | frozenset(bound_ranges(node)))
                    if node.arg.op == "mulacc":
                        products += count
                    else:
                        others += count
                    others += self._joins(node)
                case Op.REDUCE if node.dtype is DType.I32 and isinstance(node.arg, Fold) and node.arg.op == "mulacc":
                    dots += self._count(node.ranges | frozenset(bound_ranges(node)))
                case _ if node.dtype is DType.F32 and node.op in _WORK:
                    others += self._times(node)
                case _ if node.dtype is DType.U32 and node.op in _ON_CODES and self._of_codes(node):
                    codes += self._times(node)
        slots = range(len(self._kernel.slots))
        return Cost(
            read=tuple(
                ELEMENT_BYTES * self._touched.elements(slot, touched.get((Op.LOAD, slot), [])) for slot in slots
            ),
            written=tuple(
                ELEMENT_BYTES * self._touched.elements(slot, touched.get((Op.STORE, slot), [])) for slot in slots
            ),
            products=products,
            others=others,
            codes=codes,
            dots=dots,
        )

    def _of_codes(self, node: UOp) -> bool:
        """Whether an integer is made of a word that was loaded, not of loops alone."""
        if node not in self._loaded:
            below = (s for s in node.src if s.dtype in (DType.U32, DType.I32))
            self._loaded[node] = node.op is Op.LOAD or any(self._of_codes(s) for s in below)
        return self._loaded[node]

    def _count(self, ranges: frozenset[UOp]) -> int:
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

    def _product(self, ranges: frozenset[UOp], chunked: UOp | None = None) -> int:
        """The product of the ends of the ranges, summed over rows; of `chunked`, its chunks count."""
        fixed = 1
        of_rows: list[tuple[UOp, int]] = []
        by_row = False
        for r in ranges:
            end, part = r.src[0], CHUNK if r is chunked else 1
            if end.op is Op.CONST:
                fixed *= -(-int(const_value(end)) // part)
            elif end.op is Op.PARAM:
                if self._touched.name(end) == "n":
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

    def _times(self, node: UOp) -> int:
        """How often a value is computed: once for each combination of what it is made of, or of its loops."""
        found = self._leaves[node]
        count = self._count(node.ranges)
        return count if found is None else min(count, self._touched.distinct(found))


_ON_CODES = frozenset((Op.ADD, Op.MUL, Op.XOR, Op.SHL, Op.FLOORDIV, Op.FLOORMOD))
"""What is done to words to get at the codes in them: masks and shifts are divisions by powers of two."""

_WORK = frozenset((Op.ADD, Op.MUL, Op.MULACC, Op.MAX, Op.RECIPROCAL, Op.TRUNC, Op.CAST))
"""What takes a vector unit's time; comparisons, selections and moves of bits are not counted."""
