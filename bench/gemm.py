"""The matrix product made of UOps alone, against the BLAS that numpy brings: `python bench/gemm.py [SIZE] [ROUNDS]`.

One thread each, in turn in one process, medians and the ratio of each pair. The result must equal the definition to the
byte: every element the chunks of 256 products summed from +0, each chunk a chain of fused multiply-adds from +0.
"""

import ctypes
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from circuit.emit.program import program_of
from circuit.emit.runtime import ABI
from circuit.render.c import render_kernel
from circuit.uop.build import end, index, load, loop, param, reduce, store
from circuit.uop.node import DType, UOp
from circuit.uop.schedule import Block, Carry, Reorder, Schedule, Split, Stage, Tile, Upcast, apply, range_names

LANES, TILE, ROWS = 24, 4, 512
"""Outputs and rows of a tile, whose totals are all in registers; rows of a block, whose totals are in a cache: those of
the point p48_r4 of class cpu. On a virtual core of Sapphire Rapids (gcc 12, 2026-12-01), six runs of each in turn, 512
rows reach 0.91 to 0.95 of the AVX2 product of OpenBLAS, 256 rows 0.88 to 0.97.
"""

REGISTER = 8
"""Values of a vector register: those of AVX2, which any BLAS is compared on."""

NAIVE = """
void naive(const float *a, const float *b, float *c, int m, int n, int k) {
  for (int i = 0; i < m; i++) for (int j = 0; j < n; j++) {
    float total = 0.0f;
    for (int first = 0; first < k; first += 256) {
      float chunk = 0.0f;
      for (int p = first; p < k && p < first + 256; p++)
        chunk = __builtin_fmaf(a[(long)i * k + p], b[(long)j * k + p], chunk);
      total += chunk;
    }
    c[(long)i * n + j] = total;
  }
}
"""
"""The definition in plain C; b is transposed, [n, k]."""


def product(n: int, k: int, most_rows: int) -> tuple[UOp, ...]:
    """c[i, j] = the sum over p of a[i, p] * b[p, j]. a: [rows, k], b: [k, n], c: [rows, n] f32, row-major."""
    rows = param(3, DType.I32, (), "rows", 1, most_rows)
    a, b = param(0, DType.F32, (most_rows * k,), "a"), param(1, DType.F32, (k * n,), "b")
    c = param(2, DType.F32, (most_rows * n,), "c")
    i, j, p = loop("row", rows), loop("out", n), loop("k", k)
    total = reduce("mulacc", load(index(b, p * n + j)), load(index(a, i * k + p)), p, order="fold:256")
    return (end(store(index(c, i * n + j), total), i, j),)


def schedule(effects: tuple[UOp, ...], n: int, block: int = ROWS) -> Schedule:
    """A block of rows takes one chunk after the other; a tile of b stays in the first-level cache meanwhile."""
    return (
        Split(range="out", factor=min(LANES, n), inner="out.lane"),
        Reorder(ranges=("out", "row", "out.lane")),
        Block(range="row", factor=block, inner="row.block"),
        Tile(range="row.block", factor=TILE, inner="row.tile"),
        *([Carry(fold="k.chunk", across="row.block")] if "k.chunk" in range_names(effects) else []),
        Stage(fold="k", across="row.block"),
        Upcast(range="row.tile"),
        Upcast(range="out.lane"),
        Upcast(range="out.lane.fill"),
        Split(range="k", factor=8, inner="k.unroll"),
        Upcast(range="k.unroll"),
    )


def scheduled(n: int, k: int, most_rows: int, block: int = ROWS) -> tuple[UOp, ...]:
    """The product as it runs."""
    effects = product(n, k, most_rows)
    return apply(effects, schedule(effects, n, block))


def main(size: int, rounds: int) -> int:
    """Prints both rates; 1 where bytes differ from the definition."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # read when numpy is imported
    import numpy as np

    from circuit_exec.build import build
    from circuit_exec.cache import user_cache
    from circuit_exec.cpu import Arguments, open_library
    from circuit_exec.memory import address

    run = """void met_run(const met_args *s, met_team *team, int tid, int nt) {
  product((const void *)s->tokens, (const void *)s->weights, (void *)s->arena, s->n, team, tid, nt);
}
""" + NAIVE.replace("void naive", '__attribute__((visibility("default"))) void naive')
    sources = program_of(
        {"product": render_kernel("product", scheduled(size, size, size), REGISTER)},
        '#include "kernels.h"\n' + run,
        REGISTER,
    )
    library = open_library(build(sources, user_cache(), lambda what, share: None))
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((size, size), np.float32) for _ in range(2))
    c, theirs, naive = (np.zeros((size, size), np.float32) for _ in range(3))
    team = library.met_open(1)
    step = Arguments(abi=ABI, n=size, arena=address(c), weights=address(b), tokens=address(a))
    calls: tuple[Callable[[], object], ...] = (
        lambda: library.met_step(team, ctypes.byref(step)),
        lambda: np.matmul(a, b, out=theirs),
    )
    rates: tuple[list[float], list[float]] = ([], [])
    for turn in range(-1, rounds):
        for call, found in zip(calls, rates, strict=True):
            started = time.perf_counter()
            call()
            if turn >= 0:
                found.append(2e-9 * size**3 / (time.perf_counter() - started))
    library.met_close(team)
    columns = np.ascontiguousarray(b.T)
    library.naive(address(a), address(columns), address(naive), size, size, size)
    ratio = statistics.median(x / y for x, y in zip(*rates, strict=True))
    print(f"uops {statistics.median(rates[0]):.1f} GFLOP/s (best {max(rates[0]):.1f})")
    print(f"blas {statistics.median(rates[1]):.1f} GFLOP/s (best {max(rates[1]):.1f})")
    equal = c.tobytes() == naive.tobytes()
    print(f"ratio {ratio:.3f} at {size}x{size}x{size}, one thread, median of {rounds} pairs; equal bytes: {equal}")
    return 0 if equal else 1


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:3]]
    sys.exit(main(*given, *(1024, 21)[len(given) :]))
