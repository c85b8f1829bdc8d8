/* The names of swarms and jobs as hashes of what people call them. Pure; any thread. */
#ifndef CRYPTO_NAMES_H
#define CRYPTO_NAMES_H

#include <stdint.h>

#include "base/digest.h"

struct swarm_id {
  uint8_t bytes[16];
};

/* BLAKE2b-128("starling/v1/swarm" ‖ 0 ‖ text). */
struct swarm_id swarm_id(const char *text);

/* BLAKE2b-256("starling/v1/job" ‖ 0 ‖ swarm id ‖ len(name) u32 ‖ name ‖ version u32 ‖ len(run_label) u32 ‖ run_label),
 * little-endian. The label may be "". */
struct digest job_id(const struct swarm_id *swarm, const char *name, uint32_t version, const char *run_label);

#endif
