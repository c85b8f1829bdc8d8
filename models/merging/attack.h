/* Attackers for simulations and tests, which know more than a real one: what all honest agents send in the same round. Nothing
 * deployed names this file (tests/lint/layers).
 *
 *   sign-flip    its own step, reversed: before − 5 (x − before)
 *   gaussian     before + N(0, σ²), σ ten times the root mean square of its own step
 *   alie         μ − 1.5 σ of the honest ones, by coordinate (Baruch et al. 2019)
 *   ipm          origin − 5 (μ − origin): inner product manipulation (Xie, Koyejo & Gupta 2020)
 *   dissensus    a victim is pushed away from the others: v − (μ − v) (He, Karimireddy & Jaggi 2022). There it sends each neighbour something
 *                else; here that is an equivocation, which its own signatures prove, so all get what is made for the round's victim
 *   stale        the first weights, all attackers the same
 *   free-rider   what it had before its training
 *   replay       what it sent some rounds ago
 *   label-flip   trains on the classes counted from the other end
 *   backdoor     trains on samples with a bright corner as if they were of class 0
 *   median       knows that a rule goes by distances: against the honest ones' step, as far from their mean as their median is from it
 *   adaptive     knows the rule in use: of ten lengths against the honest ones' step the one by which that rule loses most
 *
 * Equivocation itself is no payload: tests/unit/agent/test_inbox.c (two_roots_at_one_position_are_an_equivocation), test_round.c
 * (equivocation_quarantines) and tests/swarm/test_hostile.py have it. Pure but for memory of its own. */
#ifndef MODELS_MERGING_ATTACK_H
#define MODELS_MERGING_ATTACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "models/data/dataset.h"
#include "models/merging/rule.h"

enum attack {
  ATTACK_NONE,
  ATTACK_SIGN_FLIP,
  ATTACK_GAUSSIAN,
  ATTACK_ALIE,
  ATTACK_IPM,
  ATTACK_DISSENSUS,
  ATTACK_STALE,
  ATTACK_FREE_RIDER,
  ATTACK_REPLAY,
  ATTACK_LABEL_FLIP,
  ATTACK_BACKDOOR,
  ATTACK_MEDIAN,
  ATTACK_ADAPTIVE,
  N_ATTACKS
};

const char *attack_name(enum attack attack); /* as above; "none" */

/* ERR_NOT_FOUND: no such word. */
MUST_USE enum err attack_find(const char *name, enum attack *out_attack);

/* What an attacker knows in a round. */
struct attack_view {
  size_t n_values;
  const float *before; /* [P] its model before its training */
  const float *origin; /* [P] the mean of the honest ones' before theirs */
  const float *first;  /* [P] */
  const float *past;   /* [P] what it sent some rounds ago; NULL: nothing yet */
  const float *const *honest;
  size_t n_honest; /* at least 1: models of honest ones after their training */
  uint64_t seed;   /* of noise and of the victim, by round */

  const struct rule_setting
      *rule; /* adaptive: of the honest ones, and how many attackers one of them has among its peers */
  size_t n_bad;
};

/* What it sends, in the place of x [P], which its training made. Attacks on data leave that as it is. ERR_NO_MEMORY. */
MUST_USE enum err attack_send(enum attack attack, const struct attack_view *view, float *x);

/* It changes samples, and sends what it learns of them. */
bool attack_is_on_data(enum attack attack);

/* What attacks on data make of the samples that it trains on, which lie in memory; row_inputs: of a row of an image. */
void attack_on_data(enum attack attack, struct dataset *d, size_t row_inputs);

/* The bright corner alone, to judge a backdoor by. */
void attack_mark(struct dataset *d, size_t row_inputs);

#endif
