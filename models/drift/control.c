/* Control variates for gossip, after SCAFFOLD (Karimireddy et al. 2020): a local step is taken along g + ρ(c − c_i), so
 * that a site whose data pull its gradient away from that of the others does not drift with it. c_i is the mean gradient of
 * the last round here,
 *
 *   c_i ← (x₀ − x_K)/(Kη) − ρ(c − c_i)      x₀ the model with which a round of K steps began, x_K the half-step
 *
 * and c that of the neighbourhood. There a server would add up all c_i; here nothing more travels than the models do, and c
 * is read from what the merge made of them:
 *
 *   c = (x₀ of the last round − x₀ of this one)/(Kη)
 *
 * Where every agent is every other's peer, merges with equal weights and takes as many steps of the same rate, this is the
 * mean of the c_i, as in the paper. Elsewhere it is an approximation: on sparser graphs the disagreement with the neighbours
 * stands in c, too, as does what a lossy codec has not sent yet or a norm bound has cut, and a peer that was not heard is
 * missing. What c and the mean of the c_i then differ by would stay for ever with ρ = 1, the paper's; with ρ = 0.9 it dies
 * away, and some of the drift is left. Where the training before this one is not that of the round before, because that one
 * failed or the site jumped to the swarm's round, there is no c for a round. Personal layers have none.
 *
 * Plain steps of descent only: with momentum or adam (x₀ − x_K)/(Kη) is no mean gradient. */
#include <string.h>

#include "models/term.h"

#define RHO 0.9

enum { OWN, ORIGIN, N_KEPT };         /* c_i; x₀ of the last training */
enum { SPAN, ROUND, SUB, N_NUMBERS }; /* its Kη, 0: there was none; and its label */
enum { CORRECTION, NOW, N_WORK };

static bool is_on(const struct train_config *c) {
  return c->control_variates;
}

/* Whether one merge lies between the last training and this one: a round goes on in the next or in its next sub-round. */
static bool is_next(const struct term *t, const struct training *training) {
  double round = (double)training->round, sub = (double)training->sub;
  return (round == t->numbers[ROUND] + 1 && training->sub == 0) ||
         (round == t->numbers[ROUND] && sub == t->numbers[SUB] + 1);
}

/* ρ(c − c_i), in the order of the model; false: there is none. */
static bool correct(const struct term *t, const struct training *training, float *out) {
  const float *own = t->kept[OWN], *origin = t->kept[ORIGIN];
  size_t n = training->n_values;
  if (t->numbers[SPAN] <= 0 || !is_next(t, training))
    return false;
  for (size_t i = 0; i < n; i++)
    out[i] = (float)(RHO * (((double)origin[i] - (double)training->start[i]) / t->numbers[SPAN] - (double)own[i]));
  return true;
}

static enum err begin(struct term *t, const struct training *training) {
  float *correction = t->work[CORRECTION];
  if (!correct(t, training, correction))
    memset(correction, 0, training->n_values * sizeof *correction);
  net_load(training->net, correction);
  memcpy(t->kept[ORIGIN], training->start, training->n_values * sizeof *correction);
  return ERR_OK;
}

static enum err gradient(struct term *t, const struct training *training, const struct term_batch *b) {
  const float *correction = t->work[CORRECTION];
  for (size_t i = 0; i < training->n_shared; i++) {
    const struct net_range *r = &training->shared[i];
    for (size_t k = r->offset; k < r->offset + r->n; k++)
      b->g[k] += correction[k];
  }
  return ERR_OK;
}

/* (x₀ − x_K)/(Kη) less the correction, which is in every step */
static enum err end(struct term *t, const struct training *training) {
  float *correction = t->work[CORRECTION], *now = t->work[NOW], *own = t->kept[OWN];
  t->numbers[SPAN] = (double)training->n_steps * training->rate;
  t->numbers[ROUND] = (double)training->round;
  t->numbers[SUB] = training->sub;
  if (t->numbers[SPAN] <= 0)
    return ERR_OK;
  net_store(training->net, correction);
  net_store_to(training->net, training->x, now);
  for (size_t i = 0; i < training->n_values; i++)
    own[i] = (float)(((double)training->start[i] - (double)now[i]) / t->numbers[SPAN] - (double)correction[i]);
  return ERR_OK;
}

/* The next round begins without. */
static void forget(struct term *t) {
  t->numbers[SPAN] = 0;
}

const struct term_type term_control = {.word = "control",
                                       .n_kept = N_KEPT,
                                       .n_numbers = N_NUMBERS,
                                       .n_work = N_WORK,
                                       .is_undone = true,
                                       .is_on = is_on,
                                       .begin = begin,
                                       .end = end,
                                       .at[TERM_GRADIENT] = gradient,
                                       .forget = forget};
