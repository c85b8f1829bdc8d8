#include "models/personal.h"

#include <math.h>

#include "base/must.h"

static const struct personal_type types[N_PERSONAL_METHODS] = {
    [PERSONAL_NONE] = {.word = "none"},
    [PERSONAL_PARTIAL] = {.word = "partial"},
    [PERSONAL_FINETUNE] = {.word = "finetune", .n_models = 1},
    [PERSONAL_DITTO] = {.word = "ditto", .n_models = 1, .needs_gradient = true},
    [PERSONAL_INTERPOLATE] = {.word = "interpolate", .n_models = 2, .wants_validation = true},
};

const struct personal_type *personal_type(enum personal_method method) {
  MUST((size_t)method < N_PERSONAL_METHODS);
  return &types[method];
}

bool personal_fits(const struct personal_config *c) {
  return (size_t)c->method < N_PERSONAL_METHODS && isfinite(c->lambda) && c->lambda >= 0 && c->lambda <= 1e6;
}
