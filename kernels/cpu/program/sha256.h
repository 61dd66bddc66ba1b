/* SHA-256, for the hash of logits. Source: FIPS 180-4. */
#ifndef MET_SHA256_H
#define MET_SHA256_H
#include <stddef.h>
#include <stdint.h>

typedef struct sha256 {
  uint32_t state[8];
  unsigned char block[64];
  uint64_t n_bytes;
} sha256;

void sha256_begin(sha256 *h);
void sha256_add(sha256 *h, const void *data, size_t n_bytes);

/* Ends the hash; `hex` gets 64 digits and a zero byte. */
void sha256_end(sha256 *h, char hex[65]);

#endif
