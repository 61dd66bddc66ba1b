/* A model in memory: its weights, threads, cache and arena; one call for one step. */
#ifndef MET_SESSION_H
#define MET_SESSION_H
#include "runtime.h"

/* How a token is drawn: the most likely one at temperature 0, else by random numbers that (seed, position) address. */
typedef struct draw {
  float temperature, top_p;
  uint64_t seed;
} draw;

typedef struct session session;

/* The bytes of a file of baked weights, checked to be this model's; refuses by name what is not. */
const unsigned char *weights_of(const char *path);

/* Weights that are made up: a function of each word's place alone, the same on every machine. */
const unsigned char *made_up_weights(void);

/* Room for `n_positions` of one sequence, and `n_threads` threads. */
session *session_open(const unsigned char *weights, int n_threads, int n_positions);
void session_close(session *s);

/* The most rows that a step of a mode takes. */
int most_rows(int mode);

/* Runs `n` tokens at positions from `first` on; the last `m` of them get logits. */
void session_step(session *s, int mode, const int32_t *tokens, int n, int first, int m);

/* The same for the token that follows them: the step's rows end with the one it follows. */
int32_t session_next(session *s, int mode, const int32_t *tokens, int n, int first, const draw *how);

/* Prefills a prompt in steps of at most `chunk` rows and gives the token that follows it. */
int32_t session_prefill(session *s, const int32_t *tokens, int n, int chunk, const draw *how);

/* [m, model.n_logits] of the last step. */
const float *session_logits(const session *s);

/* Refuses a processor that lacks what the program was compiled for. */
void check_processor(void);

/* Seconds since some moment. */
double seconds(void);

#endif
