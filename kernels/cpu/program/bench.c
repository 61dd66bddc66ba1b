/* How fast prefill and decode are: the median of some rounds, after one that brings the weights in. */
#include "failure.h"
#include "model.h"
#include "options.h"
#include "session.h"
#include <stdio.h>
#include <stdlib.h>

enum { N_PREFILL = 512, N_BEFORE = 32, N_DECODE = 128, ROUNDS = 5 };

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void report(const char *what, double *rates) {
  qsort(rates, ROUNDS, sizeof *rates, by_size);
  printf("%s: %.1f tok/s (%.1f to %.1f)\n", what, rates[ROUNDS / 2], rates[0], rates[ROUNDS - 1]);
}

int main(int argc, char **argv) {
  check_processor();
  options o = options_of(argc, argv);
  int context = model.context, n_prefill = context < N_PREFILL ? context : N_PREFILL;
  int n_before = context / 2 < N_BEFORE ? context / 2 : N_BEFORE;
  int n_decode = context - n_before < N_DECODE ? context - n_before : N_DECODE;
  int32_t *prompt = calloc((size_t)context, sizeof *prompt);
  if (!prompt || n_before < 1) refuse(FAILED, "use a longer context", "the context of %d is too short", context);
  for (int i = 0; i < context; i++) prompt[i] = (int32_t)(((long long)i * 7919 + 13) % model.n_tokens);
  const unsigned char *weights = o.fill || (!o.weights && !model.has_weights)
                                     ? made_up_weights()
                                     : weights_of(o.weights ? o.weights : beside(argv[0], "weights.bin"));
  session *s = session_open(weights, o.threads, n_prefill > n_before + n_decode ? n_prefill : n_before + n_decode);
  double prefill[ROUNDS], decode[ROUNDS];
  for (int round = -1; round < ROUNDS; round++) {
    double began = seconds();
    session_prefill(s, prompt, n_prefill, o.chunk, &o.how);
    double prefilled = seconds();
    int32_t token = session_prefill(s, prompt, n_before, o.chunk, &o.how);
    double ready = seconds();
    for (int i = 0; i < n_decode; i++) token = session_next(s, MODEL_DECODE, &token, 1, n_before + i, &o.how);
    double ended = seconds();
    if (round < 0) continue;
    prefill[round] = n_prefill / (prefilled - began);
    decode[round] = n_decode / (ended - ready);
  }
  char what[80];
  snprintf(what, sizeof what, "prefill %d tokens", n_prefill);
  report(what, prefill);
  snprintf(what, sizeof what, "decode %d tokens after %d", n_decode, n_before);
  report(what, decode);
  printf("threads: %d; median of %d rounds (lowest to highest)\n", o.threads, ROUNDS);
  session_close(s);
  return 0;
}
