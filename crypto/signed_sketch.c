#include "crypto/signed_sketch.h"

#include "base/bytes.h"
#include "base/must.h"

enum { BODY_BYTES = SIGNED_SKETCH_BYTES - SIGNATURE_BYTES };

static const char domain[] = "starling/v1/sketch";

int signed_sketch_compare(const struct signed_sketch *a, const struct signed_sketch *b) {
  if (a->boot_epoch != b->boot_epoch)
    return a->boot_epoch < b->boot_epoch ? -1 : 1;
  return a->serial == b->serial ? 0 : a->serial < b->serial ? -1 : 1;
}

enum err signed_sketch_read(const void *bytes, size_t n, struct signed_sketch *out_sketch) {
  struct signed_sketch s = {0};
  struct cursor c;
  cursor_init(&c, bytes, n);
  if (cursor_u8(&c) != SIGNED_SKETCH_FORMAT && !c.failed)
    return ERR_VERSION;
  cursor_bytes(&c, s.swarm.bytes, sizeof s.swarm.bytes);
  cursor_bytes(&c, s.job.bytes, sizeof s.job.bytes);
  cursor_bytes(&c, s.schema.bytes, sizeof s.schema.bytes);
  cursor_bytes(&c, s.contract.bytes, sizeof s.contract.bytes);
  cursor_bytes(&c, s.origin.bytes, sizeof s.origin.bytes);
  s.boot_epoch = cursor_u64(&c);
  s.serial = cursor_u32(&c);
  cursor_bytes(&c, s.cells, sizeof s.cells);
  cursor_bytes(&c, s.signature.bytes, sizeof s.signature.bytes);
  enum err e = cursor_end(&c);
  if (e == ERR_OK && (s.boot_epoch == 0 || s.serial == 0))
    e = ERR_MESSAGE;
  if (e == ERR_OK)
    *out_sketch = s;
  return e;
}

void signed_sketch_write(const struct signed_sketch *s, uint8_t out_bytes[SIGNED_SKETCH_BYTES]) {
  struct writer w;
  MUST(s->boot_epoch > 0 && s->serial > 0);
  writer_init(&w, out_bytes, SIGNED_SKETCH_BYTES);
  writer_u8(&w, SIGNED_SKETCH_FORMAT);
  writer_bytes(&w, s->swarm.bytes, sizeof s->swarm.bytes);
  writer_bytes(&w, s->job.bytes, sizeof s->job.bytes);
  writer_bytes(&w, s->schema.bytes, sizeof s->schema.bytes);
  writer_bytes(&w, s->contract.bytes, sizeof s->contract.bytes);
  writer_bytes(&w, s->origin.bytes, sizeof s->origin.bytes);
  writer_u64(&w, s->boot_epoch);
  writer_u32(&w, s->serial);
  writer_bytes(&w, s->cells, sizeof s->cells);
  writer_bytes(&w, s->signature.bytes, sizeof s->signature.bytes);
  MUST(writer_end(&w) == ERR_OK && w.n_bytes == SIGNED_SKETCH_BYTES);
}

void signed_sketch_sign(struct signed_sketch *s, const struct identity *id) {
  uint8_t bytes[SIGNED_SKETCH_BYTES];
  s->origin = *identity_public(id);
  signed_sketch_write(s, bytes);
  identity_sign(id, domain, bytes, BODY_BYTES, &s->signature);
}

enum err signed_sketch_verify(const struct signed_sketch *s) {
  uint8_t bytes[SIGNED_SKETCH_BYTES];
  signed_sketch_write(s, bytes);
  return signature_verify(&s->origin, domain, bytes, BODY_BYTES, &s->signature);
}
