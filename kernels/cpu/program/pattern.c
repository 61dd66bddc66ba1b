#include "pattern.h"
#include "failure.h"
#include <stdlib.h>

int in_class(const char_class *class, uint32_t character) {
  uint32_t low = 0, high = class->n_ranges;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (class->ranges[middle][1] < character) low = middle + 1;
    else high = middle;
  }
  return low < class->n_ranges && class->ranges[low][0] <= character;
}

/* What is left to try: a step of the program and a place in the text. Grows, and is kept for the next match. */
static struct { uint32_t step; size_t at; } *pending;
static size_t n_pending, n_room;

static void try_later(uint32_t step, size_t at) {
  if (n_pending == n_room) {
    n_room = n_room ? 2 * n_room : 256;
    pending = realloc(pending, n_room * sizeof *pending);
    if (!pending) refuse(FAILED, "give a shorter text", "there is no memory to cut the text into words");
  }
  pending[n_pending].step = step;
  pending[n_pending++].at = at;
}

ptrdiff_t pattern_match(const pattern *p, const char_class *classes, const uint32_t *text, size_t at, size_t end) {
  uint32_t step = 0;
  for (n_pending = 0;;) {
    const uint32_t *now = p->steps[step];
    int goes_on = 1;
    switch (now[0]) {
      case PATTERN_TAKE:
        goes_on = at < end && in_class(&classes[now[1]], text[at]);
        at += (size_t)goes_on;
        step++;
        break;
      case PATTERN_TRY:
        try_later(now[2], at);
        step = now[1];
        break;
      case PATTERN_GO:
        step = now[1];
        break;
      case PATTERN_NONE_NEXT:
        goes_on = at == end || !in_class(&classes[now[1]], text[at]);
        step++;
        break;
      case PATTERN_AT_END:
        goes_on = at == end;
        step++;
        break;
      default:
        return (ptrdiff_t)at;
    }
    if (goes_on) continue;
    if (n_pending == 0) return -1;
    step = pending[--n_pending].step;
    at = pending[n_pending].at;
  }
}
