"""Anonymous memory of the process: zeroed, page-aligned, taken from the system only where it is touched."""

import ctypes
import mmap
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from circuit.errors import Problem, RunError


def allocate(n_bytes: int, purpose: str) -> NDArray[np.uint8]:
    """`n_bytes` zero bytes, aligned to at least 4096, on huge pages where the system gives them."""
    try:
        mapped = mmap.mmap(-1, max(n_bytes, 1))
    except (OSError, OverflowError) as error:
        raise RunError(
            Problem(
                message=f"there is no memory for {purpose}: {n_bytes} bytes",
                fix="end other programs, or ask for a shorter context or fewer sequences",
            )
        ) from error
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # only a hint: kernels without huge pages refuse it
            mapped.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(mapped, np.uint8)[:n_bytes]


def address(array: NDArray[np.generic]) -> ctypes.c_void_p:
    """Where the array's first byte is; the caller keeps the array alive."""
    return ctypes.c_void_p(array.ctypes.data)
