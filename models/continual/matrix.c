#include "models/continual/matrix.h"

#include <math.h>
#include <stdbool.h>

/* When a task was trained, the first time; n_times: not yet. */
static size_t trained_at(const size_t *trained, size_t n_times, size_t task) {
  size_t t = 0;
  while (t < n_times && trained[t] != task)
    t++;
  return t;
}

static double mean_of(double sum, size_t n) {
  return n > 0 ? sum / (double)n : NAN;
}

/* The best accuracy on a task before the last time. */
static double best_before(const double *r, size_t n_times, size_t n_tasks, size_t q) {
  double best = NAN;
  for (size_t t = 0; t + 1 < n_times; t++)
    best = fmax(best, r[t * n_tasks + q]); /* fmax leaves NaN out */
  return best;
}

struct continual_summary matrix_summary(const double *r, const size_t *trained, size_t n_times, size_t n_tasks) {
  double acc = 0, bwt = 0, forgetting = 0;
  size_t n_acc = 0, n_past = 0;
  for (size_t q = 0; q < n_tasks && n_times > 0; q++) {
    size_t at = trained_at(trained, n_times, q);
    double last = r[(n_times - 1) * n_tasks + q];
    if (at == n_times || isnan(last))
      continue;
    acc += last;
    n_acc++;
    if (trained[n_times - 1] == q || isnan(r[at * n_tasks + q]))
      continue;
    bwt += last - r[at * n_tasks + q];
    forgetting += best_before(r, n_times, n_tasks, q) - last;
    n_past++;
  }
  return (struct continual_summary){mean_of(acc, n_acc), mean_of(bwt, n_past), mean_of(forgetting, n_past)};
}
