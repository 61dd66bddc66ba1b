"""What a kernel reads, writes and computes in one step, counted on its definition: no table of costs.

A value is computed once for each combination of the loops that it depends on. An array's bytes are those of the
distinct elements that are touched, as if a cache kept each until its last use; so both are what any kernel of the
definition must do at least, and a schedule can only add to them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from circuit.lower.ir import Kernel
from circuit.uop.bounds import bounds
from circuit.uop.node import DType, Fold, Op, Param, UOp, bound_ranges, const_value, toposort

ELEMENT_BYTES = 4
"""Every array of a kernel has elements of four bytes; smaller formats are packed into words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The rows of one step: each of `sequences` has `rows` of them, at positions `first`, `first + 1`, ...

    `logit_rows` are those that get logits, over all sequences.
    """

    sequences: int
    rows: int
    first: int
    logit_rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Of one launch. `read` and `written` are bytes for each slot of the kernel, in the order of its slots.

    `products`: multiply-adds of folds, which a matrix unit can do; `others`: every other f32 operation, each of which
    takes the place of a multiply-add in a vector unit.
    """

    read: tuple[int, ...]
    written: tuple[int, ...]
    products: int
    others: int


def cost_of(kernel: Kernel, step: Step) -> Cost:
    """The cost of one launch of the kernel in such a step."""
    return _Count(kernel, step).cost()


class _Count:
    def __init__(self, kernel: Kernel, step: Step) -> None:
        self._kernel, self._step = kernel, step
        self._names = {slot.slot: slot.name for slot in kernel.slots if slot.kind == "step"}
        self._trips: dict[frozenset[UOp], int] = {}

    def cost(self) -> Cost:
        read, written = [0] * len(self._kernel.slots), [0] * len(self._kernel.slots)
        products = others = 0
        for node in toposort(*self._kernel.definition):
            match node.op:
                case Op.LOAD | Op.STORE:
                    slot, size = _array(node.src[0].src[0])
                    if slot is not None:
                        side = read if node.op is Op.LOAD else written
                        side[slot] = min(side[slot] + self._distinct(node.src[0].src[1]), self._room(slot, size))
                case Op.REDUCE if node.dtype is DType.F32:
                    assert isinstance(node.arg, Fold), node
                    count = self._count(node.ranges | frozenset(bound_ranges(node)))
                    if node.arg.op == "mulacc":
                        products += count
                    else:
                        others += count
                case _ if node.dtype is DType.F32 and node.op in _WORK:
                    others += self._count(node.ranges)
        return Cost(
            read=tuple(ELEMENT_BYTES * n for n in read),
            written=tuple(ELEMENT_BYTES * n for n in written),
            products=products,
            others=others,
        )

    # Trips

    def _count(self, ranges: frozenset[UOp]) -> int:
        """How often what depends on the ranges is computed."""
        if ranges not in self._trips:
            self._trips[ranges] = self._product(ranges)
        return self._trips[ranges]

    def _product(self, ranges: frozenset[UOp]) -> int:
        fixed, of_rows = 1, []
        by_row = False
        for r in ranges:
            end = r.src[0]
            if end.op is Op.CONST:
                fixed *= int(const_value(end))
            elif end.op is Op.PARAM:
                if self._name(end) == "n":
                    by_row = True
                else:
                    fixed *= self._step.logit_rows
            else:
                of_rows.append(_formula(end, self._name))
        if not of_rows:
            return fixed * (self._step.sequences * self._step.rows if by_row else 1)
        positions = range(self._step.first, self._step.first + (self._step.rows if by_row else 1))
        each = sum(math.prod(formula(p) for formula in of_rows) for p in positions)
        return fixed * each * self._step.sequences

    def _name(self, param: UOp) -> str:
        assert isinstance(param.arg, Param), param
        return self._names[param.arg.slot]

    # Elements

    def _room(self, slot: int, size: int) -> int:
        """The elements of a slot that the step can touch at all."""
        shape = self._kernel.slots[slot]
        if shape.kind in ("in", "out", "scratch"):
            rows = self._step.sequences * self._step.rows if shape.rows == "n" else self._step.logit_rows
            return max(rows, 1) * shape.columns
        return size

    def _distinct(self, place: UOp) -> int:
        """How many values an index takes: the product over the independent things it is made of."""
        atoms: dict[UOp, list[UOp]] = {}
        for term in _terms(place):
            for root, atom in self._roots(term):
                atoms.setdefault(root, []).append(atom)
        total = 1
        for root, found in atoms.items():
            parts = {atom: self._values(atom) for atom in dict.fromkeys(found)}
            total *= min(math.prod(parts.values()), self._values(root))
        return total

    def _roots(self, term: UOp) -> list[tuple[UOp, UOp]]:
        """What a term varies with: (root, part of it that the term sees)."""
        while term.op is Op.MUL and term.src[1].op is Op.CONST:
            term = term.src[0]
        inner = term
        while inner.op in (Op.FLOORDIV, Op.FLOORMOD) or (inner.op is Op.MUL and inner.src[1].op is Op.CONST):
            inner = inner.src[0]
        match inner.op:
            case Op.CONST:
                return []
            case Op.LOAD if self._named(inner) == "page_tables":
                return [pair for part in _terms(inner.src[0].src[1]) for pair in self._roots(part)]
            case Op.LOAD if self._named(inner) is not None:
                return [(inner, inner)]
            case Op.CAST | Op.BITCAST:
                return self._roots(inner.src[0])
        return [(inner, term)]

    def _named(self, load: UOp) -> str | None:
        """The step array that a LOAD reads."""
        slot, _ = _array(load.src[0].src[0])
        return None if slot is None else self._names.get(slot)

    def _values(self, node: UOp) -> int:
        """How many values a node takes in the step."""
        if node.op is Op.RANGE and node.src[0].op is Op.PARAM:
            named = self._name(node.src[0])
            return self._step.sequences * self._step.rows if named == "n" else self._step.logit_rows
        if node.op is Op.LOAD:
            named = self._named(node)
            if named == "sequences":
                return self._step.sequences
            if named == "positions":  # all sequences stand at the same ones
                return self._step.rows
            if named is not None:
                return self._step.sequences * self._step.rows
        lo, hi = self._interval(node)
        return max(hi - lo + 1, 0)

    def _interval(self, node: UOp) -> tuple[int, int]:
        """The least and largest value in the step."""
        last = self._step.first + self._step.rows - 1
        match node.op:
            case Op.RANGE if node.src[0].op is not Op.CONST and node.src[0].op is not Op.PARAM:
                formula = _formula(node.src[0], self._name)
                return 0, max(formula(self._step.first), formula(last)) - 1
            case Op.LOAD if self._named(node) == "positions":
                return self._step.first, last
            case Op.FLOORDIV if node.src[1].op is Op.CONST:
                lo, hi = self._interval(node.src[0])
                by = int(const_value(node.src[1]))
                return lo // by, hi // by
            case Op.FLOORMOD if node.src[1].op is Op.CONST:
                lo, hi = self._interval(node.src[0])
                by = int(const_value(node.src[1]))
                return (0, by - 1) if hi - lo >= by - 1 or hi % by < lo % by else (lo % by, hi % by)
            case Op.MUL if node.src[1].op is Op.CONST:
                lo, hi = self._interval(node.src[0])
                by = int(const_value(node.src[1]))
                return min(lo * by, hi * by), max(lo * by, hi * by)
            case Op.ADD:
                (a, b), (c, d) = self._interval(node.src[0]), self._interval(node.src[1])
                return a + c, b + d
        return bounds(node)


_WORK = frozenset((Op.ADD, Op.MUL, Op.MULACC, Op.MAX, Op.RECIPROCAL, Op.TRUNC, Op.CAST))
"""What takes a vector unit's time; comparisons, selections and moves of bits are not counted."""


def _array(base: UOp) -> tuple[int | None, int]:
    """The slot of a PARAM under AFTERs and its elements; None for local storage and tables."""
    while base.op is Op.AFTER:
        base = base.src[0]
    if isinstance(base.arg, Param):
        return base.arg.slot, math.prod(base.arg.shape)
    return None, 0


def _terms(node: UOp) -> list[UOp]:
    """The summands of an index, products by a constant taken apart."""
    found, stack = [], [node]
    while stack:
        top = stack.pop()
        if top.op is Op.ADD:
            stack += reversed(top.src)
        elif top.op is Op.MUL and top.src[1].op is Op.CONST and top.src[0].op in (Op.ADD, Op.MUL):
            stack.append(top.src[0])
        elif top.op is not Op.CONST:
            found.append(top)
    return found


def _formula(end: UOp, name_of: Callable[[UOp], str]) -> Callable[[int], int]:
    """The end of a loop as a function of the row's position."""
    order = [node for node in _below(end) if node.op is not Op.CONST]
    constants = {node: int(const_value(node)) for node in _below(end) if node.op is Op.CONST}

    def at(position: int) -> int:
        value: dict[UOp, int] = dict(constants)
        for node in order:
            src = [value[s] for s in _value_sources(node)]
            match node.op:
                case Op.LOAD if not src:
                    value[node] = position
                case Op.LOAD:
                    value[node] = src[0]
                case Op.ADD:
                    value[node] = src[0] + src[1]
                case Op.MUL:
                    value[node] = src[0] * src[1]
                case Op.MAX:
                    value[node] = max(src)
                case Op.FLOORDIV:
                    value[node] = src[0] // src[1]
                case Op.FLOORMOD:
                    value[node] = src[0] % src[1]
                case Op.CMPLT:
                    value[node] = int(src[0] < src[1])
                case Op.XOR:
                    value[node] = src[0] ^ src[1]
                case Op.WHERE:
                    value[node] = src[1] if src[0] else src[2]
                case _:
                    raise AssertionError(f"the end of a loop has {node.op}")
        return value[end]

    return at


def _value_sources(node: UOp) -> tuple[UOp, ...]:
    """What a node's integer value is made of: a LOAD from local storage has the value that was stored there."""
    if node.op is not Op.LOAD:
        return node.src
    base = node.src[0].src[0]
    if base.op is Op.AFTER and base.src[0].op in (Op.ALLOC, Op.AFTER):
        for effect in base.src[1:]:
            if effect.op is Op.STORE:
                return (effect.src[1],)
    return ()


def _below(root: UOp) -> list[UOp]:
    """The nodes that an integer's value is made of, each after what it is made of."""
    order: list[UOp] = []
    seen: set[UOp] = set()
    stack = [root]
    while stack:
        node = stack[-1]
        waiting = [s for s in _value_sources(node) if s not in seen] if node not in seen else []
        if waiting:
            stack += waiting
            continue
        stack.pop()
        if node not in seen:
            seen.add(node)
            order.append(node)
    return order


