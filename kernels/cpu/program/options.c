#define _DEFAULT_SOURCE /* sysconf */
#include "options.h"
#include "failure.h"
#include "model.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char HELP[] =
    "Usage: model [PROMPT] [options]\n"
    "\n"
    "Answers a prompt. The text goes to stdout as it is made, the figures to stderr.\n"
    "\n"
    "  -n N             the most tokens to make (256, or what fits)\n"
    "  --ids 1,2,3      token ids in place of a prompt\n"
    "  --no-chat        continue the prompt as plain text\n"
    "  --temperature T  0 takes the most likely token (0)\n"
    "  --top-p P        draw from the likeliest tokens that hold P in all (1)\n"
    "  --seed S         the same seed draws the same text (0)\n"
    "  --threads N      threads; no byte changes (one a processor)\n"
    "  --chunk N        prompt rows in one step; no byte changes (the most)\n"
    "  --weights FILE   baked weights (weights.bin beside the program)\n"
    "  --fill           make weights up, the same on every machine; prints ids\n"
    "  --print-ids      print ids in place of words\n"
    "  --encode         print the ids of the prompt and end\n"
    "  --logits-hash    print the hash of all logits of the ids, as `met logits` does, and end\n"
    "  --help           print this\n";

static long long integer(const char *option, const char *text, long long low, long long high) {
  char *end;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  if (errno || end == text || *end || value < low || value > high) {
    char fix[80];
    snprintf(fix, sizeof fix, "give %s a whole number from %lld to %lld", option, low, high);
    refuse(WRONG_INPUT, fix, "%s is %s", option, text);
  }
  return value;
}

static ids list_of(const char *text) {
  ids list = {0};
  for (const char *at = text;;) {
    char *end;
    errno = 0;
    long long id = strtoll(at, &end, 10);
    if (errno || end == at || (*end && *end != ',')) {
      refuse(WRONG_INPUT, "give token ids with commas between them: --ids 1,2,3", "--ids is %s", text);
    }
    if (id < 0 || id >= model.n_tokens) {
      refuse(WRONG_INPUT, "use the tokenizer of this model", "token id %lld is outside 0 to %d", id, model.n_tokens - 1);
    }
    put_id(&list, (int32_t)id);
    if (!*end) return list;
    at = end + 1;
  }
}

static double real(const char *option, const char *text, const char *fix, double above, double most) {
  char *end;
  double value = strtod(text, &end);
  if (end == text || *end || !(value >= above && value <= most)) refuse(WRONG_INPUT, fix, "%s is %s", option, text);
  return value;
}

static uint64_t seed_of(const char *text) {
  char *end;
  errno = 0;
  unsigned long long value = strtoull(text, &end, 10);
  if (errno || end == text || *end || *text == '-') {
    refuse(WRONG_INPUT, "give --seed from 0 to 2**64 - 1", "--seed is %s", text);
  }
  return value;
}

options options_of(int argc, char **argv) {
  options o = {.how = {0, 1, 0}};
  for (int i = 1; i < argc; i++) {
    const char *word = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
    int flag = 1;
    if (!strcmp(word, "--help")) {
      fputs(HELP, stdout);
      exit(0);
    }
    else if (!strcmp(word, "--no-chat")) o.no_chat = 1;
    else if (!strcmp(word, "--fill")) o.fill = 1;
    else if (!strcmp(word, "--print-ids")) o.print_ids = 1;
    else if (!strcmp(word, "--encode")) o.encode = 1;
    else if (!strcmp(word, "--logits-hash")) o.logits_hash = 1;
    else flag = 0;
    if (flag) continue;
    if (word[0] != '-' || !strcmp(word, "--")) {
      if (word[0] == '-') word = value, i++; /* what follows is a prompt, whatever it begins with */
      if (!word) refuse(WRONG_INPUT, "give a prompt after --", "there is no prompt");
      if (o.prompt) refuse(WRONG_INPUT, "put the prompt in quotes", "there is a second prompt: %s", word);
      o.prompt = word;
      continue;
    }
    static const char *const known[] = {"-n",     "--ids",     "--temperature", "--top-p", "--seed",
                                        "--threads", "--chunk", "--weights"};
    size_t which = 0;
    while (which < sizeof known / sizeof *known && strcmp(word, known[which])) which++;
    if (which == sizeof known / sizeof *known) refuse(WRONG_INPUT, "see --help", "there is no option %s", word);
    if (!value) refuse(WRONG_INPUT, "see --help", "option %s needs a value", word);
    i++;
    switch (which) {
      case 0: o.n = (int)integer(word, value, 1, INT32_MAX); break;
      case 1: o.given = list_of(value); break;
      case 2:
        o.how.temperature = (float)real(word, value, "give 0 for the most likely token, or a number above it", 0, 3e38);
        break;
      case 3: {
        static const char fix[] = "give --top-p above 0 and at most 1";
        o.how.top_p = (float)real(word, value, fix, 0, 1);
        if (o.how.top_p == 0) refuse(WRONG_INPUT, fix, "--top-p is %s", value);
        break;
      }
      case 4: o.how.seed = seed_of(value); break;
      case 5: o.threads = (int)integer(word, value, 1, 4096); break;
      case 6: o.chunk = (int)integer(word, value, 1, most_rows(MODEL_PREFILL)); break;
      default: o.weights = value;
    }
  }
  if (o.prompt && o.given.n) refuse(WRONG_INPUT, "leave one of them out", "there is a prompt, and ids too");
  if (o.fill && o.weights) refuse(WRONG_INPUT, "leave one of them out", "--fill and --weights are both given");
  if (!o.threads) {
    long found = sysconf(_SC_NPROCESSORS_ONLN);
    o.threads = found > 0 ? (int)found : 1;
  }
  if (!o.chunk) o.chunk = most_rows(MODEL_PREFILL);
  return o;
}

char *beside(const char *program, const char *name) {
  const char *slash = strrchr(program, '/');
  size_t n = slash ? (size_t)(slash - program) + 1 : 0;
  char *path = malloc(n + strlen(name) + 1);
  if (!path) refuse(FAILED, "end other programs", "there is no memory");
  memcpy(path, program, n);
  strcpy(path + n, name);
  return path;
}
