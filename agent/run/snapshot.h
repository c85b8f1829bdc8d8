/* What the store keeps of a model: the learner's bytes (half or model) and, where the contract leaves the scaling to the
 * site, the text of the numbers in effect after them. They come back with the model, so that data that grows never
 * shifts the inputs that the weights were learnt for. Behind the half of a job with tasks stands what continual learning keeps, samples of
 * this site among it, sealed under a key of the agent's own: sealed bytes, their number u64, "starseal". Pure. */
#ifndef AGENT_RUN_SNAPSHOT_H
#define AGENT_RUN_SNAPSHOT_H

#include <stddef.h>

#include "agent/config.h"
#include "agent/core/work.h"
#include "base/err.h"
#include "crypto/at_rest.h"
#include "models/contract.h"
#include "models/data/scale.h"

/* Files of the state directory that begin so hold a model from elsewhere, as it would be committed, for the agent to take. */
#define IMPORT_FILE ".import-"
#define TRACE_FILE ".trace" /* of `starling trace`, that takes it away; the next one and a start do too */

/* The most bytes of a snapshot of so many values whose learner's part has n_learner. */
size_t snapshot_bound(const struct job_config *job, size_t n_values, size_t n_learner);

/* The text that follows the learner's bytes; empty unless its numbers are measured and known. The caller frees. ERR_NO_MEMORY. */
MUST_USE enum err snapshot_scale_text(const struct scale *scale, struct buffer *out_text);

/* Splits a snapshot into the learner's bytes (out_learner, borrowed from it; n_learner is what they should measure, which
 * the learner judges) and the scale, which is zero-initialised when there is none. ERR_CORRUPT, ERR_NO_MEMORY. */
MUST_USE enum err snapshot_split(const struct contract *contract, const struct buffer *snapshot, size_t n_learner,
                                 struct buffer *out_learner, struct scale *out_scale);

/* What continual learning keeps is sealed by this: one purpose of crypto/at_rest.h. */
#define SEALED_PURPOSE "continual"

/* Appends what the learner's continual learning keeps; without tasks nothing happens. ERR_NO_MEMORY: *half is as it was. */
MUST_USE enum err snapshot_seal(const struct at_rest_key *key, const struct learner *l, struct buffer *half);

/* The half without it, borrowed; *out_sealed likewise, empty where there is none. */
struct buffer snapshot_unsealed(const struct buffer *half, struct buffer *out_sealed);

/* Takes it into the learner, where it has tasks and something is sealed. ERR_SEAL: another identity's; ERR_NO_MEMORY; those of
 * continual_read. Whatever the error, the learner's tasks are as they were. */
MUST_USE enum err snapshot_unseal(const struct at_rest_key *key, const struct buffer *sealed, struct learner *l);

/* Appends what is sealed in `from` as it stands there. ERR_NO_MEMORY: *half is as it was. */
MUST_USE enum err snapshot_carry(const struct buffer *from, struct buffer *half);

#endif
