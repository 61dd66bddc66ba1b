"""A plan made by hand: a running sum over a paged state, a product with a weight, and a token.

For every row: its token goes to its position in the state; then out[row, c] = w[c] * (sum of all tokens of the row's
sequence up to its position); the greedy section picks column 0 as an integer.
"""

from circuit.lower.ir import Kernel, Slot
from circuit.plan.ir import Buffer, BufferAt, Launch, Plan, StateAt, StepInput, Target, WeightAt
from circuit.tir.ir import Key, State, Weight
from circuit.uop.build import cast, end, index, load, loop, param, reduce, store
from circuit.uop.node import Axis, DType, UOp

COLUMNS, CONTEXT, PAGES, ROWS, VOCAB = 40, 150, 8, 16, 32
PAGE, WORDS = 64, 2 * 64
WIDTH = -(-CONTEXT // PAGE)


def plan(mode: str) -> Plan:
    """The plan; both modes are the same launches."""
    return Plan(
        arch="sum",
        hardware_class="cpu",
        vector_lanes=8,
        mode=mode,
        rows=(1, ROWS),
        context=CONTEXT,
        policy=(),
        notes=(),
        buffers=(
            Buffer(name="sums", rows="n", columns=1, offset_bytes=0, n_bytes=64, first=1, last=2),
            Buffer(name="logits", rows="m", columns=COLUMNS, offset_bytes=64, n_bytes=2560, first=2, last=4),
            Buffer(name="token", rows="m", columns=1, offset_bytes=2624, n_bytes=64, first=3, last=4),
        ),
        arena_bytes=2688,
        weights=(Weight(name="w", shape=(COLUMNS,), format="f32", recipe=Key(key="w")),),
        states=(State(name="kv", kind="paged_kv", heads=1, head_dim=1, format="f32"),),
        kernels=(_put(), _sum(), _scale(), _pick()),
        launches=(
            _launch(0, (StateAt(state=0), *_inputs("n", "tokens", "positions", "sequences", "page_tables"))),
            _launch(1, (BufferAt(buffer=0), StateAt(state=0), *_inputs("n", "positions", "sequences", "page_tables"))),
            _launch(2, (BufferAt(buffer=1), BufferAt(buffer=0), WeightAt(weight=0), *_inputs("m", "logit_rows"))),
            _launch(3, (BufferAt(buffer=2), BufferAt(buffer=1), *_inputs("m")), "greedy"),
        ),
        outputs=(("head.logits", 1), ("head.token", 2)),
        certificate=(),
        parts=(),
        digest="0" * 64,
    )


def _launch(kernel: int, targets: tuple[Target, ...], section: str = "main") -> Launch:
    return Launch(
        rule="by_hand",
        numerics="reference",
        kernel=kernel,
        members=(f"node{kernel}",),
        targets=targets,
        section=section,
        layer=None,
    )


def _inputs(*names: str) -> tuple[StepInput, ...]:
    return tuple(StepInput(name=name) for name in names)


def _kernel(name: str, effect: UOp, kinds: str) -> Kernel:
    slots = tuple(Slot(slot=place, kind=kind) for place, kind in enumerate(kinds.split()))
    return Kernel(name=name, family="by_hand", point="", definition=(effect,), effects=(effect,), slots=slots)


def _count(slot: int, name: str) -> UOp:
    return param(slot, DType.I32, (), name, lo=0, hi=ROWS)


def _rows(slot: int, name: str, hi: int) -> UOp:
    return param(slot, DType.I32, (ROWS,), name, lo=0, hi=hi)


def _tables(slot: int) -> UOp:
    return param(slot, DType.I32, (4 * WIDTH,), "page_tables", lo=0, hi=PAGES - 1)


def _put() -> Kernel:
    state = param(0, DType.F32, (PAGES * WORDS,), "state")
    tokens, positions, sequences = _rows(2, "tokens", VOCAB - 1), _rows(3, "positions", CONTEXT - 1), _rows(4, "s", 3)
    row = loop("row", _count(1, "n"), Axis.THREAD)
    position = _at(positions, row)
    page = _page(_tables(5), _at(sequences, row), position)
    effect = store(index(state, page * WORDS + position % PAGE), cast(_at(tokens, row), DType.F32))
    return _kernel("put", end(effect, row), "state step step step step step")


def _sum() -> Kernel:
    sums, state = param(0, DType.F32, (ROWS,), "sums"), param(1, DType.F32, (PAGES * WORDS,), "state")
    positions, sequences = _rows(3, "positions", CONTEXT - 1), _rows(4, "sequences", 3)
    row = loop("row", _count(2, "n"), Axis.THREAD)
    p = loop("p", _at(positions, row) + 1)
    page = _page(_tables(5), _at(sequences, row), p)
    total = reduce("add", _at(state, page * WORDS + p % PAGE), p)
    return _kernel("total", end(store(index(sums, row), total), row), "out state step step step step")


def _scale() -> Kernel:
    out, sums = param(0, DType.F32, (ROWS * COLUMNS,), "out"), param(1, DType.F32, (ROWS,), "sums")
    weight, logit_rows = param(2, DType.F32, (COLUMNS,), "weight"), _rows(4, "logit_rows", ROWS - 1)
    row, c = loop("row", _count(3, "m")), loop("c", COLUMNS, Axis.THREAD)
    effect = store(index(out, row * COLUMNS + c), _at(weight, c) * _at(sums, _at(logit_rows, row)))
    return _kernel("scale", end(effect, row, c), "out in weight step step")


def _pick() -> Kernel:
    out, logits = param(0, DType.I32, (ROWS,), "token"), param(1, DType.F32, (ROWS * COLUMNS,), "logits")
    row = loop("row", _count(2, "m"), Axis.THREAD)
    effect = store(index(out, row), cast(_at(logits, row * COLUMNS), DType.I32) % VOCAB)
    return _kernel("pick", end(effect, row), "out in step")


def _page(tables: UOp, sequence: UOp, position: UOp) -> UOp:
    return _at(tables, sequence * WIDTH + position // PAGE)


def _at(array: UOp, place: UOp) -> UOp:
    return load(index(array, place))
