/* Words to ids by merging: the pair of lowest rank first, the left one of equals. */
#ifndef MET_WORDS_H
#define MET_WORDS_H
#include "tokenizer.h"

typedef struct words words;

/* `merges` are (left id, right id, id of both), in the order of their ranks; or, where `ranks` is given, any two
 * neighbours merge that are a token together, and the rank is that token's. */
words *words_new(const uint32_t *merges, size_t n_merges, const uint32_t *ranks);

/* A token by its text; a token that no word is gets an empty text. */
void words_add(words *w, bytes text, int32_t id);

/* A word whose symbols are bytes. `whole`: a word that is a token is that token. */
void words_put_bytes(words *w, bytes word, const int32_t *byte_ids, int whole, ids *out);

/* A word whose symbols are characters; one that is no token becomes its bytes (before merging where there is a list
 * of merges, else after it). */
void words_put_characters(words *w, bytes word, const int32_t *byte_ids, int whole, ids *out);

#endif
