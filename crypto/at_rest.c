#include "crypto/at_rest.h"

#include <sodium.h>
#include <string.h>

#include "crypto/digest.h"

/* BLAKE2b-256(key ‖ number ‖ bytes) */
static void derive(const struct at_rest_key *key, uint8_t number, const void *bytes, size_t n,
                   uint8_t out[DIGEST_BYTES]) {
  struct digest_state state;
  struct digest made;
  digest_blake2b.init(&state);
  digest_blake2b.add(&state, key->bytes, sizeof key->bytes);
  digest_blake2b.add(&state, &number, 1);
  digest_blake2b.add(&state, bytes, n);
  digest_blake2b.end(&state, &made);
  memcpy(out, made.bytes, DIGEST_BYTES);
  sodium_memzero(&state, sizeof state);
  sodium_memzero(&made, sizeof made);
}

void at_rest_key_of(const struct identity *id, const char *purpose, struct at_rest_key *out_key) {
  static const char domain[] = "starling/v1/at-rest";
  uint8_t seed[IDENTITY_SEED_BYTES];
  struct digest_state state;
  struct digest made;
  identity_seed(id, seed);
  digest_blake2b.init(&state);
  digest_blake2b.add(&state, domain, sizeof domain); /* with its NUL */
  digest_blake2b.add(&state, seed, sizeof seed);
  digest_blake2b.add(&state, purpose, strlen(purpose));
  digest_blake2b.end(&state, &made);
  memcpy(out_key->bytes, made.bytes, sizeof out_key->bytes);
  sodium_memzero(seed, sizeof seed);
  sodium_memzero(&state, sizeof state);
  sodium_memzero(&made, sizeof made);
}

void at_rest_key_wipe(struct at_rest_key *key) {
  sodium_memzero(key, sizeof *key);
}

void at_rest_seal(const struct at_rest_key *key, const void *plain, size_t n, uint8_t *out_sealed) {
  uint8_t once[DIGEST_BYTES];
  derive(key, 1, plain, n, out_sealed);
  derive(key, 2, out_sealed, AT_REST_SALT_BYTES, once);
  aead_seal(once, 0, NULL, 0, plain, n, out_sealed + AT_REST_SALT_BYTES);
  sodium_memzero(once, sizeof once);
}

enum err at_rest_open(const struct at_rest_key *key, const uint8_t *sealed, size_t n_sealed, void *out_plain) {
  uint8_t once[DIGEST_BYTES];
  if (n_sealed < AT_REST_MORE_BYTES)
    return ERR_SEAL;
  derive(key, 2, sealed, AT_REST_SALT_BYTES, once);
  enum err e = aead_open(once, 0, NULL, 0, sealed + AT_REST_SALT_BYTES, n_sealed - AT_REST_SALT_BYTES, out_plain);
  sodium_memzero(once, sizeof once);
  return e;
}
