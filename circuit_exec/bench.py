"""How fast a model runs, against how fast its bytes could be read: both measured in turn, in the same process."""

import ctypes
import statistics
import time
from dataclasses import dataclass

import numpy as np

from circuit.emit.layout import PAGE, Layout
from circuit.emit.probe import emit_read_probe
from circuit.emit.runtime import ABI
from circuit_exec.build import Progress, build
from circuit_exec.cache import Cache
from circuit_exec.cpu import Arguments, Program, open_library
from circuit_exec.generate import Sampling, check_fits, generate
from circuit_exec.kv import Pages
from circuit_exec.memory import address, allocate

PROBE_MIB = 512
"""More than the last-level cache of common machines, so that the probe reads memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Medians of `rounds` rounds; the lowest and highest beside them. Rates are tokens or bytes per second.

    `decode_bytes` is what a decode step reads: all weights that it multiplies with, and the keys and values so far, on
    average. `share` = decode_bytes * decode / bandwidth: the part of the read bandwidth that decoding used.
    """

    n_threads: int
    rounds: int
    n_prefill: int
    n_before: int
    n_decode: int
    prefill: float
    prefill_range: tuple[float, float]
    decode: float
    decode_range: tuple[float, float]
    bandwidth: float
    decode_bytes: float
    share: float


def bench(
    program: Program,
    pages: Pages,
    cache: Cache,
    progress: Progress,
    n_prefill: int = 512,
    n_before: int = 32,
    n_decode: int = 128,
    rounds: int = 5,
) -> Measured:
    """Prefill of `n_prefill` tokens, and decoding of `n_decode` tokens after `n_before`, in turn with a read probe."""
    check_fits(program, n_prefill, 1)
    check_fits(program, n_before, n_decode + 1)
    probe = _ReadProbe(cache, program.n_threads, progress)
    prefill, decode, bandwidth = [], [], []
    try:
        for round in range(-1, rounds):
            progress("measuring", (round + 1) / (rounds + 1))
            rates = (
                probe.bytes_per_s(),
                n_prefill / _generate(program, pages, n_prefill, 1)[0],
                n_decode / _generate(program, pages, n_before, n_decode + 1)[1],
            )
            if round >= 0:  # the first round brings weights and caches in
                bandwidth.append(rates[0])
                prefill.append(rates[1])
                decode.append(rates[2])
    finally:
        probe.close()
    progress("measuring", 1.0)
    decode_bytes = program.layout.read_bytes + _kv_bytes(program.layout, n_before, n_decode)
    return Measured(
        n_threads=program.n_threads,
        rounds=rounds,
        n_prefill=n_prefill,
        n_before=n_before,
        n_decode=n_decode,
        prefill=statistics.median(prefill),
        prefill_range=(min(prefill), max(prefill)),
        decode=statistics.median(decode),
        decode_range=(min(decode), max(decode)),
        bandwidth=statistics.median(bandwidth),
        decode_bytes=decode_bytes,
        share=decode_bytes * statistics.median(decode) / statistics.median(bandwidth),
    )


def _generate(program: Program, pages: Pages, n_prompt: int, n: int) -> tuple[float, float]:
    """Seconds of the prefill and of the steps after it, with token ids that depend on nothing."""
    tokens = next(given for given in program.layout.inputs if given.name == "tokens")
    prompt = [(i * 7919 + 13) % (tokens.hi + 1) for i in range(n_prompt)]
    greedy = Sampling(temperature=0.0, top_p=1.0, seed=0)
    answer = generate(program, pages, prompt, n, greedy, program.max_rows("prefill"), (), lambda token: None)
    return answer.prefill_s, answer.decode_s


def _kv_bytes(layout: Layout, n_before: int, n_decode: int) -> float:
    """Bytes of keys and values that a step reads: those of all positions up to its own, on average over the steps."""
    position_bytes = sum(room.page_words * 4 // PAGE for room in layout.states)
    return position_bytes * (n_before + 1 + n_before + n_decode) / 2


class _ReadProbe:
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
