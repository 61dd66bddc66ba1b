"""How fast memory can be read by the threads that would read the weights: what decoding is measured against."""

import ctypes
import time

import numpy as np

from circuit.emit.probe import emit_read_probe
from circuit.emit.runtime import ABI
from circuit_exec.build import Progress, build
from circuit_exec.cache import Cache
from circuit_exec.cpu import Arguments, open_library
from circuit_exec.memory import address, allocate

PROBE_MIB = 512
"""More than the last-level cache of common machines, so that the probe reads memory."""


class ReadProbe:
    """Memory larger than the caches, and threads that read it."""

    def __init__(self, cache: Cache, n_threads: int, progress: Progress) -> None:
        self._library = open_library(build(emit_read_probe(), cache, progress))
        self._memory = allocate(PROBE_MIB << 20, "the measurement of the read bandwidth")
        self._memory.fill(1)  # pages that nobody wrote are all the same page of zeros
        self._sums = np.zeros(64 * n_threads, np.uint8)
        self._team = self._library.met_open(n_threads)
        self._arguments = Arguments(abi=ABI, n=PROBE_MIB, arena=address(self._sums), weights=address(self._memory))

    def bytes_per_s(self) -> float:
        """One pass over the memory."""
        started = time.perf_counter()
        self._library.met_step(self._team, ctypes.byref(self._arguments))
        return (PROBE_MIB << 20) / (time.perf_counter() - started)

    def close(self) -> None:
        """Ends the threads."""
        self._library.met_close(self._team)
