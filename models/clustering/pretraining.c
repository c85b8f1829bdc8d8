#include "models/clustering/pretraining.h"

#include <stdlib.h>
#include <string.h>

#include "models/floats.h"

static struct learner_config config_like(const struct learner_config *like, uint32_t steps) {
  struct learner_config config = *like;
  config.train.epochs = 0;
  config.train.steps = steps;
  config.train.schedule = SCHEDULE_CONSTANT;
  config.codec = (struct codec){.kind = CODEC_F32};
  config.train_seed = 0;
  config.part = 0;
  config.n_copies = 0;
  config.continual = NULL;
  config.train.proximal = 0;
  config.train.control_variates = false;
  config.train.personal = (struct personal_config){0};
  return config;
}

static enum err train(struct learner *l, const struct dataset *samples, const struct work_hook *hook) {
  const struct dataset *const no_tests[N_TEST_SETS] = {NULL};
  struct train_report report;
  enum err e = learner_attach(l, samples, no_tests);
  return e == ERR_OK ? learner_train(l, 1, 0, 1, hook, &report) : e;
}

enum err pretraining_sketch(const struct learner_config *like, uint32_t steps, const struct dataset *samples,
                            const struct digest *seed, const struct work_hook *hook, struct sketch *out_sketch) {
  struct learner_config config = config_like(like, steps);
  size_t n = schema_parameters(like->schema);
  float *first = floats_new(n);
  struct learner *l = NULL;
  enum err e = first ? learner_open(&config, &l) : ERR_NO_MEMORY;
  if (e != ERR_OK)
    goto out;
  memcpy(first, learner_values(l), n * sizeof *first);
  if ((e = train(l, samples, hook)) == ERR_OK)
    e = sketch_of(like->schema, first, learner_values(l), seed, out_sketch);
out:
  learner_free(l);
  free(first);
  return e;
}
