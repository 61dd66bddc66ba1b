/* From text to token ids and back, by the tables of tokenizer.bin. */
#ifndef MET_TOKENIZER_H
#define MET_TOKENIZER_H
#include <stddef.h>
#include <stdint.h>

typedef struct tokenizer tokenizer;
typedef struct bytes {
  const unsigned char *at;
  size_t n;
} bytes;

/* Ids that grow as they are put in. */
typedef struct ids {
  int32_t *at;
  size_t n, room;
} ids;
void put_id(ids *list, int32_t id);

/* NULL where there is no such file; a file that is not whole is refused. */
tokenizer *tokenizer_open(const char *path);

/* The ids of a prompt: as a message to the model where `as_chat`, else as the beginning of a text. */
ids tokenizer_prompt(tokenizer *t, bytes text, int as_chat);

/* What an id stands for in a text; U+FFFD for an id without a token. */
bytes tokenizer_piece(const tokenizer *t, int32_t id);

/* Whether a text of its own drops the space that it begins with. */
int tokenizer_strips_space(const tokenizer *t);

#endif
