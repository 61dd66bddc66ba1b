/* UTF-8: bytes to characters, and text that comes in pieces. */
#ifndef MET_UTF8_H
#define MET_UTF8_H
#include <stddef.h>
#include <stdint.h>

/* The bytes of a valid text before the first that is not, at most `n`. */
size_t utf8_valid(const unsigned char *text, size_t n);

/* The first character of a valid text, and its number of bytes. */
size_t utf8_decode(const unsigned char *text, size_t n, uint32_t *character);

/* Leaves white space out on both sides, in the sense of Python's str.strip: shortens `n`, gives the bytes to skip. */
size_t utf8_trim(const unsigned char *text, size_t *n);

/* Bytes of a character that is not whole yet. */
typedef struct utf8_stream {
  unsigned char held[4];
  size_t n_held;
} utf8_stream;

/* Writes what is whole to `out` (room for 3 * (n + 4) bytes), U+FFFD for what is no character; gives its bytes.
 * With `last`, what is held ends there. */
size_t utf8_feed(utf8_stream *s, const unsigned char *text, size_t n, int last, unsigned char *out);

#endif
