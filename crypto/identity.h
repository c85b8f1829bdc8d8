/* Who an agent is: one Ed25519 key pair (RFC 8032). Its X25519 form is the agent's static key in the Noise handshake,
 * so that one string a peer stands in the config.
 *
 * The secret half lives in guarded, locked, read-only memory from creation to `identity_free`, which wipes it. Nothing
 * here keeps state of its own: any thread, one owner an identity. */
#ifndef CRYPTO_IDENTITY_H
#define CRYPTO_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum {
  IDENTITY_SEED_BYTES = 32,
  X25519_BYTES = 32,
  SIGNATURE_BYTES = 64,
  MAX_SIGNED_BYTES = 4096, /* domain, its NUL and the signed bytes together */
};

/* An Ed25519 public key: the name that counts. Order is that of the bytes, equal on every host. */
struct identity_key {
  uint8_t bytes[32];
};

struct signature {
  uint8_t bytes[SIGNATURE_BYTES];
};

/* A Diffie–Hellman key pair on Curve25519 (RFC 7748). Wipe it with `x25519_pair_wipe`. */
struct x25519_pair {
  uint8_t secret[X25519_BYTES];
  uint8_t public_key[X25519_BYTES];
};

struct identity;

/* A fresh pair, or the pair of a seed. The caller frees it. ERR_NO_MEMORY. */
MUST_USE enum err identity_new(struct identity **out_identity);
MUST_USE enum err identity_from_seed(const uint8_t seed[IDENTITY_SEED_BYTES], struct identity **out_identity);

/* Takes NULL. Wipes the secret. */
void identity_free(struct identity *id);

/* Borrowed from the identity. */
const struct identity_key *identity_public(const struct identity *id);

/* The seed, for the key file only; the caller wipes it. */
void identity_seed(const struct identity *id, uint8_t out_seed[IDENTITY_SEED_BYTES]);

/* The pair's X25519 form, the Noise static key; borrowed, in the identity's guarded memory. */
const struct x25519_pair *identity_x25519(const struct identity *id);

int identity_key_compare(const struct identity_key *a, const struct identity_key *b);
bool identity_key_equal(const struct identity_key *a, const struct identity_key *b);

/* A key that somebody gives us is checked once, when it is accepted: it must be a point of the prime-order group, else
 * ERR_RANGE (a point of low or mixed order, or no point). */
MUST_USE enum err identity_key_check(const struct identity_key *key);

/* The X25519 form of a peer's key. ERR_RANGE as `identity_key_check`. */
MUST_USE enum err identity_key_x25519(const struct identity_key *key, uint8_t out_public[X25519_BYTES]);

/* Signs domain ‖ 0 ‖ bytes with pure Ed25519. The domain is the kind of object, "starling/v1/…", unique in the program,
 * so that a signature on one kind never stands for another. strlen(domain) + 1 + n ≤ MAX_SIGNED_BYTES. */
void identity_sign(const struct identity *id, const char *domain, const void *bytes, size_t n,
                   struct signature *out_signature);

/* ERR_SIGNATURE: not signed by this key, in this domain, over these bytes. */
MUST_USE enum err signature_verify(const struct identity_key *key, const char *domain, const void *bytes, size_t n,
                                   const struct signature *signature);

/* A fresh ephemeral pair, and the pair of a given secret. */
void x25519_pair_new(struct x25519_pair *out_pair);
void x25519_pair_from_secret(const uint8_t secret[X25519_BYTES], struct x25519_pair *out_pair);
void x25519_pair_wipe(struct x25519_pair *pair);

#endif
