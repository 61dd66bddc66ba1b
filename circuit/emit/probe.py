"""A C program that reads memory and does nothing else: how fast weights could be read at best, on the same threads."""

from circuit.emit.program import program_of
from circuit.emit.sources import Sources
from circuit.render.lanes import WIDTHS

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


def emit_read_probe() -> Sources:
    """The C sources; a step reads `n` MiB at `weights` and writes one sum a thread, 64 bytes apart, to the arena."""
    return program_of({}, READ, WIDTHS[-1])
