"""kv_write and attention against softmax in float64: grouped heads, causal masks, windows, pages in any order."""

import numpy as np
import pytest

from circuit.sigma.page import PAGE, pages_of
from circuit.tir.ir import Value
from tests.oracle.one_op import CONTEXT, F32, Case, Cells, pool_of, run

KV_HEADS, HEADS, HEAD_DIM = 2, 4, 8


def tables(*sequences: list[int]) -> list[int]:
    """Page tables of some sequences, padded to the context's pages."""
    width = pages_of(CONTEXT)
    return [page for pages in sequences for page in pages + [0] * (width - len(pages))]


def written(keys: F32, values: F32, pages: list[int], n_pages: int) -> Cells:
    pool = pool_of(n_pages, KV_HEADS, HEAD_DIM)
    n = len(keys)
    step = {"positions": list(range(n)), "sequences": [0] * n, "page_tables": tables(pages)}
    params = {"heads": KV_HEADS, "head_dim": HEAD_DIM}
    case = Case(
        op="kv_write",
        inputs=(keys, values),
        dims_out=(),
        params=params,
        step=step,
        heads=KV_HEADS,
        head_dim=HEAD_DIM,
        pool=pool,
    )
    run(case)
    return pool


def expected(q: F32, keys: F32, values: F32, positions: list[int], window: int) -> np.ndarray:
    out = np.zeros((len(positions), HEADS, HEAD_DIM))
    k, v = (a.astype(np.float64).reshape(-1, KV_HEADS, HEAD_DIM) for a in (keys, values))
    for row, position in enumerate(positions):
        first = max(0, position - window + 1) if window else 0
        for h in range(HEADS):
            kv = h // (HEADS // KV_HEADS)
            s = k[first : position + 1, kv] @ q[row].reshape(HEADS, HEAD_DIM)[h].astype(np.float64) * HEAD_DIM**-0.5
            p = np.exp(s - s.max())
            out[row, h] = (p / p.sum()) @ v[first : position + 1, kv]
    return out.reshape(len(positions), -1)


@pytest.mark.parametrize("window", [0, 5, 100, 300])
@pytest.mark.parametrize("length", [70, 330])
def test_attention_reads_what_kv_write_wrote(window: int, length: int) -> None:
    rng = np.random.default_rng(5)
    keys, values = (rng.standard_normal((length, KV_HEADS * HEAD_DIM)).astype(np.float32) for _ in range(2))
    pages = list(reversed(range(-(-length // PAGE))))
    pool = written(keys, values, pages, len(pages))
    positions = sorted({0, 4, 63, 64, length - 1})
    q = rng.standard_normal((len(positions), HEADS * HEAD_DIM)).astype(np.float32)
    params: dict[str, Value] = {
        "causal": True,
        "head_dim": HEAD_DIM,
        "heads": HEADS,
        "kv_heads": KV_HEADS,
        "scale": float(np.float32(HEAD_DIM**-0.5)),
        "window": window,
    }
    step = {"positions": positions, "sequences": [0] * len(positions), "page_tables": tables(pages)}
    case = Case(
        op="attention",
        inputs=(q,),
        dims_out=(HEADS * HEAD_DIM,),
        params=params,
        step=step,
        heads=KV_HEADS,
        head_dim=HEAD_DIM,
        pool=pool,
    )
    (y,) = run(case)
    want = expected(q, keys, values, positions, window)
    assert np.abs(y - want).max() <= 3e-6 * np.abs(want).max()
