"""Keys and values in every storage format: what a page holds is rounded once, to the byte of an independent rounding;
attention over a page gives the bytes of attention over the decoded values.
"""

from functools import cache

import numpy as np
import pytest
from msgspec.structs import replace

from circuit.formats import STATE_FORMATS
from circuit.load.families import Point
from circuit.lower.schedules import schedule
from circuit.sigma.page import PAGE, TILE, head_words, page_words, pages_of
from circuit.tir.ir import Value
from circuit.uop.node import UOp
from circuit.uop.schedule import apply
from circuit_exec.stored import stored
from tests.oracle.one_op import CONTEXT, F32, Case, Cells, Step, pool_of, prepared, run
from tests.oracle.rounded import rounded
from tests.oracle.test_kernels_keep_bytes import point
from tests.render.harness import Library, compile_kernels, expected, same, written_slots

ROWS, HEADS, N_PAGES = 6, 2, 2 * pages_of(CONTEXT)
POSITIONS, SEQUENCES = (0, 63, 64, 255, 256, 300), (0, 1, 0, 1, 0, 1)
WRITES = [(format, head_dim) for format in STATE_FORMATS for head_dim in (16, 6, 5)]
READS = [(format, window, head_dim) for format in STATE_FORMATS for window, head_dim in ((0, 16), (70, 6))]
WIDTH = pages_of(CONTEXT)
TABLES = (tuple(range(WIDTH)), tuple(range(2 * WIDTH - 1, WIDTH - 1, -1)))
STEP: Step = {"positions": POSITIONS, "sequences": SEQUENCES, "page_tables": [*TABLES[0], *TABLES[1]]}


def hard(rng: np.random.Generator, rows: int, heads: int, head_dim: int) -> F32:
    """Numbers of all sizes, borders of every rounding; heads of zeros, of subnormals, and with what is no number."""
    values = rng.standard_normal((rows, heads, head_dim)) * 2.0 ** rng.integers(-20, 20, (rows, heads, head_dim))
    x = values.astype(np.float32)
    x[1] = (rng.integers(-(2**11), 2**11, (heads, head_dim)) + 0.5) * np.float32(2.0**-24)  # ties of f16's subnormals
    x[2, 0] = np.float32(2.0**-149) * rng.integers(0, 2**20, head_dim)  # subnormal
    x[2, 1] = 0.0
    x[2, 1, 0] = -0.0
    x[3, 0, :5] = [65504.0, 65519.996, 65520.0, -65520.0, 2.0**-14 - 2.0**-25]
    x[3, 1, :5] = [1.0 + 2.0**-8, 1.0 + 3 * 2.0**-8, 1.0 + 2.0**-11, 1.0 + 3 * 2.0**-11, 2.0**-25]
    x[4, 0, 1], x[4, 1, 2] = np.nan, -np.inf
    x[5, 0, 0] = np.finfo(np.float32).max
    x[5, 1] = np.float32(127.0) / 8
    x[5, 1, :4] = [0.0625, -0.0625, 0.1875, 0.3125]  # ties of int8
    return x


@cache
def write_case(format: str, head_dim: int) -> Case:
    rng = np.random.default_rng(3)
    keys, values = (hard(rng, ROWS, HEADS, head_dim).reshape(ROWS, -1) for _ in range(2))
    return Case(
        op="kv_write",
        inputs=(keys, values),
        dims_out=(),
        params={"heads": HEADS, "head_dim": head_dim},
        step=STEP,
        heads=HEADS,
        head_dim=head_dim,
        pool=pool_of(N_PAGES, HEADS, head_dim, format),
        stored=format,
    )


def written(pool: Cells, case: Case) -> dict[str, F32]:
    """[rows, heads, head_dim] what the pages hold of each row, decoded."""
    pages = np.array(pool, np.uint32).reshape(N_PAGES, page_words(case.stored, HEADS, case.head_dim))
    found: dict[str, F32] = {}
    for side in ("keys", "values"):
        rows = []
        for position, sequence in zip(POSITIONS, SEQUENCES, strict=True):
            page = pages[TABLES[sequence][position // PAGE]]
            rows.append(stored(page, case.stored, HEADS, case.head_dim, side)[position % PAGE])
        found[side] = np.stack(rows).view(np.float32).reshape(ROWS, HEADS, -1)
    return found


@cache
def read_case(format: str, window: int, head_dim: int) -> Case:
    """Attention over pages of random words, finite values all."""
    rng = np.random.default_rng(7)
    words = rng.integers(0, 2**32, len(pool_of(N_PAGES, HEADS, head_dim, format)), np.uint32)
    match format:
        case "f32":
            words = rng.standard_normal(len(words)).astype(np.float32).view(np.uint32)
        case "f16" | "bf16":
            words &= np.uint32(0xBFFFBFFF if format == "f16" else 0xC07FC07F)
        case "int8":
            pages = words.reshape(N_PAGES, -1)
            scales = rng.uniform(0.001, 0.02, (N_PAGES, 2 * HEADS * PAGE)).astype(np.float32)
            pages[:, -2 * HEADS * PAGE :] = scales.view(np.uint32)
    heads: dict[str, Value] = {"heads": 2 * HEADS, "kv_heads": HEADS, "head_dim": head_dim}
    return Case(
        op="attention",
        inputs=(rng.standard_normal((ROWS, 2 * HEADS * head_dim)).astype(np.float32),),
        dims_out=(2 * HEADS * head_dim,),
        params={**heads, "window": window, "scale": 0.25, "causal": True},
        step=STEP,
        heads=HEADS,
        head_dim=head_dim,
        pool=words.tolist(),
        stored=format,
    )


def decoded(case: Case) -> Case:
    """The same attention over pages that hold the decoded values in f32."""
    assert case.pool is not None
    pages = np.array(case.pool, np.uint32).reshape(N_PAGES, -1)
    made = []
    for page in pages:
        keys, values = (stored(page, case.stored, HEADS, case.head_dim, side) for side in ("keys", "values"))
        keys = keys.reshape(PAGE // TILE, TILE, HEADS, case.head_dim).transpose(2, 0, 3, 1)
        values = values.reshape(PAGE, HEADS, case.head_dim).transpose(1, 0, 2)
        made.append(np.concatenate((keys.reshape(-1), values.reshape(-1))))
    return replace(case, stored="f32", pool=np.concatenate(made).tolist())


Named = tuple[str, Case, Point]


def named() -> list[Named]:
    writes = [(f"write_{f}_{d}", write_case(f, d), point("kv_write")) for f, d in WRITES]
    reads = []
    for k, (f, w, d) in enumerate(READS):
        at = point("attention", lanes=8, totals=12, row_hands=1 + 3 * (k % 2))
        reads.append((f"read_{f}_{w}", read_case(f, w, d), at))
    return writes + reads


def scheduled(case: Case, at: Point, effects: tuple[UOp, ...]) -> tuple[UOp, ...]:
    return apply(effects, schedule(at, effects, head_words(case.stored, case.head_dim)))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    kernels = {}
    for name, case, at in named():
        kernels[name] = scheduled(case, at, prepared(case)[0].effects)
    return compile_kernels(tmp_path_factory.mktemp("kv"), kernels)


@pytest.mark.parametrize("each", named(), ids=lambda each: each[0])
def test_compiled_kernel_gives_the_bytes_of_its_definition(each: Named, library: Library) -> None:
    name, case, at = each
    made, buffers, scalars = prepared(case)
    want = expected(made.effects, buffers, scalars)
    effects = scheduled(case, at, made.effects)
    for threads in (1, 2, 3):
        got = library.run(name, effects, buffers, scalars, threads)
        assert same(got, want, written_slots(made.effects)), f"{threads} threads"


@pytest.mark.parametrize(("format", "head_dim"), WRITES)
def test_what_is_written_is_rounded_once(format: str, head_dim: int, library: Library) -> None:
    case = write_case(format, head_dim)
    made, buffers, scalars = prepared(case)
    slot = next(slot.slot for slot in made.slots if slot.kind == "state")
    effects = scheduled(case, point("kv_write"), made.effects)
    pool = library.run(f"write_{format}_{head_dim}", effects, buffers, scalars, 2)[slot]
    for (side, got), given in zip(written(pool, case).items(), case.inputs, strict=True):
        want = rounded(given.reshape(ROWS, HEADS, head_dim), format)
        nan = np.isnan(want)
        assert np.array_equal(np.isnan(got), nan), side
        assert np.array_equal(got.view(np.uint32)[~nan], want.view(np.uint32)[~nan]), side
        assert nan.any()


def test_a_head_of_zeros_has_scale_zero(library: Library) -> None:
    case = write_case("int8", 16)
    made, buffers, scalars = prepared(case)
    slot = next(slot.slot for slot in made.slots if slot.kind == "state")
    effects = scheduled(case, point("kv_write"), made.effects)
    pool = library.run("write_int8_16", effects, buffers, scalars)[slot]
    page = pool[TABLES[0][1] * page_words("int8", HEADS, 16) :]  # row 2 is position 64 of sequence 0
    scales = page[2 * HEADS * PAGE * 4 :]
    assert (scales[0], scales[PAGE]) != (0, 0)
    assert scales[PAGE] == 0


@pytest.mark.parametrize(("format", "window", "head_dim"), [read for read in READS if read[0] != "f32"])
def test_attention_reads_decoded_values(format: str, window: int, head_dim: int) -> None:
    case = read_case(format, window, head_dim)
    (got,), (want,) = run(case), run(decoded(case))
    assert np.isfinite(want).all()
    assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize(
    ("format", "n_bytes"), [("f32", 6 * 64 * 4), ("f16", 6 * 64 * 2), ("bf16", 6 * 64 * 2), ("int8", 6 * (64 + 4))]
)
def test_a_page_takes_what_its_format_takes(format: str, n_bytes: int) -> None:
    assert page_words(format, 3, 64) * 4 == n_bytes * PAGE
