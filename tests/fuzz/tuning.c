/* The tuning file of a job. What is read can be gone on from: nets train with what it chose, and the tuner, with what it
 * knows of other hosts, learns this one and chooses of what there is. What is refused leaves nothing. */
#include "agent/tuning_file.h"

#include <math.h>
#include <stdlib.h>

#include "base/must.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/parts.h"
#include "tests/fuzz/small_learner.h"

enum { BATCH = 16 };

static struct plan plan;

/* By hand, so that the corpus stays of this plan whatever kernels and splits there come to be. */
static void plan_small(void) {
  static struct schema *s; /* lives as long as the program */
  char why[MAX_REASON_BYTES];
  MUST(schema_from_arch("dense 4, relu, dense classes", small_contract(), &s, why) == ERR_OK);
  plan = (struct plan){.arch = schema_arch(s),
                       .batch = BATCH,
                       .n_operations = 2,
                       .operations = {{1, 2, 4, 1, 2, {0, 1}}, {1, 4, 2, 1, 2, {0, 1}}},
                       .layers = {0, 2},
                       .keys = {"dense 4 of 1x1x2 batch 16", "dense 2 of 1x1x4 batch 16"},
                       .n_variants = 2,
                       .variants = {"dense plain", "dense other"},
                       .n_splits = 4,
                       .splits = {{1, 1, 0}, {1, 1, 4}, {2, 1, 4}, {2, 2, 4}}};
}

static void train_with(const struct selection *s) {
  struct selection alone = *s;
  struct workload *w;
  alone.threads = 1;
  MUST(workload_open_net(&plan, &alone, NULL, &w) == ERR_OK);
  workload_run(w);
  workload_close(w);
}

static void learn_again(const struct tuning *t) {
  struct tuner_config config = tuner_defaults();
  struct tuner *tuner;
  struct tuner_cell cell;
  struct tuner_choice choice;
  bool has;
  config.operations = plan.operations;
  config.n_operations = plan.n_operations;
  config.splits = plan.splits;
  config.n_splits = plan.n_splits;
  config.batch = plan.batch;
  config.n_variants = plan.n_variants;
  tuner_learn_again(&config, t->cost, (struct tuner_host){t->hosts[0].processors, t->hosts[0].number});
  MUST(tuner_new(&config, &tuner) == ERR_OK);
  double seconds = 1e-5;
  while (MUST(tuner_next(tuner, &cell, &has) == ERR_OK), has) {
    tuner_put(tuner, &cell, seconds);
    seconds *= 1.5;
  }
  MUST(tuner_measured(tuner) > 0 && tuner_choose(tuner, &choice) == ERR_OK);
  struct selection chosen;
  plan_selection(&plan, &choice, &chosen);
  tuner_free(tuner);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static struct tuning t;
  if (plan.arch == NULL)
    plan_small();
  struct memory_file f = memory_file_new(data, size);
  enum err e = tuning_file_read(f.path, &plan, &t);
  MUST(t.n_hosts <= MAX_TUNED_HOSTS && (e == ERR_OK || (t.n_hosts == 0 && t.cost == NULL)));
  for (size_t i = 0; i < t.n_hosts; i++)
    train_with(&t.hosts[i].selection);
  if (t.n_hosts > 0 && t.cost != NULL)
    learn_again(&t);
  tuning_done(&t);
  memory_file_free(&f);
  return 0;
}
