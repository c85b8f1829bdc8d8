#include "models/share.h"

#include <stdlib.h>
#include <string.h>

static enum err open_ranges(const struct schema *schema, struct share *s, struct tensor *out_tensors, size_t *out_n) {
  size_t n = 0;
  for (size_t i = 0; i < schema_tensors(schema); i++) {
    const struct tensor *t = schema_tensor(schema, i);
    if (t->role == ROLE_PERSONAL)
      continue;
    struct share_range *last = s->n_ranges > 0 ? &s->ranges[s->n_ranges - 1] : NULL;
    if (last && last->offset + last->n == t->offset)
      last->n += t->n_values;
    else
      s->ranges[s->n_ranges++] = (struct share_range){t->offset, s->n, t->n_values};
    out_tensors[n++] = *t;
    s->n += t->n_values;
  }
  *out_n = n;
  return n > 0 ? ERR_OK : ERR_UNSUPPORTED;
}

enum err share_open(const struct schema *schema, struct share *out_share) {
  size_t n_tensors = schema_tensors(schema), n = 0;
  struct share s = {.ranges = calloc(n_tensors, sizeof *s.ranges)};
  struct tensor *tensors = calloc(n_tensors, sizeof *tensors);
  enum err e = s.ranges && tensors ? open_ranges(schema, &s, tensors, &n) : ERR_NO_MEMORY;
  if (!e)
    e = schema_new(tensors, n, &s.schema);
  free(tensors);
  if (e) {
    share_close(&s);
    return e;
  }
  *out_share = s;
  return ERR_OK;
}

void share_close(struct share *s) {
  free(s->ranges);
  schema_free(s->schema);
  *s = (struct share){0};
}

void share_gather(const struct share *s, const float *model, float *out_part) {
  for (size_t i = 0; i < s->n_ranges; i++)
    memcpy(out_part + s->ranges[i].at, model + s->ranges[i].offset, s->ranges[i].n * sizeof *model);
}

void share_scatter(const struct share *s, const float *part, float *model) {
  for (size_t i = 0; i < s->n_ranges; i++)
    memcpy(model + s->ranges[i].offset, part + s->ranges[i].at, s->ranges[i].n * sizeof *model);
}
