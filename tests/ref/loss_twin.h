/* The losses once more, in double and by their formulas: what models/net/loss.c must agree with. */
#ifndef TESTS_REF_LOSS_TWIN_H
#define TESTS_REF_LOSS_TWIN_H

#include <stddef.h>

#include "models/net/loss.h"

/* The mean of the batch, z [n][k]. */
double loss_twin(const struct loss *loss, const double *z, const struct answers *answers, size_t n, size_t k);

#endif
