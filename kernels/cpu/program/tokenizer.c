#include "tokenizer.h"
#include "failure.h"
#include "pattern.h"
#include "utf8.h"
#include "words.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char FIX_IDS[] = "give token ids with --ids";

/* The sections of tokenizer.bin, in order; every number is a little-endian u32. */
enum {
  NUMBERS, PIECE_ENDS, PIECES, TEXT_ENDS, TEXTS, MERGES, RANKS, BYTE_IDS, ADDED_ENDS, ADDED, ADDED_IDS, PREFIX, SUFFIX,
  PREPENDED, PATTERNS, CLASSES, UNSTABLE, CANNOT, PLAIN_PROBLEM, CHAT_PROBLEM, N_SECTIONS
};
enum { FLAGS, N_TOKENS, BOS, N_NUMBERS };
enum {
  WHOLE_WORDS = 1, /* a word that is a token is that token, whatever the merges say */
  STRIPS_SPACE = 2,
  ADDS_BOS = 4,
  TRIMS = 8,       /* the chat template removes white space around the message */
  BYTE_LEVEL = 16, /* words are made of bytes, else of characters */
  SPACES = 32,     /* spaces are written as U+2581 */
  ONLY_FIRST = 64, /* what is put before a part is put before the first one only */
  NOT_TWICE = 128, /* and not where the part begins with it */
};

struct tokenizer {
  const char *path;
  bytes section[N_SECTIONS];
  const uint32_t *numbers;
  pattern *patterns;
  char_class *classes;
  uint32_t n_patterns, n_classes;
  words *words;
};

void put_id(ids *list, int32_t id) {
  if (list->n == list->room) {
    list->room = list->room ? 2 * list->room : 64;
    list->at = realloc(list->at, list->room * sizeof *list->at);
    if (!list->at) refuse(FAILED, "give a shorter text", "there is no memory for the ids");
  }
  list->at[list->n++] = id;
}

static const uint32_t *numbers_of(bytes section) { return (const uint32_t *)(const void *)section.at; }

/* Element i of a list of texts: its ends are in one section, its bytes in the next one. */
static bytes element(const tokenizer *t, int ends, uint32_t i) {
  const uint32_t *end = numbers_of(t->section[ends]);
  uint32_t first = i ? end[i - 1] : 0;
  return (bytes){t->section[ends + 1].at + first, end[i] - first};
}

static void read_patterns(tokenizer *t) {
  const uint32_t *at = numbers_of(t->section[CLASSES]);
  t->n_classes = *at++;
  t->classes = calloc(t->n_classes + 1, sizeof *t->classes);
  for (uint32_t i = 0; i < t->n_classes; i++) {
    t->classes[i] = (char_class){(const uint32_t(*)[2])(const void *)(at + 1), *at};
    at += 1 + 2 * *at;
  }
  at = numbers_of(t->section[PATTERNS]);
  t->n_patterns = *at++;
  t->patterns = calloc(t->n_patterns + 1, sizeof *t->patterns);
  for (uint32_t i = 0; i < t->n_patterns; i++) {
    t->patterns[i] = (pattern){(const uint32_t(*)[3])(const void *)(at + 1), *at};
    at += 1 + 3 * *at;
  }
}

tokenizer *tokenizer_open(const char *path) {
  static const char fix[] = "write the program again with `met emit`";
  FILE *file = fopen(path, "rb");
  if (!file) return NULL;
  fseek(file, 0, SEEK_END);
  long size = ftell(file);
  rewind(file);
  unsigned char *data = size > 8 ? malloc((size_t)size) : NULL;
  tokenizer *t = calloc(1, sizeof *t);
  if (!t || !data || fread(data, 1, (size_t)size, file) != (size_t)size || memcmp(data, "mettext1", 8)) {
    refuse(WRONG_INPUT, fix, "%s: it is no file of token tables", path);
  }
  fclose(file);
  t->path = path;
  size_t at = 8, end = (size_t)size;
  for (int i = 0; i < N_SECTIONS; i++) {
    uint32_t n = 0;
    if (end - at >= 4) memcpy(&n, data + at, 4);
    if (end - at < 4 || n > end - at - 4) refuse(WRONG_INPUT, fix, "%s: it ends too early", path);
    t->section[i] = (bytes){data + at + 4, n};
    at += 4 + ((size_t)n + 3) / 4 * 4;
    if (at > end) refuse(WRONG_INPUT, fix, "%s: it ends too early", path);
  }
  if (at != end) refuse(WRONG_INPUT, fix, "%s: it has %zu bytes, not %zu", path, end, at);
  t->numbers = numbers_of(t->section[NUMBERS]);
  read_patterns(t);
  return t;
}

bytes tokenizer_piece(const tokenizer *t, int32_t id) {
  if (id < 0 || (uint32_t)id >= t->numbers[N_TOKENS]) return (bytes){(const unsigned char *)"\xef\xbf\xbd", 3};
  return element(t, PIECE_ENDS, (uint32_t)id);
}

int tokenizer_strips_space(const tokenizer *t) { return (t->numbers[FLAGS] & STRIPS_SPACE) != 0; }

/* The ids of one word, which patterns do not cut any further. */
static void put_word(tokenizer *t, bytes word, ids *out) {
  const int32_t *byte_ids = (const int32_t *)(const void *)t->section[BYTE_IDS].at;
  uint32_t flags = t->numbers[FLAGS];
  if (flags & BYTE_LEVEL) {
    size_t first = 0;
    for (size_t i = 0; i <= word.n; i++) { /* a byte without an id has none, and nothing merges across it */
      if (i < word.n && byte_ids[word.at[i]] >= 0) continue;
      words_put_bytes(t->words, (bytes){word.at + first, i - first}, byte_ids, (flags & WHOLE_WORDS) != 0, out);
      first = i + 1;
    }
  } else {
    words_put_characters(t->words, word, byte_ids, (flags & WHOLE_WORDS) != 0, out);
  }
}

/* Cuts characters [first, end) by pattern `which` and those after it. `from[i]` is the first byte of character i. */
static void cut(tokenizer *t, uint32_t which, const uint32_t *text, const size_t *from, bytes part, size_t first,
                size_t end, ids *out) {
  if (first == end) return;
  if (which == t->n_patterns) {
    put_word(t, (bytes){part.at + from[first], from[end] - from[first]}, out);
    return;
  }
  size_t unmatched = first;
  for (size_t at = first; at < end;) {
    ptrdiff_t found = pattern_match(&t->patterns[which], t->classes, text, at, end);
    if (found <= (ptrdiff_t)at) {
      at++;
      continue;
    }
    cut(t, which + 1, text, from, part, unmatched, at, out);
    cut(t, which + 1, text, from, part, at, (size_t)found, out);
    unmatched = at = (size_t)found;
  }
  cut(t, which + 1, text, from, part, unmatched, end, out);
}

/* A part that holds no added token: as the patterns and merges see it. */
static void put_part(tokenizer *t, bytes part, int is_first, ids *out) {
  uint32_t flags = t->numbers[FLAGS];
  bytes before = t->section[PREPENDED];
  if ((flags & ONLY_FIRST) && !is_first) before.n = 0;
  unsigned char *written = malloc(before.n + 3 * part.n + 1);
  uint32_t *text = malloc((before.n + part.n + 1) * sizeof *text);
  size_t *from = malloc((before.n + part.n + 2) * sizeof *from), n = before.n, n_text = 0;
  if (!written || !text || !from) refuse(FAILED, "give a shorter text", "there is no memory for the text");
  memcpy(written, before.at, before.n);
  for (size_t i = 0; i < part.n; i++) {
    if (part.at[i] == ' ' && (flags & SPACES)) {
      memcpy(written + n, "\xe2\x96\x81", 3);
      n += 3;
    } else {
      written[n++] = part.at[i];
    }
  }
  if ((flags & NOT_TWICE) && before.n && n >= 2 * before.n && !memcmp(written + before.n, before.at, before.n)) {
    memmove(written, written + before.n, n -= before.n);
  }
  char_class unstable = {(const uint32_t(*)[2])(const void *)t->section[UNSTABLE].at,
                         (uint32_t)(t->section[UNSTABLE].n / 8)};
  for (size_t i = 0; i < n; n_text++) {
    from[n_text] = i;
    i += utf8_decode(written + i, n - i, &text[n_text]);
    if (in_class(&unstable, text[n_text])) {
      refuse(WRONG_INPUT, "give the text in normal form C without it, or token ids with --ids",
             "the text has the character U+%04X, which this program does not normalize", text[n_text]);
    }
  }
  from[n_text] = n;
  cut(t, 0, text, from, (bytes){written, n}, 0, n_text, out);
  free(written);
  free(text);
  free(from);
}

/* The longest added token of a set at the beginning of the text: its number, or -1. */
static int added_at(const tokenizer *t, bytes text, uint32_t set) {
  const uint32_t(*added)[2] = (const uint32_t(*)[2])(const void *)t->section[ADDED_IDS].at;
  uint32_t n_added = (uint32_t)(t->section[ADDED_IDS].n / 8);
  int found = -1;
  size_t longest = 0;
  for (uint32_t i = 0; i < n_added; i++) {
    bytes token = element(t, ADDED_ENDS, i);
    if (added[i][1] == set && token.n > longest && token.n <= text.n && !memcmp(token.at, text.at, token.n)) {
      found = (int)i;
      longest = token.n;
    }
  }
  return found;
}

/* Finds the added tokens of `set` and then those of the next one in what is left. */
static void put_text(tokenizer *t, bytes text, uint32_t set, int is_first, ids *out) {
  const uint32_t(*added)[2] = (const uint32_t(*)[2])(const void *)t->section[ADDED_IDS].at;
  if (text.n == 0) return;
  if (set == 2) {
    put_part(t, text, is_first, out);
    return;
  }
  unsigned char begins[256] = {0};
  for (uint32_t i = 0; i < t->section[ADDED_IDS].n / 8; i++) begins[element(t, ADDED_ENDS, i).at[0]] = 1;
  size_t first = 0;
  for (size_t at = 0; at < text.n;) {
    int found = begins[text.at[at]] ? added_at(t, (bytes){text.at + at, text.n - at}, set) : -1;
    if (found < 0) {
      at++;
      continue;
    }
    put_text(t, (bytes){text.at + first, at - first}, set + 1, is_first && first == 0, out);
    put_id(out, (int32_t)added[found][0]);
    first = at += element(t, ADDED_ENDS, (uint32_t)found).n;
  }
  put_text(t, (bytes){text.at + first, text.n - first}, set + 1, is_first && first == 0, out);
}

ids tokenizer_prompt(tokenizer *t, bytes text, int as_chat) {
  ids out = {0};
  bytes cannot = t->section[CANNOT], chat = t->section[CHAT_PROBLEM], plain = t->section[PLAIN_PROBLEM];
  size_t valid = utf8_valid(text.at, text.n);
  if (cannot.n) refuse(WRONG_INPUT, FIX_IDS, "%.*s", (int)cannot.n, (const char *)cannot.at);
  if (valid < text.n) refuse(WRONG_INPUT, "give the text as UTF-8", "the text is not Unicode: byte %zu of it", valid);
  if (as_chat && chat.n) refuse(WRONG_INPUT, "give --no-chat or --ids", "%.*s", (int)chat.n, (const char *)chat.at);
  if (!as_chat && plain.n) refuse(WRONG_INPUT, FIX_IDS, "%.*s", (int)plain.n, (const char *)plain.at);
  if (!t->words) {
    bytes merges = t->section[MERGES], ranks = t->section[RANKS];
    t->words = words_new(numbers_of(merges), merges.n / 12, ranks.n ? numbers_of(ranks) : NULL);
    for (uint32_t i = 0; i < t->numbers[N_TOKENS]; i++) words_add(t->words, element(t, TEXT_ENDS, i), (int32_t)i);
  }
  if (!as_chat) {
    if (t->numbers[FLAGS] & ADDS_BOS) put_id(&out, (int32_t)t->numbers[BOS]);
    put_text(t, text, 0, 1, &out);
    return out;
  }
  if (t->numbers[FLAGS] & TRIMS) text.at += utf8_trim(text.at, &text.n);
  bytes prefix = t->section[PREFIX], suffix = t->section[SUFFIX];
  size_t n = prefix.n + text.n + suffix.n;
  unsigned char *whole = malloc(n + 1);
  if (!whole) refuse(FAILED, "give a shorter text", "there is no memory for the text");
  memcpy(whole, prefix.at, prefix.n);
  memcpy(whole + prefix.n, text.at, text.n);
  memcpy(whole + prefix.n + text.n, suffix.at, suffix.n);
  put_text(t, (bytes){whole, n}, 0, 1, &out);
  free(whole);
  return out;
}
