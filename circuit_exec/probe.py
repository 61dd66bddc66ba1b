"""What the threads that run a model can do at best: read memory, multiply and mask, and wait for each other."""

import ctypes
import time

import numpy as np

from circuit.emit.probe import (
    CHAINS,
    ROUNDS,
    emit_barrier_probe,
    emit_fma_probe,
    emit_logic_probe,
    emit_read_probe,
)
from circuit.emit.runtime import ABI
from circuit.emit.sources import Sources
from circuit_exec.build import Progress, build
from circuit_exec.cache import Cache
from circuit_exec.cpu import Arguments, open_library
from circuit_exec.memory import address, allocate

PROBE_MIB = 512
"""More than the last-level cache of common machines, so that the probe reads memory."""

COUNT = 200
"""Of the arithmetic probes: some ten milliseconds."""

BARRIERS = 20_000
"""Of the barrier probe: some ten milliseconds."""


class Probe:
    """A compiled probe with its threads and, for those that read, memory of `mib` MiB."""

    def __init__(
        self,
        sources: Sources,
        cache: Cache,
        n_threads: int,
        progress: Progress,
        *,
        arch: str | None = None,
        mib: int = 0,
    ) -> None:
        self._library = open_library(build(sources, cache, progress, arch))
        self._memory = allocate(max(mib, 1) << 20, "the measurement of the read bandwidth")
        self._memory.fill(1)  # pages that nobody wrote are all the same page of zeros
        self._sums = np.zeros(64 * n_threads, np.uint8)
        self._team = self._library.met_open(n_threads)
        self.n_threads = n_threads

    def seconds(self, n: int) -> float:
        """One step of count `n`."""
        arguments = Arguments(abi=ABI, n=n, arena=address(self._sums), weights=address(self._memory))
        started = time.perf_counter()
        self._library.met_step(self._team, ctypes.byref(arguments))
        return time.perf_counter() - started

    def close(self) -> None:
        """Ends the threads."""
        self._library.met_close(self._team)


class ReadProbe(Probe):
    """Memory larger than the caches, and threads that read it."""

    def __init__(self, cache: Cache, n_threads: int, progress: Progress) -> None:
        super().__init__(emit_read_probe(), cache, n_threads, progress, mib=PROBE_MIB)

    def bytes_per_s(self) -> float:
        """One pass over the memory."""
        return (PROBE_MIB << 20) / self.seconds(PROBE_MIB)


class FmaProbe(Probe):
    """Threads that do nothing but multiply-adds of f32 vectors."""

    def __init__(self, cache: Cache, n_threads: int, progress: Progress, lanes: int, arch: str) -> None:
        super().__init__(emit_fma_probe(lanes), cache, n_threads, progress, arch=arch)
        self._lanes = lanes

    def flop_per_s(self) -> float:
        """Of all threads; a multiply-add counts two."""
        return 2 * self._lanes * CHAINS * ROUNDS * COUNT * self.n_threads / self.seconds(COUNT)


class LogicProbe(Probe):
    """Threads that do nothing but shifts and masks of u32 vectors."""

    def __init__(self, cache: Cache, n_threads: int, progress: Progress, lanes: int, arch: str) -> None:
        super().__init__(emit_logic_probe(lanes), cache, n_threads, progress, arch=arch)
        self._lanes = lanes

    def op_per_s(self) -> float:
        """Of all threads; a shift and a mask count two."""
        return 2 * self._lanes * CHAINS * ROUNDS * COUNT * self.n_threads / self.seconds(COUNT)


class BarrierProbe(Probe):
    """Threads that do nothing but wait for each other."""

    def __init__(self, cache: Cache, n_threads: int, progress: Progress) -> None:
        super().__init__(emit_barrier_probe(), cache, n_threads, progress)

    def seconds_each(self) -> float:
        """One barrier."""
        return self.seconds(BARRIERS) / BARRIERS
