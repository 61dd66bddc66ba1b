"""simplify(root): the same program with less to compute. Every rule is exact, for every value of its variables.

Integers follow algebra modulo 2**32 and proven bounds. Floats get only what IEEE 754 grants for every input, -0 and
infinities included; NaNs count as equal. So `x + 0` stays (it turns -0 into +0) and `x + -0` goes.
"""

from collections.abc import Callable

from circuit.uop import affine
from circuit.uop.affine import Forms
from circuit.uop.bounds import bounds
from circuit.uop.node import Arg, Const, DType, Op, UOp, bound_ranges, const, const_value, toposort
from circuit.uop.scalar import LIMITS, function_of, is_alu, operand_type


def simplify(root: UOp, forms: Forms | None = None) -> UOp:
    """An equal program in normal form; simplify(simplify(x)) is simplify(x). `forms` remembers what was found of the
    same nodes before."""
    return root if root in _SIMPLE else simplify_all((root,), forms)[0]


def simplified(forms: Forms, op: Op, src: tuple[UOp, ...], arg: Arg) -> UOp:
    """The normal form of an elementwise op of sources that have theirs."""
    made = _make(forms, op, src, arg)
    _SIMPLE.add(made)
    return made


def simplify_all(roots: tuple[UOp, ...], forms: Forms | None = None) -> tuple[UOp, ...]:
    """Several roots that share nodes."""
    forms = Forms() if forms is None else forms
    new: dict[UOp, UOp] = {}
    binders: dict[UOp, UOp] = {}  # a RANGE as the thing that END, REDUCE, STAGE and AFTER name
    for node in toposort(*roots, leaves=_SIMPLE):
        if node in _SIMPLE:
            new[node] = node
        elif node.op is Op.RANGE:
            binders[node] = UOp(Op.RANGE, (new[node.src[0]],), node.arg)
            new[node] = _make(forms, Op.RANGE, binders[node].src, node.arg)
        else:
            named = bound_ranges(node) if node.op in _NAMING else ()
            first = len(node.src) - len(named)
            src = (*(new[s] for s in node.src[:first]), *(binders.get(s) or new[s] for s in node.src[first:]))
            new[node] = _make(forms, node.op, src, node.arg)
    _SIMPLE.update(new.values())
    return tuple(new[root] for root in roots)


_SIMPLE: set[UOp] = set()
_NAMING = frozenset((Op.END, Op.REDUCE, Op.STAGE, Op.AFTER))


def _make(forms: Forms, op: Op, src: tuple[UOp, ...], arg: Arg = None) -> UOp:
    """The simplified node of simplified sources."""
    if not is_alu(op):
        node = UOp(op, src, arg)
        return _point(node) if op in _READS else _STRUCTURE.get(op, _same)(node)
    scalar = not src[0].shape
    if scalar and all(s.op is Op.CONST for s in src):
        folded = _fold(op, src, arg)
        if folded is not None:
            return folded
    if op in _SWAPS and src[0].op is Op.CONST:
        src = (src[1], src[0])
    stretched = not scalar and any(s.shape != src[0].shape for s in src)
    for rule in () if stretched else _RULES_OF.get((op, operand_type(op, src)), ()):
        found = rule(forms, *src)
        if found is not None:
            return found
    if op is Op.CAST or op is Op.BITCAST:
        assert isinstance(arg, DType)
        found = _cast(forms, src[0], arg) if op is Op.CAST else _bitcast(src[0], arg)
        if found is not None:
            return found
    node = UOp(op, src, arg)
    return _point(node) if scalar else node


def _same(node: UOp) -> UOp:
    return node


def _alone(node: UOp) -> UOp:
    return node.src[0] if len(node.src) == 1 else node


_READS = frozenset((Op.RANGE, Op.LOAD, Op.PARAM))
_STRUCTURE: dict[Op, Callable[[UOp], UOp]] = {Op.AFTER: _alone, Op.INDEX: _alone, Op.END: _alone}
_SWAPS = frozenset((Op.ADD, Op.MUL, Op.XOR))  # a . b = b . a: constants go right


def _point(node: UOp) -> UOp:
    """A value that can only be one number is that number."""
    if node.dtype in LIMITS and not node.shape:
        lo, hi = bounds(node)
        if lo == hi:
            return const(node.dtype, lo)
    return node


def _fold(op: Op, src: tuple[UOp, ...], arg: Arg) -> UOp | None:
    values = [const_value(s) for s in src]
    if op in (Op.FLOORDIV, Op.FLOORMOD) and values[1] == 0:
        return None
    source = operand_type(op, src)
    dtype = arg if isinstance(arg, DType) else DType.BOOL if op is Op.CMPLT else source
    return const(dtype, function_of(op, dtype, source)(*values))


def _bits(node: UOp) -> int | None:
    """The bits of a constant, also of one that is repeated along axes."""
    while node.op is Op.EXPAND:
        node = node.src[0]
    return node.arg.bits if isinstance(node.arg, Const) else None


def _is(node: UOp, bits: int) -> bool:
    return _bits(node) == bits


_ONE, _NEGATIVE_ZERO, _MINUS_ONE = 0x3F800000, 0x80000000, 0xBF800000  # float32 bits


def _where_not(forms: Forms, p: UOp, a: UOp, b: UOp) -> UOp | None:
    return _make(forms, Op.WHERE, (p.src[0], b, a)) if p.op is Op.XOR and _is(p.src[1], 1) else None


def _i32_floordiv(forms: Forms, a: UOp, b: UOp) -> UOp | None:
    d = _bits(b)
    return affine.floordiv(forms, a, d) if d is not None and d > 0 and not a.shape else None


def _i32_floormod(forms: Forms, a: UOp, b: UOp) -> UOp | None:
    d = _bits(b)
    return affine.floormod(forms, a, d) if d is not None and d > 0 and not a.shape else None


def _i32_shl(forms: Forms, a: UOp, b: UOp) -> UOp | None:
    n = _bits(b)
    if n is None or not 0 <= n <= 31 or a.shape:
        return None
    return affine.mul(forms, a, const(DType.I32, (2**n + 2**31) % 2**32 - 2**31))


def _larger(a: UOp, b: UOp) -> UOp | None:
    (lo, hi), (low, high) = bounds(a), bounds(b)
    return b if hi <= low else a if lo >= high else None


def _again(forms: Forms, op: Op, a: UOp, b: UOp, limit: int, past: int | None = None) -> UOp | None:
    """(x . c) . d = x . f(c, d) for u32; `past` is the value where f exceeds the limit."""
    if a.op is not op:
        return None
    c, d = _bits(a.src[1]), _bits(b)
    if c is None or d is None:
        return None
    joined = c + d if op in (Op.ADD, Op.SHL) else c * d
    if joined <= limit:
        return _make(forms, op, (a.src[0], _like(b, joined)))
    if past is not None:
        return _like(b, past)
    return _make(forms, op, (a.src[0], _like(b, joined % 2**32))) if op in (Op.ADD, Op.MUL) else None


def _like(node: UOp, value: int) -> UOp:
    """A constant of the type and shape of a constant."""
    made = const(node.dtype, value)
    return UOp(Op.EXPAND, (made,), node.shape) if node.shape else made


def _xor(forms: Forms, a: UOp, b: UOp) -> UOp | None:
    d = _bits(b)
    c = _bits(a.src[1]) if a.op is Op.XOR else None
    return None if c is None or d is None else _make(forms, Op.XOR, (a.src[0], _like(b, c ^ d)))


def _u32_div_of_mod(forms: Forms, a: UOp, b: UOp) -> UOp | None:
    m, d = (_bits(a.src[1]) if a.op is Op.FLOORMOD else None), _bits(b)
    if not m or not d or m % d:
        return None
    return _make(forms, Op.FLOORMOD, (_make(forms, Op.FLOORDIV, (a.src[0], b)), _like(b, m // d)))


def _u32_mod_of_mod(forms: Forms, a: UOp, b: UOp) -> UOp | None:
    m, d = (_bits(a.src[1]) if a.op is Op.FLOORMOD else None), _bits(b)
    return _make(forms, Op.FLOORMOD, (a.src[0], b)) if m and d and m % d == 0 else None


def _where_of_where(forms: Forms, p: UOp, a: UOp, b: UOp) -> UOp | None:
    x = a.src[1] if a.op is Op.WHERE and a.src[0] is p else a
    y = b.src[2] if b.op is Op.WHERE and b.src[0] is p else b
    return None if x is a and y is b else _make(forms, Op.WHERE, (p, x, y))


def _cast(forms: Forms, x: UOp, to: DType) -> UOp | None:
    if x.dtype is to:  # cast to the own type
        return x
    if x.op is Op.CAST:
        first = x.src[0]
        if first.dtype is DType.BOOL:  # 0 and 1 survive every type
            return _make(forms, Op.CAST, (first,), to)
        if {first.dtype, x.dtype} == {DType.I32, DType.U32} and to in (DType.I32, DType.U32):  # wraps there and back
            return first
    return None


def _bitcast(x: UOp, to: DType) -> UOp | None:
    if x.dtype is to:
        return x
    return x.src[0] if x.op is Op.BITCAST and to is DType.F32 else None  # f32 -> u32 -> f32


Rule = Callable[..., UOp | None]
_BOOL, _I32, _U32, _F32 = DType.BOOL, DType.I32, DType.U32, DType.F32

# (op, type of the operands, rule). The first rule that gives a node wins.
RULES: tuple[tuple[Op, DType, Rule], ...] = (
    (Op.ADD, _BOOL, lambda _, a, b: a if a is b or _is(b, 0) else None),  # a or a = a, a or 0 = a
    (Op.ADD, _BOOL, lambda _, a, b: b if _is(b, 1) else None),  # a or 1 = 1
    (Op.MUL, _BOOL, lambda _, a, b: a if a is b or _is(b, 1) else None),  # a and a = a, a and 1 = a
    (Op.MUL, _BOOL, lambda _, a, b: b if _is(b, 0) else None),  # a and 0 = 0
    (Op.XOR, _BOOL, lambda _, a, b: a if _is(b, 0) else None),  # a ^ 0 = a
    (Op.XOR, _BOOL, _xor),  # (a ^ c) ^ d = a ^ (c ^ d)
    (Op.ADD, _I32, lambda f, a, b: None if a.shape else affine.add(f, a, b)),  # one order of terms
    (Op.MUL, _I32, lambda f, a, b: None if a.shape else affine.mul(f, a, b)),  # c*(x + k) = c*x + c*k
    (Op.SHL, _I32, _i32_shl),  # x << n = x * 2**n modulo 2**32
    (Op.FLOORDIV, _I32, _i32_floordiv),  # (d*q + r) // d = q for 0 <= r < d, and more: affine.py
    (Op.FLOORMOD, _I32, _i32_floormod),  # (d*q + r) % d = r for 0 <= r < d, and more: affine.py
    (Op.CMPLT, _I32, lambda f, a, b: None if a.shape else affine.less(f, a, b)),  # decided by a - b
    (Op.MAX, _I32, lambda _, a, b: _larger(a, b)),  # max(a, b) = b for a <= b
    (Op.XOR, _I32, lambda _, a, b: a if _is(b, 0) else None),  # x ^ 0 = x
    (Op.XOR, _I32, _xor),  # (x ^ c) ^ d = x ^ (c ^ d)
    (Op.ADD, _U32, lambda _, a, b: a if _is(b, 0) else None),  # x + 0 = x
    (Op.ADD, _U32, lambda f, a, b: _again(f, Op.ADD, a, b, 2**32 - 1)),  # (x + c) + d = x + (c + d)
    (Op.MUL, _U32, lambda _, a, b: a if _is(b, 1) else b if _is(b, 0) else None),  # x * 1 = x, x * 0 = 0
    (Op.MUL, _U32, lambda f, a, b: _again(f, Op.MUL, a, b, 2**32 - 1)),  # (x * c) * d = x * (c*d)
    (Op.SHL, _U32, lambda _, a, b: a if _is(b, 0) else None),  # x << 0 = x
    (Op.SHL, _U32, lambda f, a, b: _again(f, Op.SHL, a, b, 31, 0)),  # (x << c) << d = x << (c + d), 0 from 32 on
    (Op.FLOORDIV, _U32, lambda _, a, b: a if _is(b, 1) else None),  # x // 1 = x
    (Op.FLOORDIV, _U32, lambda f, a, b: _again(f, Op.FLOORDIV, a, b, 2**32 - 1, 0)),  # x//c//d = x // (c*d)
    (Op.FLOORDIV, _U32, _u32_div_of_mod),  # x % (d*m) // d = x//d % m
    (Op.FLOORMOD, _U32, _u32_mod_of_mod),  # x % (d*m) % d = x % d
    (Op.FLOORMOD, _U32, lambda _, a, b: a if bounds(a)[1] < bounds(b)[0] else None),  # x % d = x for x < d
    (Op.XOR, _U32, lambda _, a, b: a if _is(b, 0) else None),  # x ^ 0 = x
    (Op.XOR, _U32, _xor),  # (x ^ c) ^ d = x ^ (c ^ d)
    (Op.MAX, _U32, lambda _, a, b: _larger(a, b)),  # max(a, b) = b for a <= b
    (Op.ADD, _F32, lambda _, a, b: a if _is(b, _NEGATIVE_ZERO) else None),  # x + -0 = x
    (Op.MUL, _F32, lambda _, a, b: a if _is(b, _ONE) else None),  # x * 1 = x
    (
        Op.MUL,
        _F32,
        lambda _, a, b: a.src[0] if a.op is Op.MUL and _is(b, _MINUS_ONE) and _is(a.src[1], _MINUS_ONE) else None,
    ),  # -(-x) = x
    (Op.MULACC, _F32, lambda f, a, b, c: _make(f, Op.MUL, (a, b)) if _is(c, _NEGATIVE_ZERO) else None),  # a*b + -0
    (Op.MULACC, _F32, lambda f, a, b, c: _make(f, Op.ADD, (a, c)) if _is(b, _ONE) else None),  # a*1 + c = a + c
    (Op.MULACC, _F32, lambda f, a, b, c: _make(f, Op.ADD, (b, c)) if _is(a, _ONE) else None),  # 1*b + c = b + c
    (Op.MAX, _F32, lambda _, a, b: a if a is b else None),  # max(x, x) = x
    (Op.TRUNC, _F32, lambda _, a: a if a.op is Op.TRUNC else None),  # trunc(trunc(x)) = trunc(x)
    (Op.TRUNC, _F32, lambda _, a: a if a.op is Op.CAST else None),  # an integer has no fraction
    *(
        (Op.WHERE, dtype, rule)
        for dtype in (_BOOL, _I32, _U32, _F32)
        for rule in (
            lambda _, p, a, b: a if a is b or _is(p, 1) else b if _is(p, 0) else None,  # where(1, a, b) = a
            _where_not,  # where(not p, a, b) = where(p, b, a)
            _where_of_where,  # where(p, where(p, a, x), b) = where(p, a, b)
        )
    ),
    (Op.WHERE, _BOOL, lambda _, p, a, b: p if _is(a, 1) and _is(b, 0) else None),  # where(p, 1, 0) = p
    *((Op.CMPLT, dtype, lambda _, a, b: const(_BOOL, 0) if a is b and not a.shape else None) for dtype in (_U32, _F32)),
    *((Op.XOR, dtype, lambda _, a, b: const(a.dtype, 0) if a is b and not a.shape else None) for dtype in LIMITS),
)

_RULES_OF: dict[tuple[Op, DType], tuple[Rule, ...]] = {}
for _op, _dtype, _rule in RULES:
    _RULES_OF[_op, _dtype] = (*_RULES_OF.get((_op, _dtype), ()), _rule)
