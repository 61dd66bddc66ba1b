"""Random integer programs over a few small variables, and what they mean."""

import itertools
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from circuit.uop.build import cast, equal, i32, logical_and, logical_not, logical_or, loop, maximum, param, shl, where
from circuit.uop.node import Const, DType, Op, UOp, toposort

ENDS = {"a": 5, "b": 8, "c": 4}
VARIABLES = tuple(loop(name, end) for name, end in ENDS.items())
OFFSET = param(0, DType.I32, (), "offset", -6, 7)

Values = npt.NDArray[np.int64]


def _points() -> dict[UOp, Values]:
    axes = (*(range(end) for end in ENDS.values()), (-6, -1, 0, 3, 7))
    columns = np.array(list(itertools.product(*axes)), dtype=np.int64).T
    return dict(zip((*VARIABLES, OFFSET), columns, strict=True))


POINTS = _points()  # every assignment of the variables


def meaning(root: UOp, points: dict[UOp, Values] = POINTS) -> Values:
    """The value of an integer program at every point: unbounded arithmetic, wrapped to 32 bits."""
    value = dict(points)
    for node in toposort(root):
        if node not in value:
            value[node] = _apply(node, [value[s] for s in node.src])
    return np.broadcast_to(value[root], next(iter(points.values())).shape)


def _apply(node: UOp, x: list[Values]) -> Values:
    match node.op:
        case Op.CONST:
            assert isinstance(node.arg, Const)
            return np.array(node.arg.bits, dtype=np.int64)
        case Op.ADD if node.dtype is DType.BOOL:
            return x[0] | x[1]
        case Op.MUL if node.dtype is DType.BOOL:
            return x[0] & x[1]
        case Op.ADD:
            result = x[0] + x[1]
        case Op.MUL:
            result = x[0] * x[1]
        case Op.FLOORDIV:
            result = x[0] // x[1]
        case Op.FLOORMOD:
            result = x[0] % x[1]
        case Op.SHL:
            result = x[0] * 2 ** x[1]
        case Op.MAX:
            result = np.maximum(x[0], x[1])
        case Op.XOR:
            return x[0] ^ x[1]
        case Op.CMPLT:
            return (x[0] < x[1]).astype(np.int64)
        case Op.WHERE:
            return np.where(x[0] != 0, x[1], x[2])
        case Op.CAST:
            result = x[0]
        case _:
            raise AssertionError(node)
    return (result + 2**31) % 2**32 - 2**31


SIZES = (2, 3, 4, 6, 8, 16, 32, 64)
FACTORS = (-8, -3, -1, 2, 3, 4, 8, 12, 16, 64)
LEAVES = (*VARIABLES, OFFSET, (VARIABLES[0] * 8 + VARIABLES[1]) * 4 + VARIABLES[2])

# What a step makes of two values x, y made before, a comparison p made before, and two numbers k, m.
STEPS: tuple[Callable[[UOp, UOp, UOp, int, int], UOp], ...] = (
    lambda x, y, p, k, m: x + y,
    lambda x, y, p, k, m: x - y,
    lambda x, y, p, k, m: x * y,
    lambda x, y, p, k, m: x + (k - 32),
    lambda x, y, p, k, m: x * pick(FACTORS, k) + y,
    lambda x, y, p, k, m: x * pick(FACTORS, k) + y * pick(FACTORS, m),
    lambda x, y, p, k, m: x // pick(SIZES, k),
    lambda x, y, p, k, m: x % pick(SIZES, k),
    lambda x, y, p, k, m: (x + y * pick(SIZES, m)) // pick(SIZES, k),
    lambda x, y, p, k, m: (x + y * pick(SIZES, m)) % pick(SIZES, k),
    lambda x, y, p, k, m: x // pick(SIZES, k) * pick(SIZES, k) + x % pick(SIZES, k),
    lambda x, y, p, k, m: x // pick(SIZES, k) % pick(SIZES, m) * pick(SIZES, k) + x % pick(SIZES, k),
    lambda x, y, p, k, m: x % (pick(SIZES, k) * pick(SIZES, m)) // pick(SIZES, k),
    lambda x, y, p, k, m: (x // pick(SIZES, k) + m - 9) // pick(SIZES, m),
    lambda x, y, p, k, m: maximum(x, y),
    lambda x, y, p, k, m: x ^ (k - 20),
    lambda x, y, p, k, m: shl(x, k % 5),
    lambda x, y, p, k, m: where(p, x, y),
    lambda x, y, p, k, m: where(x < k, x + m, y),
    lambda x, y, p, k, m: where(logical_and(x > k - 40, x < m), x, i32(k)),
    lambda x, y, p, k, m: cast(p, DType.I32) + x,
)
TESTS: tuple[Callable[[UOp, UOp, UOp, int], UOp], ...] = (
    lambda x, y, p, k: x < y,
    lambda x, y, p, k: x < k,
    lambda x, y, p, k: x > k,
    lambda x, y, p, k: x * pick(FACTORS, k) + y < k * pick(FACTORS, k),
    lambda x, y, p, k: equal(x, y),
    lambda x, y, p, k: equal(p, x < y),
    lambda x, y, p, k: logical_and(p, x < y),
    lambda x, y, p, k: logical_or(p, x > y),
    lambda x, y, p, k: logical_not(p),
)


def pick(items: tuple[int, ...], k: int) -> int:
    """One of the items."""
    return items[k % len(items)]


Step = tuple[int, int, int, int, int]


def build(steps: list[Step]) -> tuple[UOp, UOp]:
    """An integer and a condition, each step using what the steps before made."""
    values: list[UOp] = list(LEAVES)
    tests: list[UOp] = [VARIABLES[0] < VARIABLES[1]]
    for what, a, b, k, m in steps:
        x, y, p = values[-1 - a % len(values)], values[-1 - b % len(values)], tests[-1]
        values.append(STEPS[what % len(STEPS)](x, y, p, k, m))
        tests.append(TESTS[m % len(TESTS)](values[-1], x, p, k))
    return values[-1], tests[-1]


_NUMBER = st.integers(0, 63)
PROGRAMS = st.lists(
    st.tuples(st.integers(0, len(STEPS) - 1), _NUMBER, _NUMBER, _NUMBER, _NUMBER), min_size=1, max_size=7
).map(build)
