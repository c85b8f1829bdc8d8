#include "crypto/random.h"

#include <sodium.h>

enum err random_open(void) {
  return sodium_init() < 0 ? ERR_IO : ERR_OK;
}

void random_bytes(void *out, size_t n) {
  randombytes_buf(out, n);
}

uint64_t random_u64(void) {
  uint64_t v;
  random_bytes(&v, sizeof v);
  return v;
}
