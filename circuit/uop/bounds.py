"""bounds(node): an interval that holds every value an integer or bool node can take.

Arithmetic wraps, so an interval that leaves the range of its type becomes that whole range. A loaded value has the
bounds that its storage declares. A WHERE counts what its condition says about the chosen side.
"""

from collections.abc import Iterable, Iterator

from circuit.uop.node import Const, DType, Fold, Op, Param, Storage, UOp, bound_ranges, const
from circuit.uop.scalar import LIMITS, identity

Interval = tuple[int, int]


def bounds(node: UOp) -> Interval:
    """The least and the largest value, both possible as far as intervals can tell; computed once a node."""
    if node._bounds is None:
        assert node.dtype in LIMITS, f"a value of type {node.dtype} has no bounds"
        stack = [node]
        while stack:
            top = stack[-1]
            missing = [s for s in top.src if s._bounds is None and s.dtype in LIMITS]
            if missing and top._bounds is None:
                stack.extend(missing)
                continue
            stack.pop()
            if top._bounds is None:
                top._bounds = _interval(top, [s._bounds or _NONE for s in top.src])
    assert node._bounds is not None
    return node._bounds


_NONE = (0, 0)  # stands for the bounds of a source that has none; no rule reads it


def _interval(node: UOp, src: list[Interval]) -> Interval:
    full = LIMITS[node.dtype]
    match node.op:
        case Op.CONST:
            assert isinstance(node.arg, Const)
            return (node.arg.bits, node.arg.bits)
        case Op.PARAM | Op.BUFFER | Op.ALLOC:
            assert isinstance(node.arg, (Param, Storage))
            lo, hi = node.arg.lo, node.arg.hi
            return (full[0] if lo is None else lo, full[1] if hi is None else hi)
        case Op.RANGE:
            return (0, max(src[0][1] - 1, 0))
        case Op.WHERE:
            return _where(node, src)
        case Op.STACK:
            return _union(src)
        case Op.REDUCE:
            return _reduce(node, src, full)
        case Op.CAST:
            return _cast(node, src[0], full)
        case Op.INDEX | Op.AFTER | Op.LOAD | Op.STAGE | Op.SHRINK | Op.EXPAND | Op.RESHAPE | Op.PERMUTE | Op.DETACH:
            return src[0]
    if node.op in _ALU:
        return _alu(node, src, full)
    return full


_ALU = frozenset((Op.ADD, Op.MUL, Op.MULACC, Op.MAX, Op.XOR, Op.CMPLT, Op.SHL, Op.FLOORDIV, Op.FLOORMOD))


def _alu(node: UOp, src: list[Interval], full: Interval) -> Interval:
    if node.op is Op.CMPLT and node.src[0].dtype in LIMITS:
        (a, b), (c, d) = src
        return (1, 1) if b < c else (0, 0) if a >= d else (0, 1)
    if node.dtype is DType.BOOL:
        return _logic(node.op, src)
    match node.op, src:
        case Op.ADD, [(a, b), (c, d)]:
            return _fit((a + c, b + d), full)
        case Op.MUL, [x, y]:
            return _fit(_product(x, y), full)
        case Op.MULACC, [x, y, (c, d)]:
            lo, hi = _product(x, y)
            return _fit((lo + c, hi + d), full)
        case Op.MAX, [(a, b), (c, d)]:
            return (max(a, c), max(b, d))
        case Op.XOR, [(a, b), (c, d)] if a >= 0 and c >= 0:
            return (a ^ c, a ^ c) if a == b and c == d else (0, (1 << max(b.bit_length(), d.bit_length())) - 1)
        case Op.SHL, [(a, b), (c, d)] if c >= 0 and d <= 31:
            return _fit((min(a << c, a << d), max(b << c, b << d)), full)
        case Op.FLOORDIV, [(a, b), (c, d)] if c > 0 or d < 0:
            corners = [x // y for x in (a, b) for y in (c, d)]
            return _fit((min(corners), max(corners)), full)
        case Op.FLOORMOD, [x, y]:
            return _modulo(x, y, full)
    return full


def _logic(op: Op, src: list[Interval]) -> Interval:
    match op, src:
        case ((Op.ADD | Op.MAX), [(a, b), (c, d)]):
            return (a | c, b | d)
        case Op.MUL, [(a, b), (c, d)]:
            return (a & c, b & d)
        case Op.XOR, [(a, b), (c, d)] if a == b and c == d:
            return (a ^ c, a ^ c)
    return (0, 1)


def _product(x: Interval, y: Interval) -> Interval:
    corners = [a * b for a in x for b in y]
    return (min(corners), max(corners))


def _modulo(x: Interval, y: Interval, full: Interval) -> Interval:
    (a, b), (c, d) = x, y
    if c > 0:
        if c == d and a // c == b // c:
            return (a % c, b % c)
        return (a, b) if a >= 0 and b < c else (0, min(b, d - 1) if a >= 0 else d - 1)
    return (c + 1, 0) if d < 0 else full


def _cast(node: UOp, source: Interval, full: Interval) -> Interval:
    if node.src[0].dtype is DType.F32:
        return full
    if node.dtype is DType.BOOL:
        lo, hi = source
        return (0, 0) if lo == hi == 0 else (1, 1) if lo > 0 or hi < 0 else (0, 1)
    return _fit(source, full)


def _reduce(node: UOp, src: list[Interval], full: Interval) -> Interval:
    assert isinstance(node.arg, Fold)
    least = most = 1
    for size in node.src[0].shape[: node.arg.pop]:
        least, most = least * size, most * size
    for axis in bound_ranges(node) if node.arg.pop == 0 else ():
        lo, hi = bounds(axis.src[0])
        least, most = least * max(lo, 0), most * max(hi, 0)
    start = int(identity(node.arg.op, node.dtype))
    match node.arg.op:
        case "max":
            return src[0] if least > 0 else (start, max(src[0][1], start))
        case "add" if node.dtype is not DType.BOOL:
            lo, hi = src[0]
            return _fit((min(lo * least, lo * most), max(hi * least, hi * most)), full)
    return full


def _fit(x: Interval, full: Interval) -> Interval:
    return x if full[0] <= x[0] and x[1] <= full[1] else full


def _union(parts: Iterable[Interval]) -> Interval:
    listed = list(parts)
    return (min(lo for lo, _ in listed), max(hi for _, hi in listed))


def _where(node: UOp, src: list[Interval]) -> Interval:
    condition, yes, no = node.src
    if src[0] == (1, 1):
        return src[1]
    if src[0] == (0, 0):
        return src[2]
    sides = (_side(yes, condition, 1), _side(no, condition, 0))
    return _union([side for side in sides if side[0] <= side[1]] or src[1:])


def _side(node: UOp, condition: UOp, truth: int) -> Interval:
    """The bounds of a value that is taken where the condition has that truth."""
    lo, hi = bounds_under(node, facts_of(condition, truth))
    if node.dtype is not DType.I32 or node.op not in (Op.ADD, Op.MUL):
        return lo, hi
    terms, constant = difference(node, const(DType.I32, 0))
    for below, above, gap in comparisons(condition, truth):
        compared, rest = difference(above, below) if below.dtype is DType.I32 else ({}, 0)
        if terms and terms == compared:
            lo = max(lo, gap - rest + constant)
        elif terms and terms == {atom: -c for atom, c in compared.items()}:
            hi = min(hi, constant + rest - gap)
    return lo, hi


Facts = dict[UOp, Interval]


def facts_of(condition: UOp, truth: int) -> Facts:
    """What the truth of a condition says about integer nodes."""
    facts: Facts = {}
    for below, above, gap in comparisons(condition, truth):
        _narrow(facts, below, LIMITS[below.dtype][0], bounds(above)[1] - gap)
        _narrow(facts, above, bounds(below)[0] + gap, LIMITS[below.dtype][1])
        if below.dtype is DType.I32:
            _narrow_terms(facts, below, above, gap)
    return facts


def comparisons(condition: UOp, truth: int) -> Iterator[tuple[UOp, UOp, int]]:
    """(a, b, gap) with b - a >= gap, for all integer comparisons that the truth of a condition decides."""
    pending = [(condition, truth)]
    while pending:
        node, holds = pending.pop()
        match node.op, holds:
            case Op.XOR, _ if node.dtype is DType.BOOL and bounds(node.src[1]) == (1, 1):
                pending.append((node.src[0], 1 - holds))
            case (Op.MUL, 1) | (Op.ADD, 0):
                pending.extend((s, holds) for s in node.src)
            case Op.CMPLT, _ if node.src[0].dtype in (DType.I32, DType.U32):
                a, b = node.src
                yield (a, b, 1) if holds else (b, a, 0)


def _narrow_terms(facts: Facts, below: UOp, above: UOp, gap: int) -> None:
    """above - below >= gap, as a fact about each of the terms: c*x >= gap - the most that the others can be."""
    terms, constant = difference(above, below)
    most = linear_bounds(terms, constant, {})[1]
    for atom, c in terms.items():
        lo, hi = bounds(atom)
        rest = most - max(c * lo, c * hi)
        if c > 0:
            _narrow(facts, atom, -((rest - gap) // c), hi)
        elif c < 0:
            _narrow(facts, atom, lo, (rest - gap) // -c)


Linear = tuple[dict[UOp, int], int]  # coefficients and a constant: an integer that may leave i32


def difference(a: UOp, b: UOp) -> Linear:
    """a - b of two i32 as a linear form; the form 0 where one of them may have wrapped."""
    terms: dict[UOp, int] = {}
    constant = 0
    for side, sign in ((a, 1), (b, -1)):
        found, k = linear(side)
        lo, hi = linear_bounds(found, k, {})
        if not LIMITS[DType.I32][0] <= lo <= hi <= LIMITS[DType.I32][1]:
            return {}, 0
        constant += sign * k
        for atom, c in found.items():
            terms[atom] = terms.get(atom, 0) + sign * c
    return terms, constant


def linear(node: UOp) -> Linear:
    """A sum of products by constants."""
    terms: dict[UOp, int] = {}
    constant = 0
    pending = [(node, 1)]
    while pending:
        part, c = pending.pop()
        match part.op, part.src:
            case Op.CONST, _:
                constant += c * bounds(part)[0]
            case Op.ADD, _:
                pending.extend((s, c) for s in part.src)
            case Op.MUL, (x, y) if y.op is Op.CONST:
                pending.append((x, c * bounds(y)[0]))
            case _:
                terms[part] = terms.get(part, 0) + c
    return terms, constant


def linear_bounds(terms: dict[UOp, int], constant: int, facts: Facts) -> Interval:
    """The interval of a linear form."""
    lo = hi = constant
    for atom, c in terms.items():
        least, most = bounds_under(atom, facts)
        lo += min(c * least, c * most)
        hi += max(c * least, c * most)
    return (lo, hi)


def _narrow(facts: Facts, node: UOp, lo: int, hi: int) -> None:
    if node.op is not Op.CONST:
        a, b = facts.get(node) or bounds(node)
        facts[node] = (max(a, lo), min(b, hi))


def bounds_under(node: UOp, facts: Facts) -> Interval:
    """The bounds of integer arithmetic over nodes about which facts are known."""
    if not facts:
        return bounds(node)
    known = dict(facts)
    stack = [node]
    while stack:
        top = stack[-1]
        missing = [s for s in top.src if s not in known] if top.op in _ALU else []
        if top not in known and missing and top.dtype is not DType.BOOL:
            stack.extend(missing)
            continue
        stack.pop()
        if top not in known:
            inner = top.op in _ALU and top.dtype is not DType.BOOL
            known[top] = _interval(top, [known[s] for s in top.src]) if inner else bounds(top)
    a, b = bounds(node)
    lo, hi = known[node]
    return (max(a, lo), min(b, hi))
