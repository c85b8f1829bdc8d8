/* FedProx (Li et al. 2020): ½μ‖x − w‖² is added to the loss, w being the model with which the round began, so that local
 * steps stay near what the swarm has. Its gradient is μ(x − w). */
#include <string.h>

#include "models/term.h"

static bool is_on(const struct train_config *c) {
  return c->proximal > 0;
}

static enum err begin(struct term *t, const struct training *training) {
  memcpy(t->work[0], training->x, net_floats(training->net) * sizeof *training->x);
  return ERR_OK;
}

static enum err gradient(struct term *t, const struct training *training, const struct term_batch *b) {
  const float mu = (float)training->config->proximal, *w = t->work[0];
  for (size_t i = 0; i < training->n_ranges; i++) {
    const struct net_range *r = &training->ranges[i];
    for (size_t k = r->offset; k < r->offset + r->n; k++)
      b->g[k] += mu * (training->x[k] - w[k]);
  }
  return ERR_OK;
}

const struct term_type term_proximal = {
    .word = "proximal", .n_work = 1, .is_on = is_on, .begin = begin, .at[TERM_GRADIENT] = gradient};
