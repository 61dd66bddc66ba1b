"""The product of two matrices, scheduled and compiled, equals the scalar definition to the byte at every size."""

import ctypes
import subprocess
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from bench.gemm import NAIVE, scheduled
from tests.render.harness import QUICK, Library, compile_kernels

DEPTHS = (1, 255, 256, 257, 777)
EDGES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 63, 64, 65, 127, 128, 129, 130)
"""Rows around the edges of tiles of 4 and of blocks of 64."""


@pytest.fixture(scope="module")
def naive(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder: Path = tmp_path_factory.mktemp("naive")
    (folder / "naive.c").write_text(NAIVE, encoding="ascii")
    subprocess.run(["cc", *QUICK, "-Wno-error", "-o", folder / "naive.so", folder / "naive.c", "-lm"], check=True)
    return ctypes.CDLL(str(folder / "naive.so"))


def check(folder: Path, naive: ctypes.CDLL, sizes: Iterable[tuple[int, int]], rows: Iterable[int], block: int) -> None:
    """Products of (outputs, depth) `sizes` with every number of rows, those beyond them untouched."""
    folder.mkdir(exist_ok=True)
    sizes, rows = list(sizes), list(rows)
    most = max(rows)
    kernels = {f"gemm_{n}_{k}": scheduled(n, k, most, block) for n, k in sizes}
    library = compile_kernels(folder, kernels, QUICK)
    rng = np.random.default_rng(5)
    for n, k in sizes:
        a, b = rng.standard_normal((most, k), np.float32), rng.standard_normal((k, n), np.float32)
        want, columns = np.zeros((most, n), np.float32), np.ascontiguousarray(b.T)
        naive.naive(*(ctypes.c_void_p(x.ctypes.data) for x in (a, columns, want)), most, n, k)
        for m in rows:
            c = run(library, f"gemm_{n}_{k}", a, b, m)
            assert c[:m].tobytes() == want[:m].tobytes(), f"{m} x {n} x {k}"
            assert not c[m:].any(), f"{m} x {n} x {k} writes past its rows"


def run(library: Library, name: str, a: np.ndarray, b: np.ndarray, rows: int) -> np.ndarray:
    c, count = np.zeros((len(a), b.shape[1]), np.float32), np.array([rows], np.int32)
    pointers = (ctypes.c_void_p * 4)(*(x.ctypes.data for x in (a, b, c, count)))
    getattr(library.handle, f"run_{name}")(pointers, 1)
    return c


def test_products_of_every_number_of_rows_and_some_of_outputs(tmp_path: Path, naive: ctypes.CDLL) -> None:
    check(tmp_path, naive, [(1, 777), (7, 256), (24, 255), (25, 257), (70, 1), (49, 777)], range(1, 71), 256)


def test_rows_in_blocks(tmp_path: Path, naive: ctypes.CDLL) -> None:
    check(tmp_path, naive, [(25, k) for k in DEPTHS], EDGES, 64)


@pytest.mark.slow
@pytest.mark.parametrize("k", DEPTHS)
def test_products_of_every_number_of_rows_and_of_outputs(tmp_path: Path, naive: ctypes.CDLL, k: int) -> None:
    for first in range(1, 71, 14):
        check(tmp_path / str(first), naive, [(n, k) for n in range(first, first + 14)], range(1, 71), 256)
