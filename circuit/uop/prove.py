"""The scalar DAG of a program: what every element that it stores is, as an expression over what it loads.

A program in loops form, scheduled or not, is run by the evaluator on expressions: every loop is unrolled, buffers hold
leaves, a value that is stored and loaded again is the same expression, and a REDUCE is the explicit chain of its stated
order. What addresses (positions, page tables, token ids, counts of rows) must be given as numbers. Expressions are
hash-consed: in one Dag, two programs compute an element equally if it is the same object.

Nothing is reassociated, distributed or contracted. What `make` does besides is exact for every input, with all NaNs
equal: constants fold, a + b = b + a, a * b = b * a, x + -0 = x, x * 1 = x, and the like.
"""

from collections.abc import Callable, Iterator

from circuit.errors import PlanError, Problem
from circuit.uop.build import group
from circuit.uop.evaluate import Domain, run
from circuit.uop.node import DType, Op, UOp, f32_bits, f32_value
from circuit.uop.scalar import Value, function_of

MOST_EXPRESSIONS = 4_000_000
"""About a gigabyte."""


class Expression:
    """A node: an op of expressions, a constant (`bits`), or a leaf (`name`, element `bits`). Made by a Dag alone."""

    __slots__ = ("bits", "dtype", "name", "number", "op", "src")

    def __init__(
        self, op: Op, dtype: DType, src: tuple["Expression", ...], number: int, name: str = "", bits: int = 0
    ) -> None:
        self.op, self.dtype, self.src, self.number, self.name, self.bits = op, dtype, src, number, name, bits


Scalar = Value | Expression
"""What a run computes with: a number where it is known, else an expression."""


class Dag:
    """Expressions by what they are. Its `domain` is what the evaluator computes with."""

    def __init__(self, most: int = MOST_EXPRESSIONS) -> None:
        self._most = most
        self._made: dict[tuple[object, ...], Expression] = {}
        self.domain: Domain[Scalar] = Domain(constant=lambda value, _: value, function=self._function, number=_number)

    def __len__(self) -> int:
        return len(self._made)

    def leaves(self, name: str, count: int, dtype: DType = DType.F32) -> list[Scalar]:
        """What an array holds that nobody has computed: one leaf an element."""
        return [self.leaf(name, place, dtype) for place in range(count)]

    def leaf(self, name: str, place: int, dtype: DType = DType.F32) -> Expression:
        """One element of such an array."""
        return self._intern(Op.LOAD, dtype, (), name, place)

    def halves(self, low: Scalar, high: Scalar) -> Scalar:
        """A word of the low halves of two words."""
        low, high = (self._u32(Op.FLOORMOD, half, _HALF) for half in (low, high))
        return self._u32(Op.ADD, low, self._u32(Op.MUL, high, _HALF))

    def _u32(self, op: Op, a: Scalar, b: Scalar) -> Scalar:
        return self._function(op, DType.U32, DType.U32)(a, b)

    def constant(self, value: Scalar, dtype: DType) -> Expression:
        """The number as an expression; an expression is its own."""
        if isinstance(value, Expression):
            return value
        bits = f32_bits(value) if dtype is DType.F32 else int(value)
        return self._intern(Op.CONST, dtype, (), "", bits)

    def run(self, effects: tuple[UOp, ...], buffers: dict[int, list[Scalar]], params: dict[int, Scalar]) -> None:
        """Runs a program; `buffers` and `params` by slot, as for the evaluator, and what it stores is put there."""
        run(self.domain, group(*effects), buffers, params)

    def _intern(self, op: Op, dtype: DType, src: tuple[Expression, ...], name: str = "", bits: int = 0) -> Expression:
        key = (op, dtype, *src, name, bits)
        found = self._made.get(key)
        if found is None:
            if len(self._made) >= self._most:
                message = f"the scalar program has more than {self._most} expressions"
                raise PlanError(Problem(message=message, fix="prove it at smaller shapes"))
            found = self._made[key] = Expression(op, dtype, src, len(self._made), name, bits)
        return found

    def _function(self, op: Op, dtype: DType, source: DType) -> Callable[..., Scalar]:
        known = function_of(op, dtype, source)

        def one(a: Scalar) -> Scalar:
            return self._apply(op, dtype, (a,)) if type(a) is Expression else known(a)

        def two(a: Scalar, b: Scalar) -> Scalar:
            if type(a) is Expression or type(b) is Expression:
                return self._apply(op, dtype, (self.constant(a, source), self.constant(b, source)))
            return known(a, b)

        def three(a: Scalar, b: Scalar, c: Scalar) -> Scalar:
            if op is Op.WHERE and type(a) is not Expression:
                return b if a else c
            if type(a) is Expression or type(b) is Expression or type(c) is Expression:
                first = self.constant(a, DType.BOOL if op is Op.WHERE else source)
                return self._apply(op, dtype, (first, self.constant(b, source), self.constant(c, source)))
            return known(a, b, c)

        return three if op in (Op.WHERE, Op.MULACC) else one if op in _UNARY else two

    def _apply(self, op: Op, dtype: DType, src: tuple[Expression, ...]) -> Scalar:
        if op in _COMMUTES and _rank(src[0]) > _rank(src[1]):
            src = (src[1], src[0], *src[2:])
        found = _same(op, dtype, src)
        if found is not None:
            return _known(found)
        return self._intern(op, dtype, src)


_UNARY = frozenset((Op.CAST, Op.BITCAST, Op.RECIPROCAL, Op.TRUNC))
_COMMUTES = frozenset((Op.ADD, Op.MUL, Op.MULACC, Op.XOR))  # the first two operands: constants go last


def _rank(node: Expression) -> tuple[bool, int]:
    return (node.op is Op.CONST, node.number)


def _known(node: Expression) -> Scalar:
    """A constant as its number."""
    if node.op is not Op.CONST:
        return node
    return f32_value(node.bits) if node.dtype is DType.F32 else node.bits


_ONE, _NEGATIVE_ZERO = 0x3F800000, 0x80000000  # float32 bits
_HALF = 0x10000


def _same(op: Op, dtype: DType, src: tuple[Expression, ...]) -> Expression | None:
    """An operand that equals the result for every input."""
    a, b = src[0], src[-1]
    match op:
        case Op.ADD if dtype is DType.F32:
            return a if _is(b, _NEGATIVE_ZERO) else None  # x + -0 = x
        case Op.MUL if dtype is DType.F32:
            return a if _is(b, _ONE) else None  # x * 1 = x
        case Op.ADD if dtype is DType.BOOL:
            return b if _is(b, 1) else a if a is b or _is(b, 0) else None  # x or 1 = 1, x or 0 = x
        case Op.MUL if dtype is DType.BOOL:
            return b if _is(b, 0) else a if a is b or _is(b, 1) else None  # x and 0 = 0, x and 1 = x
        case Op.MUL:
            return b if _is(b, 0) else a if _is(b, 1) else None  # x * 0 = 0, x * 1 = x, of integers
        case Op.ADD | Op.XOR | Op.SHL:
            return a if _is(b, 0) else None  # x + 0 = x ^ 0 = x << 0 = x, of integers
        case Op.FLOORDIV if dtype is DType.U32 and _is(b, _HALF):
            return next((high for low, high in _halves_of(a) if max(_most(low), _most(high)) < _HALF), None)
        case Op.FLOORDIV:
            return a if _is(b, 1) else None  # x // 1 = x
        case Op.FLOORMOD if dtype is DType.U32 and b.op is Op.CONST and _most(a) < b.bits:
            return a  # x % d = x for x < d
        case Op.FLOORMOD if dtype is DType.U32 and _is(b, _HALF):
            return next((low for low, _ in _halves_of(a) if _most(low) < _HALF), None)
        case Op.MAX:
            return a if a is b else None  # max(x, x) = x
        case Op.WHERE:
            return b if src[1] is b else None  # where(p, x, x) = x
        case Op.CAST | Op.BITCAST if a.dtype is dtype:
            return a
        case Op.BITCAST if a.op is Op.BITCAST and dtype is DType.F32:
            return a.src[0]  # f32 -> u32 -> f32, with all NaNs equal
        case Op.TRUNC:
            return a if a.op is Op.TRUNC or dtype is not DType.F32 else None  # trunc(trunc(x)) = trunc(x)
    return None


def _most(node: Expression) -> int:
    """A u32 is at most this, by the constants that it was divided by last."""
    if node.op not in (Op.FLOORDIV, Op.FLOORMOD) or node.src[1].op is not Op.CONST or node.src[1].bits == 0:
        return 2**32 - 1
    return node.src[1].bits - 1 if node.op is Op.FLOORMOD else _most(node.src[0]) // node.src[1].bits


def _halves_of(node: Expression) -> Iterator[tuple[Expression, Expression]]:
    """(low, high) of each way to read a u32 as low + high * 2**16.

    Of halves that are below 2**16, low is the sum's remainder and high its quotient; nothing wraps.
    """
    for low, moved in (node.src, node.src[::-1]) if node.op is Op.ADD else ():
        if moved.op is Op.MUL and _is(moved.src[1], _HALF):
            yield low, moved.src[0]


def _is(node: Expression, bits: int) -> bool:
    return node.op is Op.CONST and node.bits == bits


def _number(value: Scalar) -> int:
    if isinstance(value, Expression):
        message = f"the program addresses by a value that is not given: {text(value)}"
        raise PlanError(Problem(message=message, fix="give what addresses (positions, pages, ids) as numbers"))
    return int(value)


def difference(dag: Dag, one: Scalar, other: Scalar, dtype: DType) -> tuple[str, str] | None:
    """Where two values of one Dag first differ, going down from the result: both sides as text; None if equal."""
    a, b = dag.constant(one, dtype), dag.constant(other, dtype)
    if a is b:
        return None
    while True:
        apart = [(x, y) for x, y in zip(a.src, b.src, strict=False) if x is not y]
        alike = [pair for pair in apart if _alike(*pair)]
        if not _alike(a, b) or not (alike or len(apart) == 1):
            return text(a), text(b)
        a, b = (alike or apart)[0]


def _alike(a: Expression, b: Expression) -> bool:
    """Whether two expressions that are not the same differ in what they are made of alone."""
    return (a.op, a.dtype, len(a.src)) == (b.op, b.dtype, len(b.src)) and bool(a.src)


def text(value: Scalar, depth: int = 3) -> str:
    """An expression to a small depth: `mulacc(x[3], w[3], ...)`."""
    if not isinstance(value, Expression):
        return str(value)
    match value.op:
        case Op.LOAD:
            return f"{value.name}[{value.bits}]"
        case Op.CONST:
            return str(_known(value))
        case Op.CAST | Op.BITCAST as op:
            name = f"{op}.{value.dtype}"
        case op:
            name = str(op)
    return f"{name}({', '.join(text(part, depth - 1) for part in value.src) if depth else '...'})"
