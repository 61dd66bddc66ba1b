/* What a driver must know of the model: model.c, written with the kernels. */
#ifndef MET_MODEL_H
#define MET_MODEL_H
#include <stddef.h>
#include <stdint.h>

enum { MODEL_PREFILL, MODEL_DECODE, MODEL_PAGE = 64 };
#define MODEL_NOWHERE ((size_t)-1)

/* One plan: the rows that a step of it takes, and where in the arena it leaves what. */
typedef struct model_plan {
  int mode, first, last;
  size_t logits, token, sampled; /* of the rows that get logits; MODEL_NOWHERE where the model has none */
} model_plan;

typedef struct model_state {
  size_t page_bytes;
  int max_pages;
} model_state;

/* One baked tensor. Word i of it is made up as (random & masks[u][0]) | masks[u][1] with u = i / lanes % unit. */
typedef struct model_weight {
  size_t offset, n_words;
  uint32_t lanes, unit;
  const uint32_t (*masks)[2];
} model_weight;

typedef struct model_info {
  const char *name, *manifest; /* the manifest's digest, in hex */
  int has_weights;             /* whether a file of weights was written beside the program */
  int context, table_width;
  int n_tokens, n_logits; /* ids that the model takes; columns of its logits */
  size_t arena_bytes, weight_bytes;
  int n_plans, n_states, n_weights, n_stops;
  const model_plan *plans;
  const model_state *states;
  const model_weight *weights;
  const int32_t *stops; /* ids that end a text */
} model_info;

extern const model_info model;

#endif
