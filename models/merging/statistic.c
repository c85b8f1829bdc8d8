#include "models/merging/statistic.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/must.h"
#include "models/floats.h"
#include "models/kernels/order.h"

const char *statistic_policy_name(enum statistic_policy policy) {
  static const char *const names[] = {
      [STATISTIC_MEAN] = "mean", [STATISTIC_LOCAL] = "local", [STATISTIC_POOLED] = "pooled"};
  return names[policy];
}

static const char variance_suffix[] = ".running_var", mean_suffix[] = ".running_mean";

/* Length of the name before the suffix; 0: it does not end so. */
static size_t stem_bytes(const char *name, const char *suffix) {
  size_t n = strlen(name), n_suffix = strlen(suffix);
  return n > n_suffix && strcmp(name + n - n_suffix, suffix) == 0 ? n - n_suffix : 0;
}

bool statistic_is_variance(const struct tensor *t) {
  return stem_bytes(t->name, variance_suffix) > 0;
}

static bool is_mean_of(const struct tensor *t, const struct tensor *variance) {
  size_t n = stem_bytes(variance->name, variance_suffix);
  return t->role == ROLE_STATISTIC && t->n_values == variance->n_values && stem_bytes(t->name, mean_suffix) == n &&
         memcmp(t->name, variance->name, n) == 0;
}

static struct statistic describe(const struct schema *schema, const struct tensor *t) {
  struct statistic s = {.offset = t->offset, .n = t->n_values, .is_variance = statistic_is_variance(t)};
  for (size_t i = 0; s.is_variance && i < schema_tensors(schema) && !s.has_mean; i++) {
    const struct tensor *other = schema_tensor(schema, i);
    s.has_mean = is_mean_of(other, t);
    s.mean_offset = other->offset;
  }
  return s;
}

enum err statistics_open(const struct schema *schema, struct statistics *out_statistics) {
  struct statistics s = {.list = calloc(schema_tensors(schema), sizeof *s.list)};
  if (!s.list)
    return ERR_NO_MEMORY;
  for (size_t i = 0; i < schema_tensors(schema); i++) {
    const struct tensor *t = schema_tensor(schema, i);
    if (t->role != ROLE_STATISTIC)
      continue;
    s.list[s.n++] = describe(schema, t);
  }
  *out_statistics = s;
  return ERR_OK;
}

void statistics_done(struct statistics *s) {
  free(s->list);
  *s = (struct statistics){0};
}

/* ---- merging */

struct merging {
  const float *x, *own;
  const struct mean_term *terms;
  size_t n_terms;
  double own_share;
};

static double averaged(const struct merging *m, size_t at) {
  double sum = (double)m->x[at];
  for (size_t j = 0; j < m->n_terms; j++)
    sum += m->terms[j].weight * ((double)m->terms[j].values[at] - (double)m->own[at]);
  return sum;
}

static double kept(const struct merging *m, size_t at) {
  return (double)m->x[at];
}

static double pooled_mean(const struct merging *m, size_t at) {
  double sum = m->own_share * (double)m->x[at];
  for (size_t j = 0; j < m->n_terms; j++)
    sum += m->terms[j].weight * (double)m->terms[j].values[at];
  return sum;
}

/* v + (m − m̄)² of one model. */
static double second_moment(const float *model, size_t at, size_t mean_at, double mean) {
  double d = (double)model[mean_at] - mean;
  return fmax(0, (double)model[at]) + d * d;
}

static double pooled_variance(const struct merging *m, size_t at, size_t mean_at) {
  double mean = pooled_mean(m, mean_at), sum = m->own_share * second_moment(m->x, at, mean_at, mean);
  for (size_t j = 0; j < m->n_terms; j++)
    sum += m->terms[j].weight * second_moment(m->terms[j].values, at, mean_at, mean);
  return sum;
}

static double merged(const struct merging *m, enum statistic_policy policy, const struct statistic *s, size_t i) {
  static double (*const alone[])(const struct merging *, size_t) = {
      [STATISTIC_MEAN] = averaged, [STATISTIC_LOCAL] = kept, [STATISTIC_POOLED] = pooled_mean};
  bool is_pair = policy == STATISTIC_POOLED && s->has_mean;
  double value = is_pair ? pooled_variance(m, s->offset + i, s->mean_offset + i) : alone[policy](m, s->offset + i);
  return s->is_variance && value < 0 ? 0 : value;
}

enum err statistics_merge(const struct statistics *s, enum statistic_policy policy, const float *x, const float *own,
                          const struct mean_term *terms, size_t n_terms, float *out_x) {
  struct merging m = {.x = x, .own = own, .terms = terms, .n_terms = n_terms, .own_share = 1};
  bool finite = true;
  for (size_t j = 0; j < n_terms; j++)
    m.own_share -= terms[j].weight;
  m.own_share = fmax(0, m.own_share); /* Σ w = 1 may round above it */
  for (size_t k = 0; k < s->n; k++) {
    float *out = out_x + s->list[k].offset;
    for (size_t i = 0; i < s->list[k].n; i++)
      out[i] = (float)merged(&m, policy, &s->list[k], i);
    finite = finite && floats_finite(out, s->list[k].n);
  }
  return finite ? ERR_OK : ERR_MERGE_REFUSED;
}

static void trim(const struct statistic *s, const float *const *models, size_t n_models, size_t f, double share,
                 float *out) {
  const float *at[MAX_PEERS + 1];
  for (size_t j = 0; j < n_models; j++)
    at[j] = models[j] + s->offset;
  order_fastest()->trimmed(at, n_models, s->n, f, out);
  for (size_t i = 0; i < s->n && share < 1; i++)
    out[i] = (float)((double)at[0][i] + share * ((double)out[i] - (double)at[0][i]));
}

enum err statistics_trim(const struct statistics *s, enum statistic_policy policy, const float *const *models,
                         size_t n_models, size_t f, double share, float *out_x) {
  bool finite = true;
  for (size_t k = 0; k < s->n; k++) {
    const struct statistic *one = &s->list[k];
    if (policy == STATISTIC_LOCAL)
      memcpy(out_x + one->offset, models[0] + one->offset, one->n * sizeof *out_x);
    else
      trim(one, models, n_models, f, share, out_x + one->offset);
    finite = finite && floats_finite(out_x + one->offset, one->n);
  }
  statistics_floor(s, out_x);
  return finite ? ERR_OK : ERR_MERGE_REFUSED;
}

void statistics_floor(const struct statistics *s, float *x) {
  for (size_t k = 0; k < s->n; k++)
    for (size_t i = 0; s->list[k].is_variance && i < s->list[k].n; i++) {
      float *v = &x[s->list[k].offset + i];
      *v = *v < 0 ? 0 : *v;
    }
}

void learnt_range(const struct statistics *s, size_t k, size_t n, size_t *out_start, size_t *out_end) {
  *out_start = k > 0 ? s->list[k - 1].offset + s->list[k - 1].n : 0;
  *out_end = k < s->n ? s->list[k].offset : n;
}

double learnt_distance(const struct statistics *s, const float *a, const float *b, size_t n) {
  if (s->n == 0)
    return floats_distance(a, b, n);
  double sum = 0;
  for (size_t k = 0; k <= s->n; k++) {
    size_t at, end;
    learnt_range(s, k, n, &at, &end);
    double d = floats_distance(a + at, b + at, end - at);
    sum += d * d;
  }
  return sqrt(sum);
}

double learnt_cosine(const struct statistics *s, const float *origin, const float *a, const float *b, size_t n) {
  double product = 0, of_a = 0, of_b = 0;
  for (size_t k = 0; k <= s->n; k++) {
    size_t at, end;
    learnt_range(s, k, n, &at, &end);
    for (; at < end; at++) {
      double d_a = (double)a[at] - (double)origin[at], d_b = (double)b[at] - (double)origin[at];
      product += d_a * d_b;
      of_a += d_a * d_a;
      of_b += d_b * d_b;
    }
  }
  double length = sqrt(of_a) * sqrt(of_b), cosine = product / length;
  return length > 0 && isfinite(cosine) ? fmax(-1, fmin(1, cosine)) : 0;
}
