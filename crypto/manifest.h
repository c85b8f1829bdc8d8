/* The manifest: the signed description of one published update. It is what travels further than one hop, what is kept
 * as proof, and what a payload is checked against.
 *
 * Canonical bytes, little-endian, MANIFEST_BYTES in all, in this order:
 *   version u8 (1) · kind u8 · encoding u8 · zero u8 · swarm 16 · job 32 · schema 32 · contract 32 · origin 32 ·
 *   boot epoch u64 · sequence u64 · round u64 · sub u16 · degree u16 · local steps u32 · samples u32 · mu f64 · chain
 * 32 · payload root 32 · length u64 · copy root 32 · audience 32 · part 32 · group epoch u64 · expires u64 · dp 13 ·
 *   signature 64
 * Audience, part, group epoch, expiry and dp are not used by version 1: they are zero, are refused otherwise, and
 * therefore are no fields of the struct. One manifest has one encoding: what was read, written again, gives the same
 * bytes.
 *
 * Pure; any thread. */
#ifndef CRYPTO_MANIFEST_H
#define CRYPTO_MANIFEST_H

#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/err.h"
#include "crypto/identity.h"
#include "crypto/names.h"

enum {
  MANIFEST_VERSION = 1,
  MANIFEST_BYTES = 453,
  MANIFEST_COPY_ROOT_EVERY = 16, /* the copy root travels with sequences divisible by this */
};

enum manifest_kind {
  MANIFEST_NONE,       /* no update this round, do not wait; its own sequence, the chain unchanged */
  MANIFEST_DIFFERENCE, /* a link of the chain: to be added to the public copy */
  MANIFEST_FULL,       /* the public copy itself */
  MANIFEST_SUM,        /* a cumulative sum (push-sum) */
  N_MANIFEST_KINDS,
};

/* How the payload's floats are encoded (models/merging/codec.h). Further encodings are appended. */
enum encoding {
  ENCODING_F32,
  ENCODING_F16,
  ENCODING_Q8,
  ENCODING_Q4,
  ENCODING_TOPK,
  N_ENCODINGS,
};

struct manifest {
  enum manifest_kind kind;
  uint8_t encoding; /* enum encoding; of kind none: a reason code of the gossip room */
  struct swarm_id swarm;
  struct digest job;
  struct digest schema;
  struct digest contract;
  struct identity_key origin;
  uint64_t boot_epoch;
  uint64_t sequence;
  uint64_t round;
  uint16_t sub;    /* local sub-rounds since the last committed number */
  uint16_t degree; /* configured, not revoked peers of the job */
  uint32_t local_steps;
  uint32_t samples;
  double mu;           /* of a sum: its mass, finite and above 0; else 1 */
  struct digest chain; /* difference: the chain before this link; full: the chain at this copy; sum: what it starts */
  struct digest payload_root;
  uint64_t n_payload;      /* bytes */
  struct digest copy_root; /* Merkle root of the public copy's bits after this update; zero: not carried */
  struct signature signature;
};

void manifest_write(const struct manifest *m, uint8_t out_bytes[MANIFEST_BYTES]);

/* Reads and checks the form, not the signature. ERR_TRUNCATED or ERR_TRAILING (length), ERR_VERSION, ERR_ENCODING,
 * ERR_LENGTH (payload empty or above the wire's maximum; of kind none: not empty), ERR_MESSAGE (unknown kind, a value that
 * must be zero is not, mu not 1, a copy root where none belongs), ERR_MASS (of a sum: mu is not a mass), ERR_CHAIN (a sum whose
 * chain is
 * not that of its own root). */
MUST_USE enum err manifest_read(const void *bytes, size_t n, struct manifest *out_manifest);

/* Sets origin and signature, in the domain "starling/v1/manifest". */
void manifest_sign(struct manifest *m, const struct identity *id);

/* ERR_SIGNATURE: not signed by its origin. */
MUST_USE enum err manifest_verify(const struct manifest *m);

/* Of the full copy, n bytes with this root, of what peers hold of the origin after its update: not signed. Signed by the same
 * key it has the same bits whenever it is made. */
struct manifest manifest_of_copy(const struct manifest *update, const struct digest *root, uint64_t n_bytes);

/* Order of publication of one origin and job: by boot epoch, then sequence. < 0, 0, > 0. */
int manifest_compare_position(const struct manifest *a, const struct manifest *b);

/* The chain of differences: c(0) = H(root of the first full payload), c(s) = H(c(s − 1) ‖ payload root). */
struct digest chain_start(const struct digest *payload_root);
struct digest chain_next(const struct digest *previous, const struct digest *payload_root);

#endif
