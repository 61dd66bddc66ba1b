"""C programs that measure a machine: how fast it reads, multiplies and masks at best, and what a launch costs.

Each does one thing with the threads that would run a model, `met_args.n` times.
"""

from circuit.emit.program import program_of
from circuit.emit.sources import Sources
from circuit.render.lanes import WIDTHS

CHAINS = 12
"""Vectors that are worked on in turn: more than an operation's latency."""

ROUNDS = 1 << 16
"""Times that each of the chains is worked on in one count of `n`."""

READ = r"""
typedef uint64_t met_words __attribute__((vector_size(32)));

/* Reads `n` MiB from `weights` on, each thread its own part; the sums keep the loads from being left out. */
void met_run(const met_args *s, met_team *team, int tid, int nt) {
  (void)team;
  const size_t count = ((size_t)s->n << 20) / sizeof(met_words);
  const met_words *first = (const met_words *)s->weights + count / 8 * tid / nt * 8;
  const met_words *end = (const met_words *)s->weights + count / 8 * (tid + 1) / nt * 8;
  met_words sums[8] = {{0}};
  for (const met_words *at = first; at < end; at += 8) {
    for (int i = 0; i < 8; i++) sums[i] += at[i];
  }
  met_words sum = {0};
  for (int i = 0; i < 8; i++) sum += sums[i];
  ((uint64_t *)s->arena)[8 * tid] = sum[0] + sum[1] + sum[2] + sum[3];
}
"""

_CHAINS = r"""
#if defined(__aarch64__)
#define MET_KEEP(x) __asm__ volatile("" : "+w"(x)) /* its value may have changed, as far as the compiler knows */
#else
#define MET_KEEP(x) __asm__ volatile("" : "+x"(x))
#endif

/* Works on @C vectors in turn, n * @R times; what they end as goes to the arena, so that none of it is left out. */
void met_run(const met_args *s, met_team *team, int tid, int nt) {
  (void)team, (void)nt;
  @T @D;
  for (i64 round = 0; round < (i64)s->n * @R; round++) {
@S
  }
  ((u32 *)s->arena)[16 * tid] = ((u32x@W)(@X))[0];
}
"""

BARRIER = r"""
/* `n` times, every thread waits for all others: what stands between two launches. */
void met_run(const met_args *s, met_team *team, int tid, int nt) {
  (void)tid, (void)nt;
  for (i32 round = 0; round < s->n; round++) met_barrier(team);
}
"""


def emit_read_probe() -> Sources:
    """The C sources; a step reads `n` MiB at `weights` and writes one sum a thread, 64 bytes apart, to the arena."""
    return program_of({}, READ, WIDTHS[-1])


def emit_fma_probe(lanes: int) -> Sources:
    """A step does n * ROUNDS multiply-adds on each of CHAINS vectors of `lanes` f32, in every thread."""
    step = f"met_into_f32x{lanes}(&@V, met_all_f32x{lanes}(0x1p-20f), @V);"
    return _chains(lanes, f"f32x{lanes}", f"met_all_f32x{lanes}(1.0f + 0x1p-10f * @I)", step)


def emit_logic_probe(lanes: int) -> Sources:
    """A step does n * ROUNDS shifts and as many masks on each of CHAINS vectors of `lanes` u32, in every thread."""
    step = "MET_KEEP(@V); @V = (@V >> 4) & 0x0f0f0f0fu;"
    return _chains(lanes, f"u32x{lanes}", f"met_all_u32x{lanes}(0x9e3779b9u + @I)", step)


def emit_barrier_probe() -> Sources:
    """A step is `n` barriers."""
    return program_of({}, BARRIER, WIDTHS[-1])


def _chains(lanes: int, kind: str, start: str, step: str) -> Sources:
    names = [f"x{place}" for place in range(CHAINS)]
    texts = {
        "@T": kind,
        "@D": ", ".join(f"{name} = {start.replace('@I', str(place))}" for place, name in enumerate(names)),
        "@S": "\n".join(f"    {step.replace('@V', name)}" for name in names),
        "@X": " + ".join(names),
        "@C": str(CHAINS),
        "@W": str(lanes),
        "@R": str(ROUNDS),
    }
    text = _CHAINS
    for mark, value in texts.items():
        text = text.replace(mark, value)
    return program_of({}, text, lanes)
