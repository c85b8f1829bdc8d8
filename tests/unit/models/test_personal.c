/* Personal layers: what travels of a model and what does not. */
#include "models/floats.h"
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

static const char personal_head[] = "dense 8, relu, dense classes personal", plain[] = "dense 8, relu, dense classes";

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
  ck_assert_uint_eq(schema_parameters(s) - schema_shared(s), (size_t)4 * N_HIDDEN);
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
  struct digest shared = hash_of(plain), head = hash_of(personal_head);
  ck_assert(!digest_equal(&shared, &head));
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
  ck_assert_uint_eq(share.n, n - (size_t)(N_HIDDEN + 1) * 4);
  float *model = zeros(n, sizeof *model), *part = zeros(share.n, sizeof *part), *back = zeros(n, sizeof *back);
  for (size_t i = 0; i < n; i++)
    model[i] = (float)i + 1;
  share_gather(&share, model, part);
  for (size_t i = 0; i < share.n; i++)
    ck_assert(part[i] == (float)(i < N_SHARED ? i : i + (size_t)(N_HIDDEN + 1) * 4) + 1);
  share_scatter(&share, part, back);
  for (size_t i = 0; i < n; i++)
    ck_assert(back[i] == (i >= N_SHARED && i < N_SHARED + (size_t)(N_HIDDEN + 1) * 4 ? 0 : model[i]));
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
  ck_assert_double_gt(floats_distance(first + N_SHARED, x + N_SHARED, N_HEAD), 0); /* the head is trained */
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
  ck_assert_int_eq(learner_personalise(b->learner, round, 0, NULL), ERR_OK);
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
  c = plain_training();
  c.personal = (struct personal_config){.method = PERSONAL_PARTIAL, .head_epochs = 2};
  restart_goes_on(personal_head, &c);
  c.personal = (struct personal_config){.method = PERSONAL_FINETUNE};
  restart_goes_on(plain, &c);
  c.personal = (struct personal_config){.method = PERSONAL_DITTO, .lambda = 0.5};
  restart_goes_on("dense 8, batchnorm, relu, dense classes", &c);
  c.personal = (struct personal_config){.method = PERSONAL_INTERPOLATE};
  restart_goes_on(plain, &c);
  c = plain_training();
  c.optimiser.momentum = 0;
  c.control_variates = true;
  restart_goes_on(plain, &c);
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

/* ---- the methods */

static struct train_config whole_batch(enum personal_method method, double lambda) {
  return (struct train_config){.steps = 1,
                               .batch = 60,
                               .learning_rate = 0.1,
                               .optimiser = {.kind = OPTIMISER_SGD},
                               .personal = {.method = method, .lambda = lambda}};
}

/* The swarm goes on as if nobody had a model of his own. */
START_TEST(own_models_are_never_sent) {
  static const enum personal_method methods[] = {PERSONAL_FINETUNE, PERSONAL_DITTO, PERSONAL_INTERPOLATE};
  for (size_t k = 0; k < sizeof methods / sizeof *methods; k++) {
    struct bench a, b;
    struct train_config c = plain_training();
    bench_init(&a, plain, CODEC_F16, &c, 1);
    c.personal = (struct personal_config){.method = methods[k], .lambda = 0.1};
    bench_init(&b, plain, CODEC_F16, &c, 1);
    for (uint64_t round = 1; round <= 3; round++) {
      whole_round(&a, round);
      whole_round(&b, round);
      float *before = values_of(&b);
      ck_assert_mem_eq(before, learner_values(a.learner), a.n * sizeof(float));
      ck_assert(memcmp(learner_served(b.learner), before, b.n * sizeof(float)) != 0);
      ck_assert_mem_eq(learner_served(a.learner), before, b.n * sizeof(float));
      free(before);
    }
    size_t n, n_plain;
    train(&a, 4), train(&b, 4);
    uint8_t *of_a = payload_of(&a, false, &n_plain), *of_b = payload_of(&b, false, &n);
    ck_assert_uint_eq(n, n_plain);
    ck_assert_mem_eq(of_b, of_a, n);
    free(of_a), free(of_b);
    bench_done(&a);
    bench_done(&b);
  }
}
END_TEST

/* v is what one more epoch makes of the merged model. */
START_TEST(finetune_is_an_epoch_more) {
  struct bench a, b;
  struct train_config c = plain_training();
  c.personal.method = PERSONAL_FINETUNE;
  bench_init(&a, plain, CODEC_F32, &c, 1);
  whole_round(&a, 1);
  c.personal.method = PERSONAL_NONE;
  bench_init(&b, plain, CODEC_F32, &c, 1);
  ck_assert_int_eq(learner_go_on_from(b.learner, learner_values(a.learner), true), ERR_OK);
  train(&b, 1);
  ck_assert_mem_eq(learner_served(a.learner), learner_values(b.learner), b.n * sizeof(float));
  bench_done(&a);
  bench_done(&b);
}
END_TEST

/* v' = v − η(∇f(v) + λ(v − x)): with and without λ they differ by ηλ(x − v). */
START_TEST(ditto_is_pulled_to_the_merged_model) {
  struct bench with, without;
  const double lambda = 0.7;
  const struct train_config c = whole_batch(PERSONAL_DITTO, lambda), free_of = whole_batch(PERSONAL_DITTO, 0);
  bench_init(&with, plain, CODEC_F32, &c, 1);
  bench_init(&without, plain, CODEC_F32, &free_of, 1);
  float *v = values_of(&with); /* as the first weights */
  whole_round(&with, 1);
  whole_round(&without, 1);
  const float *x = learner_values(with.learner), *a = learner_served(with.learner),
              *b = learner_served(without.learner);
  double most = 0;
  for (size_t i = 0; i < with.n; i++) {
    double pull = c.learning_rate * lambda * ((double)x[i] - (double)v[i]);
    ck_assert_double_eq_tol((double)a[i], (double)b[i] + pull, 1e-6);
    most = fmax(most, fabs(pull));
  }
  ck_assert_double_gt(most, 1e-3);
  free(v);
  bench_done(&with);
  bench_done(&without);
}
END_TEST

/* First a step of the head alone, then one of the body with that head. */
START_TEST(fedrep_takes_turns) {
  struct bench joint, turns;
  struct train_config c = whole_batch(PERSONAL_PARTIAL, 0);
  bench_init(&joint, personal_head, CODEC_F32, &c, 1);
  c.personal.head_epochs = 1;
  bench_init(&turns, personal_head, CODEC_F32, &c, 1);
  float *mixed = values_of(&joint);
  train(&joint, 1);
  memcpy(mixed + N_SHARED, learner_values(joint.learner) + N_SHARED, N_HEAD * sizeof *mixed); /* old body, new head */
  ck_assert_int_eq(learner_go_on_from(joint.learner, mixed, true), ERR_OK);
  train(&joint, 1);
  train(&turns, 1);
  const float *body = learner_values(joint.learner), *x = learner_values(turns.learner);
  for (size_t i = 0; i < N_SHARED; i++)
    ck_assert_double_eq_tol((double)x[i], (double)body[i], 1e-6);
  for (size_t i = N_SHARED; i < turns.n; i++)
    ck_assert_double_eq_tol((double)x[i], (double)mixed[i], 1e-6);
  free(mixed);
  bench_done(&joint);
  bench_done(&turns);
}
END_TEST

/* v + (mixture' − mixture)/α, with α = ½ a quarter of the rate: v' = v − η·½∇f(mixture). */
START_TEST(interpolate_trains_v_at_the_mixture) {
  struct bench a, b;
  const struct train_config c = whole_batch(PERSONAL_INTERPOLATE, 0), step = whole_batch(PERSONAL_NONE, 0);
  bench_init(&a, plain, CODEC_F32, &c, 1);
  bench_init(&b, plain, CODEC_F32, &step, 1);
  float *v = values_of(&a);
  whole_round(&a, 1);
  const float *x = learner_values(a.learner), *served = learner_served(a.learner);
  float *mixture = zeros(a.n, sizeof *mixture), *expected = zeros(a.n, sizeof *expected);
  for (size_t i = 0; i < a.n; i++)
    mixture[i] = (float)(((double)v[i] + (double)x[i]) / 2);
  ck_assert_int_eq(learner_go_on_from(b.learner, mixture, true), ERR_OK);
  train(&b, 1);
  for (size_t i = 0; i < a.n; i++)
    expected[i] = v[i] + 0.5f * (learner_values(b.learner)[i] - mixture[i]);
  /* served = αv' + (1 − α)x with an α of ¼ … ¾ that is the same for all values */
  double dot = 0, square = 0;
  for (size_t i = 0; i < a.n; i++) {
    double apart = (double)expected[i] - (double)x[i];
    dot += apart * ((double)served[i] - (double)x[i]);
    square += apart * apart;
  }
  double alpha = dot / square;
  ck_assert(alpha >= 0.25 - 1e-6 && alpha <= 0.75 + 1e-6);
  ck_assert_double_eq_tol(fmod(alpha + 1e-9, 0.05), 0, 1e-5); /* half of the way to a tenth */
  for (size_t i = 0; i < a.n; i++)
    ck_assert_double_eq_tol((double)served[i], alpha * (double)expected[i] + (1 - alpha) * (double)x[i], 1e-5);
  free(v), free(mixture), free(expected);
  bench_done(&a);
  bench_done(&b);
}
END_TEST

struct countdown {
  size_t left;
};

static enum err count_down(void *context, size_t done, size_t total) {
  struct countdown *c = context;
  (void)done, (void)total;
  return c->left-- == 0 ? ERR_STOPPED : ERR_OK;
}

/* Wherever it is stopped, while v is trained and while α is looked for. */
START_TEST(an_own_model_that_is_stopped_stays_as_it_was) {
  static const enum personal_method methods[] = {PERSONAL_FINETUNE, PERSONAL_DITTO, PERSONAL_INTERPOLATE};
  for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
    struct train_config c = plain_training();
    c.personal = (struct personal_config){.method = methods[i], .lambda = 0.5};
    struct bench b;
    bench_init(&b, plain, CODEC_F32, &c, 1);
    whole_round(&b, 1);
    train(&b, 2);
    size_t n_model = learner_model_bytes(b.learner), n_stopped = 0;
    uint8_t *before = model_of(&b);
    float *served = memcpy(zeros(b.n, sizeof(float)), learner_served(b.learner), b.n * sizeof(float));
    if (methods[i] == PERSONAL_INTERPOLATE) /* the mixture is that with x as it is now */
      ck_assert_int_eq(learner_model_read(b.learner, before, n_model), ERR_OK);
    memcpy(served, learner_served(b.learner), b.n * sizeof(float));
    for (enum err e = ERR_STOPPED; e != ERR_OK; n_stopped++) {
      struct countdown at = {n_stopped};
      const struct work_hook hook = {count_down, &at};
      e = learner_personalise(b.learner, 2, 0, &hook);
      if (e == ERR_OK)
        break;
      uint8_t *after = model_of(&b);
      ck_assert_int_eq(e, ERR_STOPPED);
      ck_assert_mem_eq(after, before, n_model);
      ck_assert_mem_eq(learner_served(b.learner), served, b.n * sizeof(float));
      free(after);
    }
    ck_assert_uint_gt(n_stopped, methods[i] == PERSONAL_INTERPOLATE ? 10 : 3);
    free(before), free(served);
    bench_done(&b);
  }
}
END_TEST

static double accuracy(const struct bench *b) {
  struct metrics m;
  ck_assert_int_eq(learner_evaluate(b->learner, TEST_LOCAL, NULL, &m), ERR_OK);
  double a = m.accuracy;
  metrics_done(&m);
  return a;
}

/* The one's classes are called as the other's next ones. */
static void rename_classes(struct dataset *d) {
  for (size_t i = 0; i < d->n; i++)
    d->labels[i] = (uint16_t)((d->labels[i] + 1) % N_CLASSES);
}

/* A round of two that merge half of each other. */
static void exchange(struct bench pair[2], uint64_t round) {
  uint8_t *full[2];
  size_t n;
  for (size_t k = 0; k < 2; k++) {
    train(&pair[k], round);
    full[k] = payload_of(&pair[k], true, &n);
    learner_published(pair[k].learner);
  }
  for (size_t k = 0; k < 2; k++) {
    struct contribution c = {.copy = 0, .weight = 0.5};
    ck_assert_int_eq(learner_copy_set(pair[k].learner, 0, full[!k], n), ERR_OK);
    ck_assert_int_eq(learner_merge(pair[k].learner, &c, 1), ERR_OK);
    ck_assert_int_eq(learner_personalise(pair[k].learner, round, 0, NULL), ERR_OK);
  }
  free(full[0]), free(full[1]);
}

static double mean_accuracy(const char *arch, struct personal_config personal) {
  struct bench pair[2];
  struct train_config c = plain_training();
  c.epochs = 3;
  c.personal = personal;
  for (size_t k = 0; k < 2; k++)
    bench_init(&pair[k], arch, CODEC_F32, &c, 1 + k);
  rename_classes(&pair[1].train);
  rename_classes(&pair[1].test);
  for (uint64_t round = 1; round <= 15; round++)
    exchange(pair, round);
  double mean = (accuracy(&pair[0]) + accuracy(&pair[1])) / 2;
  bench_done(&pair[0]);
  bench_done(&pair[1]);
  return mean;
}

/* What no common model can learn, for the two sites disagree, each of these learns. */
START_TEST(sites_that_disagree_learn_each_their_own) {
  ck_assert_double_lt(mean_accuracy(plain, (struct personal_config){.method = PERSONAL_NONE}), 0.8);
  static const struct {
    const char *arch;
    struct personal_config personal;
  } cases[] = {
      {personal_head, {.method = PERSONAL_PARTIAL}}, {personal_head, {.method = PERSONAL_PARTIAL, .head_epochs = 1}},
      {plain, {.method = PERSONAL_FINETUNE}},        {plain, {.method = PERSONAL_DITTO, .lambda = 0.1}},
      {plain, {.method = PERSONAL_INTERPOLATE}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    double a = mean_accuracy(cases[i].arch, cases[i].personal);
    ck_assert_msg(a > 0.9, "case %zu: %.3f", i, a);
  }
}
END_TEST

/* Its own models are not written where nobody wants them, and read where the method has changed. */
START_TEST(models_of_another_method_are_read) {
  struct bench a, b;
  struct train_config c = plain_training();
  bench_init(&a, plain, CODEC_F32, &c, 1);
  c.personal = (struct personal_config){.method = PERSONAL_DITTO, .lambda = 0.1};
  bench_init(&b, plain, CODEC_F32, &c, 1);
  whole_round(&a, 1);
  whole_round(&b, 1);
  uint8_t *of_a = model_of(&a), *of_b = model_of(&b);
  size_t n_a = learner_model_bytes(a.learner), n_b = learner_model_bytes(b.learner);
  ck_assert_uint_gt(n_b, n_a);
  ck_assert_uint_eq(learner_model_measure(a.n, of_b, n_b), n_b);
  ck_assert_uint_eq(learner_model_measure(a.n, of_a, n_a + 1), n_a);
  ck_assert_uint_le(n_b, learner_model_most(a.learner));
  ck_assert_int_eq(learner_model_read(a.learner, of_b, n_b), ERR_OK);
  ck_assert_mem_eq(learner_served(a.learner), learner_values(b.learner), a.n * sizeof(float));
  float *own = memcpy(zeros(b.n, sizeof *own), learner_served(b.learner), b.n * sizeof *own);
  uint8_t held = of_b[n_b - 1];
  of_b[n_b - 1] = 0xff, of_b[n_b - 2] = 0xff; /* NaN at the end of v */
  ck_assert_int_eq(learner_model_read(b.learner, of_b, n_b), ERR_NON_FINITE);
  of_b[n_b - 1] = held;
  ck_assert_int_eq(learner_model_read(b.learner, of_b, n_b - 1), ERR_TRUNCATED);
  ck_assert_mem_eq(learner_served(b.learner), own, b.n * sizeof *own);
  ck_assert_int_eq(learner_model_read(b.learner, of_a, n_a), ERR_OK); /* v begins as x */
  ck_assert_mem_eq(learner_served(b.learner), learner_values(b.learner), b.n * sizeof *own);
  free(of_a), free(of_b), free(own);
  bench_done(&a);
  bench_done(&b);
}
END_TEST

int main(void) {
  return SUITE_RUN_WITHIN(
      "personal", 60, layers_are_personal_by_name_or_by_kind, statistics_of_a_personal_layer_stay_too,
      the_schema_hash_says_what_is_shared, a_part_is_gathered_and_scattered, payloads_hold_nothing_personal,
      a_merge_leaves_what_is_personal, restarts_go_on_with_the_same_bits, a_half_step_holds_what_is_personal,
      own_models_are_never_sent, finetune_is_an_epoch_more, ditto_is_pulled_to_the_merged_model, fedrep_takes_turns,
      interpolate_trains_v_at_the_mixture, an_own_model_that_is_stopped_stays_as_it_was,
      sites_that_disagree_learn_each_their_own, models_of_another_method_are_read);
}
