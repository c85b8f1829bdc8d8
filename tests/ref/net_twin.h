/* The net once more, in double and with naive loops: what models/net/net.c, layer.c and loss.c must agree with. */
#ifndef TESTS_REF_NET_TWIN_H
#define TESTS_REF_NET_TWIN_H

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
};

/* The mean loss of the batch; when g [P] is not NULL also its gradient by the weights w [P]. */
double net_twin(const struct arch *a, const double *w, const struct twin_batch *batch, double *g);

#endif
