/* Noise_IK_25519_ChaChaPoly_SHA512 (The Noise Protocol Framework, revision 34): the handshake.
 *
 *   IK:  <- s                the initiator knows the responder's static key
 *        -> e, es, s, ss     message 1
 *        <- e, ee, se        message 2
 *
 *   initiator: new_initiator, write_1, read_2, split, free      responder: new_responder, read_1, write_2, split, free
 *
 * Message 1 can be replayed by anybody who saw it: neither act on its payload nor replace a working session before a frame
 * of the initiator opened under the new keys. Calling out of the order above is a bug (MUST). A read that fails leaves
 * the state as it was, so a forged message cannot end a handshake.
 *
 * Lives in guarded, locked memory. No sockets, no clock; one thread at a time. */
#ifndef CRYPTO_NOISE_H
#define CRYPTO_NOISE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "crypto/identity.h"

enum {
  NOISE_HASH_BYTES = 64,
  NOISE_KEY_BYTES = 32,
  NOISE_OVERHEAD_1 = 32 + 48 + 16, /* message 1 is so much longer than its payload: e, sealed s, tag */
  NOISE_OVERHEAD_2 = 32 + 16,      /* message 2: e, tag */
  MAX_NOISE_BYTES = 65535,         /* of one handshake message */
  MAC1_BYTES = 16,
};

struct noise;

/* One key a direction, and the handshake hash, which is unique to the session (channel binding). */
struct session_keys {
  uint8_t send[NOISE_KEY_BYTES];
  uint8_t receive[NOISE_KEY_BYTES];
  uint8_t hash[NOISE_HASH_BYTES];
};

/* `own` is borrowed and must outlive the handshake (`identity_x25519`). `ephemeral` NULL: a fresh one is drawn; only tests
 * give a known one. The prologue is hashed, equal on both sides, may be empty. ERR_NO_MEMORY. */
MUST_USE enum err noise_new_initiator(const void *prologue, size_t n_prologue, const struct x25519_pair *own,
                                      const uint8_t responder[X25519_BYTES], const struct x25519_pair *ephemeral,
                                      struct noise **out_noise);
MUST_USE enum err noise_new_responder(const void *prologue, size_t n_prologue, const struct x25519_pair *own,
                                      const struct x25519_pair *ephemeral, struct noise **out_noise);

/* Takes NULL. Wipes everything. */
void noise_free(struct noise *n);

/* Writes n_payload + NOISE_OVERHEAD_x bytes to `out_message`, which must not overlap the payload.
 * ERR_HANDSHAKE: the peer's key is of low order; the message is void. */
MUST_USE enum err noise_write_1(struct noise *n, const void *payload, size_t n_payload, uint8_t *out_message);
MUST_USE enum err noise_write_2(struct noise *n, const void *payload, size_t n_payload, uint8_t *out_message);

/* Reads a message; the payload of n_message − NOISE_OVERHEAD_x bytes goes to `out_payload`, which must not overlap the
 * message, and its length to `*out_n_payload`. On failure the contents of `out_payload` are void.
 * ERR_HANDSHAKE: it is not addressed to our key, forged, damaged or too short. ERR_LIMIT: the payload exceeds `capacity`. */
MUST_USE enum err noise_read_1(struct noise *n, const uint8_t *message, size_t n_message, void *out_payload,
                               size_t capacity, size_t *out_n_payload);
MUST_USE enum err noise_read_2(struct noise *n, const uint8_t *message, size_t n_message, void *out_payload,
                               size_t capacity, size_t *out_n_payload);

/* The other side's static key, borrowed. Responder: after read_1, authentic but perhaps replayed. */
const uint8_t *noise_peer_static(const struct noise *n);

/* The keys of the session, once both messages have passed. The caller wipes them (`session_new` takes a copy). */
void noise_split(struct noise *n, struct session_keys *out_keys);

void session_keys_wipe(struct session_keys *keys);

/* The pre-check in front of message 1: BLAKE2b-128 of the bytes, keyed by BLAKE2b-256("starling/v1/mac1" ‖ responder's
 * X25519 key). Whoever does not know our public key costs us no scalar multiplication (WireGuard's mac1). */
void mac1_compute(const uint8_t responder[X25519_BYTES], const void *bytes, size_t n, uint8_t out_mac[MAC1_BYTES]);

/* ERR_MAC. Compares in constant time. */
MUST_USE enum err mac1_check(const uint8_t responder[X25519_BYTES], const void *bytes, size_t n,
                             const uint8_t mac[MAC1_BYTES]);

#endif
