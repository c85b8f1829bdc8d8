/* What the store keeps of a model: the learner's bytes (half or model) and, where the contract leaves the scaling to the
 * site, the text of the numbers in effect after them. They come back with the model, so that data that grows never
 * shifts the inputs that the weights were learnt for. Pure. */
#ifndef AGENT_RUN_SNAPSHOT_H
#define AGENT_RUN_SNAPSHOT_H

#include <stddef.h>

#include "agent/core/work.h"
#include "base/err.h"
#include "models/contract.h"
#include "models/data/scale.h"

/* Files of the state directory that begin so hold a model from elsewhere, as it would be committed, for the agent to take. */
#define IMPORT_FILE ".import-"
#define TRACE_FILE ".trace" /* of `starling trace`, that takes it away; the next one and a start do too */

/* The most bytes of a snapshot whose learner's part has n_learner. */
size_t snapshot_bound(const struct contract *contract, size_t n_learner);

/* The text that follows the learner's bytes; empty unless its numbers are measured and known. The caller frees. ERR_NO_MEMORY. */
MUST_USE enum err snapshot_scale_text(const struct scale *scale, struct buffer *out_text);

/* Splits a snapshot into the learner's bytes (out_learner, borrowed from it; n_learner is what they should measure, which
 * the learner judges) and the scale, which is zero-initialised when there is none. ERR_CORRUPT, ERR_NO_MEMORY. */
MUST_USE enum err snapshot_split(const struct contract *contract, const struct buffer *snapshot, size_t n_learner,
                                 struct buffer *out_learner, struct scale *out_scale);

#endif
