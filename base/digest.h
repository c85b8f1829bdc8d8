/* Hashing as a value that is passed in, so that rooms which may not know the crypto library can hash.
 *
 * A `struct digest_fn` is a streaming 256-bit hash; the crypto room has those of the program. The state lives in the
 * caller's storage. Pure; any thread. */
#ifndef BASE_DIGEST_H
#define BASE_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { DIGEST_BYTES = 32, DIGEST_TEXT_BYTES = 2 * DIGEST_BYTES + 1, DIGEST_STATE_BYTES = 1024 };

struct digest {
  uint8_t bytes[DIGEST_BYTES];
};

struct digest_state {
  _Alignas(64) uint8_t opaque[DIGEST_STATE_BYTES];
};

struct digest_fn {
  void (*init)(struct digest_state *state);
  void (*add)(struct digest_state *state, const void *bytes, size_t n_bytes);
  void (*end)(struct digest_state *state, struct digest *out_digest);
  void (*whole)(const void *bytes, size_t n_bytes,
                struct digest *out_digest); /* the same at one go, faster; NULL: none */
  const struct digest_fn *before;           /* what named lasting things before this one did, NULL: nothing */
};

static inline struct digest digest_of(const struct digest_fn *fn, const void *bytes, size_t n_bytes) {
  struct digest_state state;
  struct digest result;
  if (fn->whole != NULL) {
    fn->whole(bytes, n_bytes, &result);
    return result;
  }
  fn->init(&state);
  fn->add(&state, bytes, n_bytes);
  fn->end(&state, &result);
  return result;
}

static inline bool digest_equal(const struct digest *a, const struct digest *b) {
  return memcmp(a->bytes, b->bytes, DIGEST_BYTES) == 0;
}

static inline bool digest_is_zero(const struct digest *d) {
  static const struct digest zero;
  return digest_equal(d, &zero);
}

/* In hexadecimal, small letters. */
static inline void digest_hex(const struct digest *d, char out_text[DIGEST_TEXT_BYTES]) {
  static const char digits[] = "0123456789abcdef";
  for (size_t i = 0; i < DIGEST_BYTES; i++) {
    out_text[2 * i] = digits[d->bytes[i] >> 4];
    out_text[2 * i + 1] = digits[d->bytes[i] & 15];
  }
  out_text[DIGEST_TEXT_BYTES - 1] = '\0';
}

#endif
