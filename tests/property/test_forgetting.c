/* Split-Fashion-MNIST, five tasks of two classes, MLP 784-200-200, Adam 1e-3, batch 128: what each way keeps, as published
 * (van de Ven & Tolias 2019 for Split-MNIST; the figures for garments are METHODS' own). Class-incremental only replay helps, and
 * that EWC and LwF do not is the right result; peers that meet the tasks in another order teach each other what each would forget. */
#include <stdio.h>
#include <unistd.h>

#include "models/continual/matrix.h"
#include "models/learner.h"
#include "tests/size.h"
#include "tests/unit/models/toy.h"
#include "tests/unit/suite.h"

enum { TURNS = 5, ROUNDS = 5, CLASSES = 10, BATCH = 128, PEERS = 5, ALL_ROUNDS = TURNS * ROUNDS };

/* Steps a round; a fifth of a task's. */
static uint32_t steps(void) {
  return (uint32_t)least_or(1, sized(2, 30, 120));
}

static const struct train_config training = {
    .epochs = 1,
    .batch = BATCH,
    .learning_rate = 1e-3,
    .optimiser = {.kind = OPTIMISER_ADAM, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8}};

static struct contract *contract;
static struct schema *schema;
static struct splits data[PEERS];

static void open_all(void) {
  struct data_place why;
  contract = kit_image(28, 28, CLASSES);
  contract->holdout = 0.2;
  contract->split = (struct split){.rule = SPLIT_IID, .n_parts = PEERS};
  schema = toy_schema(
      size_is_small() ? "dense 8, relu, dense classes" : "dense 200, relu, dense 200, relu, dense classes", contract);
  for (uint32_t i = 0; i < PEERS; i++) {
    const char *const set = size_is_small() ? "t10k" : "train"; /* the smaller file where each instruction is slow */
    char images[128], labels[128];
    snprintf(images, sizeof images, FASHION "%s-images-idx3-ubyte.gz", set);
    snprintf(labels, sizeof labels, FASHION "%s-labels-idx1-ubyte.gz", set);
    const struct data_source source = {.train = {images, labels}, .part = i + 1};
    ck_assert_msg(dataset_open(&source, contract, &kit_digest, &data[i], &why) == ERR_OK, "%s", why.sentence);
  }
}

static void close_all(void) {
  for (size_t i = 0; i < PEERS; i++)
    splits_close(&data[i]);
  schema_free(schema);
  contract_free(contract);
}

static struct continual_config with_tasks(struct continual_config c) {
  c.rounds = ROUNDS;
  c.ewc_decay = 1;
  c.ewc_samples = MIN_FISHER_SAMPLES;
  ck_assert_int_eq(task_list_init(&c.tasks, c.tasks.kind, CLASSES), ERR_OK);
  for (size_t i = 0; i < CLASSES; i++)
    ck_assert_int_eq(task_list_put(&c.tasks, i, i / 2), ERR_OK);
  return c;
}

/* An agent: its learner, and the rows of its matrix. */
struct agent {
  struct continual_config continual;
  struct learner *learner;
  double r[TURNS][TURNS];
  size_t trained[TURNS];
};

static void agent_open(struct agent *a, uint32_t number, const struct continual_config *continual, size_t n_copies) {
  *a = (struct agent){.continual = with_tasks(*continual)};
  struct learner_config config = {.schema = schema,
                                  .train = training,
                                  .codec = {.kind = CODEC_F32},
                                  .init = {{1}},
                                  .continual = &a->continual,
                                  .train_seed = 1,
                                  .part = number,
                                  .n_copies = n_copies};
  schema_hash(schema, &kit_digest, &config.schema_hash);
  ck_assert_int_eq(learner_open(&config, &a->learner), ERR_OK);
  const struct dataset *const tests[N_TEST_SETS] = {[TEST_LOCAL] = data[number].test};
  ck_assert_int_eq(learner_attach(a->learner, data[number].train, tests), ERR_OK);
  learner_set_steps(a->learner, steps());
}

static void agent_close(struct agent *a) {
  learner_free(a->learner);
  task_list_done(&a->continual.tasks);
}

static void agent_train(struct agent *a, uint64_t round) {
  struct train_report report;
  ck_assert_int_eq(learner_train(a->learner, round, 0, 1, NULL, &report), ERR_OK);
}

static void agent_judge(struct agent *a, uint64_t round) {
  struct task_score scores[TURNS];
  size_t position = continual_position(&a->continual, round);
  ck_assert_int_eq(learner_evaluate_tasks(a->learner, TEST_LOCAL, NULL, scores), ERR_OK);
  a->trained[position] = continual_task_at(&a->continual, position);
  for (size_t q = 0; q < TURNS; q++)
    a->r[position][q] = (double)scores[q].n_right / (double)scores[q].n;
}

static struct continual_summary agent_summary(const struct agent *a) {
  return matrix_summary(a->r[0], a->trained, TURNS, TURNS);
}

static double acc_of(const char *name, struct continual_config c) {
  struct agent a;
  agent_open(&a, 0, &c, 0);
  for (uint64_t round = 1; round <= ALL_ROUNDS; round++) {
    agent_train(&a, round);
    if (round % ROUNDS == 0)
      agent_judge(&a, round);
  }
  struct continual_summary s = agent_summary(&a);
  printf("%-24s ACC %5.1f  BWT %6.1f  forgetting %5.1f\n", name, 100 * s.acc, 100 * s.bwt, 100 * s.forgetting);
  agent_close(&a);
  return 100 * s.acc;
}

START_TEST(of_classes_replay_alone_keeps_what_was_seen) {
  double none = acc_of("class: none", (struct continual_config){.tasks.kind = INCREMENT_CLASS});
  double ewc = acc_of("class: EWC", (struct continual_config){.tasks.kind = INCREMENT_CLASS, .ewc = 1e4});
  double lwf = acc_of("class: LwF", (struct continual_config){.tasks.kind = INCREMENT_CLASS, .lwf = true});
  double replay = acc_of("class: replay", (struct continual_config){.tasks.kind = INCREMENT_CLASS, .replay = 100});
  if (size_is_small())
    return;
  ck_assert_double_ge(replay, 70);
  ck_assert_double_ge(replay, none + 50);
  ck_assert_double_le(ewc, 25);
  ck_assert_double_le(lwf, 25);
}
END_TEST

START_TEST(with_heads_of_their_own_ewc_keeps_them) {
  double none = acc_of("task: none", (struct continual_config){.tasks.kind = INCREMENT_TASK});
  double ewc = acc_of("task: EWC", (struct continual_config){.tasks.kind = INCREMENT_TASK, .ewc = 1e4});
  ck_assert(size_is_small() || ewc >= none + 1);
}
END_TEST

/* ---- peers in staggered order */

/* Everybody's whole model to everybody, and their mean. */
static void exchange(struct agent *agents, uint8_t *payload) {
  for (size_t i = 0; i < PEERS; i++) {
    size_t n;
    ck_assert_int_eq(learner_encode(agents[i].learner, true, payload, &n), ERR_OK);
    learner_published(agents[i].learner);
    for (size_t k = 0; k < PEERS; k++)
      ck_assert_int_eq(learner_copy_set(agents[k].learner, i, payload, n), ERR_OK);
  }
  for (size_t k = 0; k < PEERS; k++) {
    struct contribution shares[PEERS];
    for (size_t i = 0; i < PEERS; i++)
      shares[i] = (struct contribution){.copy = i, .weight = i == k ? 0 : 1.0 / PEERS};
    ck_assert_int_eq(learner_merge(agents[k].learner, shares, PEERS), ERR_OK);
  }
}

static double forgetting_of(bool exchanges) {
  struct agent agents[PEERS];
  double sum = 0;
  for (uint32_t i = 0; i < PEERS; i++)
    agent_open(&agents[i], i, &(struct continual_config){.tasks.kind = INCREMENT_CLASS, .offset = i}, PEERS);
  uint8_t *payload = malloc(learner_payload_bound(agents[0].learner));
  ck_assert_ptr_nonnull(payload);
  for (uint64_t round = 1; round <= ALL_ROUNDS; round++) {
    for (size_t i = 0; i < PEERS; i++)
      agent_train(&agents[i], round);
    if (exchanges)
      exchange(agents, payload);
    for (size_t i = 0; i < PEERS && round % ROUNDS == 0; i++)
      agent_judge(&agents[i], round);
  }
  for (size_t i = 0; i < PEERS; i++) {
    sum += agent_summary(&agents[i]).forgetting;
    agent_close(&agents[i]);
  }
  free(payload);
  return 100 * sum / PEERS;
}

START_TEST(peers_in_another_order_keep_what_one_would_forget) {
  double alone = forgetting_of(false), swarm = forgetting_of(true);
  printf("staggered: forgetting alone %.1f, in the swarm %.1f\n", alone, swarm);
  ck_assert(size_is_small() || swarm < alone - 5);
}
END_TEST

int main(void) {
  if (access(FASHION "train-images-idx3-ubyte.gz", R_OK) != 0) {
    fprintf(stderr, "SKIPPED forgetting: no %s (package dataset-fashion-mnist)\n", FASHION);
    return 0;
  }
  return SUITE_RUN_AROUND("forgetting", SUITE_LIMIT_S, open_all, close_all, of_classes_replay_alone_keeps_what_was_seen,
                          with_heads_of_their_own_ewc_keeps_them, peers_in_another_order_keep_what_one_would_forget);
}
