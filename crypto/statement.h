/* What members of a swarm say of themselves and of each other, signed, so that it can travel over any number of hops.
 *
 * A *statement* is a member's own word: this is me, in this life, here I listen, or: I leave. Canonical bytes, little-endian:
 *   format u8 (1) · swarm 16 · key 32 · boot epoch u64 · refutation u32 · flags u8 (1 leaves) · n u8 (≤ 63) · name n ·
 *   n u8 (≤ 255) · addresses n · signature 64
 * (boot epoch, refutation) is its *incarnation*: the epoch is durable and rises at each start, so a restart is always newer
 * than whatever was said before; the refutation rises within a life, when somebody was wrong about us (SWIM, Das et al. 2002).
 *
 * An *accusation* says of one incarnation of another member that it does not answer. Canonical bytes:
 *   format u8 (1) · swarm 16 · accuser 32 · accused 32 · boot epoch u64 · refutation u32 · signature 64
 * Signatures cover everything before them. One object has one encoding. Pure; any thread. */
#ifndef CRYPTO_STATEMENT_H
#define CRYPTO_STATEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/limits.h"
#include "crypto/identity.h"
#include "crypto/names.h"

enum {
  STATEMENT_FORMAT = 1,
  STATEMENT_MAX_BYTES = 1 + 16 + 32 + 8 + 4 + 1 + MAX_NAME_BYTES + MAX_ADDRESS_BYTES + SIGNATURE_BYTES,
  ACCUSATION_BYTES = 1 + 16 + 32 + 32 + 8 + 4 + SIGNATURE_BYTES,
};

/* One life of a member, and how often it was wrongly accused in it. */
struct incarnation {
  uint64_t boot_epoch;
  uint32_t refutation;
};

/* Negative: a is the older one. */
int incarnation_compare(const struct incarnation *a, const struct incarnation *b);

struct statement {
  struct swarm_id swarm;
  struct identity_key key;
  struct incarnation incarnation; /* boot epoch ≥ 1 */
  bool leaves;
  char name[MAX_NAME_BYTES];         /* a label: letters, digits, `.`, `_`, `-`; may be empty */
  char addresses[MAX_ADDRESS_BYTES]; /* tcp://host:port, one space between two; may be empty */
  struct signature signature;
};

/* Reads and checks the form. ERR_TRUNCATED or ERR_TRAILING (length), ERR_VERSION (format), ERR_MESSAGE: a flag, name, epoch or
 * address that is none. */
MUST_USE enum err statement_read(const void *bytes, size_t n, struct statement *out_statement);

/* The number of bytes written. What is outside the bounds is our own bug. */
size_t statement_write(const struct statement *s, uint8_t out_bytes[STATEMENT_MAX_BYTES]);

/* Sets key and signature, in the domain "starling/v1/statement". */
void statement_sign(struct statement *s, const struct identity *id);

/* ERR_SIGNATURE. */
MUST_USE enum err statement_verify(const struct statement *s);

/* Takes the next address from *at on, which then is behind it; false: there is none. */
bool statement_next_address(const char **at, char out_address[MAX_ADDRESS_BYTES]);

/* Whether the text is an address that a statement may carry: tcp://, a host name or number, a port. */
bool statement_is_address(const char *text);

struct accusation {
  struct swarm_id swarm;
  struct identity_key accuser, accused; /* not the same */
  struct incarnation incarnation;
  struct signature signature;
};

/* As `statement_read`. */
MUST_USE enum err accusation_read(const void *bytes, size_t n, struct accusation *out_accusation);
void accusation_write(const struct accusation *a, uint8_t out_bytes[ACCUSATION_BYTES]);

/* Sets accuser and signature, in the domain "starling/v1/accusation". */
void accusation_sign(struct accusation *a, const struct identity *id);
MUST_USE enum err accusation_verify(const struct accusation *a);

#endif
