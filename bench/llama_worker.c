/* One work of llama.cpp, timed whenever a line comes in: see bench/worker.py for the protocol.

   llama_worker MODEL THREADS prefill|decode SEQUENCES BEFORE TOKENS

   All settings are llama.cpp's defaults, as in its own llama-bench and llama-batched-bench: keys and values in f16, weights
   repacked where it wants to, batches of 2048 and 512. Token ids depend on nothing; no token is sampled. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "llama.h"

static struct llama_context *context;
static int n_vocab;

static void quiet(enum ggml_log_level level, const char *text, void *data) { (void)level, (void)text, (void)data; }

static void require(int held, const char *what) {
  if (held) return;
  fprintf(stderr, "error: llama.cpp: %s\n", what);
  exit(1);
}

static llama_token token_at(int i) { return (int)(((long long)i * 7919 + 13) % n_vocab); }

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Positions first .. first+n-1 of one sequence; logits of the last alone. */
static void prefill(int sequence, int n) {
  for (int first = 0; first < n; first += 2048) {
    int rows = n - first < 2048 ? n - first : 2048;
    struct llama_batch batch = llama_batch_init(rows, 0, 1);
    batch.n_tokens = rows;
    for (int i = 0; i < rows; i++) {
      batch.token[i] = token_at(first + i);
      batch.pos[i] = first + i;
      batch.n_seq_id[i] = 1;
      batch.seq_id[i][0] = sequence;
      batch.logits[i] = i == rows - 1;
    }
    require(llama_decode(context, batch) == 0, "the prompt is refused");
    llama_batch_free(batch);
  }
  llama_synchronize(context);
}

/* One token in each sequence, at `position`. */
static void step(struct llama_batch *batch, int n_sequences, int position) {
  batch->n_tokens = n_sequences;
  for (int i = 0; i < n_sequences; i++) {
    batch->token[i] = token_at(position + i);
    batch->pos[i] = position;
    batch->n_seq_id[i] = 1;
    batch->seq_id[i][0] = i;
    batch->logits[i] = 1;
  }
  require(llama_decode(context, *batch) == 0, "a step is refused");
  llama_synchronize(context);
}

static double run(int decodes, int n_sequences, int n_before, int n_tokens) {
  llama_memory_t memory = llama_get_memory(context);
  for (int i = 0; i < n_sequences; i++) require(llama_memory_seq_rm(memory, i, n_before, -1), "positions stay");
  struct llama_batch batch = llama_batch_init(n_sequences, 0, 1);
  double started = now();
  if (decodes)
    for (int i = 0; i < n_tokens; i++) step(&batch, n_sequences, n_before + i);
  else
    for (int i = 0; i < n_sequences; i++) prefill(i, n_tokens);
  double seconds = now() - started;
  llama_batch_free(batch);
  return seconds;
}

int main(int argc, char **argv) {
  require(argc == 7, "llama_worker MODEL THREADS prefill|decode SEQUENCES BEFORE TOKENS");
  int n_threads = atoi(argv[2]), decodes = !strcmp(argv[3], "decode");
  int n_sequences = atoi(argv[4]), n_before = atoi(argv[5]), n_tokens = atoi(argv[6]);
  llama_log_set(quiet, NULL);
  llama_backend_init();
  struct llama_model_params model_params = llama_model_default_params();
  model_params.n_gpu_layers = 0;
  struct llama_model *model = llama_model_load_from_file(argv[1], model_params);
  require(model != NULL, "the model cannot be loaded");
  n_vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));
  struct llama_context_params params = llama_context_default_params();
  params.n_ctx = (uint32_t)(n_sequences * ((n_before + n_tokens + 255) / 256 * 256));
  params.n_batch = 2048;
  params.n_ubatch = 512;
  params.n_seq_max = (uint32_t)n_sequences;
  params.n_threads = params.n_threads_batch = n_threads;
  context = llama_init_from_model(model, params);
  require(context != NULL, "there is no memory for the context");
  if (n_before > 0)
    for (int i = 0; i < n_sequences; i++) prefill(i, n_before);
  run(decodes, n_sequences, n_before, n_tokens);
  printf("ready %s\n", llama_print_system_info());
  fflush(stdout);
  for (char line[16]; fgets(line, sizeof line, stdin);) {
    printf("%.9f\n", run(decodes, n_sequences, n_before, n_tokens));
    fflush(stdout);
  }
  llama_free(context);
  llama_model_free(model);
  return 0;
}
