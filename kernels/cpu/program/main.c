/* A prompt in, text out as it is made. */
#include "failure.h"
#include "model.h"
#include "options.h"
#include "session.h"
#include "sha256.h"
#include "tokenizer.h"
#include "utf8.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 256 };

/* Text that appears while tokens come; without a tokenizer, or where asked for, ids. */
typedef struct output {
  const tokenizer *words;
  utf8_stream stream;
  int drops_space, n_ids;
} output;

static void write_text(output *o, bytes piece, int last) {
  unsigned char *text = malloc(3 * (piece.n + 4));
  if (!text) refuse(FAILED, "end other programs", "there is no memory for the text");
  size_t n = utf8_feed(&o->stream, piece.at, piece.n, last, text), skip = 0;
  if (n && o->drops_space) {
    skip = text[0] == ' ';
    o->drops_space = 0;
  }
  fwrite(text + skip, 1, n - skip, stdout);
  fflush(stdout);
  free(text);
}

static void show(output *o, int32_t id) {
  if (o->words) {
    write_text(o, tokenizer_piece(o->words, id), 0);
  } else {
    printf("%s%d", o->n_ids++ ? " " : "", id);
    fflush(stdout);
  }
}

static int is_stop(int32_t id) {
  for (int i = 0; i < model.n_stops; i++) {
    if (model.stops[i] == id) return 1;
  }
  return 0;
}

/* Ids that depend on nothing, for weights that mean nothing. */
static ids some_ids(void) {
  ids found = {0};
  for (int i = 1; i <= 8; i++) put_id(&found, i % model.n_tokens);
  return found;
}

static ids prompt_of(const options *o, tokenizer *words, const char *tables) {
  if (o->given.n) return o->given;
  if (!o->prompt) refuse(WRONG_INPUT, "give one in quotes, or token ids with --ids", "there is no prompt");
  if (!words) {
    refuse(WRONG_INPUT, "give token ids with --ids", "%s: there is no such file, so text cannot become tokens", tables);
  }
  bytes text = {(const unsigned char *)o->prompt, strlen(o->prompt)};
  return tokenizer_prompt(words, text, !o->no_chat);
}

static void check_fits(size_t n_prompt, int n) {
  if (n_prompt == 0) refuse(WRONG_INPUT, "give a prompt with some text", "the prompt is empty: it has no tokens");
  if (n_prompt > (size_t)model.context) {
    refuse(WRONG_INPUT, "shorten the prompt", "the prompt has %zu tokens, the context is %d", n_prompt, model.context);
  }
  if (n_prompt + (size_t)n - 1 > (size_t)model.context) {
    refuse(WRONG_INPUT, "shorten the prompt, or ask for fewer tokens with -n",
           "the prompt has %zu tokens and %d more are asked for, the context is %d", n_prompt, n, model.context);
  }
}

/* SHA-256 over the little-endian bytes of all logits, row by row; every NaN counts as 7fc00000. */
static void print_logits_hash(session *s, ids prompt, int chunk) {
  sha256 hash;
  char hex[65];
  uint32_t *row = malloc((size_t)model.n_logits * sizeof *row);
  if (!row) refuse(FAILED, "end other programs", "there is no memory for the logits");
  sha256_begin(&hash);
  for (size_t first = 0; first < prompt.n; first += (size_t)chunk) {
    int n = prompt.n - first < (size_t)chunk ? (int)(prompt.n - first) : chunk;
    session_step(s, MODEL_PREFILL, prompt.at + first, n, (int)first, n);
    for (int i = 0; i < n; i++) {
      const float *logits = session_logits(s) + (size_t)i * (size_t)model.n_logits;
      for (int c = 0; c < model.n_logits; c++) row[c] = met_word(logits[c]);
      sha256_add(&hash, row, (size_t)model.n_logits * sizeof *row);
    }
  }
  sha256_end(&hash, hex);
  printf("%s  %zu x %d float32\n", hex, prompt.n, model.n_logits);
}

static void figures(size_t n_prompt, int n_steps, double prefill, double decode, int stopped, int n_threads) {
  fprintf(stderr, "prefill %zu tokens, %.1f tok/s; ", n_prompt, (double)n_prompt / prefill);
  if (n_steps > 0) fprintf(stderr, "decode %d tokens, %.1f tok/s; ", n_steps, n_steps / decode);
  fprintf(stderr, "%s; %d thread%s\n", stopped ? "end of text" : "-n reached", n_threads, n_threads == 1 ? "" : "s");
}

static void answer(session *s, ids prompt, int n, const options *o, output *out) {
  double began = seconds();
  int32_t token = session_prefill(s, prompt.at, (int)prompt.n, o->chunk, &o->how);
  double prefilled = seconds();
  int made = 0, stopped;
  while (!(stopped = is_stop(token))) {
    show(out, token);
    if (++made == n) break;
    token = session_next(s, MODEL_DECODE, &token, 1, (int)prompt.n - 1 + made, &o->how);
  }
  double ended = seconds();
  if (out->words) write_text(out, (bytes){NULL, 0}, 1);
  putchar('\n');
  figures(prompt.n, stopped ? made : made - 1, prefilled - began, ended - prefilled, stopped, o->threads);
}

int main(int argc, char **argv) {
  check_processor();
  options o = options_of(argc, argv);
  char *tables = beside(argv[0], "tokenizer.bin"), *file = beside(argv[0], "weights.bin");
  int fills = o.fill || (!o.weights && !model.has_weights);
  tokenizer *words = tokenizer_open(tables);
  ids prompt = fills && !o.prompt && !o.given.n ? some_ids() : prompt_of(&o, words, tables);
  if (o.encode) {
    for (size_t i = 0; i < prompt.n; i++) printf("%s%d", i ? " " : "", prompt.at[i]);
    putchar('\n');
    return 0;
  }
  int room = model.context - (int)prompt.n + 1, most = room < MOST ? room : MOST;
  int n = o.logits_hash ? 1 : o.n ? o.n : most > 0 ? most : 1;
  check_fits(prompt.n, n);
  if (fills) fputs("note: the weights are made up, so the tokens mean nothing\n", stderr);
  const unsigned char *weights = fills ? made_up_weights() : weights_of(o.weights ? o.weights : file);
  session *s = session_open(weights, o.threads, (int)prompt.n + n - 1);
  if (o.logits_hash) {
    print_logits_hash(s, prompt, o.chunk);
  } else {
    output out = {.words = fills || o.print_ids ? NULL : words};
    out.drops_space = out.words && !o.no_chat && !o.given.n && tokenizer_strips_space(words);
    answer(s, prompt, n, &o, &out);
  }
  session_close(s);
  return fflush(stdout) ? FAILED : 0;
}
