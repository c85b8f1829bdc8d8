/* Does a swarm learn as well when its updates are lossy? Four learners in a ring exchange differences by every codec, and are
 * compared with the same ring in f32 (CHOCO-SGD, Koloskova et al. 2019). */
#include <stdlib.h>
#include <string.h>

#include "models/learner.h"
#include "tests/size.h"
#include "tests/unit/models/toy.h"
#include "tests/unit/suite.h"

enum { N = 4, N_INPUTS = 24, N_CLASSES = 8, N_TRAIN = 1200, N_TEST = 2000 };

static uint64_t n_rounds(void) {
  return sized(8, 60, 60);
}

static const char arch[] = "dense 48, relu, dense classes";

struct ring {
  struct contract contract;
  struct schema *schema;
  struct dataset train[N], test;
  struct learner *learners[N];
};

/* Clouds that overlap: nobody is right about all of them. */
static struct dataset noisy_clouds(uint64_t seed, size_t n) {
  struct dataset d = toy_clouds(seed, n, N_INPUTS, N_CLASSES);
  struct rng rng;
  rng_init(&rng, seed + 1000);
  for (size_t i = 0; i < n * N_INPUTS; i++)
    d.floats[i] += (float)(3 * toy_normal(&rng));
  return d;
}

static void ring_open(struct ring *r, struct codec codec) {
  r->contract = toy_classes(N_INPUTS, N_CLASSES);
  r->schema = toy_schema(arch, &r->contract);
  r->test = noisy_clouds(99, N_TEST);
  for (size_t i = 0; i < N; i++) {
    struct learner_config config = {
        .schema = r->schema,
        .train = {.epochs = 1, .batch = 32, .learning_rate = 0.01, .optimiser = {.momentum = 0.9}},
        .codec = codec,
        .init = {{3}},
        .train_seed = i,
        .n_copies = 2};
    r->train[i] = noisy_clouds(i + 1, N_TRAIN);
    ck_assert_int_eq(learner_open(&config, &r->learners[i]), ERR_OK);
    ck_assert_int_eq(learner_attach(r->learners[i], &r->train[i],
                                    (const struct dataset *const[N_TEST_SETS]){[TEST_GLOBAL] = &r->test}),
                     ERR_OK);
  }
}

static void ring_close(struct ring *r) {
  for (size_t i = 0; i < N; i++) {
    learner_free(r->learners[i]);
    toy_dataset_done(&r->train[i]);
  }
  toy_dataset_done(&r->test);
  schema_free(r->schema);
}

/* Copy 0 is of the one after, copy 1 of the one before. */
static void take(struct learner *l, size_t copy, bool is_full, enum codec_kind kind, const uint8_t *payload, size_t n) {
  ck_assert_int_eq(is_full ? learner_copy_set(l, copy, payload, n) : learner_copy_add(l, copy, kind, payload, n),
                   ERR_OK);
}

/* Returns the bytes of the payloads. */
static size_t ring_round(struct ring *r, struct codec codec, double weight, uint64_t round, uint8_t *payload) {
  size_t n_bytes = 0;
  for (size_t i = 0; i < N; i++) {
    struct train_report report;
    size_t n;
    ck_assert_int_eq(learner_train(r->learners[i], round, 0, 1, NULL, &report), ERR_OK);
    ck_assert_int_eq(learner_encode(r->learners[i], round == 1, payload, &n), ERR_OK);
    learner_published(r->learners[i]);
    take(r->learners[(i + N - 1) % N], 0, round == 1, codec.kind, payload, n);
    take(r->learners[(i + 1) % N], 1, round == 1, codec.kind, payload, n);
    n_bytes += round == 1 ? 0 : n;
  }
  for (size_t i = 0; i < N; i++) {
    struct contribution both[] = {{.copy = 0, .weight = weight}, {.copy = 1, .weight = weight}};
    ck_assert_int_eq(learner_merge(r->learners[i], both, 2), ERR_OK);
  }
  return n_bytes;
}

struct figures {
  double of_mean; /* accuracy of the mean of the models, percent */
  double of_each; /* mean accuracy of the models */
  double bytes;   /* of a difference, mean */
};

static double accuracy(struct learner *l) {
  struct metrics m;
  ck_assert_int_eq(learner_evaluate(l, TEST_GLOBAL, NULL, &m), ERR_OK);
  double percent = 100 * m.accuracy;
  metrics_done(&m);
  return percent;
}

/* Puts the mean of all models into the first learner. */
static void average(struct ring *r) {
  size_t n = schema_parameters(r->schema), n_most = learner_model_most(r->learners[0]), head = 64;
  uint8_t *bytes = malloc(n_most);
  float *x = malloc(4 * n), *mean = calloc(n, sizeof *mean);
  for (size_t i = 0; i < N; i++) {
    learner_model_write(r->learners[i], bytes);
    memcpy(x, bytes + head, 4 * n);
    for (size_t k = 0; k < n; k++)
      mean[k] += x[k] / N;
  }
  learner_model_write(r->learners[0], bytes);
  memcpy(bytes + head, mean, 4 * n);
  ck_assert_int_eq(learner_model_read(r->learners[0], bytes, learner_model_bytes(r->learners[0])), ERR_OK);
  free(mean);
  free(x);
  free(bytes);
}

static struct figures run(struct codec codec, double weight) {
  struct ring r = {0};
  struct figures f = {0};
  ring_open(&r, codec);
  uint8_t *payload = malloc(learner_payload_bound(r.learners[0]));
  for (uint64_t round = 1; round <= n_rounds(); round++)
    f.bytes += (double)ring_round(&r, codec, weight, round, payload) / (double)(N * (n_rounds() - 1));
  for (size_t i = 0; i < N; i++)
    f.of_each += accuracy(r.learners[i]) / N;
  average(&r);
  f.of_mean = accuracy(r.learners[0]);
  free(payload);
  ring_close(&r);
  return f;
}

static const double third = 1.0 / 3; /* Metropolis weight of a ring */

/* q8 and q4 as well as f32; the largest differences alone nearly so, the mean of the models more than each of them. */
START_TEST(lossy_updates_teach_nearly_as_well) {
  const struct {
    struct codec codec;
    double of_mean, of_each, times; /* points lost at most, bytes saved at least */
  } rows[] = {{{CODEC_F16, 0}, 0.5, 0.5, 1.99},
              {{CODEC_Q8, 0}, 0.5, 0.5, 3.9},
              {{CODEC_Q4, 0}, 0.8, 0.8, 7.7},
              {{CODEC_TOPK, 0.1}, 3, 5, 12},
              {{CODEC_TOPK, 0.01}, 4, 8, 120}};
  const struct figures plain = run((struct codec){CODEC_F32, 0}, third);
  ck_assert_double_ge(plain.of_each, 50); /* of eight classes that overlap */
  for (size_t i = 0; i < sized(1, sizeof rows / sizeof *rows, sizeof rows / sizeof *rows); i++) {
    struct figures f = run(rows[i].codec, third);
    ck_assert_msg(f.of_mean >= plain.of_mean - rows[i].of_mean && f.of_each >= plain.of_each - rows[i].of_each,
                  "%s %g: %.2f and %.2f %% beside %.2f and %.2f", codec_name(rows[i].codec.kind),
                  rows[i].codec.fraction, f.of_mean, f.of_each, plain.of_mean, plain.of_each);
    ck_assert_double_ge(plain.bytes / f.bytes, rows[i].times);
  }
}
END_TEST

/* The control: with γ = 1 the largest differences alone diverge. */
START_TEST(gamma_is_needed) {
  if (size_is_small())
    return; /* a sanitiser finds nothing here that the other test does not reach */
  const struct codec codec = {CODEC_TOPK, 0.01};
  struct figures with = run(codec, third), without = run(codec, third / codec_gamma(codec));
  ck_assert_double_ge(with.of_mean, without.of_mean + 8);
}
END_TEST

int main(void) {
  return SUITE_RUN("codecs", lossy_updates_teach_nearly_as_well, gamma_is_needed);
}
