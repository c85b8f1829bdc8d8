#include "crypto/manifest.h"

#include <stdbool.h>

#include "base/bytes.h"
#include "base/limits.h"
#include "base/must.h"
#include "crypto/digest.h"

enum {
  BODY_BYTES = MANIFEST_BYTES - SIGNATURE_BYTES, /* what is signed */
  UNUSED_BYTES = 32 + 32 + 8 + 8 + 13,           /* audience, part, group epoch, expires, dp */
};

static const char domain[] = "starling/v1/manifest";

static void body_write(const struct manifest *m, struct writer *w) {
  writer_u8(w, MANIFEST_VERSION);
  writer_u8(w, (uint8_t)m->kind);
  writer_u8(w, m->encoding);
  writer_u8(w, 0);
  writer_bytes(w, m->swarm.bytes, sizeof m->swarm.bytes);
  writer_bytes(w, m->job.bytes, DIGEST_BYTES);
  writer_bytes(w, m->schema.bytes, DIGEST_BYTES);
  writer_bytes(w, m->contract.bytes, DIGEST_BYTES);
  writer_bytes(w, m->origin.bytes, sizeof m->origin.bytes);
  writer_u64(w, m->boot_epoch);
  writer_u64(w, m->sequence);
  writer_u64(w, m->round);
  writer_u16(w, m->sub);
  writer_u16(w, m->degree);
  writer_u32(w, m->local_steps);
  writer_u32(w, m->samples);
  writer_f64(w, m->mu);
  writer_bytes(w, m->chain.bytes, DIGEST_BYTES);
  writer_bytes(w, m->payload_root.bytes, DIGEST_BYTES);
  writer_u64(w, m->n_payload);
  writer_bytes(w, m->copy_root.bytes, DIGEST_BYTES);
  writer_zeros(w, UNUSED_BYTES);
}

void manifest_write(const struct manifest *m, uint8_t out_bytes[MANIFEST_BYTES]) {
  struct writer w;
  writer_init(&w, out_bytes, MANIFEST_BYTES);
  body_write(m, &w);
  writer_bytes(&w, m->signature.bytes, SIGNATURE_BYTES);
  MUST(writer_end(&w) == ERR_OK && w.n_bytes == MANIFEST_BYTES);
}

/* Reads bytes that this version demands to be zero. */
static bool cursor_zeros(struct cursor *c, size_t n) {
  uint8_t any = 0;
  while (n-- > 0)
    any |= cursor_u8(c);
  return any == 0;
}

/* The rules that tie a manifest's values together. */
static enum err manifest_judge(const struct manifest *m) {
  bool is_sum = m->kind == MANIFEST_SUM;
  if (is_sum && !(__builtin_isfinite(m->mu) && m->mu > 0))
    return ERR_MASS;
  if (!is_sum && m->mu != 1.0) /* NaN is refused, too */
    return ERR_MESSAGE;
  bool may_carry_copy_root = m->kind != MANIFEST_NONE && !is_sum && m->sequence % MANIFEST_COPY_ROOT_EVERY == 0;
  if (!may_carry_copy_root && !digest_is_zero(&m->copy_root))
    return ERR_MESSAGE;
  if (m->kind == MANIFEST_NONE) {
    if (m->n_payload != 0)
      return ERR_LENGTH;
    return digest_is_zero(&m->payload_root) ? ERR_OK : ERR_MESSAGE;
  }
  if (m->encoding >= N_ENCODINGS || (is_sum && m->encoding != ENCODING_F32))
    return ERR_ENCODING;
  struct digest start = chain_start(&m->payload_root);
  if (is_sum && !digest_equal(&m->chain, &start))
    return ERR_CHAIN;
  return m->n_payload == 0 || m->n_payload > (uint64_t)MAX_CHUNKS * CHUNK_BYTES ? ERR_LENGTH : ERR_OK;
}

enum err manifest_read(const void *bytes, size_t n, struct manifest *out_manifest) {
  if (n != MANIFEST_BYTES)
    return n < MANIFEST_BYTES ? ERR_TRUNCATED : ERR_TRAILING;
  struct cursor c;
  cursor_init(&c, bytes, n);
  uint8_t version = cursor_u8(&c);
  if (version != MANIFEST_VERSION)
    return ERR_VERSION;
  uint8_t kind = cursor_u8(&c);
  if (kind >= N_MANIFEST_KINDS)
    return ERR_MESSAGE;
  struct manifest m = {.kind = (enum manifest_kind)kind};
  m.encoding = cursor_u8(&c);
  bool zeros = cursor_zeros(&c, 1);
  cursor_bytes(&c, m.swarm.bytes, sizeof m.swarm.bytes);
  cursor_bytes(&c, m.job.bytes, DIGEST_BYTES);
  cursor_bytes(&c, m.schema.bytes, DIGEST_BYTES);
  cursor_bytes(&c, m.contract.bytes, DIGEST_BYTES);
  cursor_bytes(&c, m.origin.bytes, sizeof m.origin.bytes);
  m.boot_epoch = cursor_u64(&c);
  m.sequence = cursor_u64(&c);
  m.round = cursor_u64(&c);
  m.sub = cursor_u16(&c);
  m.degree = cursor_u16(&c);
  m.local_steps = cursor_u32(&c);
  m.samples = cursor_u32(&c);
  m.mu = cursor_f64(&c);
  cursor_bytes(&c, m.chain.bytes, DIGEST_BYTES);
  cursor_bytes(&c, m.payload_root.bytes, DIGEST_BYTES);
  m.n_payload = cursor_u64(&c);
  cursor_bytes(&c, m.copy_root.bytes, DIGEST_BYTES);
  zeros &= cursor_zeros(&c, UNUSED_BYTES);
  cursor_bytes(&c, m.signature.bytes, SIGNATURE_BYTES);
  MUST(cursor_end(&c) == ERR_OK);
  enum err e = zeros ? manifest_judge(&m) : ERR_MESSAGE;
  if (e == ERR_OK)
    *out_manifest = m;
  return e;
}

static void body_bytes(const struct manifest *m, uint8_t out_body[BODY_BYTES]) {
  struct writer w;
  writer_init(&w, out_body, BODY_BYTES);
  body_write(m, &w);
  MUST(writer_end(&w) == ERR_OK && w.n_bytes == BODY_BYTES);
}

void manifest_sign(struct manifest *m, const struct identity *id) {
  uint8_t body[BODY_BYTES];
  m->origin = *identity_public(id);
  body_bytes(m, body);
  identity_sign(id, domain, body, sizeof body, &m->signature);
}

enum err manifest_verify(const struct manifest *m) {
  uint8_t body[BODY_BYTES];
  body_bytes(m, body);
  return signature_verify(&m->origin, domain, body, sizeof body, &m->signature);
}

static int u64_compare(uint64_t a, uint64_t b) {
  return (a > b) - (a < b);
}

int manifest_compare_position(const struct manifest *a, const struct manifest *b) {
  int by_epoch = u64_compare(a->boot_epoch, b->boot_epoch);
  return by_epoch ? by_epoch : u64_compare(a->sequence, b->sequence);
}

struct digest chain_start(const struct digest *payload_root) {
  return digest_of(&digest_blake2b, payload_root->bytes, DIGEST_BYTES);
}

struct digest chain_next(const struct digest *previous, const struct digest *payload_root) {
  struct digest_state state;
  struct digest next;
  digest_blake2b.init(&state);
  digest_blake2b.add(&state, previous->bytes, DIGEST_BYTES);
  digest_blake2b.add(&state, payload_root->bytes, DIGEST_BYTES);
  digest_blake2b.end(&state, &next);
  return next;
}

struct manifest manifest_of_copy(const struct manifest *update, const struct digest *root, uint64_t n_bytes) {
  struct manifest copy = *update;
  copy.kind = MANIFEST_FULL;
  copy.encoding = ENCODING_F32;
  if (update->kind == MANIFEST_DIFFERENCE)
    copy.chain = chain_next(&update->chain, &update->payload_root);
  copy.payload_root = *root;
  copy.n_payload = n_bytes;
  return copy;
}
