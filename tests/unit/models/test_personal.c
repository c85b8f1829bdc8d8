/* Personal layers: what travels of a model and what does not. */
#include "models/learner.h"
#include "models/net/arch.h"
#include "models/share.h"
#include "tests/unit/models/toy.h"
#include "tests/unit/suite.h"

enum {
  N_INPUTS = 6,
  N_CLASSES = 3,
  N_HIDDEN = 8,
  N_SHARED = (N_INPUTS + 1) * N_HIDDEN,
  N_HEAD = (N_HIDDEN + 1) * N_CLASSES
};

static const char personal_head[] = "dense 8, relu, dense classes personal";

struct bench {
  struct contract contract;
  struct schema *schema;
  struct dataset train, test;
  struct learner *learner;
  size_t n; /* P */
};

static struct train_config plain_training(void) {
  return (struct train_config){
      .epochs = 1, .batch = 16, .learning_rate = 0.05, .optimiser = {.kind = OPTIMISER_SGD, .momentum = 0.9}};
}

/* A site of the swarm: same first weights, other data. */
static void bench_init(struct bench *b, const char *arch, enum codec_kind codec, const struct train_config *train,
                       uint64_t data) {
  b->contract = toy_classes(N_INPUTS, N_CLASSES);
  b->schema = toy_schema(arch, &b->contract);
  b->n = schema_parameters(b->schema);
  b->train = toy_clouds(data, 60, N_INPUTS, N_CLASSES);
  b->test = toy_clouds(data + 100, 200, N_INPUTS, N_CLASSES);
  struct learner_config c = {
      .schema = b->schema, .train = *train, .codec = {codec, codec == CODEC_TOPK ? 0.2 : 0}, .init = {{9}}};
  c.train_seed = data;
  c.n_copies = 2;
  schema_hash(b->schema, &kit_digest, &c.schema_hash);
  const struct dataset *const tests[N_TEST_SETS] = {[TEST_LOCAL] = &b->test, [TEST_VALIDATION] = &b->test};
  ck_assert_int_eq(learner_open(&c, &b->learner), ERR_OK);
  ck_assert_int_eq(learner_attach(b->learner, &b->train, tests), ERR_OK);
}

static void bench_done(struct bench *b) {
  learner_free(b->learner);
  schema_free(b->schema);
  toy_dataset_done(&b->train);
  toy_dataset_done(&b->test);
}

static void train(struct bench *b, uint64_t round) {
  struct train_report report;
  ck_assert_int_eq(learner_train(b->learner, round, 0, 1, NULL, &report), ERR_OK);
}

/* n zeros, for free(). */
static void *zeros(size_t n, size_t size) {
  void *a = calloc(n + 1, size);
  ck_assert_ptr_nonnull(a);
  return a;
}

static float *values_of(const struct bench *b) {
  return memcpy(zeros(b->n, sizeof(float)), learner_values(b->learner), b->n * sizeof(float));
}

static uint8_t *payload_of(struct bench *b, bool starts, size_t *out_n) {
  uint8_t *payload = zeros(learner_payload_bound(b->learner), 1);
  ck_assert_int_eq(learner_encode(b->learner, starts, payload, out_n), ERR_OK);
  return payload;
}

/* ---- what is said of layers */

START_TEST(layers_are_personal_by_name_or_by_kind) {
  const struct contract c = toy_classes(N_INPUTS, N_CLASSES);
  static const struct {
    const char *names[2], *text;
    enum err e;
    const char *why;
  } cases[] = {
      {{"dense2"}, "dense 8, batchnorm, relu, dense 3 personal", ERR_OK, NULL},
      {{"batchnorm"}, "dense 8, batchnorm personal, relu, dense 3", ERR_OK, NULL},
      {{"batchnorm1", "dense1"}, "dense 8 personal, batchnorm personal, relu, dense 3", ERR_OK, NULL},
      {{"dens2"}, NULL, ERR_NOT_FOUND, "no layer of the model is called 'dens2', did you mean 'dense2'?"},
      {{"dense3"}, NULL, ERR_NOT_FOUND, "no layer of the model is called 'dense3', did you mean 'dense1'?"},
      {{"relu"}, NULL, ERR_RANGE, "relu has nothing that could be personal"},
      {{"dense", "batchnorm"}, NULL, ERR_RANGE, "every layer that learns is personal"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char *text = NULL, why[MAX_REASON_BYTES] = "";
    size_t n = cases[i].names[1] ? 2 : 1;
    enum err e = arch_make_personal("dense 8, batchnorm, relu, dense classes", &c, cases[i].names, n, &text, why);
    ck_assert_msg(e == cases[i].e, "%zu: %s", i, why);
    if (!e)
      ck_assert_str_eq(text, cases[i].text);
    else
      ck_assert_msg(strstr(why, cases[i].why) != NULL, "%zu: %s", i, why);
    free(text);
  }
}
END_TEST

START_TEST(statistics_of_a_personal_layer_stay_too) {
  const struct contract c = toy_classes(N_INPUTS, N_CLASSES);
  struct schema *s = toy_schema("dense 8, batchnorm personal, relu, dense classes", &c);
  size_t n_personal = 0;
  for (size_t i = 0; i < schema_tensors(s); i++)
    n_personal += schema_tensor(s, i)->role == ROLE_PERSONAL;
  ck_assert_uint_eq(n_personal, 4); /* γ, β, mean, variance */
  ck_assert_uint_eq(schema_parameters(s) - schema_shared(s), 4 * N_HIDDEN);
  schema_free(s);
}
END_TEST

static struct digest hash_of(const char *arch) {
  const struct contract c = toy_classes(N_INPUTS, N_CLASSES);
  struct schema *s = toy_schema(arch, &c);
  struct digest hash;
  schema_hash(s, &kit_digest, &hash);
  schema_free(s);
  return hash;
}

/* Who shares what must agree; how large a personal layer is need not. */
START_TEST(the_schema_hash_says_what_is_shared) {
  struct digest plain = hash_of("dense 8, relu, dense classes"), head = hash_of(personal_head);
  ck_assert(!digest_equal(&plain, &head));
  struct digest narrow = hash_of("dense 8, relu, dense 4 as own personal, dense classes personal");
  struct digest wide = hash_of("dense 8, relu, dense 9 as own personal, dense classes personal");
  struct digest other = hash_of("dense 9, relu, dense 4 as own personal, dense classes personal");
  ck_assert(digest_equal(&narrow, &wide));
  ck_assert(!digest_equal(&narrow, &other));
}
END_TEST

/* ---- what travels */

START_TEST(a_part_is_gathered_and_scattered) {
  const struct contract c = toy_classes(N_INPUTS, N_CLASSES);
  struct schema *s = toy_schema("dense 8, relu, dense 4 personal, relu, dense classes", &c);
  struct share share;
  ck_assert_int_eq(share_open(s, &share), ERR_OK);
  size_t n = schema_parameters(s);
  ck_assert_uint_eq(share.n, n - (N_HIDDEN + 1) * 4);
  float *model = zeros(n, sizeof *model), *part = zeros(share.n, sizeof *part), *back = zeros(n, sizeof *back);
  for (size_t i = 0; i < n; i++)
    model[i] = (float)i + 1;
  share_gather(&share, model, part);
  for (size_t i = 0; i < share.n; i++)
    ck_assert(part[i] == (float)(i < N_SHARED ? i : i + (N_HIDDEN + 1) * 4) + 1);
  share_scatter(&share, part, back);
  for (size_t i = 0; i < n; i++)
    ck_assert(back[i] == (i >= N_SHARED && i < N_SHARED + (N_HIDDEN + 1) * 4 ? 0 : model[i]));
  free(model), free(part), free(back);
  share_close(&share);
  schema_free(s);
}
END_TEST

/* Neither by its length nor by its values. */
START_TEST(payloads_hold_nothing_personal) {
  struct bench b;
  const struct train_config c = plain_training();
  size_t n;
  bench_init(&b, personal_head, CODEC_F32, &c, 1);
  float *first = values_of(&b);
  train(&b, 1);
  float *x = values_of(&b);
  ck_assert_uint_eq(b.n, N_SHARED + N_HEAD);
  ck_assert(memcmp(first + N_SHARED, x + N_SHARED, N_HEAD * sizeof *x) != 0); /* the head is trained */
  uint8_t *full = payload_of(&b, true, &n);
  ck_assert_uint_eq(n, sizeof(float[N_SHARED]));
  ck_assert_mem_eq(full, x, n);
  uint8_t *difference = payload_of(&b, false, &n);
  ck_assert_uint_eq(n, sizeof(float[N_SHARED]));
  for (size_t i = 0; i < N_SHARED; i++) {
    float d;
    memcpy(&d, difference + i * sizeof d, sizeof d);
    ck_assert(d == x[i] - first[i]);
  }
  ck_assert_uint_eq(learner_copy_bytes(b.learner), sizeof(float[N_SHARED]));
  free(full), free(difference), free(first), free(x);
  bench_done(&b);
}
END_TEST

/* Two sites; in a merge the body moves half way to the other's, the head stays to the bit. */
START_TEST(a_merge_leaves_what_is_personal) {
  struct bench a, b;
  const struct train_config c = plain_training();
  size_t n;
  bench_init(&a, personal_head, CODEC_F32, &c, 1);
  bench_init(&b, personal_head, CODEC_F32, &c, 2);
  train(&a, 1);
  train(&b, 1);
  float *xa = values_of(&a), *xb = values_of(&b);
  free(payload_of(&a, false, &n));
  learner_published(a.learner);
  uint8_t *payload = payload_of(&b, true, &n);
  ck_assert_int_eq(learner_copy_set(a.learner, 1, payload, n), ERR_OK);
  struct contribution of_b = {.copy = 1, .weight = 0.5};
  ck_assert_int_eq(learner_merge(a.learner, &of_b, 1), ERR_OK);
  const float *merged = learner_values(a.learner);
  double apart = 0;
  for (size_t i = 0; i < N_SHARED; i++) {
    ck_assert_double_eq_tol((double)merged[i], ((double)xa[i] + (double)xb[i]) / 2, 1e-6);
    apart += fabs((double)xa[i] - (double)xb[i]);
  }
  ck_assert_double_gt(apart, 0.1);
  ck_assert_mem_eq(merged + N_SHARED, xa + N_SHARED, N_HEAD * sizeof *xa);
  size_t copy = 1;
  learner_adopt_median(a.learner, &copy, 1);
  ck_assert_mem_eq(learner_values(a.learner), xb, N_SHARED * sizeof *xb);
  ck_assert_mem_eq(learner_values(a.learner) + N_SHARED, xa + N_SHARED, N_HEAD * sizeof *xa);
  free(xa), free(xb), free(payload);
  bench_done(&a);
  bench_done(&b);
}
END_TEST

/* ---- what a restart finds */

static uint8_t *half_of(const struct bench *b) {
  uint8_t *half = zeros(learner_half_bytes(b->learner), 1);
  learner_half_write(b->learner, half);
  return half;
}

static uint8_t *model_of(const struct bench *b) {
  uint8_t *model = zeros(learner_model_bytes(b->learner), 1);
  learner_model_write(b->learner, model);
  return model;
}

/* A round that ends in a merge with itself moved a little. */
static void whole_round(struct bench *b, uint64_t round) {
  size_t n;
  train(b, round);
  uint8_t *payload = payload_of(b, false, &n);
  learner_published(b->learner);
  size_t n_copy = learner_copy_bytes(b->learner), n_shared = n_copy / sizeof(float);
  float *copy = zeros(n_shared, sizeof *copy);
  for (size_t i = 0; i < n_shared; i++)
    copy[i] = 0.01f * (float)round * (float)(i % 7);
  ck_assert_int_eq(learner_copy_set(b->learner, 0, (const uint8_t *)copy, n_copy), ERR_OK);
  struct contribution c = {.copy = 0, .weight = 0.3};
  ck_assert_int_eq(learner_merge(b->learner, &c, 1), ERR_OK);
  free(copy), free(payload);
}

static void restart_goes_on(const char *arch, const struct train_config *c) {
  static const enum codec_kind codecs[] = {CODEC_F32, CODEC_F16, CODEC_Q8, CODEC_TOPK};
  for (size_t k = 0; k < sizeof codecs / sizeof *codecs; k++) {
    struct bench a, b;
    bench_init(&a, arch, codecs[k], c, 1);
    bench_init(&b, arch, codecs[k], c, 1);
    whole_round(&a, 1);
    whole_round(&a, 2);
    uint8_t *half = half_of(&a), *model = model_of(&a);
    size_t n_half = learner_half_bytes(a.learner);
    ck_assert_uint_eq(learner_half_measure(b.learner, half, n_half), n_half);
    ck_assert_int_eq(learner_half_read(b.learner, half, n_half), ERR_OK);
    ck_assert_int_eq(learner_model_read(b.learner, model, learner_model_bytes(a.learner)), ERR_OK);
    free(half), free(model);
    whole_round(&a, 3);
    whole_round(&b, 3);
    half = half_of(&a), model = model_of(&a);
    uint8_t *half_b = half_of(&b), *model_b = model_of(&b);
    ck_assert_uint_eq(learner_half_bytes(b.learner), learner_half_bytes(a.learner));
    ck_assert_mem_eq(half_b, half, learner_half_bytes(a.learner));
    ck_assert_mem_eq(model_b, model, learner_model_bytes(a.learner));
    free(half), free(model), free(half_b), free(model_b);
    bench_done(&a);
    bench_done(&b);
  }
}

START_TEST(restarts_go_on_with_the_same_bits) {
  struct train_config c = plain_training();
  restart_goes_on(personal_head, &c);
  restart_goes_on("dense 8, batchnorm personal, relu, dense classes", &c);
  c.proximal = 0.1;
  c.optimiser = (struct optimiser_config){OPTIMISER_ADAM, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8};
  restart_goes_on("dense 8, batchnorm, relu, dense classes personal", &c);
}
END_TEST

/* After the training and before the merge, as after a kill between the two. */
START_TEST(a_half_step_holds_what_is_personal) {
  struct bench a, b;
  const struct train_config c = plain_training();
  size_t n;
  bench_init(&a, personal_head, CODEC_F16, &c, 1);
  bench_init(&b, personal_head, CODEC_F16, &c, 1);
  train(&a, 1);
  free(payload_of(&a, false, &n));
  uint8_t *half = half_of(&a);
  ck_assert_int_eq(learner_half_read(b.learner, half, learner_half_bytes(a.learner)), ERR_OK);
  ck_assert_mem_eq(learner_values(b.learner), learner_values(a.learner), a.n * sizeof(float));
  free(half);
  bench_done(&a);
  bench_done(&b);
}
END_TEST

int main(void) {
  return SUITE_RUN("personal", layers_are_personal_by_name_or_by_kind, statistics_of_a_personal_layer_stay_too,
                   the_schema_hash_says_what_is_shared, a_part_is_gathered_and_scattered,
                   payloads_hold_nothing_personal, a_merge_leaves_what_is_personal, restarts_go_on_with_the_same_bits,
                   a_half_step_holds_what_is_personal);
}
