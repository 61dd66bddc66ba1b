"""Every op of Sigma, scheduled and compiled, gives the bytes of its definition run by the evaluator, with 1, 2 and 3
threads.
"""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from circuit.load.families import Point
from circuit.lower.schedules import schedule
from circuit.sigma import SIGMA
from circuit.sigma.page import pages_of
from circuit.tir.ir import Value
from circuit.uop.schedule import apply
from tests.oracle.one_op import CONTEXT, F32, Case, Cells, Step, pool_of, prepared
from tests.render.harness import Buffers, Library, compile_kernels, expected, same, written_slots

RNG = np.random.default_rng(11)
ROWS = 6


def normal(*shape: int) -> F32:
    return RNG.standard_normal(shape).astype(np.float32)


def point(family: str, **values: int) -> Point:
    return Point(
        family=family,
        id="test",
        modes=("decode",),
        rows=(1, 64),
        values=tuple(sorted(values.items())),
        claim="keeps",
        numerics=None,
        file="test",
        line=None,
    )


def paged(rows: int) -> Step:
    """Rows of two sequences, at positions before, at and after the ends of pages and chunks."""
    width = pages_of(CONTEXT)
    return {
        "positions": [0, 63, 64, 255, 256, 300][:rows],
        "sequences": [0, 1, 0, 1, 0, 1][:rows],
        "page_tables": [*range(width), *range(2 * width - 1, width - 1, -1)],
    }


def attention(window: int, group: int = 2, head_dim: int = 16) -> Case:
    heads = {"heads": 2 * group, "kv_heads": 2, "head_dim": head_dim}
    pool: Cells = normal(len(pool_of(2 * pages_of(CONTEXT), 2, head_dim))).view(np.uint32).tolist()
    params: dict[str, Value] = {**heads, "window": window, "scale": 0.25, "causal": True}
    return Case(
        op="attention",
        inputs=(normal(ROWS, 2 * group * head_dim),),
        dims_out=(2 * group * head_dim,),
        params=params,
        step=paged(ROWS),
        heads=2,
        head_dim=head_dim,
        pool=pool,
    )


def rope(style: str, rotary: int) -> Case:
    params: dict[str, Value] = {"heads": 3, "head_dim": 16, "rotary_dim": rotary, "style": style, "scale": 1.0}
    frequencies = tuple(float(np.float32(0.1**k)) for k in range(rotary // 2))
    return Case(
        op="rope",
        inputs=(normal(ROWS, 48),),
        dims_out=(48,),
        params={**params, "inv_freq": frequencies},
        step={"positions": paged(ROWS)["positions"]},
    )


def linear(n: int, k: int, bias: bool) -> Case:
    weights = (normal(n, k), normal(n)) if bias else (normal(n, k),)
    return Case(op="linear", inputs=(normal(ROWS, k),), dims_out=(n,), params={"bias": bias}, weights=weights)


def norm(dim: int, heads: int) -> Case:
    params: dict[str, Value] = {"eps": 1e-5, "heads": heads, "weight_form": "plain"}
    x = normal(ROWS, dim)
    return Case(op="rms_norm", inputs=(x,), dims_out=(dim,), params=params, weights=(normal(dim // heads),))


def sample() -> Case:
    step: Step = {
        "temperature": [1.0, 0.7, 2.0, 1.0, 0.1, 1.0],
        "top_p": [1.0, 0.9, 0.5, 0.01, 1.0, 0.99],
        "seeds": list(range(12)),
        "choices": [0, 1, 2, 3, 0, 0],
        "sample_positions": [1, 2, 3, 4, 5, 600],
    }
    return Case(op="sample", inputs=(normal(ROWS, 300),), dims_out=(1,), params={}, step=step)


def kv_write() -> Case:
    pool = pool_of(2 * pages_of(CONTEXT), 2, 16)
    return Case(
        op="kv_write",
        inputs=(normal(ROWS, 32), normal(ROWS, 32)),
        dims_out=(),
        params={"heads": 2, "head_dim": 16},
        step=paged(ROWS),
        heads=2,
        head_dim=16,
        pool=pool,
    )


DECODE = point("panel_linear", lanes=48, row_tile=1, unroll=8)
PREFILL = point("panel_linear", lanes=24, row_tile=4, row_block=512, unroll=8)
TILE = point("panel_linear", lanes=16, row_tile=4, unroll=8)
CHUNKS = point("panel_linear", lanes=16, row_tile=2, chunk_rows=4, unroll=8)
BLOCKS = point("panel_linear", lanes=24, row_tile=4, row_block=5, unroll=8)


@cache
def cases() -> dict[str, tuple[Case, Point]]:
    glu = Case(op="glu", inputs=(normal(ROWS, 44) * 9, normal(ROWS, 44)), dims_out=(44,), params={"kind": "silu"})
    add = Case(op="residual_add", inputs=(normal(ROWS, 44), normal(ROWS, 44)), dims_out=(44,), params={})
    pick = Case(
        op="index_select", inputs=(normal(ROWS, 9),), dims_out=(9,), params={}, step={"logit_rows": [3, 1, 0, 5, 2, 4]}
    )
    embed = Case(
        op="embed",
        inputs=(),
        dims_out=(8,),
        params={},
        weights=(normal(300, 8),),
        step={"tokens": [0, 299, 7, 7, 48, 47]},
        rows=ROWS,
    )
    argmax = Case(op="argmax", inputs=(np.round(normal(ROWS, 60)),), dims_out=(1,), params={})
    return {
        "embed": (embed, point("gather")),
        "rms_norm": (norm(300, 1), point("row_norm", lanes=8)),
        "rms_norm_short": (norm(40, 1), point("row_norm", lanes=8)),
        "rms_norm_heads": (norm(64, 4), point("row_norm", lanes=8)),
        "linear_decode": (linear(100, 600, bias=False), DECODE),
        "linear_prefill": (linear(100, 600, bias=True), PREFILL),
        "linear_tile": (linear(100, 600, bias=True), TILE),
        "linear_chunks": (linear(100, 600, bias=True), CHUNKS),
        "linear_of_no_chunk": (linear(100, 200, bias=True), CHUNKS),
        "linear_blocks": (linear(100, 600, bias=True), BLOCKS),
        "linear_odd": (linear(49, 23, bias=False), PREFILL),
        "rope_neox": (rope("neox", 16), point("rope", lanes=8)),
        "rope_interleaved": (rope("interleaved", 16), point("rope", lanes=8)),
        "rope_partial": (rope("neox", 8), point("rope", lanes=8)),
        "kv_write": (kv_write(), point("kv_write")),
        "attention": (attention(0), point("attention", lanes=8, totals=12, row_hands=1)),
        "attention_window": (attention(70), point("attention", lanes=8, totals=12, row_hands=1)),
        "attention_in_tiles": (attention(0, group=3), point("attention", lanes=8, totals=12, row_hands=4)),
        "attention_of_odd_sizes": (attention(70, 1, 6), point("attention", lanes=8, totals=12, row_hands=4)),
        "attention_of_many_heads": (attention(0, 14, 20), point("attention", lanes=8, totals=12, row_hands=1)),
        "glu": (glu, point("elementwise", lanes=8)),
        "residual_add": (add, point("elementwise", lanes=8)),
        "index_select": (pick, point("gather")),
        "argmax": (argmax, point("argmax")),
        "sample": (sample(), point("sample", lanes=8)),
        "log_sum_exp": (
            Case(op="log_sum_exp", inputs=(normal(ROWS, 300) * 9,), dims_out=(2,), params={}),
            point("log_sum_exp", lanes=8),
        ),
    }


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    kernels = {}
    for name, (case, at) in cases().items():
        effects = prepared(case)[0].effects
        kernels[name] = apply(effects, schedule(at, effects))
    folder: Path = tmp_path_factory.mktemp("sigma")
    return compile_kernels(folder, kernels)


def test_every_op_has_a_case() -> None:
    """Those of act_quant are in test_codes_keep_bytes.py."""
    assert {case.op for case, _ in cases().values()} == {op.name for op in SIGMA} - {"act_quant"}


@pytest.mark.parametrize("name", list(cases()))
def test_compiled_kernel_gives_the_bytes_of_its_definition(name: str, library: Library) -> None:
    case, at = cases()[name]
    made, buffers, scalars = prepared(case)
    want: Buffers = expected(made.effects, buffers, scalars)
    scheduled = apply(made.effects, schedule(at, made.effects))
    for threads in (1, 2, 3):
        got = library.run(name, scheduled, buffers, scalars, threads)
        assert same(got, want, written_slots(made.effects)), f"{threads} threads"
