#define _DEFAULT_SOURCE /* mmap, madvise */
#include "session.h"
#include "failure.h"
#include "model.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

struct session {
  met_team *team;
  const unsigned char *weights;
  unsigned char *arena, **states;
  int32_t *table, *positions, *sequences, *logit_rows;
  const model_plan *last; /* the plan of the last step */
};

/* Zeroed memory, on huge pages where the system gives them. */
static unsigned char *room(size_t n_bytes, const char *what) {
  void *found = mmap(NULL, n_bytes ? n_bytes : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (found == MAP_FAILED) {
    refuse(FAILED, "end other programs, or ask for fewer tokens", "there is no memory for %s: %zu bytes", what, n_bytes);
  }
#if defined(MADV_HUGEPAGE)
  madvise(found, n_bytes, MADV_HUGEPAGE); /* only a hint */
#endif
  return found;
}

static uint64_t little_endian(const unsigned char *at) {
  uint64_t value = 0;
  for (int i = 7; i >= 0; i--) value = value << 8 | at[i];
  return value;
}

/* The file: "metbake1", where the payload begins, its bytes, the bytes of a piece, the manifest's digest, … */
const unsigned char *weights_of(const char *path) {
  static const char fix[] = "copy the file again, or write the program and its weights again with `met emit`";
  struct stat found;
  int file = open(path, O_RDONLY);
  if (file < 0 || fstat(file, &found)) {
    refuse(WRONG_INPUT, "put the file there, name it with --weights, or make weights up with --fill",
           "%s: the weights cannot be read: %s", path, strerror(errno));
  }
  size_t n_bytes = (size_t)found.st_size;
  if (n_bytes < 128) refuse(WRONG_INPUT, fix, "%s: it has %zu bytes, which is no file of weights", path, n_bytes);
  const unsigned char *data = mmap(NULL, n_bytes, PROT_READ, MAP_PRIVATE, file, 0);
  if (data == MAP_FAILED) refuse(FAILED, "make memory free", "%s: it cannot be mapped: %s", path, strerror(errno));
  close(file);
  if (memcmp(data, "metbake1", 8)) refuse(WRONG_INPUT, fix, "%s: it is no file of baked weights", path);
  uint64_t payload = little_endian(data + 8);
  char digest[65];
  for (int i = 0; i < 64; i++) digest[i] = "0123456789abcdef"[data[32 + i / 2] >> (i % 2 ? 0 : 4) & 15];
  digest[64] = 0;
  if (strcmp(digest, model.manifest)) {
    refuse(WRONG_INPUT, "give the weights that were written with this program",
           "%s: the weights are laid out by manifest %s, this program reads %s", path, digest, model.manifest);
  }
  if (n_bytes != payload + model.weight_bytes || payload % 4096) {
    refuse(WRONG_INPUT, fix, "%s: it has %zu bytes, not %llu", path, n_bytes,
           (unsigned long long)(payload + model.weight_bytes));
  }
  return data + payload;
}

/* Word i of all weights: the upper half of splitmix64's output number i for the seed 0.
 * Source: Steele, Lea and Flood 2014, doi:10.1145/2660193.2660195. */
static uint32_t random_word(uint64_t i) {
  uint64_t z = (i + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return (uint32_t)((z ^ z >> 31) >> 32);
}

const unsigned char *made_up_weights(void) {
  unsigned char *bytes = room(model.weight_bytes, "the weights");
  for (int w = 0; w < model.n_weights; w++) {
    const model_weight *weight = &model.weights[w];
    uint32_t *words = (uint32_t *)(void *)(bytes + weight->offset);
    for (size_t i = 0; i < weight->n_words; i++) {
      const uint32_t *mask = weight->masks[i / weight->lanes % weight->unit];
      words[i] = (random_word(weight->offset / 4 + i) & mask[0]) | mask[1];
    }
  }
  return bytes;
}

session *session_open(const unsigned char *weights, int n_threads, int n_positions) {
  int n_pages = (n_positions + MODEL_PAGE - 1) / MODEL_PAGE;
  int rows = most_rows(MODEL_PREFILL) > most_rows(MODEL_DECODE) ? most_rows(MODEL_PREFILL) : most_rows(MODEL_DECODE);
  session *s = calloc(1, sizeof *s);
  int32_t *counts = calloc((size_t)(model.table_width + 3 * rows), sizeof *counts);
  if (!s || !counts) refuse(FAILED, "end other programs", "there is no memory");
  s->weights = weights;
  s->arena = room(model.arena_bytes, "the arena");
  s->states = calloc((size_t)model.n_states + 1, sizeof *s->states);
  if (!s->states) refuse(FAILED, "end other programs", "there is no memory");
  size_t n_bytes = 0;
  for (int i = 0; i < model.n_states; i++) {
    if (n_pages > model.states[i].max_pages) {
      refuse(WRONG_INPUT, "ask for fewer tokens", "%d pages of the cache are needed, there are at most %d", n_pages,
             model.states[i].max_pages);
    }
    n_bytes += (size_t)n_pages * model.states[i].page_bytes;
  }
  unsigned char *states = room(n_bytes, "the cache"); /* in one piece: one state alone is often less than a huge page */
  for (int i = 0; i < model.n_states; i++) {
    s->states[i] = states;
    states += (size_t)n_pages * model.states[i].page_bytes;
  }
  s->table = counts;
  s->positions = counts + model.table_width;
  s->sequences = s->positions + rows;
  s->logit_rows = s->sequences + rows;
  for (int i = 0; i < n_pages; i++) s->table[i] = i;
  s->team = met_open(n_threads);
  if (!s->team) refuse(FAILED, "ask for fewer with --threads", "the system gives no %d threads", n_threads);
  return s;
}

void session_close(session *s) {
  met_close(s->team);
  munmap(s->arena, model.arena_bytes ? model.arena_bytes : 1);
  free(s->states);
  free(s->table);
  free(s);
}

int most_rows(int mode) {
  int most = 0;
  for (int i = 0; i < model.n_plans; i++) {
    if (model.plans[i].mode == mode && model.plans[i].last > most) most = model.plans[i].last;
  }
  return most;
}

static int plan_for(int mode, int n) {
  for (int i = 0; i < model.n_plans; i++) {
    if (model.plans[i].mode == mode && model.plans[i].first <= n && n <= model.plans[i].last) return i;
  }
  refuse(WRONG_INPUT, "give another --chunk", "no plan takes a step of %d rows", n);
}

static void run(session *s, int mode, const int32_t *tokens, int n, int first, int m, int section, const draw *how) {
  int plan = plan_for(mode, n);
  for (int i = 0; i < n; i++) s->positions[i] = first + i;
  for (int i = 0; i < m; i++) s->logit_rows[i] = n - m + i;
  float temperature = how ? how->temperature : 0, top_p = how ? how->top_p : 1;
  uint32_t seed[2] = {how ? (uint32_t)how->seed : 0, how ? (uint32_t)(how->seed >> 32) : 0}, choice = 0;
  int32_t drawn_at = first + n;
  met_args args = {
      .abi = MET_ABI, .plan = plan, .n = n, .m = m, .n_sequences = 1,
      .tokens = tokens, .positions = s->positions, .sequences = s->sequences, .page_tables = s->table,
      .logit_rows = s->logit_rows, .temperature = &temperature, .top_p = &top_p, .seeds = seed, .choices = &choice,
      .sample_positions = &drawn_at, .arena = s->arena, .weights = s->weights, .states = s->states,
  };
  if (section != MET_MAIN) args.sections[section] = (met_span){0, m};
  met_step(s->team, &args);
  s->last = &model.plans[plan];
}

void session_step(session *s, int mode, const int32_t *tokens, int n, int first, int m) {
  run(s, mode, tokens, n, first, m, MET_MAIN, NULL);
}

int32_t session_next(session *s, int mode, const int32_t *tokens, int n, int first, const draw *how) {
  int draws = how->temperature != 0;
  run(s, mode, tokens, n, first, 1, draws ? MET_SAMPLE : MET_GREEDY, how);
  size_t at = draws ? s->last->sampled : s->last->token;
  if (at == MODEL_NOWHERE) {
    refuse(WRONG_INPUT, draws ? "leave out --temperature" : "write the program again", "the model chooses no tokens");
  }
  int32_t token;
  memcpy(&token, s->arena + at, sizeof token);
  return token;
}

int32_t session_prefill(session *s, const int32_t *tokens, int n, int chunk, const draw *how) {
  int first = 0;
  for (; n - first > chunk; first += chunk) session_step(s, MODEL_PREFILL, tokens + first, chunk, first, 0);
  return session_next(s, MODEL_PREFILL, tokens + first, n - first, first, how);
}

const float *session_logits(const session *s) { return (const float *)(const void *)(s->arena + s->last->logits); }

/* Bits of cpuid. Source: Intel 64 and IA-32 manual, volume 2, CPUID. */
void check_processor(void) {
#if defined(__x86_64__)
  static const char fix[] = "run it on a processor that has it";
  unsigned a, b = 0, c = 0, d, b7 = 0, other;
  __get_cpuid(1, &a, &b, &c, &d);
  __get_cpuid_count(7, 0, &a, &b7, &other, &d);
#if defined(__FMA__)
  if (!(c >> 12 & 1)) refuse(WRONG_INPUT, fix, "the program is compiled for FMA, which this processor lacks");
#endif
#if defined(__AVX2__)
  if (!(b7 >> 5 & 1)) refuse(WRONG_INPUT, fix, "the program is compiled for AVX2, which this processor lacks");
#endif
#if defined(__AVX512F__)
  if (!(b7 >> 16 & 1)) refuse(WRONG_INPUT, fix, "the program is compiled for AVX-512, which this processor lacks");
#endif
  (void)fix, (void)b7, (void)c;
#endif
}

double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
