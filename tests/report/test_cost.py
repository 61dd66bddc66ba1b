"""The cost of a kernel, against a run of its definition that notes every element touched and every operation."""

from collections.abc import Callable

import pytest

from circuit.lower.ir import Kernel
from circuit.report.cost import ELEMENT_BYTES, Cost, Costs, _Count, _Tally
from circuit.report.positions import Step
from circuit.sigma.page import page_words, pages_of
from circuit.uop.build import group
from circuit.uop.evaluate import Domain, run
from circuit.uop.node import DType, Op, toposort
from circuit.uop.scalar import Value, function_of
from tests.lower.dense import Sizes, dense
from tests.plan.plans import planned, request

DECODE = Step(sequences=2, rows=1, first=70, logit_rows=2)
PREFILL = Step(sequences=1, rows=5, first=62, logit_rows=1)
SIZES = {
    "bf16": Sizes(layers=1, vocab=96, context=192),
    "q4_1": Sizes(layers=1, vocab=96, context=192, weight_format="q4_1"),
    "q8_0": Sizes(layers=1, vocab=96, context=192, weight_format="q8_0"),
    "window": Sizes(layers=1, vocab=96, context=192, window=40),
    "qk_norm": Sizes(layers=1, vocab=96, context=192, qk_norm=True),
}
COUNTED = (Op.ADD, Op.MUL, Op.MULACC, Op.MAX, Op.RECIPROCAL, Op.TRUNC, Op.CAST)


class Noted(list[Value]):
    """A buffer that notes which of its elements are read and written."""

    def __init__(self, cells: list[Value]) -> None:
        super().__init__(cells)
        self.read: set[int] = set()
        self.written: set[int] = set()

    def __getitem__(self, at: int) -> Value:  # type: ignore[override]
        self.read.add(at)
        return super().__getitem__(at)

    def __setitem__(self, at: int, value: Value) -> None:  # type: ignore[override]
        self.written.add(at)
        super().__setitem__(at, value)


def buffers(kernel: Kernel, step: Step) -> tuple[dict[int, list[Value]], dict[int, Value]]:
    """Every array of the kernel with plain values, and the scalars n and m."""
    arrays: dict[int, list[Value]] = {}
    scalars: dict[int, Value] = {}
    rows = step.sequences * step.rows
    sequence = [row // step.rows for row in range(rows)]
    width = pages_of(192)
    given: dict[str, list[Value]] = {
        "positions": [step.first + row % step.rows for row in range(rows)],
        "sequences": [*sequence],
        "page_tables": [*range(width * step.sequences)],
        "tokens": [3 * row + 1 for row in range(rows)],
        "logit_rows": [rows - step.logit_rows + at for at in range(step.logit_rows)],
        "temperature": [0.5] * step.logit_rows,
        "top_p": [0.9] * step.logit_rows,
        "seeds": [7] * (2 * step.logit_rows),
        "choices": [0] * step.logit_rows,
        "sample_positions": [step.first] * step.logit_rows,
    }
    for slot in kernel.slots:
        if slot.name in ("n", "m"):
            scalars[slot.slot] = rows if slot.name == "n" else step.logit_rows
        elif slot.kind == "step":
            arrays[slot.slot] = Noted(given[slot.name])
        elif slot.kind in ("in", "out", "scratch"):
            count = rows if slot.rows == "n" else step.logit_rows
            arrays[slot.slot] = Noted([0.25] * (count * slot.columns))
        elif slot.kind == "state":
            arrays[slot.slot] = Noted([0x3F000000] * (width * step.sequences * page_words("f32", 2, 16)))
        else:
            arrays[slot.slot] = Noted([0] * (1 << 17))
    return arrays, scalars


def counted(kernel: Kernel, step: Step) -> tuple[list[int], list[int], int]:
    """Bytes read and written for each slot, and how many f32 operations ran."""
    operations = 0

    def function(op: Op, dtype: DType, source: DType) -> Callable[..., Value]:
        f = function_of(op, dtype, source)

        def counting(*values: Value) -> Value:
            nonlocal operations
            operations += 1
            return f(*values)

        return counting if dtype is DType.F32 and op in COUNTED else f

    domain: Domain[Value] = Domain(constant=lambda value, _: value, function=function, number=int)
    arrays, scalars = buffers(kernel, step)
    run(domain, group(*kernel.definition), arrays, scalars)
    read, written = [0] * len(kernel.slots), [0] * len(kernel.slots)
    for slot, cells in arrays.items():
        assert isinstance(cells, Noted)
        read[slot], written[slot] = ELEMENT_BYTES * len(cells.read), ELEMENT_BYTES * len(cells.written)
    return read, written, operations


@pytest.mark.parametrize(
    ("sizes", "mode"), [*((sizes, "decode") for sizes in SIZES), ("bf16", "prefill"), ("window", "prefill")]
)
def test_a_kernel_moves_and_computes_what_its_definition_does(sizes: str, mode: str) -> None:
    step = DECODE if mode == "decode" else PREFILL
    plan = planned(dense(SIZES[sizes]), asked=request(mode))
    for kernel in plan.kernels:
        cost = Costs().of(kernel, step)
        read, written, operations = counted(kernel, step)
        for at, slot in enumerate(kernel.slots):
            if slot.name == "page_tables":
                assert cost.read[at] >= 0  # a page is looked up ahead
            elif slot.kind == "state" and sizes == "window":  # the first chunk is counted whole
                assert read[at] <= cost.read[at] <= read[at] * (70 + 256) // 70, kernel.name
            else:
                assert cost.read[at] == read[at], (kernel.name, slot)
        assert list(cost.written) == written, kernel.name
        if sizes in ("bf16", "window", "qk_norm"):  # no value of a weight is computed twice
            assert cost.products + cost.others == operations, kernel.name


@pytest.mark.parametrize(("format", "scales"), [("q4_1", 2), ("q8_0", 1)])
def test_a_weight_is_decoded_once_and_its_scale_once_a_block(format: str, scales: int) -> None:
    """Beside the projection, a weight takes a conversion and a product, and each block of 32 its scales' products."""
    plan = planned(dense(SIZES[format]))
    kernel = next(kernel for kernel in plan.kernels if kernel.name == f"linear_qkv_128x64_{format}")
    cost = Costs().of(kernel, DECODE)
    joins = 2 * 128
    assert cost.products == 2 * 128 * 64
    assert cost.others == joins + 2 * 128 * 64 + scales * 128 * 64 // 32


@pytest.mark.parametrize("sizes", SIZES)
def test_one_row_of_a_kernel_without_a_loop_over_positions_costs_the_same_everywhere(sizes: str) -> None:
    kernels = planned(dense(SIZES[sizes])).kernels
    counted = {first: [cost_there(kernel, first) for kernel in kernels] for first in (0, 1, 15, 16, 63, 64, 101)}
    flat = [at for at, kernel in enumerate(kernels) if not loops_over_positions(kernel)]
    assert 0 < len(flat) < len(kernels)
    for costs in counted.values():
        assert [costs[at] for at in flat] == [counted[0][at] for at in flat]
    assert [Costs().of(kernels[at], one_row(101)) for at in flat] == [counted[101][at] for at in flat]


def one_row(first: int) -> Step:
    return Step(sequences=2, rows=1, first=first, logit_rows=2)


def cost_there(kernel: Kernel, first: int) -> Cost:
    """The cost of a row at a position, whatever is known of others."""
    return _Count(_Tally(kernel), one_row(first)).cost()


def loops_over_positions(kernel: Kernel) -> bool:
    ends = [node.src[0].op for node in toposort(*kernel.definition) if node.op is Op.RANGE]
    return any(end not in (Op.CONST, Op.PARAM) for end in ends)
