"""Index arithmetic in i32: sums of terms in one order, floor division and remainder resolved through bounds.

A form stands for `sum(coefficient * atom) + constant`. Sums and products by a constant are exact modulo 2**32, whatever
overflows. Division and comparison look at the integer behind the form, so they are rewritten only where its interval
proves that it fits i32; otherwise they stay as written.
"""

import hashlib
import math
from collections.abc import Callable

from msgspec import Struct, field

from circuit.uop.bounds import Interval, bounds
from circuit.uop.node import Const, DType, Loop, Op, Param, UOp, const, toposort
from circuit.uop.scalar import LIMITS, wrap_i32

Form = tuple[dict[UOp, int], int]  # coefficient of each atom, constant; never edited


class Forms(Struct, frozen=True):
    """What one simplification remembers. Every node in it is simplified."""

    of: dict[UOp, Form] = field(default_factory=dict)
    key: dict[UOp, str] = field(default_factory=dict)
    divided: dict[tuple[Op, UOp, int], UOp] = field(default_factory=dict)


def add(forms: Forms, a: UOp, b: UOp) -> UOp:
    """a + b."""
    (terms, k), (more, m) = form_of(forms, a), form_of(forms, b)
    total = dict(terms)
    for atom, c in more.items():
        total[atom] = total.get(atom, 0) + c
    return build(forms, total, k + m)


def mul(forms: Forms, a: UOp, b: UOp) -> UOp:
    """a * b: a constant is distributed, two unknowns make an atom."""
    if a.op is Op.CONST or (b.op is not Op.CONST and key_of(forms, b) < key_of(forms, a)):
        a, b = b, a
    if b.op is not Op.CONST:
        return UOp(Op.MUL, (a, b))
    c = _int(b)
    terms, k = form_of(forms, a)
    return build(forms, {atom: t * c for atom, t in terms.items()}, k * c)


def floordiv(forms: Forms, x: UOp, d: int) -> UOp:
    """x // d for d > 0."""
    return _divided(forms, Op.FLOORDIV, x, d, _floordiv)


def floormod(forms: Forms, x: UOp, d: int) -> UOp:
    """x % d for d > 0."""
    return _divided(forms, Op.FLOORMOD, x, d, _floormod)


def less(forms: Forms, a: UOp, b: UOp) -> UOp | None:
    """a < b as true, false, or with its common factor and small terms removed; None where nothing is known."""
    if a is b:
        return const(DType.BOOL, 0)
    (terms, k), (more, m) = form_of(forms, a), form_of(forms, b)
    if not (_fits((terms, k)) and _fits((more, m))):
        return None
    gap = dict(terms)
    for atom, c in more.items():
        gap[atom] = gap.get(atom, 0) - c
    form = ({atom: c for atom, c in gap.items() if c}, k - m)  # a < b where form < 0
    lo, hi = interval(form)
    if hi < 0 or lo >= 0:
        return const(DType.BOOL, hi < 0)
    for g in sorted({abs(c) for c in form[0].values() if abs(c) > 1}, reverse=True):
        (part, constant), rest = _split(form, g)
        lo, hi = interval(rest)
        if part and lo >= 0 and hi < g:  # g*p + r < 0 where p < 0, for 0 <= r < g
            form = ({atom: c // g for atom, c in part.items()}, constant // g)
            break
    left = ({atom: c for atom, c in form[0].items() if c > 0}, 0)
    right = ({atom: -c for atom, c in form[0].items() if c < 0}, -form[1])
    if not left[0]:
        left, right = ({}, form[1]), (right[0], 0)
    if not (_fits(left) and _fits(right)):
        return None
    return UOp(Op.CMPLT, (build(forms, *left), build(forms, *right)))


def form_of(forms: Forms, node: UOp) -> Form:
    """The form of a simplified node."""
    found = forms.of.get(node)
    if found is not None:
        return found
    stack = [node]
    while stack:
        top = stack[-1]
        missing = [s for s in _parts(top) if s not in forms.of]
        stack.extend(missing)
        if not missing:
            forms.of[stack.pop()] = _form(forms, top)
    return forms.of[node]


def interval(form: Form) -> Interval:
    """The bounds of the integer that a form stands for, which may leave i32."""
    lo = hi = form[1]
    for atom, c in form[0].items():
        a, b = bounds(atom)
        lo += min(a * c, b * c)
        hi += max(a * c, b * c)
    return (lo, hi)


def build(forms: Forms, terms: dict[UOp, int], constant: int) -> UOp:
    """The node of a form: the largest coefficient first, the constant last."""
    kept = {atom: w for atom, c in terms.items() if (w := wrap_i32(c))}
    constant = wrap_i32(constant)
    if len(kept) > 1 and any(atom.op is Op.FLOORMOD for atom in kept):
        kept, constant = _joined(forms, kept, constant)
    node: UOp | None = None
    for atom, c in _ordered(forms, kept):
        term = atom if c == 1 else UOp(Op.MUL, (atom, const(DType.I32, c)))
        node = term if node is None else UOp(Op.ADD, (node, term))
    if node is None:
        node = const(DType.I32, constant)
    elif constant:
        node = UOp(Op.ADD, (node, const(DType.I32, constant)))
    forms.of[node] = (kept, constant)
    return node


def key_of(forms: Forms, node: UOp) -> str:
    """A text that orders nodes by their structure, the same in every run."""
    if node not in forms.key:
        for top in toposort(node):
            if top not in forms.key:
                forms.key[top] = _key(forms, top)
    return forms.key[node]


def _key(forms: Forms, node: UOp) -> str:
    match node.op, node.arg:
        case Op.RANGE, Loop(name=name):
            return f"r {name}"
        case Op.PARAM, Param(slot=slot, shape=()):
            return f"p {slot:09}"
    text = " ".join((node.op, repr(node.arg), *(forms.key[s] for s in node.src)))
    return f"~ {hashlib.sha256(text.encode()).hexdigest()}"


def _ordered(forms: Forms, terms: dict[UOp, int]) -> list[tuple[UOp, int]]:
    items = list(terms.items())
    if len(items) < 2:
        return items
    if len({abs(c) for _, c in items}) == len(items):
        return sorted(items, key=lambda item: -abs(item[1]))
    return sorted(items, key=lambda item: (-abs(item[1]), key_of(forms, item[0])))


def _parts(node: UOp) -> tuple[UOp, ...]:
    if node.op is Op.ADD:
        return node.src
    return node.src[:1] if node.op is Op.MUL and node.src[1].op is Op.CONST else ()


def _form(forms: Forms, node: UOp) -> Form:
    if node.op is Op.CONST:
        return ({}, _int(node))
    if node.op is Op.ADD:
        (terms, k), (more, m) = (forms.of[s] for s in node.src)
        return ({**terms, **{atom: terms.get(atom, 0) + c for atom, c in more.items()}}, k + m)
    if _parts(node):
        (terms, k), c = forms.of[node.src[0]], _int(node.src[1])
        return ({atom: t * c for atom, t in terms.items()}, k * c)
    return ({node: 1}, 0)


def _int(node: UOp) -> int:
    assert isinstance(node.arg, Const), node
    return node.arg.bits


def _fits(form: Form) -> bool:
    lo, hi = interval(form)
    return LIMITS[DType.I32][0] <= lo and hi <= LIMITS[DType.I32][1]


def _split(form: Form, g: int) -> tuple[Form, Form]:
    """form = A + B where g divides all of A, and B's constant is in 0 .. g-1."""
    whole = {atom: c for atom, c in form[0].items() if c % g == 0}
    rest = {atom: c for atom, c in form[0].items() if c % g}
    return (whole, form[1] - form[1] % g), (rest, form[1] % g)


def _divided(forms: Forms, op: Op, x: UOp, d: int, rule: Callable[[Forms, UOp, int], UOp]) -> UOp:
    found = forms.divided.get((op, x, d))
    if found is None:
        found = rule(forms, x, d) if _fits(form_of(forms, x)) else UOp(op, (x, const(DType.I32, d)))
        forms.divided[op, x, d] = found
    return found


def _floordiv(forms: Forms, x: UOp, d: int) -> UOp:
    form = form_of(forms, x)
    lo, hi = interval(form)
    if lo // d == hi // d:  # x // d = m where m*d <= x < m*d + d
        return const(DType.I32, lo // d)
    quotient, rest = _reduced(form, d)  # (d*q + r) // d = q + r // d
    lo, hi = interval(rest)
    if lo // d == hi // d:
        return build(forms, quotient[0], quotient[1] + lo // d)
    if not _fits(rest):
        return UOp(Op.FLOORDIV, (x, const(DType.I32, d)))
    return add(forms, build(forms, *quotient), _divided_rest(forms, rest, d))


def _divided_rest(forms: Forms, rest: Form, d: int) -> UOp:
    """rest // d for a rest without multiples of d."""
    for g in _factors(rest, d):
        part, small = _split(rest, g)
        lo, hi = interval(small)
        if lo >= 0 and hi < g and _fits(part):  # (g*p + r) // (g*e) = p // e for 0 <= r < g
            return floordiv(forms, build(forms, {a: c // g for a, c in part[0].items()}, part[1] // g), d // g)
    if len(rest[0]) == 1:
        ((atom, c),) = rest[0].items()
        inner = _constant_divisor(atom)
        if c == 1 and inner and atom.op is Op.FLOORDIV and inner * d < 2**31:
            terms, k = form_of(forms, atom.src[0])
            if _fits((terms, k + rest[1] * inner)) and _fits((terms, k)):  # (x//a + k) // b = (x + k*a) // (a*b)
                return floordiv(forms, build(forms, terms, k + rest[1] * inner), inner * d)
        if c == 1 and inner and atom.op is Op.FLOORMOD and rest[1] == 0 and inner % d == 0:
            # (x % (a*b)) // a = x//a % b
            return floormod(forms, floordiv(forms, atom.src[0], d), inner // d)
    return UOp(Op.FLOORDIV, (build(forms, *rest), const(DType.I32, d)))


def _floormod(forms: Forms, x: UOp, d: int) -> UOp:
    form = form_of(forms, x)
    lo, hi = interval(form)
    if lo // d == hi // d:  # x % d = x - m*d where m*d <= x < m*d + d
        return build(forms, form[0], form[1] - lo // d * d)
    rest = _without_inner_remainders(forms, _reduced(form, d)[1], d)
    lo, hi = interval(rest)
    if lo // d == hi // d:
        return build(forms, rest[0], rest[1] - lo // d * d)
    if not _fits(rest):
        return UOp(Op.FLOORMOD, (x, const(DType.I32, d)))
    for g in _factors(rest, d):
        part, small = _split(rest, g)
        lo, hi = interval(small)
        if lo >= 0 and hi < g and _fits(part):  # (g*p + r) % (g*e) = g*(p % e) + r for 0 <= r < g
            inner = build(forms, {a: c // g for a, c in part[0].items()}, part[1] // g)
            scaled = mul(forms, floormod(forms, inner, d // g), const(DType.I32, g))
            return add(forms, scaled, build(forms, *small))
    return UOp(Op.FLOORMOD, (build(forms, *rest), const(DType.I32, d)))


def _reduced(form: Form, d: int) -> tuple[Form, Form]:
    """form = d*q + r: coefficients of r are below d in size, its constant is in 0 .. d-1."""
    quotient: dict[UOp, int] = {}
    rest: dict[UOp, int] = {}
    for atom, c in form[0].items():
        q = c // d if c >= 0 else -(-c // d)
        if q:
            quotient[atom] = q
        if c - q * d:
            rest[atom] = c - q * d
    return (quotient, form[1] // d), (rest, form[1] % d)


def _without_inner_remainders(forms: Forms, rest: Form, d: int) -> Form:
    """c * (y % m) = c * y modulo d where d divides c*m."""
    for atom, c in rest[0].items():
        inner = _constant_divisor(atom)
        if inner and atom.op is Op.FLOORMOD and c * inner % d == 0:
            terms, k = form_of(forms, atom.src[0])
            total = {a: t for a, t in rest[0].items() if a is not atom}
            for a, t in terms.items():
                total[a] = total.get(a, 0) + t * c
            reduced = _reduced(({a: t for a, t in total.items() if t}, rest[1] + k * c), d)[1]
            if _fits((terms, k)) and _fits(reduced):
                return _without_inner_remainders(forms, reduced, d)
    return rest


def _factors(form: Form, d: int) -> list[int]:
    """The common factors of d and a coefficient, largest first."""
    return sorted({g for c in form[0].values() if (g := math.gcd(c, d)) > 1}, reverse=True)


def _constant_divisor(node: UOp) -> int:
    """The positive constant that a FLOORDIV or FLOORMOD divides by, else 0."""
    if node.op not in (Op.FLOORDIV, Op.FLOORMOD) or node.src[1].op is not Op.CONST:
        return 0
    return max(_int(node.src[1]), 0)


def _joined(forms: Forms, terms: dict[UOp, int], constant: int) -> Form:
    """m*(u % a) + m*a*(u // a) = m*u, and m*(u % a) + m*a*(u//a % b) = m*(u % (a*b))."""
    for atom, m in terms.items():
        a = _constant_divisor(atom) if atom.op is Op.FLOORMOD else 0
        if not a or not any(c == m * a for c in terms.values()):
            continue
        u = atom.src[0]
        high = floordiv(forms, u, a)
        for other, c in terms.items():
            if c != m * a:
                continue
            b = _constant_divisor(other) if other.op is Op.FLOORMOD and other.src[0] is high else 0
            if other is high or (b and a * b < 2**31):
                joined = u if other is high else floormod(forms, u, a * b)
                kept = {t: k for t, k in terms.items() if t is not atom and t is not other}
                more, k = form_of(forms, joined)
                for t, n in more.items():
                    kept[t] = kept.get(t, 0) + n * m
                kept = {t: w for t, n in kept.items() if (w := wrap_i32(n))}
                return _joined(forms, kept, wrap_i32(constant + k * m))
    return terms, constant
