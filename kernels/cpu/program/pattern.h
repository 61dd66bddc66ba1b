/* Patterns that cut a text into words: small programs over classes of characters. */
#ifndef MET_PATTERN_H
#define MET_PATTERN_H
#include <stddef.h>
#include <stdint.h>

/* Characters as sorted ranges, both ends inclusive. */
typedef struct char_class {
  const uint32_t (*ranges)[2];
  uint32_t n_ranges;
} char_class;

/* TAKE a character of class a; TRY to go on at a, then at b; GO to a; NONE_NEXT: no character of class a follows;
 * AT_END: none at all. */
enum { PATTERN_TAKE, PATTERN_TRY, PATTERN_GO, PATTERN_NONE_NEXT, PATTERN_AT_END, PATTERN_FOUND };
typedef struct pattern {
  const uint32_t (*steps)[3]; /* what, a, b */
  uint32_t n_steps;
} pattern;

int in_class(const char_class *class, uint32_t character);

/* The end of the match at `at` of the text [at, end), the first that the order of the alternatives gives, or -1. */
ptrdiff_t pattern_match(const pattern *p, const char_class *classes, const uint32_t *text, size_t at, size_t end);

#endif
