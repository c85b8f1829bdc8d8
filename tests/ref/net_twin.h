/* The net once more, in double and with naive loops: what models/net must agree with, whichever kernels it takes. The
 * kinds of layers are rows (tests/ref/twin_layer.h). */
#ifndef TESTS_REF_NET_TWIN_H
#define TESTS_REF_NET_TWIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rng.h"
#include "models/net/arch.h"

struct twin_batch {
  size_t n;
  const double *x;           /* [n][n_inputs] */
  const uint16_t *labels;    /* [n] for cross-entropy */
  const double *targets;     /* [n][n_outputs] for mean squared error */
  const struct rng *dropout; /* start of the stream; NULL: no dropout */
  bool training;             /* norms take the batch's statistics, not the running ones */
  double *z;                 /* where the outputs are wanted, [n][n_outputs]; NULL: nowhere */
};

/* The mean loss of the batch; when g [P] is not NULL also its gradient by the weights w [P]. */
double net_twin(const struct arch *a, const double *w, const struct twin_batch *batch, double *g);

#endif
