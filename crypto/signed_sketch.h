/* In which direction a member's data pull a job's model (models/clustering/sketch.h), in its own word: signed, so that it can travel
 * over any number of hops, and numbered, so that a newer one replaces it and an older one never does.
 *
 * Canonical bytes, little-endian, SIGNED_SKETCH_BYTES of them:
 *   format u8 (1) · swarm 16 · job 32 · schema 32 · contract 32 · origin 32 · boot epoch u64 · serial u32 · cells 512 · signature 64
 * (boot epoch, serial) is its position: the epoch is durable and rises at each start, the serial within a life. Schema and contract
 * stand in it because sketches of other models or data cannot be compared. The signature covers everything before it. What the
 * cells say is for whoever knows sketches. Pure; any thread. */
#ifndef CRYPTO_SIGNED_SKETCH_H
#define CRYPTO_SIGNED_SKETCH_H

#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/err.h"
#include "crypto/identity.h"
#include "crypto/names.h"

enum {
  SIGNED_SKETCH_FORMAT = 1,
  SKETCH_CELL_BYTES = 512,
  SIGNED_SKETCH_BYTES = 1 + 16 + 4 * 32 + 8 + 4 + SKETCH_CELL_BYTES + SIGNATURE_BYTES,
};

struct signed_sketch {
  struct swarm_id swarm;
  struct digest job, schema, contract;
  struct identity_key origin;
  uint64_t boot_epoch; /* ≥ 1 */
  uint32_t serial;     /* ≥ 1 */
  uint8_t cells[SKETCH_CELL_BYTES];
  struct signature signature;
};

/* Negative: a is the older one. */
int signed_sketch_compare(const struct signed_sketch *a, const struct signed_sketch *b);

/* Reads and checks the form. ERR_TRUNCATED or ERR_TRAILING (length), ERR_VERSION (format), ERR_MESSAGE: an epoch or serial of 0. */
MUST_USE enum err signed_sketch_read(const void *bytes, size_t n, struct signed_sketch *out_sketch);
void signed_sketch_write(const struct signed_sketch *s, uint8_t out_bytes[SIGNED_SKETCH_BYTES]);

/* Sets origin and signature, in the domain "starling/v1/sketch". */
void signed_sketch_sign(struct signed_sketch *s, const struct identity *id);

/* ERR_SIGNATURE: not signed by its origin. */
MUST_USE enum err signed_sketch_verify(const struct signed_sketch *s);

#endif
