#include "models/continual/continual.h"

#include <math.h>

#include "models/continual/matrix.h"
#include "models/learner.h"
#include "models/train.h"
#include "tests/unit/models/toy.h"
#include "tests/unit/suite.h"

enum {
  N_INPUTS = 12,
  N_CLASSES = 6,
  N_TURNS = 3,
  ROUNDS = 4,
  N_TRAIN = 1200,
  N_TEST = 600,
  ALL_ROUNDS = N_TURNS * ROUNDS
};

struct bench {
  struct contract contract;
  struct schema *schema;
  struct dataset train, test;
  struct continual_config continual;
  bool has_control; /* plain descent with control variates, in the place of adam */
  struct learner *learner;
};

static void bench_open(struct bench *b, const char *arch) {
  b->contract = toy_classes(N_INPUTS, N_CLASSES);
  b->schema = toy_schema(arch, &b->contract);
  b->train = toy_clouds(1, N_TRAIN, N_INPUTS, N_CLASSES);
  b->test = toy_clouds(2, N_TEST, N_INPUTS, N_CLASSES);
  for (size_t i = 0; i < N_TRAIN; i++)
    b->train.class_counts[b->train.labels[i]]++;
  ck_assert_int_eq(task_list_init(&b->continual.tasks, b->continual.tasks.kind, N_CLASSES), ERR_OK);
  for (size_t c = 0; c < N_CLASSES; c++)
    ck_assert_int_eq(task_list_put(&b->continual.tasks, c, c / 2), ERR_OK);
  b->continual.rounds = ROUNDS;
  struct learner_config config = {
      .schema = b->schema,
      .train = {.epochs = 1,
                .batch = 16,
                .learning_rate = 0.01,
                .optimiser = {.kind = OPTIMISER_ADAM, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8}},
      .init = {{9}},
      .continual = &b->continual,
      .train_seed = 5,
      .part = 1};
  if (b->has_control)
    config.train.optimiser = (struct optimiser_config){.kind = OPTIMISER_SGD};
  config.train.control_variates = b->has_control;
  schema_hash(b->schema, &kit_digest, &config.schema_hash);
  ck_assert_int_eq(learner_open(&config, &b->learner), ERR_OK);
  ck_assert_int_eq(
      learner_attach(b->learner, &b->train, (const struct dataset *const[N_TEST_SETS]){[TEST_LOCAL] = &b->test}),
      ERR_OK);
}

static void bench_done(struct bench *b) {
  learner_free(b->learner);
  task_list_done(&b->continual.tasks);
  schema_free(b->schema);
  toy_dataset_done(&b->train);
  toy_dataset_done(&b->test);
}

static void train(struct bench *b, uint64_t round) {
  struct train_report report;
  ck_assert_int_eq(learner_train(b->learner, round, 0, 1, NULL, &report), ERR_OK);
}

static void scores(struct bench *b, double *out_row) {
  struct task_score s[N_TURNS];
  ck_assert_int_eq(learner_evaluate_tasks(b->learner, TEST_LOCAL, NULL, s), ERR_OK);
  for (size_t q = 0; q < N_TURNS; q++)
    out_row[q] = (double)s[q].n_right / (double)s[q].n;
}

static struct continual_summary run(struct bench *b) {
  double r[N_TURNS][N_TURNS];
  size_t trained[N_TURNS];
  for (uint64_t round = 1; round <= ALL_ROUNDS; round++) {
    train(b, round);
    size_t position = continual_position(&b->continual, round);
    trained[position] = continual_task_at(&b->continual, position);
    scores(b, r[position]);
  }
  return matrix_summary(r[0], trained, N_TURNS, N_TURNS);
}

static const char arch[] = "dense 24, relu, dense classes";

/* ---- whole runs */

static struct continual_summary summary_of(struct bench b) {
  bench_open(&b, arch);
  struct continual_summary s = run(&b);
  bench_done(&b);
  return s;
}

START_TEST(without_anything_a_class_that_is_not_seen_again_is_forgotten) {
  struct continual_summary s = summary_of((struct bench){.continual = {.tasks.kind = INCREMENT_CLASS}});
  ck_assert_double_lt(s.acc, 0.45);
  ck_assert_double_gt(s.forgetting, 0.8);
}
END_TEST

START_TEST(replay_keeps_what_was_seen) {
  for (enum replay_rule rule = REPLAY_BALANCED; rule <= REPLAY_RESERVOIR; rule++) {
    struct continual_summary s =
        summary_of((struct bench){.continual = {.tasks.kind = INCREMENT_CLASS, .replay = 20, .replay_rule = rule}});
    ck_assert_double_gt(s.acc, 0.85);
    ck_assert_double_lt(s.forgetting, 0.15);
  }
}
END_TEST

START_TEST(a_gem_keeps_more_than_nothing_does) {
  struct continual_summary none = summary_of((struct bench){.continual = {.tasks.kind = INCREMENT_CLASS}});
  struct continual_summary s =
      summary_of((struct bench){.continual = {.tasks.kind = INCREMENT_CLASS, .replay = 20, .replay_use = REPLAY_AGEM}});
  ck_assert_double_gt(s.acc, none.acc + 0.1);
}
END_TEST

START_TEST(heads_of_their_own_forget_less_with_ewc_and_lwf) {
  struct continual_summary none = summary_of((struct bench){.continual = {.tasks.kind = INCREMENT_TASK}});
  struct continual_summary ewc = summary_of((struct bench){
      .continual = {.tasks.kind = INCREMENT_TASK, .ewc = 1e3, .ewc_decay = 1, .ewc_samples = MIN_FISHER_SAMPLES}});
  struct continual_summary lwf = summary_of((struct bench){.continual = {.tasks.kind = INCREMENT_TASK, .lwf = true}});
  ck_assert_msg(ewc.forgetting <= none.forgetting && lwf.forgetting <= none.forgetting, "none %g, ewc %g, lwf %g",
                none.forgetting, ewc.forgetting, lwf.forgetting);
  ck_assert_double_gt(ewc.acc, 0.9);
  ck_assert_double_gt(lwf.acc, 0.9);
}
END_TEST

START_TEST(a_site_begins_where_its_offset_says) {
  struct bench b = {.continual = {.tasks.kind = INCREMENT_CLASS, .offset = 2}};
  double row[N_TURNS];
  bench_open(&b, arch);
  for (uint64_t round = 1; round <= ROUNDS; round++)
    train(&b, round);
  scores(&b, row);
  ck_assert_double_lt(row[0], 0.01);
  ck_assert_double_gt(row[2], 0.9);
  ck_assert_uint_eq(continual_status(learner_continual(b.learner)).task, 2);
  train(&b, ROUNDS + 1);
  ck_assert_uint_eq(continual_status(learner_continual(b.learner)).task, 0);
  bench_done(&b);
}
END_TEST

/* ---- boundaries that are detected */

/* A site whose samples come task by task: the tasks in another order, N_TRAIN / N_TURNS of each. */
static void sort_by_task(struct bench *b, const size_t order[N_TURNS]) {
  struct dataset sorted = toy_dataset(TASK_CLASSIFY, N_TRAIN, N_INPUTS, N_CLASSES);
  size_t n = 0;
  for (size_t t = 0; t < N_TURNS; t++)
    for (size_t i = 0; i < N_TRAIN; i++)
      if (b->train.labels[i] / 2 == order[t]) {
        memcpy(sorted.floats + n * N_INPUTS, b->train.floats + i * N_INPUTS, sizeof(float) * N_INPUTS);
        sorted.labels[n++] = b->train.labels[i];
      }
  memcpy(b->train.floats, sorted.floats, sizeof(float) * N_TRAIN * N_INPUTS);
  memcpy(b->train.labels, sorted.labels, N_TRAIN * sizeof *sorted.labels);
  toy_dataset_done(&sorted);
}

static const struct continual_config detecting = {
    .tasks.kind = INCREMENT_CLASS, .boundaries = BOUNDARIES_DETECTED, .false_alarm = 0.001, .arrive = 60, .replay = 20};

START_TEST(boundaries_are_found_where_they_are) {
  const size_t order[N_TURNS] = {1, 2, 0};
  struct bench b = {.continual = detecting};
  double row[N_TURNS];
  bench_open(&b, arch);
  sort_by_task(&b, order);
  size_t n_found = 0, at[N_TURNS] = {0};
  for (uint64_t round = 1; round <= N_TRAIN / 60; round++) {
    size_t before = continual_status(learner_continual(b.learner)).position;
    train(&b, round);
    struct continual_status s = continual_status(learner_continual(b.learner));
    ck_assert_uint_eq(s.n_arrived, 60 * round);
    if (s.position > before) {
      ck_assert(s.found != DRIFT_NONE && s.found_p < 0.001);
      ck_assert_uint_eq(s.position, before + 1);
      at[n_found++] = round;
      ck_assert_uint_le(n_found, N_TURNS - 1);
    }
  }
  struct continual_status s = continual_status(learner_continual(b.learner));
  ck_assert_uint_eq(n_found, N_TURNS - 1);
  ck_assert_uint_eq(s.task, 0);
  ck_assert_uint_eq(s.n_replay, 80); /* of the two tasks that are over */
  size_t n_first = 0;
  for (size_t i = 0; i < N_TRAIN; i++)
    n_first += b.train.labels[i] / 2 == 1;
  ck_assert_uint_le(at[0] * 60, n_first + 120); /* with the second chunk of the new task at the latest */
  scores(&b, row);
  for (size_t q = 0; q < N_TURNS; q++)
    ck_assert_double_gt(row[q], 0.8);
  bench_done(&b);
}
END_TEST

/* As where files that are watched are removed: what is left is the present task's, and training goes on. */
START_TEST(samples_that_are_gone_are_no_end) {
  const size_t order[N_TURNS] = {1, 2, 0};
  struct bench b = {.continual = detecting};
  bench_open(&b, arch);
  sort_by_task(&b, order);
  for (uint64_t round = 1; round <= N_TRAIN / 60; round++)
    train(&b, round);
  struct dataset fewer = b.train;
  fewer.n = 100; /* before the present task began */
  ck_assert_int_eq(
      learner_reattach(b.learner, &fewer, (const struct dataset *const[N_TEST_SETS]){[TEST_LOCAL] = &b.test}), ERR_OK);
  train(&b, N_TRAIN / 60 + 1);
  ck_assert_uint_eq(continual_status(learner_continual(b.learner)).n_samples, 100);
  bench_done(&b);
}
END_TEST

START_TEST(a_site_that_does_not_change_has_one_task) {
  struct bench b = {.continual = detecting};
  bench_open(&b, arch);
  for (uint64_t round = 1; round <= N_TRAIN / 60; round++)
    train(&b, round);
  ck_assert_uint_eq(continual_status(learner_continual(b.learner)).position, 0);
  bench_done(&b);
}
END_TEST

/* ---- restarts */

struct state {
  uint8_t *half, *continual;
  size_t n_half, n_continual;
};

static struct state state_of(const struct bench *b) {
  struct state s = {.n_half = learner_half_bytes(b->learner),
                    .n_continual = continual_bytes(learner_continual(b->learner))};
  s.half = malloc(s.n_half);
  s.continual = malloc(s.n_continual);
  ck_assert(s.half && s.continual);
  learner_half_write(b->learner, s.half);
  continual_write(learner_continual(b->learner), s.continual);
  return s;
}

static void state_done(struct state *s) {
  free(s->half);
  free(s->continual);
}

static void restart(struct bench *b, const struct continual_config *as) {
  struct state s = state_of(b);
  bench_done(b);
  b->continual = *as;
  bench_open(b, arch);
  ck_assert_int_eq(learner_half_read(b->learner, s.half, s.n_half), ERR_OK);
  ck_assert_int_eq(continual_read(learner_continual(b->learner), s.continual, s.n_continual), ERR_OK);
  state_done(&s);
}

/* Restarted after every round, the model and all that is kept have the same bits in the end. */
START_TEST(a_restart_at_any_round_changes_no_bit) {
  const struct continual_config kinds[] = {
      {.tasks.kind = INCREMENT_CLASS, .replay = 10, .ewc = 100, .ewc_decay = 0.9, .ewc_samples = 100},
      {.tasks.kind = INCREMENT_TASK, .replay = 10, .replay_use = REPLAY_AGEM, .replay_rule = REPLAY_RESERVOIR},
      {.tasks.kind = INCREMENT_DOMAIN, .lwf = true, .ewc = 10, .ewc_rule = EWC_SEPARATE, .ewc_samples = 100},
      {.boundaries = BOUNDARIES_DETECTED, .false_alarm = 0.9, .arrive = 100, .lwf = true}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    struct bench whole = {.continual = kinds[i]}, cut = {.continual = kinds[i]};
    bench_open(&whole, arch);
    bench_open(&cut, arch);
    for (uint64_t round = 1; round <= ALL_ROUNDS; round++) {
      train(&whole, round);
      train(&cut, round);
      restart(&cut, &kinds[i]);
    }
    struct state a = state_of(&whole), b = state_of(&cut);
    ck_assert_uint_eq(a.n_half, b.n_half);
    ck_assert_uint_eq(a.n_continual, b.n_continual);
    ck_assert_mem_eq(a.half, b.half, a.n_half);
    ck_assert_mem_eq(a.continual, b.continual, a.n_continual);
    ck_assert_uint_gt(continual_status(learner_continual(whole.learner)).n_done, 0);
    state_done(&a);
    state_done(&b);
    bench_done(&whole);
    bench_done(&cut);
  }
}
END_TEST

/* A training that was stopped in the round that ends a task can be made again. */
static enum err stop_at_once(void *context, size_t done, size_t total) {
  (void)context;
  (void)total;
  return done == 3 ? ERR_STOPPED : ERR_OK;
}

START_TEST(a_round_that_is_made_again_has_the_same_bits) {
  const struct continual_config kind = {
      .tasks.kind = INCREMENT_CLASS, .replay = 10, .ewc = 100, .ewc_decay = 0.9, .ewc_samples = 100};
  const struct work_hook hook = {stop_at_once, NULL};
  struct bench b = {.continual = kind}, again = {.continual = kind};
  struct train_report report;
  bench_open(&b, arch);
  bench_open(&again, arch);
  for (uint64_t round = 1; round <= ROUNDS + 1; round++) {
    train(&b, round);
    ck_assert_int_eq(learner_train(again.learner, round, 0, 1, &hook, &report), ERR_STOPPED);
    learner_undo(again.learner);
    train(&again, round);
  }
  struct state x = state_of(&b), y = state_of(&again);
  ck_assert_mem_eq(x.half, y.half, x.n_half);
  ck_assert_mem_eq(x.continual, y.continual, x.n_continual);
  state_done(&x);
  state_done(&y);
  bench_done(&b);
  bench_done(&again);
}
END_TEST

static void check_state(const struct bench *b, const struct state *expected) {
  struct state now = state_of(b);
  ck_assert_uint_eq(now.n_half, expected->n_half);
  ck_assert_uint_eq(now.n_continual, expected->n_continual);
  ck_assert_mem_eq(now.half, expected->half, now.n_half);
  ck_assert_mem_eq(now.continual, expected->continual, now.n_continual);
  state_done(&now);
}

/* Whether it failed or was forgotten: tasks, buffer, F, θ*, teacher, what is known of the samples and how many have come. */
START_TEST(an_undone_training_leaves_no_trace_of_its_task) {
  const struct continual_config kinds[] = {
      {.tasks.kind = INCREMENT_CLASS, .rounds = 1, .replay = 10, .ewc = 100, .ewc_decay = 0.9, .ewc_samples = 100},
      {.tasks.kind = INCREMENT_CLASS, .rounds = 2, .replay = 10, .replay_rule = REPLAY_RESERVOIR},
      {.tasks.kind = INCREMENT_DOMAIN,
       .rounds = 1,
       .lwf = true,
       .ewc = 10,
       .ewc_rule = EWC_SEPARATE,
       .ewc_samples = 100},
      {.boundaries = BOUNDARIES_DETECTED, .false_alarm = 0.9, .arrive = 100, .lwf = true, .replay = 10}};
  const struct work_hook hook = {stop_at_once, NULL};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    struct bench b = {.continual = kinds[i]};
    struct train_report report;
    bench_open(&b, arch);
    b.continual.rounds = kinds[i].rounds;
    for (uint64_t round = 1; round <= ALL_ROUNDS; round++) {
      struct state before = state_of(&b);
      struct continual_status was = continual_status(learner_continual(b.learner));
      ck_assert_int_eq(learner_train(b.learner, round, 0, 1, &hook, &report), ERR_STOPPED);
      learner_undo(b.learner);
      check_state(&b, &before);
      train(&b, round);
      learner_undo(b.learner);
      check_state(&b, &before);
      ck_assert_uint_eq(continual_status(learner_continual(b.learner)).n_samples, was.n_samples);
      state_done(&before);
      train(&b, round);
    }
    ck_assert_uint_gt(continual_status(learner_continual(b.learner)).n_done, 0);
    bench_done(&b);
  }
}
END_TEST

/* What training terms keep is of the training that failed, not of the one before it. */
START_TEST(a_training_that_cannot_begin_is_undone_like_another) {
  struct bench b = {.continual = {.tasks.kind = INCREMENT_CLASS}, .has_control = true};
  struct train_report report;
  bench_open(&b, arch);
  train(&b, 1);
  train(&b, 2);
  struct state before = state_of(&b);
  for (size_t i = 0; i < N_TRAIN; i++)
    b.train.labels[i] = N_CLASSES - 1; /* none is left of the first task */
  ck_assert_int_eq(learner_train(b.learner, 3, 0, 1, NULL, &report), ERR_RANGE);
  learner_undo(b.learner);
  check_state(&b, &before);
  state_done(&before);
  bench_done(&b);
}
END_TEST

START_TEST(damaged_state_changes_nothing) {
  const struct continual_config kind = {
      .tasks.kind = INCREMENT_CLASS, .replay = 4, .ewc = 100, .ewc_decay = 0.9, .ewc_samples = 20, .lwf = true};
  struct bench b = {.continual = kind};
  bench_open(&b, arch);
  for (uint64_t round = 1; round <= ROUNDS + 1; round++)
    train(&b, round);
  struct continual *c = learner_continual(b.learner);
  struct state s = state_of(&b);
  for (size_t cut = 0; cut < s.n_continual; cut += 97)
    ck_assert_int_eq(continual_read(c, s.continual, cut), ERR_TRUNCATED);
  uint8_t *damaged = malloc(s.n_continual + 1);
  const struct {
    size_t at;
    uint8_t value;
    enum err is;
  } damages[] = {{0, 'x', ERR_CORRUPT},      {8, 9, ERR_TOO_NEW},   {12, 2, ERR_CORRUPT}, {16, N_TURNS, ERR_CORRUPT},
                 {24, N_TURNS, ERR_CORRUPT}, {28, 1, ERR_CORRUPT},  {32, 1, ERR_CORRUPT}, {36, 4, ERR_CORRUPT},
                 {40, 1, ERR_CORRUPT},       {48, 99, ERR_CORRUPT}, {72, 2, ERR_CORRUPT}};
  for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
    memcpy(damaged, s.continual, s.n_continual);
    damaged[damages[i].at] = damages[i].value;
    ck_assert_int_eq(continual_read(c, damaged, s.n_continual), damages[i].is);
  }
  memcpy(damaged, s.continual, s.n_continual);
  memset(damaged + 72 + N_CLASSES, 0xff, 4); /* an importance that is no number */
  ck_assert_int_eq(continual_read(c, damaged, s.n_continual), ERR_CORRUPT);
  memcpy(damaged, s.continual, s.n_continual);
  ck_assert_int_eq(continual_read(c, damaged, s.n_continual + 1), ERR_TRAILING);
  struct state after = state_of(&b);
  ck_assert_mem_eq(after.continual, s.continual, s.n_continual);
  state_done(&after);
  state_done(&s);
  free(damaged);
  bench_done(&b);
}
END_TEST

START_TEST(a_site_that_lacks_a_task_is_told_at_once) {
  struct bench b = {.continual = {.tasks.kind = INCREMENT_CLASS}};
  bench_open(&b, arch);
  learner_free(b.learner);
  b.train.class_counts[2] = b.train.class_counts[3] = 0;
  ck_assert_uint_eq(continual_task_without(&b.continual, &b.train), 1);
  struct continual *c = NULL;
  ck_assert_int_eq(continual_open(&b.continual, &b.train, 10, 1, 1, &c), ERR_RANGE);
  b.learner = NULL;
  bench_done(&b);
}
END_TEST

/* ---- Fisher information */

/* Of softmax(Wx + b) it is known: for weight (c, i), E_x[x_i² p_c (1 − p_c)], since y is drawn from p. */
START_TEST(the_fisher_information_of_a_softmax_is_that_of_its_formula) {
  struct bench b = {.continual = {.tasks.kind = INCREMENT_TASK, .ewc = 1, .ewc_decay = 1, .ewc_samples = N_TRAIN}};
  struct train_report report;
  bench_open(&b, "dense classes");
  ck_assert_int_eq(learner_train(b.learner, 1, 0, 0.1, NULL, &report), ERR_OK); /* p not yet near 0 or 1 */
  const size_t n_w = (size_t)N_CLASSES * N_INPUTS;
  const float *x = learner_values(b.learner);
  double expected[2][N_INPUTS] = {{0}}, n = 0;
  for (size_t s = 0; s < N_TRAIN; s++) {
    double z[2];
    const float *in = b.train.floats + s * N_INPUTS;
    if (b.train.labels[s] > 1)
      continue;
    for (size_t c = 0; c < 2; c++) {
      z[c] = (double)x[n_w + c];
      for (size_t i = 0; i < N_INPUTS; i++)
        z[c] += (double)x[c * N_INPUTS + i] * (double)in[i];
    }
    double p = 1 / (1 + exp(z[1] - z[0]));
    for (size_t i = 0; i < N_INPUTS; i++)
      for (size_t c = 0; c < 2; c++)
        expected[c][i] += (double)in[i] * (double)in[i] * p * (1 - p);
    n++;
  }
  train(&b, ROUNDS + 1); /* consolidates */
  struct state state = state_of(&b);
  double off = 0, size = 0;
  for (size_t c = 0; c < N_CLASSES; c++)
    for (size_t i = 0; i < N_INPUTS; i++) {
      float f;
      memcpy(&f, state.continual + 72 + N_CLASSES + 4 * (c * N_INPUTS + i), 4);
      if (c > 1) {
        ck_assert_float_eq(f, 0); /* no output of that task */
        continue;
      }
      off += fabs((double)f - expected[c][i] / n);
      size += expected[c][i] / n;
    }
  ck_assert_double_lt(off / size, 0.25); /* labels are drawn: 1/√n of rare ones; with the true labels it is far off */
  state_done(&state);
  bench_done(&b);
}
END_TEST

int main(void) {
  return SUITE_RUN_WITHIN(
      "continual", 60, without_anything_a_class_that_is_not_seen_again_is_forgotten, replay_keeps_what_was_seen,
      a_gem_keeps_more_than_nothing_does, heads_of_their_own_forget_less_with_ewc_and_lwf,
      a_site_begins_where_its_offset_says, boundaries_are_found_where_they_are, samples_that_are_gone_are_no_end,
      a_site_that_does_not_change_has_one_task, a_restart_at_any_round_changes_no_bit,
      a_round_that_is_made_again_has_the_same_bits, an_undone_training_leaves_no_trace_of_its_task,
      a_training_that_cannot_begin_is_undone_like_another, damaged_state_changes_nothing,
      a_site_that_lacks_a_task_is_told_at_once, the_fisher_information_of_a_softmax_is_that_of_its_formula);
}
