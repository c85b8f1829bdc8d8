/* A learner of two inputs and two classes that follows one peer, for the targets that feed it. */
#ifndef TESTS_FUZZ_SMALL_LEARNER_H
#define TESTS_FUZZ_SMALL_LEARNER_H

#include "base/must.h"
#include "models/contract.h"
#include "models/learner.h"

enum { SMALL_VALUES = (2 + 1) * 2 };

/* Kept for the life of the program, as is the learner's schema. */
static inline struct contract *small_contract(void) {
  static struct contract *c;
  c = contract_new();
  MUST(c != NULL);
  MUST(contract_add_class(c, "a") == ERR_OK && contract_add_class(c, "b") == ERR_OK);
  MUST(contract_add_feature(c, "x", NULL) == ERR_OK && contract_add_feature(c, "y", NULL) == ERR_OK);
  return c;
}

static inline struct learner *small_learner_by(const struct contract *c, struct optimiser_config optimiser) {
  static struct schema *schema;
  struct learner *l;
  char why[MAX_REASON_BYTES];
  if (schema == NULL)
    MUST(schema_from_arch("dense classes", c, &schema, why) == ERR_OK);
  struct learner_config config = {.schema = schema,
                                  .train = {.epochs = 1, .batch = 4, .learning_rate = 0.1, .optimiser = optimiser},
                                  .n_copies = 1};
  MUST(learner_open(&config, &l) == ERR_OK && learner_copy_bytes(l) == sizeof(float[SMALL_VALUES]));
  return l;
}

static inline struct learner *small_learner(const struct contract *c) {
  return small_learner_by(c, (struct optimiser_config){.kind = OPTIMISER_SGD});
}

#endif
