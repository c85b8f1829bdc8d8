/* The part of a model that travels: all tensors but the personal ones, in schema order without gaps. Payloads, public copies
 * and copies of peers hold it and nothing else. Where no tensor is personal it is the model. Immutable after share_open. */
#ifndef MODELS_SHARE_H
#define MODELS_SHARE_H

#include <stddef.h>

#include "base/err.h"
#include "models/schema.h"

/* Consecutive values. */
struct share_range {
  size_t offset; /* in the model */
  size_t at;     /* in the part */
  size_t n;
};

struct share {
  size_t n; /* values that travel */
  size_t n_ranges;
  struct share_range *ranges;
  struct schema *schema; /* of the part: its offsets are places in it */
};

/* ERR_UNSUPPORTED: every tensor is personal; ERR_NO_MEMORY. */
MUST_USE enum err share_open(const struct schema *schema, struct share *out_share);
void share_close(struct share *s);

/* model [P] → part [n], and back; other values of the model stay. */
void share_gather(const struct share *s, const float *model, float *out_part);
void share_scatter(const struct share *s, const float *part, float *model);

#endif
