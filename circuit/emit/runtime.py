"""The C files that every emitted program has: threads, their barrier, the floating-point mode, and the ABI.

The program beside them defines `met_run`, which does one thread's share of a step. `circuit_exec/cpu.py` mirrors
`met_args`; whoever changes it counts `ABI` up. `met_barrier` is declared by the prelude of the kernels.

The turns of a loop are shared out: three fourths are dealt out in halves, thirds and so on, so that each thread reads
one run of memory; the last fourth goes turn by turn to whoever is free, since threads of a busy machine are not equally
fast. Which thread takes a turn changes no byte. Measured on a 2-core Zen 3 virtual machine (gcc 12, 2026-11-30), the
share of a step that the first thread waits at barriers: 8 rows in BF16 12.8 -> 3.2 %, 1 row in Q8_0 20.8 -> 16 %.

Threads are made once and live until `met_close`. Every thread meets every barrier. A waiting thread spins for some
tens of microseconds and then parks, so that an idle program takes no processor, and one whose peers are not running
lets them run. Measured on a 2-core Zen 3 virtual machine (gcc 12, 2026-11-29), decoding with 2 threads beside other
work: 1000 to 20000 spins are equal at the median; with 20000 the slowest round is three times slower, with 200 the
median is half.
"""

ABI = 2

LOOPS = 64
"""Loops that threads share, one after the other without a barrier, at most: barriers.py."""

MAIN, GREEDY, SAMPLE, SCORE, HIDDEN = -1, 0, 1, 2, 3
"""The parts of a step: logits; behind them the most likely token, a drawn token, what log-probabilities need; and the
hidden rows that embeddings are made of. All but main have a place in `met_args.sections`.
"""
N_SECTIONS = 4

RUNTIME_H = rf"""\
/* What runs a step: threads made once, and a call that hands them the arrays of the step. */
#ifndef MET_RUNTIME_H
#define MET_RUNTIME_H
#include "met.h"
#include <stddef.h>
#include <stdint.h>

#define MET_PUBLIC __attribute__((visibility("default")))
#define MET_ABI {ABI}
enum {{ MET_MAIN = {MAIN}, MET_GREEDY = {GREEDY}, MET_SAMPLE = {SAMPLE}, MET_SCORE = {SCORE}, MET_HIDDEN = {HIDDEN} }};

/* Rows from `first` on, of those that `logit_rows` names. */
typedef struct met_span {{
  int32_t first, count;
}} met_span;

/* One step. `states[i]` is the first byte of state i; every array is described in the plan.
 *
 * `m` rows get logits. Each section runs for the rows of its span, those of MET_HIDDEN may stand behind the `m`. The
 * arrays of the sampler begin with the first row of MET_SAMPLE. With `n` = 0 the sections alone run, on what the step
 * of the same plan before left in the arena. */
typedef struct met_args {{
  int32_t abi, plan, n, m, n_sequences;
  met_span sections[{N_SECTIONS}];
  const int32_t *tokens, *positions, *sequences, *page_tables, *logit_rows;
  const float *temperature, *top_p;
  const uint32_t *seeds, *choices; /* a seed is two words, the low one first */
  const int32_t *sample_positions;
  unsigned char *arena;
  const unsigned char *weights;
  unsigned char *const *states;
}} met_args;

MET_PUBLIC int32_t met_abi(void);

/* A team of `n_threads` threads, the caller of met_step among them; NULL where the system gives no more. */
MET_PUBLIC met_team *met_open(int32_t n_threads);
MET_PUBLIC void met_close(met_team *team);

/* Runs one step on all threads of the team; 0, or the ABI that this program was built for. */
MET_PUBLIC int32_t met_step(met_team *team, const met_args *args);

/* The share of thread `tid` of `nt` in a step: steps.c. */
void met_run(const met_args *args, met_team *team, int tid, int nt);
#endif
"""

RUNTIME_C = r"""\
/* Threads, their barrier, and the floating-point mode. */
#if defined(__linux__)
#define _DEFAULT_SOURCE /* syscall */
#endif
#include "runtime.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif !defined(__x86_64__) && !defined(__aarch64__)
#include <fenv.h>
#endif
#if defined(__x86_64__)
#include <cpuid.h>
#endif

typedef struct met_barrier_t {
  _Alignas(64) atomic_int count;
  _Alignas(64) atomic_int generation;
  _Alignas(64) atomic_int parked;
  int n_threads;
#if !defined(__linux__)
  pthread_mutex_t mutex;
  pthread_cond_t condition;
#endif
} met_barrier_t;

enum { MET_LOOPS = @LOOPS }; /* as many as follow each other without a barrier */

/* Turns that belong to no thread: how many of each loop were taken, over all the steps of the team. */
typedef struct met_taken {
  _Alignas(64) atomic_uint n;
} met_taken;

/* Where a thread is in its loop of `n` turns: the first that belongs to nobody, the end of its own, and the count of
 * taken turns that the loop began with. `counts` are those that the next loops begin with: a loop takes its turns that
 * belong to nobody, and then every thread finds once that there is none. So no thread waits for a count to be reset. */
typedef struct met_worker {
  _Alignas(64) struct met_team *team;
  int tid;
  pthread_t thread;
  i32 n, common, own_end;
  unsigned loop, begun, counts[MET_LOOPS];
} met_worker;

struct met_team {
  met_barrier_t barrier;
  const met_args *args; /* of the step in progress; NULL asks the threads to end */
  int n_threads;
  met_taken taken[MET_LOOPS];
  met_worker workers[];
};

static inline void met_pause(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

enum { MET_SPINS = 2000, MET_STACK_BYTES = 64 << 20 };

/* The last thread to arrive frees the others. What a thread wrote before is seen by all after. */
void met_barrier(met_team *team) {
  met_barrier_t *b = &team->barrier;
  if (b->n_threads == 1) return;
  int before = atomic_load_explicit(&b->generation, memory_order_relaxed);
  if (atomic_fetch_add_explicit(&b->count, 1, memory_order_acq_rel) == b->n_threads - 1) {
    atomic_store_explicit(&b->count, 0, memory_order_relaxed);
#if defined(__linux__)
    atomic_store(&b->generation, (int)((unsigned)before + 1u));
    if (atomic_load(&b->parked)) syscall(SYS_futex, &b->generation, FUTEX_WAKE_PRIVATE, INT32_MAX, 0, 0, 0);
#else
    pthread_mutex_lock(&b->mutex);
    atomic_store(&b->generation, (int)((unsigned)before + 1u));
    pthread_cond_broadcast(&b->condition);
    pthread_mutex_unlock(&b->mutex);
#endif
    return;
  }
  for (int i = 0; i < MET_SPINS; i++) {
    if (atomic_load_explicit(&b->generation, memory_order_acquire) != before) return;
    met_pause();
  }
#if defined(__linux__)
  atomic_fetch_add(&b->parked, 1);
  while (atomic_load(&b->generation) == before) syscall(SYS_futex, &b->generation, FUTEX_WAIT_PRIVATE, before, 0, 0, 0);
  atomic_fetch_sub(&b->parked, 1);
#else
  pthread_mutex_lock(&b->mutex);
  while (atomic_load(&b->generation) == before) pthread_cond_wait(&b->condition, &b->mutex);
  pthread_mutex_unlock(&b->mutex);
#endif
}

/* The next turn that belongs to nobody; one past the last where none is left. */
static i32 met_take(met_team *team, const met_worker *own) {
  if (own->common == own->n) return own->n;
  unsigned taken = atomic_fetch_add_explicit(&team->taken[own->loop].n, 1u, memory_order_relaxed) - own->begun;
  return own->common + (i32)taken;
}

i32 met_first(met_team *team, i32 n, i32 tid, i32 nt) {
  if (nt == 1) return 0;
  met_worker *own = &team->workers[tid];
  own->n = n;
  own->common = n - n / 4;
  own->own_end = (i32)((int64_t)own->common * (tid + 1) / nt);
  own->loop = (own->loop + 1) % MET_LOOPS;
  own->begun = own->counts[own->loop];
  if (own->common < n) own->counts[own->loop] += (unsigned)(n - own->common + nt);
  i32 at = (i32)((int64_t)own->common * tid / nt);
  return at < own->own_end ? at : met_take(team, own);
}

i32 met_next(met_team *team, i32 at, i32 tid, i32 nt) {
  if (nt == 1) return at + 1;
  const met_worker *own = &team->workers[tid];
  return at + 1 < own->own_end ? at + 1 : met_take(team, own);
}

static atomic_int met_intel; /* whether the processor says that Intel made it */

static void met_ask_processor(void) {
#if defined(__x86_64__)
  unsigned most = 0, b = 0, c = 0, d = 0;
  atomic_store(&met_intel, __get_cpuid(0, &most, &b, &c, &d) && b == signature_INTEL_ebx && d == signature_INTEL_edx);
#endif
}

i32 met_ahead(i32 others, i32 intel) {
  return atomic_load_explicit(&met_intel, memory_order_relaxed) ? intel : others;
}

/* Round to nearest even, no flush to zero, no traps; gives the mode that was set before. */
static uint64_t met_float_mode_enter(void) {
#if defined(__x86_64__)
  uint64_t before = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(0x1f80);
#elif defined(__aarch64__)
  uint64_t before;
  __asm__ volatile("mrs %0, fpcr" : "=r"(before));
  __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0));
#else
  uint64_t before = (uint64_t)fegetround();
  fesetenv(FE_DFL_ENV);
#endif
  return before;
}

static void met_float_mode_leave(uint64_t before) {
#if defined(__x86_64__)
  __builtin_ia32_ldmxcsr((uint32_t)before);
#elif defined(__aarch64__)
  __asm__ volatile("msr fpcr, %0" : : "r"(before));
#else
  fesetround((int)before);
#endif
}

static void *met_work(void *argument) {
  met_worker *worker = argument;
  met_team *team = worker->team;
  met_float_mode_enter();
  for (;;) {
    met_barrier(team);
    if (!team->args) return NULL;
    met_run(team->args, team, worker->tid, team->n_threads);
    met_barrier(team);
  }
}

int32_t met_abi(void) { return MET_ABI; }

void met_close(met_team *team) {
  team->args = NULL;
  met_barrier(team);
  for (int tid = 1; tid < team->n_threads; tid++) pthread_join(team->workers[tid].thread, NULL);
  free(team);
}

met_team *met_open(int32_t n_threads) {
  size_t bytes = sizeof(met_team) + (size_t)n_threads * sizeof(met_worker);
  met_team *team = aligned_alloc(64, (bytes + 63) / 64 * 64);
  if (!team) return NULL;
  memset(team, 0, bytes);
  met_ask_processor();
  team->args = NULL;
  team->n_threads = n_threads;
  team->barrier.n_threads = n_threads;
  atomic_init(&team->barrier.count, 0);
  atomic_init(&team->barrier.generation, 0);
  atomic_init(&team->barrier.parked, 0);
#if !defined(__linux__)
  pthread_mutex_init(&team->barrier.mutex, NULL);
  pthread_cond_init(&team->barrier.condition, NULL);
#endif
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, MET_STACK_BYTES);
  for (int tid = 1; tid < n_threads; tid++) {
    team->workers[tid].team = team;
    team->workers[tid].tid = tid;
    if (pthread_create(&team->workers[tid].thread, &attributes, met_work, &team->workers[tid])) {
      /* Those that wait at the first barrier are let through it, by counting the missing ones in, and end. */
      atomic_fetch_add(&team->barrier.count, n_threads - tid);
      met_barrier(team);
      for (int i = 1; i < tid; i++) pthread_join(team->workers[i].thread, NULL);
      free(team);
      team = NULL;
      break;
    }
  }
  pthread_attr_destroy(&attributes);
  return team;
}

int32_t met_step(met_team *team, const met_args *args) {
  if (args->abi != MET_ABI) return MET_ABI;
  uint64_t before = met_float_mode_enter();
  team->args = args;
  met_barrier(team);
  met_run(args, team, 0, team->n_threads);
  met_barrier(team);
  met_float_mode_leave(before);
  return 0;
}
""".replace("@LOOPS", str(LOOPS))
