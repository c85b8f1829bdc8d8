/* A set of samples, each known by 64 bits of a hash of its inputs: with 4 million remembered, one in about 4 · 10^12
 * lookups of a new one finds an old one. Memory doubles as it fills, up to a cap; what comes after is not remembered.
 * Room-internal; one thread at a time. */
#ifndef MODELS_DATA_SAMPLE_SET_H
#define MODELS_DATA_SAMPLE_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/err.h"
#include "models/data/sample.h"

struct sample_set;

/* At most `capacity` are remembered. ERR_NO_MEMORY. */
MUST_USE enum err sample_set_new(size_t capacity, struct sample_set **out_set);
void sample_set_free(struct sample_set *s);

/* The 64 bits of a sample's inputs [n_inputs]. */
uint64_t sample_key(const struct digest_fn *fn, const struct sample *sample, size_t n_inputs);

/* ERR_NO_MEMORY. */
MUST_USE enum err sample_set_put(struct sample_set *s, uint64_t key);
bool sample_set_has(const struct sample_set *s, uint64_t key);

#endif
