#include "agent/sim/plain.h"

#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "base/rng.h"

/* What a handshake knows: this table's own, as crypto/noise.c has another. */
struct noise {
  uint8_t own[X25519_BYTES], peer[X25519_BYTES];
};

/* Where things stand in a handshake frame: the key in the ephemeral one's place. */
enum {
  KEY_AT = FRAME_HEAD_BYTES,
  OFFER_AT = FRAME_HEAD_BYTES + NOISE_OVERHEAD_1,
  MAC_AT = HANDSHAKE_1_BYTES - MAC1_BYTES,
  ANSWER_AT = FRAME_HEAD_BYTES + NOISE_OVERHEAD_2,
};

/* ---- keys and signatures ---- */

struct identity_key plain_key(size_t number) {
  struct identity_key key = {{0}};
  for (size_t i = 0; i < sizeof number; i++)
    key.bytes[sizeof number - 1 - i] = (uint8_t)((number + 1) >> 8 * i);
  return key;
}

static enum err peer_static(const struct identity_key *key, uint8_t out_static[X25519_BYTES]) {
  memcpy(out_static, key->bytes, X25519_BYTES);
  return ERR_OK;
}

/* Of bytes among which the signer is. */
static struct signature signature_over(const uint8_t *bytes, size_t n) {
  struct signature s;
  uint64_t state = n;
  for (size_t i = 0; i < n; i += sizeof state) {
    uint64_t word = 0;
    memcpy(&word, bytes + i, n - i < sizeof word ? n - i : sizeof word);
    state = rng_mix(state ^ word);
  }
  for (size_t i = 0; i < SIGNATURE_BYTES; i += sizeof state, state = rng_mix(state))
    memcpy(s.bytes + i, &state, sizeof state);
  return s;
}

static enum err compare(const struct signature *s, struct signature right) {
  return memcmp(s->bytes, right.bytes, SIGNATURE_BYTES) == 0 ? ERR_OK : ERR_SIGNATURE;
}

static struct signature signature_of(const struct manifest *m) {
  uint8_t bytes[MANIFEST_BYTES];
  manifest_write(m, bytes);
  return signature_over(bytes, MANIFEST_BYTES - SIGNATURE_BYTES);
}

void plain_sign(struct manifest *m, const struct identity_key *own) {
  m->origin = *own;
  m->signature = signature_of(m);
}

static enum err verify_manifest(const struct manifest *m) {
  return compare(&m->signature, signature_of(m));
}

static struct signature signature_of_statement(const struct statement *s) {
  uint8_t bytes[STATEMENT_MAX_BYTES];
  size_t n = statement_write(s, bytes);
  return signature_over(bytes, n - SIGNATURE_BYTES);
}

static struct signature signature_of_accusation(const struct accusation *a) {
  uint8_t bytes[ACCUSATION_BYTES];
  accusation_write(a, bytes);
  return signature_over(bytes, ACCUSATION_BYTES - SIGNATURE_BYTES);
}

static void sign_statement(void *context, struct statement *s) {
  s->key = ((const struct node_self *)context)->key;
  s->signature = signature_of_statement(s);
}

static void sign_accusation(void *context, struct accusation *a) {
  a->accuser = ((const struct node_self *)context)->key;
  a->signature = signature_of_accusation(a);
}

static enum err verify_statement(void *context, const struct statement *s) {
  (void)context;
  return compare(&s->signature, signature_of_statement(s));
}

static enum err verify_accusation(void *context, const struct accusation *a) {
  (void)context;
  return compare(&a->signature, signature_of_accusation(a));
}

static struct members_seal members_seal(const struct node_self *own) {
  return (struct members_seal){(void *)(uintptr_t)own, sign_statement, sign_accusation, verify_statement,
                               verify_accusation};
}

static struct signature signature_of_sketch(const struct signed_sketch *s) {
  uint8_t bytes[SIGNED_SKETCH_BYTES];
  signed_sketch_write(s, bytes);
  return signature_over(bytes, SIGNED_SKETCH_BYTES - SIGNATURE_BYTES);
}

void plain_sign_sketch(struct signed_sketch *s, const struct identity_key *own) {
  s->origin = *own;
  s->signature = signature_of_sketch(s);
}

static enum err verify_sketch(const struct signed_sketch *s) {
  return compare(&s->signature, signature_of_sketch(s));
}

/* Nobody has one to sign. */
static enum err verify_job_file(const struct job_file *f) {
  (void)f;
  return ERR_SIGNATURE;
}

/* ---- handshakes ---- */

static struct noise *noise_of(const uint8_t own[X25519_BYTES], const uint8_t peer[X25519_BYTES]) {
  struct noise *n = malloc(sizeof *n);
  if (!n)
    return NULL;
  memcpy(n->own, own, sizeof n->own);
  memcpy(n->peer, peer, sizeof n->peer);
  return n;
}

static enum err write_1(const struct node_self *own, const uint8_t responder[X25519_BYTES], const struct offer *offer,
                        struct noise **out_noise, uint8_t out_frame[HANDSHAKE_1_BYTES]) {
  struct frame_head head = {.type = MESSAGE_HANDSHAKE_1, .n_plain = NOISE_OVERHEAD_1 + OFFER_BYTES};
  memset(out_frame, 0, HANDSHAKE_1_BYTES);
  frame_head_write(&head, out_frame);
  memcpy(out_frame + KEY_AT, own->key.bytes, X25519_BYTES);
  offer_write(offer, out_frame + OFFER_AT);
  memcpy(out_frame + MAC_AT, responder, MAC1_BYTES);
  *out_noise = noise_of(own->key.bytes, responder);
  return *out_noise ? ERR_OK : ERR_NO_MEMORY;
}

static enum err check_1(const struct node_self *own, const struct frame_head *head, const uint8_t *frame, size_t n) {
  if (n != HANDSHAKE_1_BYTES || head->session_index != 0 || head->counter != 0)
    return ERR_FRAME;
  return memcmp(frame + MAC_AT, own->key.bytes, MAC1_BYTES) == 0 ? ERR_OK : ERR_MAC;
}

static enum err read_1(const struct node_self *own, const uint8_t frame[HANDSHAKE_1_BYTES], struct noise **out_noise,
                       struct offer *out_offer) {
  enum err e = offer_read(frame + OFFER_AT, OFFER_BYTES, out_offer);
  if (e != ERR_OK)
    return e;
  *out_noise = noise_of(own->key.bytes, frame + KEY_AT);
  return *out_noise ? ERR_OK : ERR_NO_MEMORY;
}

static enum err write_2(struct noise *n, uint32_t initiator_index, const struct answer *answer,
                        uint8_t out_frame[HANDSHAKE_2_BYTES]) {
  struct frame_head head = {.type = MESSAGE_HANDSHAKE_2,
                            .session_index = initiator_index,
                            .n_plain = HANDSHAKE_2_BYTES - FRAME_HEAD_BYTES - FRAME_TAG_BYTES};
  memset(out_frame, 0, HANDSHAKE_2_BYTES);
  frame_head_write(&head, out_frame);
  memcpy(out_frame + KEY_AT, n->own, X25519_BYTES);
  answer_write(answer, out_frame + ANSWER_AT);
  return ERR_OK;
}

static enum err read_2(struct noise *n, const struct frame_head *head, const uint8_t *frame, size_t n_frame,
                       struct answer *out_answer) {
  if (n_frame != HANDSHAKE_2_BYTES || head->counter != 0)
    return ERR_FRAME;
  if (memcmp(frame + KEY_AT, n->peer, X25519_BYTES) != 0)
    return ERR_HANDSHAKE;
  return answer_read(frame + ANSWER_AT, ANSWER_BYTES, out_answer);
}

static const uint8_t *static_of_peer(const struct noise *n) {
  return n->peer;
}

static void plain_noise_free(struct noise *n) {
  free(n);
}

/* ---- sessions ---- */

static enum err plain_session_new(struct noise *n, const struct session_ends *ends, uint64_t now_ms,
                                  struct session **out_session) {
  (void)n;
  struct session *s = malloc(sizeof *s);
  if (!s)
    return ERR_NO_MEMORY;
  *s = (struct session){.ends = *ends, .created_ms = now_ms};
  *out_session = s;
  return ERR_OK;
}

static void plain_session_free(struct session *s) {
  free(s);
}

/* Both ends' indices, in the order of the direction. */
static void tag_write(uint8_t *tag, uint32_t of_sender, uint32_t of_receiver) {
  memset(tag, 0, FRAME_TAG_BYTES);
  memcpy(tag, &of_sender, sizeof of_sender);
  memcpy(tag + sizeof of_sender, &of_receiver, sizeof of_receiver);
}

static enum err seal(struct session *s, uint64_t now_ms, uint8_t type, uint8_t *frame, size_t n_plain) {
  MUST(n_plain <= MAX_FRAME_PLAIN_BYTES);
  if (session_is_expired(s, now_ms))
    return ERR_KEY_EXPIRED;
  struct frame_head head = {
      .type = type, .session_index = s->ends.peer_index, .n_plain = (uint32_t)n_plain, .counter = s->next_send++};
  frame_head_write(&head, frame);
  tag_write(frame + FRAME_HEAD_BYTES + n_plain, s->ends.own_index, s->ends.peer_index);
  s->n_frames++;
  s->n_bytes += n_plain;
  return ERR_OK;
}

static enum err open_frame(struct session *s, uint64_t now_ms, const struct frame_head *head, uint8_t *frame) {
  uint8_t tag[FRAME_TAG_BYTES];
  if (session_is_expired(s, now_ms))
    return ERR_KEY_EXPIRED;
  if (head->counter < s->next_receive || head->counter == UINT64_MAX)
    return ERR_REPLAY;
  tag_write(tag, s->ends.peer_index, s->ends.own_index);
  if (memcmp(frame + FRAME_HEAD_BYTES + head->n_plain, tag, sizeof tag) != 0)
    return ERR_SEAL;
  s->next_receive = head->counter + 1;
  s->n_frames++;
  s->n_bytes += head->n_plain;
  return ERR_OK;
}

const struct seals plain_seals = {
    .peer_static = peer_static,
    .write_1 = write_1,
    .check_1 = check_1,
    .read_1 = read_1,
    .write_2 = write_2,
    .read_2 = read_2,
    .static_of_peer = static_of_peer,
    .noise_free = plain_noise_free,
    .session_new = plain_session_new,
    .session_free = plain_session_free,
    .seal = seal,
    .open = open_frame,
    .verify_manifest = verify_manifest,
    .verify_job_file = verify_job_file,
    .verify_sketch = verify_sketch,
    .members_seal = members_seal,
};
