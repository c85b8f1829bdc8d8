#include "crypto/digest.h"

#include <sodium.h>

_Static_assert(sizeof(crypto_generichash_state) <= DIGEST_STATE_BYTES, "the base room reserves enough");
_Static_assert(_Alignof(crypto_generichash_state) <= _Alignof(struct digest_state), "and aligns it");

static crypto_generichash_state *blake2b_state(struct digest_state *state) {
  return (crypto_generichash_state *)(void *)state->opaque;
}

static void blake2b_init(struct digest_state *state) {
  crypto_generichash_init(blake2b_state(state), NULL, 0, DIGEST_BYTES);
}

static void blake2b_add(struct digest_state *state, const void *bytes, size_t n_bytes) {
  if (n_bytes > 0)
    crypto_generichash_update(blake2b_state(state), bytes, n_bytes);
}

static void blake2b_end(struct digest_state *state, struct digest *out_digest) {
  crypto_generichash_final(blake2b_state(state), out_digest->bytes, DIGEST_BYTES);
}

const struct digest_fn digest_blake2b = {.init = blake2b_init, .add = blake2b_add, .end = blake2b_end};
