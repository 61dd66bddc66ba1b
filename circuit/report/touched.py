"""How many elements of its arrays a kernel touches in a step, each counted once.

An index is a sum of terms; a term sees some digits of a root: a loop, or a number that was loaded. The values that an
index takes are the product over its roots, where overlapping digits of a root count once.
"""

import math

from circuit.lower.ir import Kernel
from circuit.report.positions import Step, below, formula
from circuit.uop.bounds import bounds
from circuit.uop.node import DType, Op, Param, UOp, const_value

Digits = tuple[int, int | None]
"""Which part of a number is seen: its value modulo the second, without that modulo the first; None is all above."""


Roots = tuple[tuple[UOp, tuple[Digits, ...]], ...]
"""The independent things that integers are made of, and which digits of each they see: none overlap or touch."""


class Indices:
    """What the indices of one kernel are made of, whatever the step."""

    def __init__(self, kernel: Kernel) -> None:
        self.slots = kernel.slots
        self.names = {slot.slot: slot.name for slot in kernel.slots if slot.kind == "step"}
        self._roots_of: dict[tuple[UOp, ...], Roots] = {}

    def roots(self, places: tuple[UOp, ...]) -> Roots:
        """What some integers are made of, together."""
        if places not in self._roots_of:
            found: dict[UOp, set[Digits]] = {}
            for place in places:
                for term in _terms(place):
                    for root, digits in self._roots(term):
                        found.setdefault(root, set()).add(digits)
            self._roots_of[places] = tuple((root, _merged(digits)) for root, digits in found.items())
        return self._roots_of[places]

    def _roots(self, term: UOp) -> list[tuple[UOp, Digits]]:
        """What a term varies with, and which digits of it the term sees."""
        root, digits = _digits(term)
        match root.op:
            case Op.CONST:
                return []
            case Op.LOAD if self.named(root) == "page_tables":
                return self._page(root)
            case Op.CAST | Op.BITCAST:
                return self._roots(root.src[0])
        return [(root, digits)]

    def _page(self, load: UOp) -> list[tuple[UOp, Digits]]:
        """A page is its sequence's, and one of its numbers; a number that is a sum is one thing."""
        terms = _terms(load.src[0].src[1])
        own = [term for term in terms if self.named(_digits(term)[0]) == "sequences"]
        number = [_unclamped(term) for term in terms if term not in own]
        roots = [pair for term in own for pair in self._roots(term)]
        parts = [part for term in number for part in _terms(term)]
        if len(parts) == 1:
            return [*roots, *self._roots(parts[0])]
        return [*roots, *((term, (1, None)) for term in number)]

    def named(self, load: UOp) -> str | None:
        """The step array that a LOAD reads."""
        if load.op is not Op.LOAD:
            return None
        slot = slot_of(load.src[0].src[0])
        return None if slot is None else self.names.get(slot)


class Touched:
    """Counts elements of one kernel in one step."""

    def __init__(self, indices: Indices, step: Step) -> None:
        self._indices, self._step = indices, step
        self._spans: dict[UOp, tuple[int, int]] = {}

    def elements(self, slot: int, places: tuple[UOp, ...]) -> int:
        """How many elements of a slot the places are, together; each place is given once."""
        total = sum(self.distinct((place,)) for place in places)
        shape = self._indices.slots[slot]
        if shape.kind not in ("in", "out", "scratch") or not places:
            return total
        rows = self._step.sequences * self._step.rows if shape.rows == "n" else self._step.logit_rows
        columns = covered = 0
        for lo, hi in sorted(self._interval(place, in_row=True) for place in places):
            columns += max(hi + 1 - max(lo, covered), 0)
            covered = max(covered, hi + 1)
        return min(total, rows * columns)

    def distinct(self, places: tuple[UOp, ...]) -> int:
        """How many values some integers take together: the product over the independent things they are made of."""
        return math.prod(self._taken(root, digits) for root, digits in self._indices.roots(places))

    def _taken(self, root: UOp, digits: tuple[Digits, ...]) -> int:
        """How many values the digits of a root take."""
        if root not in self._spans:
            self._spans[root] = self._span(root)
        lo, hi = self._spans[root]
        parts = (hi // least - lo // least + 1 if most is None else most // least for least, most in digits)
        return min(math.prod(parts), hi - lo + 1)

    def _span(self, root: UOp) -> tuple[int, int]:
        """The least and largest of as many values as a root takes in the step."""
        rows = self._step.sequences * self._step.rows
        if root.op is Op.LOAD:
            named = self._indices.named(root)
            if named == "sequences":
                return 0, self._step.sequences - 1
            if named == "logit_rows":
                return 0, self._step.logit_rows - 1
            if named is not None and named != "positions":  # all sequences stand at the same positions
                return 0, rows - 1
        return self._interval(root)

    def _interval(self, node: UOp, in_row: bool = False) -> tuple[int, int]:
        """The least and largest value in the step; `in_row`: of the first row."""
        last = self._step.first + self._step.rows - 1
        match node.op:
            case Op.RANGE if node.src[0].op is Op.PARAM:
                rows = self._step.sequences * self._step.rows
                return 0, 0 if in_row else (rows if self.rows_of(node.src[0]) == "n" else self._step.logit_rows) - 1
            case Op.RANGE if node.src[0].op is not Op.CONST:
                end = formula(node.src[0])
                return 0, max(end(self._step.first), end(last)) - 1
            case Op.WHERE if not any(part.op is Op.RANGE for part in below(node)):
                value = formula(node)  # of the position alone, and it does not fall as that grows
                return value(self._step.first), value(last)
            case Op.LOAD if self._indices.named(node) == "positions":
                return self._step.first, last
            case Op.LOAD if self._indices.named(node) == "logit_rows" and in_row:
                return 0, 0
            case Op.FLOORDIV if node.src[1].op is Op.CONST:
                lo, hi = self._interval(node.src[0], in_row)
                by = int(const_value(node.src[1]))
                return lo // by, hi // by
            case Op.FLOORMOD if node.src[1].op is Op.CONST:
                lo, hi = self._interval(node.src[0], in_row)
                by = int(const_value(node.src[1]))
                return (0, by - 1) if hi - lo >= by - 1 or hi % by < lo % by else (lo % by, hi % by)
            case Op.MUL if node.src[1].op is Op.CONST:
                lo, hi = self._interval(node.src[0], in_row)
                by = int(const_value(node.src[1]))
                return min(lo * by, hi * by), max(lo * by, hi * by)
            case Op.ADD:
                (a, b), (c, d) = self._interval(node.src[0], in_row), self._interval(node.src[1], in_row)
                return a + c, b + d
        return bounds(node)

    def rows_of(self, param: UOp) -> str:
        """The rows that a PARAM counts: "n" or "m"."""
        assert isinstance(param.arg, Param), param
        return self._indices.names[param.arg.slot]


def slot_of(base: UOp) -> int | None:
    """The slot of a PARAM under AFTERs; None for local storage and tables."""
    while base.op is Op.AFTER:
        base = base.src[0]
    return base.arg.slot if isinstance(base.arg, Param) else None


def _digits(term: UOp) -> tuple[UOp, Digits]:
    """What is under divisions and remainders by constants, and which digits of it they leave."""
    steps: list[tuple[Op, int]] = []
    while term.op in (Op.FLOORDIV, Op.FLOORMOD, Op.MUL) and term.src[1].op is Op.CONST:
        steps.append((term.op, int(const_value(term.src[1]))))
        term = term.src[0]
    least: int = 1
    most: int | None = None
    for op, by in reversed(steps):
        if op is Op.FLOORDIV:
            least *= by
        elif op is Op.FLOORMOD:
            most = least * by if most is None else min(most, least * by)
    return term, (least, most)


def _merged(digits: set[Digits]) -> tuple[Digits, ...]:
    """The same digits, where overlapping and touching ones are one."""
    merged: list[Digits] = []
    for least, most in sorted(digits, key=lambda each: each[0]):
        if merged and (merged[-1][1] is None or merged[-1][1] >= least):
            known = merged[-1][1]
            top = None if known is None or most is None else max(known, most)
            merged[-1] = (merged[-1][0], top)
        else:
            merged.append((least, most))
    return tuple(merged)


def _unclamped(node: UOp) -> UOp:
    """x of `where(x < c, x, c)`, which only keeps an index in range."""
    if node.op is Op.WHERE and node.src[0].op is Op.CMPLT and node.src[0].src[0] is node.src[1]:
        return node.src[1]
    return node


Leaves = tuple[UOp, ...] | None


def leaves(node: UOp, known: dict[UOp, Leaves]) -> Leaves:
    """The integers that tell a value's elements apart: places of loads, and what it computes with besides.

    None where it reads local storage or a fold: these are told apart by their loops. `known` are those of everything
    that the value is made of.
    """
    match node.op:
        case Op.CONST:
            return ()
        case Op.REDUCE | Op.AFTER:
            return None
        case Op.LOAD if slot_of(node.src[0].src[0]) is not None:
            return (node.src[0].src[1],)
        case Op.RANGE | Op.LOAD:
            return None
        case _ if node.dtype in (DType.I32, DType.U32) and _digits(node)[0].op is Op.RANGE:
            return (node,)
    found: dict[UOp, None] = {}
    for source in node.src:
        own = known[source]
        if own is None:
            return None
        found |= dict.fromkeys(own)
    return tuple(found)


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
