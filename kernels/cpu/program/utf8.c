#include "utf8.h"
#include <string.h>

/* The bytes of the character that begins here; 0 where what is there can still become one; minus the bytes of the
 * longest beginning of a character (at least 1) where it cannot. Source: the Unicode Standard, table 3-7. */
static int character_at(const unsigned char *text, size_t n) {
  unsigned char lead = text[0];
  int length = lead < 0x80 ? 1 : lead < 0xc2 ? -1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : -1;
  if (length < 2) return length;
  for (int i = 1; i < length; i++) {
    if ((size_t)i >= n) return 0;
    unsigned char low = 0x80, high = 0xbf;
    if (i == 1 && lead == 0xe0) low = 0xa0;
    if (i == 1 && lead == 0xed) high = 0x9f;
    if (i == 1 && lead == 0xf0) low = 0x90;
    if (i == 1 && lead == 0xf4) high = 0x8f;
    if (text[i] < low || text[i] > high) return -i;
  }
  return length;
}

size_t utf8_valid(const unsigned char *text, size_t n) {
  size_t at = 0;
  while (at < n) {
    int length = character_at(text + at, n - at);
    if (length <= 0) break;
    at += (size_t)length;
  }
  return at;
}

size_t utf8_decode(const unsigned char *text, size_t n, uint32_t *character) {
  int length = n ? character_at(text, n) : -1;
  if (length <= 1) {
    *character = n ? text[0] : 0;
    return 1;
  }
  *character = text[0] & (0xffu >> (length + 1));
  for (int i = 1; i < length; i++) *character = *character << 6 | (text[i] & 0x3f);
  return (size_t)length;
}

static int is_space(uint32_t c) {
  return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

size_t utf8_trim(const unsigned char *text, size_t *n) {
  size_t first = 0, end = 0;
  int begun = 0;
  for (size_t at = 0; at < *n;) {
    uint32_t character;
    size_t length = utf8_decode(text + at, *n - at, &character);
    if (!is_space(character)) {
      if (!begun) first = at;
      begun = 1;
      end = at + length;
    }
    at += length;
  }
  *n = begun ? end - first : 0;
  return first;
}

size_t utf8_feed(utf8_stream *s, const unsigned char *text, size_t n, int last, unsigned char *out) {
  size_t written = 0;
  for (size_t i = 0; i < n || (last && s->n_held);) {
    if (i < n) s->held[s->n_held++] = text[i++];
    int length = character_at(s->held, s->n_held);
    if (length == 0 && (!last || i < n)) continue;
    if (length > 0) {
      memcpy(out + written, s->held, s->n_held);
      written += s->n_held;
      s->n_held = 0;
      continue;
    }
    size_t wrong = length == 0 ? s->n_held : (size_t)-length; /* the byte after it may begin a character */
    memcpy(out + written, "\xef\xbf\xbd", 3);
    written += 3;
    i -= s->n_held - wrong;
    s->n_held = 0;
  }
  return written;
}
