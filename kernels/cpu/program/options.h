/* The command line of the program. */
#ifndef MET_OPTIONS_H
#define MET_OPTIONS_H
#include "session.h"
#include "tokenizer.h"

typedef struct options {
  const char *prompt, *weights; /* NULL where not given */
  ids given;                    /* --ids */
  int n, threads, chunk;        /* 0 where not given */
  int no_chat, fill, print_ids, encode, logits_hash;
  draw how;
} options;

/* Reads the command line; refuses by name what it does not know. */
options options_of(int argc, char **argv);

/* The path of a file beside the program. */
char *beside(const char *program, const char *name);

#endif
