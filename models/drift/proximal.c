/* FedProx (Li et al. 2020): ½μ‖x − w‖² is added to the loss, w being the model with which the round began, so that local
 * steps stay near what the swarm has. Its gradient is μ(x − w); personal layers have no w in the swarm, and are not pulled. */
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
  term_pull_shared(training, training->config->proximal, t->work[0], b->g);
  return ERR_OK;
}

const struct term_type term_proximal = {
    .word = "proximal", .n_work = 1, .is_on = is_on, .begin = begin, .at[TERM_GRADIENT] = gradient};
