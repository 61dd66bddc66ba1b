"""within(node, least, most): a proof, where one is found, that an i32 value always lies in least .. most.

Intervals forget that a loop ends at a value which also stands elsewhere: in `n // 4 * 4 + r` with `r < n % 4`. So where
they do not suffice, a term is replaced by something at least as large until they do: a loop variable by its last value,
a WHERE by each of its sides with what the condition says, `d * (x // d)` by x; and what a condition says is added. Each
step is sound; the search is bounded.
"""

from collections.abc import Iterator

from msgspec import Struct, field

from circuit.uop.bounds import (
    Facts,
    Linear,
    bounds,
    bounds_under,
    comparisons,
    difference,
    facts_of,
    linear,
    linear_bounds,
)
from circuit.uop.build import i32
from circuit.uop.node import Const, DType, Op, UOp, substitute, toposort
from circuit.uop.scalar import LIMITS
from circuit.uop.simplify import simplify

_STEPS = 200


def within(node: UOp, least: int, most: int) -> bool:
    """Whether the proof succeeds."""
    lo, hi = bounds(node)
    if least <= lo and hi <= most:
        return True
    value = simplify(node)
    lo, hi = bounds(value)
    high = hi <= most or _at_most(value, most, _Known(), [_STEPS])
    return high and (least <= lo or _at_most(simplify(value * -1), -least, _Known(), [_STEPS]))


class _Known(Struct, frozen=True):
    """What the conditions around say: intervals, and linear forms that are at least 0."""

    facts: Facts = field(default_factory=dict)
    forms: tuple[Linear, ...] = ()


def _at_most(value: UOp, most: int, known: _Known, steps: list[int]) -> bool:
    """Whether a simplified value is at most `most` under what is known."""
    lo, hi = bounds_under(value, known.facts)
    if hi <= most or lo > hi:
        return True
    if steps[0] == 0 or _may_wrap(value):
        return False
    if any(_with_form(value, form, known.facts) <= most for form in known.forms):
        return True
    steps[0] -= 1
    choice = _choice(value)
    if choice is not None:
        return all(
            _at_most(simplify(substitute(value, {choice: side})), most, more, steps)
            for side, truth in ((choice.src[1], 1), (choice.src[2], 0))
            if (more := _learned(known, choice.src[0], truth)) is not None
        )
    r = _loop(value)
    if r is not None:
        last = r.src[0] - 1 if _direction(value, r) == 1 else i32(0)
        return _at_most(simplify(substitute(value, {r: last})), most, known, steps)
    return any(_at_most(simplify(larger), most, known, steps) for larger in _relaxed(value))


def _may_wrap(value: UOp) -> bool:
    """Whether a sum or product inside may leave i32: then nothing is known of the integer behind it."""
    return any(node.op in (Op.ADD, Op.MUL) and bounds(node) == LIMITS[DType.I32] for node in _arithmetic(value))


def _learned(known: _Known, condition: UOp, truth: int) -> _Known | None:
    """What is known where the condition has that truth; None where it cannot have it."""
    facts = dict(known.facts)
    for node, (lo, hi) in facts_of(condition, truth).items():
        a, b = facts.get(node) or bounds(node)
        facts[node] = (max(a, lo), min(b, hi))
    if any(lo > hi for lo, hi in facts.values()):
        return None
    signed = [found for found in comparisons(condition, truth) if found[0].dtype is DType.I32]
    forms = [(terms, k - gap) for a, b, gap in signed for terms, k in (difference(b, a),) if terms]
    return _Known(facts, (*known.forms, *forms))


def _with_form(value: UOp, form: Linear, facts: Facts) -> int:
    """The most that the value can be, given form >= 0: n*value <= n*value + m*form for m >= 0, where a term cancels."""
    terms, constant = linear(value)
    best = bounds(value)[1]
    for atom, c in terms.items():
        n = -form[0].get(atom, 0) if c > 0 else form[0].get(atom, 0)
        if n > 0:
            m = abs(c)
            total = {a: n * terms.get(a, 0) + m * form[0].get(a, 0) for a in (*terms, *form[0])}
            best = min(best, linear_bounds(total, n * constant + m * form[1], facts)[1] // n)
    return best


def _choice(value: UOp) -> UOp | None:
    """A WHERE of integers that the value depends on by arithmetic."""
    arithmetic = _arithmetic(value)
    return next((node for node in toposort(value) if node.op is Op.WHERE and node in arithmetic), None)


def _arithmetic(value: UOp) -> set[UOp]:
    """The nodes that a value depends on without a load or a comparison in between."""
    seen: set[UOp] = set()
    pending = [value]
    while pending:
        node = pending.pop()
        if node not in seen:
            seen.add(node)
            if node.op is Op.WHERE:
                pending.extend(node.src[1:])
            elif node.op in (Op.ADD, Op.MUL, Op.FLOORDIV, Op.FLOORMOD, Op.MAX):
                pending.extend(node.src)
    return seen


def _loop(value: UOp) -> UOp | None:
    """A RANGE in which the value is monotone and that no other such RANGE ends at, so that it can go first."""
    found = [node for node in toposort(value) if node.op is Op.RANGE and _direction(value, node) in (-1, 1)]
    return next((r for r in reversed(found) if not any(r in other.src[0].ranges for other in found)), None)


def _direction(value: UOp, r: UOp) -> int | None:
    """1 where the value never falls as r grows, -1 where it never rises, 0 without r, None where unknown."""
    if value is r:
        return 1
    if r not in value.ranges:
        return 0
    match value.op, value.src:
        case ((Op.ADD | Op.MAX), (a, b)):
            one, other = _direction(a, r), _direction(b, r)
            if one is None or other is None:
                return None
            return one + other if one * other == 0 else one if one == other else None
        case Op.MUL, (a, b) if isinstance(b.arg, Const):
            inner = _direction(a, r)
            return None if inner is None else inner if b.arg.bits >= 0 else -inner
        case Op.FLOORDIV, (a, b) if isinstance(b.arg, Const) and b.arg.bits > 0:
            return _direction(a, r)
    return None


def _relaxed(value: UOp) -> Iterator[UOp]:
    """Values at least as large, each with one division taken off: e * (y // e) is in y - e + 1 .. y.

    A term c * (x // D) gives it for y = x, and for y = x // d where another term divides by d, as x // D = y // (D/d).
    """
    terms, _ = linear(value)
    quotients = {node: d for node in terms if (d := _divisor(node)) > 0}
    for node, divisor in quotients.items():
        x, c = node.src[0], terms[node]
        for y, d in ((x, 1), *((other, d) for other, d in quotients.items() if other.src[0] is x)):
            e = divisor // d
            if divisor % d == 0 and e > 1 and c % e == 0:
                yield value + node * -c + (y if c > 0 else y - (e - 1)) * (c // e)


def _divisor(node: UOp) -> int:
    """The constant that a FLOORDIV divides by, else 0."""
    divisor = node.src[1].arg if node.op is Op.FLOORDIV else None
    return divisor.bits if isinstance(divisor, Const) else 0
