/* Bytes that this agent keeps for itself, sealed under a key that follows from its identity, so that whoever takes the disk but not
 * the key file learns nothing of them but their length.
 *
 *   key    BLAKE2b-256("starling/v1/at-rest" ‖ 0 ‖ seed ‖ purpose)
 *   salt   BLAKE2b-256(key ‖ 1 ‖ plain)
 *   sealed salt 32 ‖ ChaCha20-Poly1305 under BLAKE2b-256(key ‖ 2 ‖ salt), counter 0, with the tag
 *
 * The salt follows from what is sealed (as in SIV, Rogaway & Shrimpton 2006), so that equal bytes are sealed to equal ones, a repeated
 * round writes the same file, and no counter has to be kept. Pure; any thread. */
#ifndef CRYPTO_AT_REST_H
#define CRYPTO_AT_REST_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "crypto/aead.h"
#include "crypto/identity.h"

enum { AT_REST_SALT_BYTES = 32, AT_REST_MORE_BYTES = AT_REST_SALT_BYTES + AEAD_TAG_BYTES };

struct at_rest_key {
  uint8_t bytes[AEAD_KEY_BYTES];
};

/* `purpose`: what is sealed, unique in the program. The caller wipes it. */
void at_rest_key_of(const struct identity *id, const char *purpose, struct at_rest_key *out_key);
void at_rest_key_wipe(struct at_rest_key *key);

/* Writes n + AT_REST_MORE_BYTES. */
void at_rest_seal(const struct at_rest_key *key, const void *plain, size_t n, uint8_t *out_sealed);

/* Writes n_sealed − AT_REST_MORE_BYTES. ERR_SEAL: too short, damaged, or sealed by another identity; the output is void. */
MUST_USE enum err at_rest_open(const struct at_rest_key *key, const uint8_t *sealed, size_t n_sealed, void *out_plain);

#endif
