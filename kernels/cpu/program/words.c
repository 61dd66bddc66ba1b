#include "words.h"
#include "failure.h"
#include "utf8.h"
#include <stdlib.h>
#include <string.h>

/* A symbol of the word: `n` bytes, none where another one took it in; `id` of -1 where its text is no token. */
typedef struct symbol { int32_t id, before, after; const unsigned char *at; size_t n; } symbol;

/* Two neighbours that could merge: the rank, the left one, and what they become. */
typedef struct offer { uint32_t rank; int32_t left, id; } offer;
typedef struct slot { uint64_t key; uint32_t rank; int32_t id; } slot;
typedef struct token { bytes text; int32_t id; } token;

struct words {
  slot *pairs; /* by (left id, right id), open addressing; an id of -1 is free */
  size_t n_pairs;
  token *tokens; /* by text, open addressing; a text of no bytes is free */
  size_t n_tokens, n_used;
  const uint32_t *ranks;
  symbol *symbols;
  offer *heap;
  size_t n_symbols, symbol_room, n_heap, heap_room;
};

static void *grown(void *array, size_t *room, size_t needed, size_t size) {
  if (needed <= *room) return array;
  *room = needed + needed / 2 + 64;
  array = realloc(array, *room * size);
  if (!array) refuse(FAILED, "give a shorter text", "there is no memory for the words of the text");
  return array;
}

static uint64_t mixed(uint64_t x) {
  x *= 0x9e3779b97f4a7c15u;
  return x ^ x >> 32;
}

static slot *pair_at(const words *w, uint64_t key) {
  size_t at = mixed(key) & (w->n_pairs - 1);
  while (w->pairs[at].id >= 0 && w->pairs[at].key != key) at = (at + 1) & (w->n_pairs - 1);
  return &w->pairs[at];
}

words *words_new(const uint32_t *merges, size_t n_merges, const uint32_t *ranks) {
  words *w = calloc(1, sizeof *w);
  size_t n = 16;
  while (n < 2 * n_merges) n *= 2;
  if (!w || !(w->pairs = malloc(n * sizeof *w->pairs))) refuse(FAILED, "end other programs", "there is no memory");
  w->n_pairs = n;
  w->ranks = ranks;
  for (size_t i = 0; i < n; i++) w->pairs[i].id = -1;
  for (size_t i = 0; i < n_merges; i++) {
    uint64_t key = (uint64_t)merges[3 * i] << 32 | merges[3 * i + 1];
    slot *free_slot = pair_at(w, key);
    if (free_slot->id < 0) *free_slot = (slot){key, (uint32_t)i, (int32_t)merges[3 * i + 2]};
  }
  return w;
}

static token *token_at(const words *w, const unsigned char *text, size_t n) {
  uint64_t hash = n;
  for (size_t i = 0; i < n; i++) hash = mixed(hash ^ text[i]);
  size_t at = hash & (w->n_tokens - 1);
  while (w->tokens[at].text.n && (w->tokens[at].text.n != n || memcmp(w->tokens[at].text.at, text, n))) {
    at = (at + 1) & (w->n_tokens - 1);
  }
  return &w->tokens[at];
}

void words_add(words *w, bytes text, int32_t id) {
  if (text.n == 0) return;
  if (2 * (w->n_used + 1) > w->n_tokens) {
    token *old = w->tokens;
    size_t n_old = w->n_tokens;
    w->n_tokens = n_old ? 2 * n_old : 1024;
    w->tokens = calloc(w->n_tokens, sizeof *w->tokens);
    if (!w->tokens) refuse(FAILED, "end other programs", "there is no memory for the vocabulary");
    for (size_t i = 0; i < n_old; i++) {
      if (old[i].text.n) *token_at(w, old[i].text.at, old[i].text.n) = old[i];
    }
    free(old);
  }
  token *place = token_at(w, text.at, text.n);
  if (place->text.n == 0) {
    *place = (token){text, id};
    w->n_used++;
  }
}

static int32_t id_of(const words *w, const unsigned char *text, size_t n) {
  if (!w->n_tokens || n == 0) return -1;
  const token *found = token_at(w, text, n);
  return found->text.n ? found->id : -1;
}

static int merged(const words *w, const symbol *left, const symbol *right, offer *found) {
  if (w->ranks) {
    found->id = id_of(w, left->at, left->n + right->n); /* neighbours lie side by side */
    if (found->id >= 0) found->rank = w->ranks[found->id];
    return found->id >= 0;
  }
  const slot *pair = pair_at(w, (uint64_t)(uint32_t)left->id << 32 | (uint32_t)right->id);
  if (pair->id < 0) return 0;
  found->rank = pair->rank;
  found->id = pair->id;
  return 1;
}

static int comes_first(offer a, offer b) { return a.rank < b.rank || (a.rank == b.rank && a.left < b.left); }

static void make_offer(words *w, int32_t left) {
  offer made = {0, left, -1};
  if (left < 0 || w->symbols[left].after < 0) return;
  if (!merged(w, &w->symbols[left], &w->symbols[w->symbols[left].after], &made)) return;
  w->heap = grown(w->heap, &w->heap_room, w->n_heap + 1, sizeof *w->heap);
  size_t at = w->n_heap++;
  for (; at > 0 && comes_first(made, w->heap[(at - 1) / 2]); at = (at - 1) / 2) w->heap[at] = w->heap[(at - 1) / 2];
  w->heap[at] = made;
}

static offer best_offer(words *w) {
  offer best = w->heap[0], last = w->heap[--w->n_heap];
  size_t at = 0;
  for (size_t child; (child = 2 * at + 1) < w->n_heap; at = child) {
    if (child + 1 < w->n_heap && comes_first(w->heap[child + 1], w->heap[child])) child++;
    if (!comes_first(w->heap[child], last)) break;
    w->heap[at] = w->heap[child];
  }
  w->heap[at] = last;
  return best;
}

static void add_symbol(words *w, int32_t id, const unsigned char *at, size_t n) {
  w->symbols = grown(w->symbols, &w->symbol_room, w->n_symbols + 1, sizeof *w->symbols);
  int32_t place = (int32_t)w->n_symbols++;
  w->symbols[place] = (symbol){id, place - 1, -1, at, n};
  if (place) w->symbols[place - 1].after = place;
}

static void merge_all(words *w) {
  w->n_heap = 0;
  for (size_t i = 0; i + 1 < w->n_symbols; i++) make_offer(w, (int32_t)i);
  while (w->n_heap) {
    offer best = best_offer(w), now = {0, 0, -1};
    symbol *left = &w->symbols[best.left];
    if (left->n == 0 || left->after < 0) continue;
    symbol *right = &w->symbols[left->after];
    if (!merged(w, left, right, &now) || now.id != best.id) continue; /* one side has merged with another since */
    left->id = best.id;
    left->n += right->n;
    left->after = right->after;
    right->n = 0;
    if (left->after >= 0) w->symbols[left->after].before = best.left;
    make_offer(w, left->before);
    make_offer(w, best.left);
  }
}

void words_put_bytes(words *w, bytes word, const int32_t *byte_ids, int whole, ids *out) {
  if (word.n == 0) return;
  int32_t id = whole ? id_of(w, word.at, word.n) : -1;
  if (id >= 0) {
    put_id(out, id);
    return;
  }
  w->n_symbols = 0;
  for (size_t i = 0; i < word.n; i++) add_symbol(w, byte_ids[word.at[i]], word.at + i, 1);
  merge_all(w);
  for (size_t i = 0; i < w->n_symbols; i++) {
    if (w->symbols[i].n) put_id(out, w->symbols[i].id);
  }
}

void words_put_characters(words *w, bytes word, const int32_t *byte_ids, int whole, ids *out) {
  int32_t id = whole ? id_of(w, word.at, word.n) : -1;
  if (id >= 0) {
    put_id(out, id);
    return;
  }
  w->n_symbols = 0;
  for (size_t i = 0, n; i < word.n; i += n) {
    uint32_t character;
    n = utf8_decode(word.at + i, word.n - i, &character);
    id = id_of(w, word.at + i, n);
    if (id >= 0 || w->ranks) {
      add_symbol(w, id, word.at + i, n);
    } else {
      for (size_t b = 0; b < n; b++) add_symbol(w, byte_ids[word.at[i + b]], word.at + i + b, 1);
    }
  }
  merge_all(w);
  for (size_t i = 0; i < w->n_symbols; i++) {
    const symbol *s = &w->symbols[i];
    if (s->n && s->id >= 0) put_id(out, s->id);
    for (size_t b = 0; s->id < 0 && b < s->n; b++) put_id(out, byte_ids[s->at[b]]);
  }
}
