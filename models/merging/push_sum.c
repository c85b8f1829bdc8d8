#include "models/merging/push_sum.h"

#include <math.h>
#include <string.h>

#include "base/must.h"
#include "models/floats.h"

static float stays(const struct push *p, float z, float sum, float pushed) {
  double given = (double)p->n_told * ((double)pushed - (double)sum);
  return (float)((p->mass * (double)z - given) / p->rest);
}

enum err push_sum_push(const struct push *p, float *z, const float *sum, size_t n, float *out_sum) {
  if (p->n_told == 0) {
    memcpy(out_sum, sum, n * sizeof *sum);
    return ERR_OK;
  }
  MUST(p->amount > 0 && p->rest > 0);
  bool finite = true;
  for (size_t i = 0; i < n; i++) {
    out_sum[i] = (float)((double)sum[i] + p->amount * (double)z[i]);
    finite = finite && isfinite(out_sum[i]) && isfinite(stays(p, z[i], sum[i], out_sum[i]));
  }
  if (!finite)
    return ERR_NON_FINITE;
  for (size_t i = 0; i < n; i++)
    z[i] = stays(p, z[i], sum[i], out_sum[i]);
  return ERR_OK;
}

void push_sum_take_back(const struct push *p, float *z, const float *sum, const float *pushed, size_t n) {
  for (size_t i = 0; i < n && p->n_told > 0; i++) {
    double given = (double)p->n_told * ((double)pushed[i] - (double)sum[i]);
    z[i] = (float)((p->rest * (double)z[i] + given) / p->mass);
  }
}

void push_sum_begin(double mass, const float *z, size_t n, double *out_u) {
  for (size_t i = 0; i < n; i++)
    out_u[i] = mass * (double)z[i];
}

void push_sum_take(double share, const float *sum, float *copy, size_t n, double *u) {
  for (size_t i = 0; i < n; i++) {
    u[i] += share * ((double)sum[i] - (double)copy[i]);
    copy[i] = sum[i];
  }
}

enum err push_sum_end(double mass, const double *u, size_t n, float *out_z) {
  for (size_t i = 0; i < n; i++)
    out_z[i] = (float)(u[i] / mass);
  return floats_finite(out_z, n) ? ERR_OK : ERR_NON_FINITE;
}
