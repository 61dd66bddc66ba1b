"""The C runtime by itself: threads, barrier, floating-point mode, refusals."""

import ctypes
from pathlib import Path

import numpy as np
import pytest

from circuit.emit.program import program_of
from circuit.emit.runtime import ABI
from circuit_exec.build import build
from circuit_exec.cache import Cache
from circuit_exec.cpu import Arguments

# Every round, each thread writes its cell, meets the others, and adds up all cells of the round.
ROUNDS = r"""
#include <string.h>
void met_run(const met_args *s, met_team *team, int tid, int nt) {
  volatile int32_t *cells = (volatile int32_t *)s->arena;
  volatile int64_t *sums = (volatile int64_t *)(s->arena + 4096);
  for (int round = 0; round < s->n; round++) {
    cells[tid] = round * 7 + tid;
    met_barrier(team);
    int64_t sum = 0;
    for (int i = 0; i < nt; i++) sum += cells[i];
    sums[tid] += sum;
    met_barrier(team);
  }
}
"""

# Each thread multiplies two small numbers whose product is subnormal, and adds a quarter of an ulp and then some to 1.
MODE = r"""
void met_run(const met_args *s, met_team *team, int tid, int nt) {
  volatile float tiny = 0x1p-126f, half = 0.5f, one = 1.0f, part = 0x1.8p-24f;
  ((float *)s->arena)[2 * tid] = tiny * half * 2.0f;
  ((float *)s->arena)[2 * tid + 1] = one + part;
}
"""

# Loops of 0 to 130 turns, 60 of them without a barrier; the second thread is slow. Every turn counts how often it ran.
TURNS = r"""
void met_run(const met_args *s, met_team *team, int tid, int nt) {
  int32_t *ran = (int32_t *)s->arena;
  for (int round = 0; round < s->n; round++) {
    for (int loop = 0; loop < 60; loop++) {
      i32 n = (loop * 37 + round) % 131;
      for (i32 turn = met_first(team, n, tid, nt); turn < n; turn = met_next(team, turn, tid, nt)) {
        __atomic_fetch_add(&ran[loop * 131 + turn], 1, __ATOMIC_RELAXED);
        for (volatile int wait = 0; tid == 1 && wait < 200; wait++) continue;
      }
    }
    met_barrier(team);
  }
}
"""

AHEAD = """
void met_run(const met_args *s, met_team *team, int tid, int nt) {
  if (tid == 0) ((int32_t *)s->arena)[0] = met_ahead(768, 4096);
}
"""


def quiet(what: str, part: float) -> None:
    """Progress that nobody watches."""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Cache:
    return Cache(root=tmp_path_factory.mktemp("cache"))


def opened(text: str, cache: Cache) -> ctypes.CDLL:
    library = ctypes.CDLL(str(build(program_of({}, text, 8), cache, quiet)))
    library.met_open.restype = ctypes.c_void_p
    library.met_open.argtypes = [ctypes.c_int32]
    library.met_close.argtypes = [ctypes.c_void_p]
    library.met_close.restype = None
    library.met_step.argtypes = [ctypes.c_void_p, ctypes.POINTER(Arguments)]
    return library


def arguments(arena: np.ndarray, n: int) -> Arguments:
    return Arguments(abi=ABI, n=n, arena=arena.ctypes.data)


@pytest.mark.parametrize("n_threads", [1, 2, 3, 5])
def test_every_thread_sees_what_all_wrote_before_the_barrier(cache: Cache, n_threads: int) -> None:
    library = opened(ROUNDS, cache)
    arena = np.zeros(8192, np.uint8)
    team = library.met_open(n_threads)
    try:
        for _ in range(20):
            assert library.met_step(team, arguments(arena, 50)) == 0
    finally:
        library.met_close(team)
    once = sum(round * 7 * n_threads + n_threads * (n_threads - 1) // 2 for round in range(50))
    assert arena[4096:].view(np.int64)[:n_threads].tolist() == [20 * once] * n_threads


@pytest.mark.parametrize("n_threads", [1, 2, 3, 5])
def test_every_turn_of_a_loop_is_taken_once_whoever_is_slow(cache: Cache, n_threads: int) -> None:
    library = opened(TURNS, cache)
    ran = np.zeros(60 * 131, np.int32)
    team = library.met_open(n_threads)
    try:
        for _ in range(5):
            assert library.met_step(team, arguments(ran.view(np.uint8), 9)) == 0
    finally:
        library.met_close(team)
    turns = [(loop * 37 + round) % 131 for loop in range(60) for round in range(9)]
    wanted = [[sum(n > turn for n in turns[9 * loop : 9 * loop + 9]) for turn in range(131)] for loop in range(60)]
    assert ran.reshape(60, 131).tolist() == (5 * np.array(wanted)).tolist()


def test_parked_threads_wake_up(cache: Cache) -> None:
    library = opened(ROUNDS, cache)
    team = library.met_open(3)
    arena = np.zeros(8192, np.uint8)
    try:
        for _ in range(3):
            libc_usleep(20_000)  # longer than a thread spins
            assert library.met_step(team, arguments(arena, 2)) == 0
    finally:
        library.met_close(team)
    assert arena[4096:].view(np.int64)[:3].tolist() == [3 * (0 + 3 + 21 + 3)] * 3


def libc_usleep(us: int) -> None:
    ctypes.CDLL(None).usleep(us)


def test_every_thread_rounds_to_nearest_and_keeps_subnormals(cache: Cache) -> None:
    library = opened(MODE, cache)
    arena = np.zeros(64, np.uint8)
    team = library.met_open(3)
    flushing = ctypes.CDLL(None)
    upward = 0x800  # FE_UPWARD of glibc on x86-64
    flushing.fesetround(upward)
    try:
        library.met_step(team, arguments(arena, 0))
        assert flushing.fegetround() == upward, "the caller's own mode is given back"
    finally:
        flushing.fesetround(0)
        library.met_close(team)
    assert arena.view(np.uint32)[:6].tolist() == [0x00800000, 0x3F800001] * 3


def test_a_struct_of_another_abi_is_refused(cache: Cache) -> None:
    library = opened(MODE, cache)
    team = library.met_open(1)
    assert library.met_step(team, Arguments(abi=ABI + 1)) == ABI
    library.met_close(team)


def test_words_are_asked_for_as_far_ahead_as_suits_the_maker_of_the_processor(cache: Cache) -> None:
    library, arena = opened(AHEAD, cache), np.zeros(64, np.uint8)
    team = library.met_open(1)
    assert library.met_step(team, arguments(arena, 1)) == 0
    library.met_close(team)
    processor = Path("/proc/cpuinfo")
    intel = processor.exists() and "GenuineIntel" in processor.read_text(encoding="utf-8")
    assert arena.view(np.int32)[0] == (4096 if intel else 768)
