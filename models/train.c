#include "models/train.h"

#include <math.h>
#include <stdbool.h>

#include "base/limits.h"

static bool within(double v, double lo, double hi) {
  return isfinite(v) && v >= lo && v <= hi;
}

enum err train_config_check(const struct train_config *c) {
  bool fits = (c->epochs > 0 || c->steps > 0) && c->batch >= 1 && c->batch <= MAX_BATCH;
  fits = fits && within(c->learning_rate, 0, 1e6) && c->learning_rate > 0;
  fits = fits && optimiser_fits(&c->optimiser);
  fits = fits && within(c->label_smoothing, 0, 1) && c->label_smoothing < 1 && within(c->huber_delta, 0, 1e6);
  fits = fits && within(c->proximal, 0, 1e6) && personal_fits(&c->personal);
  fits = fits && (!c->control_variates || (optimiser_folds(&c->optimiser) && c->optimiser.momentum <= 0));
  for (size_t i = 0; fits && i < c->class_weights.n; i++)
    fits = within((double)c->class_weights.values[i], 0, 1e6);
  switch (c->schedule) {
  case SCHEDULE_CONSTANT:
    break;
  case SCHEDULE_STEP:
    fits = fits && c->step_rounds > 0 && within(c->step_factor, 0, 1e6);
    break;
  case SCHEDULE_COSINE:
    fits = fits && c->total_rounds > 0;
    break;
  default:
    fits = false;
  }
  return fits ? ERR_OK : ERR_RANGE;
}

double train_rate(const struct train_config *c, uint64_t round) {
  const double pi = 3.14159265358979323846;
  uint64_t done = round > 0 ? round - 1 : 0, drops;
  switch (c->schedule) {
  case SCHEDULE_STEP:
    drops = done / c->step_rounds;
    return c->learning_rate * pow(c->step_factor, (double)drops);
  case SCHEDULE_COSINE:
    if (done >= c->total_rounds)
      return 0;
    return c->learning_rate * 0.5 * (1 + cos(pi * (double)done / (double)c->total_rounds));
  case SCHEDULE_CONSTANT:
    break;
  }
  return c->learning_rate;
}

void train_stream(struct rng *out_rng, enum stream stream, uint64_t train_seed, uint32_t part, uint64_t round,
                  uint32_t sub) {
  const uint64_t values[] = {stream, train_seed, part, round, sub};
  uint64_t h = 0;
  for (size_t i = 0; i < sizeof values / sizeof *values; i++)
    h = rng_mix(h + values[i]);
  rng_init(out_rng, h);
}
