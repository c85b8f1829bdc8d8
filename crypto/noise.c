#include "crypto/noise.h"

#include <sodium.h>
#include <stdbool.h>
#include <string.h>

#include "base/must.h"
#include "crypto/aead.h"
#include "crypto/digest.h"

/* h, ck, k and n of the specification, section 5. */
struct noise_symmetric {
  uint8_t hash[NOISE_HASH_BYTES];
  uint8_t chaining_key[NOISE_HASH_BYTES];
  uint8_t key[NOISE_KEY_BYTES];
  uint64_t nonce;
};

enum noise_step { WRITE_1, READ_1, WRITE_2, READ_2, SPLIT, ENDED };

struct noise {
  struct noise_symmetric symmetric;
  const struct x25519_pair *own;
  struct x25519_pair ephemeral;
  uint8_t peer_static[X25519_BYTES];
  uint8_t peer_ephemeral[X25519_BYTES]; /* responder only */
  enum noise_step step;
  bool is_initiator;
};

static const char protocol_name[] = "Noise_IK_25519_ChaChaPoly_SHA512";

_Static_assert(sizeof protocol_name - 1 <= NOISE_HASH_BYTES, "a short name is padded, not hashed");
_Static_assert(NOISE_HASH_BYTES == crypto_auth_hmacsha512_BYTES, "HKDF works on whole hashes");

/* ---- the symmetric state: section 5.2, for a handshake in which nothing is sealed before the first MixKey ---- */

static void mix_hash(struct noise_symmetric *s, const void *bytes, size_t n) {
  crypto_hash_sha512_state state;
  crypto_hash_sha512_init(&state);
  crypto_hash_sha512_update(&state, s->hash, sizeof s->hash);
  crypto_hash_sha512_update(&state, bytes, n);
  crypto_hash_sha512_final(&state, s->hash);
}

static void symmetric_init(struct noise_symmetric *s, const void *prologue, size_t n_prologue,
                           const uint8_t responder_static[X25519_BYTES]) {
  *s = (struct noise_symmetric){0};
  memcpy(s->hash, protocol_name, sizeof protocol_name - 1);
  memcpy(s->chaining_key, s->hash, sizeof s->hash);
  mix_hash(s, prologue, n_prologue);
  mix_hash(s, responder_static, X25519_BYTES);
}

/* HMAC-SHA512 under `key` of bytes ‖ tag; tag 0: of the bytes alone. */
static void hmac(const uint8_t key[NOISE_HASH_BYTES], const void *bytes, size_t n, uint8_t tag,
                 uint8_t out[NOISE_HASH_BYTES]) {
  crypto_auth_hmacsha512_state state;
  crypto_auth_hmacsha512_init(&state, key, NOISE_HASH_BYTES);
  crypto_auth_hmacsha512_update(&state, bytes, n);
  if (tag != 0)
    crypto_auth_hmacsha512_update(&state, &tag, 1);
  crypto_auth_hmacsha512_final(&state, out);
  sodium_memzero(&state, sizeof state);
}

/* HKDF with two outputs, section 4.3. `out_1` may be `chaining_key`. */
static void hkdf(const uint8_t chaining_key[NOISE_HASH_BYTES], const void *input, size_t n,
                 uint8_t out_1[NOISE_HASH_BYTES], uint8_t out_2[NOISE_HASH_BYTES]) {
  uint8_t temporary[NOISE_HASH_BYTES];
  hmac(chaining_key, input, n, 0, temporary);
  hmac(temporary, NULL, 0, 1, out_1);
  hmac(temporary, out_1, NOISE_HASH_BYTES, 2, out_2);
  sodium_memzero(temporary, sizeof temporary);
}

/* MixKey(DH(secret, peer)). ERR_HANDSHAKE: the shared point is zero. */
static enum err mix_dh(struct noise_symmetric *s, const struct x25519_pair *own, const uint8_t peer[X25519_BYTES]) {
  uint8_t shared[X25519_BYTES], output[NOISE_HASH_BYTES];
  if (crypto_scalarmult(shared, own->secret, peer) != 0)
    return ERR_HANDSHAKE;
  hkdf(s->chaining_key, shared, sizeof shared, s->chaining_key, output);
  memcpy(s->key, output, sizeof s->key);
  s->nonce = 0;
  sodium_memzero(shared, sizeof shared);
  sodium_memzero(output, sizeof output);
  return ERR_OK;
}

static void seal_and_hash(struct noise_symmetric *s, const void *plain, size_t n, uint8_t *out_sealed) {
  aead_seal(s->key, s->nonce++, s->hash, sizeof s->hash, plain, n, out_sealed);
  mix_hash(s, out_sealed, n + AEAD_TAG_BYTES);
}

static enum err open_and_hash(struct noise_symmetric *s, const uint8_t *sealed, size_t n_sealed, void *out_plain) {
  if (aead_open(s->key, s->nonce++, s->hash, sizeof s->hash, sealed, n_sealed, out_plain) != ERR_OK)
    return ERR_HANDSHAKE;
  mix_hash(s, sealed, n_sealed);
  return ERR_OK;
}

/* ---- the handshake ---- */

static struct noise *noise_new(enum noise_step first, const struct x25519_pair *own,
                               const struct x25519_pair *ephemeral) {
  struct noise *n = sodium_malloc(sizeof *n);
  if (!n)
    return NULL;
  *n = (struct noise){.own = own, .step = first, .is_initiator = first == WRITE_1};
  if (ephemeral)
    n->ephemeral = *ephemeral;
  else
    x25519_pair_new(&n->ephemeral);
  return n;
}

enum err noise_new_initiator(const void *prologue, size_t n_prologue, const struct x25519_pair *own,
                             const uint8_t responder[X25519_BYTES], const struct x25519_pair *ephemeral,
                             struct noise **out_noise) {
  struct noise *n = noise_new(WRITE_1, own, ephemeral);
  if (!n)
    return ERR_NO_MEMORY;
  memcpy(n->peer_static, responder, X25519_BYTES);
  symmetric_init(&n->symmetric, prologue, n_prologue, responder);
  *out_noise = n;
  return ERR_OK;
}

enum err noise_new_responder(const void *prologue, size_t n_prologue, const struct x25519_pair *own,
                             const struct x25519_pair *ephemeral, struct noise **out_noise) {
  struct noise *n = noise_new(READ_1, own, ephemeral);
  if (!n)
    return ERR_NO_MEMORY;
  symmetric_init(&n->symmetric, prologue, n_prologue, own->public_key);
  *out_noise = n;
  return ERR_OK;
}

void noise_free(struct noise *n) {
  sodium_free(n);
}

const uint8_t *noise_peer_static(const struct noise *n) {
  return n->peer_static;
}

/* Offsets in message 1: e, sealed s, sealed payload. In message 2 the payload follows e. */
enum {
  AT_STATIC = X25519_BYTES,
  AT_PAYLOAD_1 = AT_STATIC + X25519_BYTES + AEAD_TAG_BYTES,
  AT_PAYLOAD_2 = X25519_BYTES
};

enum err noise_write_1(struct noise *n, const void *payload, size_t n_payload, uint8_t *out_message) {
  MUST(n->step == WRITE_1 && n_payload <= MAX_NOISE_BYTES - NOISE_OVERHEAD_1);
  struct noise_symmetric s = n->symmetric;
  memcpy(out_message, n->ephemeral.public_key, X25519_BYTES);
  mix_hash(&s, out_message, X25519_BYTES);
  enum err e = mix_dh(&s, &n->ephemeral, n->peer_static);
  if (e != ERR_OK)
    goto out;
  seal_and_hash(&s, n->own->public_key, X25519_BYTES, out_message + AT_STATIC);
  e = mix_dh(&s, n->own, n->peer_static);
  if (e != ERR_OK)
    goto out;
  seal_and_hash(&s, payload, n_payload, out_message + AT_PAYLOAD_1);
  n->symmetric = s;
  n->step = READ_2;
out:
  sodium_memzero(&s, sizeof s);
  return e;
}

enum err noise_read_1(struct noise *n, const uint8_t *message, size_t n_message, void *out_payload, size_t capacity,
                      size_t *out_n_payload) {
  MUST(n->step == READ_1);
  if (n_message < NOISE_OVERHEAD_1 || n_message > MAX_NOISE_BYTES)
    return ERR_HANDSHAKE;
  if (n_message - NOISE_OVERHEAD_1 > capacity)
    return ERR_LIMIT;
  struct noise_symmetric s = n->symmetric;
  uint8_t initiator[X25519_BYTES];
  mix_hash(&s, message, X25519_BYTES);
  enum err e = mix_dh(&s, n->own, message);
  if (e == ERR_OK)
    e = open_and_hash(&s, message + AT_STATIC, AT_PAYLOAD_1 - AT_STATIC, initiator);
  if (e == ERR_OK)
    e = mix_dh(&s, n->own, initiator);
  if (e == ERR_OK)
    e = open_and_hash(&s, message + AT_PAYLOAD_1, n_message - AT_PAYLOAD_1, out_payload);
  if (e != ERR_OK)
    goto out;
  n->symmetric = s;
  memcpy(n->peer_ephemeral, message, X25519_BYTES);
  memcpy(n->peer_static, initiator, X25519_BYTES);
  n->step = WRITE_2;
  *out_n_payload = n_message - NOISE_OVERHEAD_1;
out:
  sodium_memzero(&s, sizeof s);
  return e;
}

enum err noise_write_2(struct noise *n, const void *payload, size_t n_payload, uint8_t *out_message) {
  MUST(n->step == WRITE_2 && n_payload <= MAX_NOISE_BYTES - NOISE_OVERHEAD_2);
  struct noise_symmetric s = n->symmetric;
  memcpy(out_message, n->ephemeral.public_key, X25519_BYTES);
  mix_hash(&s, out_message, X25519_BYTES);
  enum err e = mix_dh(&s, &n->ephemeral, n->peer_ephemeral);
  if (e == ERR_OK)
    e = mix_dh(&s, &n->ephemeral, n->peer_static);
  if (e != ERR_OK)
    goto out;
  seal_and_hash(&s, payload, n_payload, out_message + AT_PAYLOAD_2);
  n->symmetric = s;
  n->step = SPLIT;
out:
  sodium_memzero(&s, sizeof s);
  return e;
}

enum err noise_read_2(struct noise *n, const uint8_t *message, size_t n_message, void *out_payload, size_t capacity,
                      size_t *out_n_payload) {
  if (n->step != READ_2 || n_message < NOISE_OVERHEAD_2 || n_message > MAX_NOISE_BYTES)
    return ERR_HANDSHAKE;
  if (n_message - NOISE_OVERHEAD_2 > capacity)
    return ERR_LIMIT;
  struct noise_symmetric s = n->symmetric;
  mix_hash(&s, message, X25519_BYTES);
  enum err e = mix_dh(&s, &n->ephemeral, message);
  if (e == ERR_OK)
    e = mix_dh(&s, n->own, message);
  if (e == ERR_OK)
    e = open_and_hash(&s, message + AT_PAYLOAD_2, n_message - AT_PAYLOAD_2, out_payload);
  if (e != ERR_OK)
    goto out;
  n->symmetric = s;
  n->step = SPLIT;
  *out_n_payload = n_message - NOISE_OVERHEAD_2;
out:
  sodium_memzero(&s, sizeof s);
  return e;
}

void noise_split(struct noise *n, struct session_keys *out_keys) {
  MUST(n->step == SPLIT);
  uint8_t from_initiator[NOISE_HASH_BYTES], from_responder[NOISE_HASH_BYTES];
  hkdf(n->symmetric.chaining_key, NULL, 0, from_initiator, from_responder);
  memcpy(out_keys->send, n->is_initiator ? from_initiator : from_responder, NOISE_KEY_BYTES);
  memcpy(out_keys->receive, n->is_initiator ? from_responder : from_initiator, NOISE_KEY_BYTES);
  memcpy(out_keys->hash, n->symmetric.hash, NOISE_HASH_BYTES);
  sodium_memzero(from_initiator, sizeof from_initiator);
  sodium_memzero(from_responder, sizeof from_responder);
  n->step = ENDED;
}

void session_keys_wipe(struct session_keys *keys) {
  sodium_memzero(keys, sizeof *keys);
}

/* ---- mac1 ---- */

void mac1_compute(const uint8_t responder[X25519_BYTES], const void *bytes, size_t n, uint8_t out_mac[MAC1_BYTES]) {
  static const char label[] = "starling/v1/mac1";
  struct digest key;
  struct digest_state state;
  digest_blake2b.init(&state);
  digest_blake2b.add(&state, label, sizeof label - 1);
  digest_blake2b.add(&state, responder, X25519_BYTES);
  digest_blake2b.end(&state, &key);
  crypto_generichash(out_mac, MAC1_BYTES, bytes, n, key.bytes, sizeof key.bytes);
}

enum err mac1_check(const uint8_t responder[X25519_BYTES], const void *bytes, size_t n, const uint8_t mac[MAC1_BYTES]) {
  uint8_t expected[MAC1_BYTES];
  mac1_compute(responder, bytes, n, expected);
  return sodium_memcmp(expected, mac, MAC1_BYTES) == 0 ? ERR_OK : ERR_MAC;
}
