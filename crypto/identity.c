#include "crypto/identity.h"

#include <sodium.h>
#include <string.h>

#include "base/bytes.h"
#include "base/must.h"

struct identity {
  struct identity_key public_key;
  uint8_t secret[crypto_sign_SECRETKEYBYTES]; /* seed ‖ public key */
  struct x25519_pair x25519;
};

enum err identity_from_seed(const uint8_t seed[IDENTITY_SEED_BYTES], struct identity **out_identity) {
  struct identity *id = sodium_malloc(sizeof *id);
  if (!id)
    return ERR_NO_MEMORY;
  crypto_sign_seed_keypair(id->public_key.bytes, id->secret, seed);
  crypto_sign_ed25519_sk_to_curve25519(id->x25519.secret, id->secret);
  crypto_scalarmult_base(id->x25519.public_key, id->x25519.secret);
  MUST(sodium_mprotect_readonly(id) == 0);
  *out_identity = id;
  return ERR_OK;
}

enum err identity_new(struct identity **out_identity) {
  uint8_t seed[IDENTITY_SEED_BYTES];
  randombytes_buf(seed, sizeof seed);
  enum err e = identity_from_seed(seed, out_identity);
  sodium_memzero(seed, sizeof seed);
  return e;
}

void identity_free(struct identity *id) {
  sodium_free(id);
}

const struct identity_key *identity_public(const struct identity *id) {
  return &id->public_key;
}

void identity_seed(const struct identity *id, uint8_t out_seed[IDENTITY_SEED_BYTES]) {
  crypto_sign_ed25519_sk_to_seed(out_seed, id->secret);
}

const struct x25519_pair *identity_x25519(const struct identity *id) {
  return &id->x25519;
}

int identity_key_compare(const struct identity_key *a, const struct identity_key *b) {
  return memcmp(a->bytes, b->bytes, sizeof a->bytes);
}

bool identity_key_equal(const struct identity_key *a, const struct identity_key *b) {
  return identity_key_compare(a, b) == 0;
}

enum err identity_key_check(const struct identity_key *key) {
  uint8_t converted[X25519_BYTES];
  return identity_key_x25519(key, converted);
}

enum err identity_key_x25519(const struct identity_key *key, uint8_t out_public[X25519_BYTES]) {
  uint8_t converted[X25519_BYTES];
  if (crypto_sign_ed25519_pk_to_curve25519(converted, key->bytes) != 0)
    return ERR_RANGE;
  memcpy(out_public, converted, sizeof converted);
  return ERR_OK;
}

static size_t signed_bytes(const char *domain, const void *bytes, size_t n, uint8_t out[MAX_SIGNED_BYTES]) {
  struct writer w;
  writer_init(&w, out, MAX_SIGNED_BYTES);
  writer_bytes(&w, domain, strlen(domain) + 1);
  writer_bytes(&w, bytes, n);
  MUST(writer_end(&w) == ERR_OK);
  return w.n_bytes;
}

void identity_sign(const struct identity *id, const char *domain, const void *bytes, size_t n,
                   struct signature *out_signature) {
  uint8_t message[MAX_SIGNED_BYTES];
  size_t n_message = signed_bytes(domain, bytes, n, message);
  crypto_sign_detached(out_signature->bytes, NULL, message, n_message, id->secret);
}

enum err signature_verify(const struct identity_key *key, const char *domain, const void *bytes, size_t n,
                          const struct signature *signature) {
  uint8_t message[MAX_SIGNED_BYTES];
  size_t n_message = signed_bytes(domain, bytes, n, message);
  int rc = crypto_sign_verify_detached(signature->bytes, message, n_message, key->bytes);
  return rc == 0 ? ERR_OK : ERR_SIGNATURE;
}

void x25519_pair_from_secret(const uint8_t secret[X25519_BYTES], struct x25519_pair *out_pair) {
  memcpy(out_pair->secret, secret, X25519_BYTES);
  MUST(crypto_scalarmult_base(out_pair->public_key, out_pair->secret) == 0);
}

void x25519_pair_new(struct x25519_pair *out_pair) {
  uint8_t secret[X25519_BYTES];
  randombytes_buf(secret, sizeof secret);
  x25519_pair_from_secret(secret, out_pair);
  sodium_memzero(secret, sizeof secret);
}

void x25519_pair_wipe(struct x25519_pair *pair) {
  sodium_memzero(pair, sizeof *pair);
}
