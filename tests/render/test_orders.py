"""Reductions of every order and size: the C of a kernel gives what the evaluator gives for the REDUCE as stated."""

from pathlib import Path

import pytest

from circuit.uop.build import end, index, load, loop, param, reduce, store
from circuit.uop.node import DType
from tests.render.data import numbers
from tests.render.harness import Effects, Library, compile_kernels, expected, same

SIZES = (1, 2, 127, 128, 129, 255, 256, 257, 300, 576)
ORDERS = ("fold", "fold:256", "lanes:128")
OPS = ("add", "mulacc", "max", "mul")
CASES = [(op, order, size) for order in ORDERS for size in SIZES for op in OPS if op != "mul" or size <= 129]
ROWS = 2


def kernel(op: str, order: str, size: int) -> Effects:
    """y[r] = the reduce of row r, times x[r, 0]."""
    x, w, y = param(0, DType.F32, (ROWS * size,)), param(1, DType.F32, (size,)), param(2, DType.F32, (ROWS,))
    r, k = loop("r", ROWS), loop("k", size)
    values = (load(index(x, r * size + k)), *((load(index(w, k)),) if op == "mulacc" else ()))
    total = reduce(op, *values, k, order=order)
    return (end(store(index(y, r), total), r),)


def name(op: str, order: str, size: int) -> str:
    return f"{op}_{order.replace(':', '')}_{size}"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    folder: Path = tmp_path_factory.mktemp("orders")
    return compile_kernels(folder, {name(*case): kernel(*case) for case in CASES})


@pytest.mark.parametrize(("op", "order", "size"), CASES)
def test_a_reduce_in_c_gives_the_bytes_of_the_evaluator(library: Library, op: str, order: str, size: int) -> None:
    effects = kernel(op, order, size)
    for seed in range(2):
        buffers = {0: numbers(seed, ROWS * size), 1: numbers(seed + 9, size), 2: [0.0] * ROWS}
        if seed == 0:
            buffers = {s: [v if abs(v) < 1e30 else 1.5 for v in b] for s, b in buffers.items()}
        got = library.run(name(op, order, size), effects, buffers, {})
        assert same(got, expected(effects, buffers, {}), (2,))
