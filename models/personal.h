/* Personalisation: which model of a site is judged and served, and how it is made of what the swarm has.
 *
 *   none         the swarm's model x itself
 *   partial      x, whose personal layers never leave: trained with the others in each step (FedPer; Arivazhagan et al. 2019), or
 *                first for head_epochs with the others fixed, after which those are trained with them fixed (FedRep; Collins et
 *                al. 2021)
 *   finetune     v: x after one more epoch here, made anew after each merge; the swarm goes on with x
 *   ditto        v ← v − η(∇f(v) + λ(v − x)), kept from round to round (Ditto; Li et al. 2021), x being the merged model, and
 *                as many steps as a round has
 *   interpolate  αv + (1 − α)x (APFL; Deng et al. 2020): v is trained by the gradient at that mixture, and α, ½ at first, goes
 *                half of the way to that of 0, 0.1 … 1 whose mixture has the least loss on the site's validation samples
 *
 * v is of this site alone. Its steps have no momentum from before, and come when the merge is done. What does not lead to finite
 * numbers is not taken. Pure. */
#ifndef MODELS_PERSONAL_H
#define MODELS_PERSONAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum personal_method {
  PERSONAL_NONE,
  PERSONAL_PARTIAL,
  PERSONAL_FINETUNE,
  PERSONAL_DITTO,
  PERSONAL_INTERPOLATE,
  N_PERSONAL_METHODS
};

struct personal_config {
  enum personal_method method;
  uint32_t head_epochs; /* partial: passes in which only the personal layers are trained; 0: all are trained together */
  double lambda;        /* ditto: λ ≥ 0 */
};

struct personal_type {
  const char *word;    /* in job files and in views: "ditto" */
  size_t n_models;     /* beside x: v, and the mixture */
  bool needs_gradient; /* apart from the step */
  bool wants_validation;
};

const struct personal_type *personal_type(enum personal_method method);

/* Whether every number is in its range and finite. */
bool personal_fits(const struct personal_config *c);

#endif
