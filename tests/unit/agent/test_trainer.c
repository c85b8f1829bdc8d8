#include "agent/run/shadow.h"
#include "agent/run/snapshot.h"
#include "agent/run/sums.h"
#include "agent/run/trainer.h"
#include "base/rng.h"
#include "crypto/digest.h"
#include "crypto/merkle.h"
#include "tests/unit/suite.h"

#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { N_COPIES = 3, ANSWER_MS = 20000 };

/* A site: a CSV file of points labelled by their side of a line, and a trainer on it. */
struct site {
  char path[32];
  struct site_job_config config;
  struct schema *schema;
  struct trainer *trainer;
};

static void write_points(const char *path, uint64_t seed, size_t n, double spread) {
  struct rng rng;
  rng_init(&rng, seed);
  FILE *f = fopen(path, "w");
  ck_assert_ptr_nonnull(f);
  fprintf(f, "a,b,verdict\n");
  for (size_t i = 0; i < n; i++) {
    double a = spread * (rng_unit(&rng) - 0.5), b = spread * (rng_unit(&rng) - 0.5);
    fprintf(f, "%.6f,%.6f,%s\n", a, b, a + 2 * b > 0 ? "dent" : "ok");
  }
  ck_assert_int_eq(fclose(f), 0);
}

static struct contract *points_contract(void) {
  struct contract *c = contract_new();
  ck_assert_ptr_nonnull(c);
  snprintf(c->label, sizeof c->label, "verdict");
  ck_assert_int_eq(contract_add_class(c, "ok"), ERR_OK);
  ck_assert_int_eq(contract_add_class(c, "dent"), ERR_OK);
  ck_assert_int_eq(contract_add_feature(c, "a", NULL), ERR_OK);
  ck_assert_int_eq(contract_add_feature(c, "b", NULL), ERR_OK);
  return c;
}

/* The file is written, the trainer not started, so that a test can change the configuration. */
static void site_init(struct site *s, uint64_t seed) {
  char why[MAX_REASON_BYTES];
  *s = (struct site){.path = "/tmp/starling-XXXXXX"};
  int fd = mkstemp(s->path);
  ck_assert_int_ge(fd, 0);
  close(fd);
  write_points(s->path, seed, 400, 4);
  s->config = (struct site_job_config){.train_path = s->path, .global_test_path = s->path, .train_seed = seed};
  static char job_path[] = "x.job.yaml";
  s->config.job_path = job_path;
  s->config.job = (struct job_config){
      .contract = points_contract(),
      .train = {.epochs = 1, .batch = 16, .learning_rate = 0.1, .optimiser = {.momentum = 0.5}},
  };
  s->config.job.contract->codec.kind = CODEC_F16;
  ck_assert_int_eq(schema_from_arch("dense 5, tanh, dense classes", s->config.job.contract, &s->schema, why), ERR_OK);
}

static void site_start(struct site *s) {
  const struct trainer_config config = {
      .site_job = &s->config, .schema = s->schema, .init = {{1, 2, 3}}, .n_copies = N_COPIES};
  ck_assert_int_eq(trainer_start(&config, &s->trainer), ERR_OK);
}

static void site_stop(struct site *s) {
  trainer_stop(s->trainer);
  s->trainer = NULL;
}

static void site_done(struct site *s) {
  site_stop(s);
  schema_free(s->schema);
  contract_free(s->config.job.contract);
  unlink(s->path);
}

static struct trainer_job *job_new(enum trainer_job_kind kind, uint64_t round) {
  struct trainer_job *job = calloc(1, sizeof *job);
  ck_assert_ptr_nonnull(job);
  job->kind = kind;
  job->label.round = round;
  job->rate_scale = 1;
  return job;
}

static struct trainer_result *result_of(struct site *s) {
  struct pollfd fd = {.fd = trainer_fd(s->trainer), .events = POLLIN};
  ck_assert_int_eq(poll(&fd, 1, ANSWER_MS), 1);
  struct trainer_result *r = trainer_poll(s->trainer);
  ck_assert_ptr_nonnull(r);
  return r;
}

static struct trainer_result *run(struct site *s, struct trainer_job *job) {
  enum trainer_job_kind kind = job->kind;
  uint64_t round = job->label.round;
  trainer_put(s->trainer, job);
  struct trainer_result *r = result_of(s);
  ck_assert_int_eq(r->kind, kind);
  ck_assert_uint_eq(r->label.round, round);
  return r;
}

static void load(struct site *s) {
  struct trainer_result *r = run(s, job_new(JOB_LOAD, 0));
  ck_assert_msg(r->error == ERR_OK, "%s", r->sentence);
  ck_assert_uint_gt(r->n_samples, 220);
  ck_assert_uint_gt(r->n_test, 30);
  ck_assert_uint_gt(r->n_validation, 20);
  ck_assert_uint_eq(r->n_samples + r->n_validation + r->n_test, 400);
  ck_assert_uint_eq(r->n_global_test, 400);
  trainer_result_free(r);
}

static struct trainer_result *train(struct site *s, uint64_t round, bool start_chain) {
  struct trainer_job *job = job_new(JOB_TRAIN, round);
  job->start_chain = start_chain;
  job->wants_copy_root = true;
  struct trainer_result *r = run(s, job);
  ck_assert_int_eq(r->error, ERR_OK);
  return r;
}

static struct trainer_result *merge_nothing(struct site *s, uint64_t round) {
  struct trainer_result *r = run(s, job_new(JOB_MERGE, round));
  ck_assert_int_eq(r->error, ERR_OK);
  return r;
}

/* ---- links ---- */

static struct link_in link_of(enum manifest_kind kind, enum encoding encoding, const void *bytes, size_t n_bytes) {
  struct link_in link = {.manifest = {.kind = kind, .encoding = (uint8_t)encoding, .n_payload = n_bytes},
                         .payload = malloc(n_bytes)};
  ck_assert_ptr_nonnull(link.payload);
  memcpy(link.payload, bytes, n_bytes);
  merkle_root(&digest_blake2b, bytes, n_bytes, &link.manifest.payload_root);
  return link;
}

static struct link_in link_from(const struct trainer_result *r, bool start_chain) {
  return link_of(start_chain ? MANIFEST_FULL : MANIFEST_DIFFERENCE, start_chain ? ENCODING_F32 : ENCODING_F16,
                 r->payload.bytes, r->payload.n_bytes);
}

static struct trainer_job *job_with_peers(enum trainer_job_kind kind, uint64_t round, size_t n_peers) {
  struct trainer_job *job = job_new(kind, round);
  job->peers = calloc(n_peers + 1, sizeof *job->peers);
  job->n_peers = n_peers;
  for (size_t i = 0; i < n_peers; i++)
    job->peers[i] = (struct merge_peer){.peer = i, .use = true, .weight = 0.25, .reason = ERR_LATE};
  return job;
}

static void add_link(struct merge_peer *p, struct link_in link) {
  p->links = realloc(p->links, (p->n_links + 1) * sizeof *p->links);
  ck_assert_ptr_nonnull(p->links);
  p->links[p->n_links++] = link;
}

/* P floats: x of a model, behind its head, or a public copy. */
static const uint8_t *values(const struct site *s, const struct buffer *snapshot, size_t *out_n) {
  *out_n = 4 * schema_parameters(s->schema);
  return snapshot->bytes + (snapshot->n_bytes > *out_n ? 64 : 0);
}

static void check_same_values(const struct site *s, const struct buffer *a, const struct buffer *b) {
  size_t n;
  const uint8_t *values_a = values(s, a, &n);
  ck_assert_mem_eq(values_a, values(s, b, &n), n);
}

/* x̂ in the half of a training. */
static struct buffer copy_of(const struct trainer_result *r) {
  return (struct buffer){r->half.bytes + r->copy_offset, r->n_copy};
}

static bool differ(const struct site *s, const struct buffer *a, const struct buffer *b) {
  size_t n;
  const uint8_t *values_a = values(s, a, &n);
  return memcmp(values_a, values(s, b, &n), n) != 0;
}

/* ---- loading ---- */

START_TEST(loads_data_and_says_what_is_worth_a_warning) {
  struct site s;
  site_init(&s, 1);
  FILE *f = fopen(s.path, "w");
  fprintf(f, "a,colour,b,verdict\n");
  for (int i = 0; i < 50; i++)
    fprintf(f, "%d,red,%d,ok\n", i, i % 7);
  fclose(f);
  s.config.job.contract->scale.rule = SCALE_LOCAL;
  site_start(&s);
  struct trainer_result *r = run(&s, job_new(JOB_LOAD, 0));
  ck_assert_int_eq(r->error, ERR_OK);
  ck_assert_ptr_nonnull(strstr(r->sentence, "no training sample of class dent"));
  ck_assert_ptr_nonnull(strstr(r->sentence, "not in the contract and ignored: 1"));
  ck_assert_ptr_nonnull(strstr(r->sentence, "scaled by this site's own numbers"));
  trainer_result_free(r);
  site_done(&s);
}
END_TEST

START_TEST(a_failed_load_says_where_and_may_be_repeated) {
  struct site s;
  site_init(&s, 1);
  FILE *f = fopen(s.path, "w");
  fprintf(f, "a,b,verdict\n1,2,ok\n1,x,ok\n");
  fclose(f);
  site_start(&s);
  struct trainer_result *r = run(&s, job_new(JOB_LOAD, 0));
  ck_assert_int_eq(r->error, ERR_SYNTAX);
  char place[64];
  snprintf(place, sizeof place, "%s:3:2: ", s.path);
  ck_assert_msg(strncmp(r->sentence, place, strlen(place)) == 0, "%s", r->sentence);
  trainer_result_free(r);
  unlink(s.path);
  r = run(&s, job_new(JOB_LOAD, 0));
  ck_assert_int_eq(r->error, ERR_NOT_FOUND);
  ck_assert_ptr_nonnull(strstr(r->sentence, s.path));
  trainer_result_free(r);
  write_points(s.path, 1, 400, 4);
  load(&s);
  site_done(&s);
}
END_TEST

START_TEST(a_snapshot_of_another_model_is_refused) {
  struct site s;
  site_init(&s, 1);
  site_start(&s);
  struct trainer_job *job = job_new(JOB_LOAD, 0);
  job->half = (struct buffer){calloc(1, 100), 100};
  struct trainer_result *r = run(&s, job);
  ck_assert_int_eq(r->error, ERR_CORRUPT);
  ck_assert_ptr_nonnull(strstr(r->sentence, "the stored model: "));
  trainer_result_free(r);
  site_done(&s);
}
END_TEST

/* ---- training ---- */

START_TEST(a_training_is_answered_with_payload_and_half) {
  struct site s;
  site_init(&s, 1);
  site_start(&s);
  load(&s);
  struct trainer_result *r = train(&s, 1, true);
  ck_assert_uint_eq(r->payload.n_bytes, 4 * schema_parameters(s.schema));
  ck_assert_uint_eq(r->local_steps, (r->n_samples + 15) / 16);
  ck_assert(r->train_loss > 0 && isfinite(r->train_loss) && r->seconds > 0);
  struct digest root;
  merkle_root(&digest_blake2b, r->payload.bytes, r->payload.n_bytes, &root);
  ck_assert(digest_equal(&root, &r->payload_root));
  /* the first payload is the public copy, and the copy is where the result says */
  ck_assert_uint_eq(r->n_copy, r->payload.n_bytes);
  ck_assert_mem_eq(r->half.bytes + r->copy_offset, r->payload.bytes, r->n_copy);
  ck_assert(digest_equal(&root, &r->copy_root));
  trainer_result_free(r);
  trainer_result_free(merge_nothing(&s, 1));
  r = train(&s, 2, false);
  ck_assert_uint_eq(r->payload.n_bytes, 2 * schema_parameters(s.schema));
  ck_assert(!digest_is_zero(&r->copy_root));
  trainer_result_free(r);
  trainer_result_free(merge_nothing(&s, 2));
  r = run(&s, job_new(JOB_TRAIN, 3)); /* that nobody wants a root of */
  ck_assert(r->error == ERR_OK && digest_is_zero(&r->copy_root));
  trainer_result_free(r);
  site_done(&s);
}
END_TEST

START_TEST(a_training_takes_the_steps_of_its_job) {
  struct site s;
  site_init(&s, 1);
  site_start(&s);
  struct trainer_result *r = run(&s, job_new(JOB_LOAD, 0));
  ck_assert_int_eq(r->error, ERR_OK);
  uint32_t epoch_steps = r->epoch_steps;
  ck_assert_uint_eq(epoch_steps, (r->n_samples + 15) / 16);
  trainer_result_free(r);
  static const uint32_t steps[] = {7, 0, 90}; /* none: as the job file says, an epoch */
  for (uint64_t i = 0; i < 3; i++) {
    struct trainer_job *job = job_new(JOB_TRAIN, i + 1);
    job->start_chain = i == 0;
    job->steps = steps[i];
    r = run(&s, job);
    ck_assert_int_eq(r->error, ERR_OK);
    ck_assert_uint_eq(r->local_steps, steps[i] > 0 ? steps[i] : epoch_steps);
    trainer_result_free(r);
    trainer_result_free(merge_nothing(&s, i + 1));
  }
  site_done(&s);
}
END_TEST

START_TEST(alone_it_learns) {
  struct site s;
  site_init(&s, 1);
  site_start(&s);
  load(&s);
  double first = 0, last = 0;
  for (uint64_t round = 1; round <= 10; round++) {
    struct trainer_result *trained = train(&s, round, round == 1), *r = merge_nothing(&s, round);
    ck_assert(r->metrics.has_local && r->metrics.has_global);
    last = r->metrics.global_headline;
    first = round == 1 ? r->metrics.global_loss : first;
    ck_assert(round < 10 || r->metrics.global_loss < first);
    trainer_result_free(trained);
    trainer_result_free(r);
  }
  ck_assert(last > 0.9); /* accuracy; seed 1, margin: it reaches about 0.98 */
  site_done(&s);
}
END_TEST

START_TEST(a_failed_training_leaves_the_model_as_committed) {
  struct site s, twin;
  site_init(&s, 1);
  site_init(&twin, 1);
  site_start(&s);
  site_start(&twin);
  load(&s);
  load(&twin);
  struct trainer_job *job = job_new(JOB_TRAIN, 1);
  job->start_chain = true;
  job->rate_scale = 1e300;
  struct trainer_result *r = run(&s, job);
  ck_assert_int_eq(r->error, ERR_NON_FINITE);
  ck_assert(isnan(r->train_loss));
  ck_assert(r->payload.bytes == NULL && r->half.bytes == NULL);
  trainer_result_free(r);
  struct trainer_result *after = merge_nothing(&s, 1), *untouched = merge_nothing(&twin, 1);
  check_same_values(&s, &after->model, &untouched->model);
  trainer_result_free(after);
  trainer_result_free(untouched);
  after = train(&s, 2, true);
  untouched = train(&twin, 2, true);
  ck_assert_uint_eq(after->half.n_bytes, untouched->half.n_bytes);
  ck_assert_mem_eq(after->half.bytes, untouched->half.bytes, after->half.n_bytes);
  trainer_result_free(after);
  trainer_result_free(untouched);
  site_done(&s);
  site_done(&twin);
}
END_TEST

static void append_points(const char *path, size_t n);

/* What comes before the local steps can fail, too: then there is nothing of this round to undo, and the round before stays. */
START_TEST(a_training_that_never_began_undoes_none_before) {
  struct site s;
  site_init(&s, 1);
  s.config.watch = true;
  s.config.job.cluster = (struct cluster_settings){.is_on = true, .steps = 20, .shift = 0.1};
  s.config.job.train.personal.method = PERSONAL_FINETUNE; /* after which nothing can be undone */
  site_start(&s);
  load(&s);
  static float three[] = {1, 1, 1};
  const struct class_weights fitting = s.config.job.train.class_weights;
  for (uint64_t round = 1; round <= 3; round += 2) {
    append_points(s.path, 200 * round); /* of one class: the labels shift */
    s.config.job.train.class_weights = (struct class_weights){.rule = CLASS_WEIGHTS_GIVEN, .values = three, .n = 3};
    struct trainer_result *before = merge_nothing(&s, round), *r = run(&s, job_new(JOB_TRAIN, round));
    ck_assert_int_eq(r->error, ERR_CONTRACT);
    ck_assert(isnan(r->train_loss) && !r->has_sketch && r->payload.bytes == NULL);
    trainer_result_free(r);
    struct trainer_result *after = merge_nothing(&s, round);
    const struct buffer *a = &before->model, *b = &after->model;
    ck_assert_mem_eq(a->bytes, b->bytes, 64 + 4 * schema_parameters(s.schema)); /* x; v is made anew each time */
    s.config.job.train.class_weights = fitting;
    trainer_result_free(before);
    trainer_result_free(after);
    r = train(&s, round + 1, round == 1);
    ck_assert(r->has_sketch); /* what could not be looked for then is now */
    trainer_result_free(r);
    trainer_result_free(merge_nothing(&s, round + 1));
  }
  site_done(&s);
}
END_TEST

/* By the swarm's number of steps: the own model of a half-step that is merged after a restart. */
START_TEST(a_restart_repeats_the_own_models_steps) {
  struct site s;
  site_init(&s, 1);
  s.config.job.is_steps_auto = true;
  s.config.job.train.personal = (struct personal_config){.method = PERSONAL_DITTO, .lambda = 0.1};
  site_start(&s);
  load(&s);
  struct trainer_job *job = job_new(JOB_TRAIN, 1);
  job->start_chain = true;
  job->steps = 7;
  struct trainer_result *trained = run(&s, job), *merged = merge_nothing(&s, 1);
  ck_assert_uint_eq(trained->local_steps, 7);
  site_stop(&s);
  site_start(&s);
  trainer_set_shadow(s.trainer, (struct buffer){0}, false, trained->local_steps);
  job = job_new(JOB_LOAD, 0);
  job->half = trained->half;
  trained->half = (struct buffer){0}; /* now the job's */
  struct trainer_result *r = run(&s, job), *again = merge_nothing(&s, 1);
  ck_assert_msg(r->error == ERR_OK, "%s", r->sentence);
  ck_assert_uint_eq(again->model.n_bytes, merged->model.n_bytes);
  ck_assert_mem_eq(again->model.bytes, merged->model.bytes, merged->model.n_bytes);
  trainer_result_free(trained);
  trainer_result_free(merged);
  trainer_result_free(r);
  trainer_result_free(again);
  site_done(&s);
}
END_TEST

START_TEST(a_restart_repeats_the_bits) {
  struct site s;
  site_init(&s, 1);
  s.config.job.contract->scale.rule = SCALE_LOCAL;
  site_start(&s);
  load(&s);
  struct trainer_result *first = train(&s, 1, true), *merged = merge_nothing(&s, 1), *second = train(&s, 2, false);
  site_stop(&s);
  site_start(&s);
  struct trainer_job *job = job_new(JOB_LOAD, 0);
  job->half = first->half;
  job->model = merged->model;
  first->half = merged->model = (struct buffer){0}; /* now the job's */
  struct trainer_result *r = run(&s, job), *again = train(&s, 2, false);
  ck_assert_msg(r->error == ERR_OK, "%s", r->sentence);
  ck_assert_mem_eq(again->payload.bytes, second->payload.bytes, second->payload.n_bytes);
  trainer_result_free(first);
  trainer_result_free(merged);
  trainer_result_free(second);
  trainer_result_free(r);
  trainer_result_free(again);
  site_done(&s);
}
END_TEST

START_TEST(the_scale_comes_back_with_the_model) {
  struct site s;
  site_init(&s, 1);
  s.config.job.contract->scale.rule = SCALE_LOCAL;
  site_start(&s);
  load(&s);
  struct trainer_result *trained = train(&s, 1, true), *before = merge_nothing(&s, 1);
  site_stop(&s);
  write_points(s.path, 7, 400, 40); /* other data, ten times as wide */
  site_start(&s);
  struct trainer_job *job = job_new(JOB_LOAD, 0);
  job->half = trained->half;
  trained->half = (struct buffer){0}; /* now the job's */
  struct trainer_result *r = run(&s, job), *after = merge_nothing(&s, 1);
  ck_assert_msg(r->error == ERR_OK, "%s", r->sentence);
  ck_assert_uint_eq(after->model.n_bytes, before->model.n_bytes);
  ck_assert_mem_eq(after->model.bytes, before->model.bytes, before->model.n_bytes); /* weights and numbers */
  trainer_result_free(trained);
  trainer_result_free(before);
  trainer_result_free(r);
  trainer_result_free(after);
  site_done(&s);
}
END_TEST

START_TEST(a_snapshot_splits_into_learner_and_scale) {
  struct contract *contract = points_contract();
  struct scale scale, read;
  struct buffer text, learner;
  ck_assert_int_eq(scale_init(&scale, SCALE_LOCAL, 2), ERR_OK);
  scale.mean[1] = -1.0 / 3;
  scale.sd[0] = 1e-300;
  ck_assert_int_eq(snapshot_scale_text(&scale, &text), ERR_OK);
  contract->scale.rule = SCALE_LOCAL;
  ck_assert_uint_le(text.n_bytes, snapshot_bound(&(struct job_config){.contract = contract}, 0, 0));
  ck_assert_int_eq(snapshot_split(contract, &text, 0, &learner, &read), ERR_OK);
  ck_assert_uint_eq(learner.n_bytes, 0);
  ck_assert(read.n == 2 && read.mean[1] == scale.mean[1] && read.sd[0] == scale.sd[0]);
  scale_done(&read);
  ck_assert_int_eq(snapshot_split(contract, &text, text.n_bytes, &learner, &read), ERR_CORRUPT); /* no scale */
  ck_assert_int_eq(snapshot_split(contract, &text, 3, &learner, &read), ERR_CORRUPT);
  ck_assert_int_eq(snapshot_split(contract, &text, text.n_bytes + 1, &learner, &read), ERR_OK); /* the learner judges */
  ck_assert_uint_eq(learner.n_bytes, text.n_bytes);
  contract->scale.rule = SCALE_NONE;
  ck_assert_int_eq(snapshot_split(contract, &text, 3, &learner, &read), ERR_OK);
  ck_assert_uint_eq(learner.n_bytes, text.n_bytes);
  ck_assert_uint_eq(snapshot_bound(&(struct job_config){.contract = contract}, 0, 3), 3);
  free(text.bytes);
  scale_done(&scale);
  contract_free(contract);
}
END_TEST

/* ---- merging ---- */

START_TEST(two_sites_average_to_the_same_model) {
  struct site s[2];
  struct trainer_result *trained[2], *merged[2];
  for (size_t i = 0; i < 2; i++) {
    site_init(&s[i], i + 1);
    site_start(&s[i]);
    load(&s[i]);
    trained[i] = train(&s[i], 1, true);
  }
  const struct buffer copies[] = {copy_of(trained[0]), copy_of(trained[1])};
  ck_assert(differ(&s[0], &copies[0], &copies[1]));
  for (size_t i = 0; i < 2; i++) {
    struct trainer_job *job = job_with_peers(JOB_MERGE, 1, 1);
    job->whole_snapshot = i == 1;
    job->peers[0].weight = 0.5;
    job->peers[0].peer = i; /* any copy will do */
    add_link(&job->peers[0], link_from(trained[1 - i], true));
    merged[i] = run(&s[i], job);
    ck_assert_int_eq(merged[i]->error, ERR_OK);
    ck_assert_uint_eq(merged[i]->n_peers, 1);
    ck_assert_int_eq(merged[i]->peers[0].reason, ERR_OK);
    ck_assert_uint_eq(merged[i]->peers[0].n_applied, 1);
    ck_assert(merged[i]->peers[0].distance > 0 && merged[i]->peers[0].fate == FATE_KEPT);
    ck_assert_ptr_null(merged[i]->peers[0].links[0].payload);
    ck_assert_int_eq(merged[i]->half.bytes != NULL, i == 1);
  }
  check_same_values(&s[0], &merged[0]->model, &merged[1]->model);
  for (size_t i = 0; i < 2; i++) {
    trainer_result_free(trained[i]);
    trainer_result_free(merged[i]);
    site_done(&s[i]);
  }
}
END_TEST

START_TEST(a_copy_made_of_links_equals_the_senders) {
  struct site sender, receiver;
  site_init(&sender, 1);
  site_init(&receiver, 2);
  site_start(&sender);
  site_start(&receiver);
  load(&sender);
  load(&receiver);
  struct trainer_job *job = job_with_peers(JOB_ADOPT, 3, 1);
  struct trainer_result *last = NULL;
  for (uint64_t round = 1; round <= 3; round++) {
    trainer_result_free(last);
    last = train(&sender, round, round == 1);
    add_link(&job->peers[0], link_from(last, round == 1));
    job->peers[0].links[round - 1].manifest.copy_root = last->copy_root;
    trainer_result_free(merge_nothing(&sender, round));
  }
  struct trainer_result *adopted = run(&receiver, job);
  ck_assert_int_eq(adopted->error, ERR_OK);
  ck_assert_uint_eq(adopted->peers[0].n_applied, 3);
  ck_assert(adopted->metrics.has_global && adopted->half.bytes != NULL);
  const struct buffer copy = copy_of(last);
  check_same_values(&sender, &adopted->model, &copy); /* x := x̂_j = the sender's x̂, to the bit */
  trainer_result_free(adopted);
  trainer_result_free(last);
  site_done(&sender);
  site_done(&receiver);
}
END_TEST

/* A receiver with peers 0 and 1, of which peer 0 sends what `spoil` makes of its links; then what became of both. */
static struct trainer_result *merge_spoilt(struct site *receiver, void (*spoil)(struct merge_peer *p)) {
  struct site sender;
  site_init(&sender, 2);
  site_start(&sender);
  load(&sender);
  struct trainer_result *trained = train(&sender, 1, true), *own = train(receiver, 1, true);
  struct trainer_job *job = job_with_peers(JOB_MERGE, 1, 2);
  for (size_t i = 0; i < 2; i++)
    add_link(&job->peers[i], link_from(trained, true));
  spoil(&job->peers[0]);
  struct trainer_result *r = run(receiver, job);
  ck_assert_int_eq(r->error, ERR_OK);
  ck_assert_int_eq(r->peers[1].reason, ERR_OK);
  ck_assert_uint_eq(r->peers[1].n_applied, 1);
  ck_assert(r->peers[1].distance > 0);
  const struct buffer copy = copy_of(own);
  ck_assert(differ(receiver, &r->model, &copy));
  trainer_result_free(trained);
  trainer_result_free(own);
  site_done(&sender);
  return r;
}

static void spoil_with_nan(struct merge_peer *p) {
  float values[27];
  for (size_t i = 0; i < 27; i++)
    values[i] = NAN;
  ck_assert_uint_eq(p->links[0].manifest.n_payload, sizeof values);
  add_link(p, link_of(MANIFEST_DIFFERENCE, ENCODING_F32, values, sizeof values));
}

static void spoil_full_with_infinity(struct merge_peer *p) {
  float values[27] = {INFINITY};
  free(p->links[0].payload);
  p->links[0] = link_of(MANIFEST_FULL, ENCODING_F32, values, sizeof values);
}

static void spoil_root(struct merge_peer *p) {
  add_link(p, link_of(MANIFEST_DIFFERENCE, ENCODING_F16, (uint8_t[54]){0}, 54));
  add_link(p, link_of(MANIFEST_DIFFERENCE, ENCODING_F16, (uint8_t[54]){0}, 54));
  p->links[1].payload[5] ^= 1;
}

static void spoil_length(struct merge_peer *p) {
  add_link(p, link_of(MANIFEST_DIFFERENCE, ENCODING_F16, (uint8_t[52]){0}, 52));
}

static void spoil_encoding(struct merge_peer *p) {
  add_link(p, link_of(MANIFEST_FULL, ENCODING_F16, (uint8_t[54]){0}, 54));
}

static void spoil_copy_root(struct merge_peer *p) {
  add_link(p, link_of(MANIFEST_DIFFERENCE, ENCODING_F16, (uint8_t[54]){0}, 54));
  p->links[1].manifest.copy_root.bytes[0] = 1;
}

START_TEST(a_bad_link_refuses_its_peer_and_no_other) {
  static const struct {
    void (*spoil)(struct merge_peer *p);
    enum err reason;
    size_t n_applied;
  } cases[] = {
      {spoil_with_nan, ERR_NON_FINITE, 1}, {spoil_full_with_infinity, ERR_NON_FINITE, 0},
      {spoil_root, ERR_ROOT, 1},           {spoil_length, ERR_LENGTH, 1},
      {spoil_encoding, ERR_ENCODING, 1},   {spoil_copy_root, ERR_CHAIN, 1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct site receiver;
    site_init(&receiver, 1);
    site_start(&receiver);
    load(&receiver);
    struct trainer_result *r = merge_spoilt(&receiver, cases[i].spoil);
    ck_assert_int_eq(r->peers[0].reason, cases[i].reason);
    ck_assert_uint_eq(r->peers[0].n_applied, cases[i].n_applied);
    trainer_result_free(r);
    site_done(&receiver);
  }
}
END_TEST

START_TEST(without_peers_the_model_stays_to_the_bit) {
  struct site s;
  site_init(&s, 1);
  site_start(&s);
  load(&s);
  struct trainer_result *trained = train(&s, 1, true), *r = merge_nothing(&s, 1);
  const struct buffer copy = copy_of(trained);
  check_same_values(&s, &r->model, &copy); /* x̂ = x after a full payload */
  trainer_result_free(trained);
  trainer_result_free(r);
  r = run(&s, job_with_peers(JOB_ADOPT, 2, 0));
  ck_assert_int_eq(r->error, ERR_NOT_FOUND);
  trainer_result_free(r);
  site_done(&s);
}
END_TEST

/* ---- stopping ---- */

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static struct buffer buffer_copy(const struct buffer *b) {
  struct buffer copy = {malloc(b->n_bytes), b->n_bytes};
  ck_assert_ptr_nonnull(copy.bytes);
  memcpy(copy.bytes, b->bytes, b->n_bytes);
  return copy;
}

static struct trainer_result *restore(struct site *s, const struct buffer *half, const struct buffer *model) {
  struct trainer_job *job = job_new(JOB_RESTORE, 0);
  job->half = buffer_copy(half);
  job->model = buffer_copy(model);
  return run(s, job);
}

/* Going back to what was committed after round 1 repeats round 2 to the bit, with a training that nobody was told of in
 * between; what does not fit is refused and leaves what was committed last. */
START_TEST(a_kept_model_is_taken_back) {
  struct site s;
  site_init(&s, 5);
  site_start(&s);
  load(&s);
  struct trainer_result *half = run(&s, job_new(JOB_TRAIN, 1)), *model = run(&s, job_new(JOB_MERGE, 1));
  struct trainer_result *two = run(&s, job_new(JOB_TRAIN, 2)), *model_two = run(&s, job_new(JOB_MERGE, 2));
  struct trainer_result *unpublished = run(&s, job_new(JOB_TRAIN, 3));

  struct buffer cut = {half->half.bytes, half->half.n_bytes - 1};
  struct trainer_result *r = restore(&s, &cut, &model->model);
  ck_assert_int_eq(r->error, ERR_TRUNCATED);
  trainer_result_free(r);
  r = run(&s, job_new(JOB_TRAIN, 3));
  ck_assert_int_eq(r->error, ERR_OK);
  trainer_result_free(r);

  r = restore(&s, &half->half, &model->model); /* taken back, for it was not committed */
  ck_assert_int_eq(r->error, ERR_OK);
  trainer_result_free(r);
  r = run(&s, job_new(JOB_UNDO, 0));
  ck_assert_int_eq(r->error, ERR_OK);
  ck_assert(r->metrics.global_loss == model_two->metrics.global_loss);
  trainer_result_free(r);
  struct trainer_result *three = run(&s, job_new(JOB_TRAIN, 3));
  ck_assert_mem_eq(three->half.bytes, unpublished->half.bytes, unpublished->half.n_bytes);
  trainer_result_free(three);

  r = restore(&s, &half->half, &model->model);
  ck_assert_int_eq(r->error, ERR_OK);
  ck_assert(r->metrics.has_global && r->metrics.global_loss == model->metrics.global_loss);
  trainer_result_free(r);
  struct trainer_job *job = job_new(JOB_TRAIN, 2);
  job->start_chain = false;
  struct trainer_result *again = run(&s, job), *model_again = run(&s, job_new(JOB_MERGE, 2));
  ck_assert_uint_eq(again->half.n_bytes, two->half.n_bytes);
  ck_assert_mem_eq(again->half.bytes, two->half.bytes, two->half.n_bytes);
  ck_assert_mem_eq(model_again->model.bytes, model_two->model.bytes, model_two->model.n_bytes);
  struct trainer_result *const all[] = {half, model, two, model_two, unpublished, again, model_again};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) // NOLINT(bugprone-sizeof-expression): an array of pointers
    trainer_result_free(all[i]);
  site_done(&s);
}
END_TEST

static struct trainer_result *import(struct site *s, const struct buffer *model) {
  struct trainer_job *job = job_new(JOB_RESTORE, 0);
  job->is_import = true;
  job->model = buffer_copy(model);
  return run(s, job);
}

/* A model from elsewhere is answered whole; x̂ is what was published, and one that does not fit changes nothing. */
START_TEST(a_model_from_elsewhere_is_taken) {
  struct site s;
  site_init(&s, 5);
  site_start(&s);
  load(&s);
  struct trainer_result *half = run(&s, job_new(JOB_TRAIN, 1)), *model = run(&s, job_new(JOB_MERGE, 1));
  struct trainer_result *two = run(&s, job_new(JOB_TRAIN, 2)), *model_two = run(&s, job_new(JOB_MERGE, 2));
  struct trainer_result *unpublished = run(&s, job_new(JOB_TRAIN, 3));
  const struct buffer cut = {model->model.bytes, model->model.n_bytes - 1};
  struct trainer_result *r = import(&s, &cut);
  ck_assert_int_eq(r->error, ERR_TRUNCATED);
  trainer_result_free(r);
  r = import(&s, &model->model);
  ck_assert_int_eq(r->error, ERR_OK);
  ck_assert(r->metrics.global_loss == model->metrics.global_loss);
  ck_assert_mem_eq(r->model.bytes, model->model.bytes, model->model.n_bytes);
  ck_assert_mem_eq(r->half.bytes + r->half.n_bytes - two->n_copy, two->half.bytes + two->copy_offset, two->n_copy);
  struct trainer_result *const all[] = {half, model, two, model_two, unpublished, r};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) // NOLINT(bugprone-sizeof-expression): an array of pointers
    trainer_result_free(all[i]);
  site_done(&s);
}
END_TEST

/* In work, with some hundred million steps to go. */
static void begin_long_training(struct site *s) {
  site_init(s, 1);
  s->config.job.train.steps = 500000000;
  site_start(s);
  load(s);
  trainer_put(s->trainer, job_new(JOB_TRAIN, 1));
  uint32_t done = 0, total = 0;
  while (done < 10) { /* the other thread needs the processor that a busy wait would keep under valgrind */
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    trainer_progress(s->trainer, &done, &total);
  }
  ck_assert_uint_eq(total, 500000000);
}

START_TEST(stops_within_a_second_of_a_long_training) {
  struct site s;
  begin_long_training(&s);
  trainer_put(s.trainer, job_with_peers(JOB_MERGE, 1, 2)); /* what still waits is freed too */
  double start = now_s();
  site_stop(&s);
  ck_assert(now_s() - start < 1);
  site_done(&s);
}
END_TEST

START_TEST(one_that_is_interrupted_answers_without_being_joined) {
  struct site s;
  begin_long_training(&s);
  trainer_interrupt(s.trainer);
  struct trainer_result *r = result_of(&s);
  ck_assert_int_eq(r->error, ERR_STOPPED);
  trainer_result_free(r);
  site_done(&s);
}
END_TEST

/* ---- the shadow ---- */

static struct trainer_result *merge_with_shadow(struct site *s, uint64_t round, uint64_t n_trainings) {
  struct buffer half;
  uint64_t trained, steps;
  struct trainer_result *r = merge_nothing(s, round);
  ck_assert_int_eq(shadow_split(&r->shadow, &half, &trained, &steps), ERR_OK);
  ck_assert_uint_eq(trained, n_trainings);
  ck_assert(r->shadow_figures.is_on && r->shadow_figures.seconds > 0);
  return r;
}

/* Without merges it is the site's own model, bit for bit; a half-step that was stored without its commitment leaves it one
 * training behind, which it makes after the load. */
START_TEST(the_shadow_keeps_up) {
  struct site s;
  struct buffer half, shadow;
  uint64_t trained, steps;
  site_init(&s, 9);
  s.config.shadow = SHADOW_ON;
  s.config.job.contract->codec.kind = CODEC_F32;
  site_start(&s);
  trainer_set_shadow(s.trainer, (struct buffer){0}, true, 0);
  load(&s);
  trainer_result_free(train(&s, 1, true));
  struct trainer_job *own_steps = job_new(JOB_TRAIN, 2); /* more than its job file says, as with steps: auto */
  own_steps->steps = 11;
  struct trainer_result *first = merge_with_shadow(&s, 1, 1), *published = run(&s, own_steps);
  ck_assert_uint_eq(published->local_steps, 11);
  struct trainer_result *second = merge_with_shadow(&s, 2, 2);
  site_stop(&s);

  ck_assert_int_eq(shadow_split(&second->shadow, &half, &trained, &steps), ERR_OK);
  enum { HALF_HEAD = 336, MODEL_HEAD = 64 };
  ck_assert_mem_eq(half.bytes + HALF_HEAD, second->model.bytes + MODEL_HEAD, second->model.n_bytes - MODEL_HEAD);

  site_start(&s);
  shadow = first->shadow;
  first->shadow = (struct buffer){0}; /* now the trainer's */
  trainer_set_shadow(s.trainer, shadow, false, published->local_steps);
  struct trainer_job *job = job_new(JOB_LOAD, 2);
  job->half = published->half;
  published->half = (struct buffer){0};
  struct trainer_result *loaded = run(&s, job), *again = merge_with_shadow(&s, 2, 2);
  ck_assert_uint_eq(again->shadow.n_bytes, second->shadow.n_bytes);
  ck_assert_mem_eq(again->shadow.bytes, second->shadow.bytes, again->shadow.n_bytes);

  struct trainer_result *const results[] = {first, published, second, loaded, again};
  for (size_t i = 0; i < 5; i++)
    trainer_result_free(results[i]);
  site_done(&s);
}
END_TEST

/* The answer with the own payload was made before the shadow's training began. */
START_TEST(the_payload_does_not_wait_for_the_shadow) {
  struct site s;
  site_init(&s, 9);
  s.config.shadow = SHADOW_ON;
  site_start(&s);
  trainer_set_shadow(s.trainer, (struct buffer){0}, true, 0);
  load(&s);
  for (uint64_t round = 1; round <= 3; round++) {
    struct trainer_result *trained = train(&s, round, round == 1);
    ck_assert(trained->payload.n_bytes > 0);
    ck_assert_uint_eq(trained->shadow_figures.n_trainings, round - 1);
    trainer_result_free(trained);
    trainer_result_free(merge_with_shadow(&s, round, round));
  }
  site_done(&s);
}
END_TEST

/* ---- tasks ---- */

static void site_with_tasks(struct site *s) {
  site_init(s, 3);
  struct continual_config *c = &s->config.job.continual;
  ck_assert_int_eq(task_list_init(&c->tasks, INCREMENT_CLASS, 2), ERR_OK);
  ck_assert_int_eq(task_list_put(&c->tasks, 0, 0), ERR_OK);
  ck_assert_int_eq(task_list_put(&c->tasks, 1, 1), ERR_OK);
  c->rounds = 1;
  c->replay = 20;
  c->ewc = 10;
  c->ewc_decay = 1;
  c->ewc_samples = MIN_FISHER_SAMPLES;
}

static void site_with_tasks_start(struct site *s, uint8_t key) {
  const struct trainer_config config = {
      .site_job = &s->config, .schema = s->schema, .init = {{1, 2, 3}}, .n_copies = N_COPIES, .at_rest = {{key}}};
  ck_assert_int_eq(trainer_start(&config, &s->trainer), ERR_OK);
}

static struct trainer_result *load_from(struct site *s, const struct buffer *half, const struct buffer *model) {
  struct trainer_job *job = job_new(JOB_LOAD, 0);
  job->half = (struct buffer){malloc(half->n_bytes), half->n_bytes};
  job->model = (struct buffer){malloc(model->n_bytes), model->n_bytes};
  ck_assert(job->half.bytes && job->model.bytes);
  memcpy(job->half.bytes, half->bytes, half->n_bytes);
  memcpy(job->model.bytes, model->bytes, model->n_bytes);
  return run(s, job);
}

START_TEST(tasks_come_in_turn_are_judged_and_outlast_a_restart) {
  struct site s;
  site_with_tasks(&s);
  site_with_tasks_start(&s, 7);
  load(&s);
  struct trainer_result *one = run(&s, job_new(JOB_TRAIN, 1)), *merged = run(&s, job_new(JOB_MERGE, 1));
  ck_assert(one->has_new_task && one->continual.is_on && one->continual.task == 0 && one->continual.n_replay == 0);
  ck_assert_uint_eq(merged->tasks.n, 2);
  ck_assert_double_gt(merged->tasks.accuracy[0], 0.99); /* one class alone */
  ck_assert_double_lt(merged->tasks.accuracy[1], 0.01);
  struct trainer_result *two = run(&s, job_new(JOB_TRAIN, 2)), *merged_two = run(&s, job_new(JOB_MERGE, 2));
  ck_assert(two->has_new_task && two->continual.task == 1 && two->continual.n_replay == 20);
  ck_assert_uint_eq(merged_two->tasks.position, 1);
  struct trainer_result *three = run(&s, job_new(JOB_TRAIN, 3));
  ck_assert(!three->has_new_task);

  site_stop(&s);
  site_with_tasks_start(&s, 7);
  struct trainer_result *r = load_from(&s, &two->half, &merged_two->model);
  ck_assert_msg(r->error == ERR_OK, "%s", r->sentence);
  ck_assert(r->continual.is_on && r->continual.task == 1 && r->continual.n_replay == 20);
  trainer_result_free(r);
  struct trainer_result *again = run(&s, job_new(JOB_TRAIN, 3));
  ck_assert_uint_eq(again->half.n_bytes, three->half.n_bytes);
  ck_assert_mem_eq(again->half.bytes, three->half.bytes, three->half.n_bytes);

  r = restore(&s, &one->half, &merged->model); /* back before the second task, and forward again */
  ck_assert(r->error == ERR_OK && r->continual.task == 0 && r->continual.n_replay == 0);
  trainer_result_free(r);
  r = run(&s, job_new(JOB_UNDO, 0));
  ck_assert(r->error == ERR_OK && r->continual.task == 1 && r->continual.n_replay == 20);
  trainer_result_free(r);
  struct trainer_result *const all[] = {one, merged, two, merged_two, three, again};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) // NOLINT(bugprone-sizeof-expression): an array of pointers
    trainer_result_free(all[i]);
  task_list_done(&s.config.job.continual.tasks);
  site_done(&s);
}
END_TEST

static bool holds(const struct buffer *b, const void *what, size_t n) {
  for (size_t i = 0; i + n <= b->n_bytes; i++)
    if (memcmp(b->bytes + i, what, n) == 0)
      return true;
  return false;
}

/* No sample that is kept stands readable in what the store gets, and another identity's key opens nothing. */
START_TEST(what_is_kept_of_a_task_is_sealed) {
  struct site s;
  site_with_tasks(&s);
  site_with_tasks_start(&s, 7);
  load(&s);
  trainer_result_free(run(&s, job_new(JOB_TRAIN, 1)));
  trainer_result_free(run(&s, job_new(JOB_MERGE, 1)));
  struct trainer_result *two = run(&s, job_new(JOB_TRAIN, 2)), *merged = run(&s, job_new(JOB_MERGE, 2));
  site_stop(&s);
  ck_assert(!holds(&two->half, "starcont", 8));
  FILE *f = fopen(s.path, "r");
  char line[128];
  ck_assert_ptr_nonnull(fgets(line, sizeof line, f)); /* the names of the columns */
  while (fgets(line, sizeof line, f)) {
    char *end;
    float row[2];
    row[0] = strtof(line, &end);
    row[1] = strtof(end + 1, NULL);
    ck_assert(!holds(&two->half, row, sizeof row));
  }
  fclose(f);
  site_with_tasks_start(&s, 8);
  struct trainer_result *r = load_from(&s, &two->half, &merged->model);
  ck_assert_int_eq(r->error, ERR_SEAL);
  ck_assert_ptr_nonnull(strstr(r->sentence, "another key"));
  trainer_result_free(r);
  site_stop(&s);

  s.config.job.continual.replay = 5; /* another job file: what does not fit begins anew, and is told */
  site_with_tasks_start(&s, 7);
  r = load_from(&s, &two->half, &merged->model);
  ck_assert_int_eq(r->error, ERR_OK);
  ck_assert_ptr_nonnull(strstr(r->sentence, "begins anew"));
  trainer_result_free(r);
  trainer_result_free(two);
  trainer_result_free(merged);
  task_list_done(&s.config.job.continual.tasks);
  site_done(&s);
}
END_TEST

START_TEST(a_site_without_samples_of_a_task_does_not_start) {
  struct site s;
  site_with_tasks(&s);
  FILE *f = fopen(s.path, "w");
  fprintf(f, "a,b,verdict\n");
  for (int i = 0; i < 50; i++)
    fprintf(f, "%d,%d,ok\n", i, i % 7);
  fclose(f);
  site_with_tasks_start(&s, 7);
  struct trainer_result *r = run(&s, job_new(JOB_LOAD, 0));
  ck_assert_int_eq(r->error, ERR_RANGE);
  ck_assert_ptr_nonnull(strstr(r->sentence, "no training sample of task 2"));
  trainer_result_free(r);
  task_list_done(&s.config.job.continual.tasks);
  site_done(&s);
}
END_TEST

/* ---- peers that are not followed ---- */

START_TEST(who_is_not_followed_may_say_that_it_has_nothing) {
  static const size_t copy_at[] = {SIZE_MAX, 0};
  struct site s;
  site_init(&s, 1);
  const struct trainer_config config = {
      .site_job = &s.config, .schema = s.schema, .init = {{1, 2, 3}}, .n_copies = 1, .copy_of = copy_at};
  ck_assert_int_eq(trainer_start(&config, &s.trainer), ERR_OK);
  load(&s);
  struct trainer_result *own = train(&s, 1, true);
  struct trainer_job *job = job_with_peers(JOB_MERGE, 1, 2);
  job->peers[0].use = false;
  add_link(&job->peers[0], (struct link_in){.manifest = {.kind = MANIFEST_NONE}});
  add_link(&job->peers[1], link_from(own, true));
  struct trainer_result *r = run(&s, job);
  ck_assert_int_eq(r->error, ERR_OK);
  ck_assert_int_eq(r->peers[0].reason, ERR_OK);
  ck_assert_int_eq(r->peers[1].reason, ERR_OK);
  ck_assert_uint_eq(r->peers[1].n_applied, 1);
  trainer_result_free(r);
  trainer_result_free(own);
  site_done(&s);
}
END_TEST

/* ---- data that arrive ---- */

static void append(const char *path, const char *text) {
  FILE *f = fopen(path, "a");
  ck_assert_ptr_nonnull(f);
  fputs(text, f);
  ck_assert_int_eq(fclose(f), 0);
}

static void append_points(const char *path, size_t n) {
  FILE *f = fopen(path, "a");
  ck_assert_ptr_nonnull(f);
  for (size_t i = 0; i < n; i++)
    fprintf(f, "%g,%g,ok\n", (double)i * 0.01, (double)i * 0.02);
  ck_assert_int_eq(fclose(f), 0);
}

START_TEST(what_is_appended_is_trained_on_from_the_next_round) {
  struct site s;
  site_init(&s, 5);
  s.config.watch = true;
  s.config.shadow = SHADOW_ON;
  site_start(&s);
  load(&s);
  struct trainer_result *r = train(&s, 1, true);
  uint32_t n = r->n_samples;
  ck_assert_str_eq(r->stream_note, "");
  trainer_result_free(r);
  trainer_result_free(merge_nothing(&s, 1));

  append_points(s.path, 200);
  append(s.path, "7,"); /* a line that is being written */
  r = train(&s, 2, false);
  ck_assert_str_eq(r->stream_note, "");
  ck_assert_uint_gt(r->n_samples, n + 100);
  n = r->n_samples;
  trainer_result_free(r);
  trainer_result_free(merge_nothing(&s, 2));

  append(s.path, "7,ok\nthis is no row\n");
  r = train(&s, 3, false);
  ck_assert(r->is_stream_refused);
  ck_assert_ptr_nonnull(strstr(r->stream_note, s.path));
  ck_assert_ptr_nonnull(strstr(r->stream_note, "samples of before"));
  ck_assert_uint_eq(r->n_samples, n);
  trainer_result_free(r);
  trainer_result_free(merge_nothing(&s, 3));
  r = train(&s, 4, false);
  ck_assert_str_eq(r->stream_note, ""); /* told once */
  trainer_result_free(r);
  trainer_result_free(merge_nothing(&s, 4));

  write_points(s.path, 5, 100, 4); /* truncated, and whole again */
  r = train(&s, 5, false);
  ck_assert(!r->is_stream_refused);
  ck_assert_ptr_nonnull(strstr(r->stream_note, "has become shorter"));
  ck_assert_uint_lt(r->n_samples, 100);
  ck_assert(r->shadow_figures.is_on);
  trainer_result_free(r);
  site_done(&s);
}
END_TEST

/* What is said of the data in the round, which is done to its end. */
static void do_round(struct site *s, uint64_t round, bool is_refused, const char *note, uint32_t *out_samples) {
  struct trainer_result *r = train(s, round, round == 1);
  ck_assert(r->is_stream_refused == is_refused);
  ck_assert_msg(note[0] ? strstr(r->stream_note, note) != NULL : r->stream_note[0] == '\0', "%s", r->stream_note);
  *out_samples = r->n_samples;
  trainer_result_free(r);
  trainer_result_free(merge_nothing(s, round));
}

static void limit_files(rlim_t n_bytes) {
  const struct rlimit limit = {n_bytes, RLIM_INFINITY};
  ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

START_TEST(what_cannot_be_read_now_is_told_once_and_read_when_it_can) {
  struct site s;
  uint32_t before, now;
  char away[40];
  site_init(&s, 5);
  s.config.watch = true;
  site_start(&s);
  load(&s);
  do_round(&s, 1, false, "", &before);
  snprintf(away, sizeof away, "%s.away", s.path);
  ck_assert_int_eq(rename(s.path, away), 0); /* as a folder that is not mounted */
  do_round(&s, 2, true, "it does not exist", &now);
  do_round(&s, 3, true, "", &now);
  ck_assert_uint_eq(now, before);
  ck_assert_int_eq(rename(away, s.path), 0);
  do_round(&s, 4, false, "", &now);
  ck_assert_uint_eq(now, before);

  append_points(s.path, 100000);
  ck_assert(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
  limit_files(1 << 20); /* there is no room to read it */
  do_round(&s, 5, true, "failed", &now);
  do_round(&s, 6, true, "", &now);
  ck_assert_uint_eq(now, before);
  limit_files(RLIM_INFINITY);
  do_round(&s, 7, false, "", &now);
  ck_assert_uint_gt(now, before + 50000);
  site_done(&s);
}
END_TEST

/* ---- sums: two sites, each with the other as its one peer ---- */

enum { SUM_BYTES = 27 * 4 };

struct pair {
  struct site s[2];
  struct gossip_peer_config peers[2]; /* [i]: site i, as the other has it */
  struct sums_roster rosters[2];
};

static void start_with_sums(struct pair *p, size_t i) {
  p->rosters[i] = (struct sums_roster){.own = p->peers[i].key, .peers = &p->peers[1 - i], .n_peers = 1, .n_agents = 2};
  const struct trainer_config config = {.site_job = &p->s[i].config,
                                        .schema = p->s[i].schema,
                                        .init = {{1, 2, 3}},
                                        .n_copies = 1,
                                        .roster = &p->rosters[i]};
  ck_assert_int_eq(trainer_start(&config, &p->s[i].trainer), ERR_OK);
}

static void pair_init(struct pair *p) {
  *p = (struct pair){.peers = {{.key = {{1}}}, {.key = {{2}}}}};
  for (size_t i = 0; i < 2; i++) {
    site_init(&p->s[i], i + 1);
    p->s[i].config.job.average = AVERAGE_PUSH_SUM;
    p->s[i].config.job.contract->codec.kind = CODEC_F32;
    start_with_sums(p, i);
    load(&p->s[i]);
  }
}

static void pair_done(struct pair *p) {
  for (size_t i = 0; i < 2; i++)
    site_done(&p->s[i]);
}

static struct trainer_result *give(struct site *s, uint64_t round, bool is_told) {
  struct trainer_job *job = job_new(JOB_TRAIN, round);
  job->account = 7;
  job->told = calloc(2, sizeof *job->told);
  ck_assert_ptr_nonnull(job->told);
  job->told[0] = is_told;
  struct trainer_result *r = run(s, job);
  ck_assert_int_eq(r->error, ERR_OK);
  return r;
}

static struct link_in sum_of(const struct trainer_result *r, uint64_t sequence) {
  struct link_in link = link_of(MANIFEST_SUM, ENCODING_F32, r->payload.bytes, r->payload.n_bytes);
  link.manifest.mu = r->mass;
  link.manifest.sequence = sequence;
  return link;
}

static struct trainer_result *take(struct site *s, uint64_t round, struct link_in link) {
  struct trainer_job *job = job_with_peers(JOB_MERGE, round, 1);
  add_link(&job->peers[0], link);
  struct trainer_result *r = run(s, job);
  ck_assert_int_eq(r->error, ERR_OK);
  return r;
}

static void check_account(const struct trainer_result *r, double held, double told, double taken) {
  ck_assert(r->account.is_on);
  ck_assert_double_eq(r->account.held, held);
  ck_assert_double_eq(r->account.peers[0].told, told);
  ck_assert_double_eq(r->account.peers[0].taken, taken);
}

/* One round of both; what they have then. */
static void exchange(struct pair *p, uint64_t round, bool is_told, struct trainer_result *out[2]) {
  struct trainer_result *given[2];
  for (size_t i = 0; i < 2; i++)
    given[i] = give(&p->s[i], round, is_told);
  for (size_t i = 0; i < 2; i++) {
    out[i] = take(&p->s[i], round, sum_of(given[1 - i], round));
    ck_assert_int_eq(out[i]->peers[0].reason, ERR_OK);
  }
  for (size_t i = 0; i < 2; i++)
    trainer_result_free(given[i]);
}

static void free_both(struct trainer_result *r[2]) {
  trainer_result_free(r[0]);
  trainer_result_free(r[1]);
}

START_TEST(two_sites_give_each_other_half_and_have_the_mean) {
  struct pair p;
  struct trainer_result *r[2];
  size_t n;
  pair_init(&p);
  exchange(&p, 1, false, r); /* the first sums: nothing is given before */
  check_account(r[0], 1, 0, 0);
  free_both(r);
  exchange(&p, 2, true, r);
  check_account(r[0], 1, 0.5, 0.5);
  check_account(r[1], 1, 0.5, 0.5);
  const uint8_t *a = values(&p.s[0], &r[0]->model, &n), *b = values(&p.s[1], &r[1]->model, &n);
  for (size_t i = 0; i < n / 4; i++) {
    float x, y;
    memcpy(&x, a + 4 * i, 4);
    memcpy(&y, b + 4 * i, 4);
    ck_assert_float_eq_tol(x, y, 1e-6F);
  }
  free_both(r);
  pair_done(&p);
}
END_TEST

START_TEST(what_is_withheld_is_not_given) {
  struct pair p;
  struct trainer_result *r[2];
  pair_init(&p);
  exchange(&p, 1, false, r);
  free_both(r);
  struct trainer_result *given = give(&p.s[0], 2, true);
  check_account(given, 0.5, 0.5, 0);
  struct trainer_job *job = job_new(JOB_MERGE, 2);
  job->is_withheld = true;
  struct trainer_result *merged = run(&p.s[0], job);
  ck_assert_int_eq(merged->error, ERR_OK);
  check_account(merged, 1, 0, 0);
  trainer_result_free(given);
  trainer_result_free(merged);
  pair_done(&p);
}
END_TEST

static struct trainer_job *load_of(const struct trainer_result *half, const struct trainer_result *model) {
  struct trainer_job *job = job_new(JOB_LOAD, 0);
  const struct buffer *from[] = {&half->half, &model->model};
  struct buffer *to[] = {&job->half, &job->model};
  for (size_t i = 0; i < 2; i++) {
    *to[i] = (struct buffer){malloc(from[i]->n_bytes), from[i]->n_bytes};
    ck_assert_ptr_nonnull(to[i]->bytes);
    memcpy(to[i]->bytes, from[i]->bytes, from[i]->n_bytes);
  }
  return job;
}

START_TEST(the_account_outlasts_a_restart) {
  struct pair p;
  struct trainer_result *r[2];
  pair_init(&p);
  exchange(&p, 1, false, r);
  free_both(r);
  struct trainer_result *of_a = give(&p.s[0], 2, true), *of_b = give(&p.s[1], 2, true);
  struct trainer_result *merged = take(&p.s[0], 2, sum_of(of_b, 2));
  site_stop(&p.s[0]);
  start_with_sums(&p, 0);
  struct trainer_result *loaded = run(&p.s[0], load_of(of_a, merged));
  ck_assert_msg(loaded->error == ERR_OK, "%s", loaded->sentence);
  check_account(loaded, 1, 0.5, 0.5);
  struct trainer_result *again = take(&p.s[0], 2, sum_of(of_b, 2)); /* it is known */
  check_account(again, 1, 0.5, 0.5);
  check_same_values(&p.s[0], &merged->model, &again->model);
  trainer_result_free(again);
  trainer_result_free(loaded);
  trainer_result_free(merged);
  trainer_result_free(of_a);
  trainer_result_free(of_b);
  pair_done(&p);
}
END_TEST

static void spoil_sum_value(struct link_in *link) {
  const float nan = NAN;
  memcpy(link->payload + 8, &nan, sizeof nan);
}

static void spoil_sum_length(struct link_in *link) {
  link->manifest.n_payload = SUM_BYTES - 4;
}

static void spoil_sum_tail(struct link_in *link) {
  link->manifest.n_payload -= 1;
}

static void spoil_sum_told(struct link_in *link) {
  const double more = 0.75; /* than the sum grew by */
  memcpy(link->payload + link->manifest.n_payload - sizeof more, &more, sizeof more);
}

static void spoil_sum_kind(struct link_in *link) {
  link->manifest.kind = MANIFEST_FULL;
}

START_TEST(a_sum_that_is_refused_changes_no_mass) {
  static const struct {
    void (*spoil)(struct link_in *link);
    enum err reason;
  } cases[] = {{spoil_sum_value, ERR_NON_FINITE},
               {spoil_sum_length, ERR_LENGTH},
               {spoil_sum_tail, ERR_ENCODING},
               {spoil_sum_told, ERR_MASS},
               {spoil_sum_kind, ERR_ENCODING}};
  struct pair p;
  struct trainer_result *r[2];
  pair_init(&p);
  exchange(&p, 1, false, r);
  free_both(r);
  struct trainer_result *given = give(&p.s[1], 2, true);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct link_in link = sum_of(given, 2);
    cases[i].spoil(&link);
    merkle_root(&digest_blake2b, link.payload, link.manifest.n_payload, &link.manifest.payload_root);
    struct trainer_result *refused = take(&p.s[0], 2, link);
    ck_assert_int_eq(refused->peers[0].reason, cases[i].reason);
    check_account(refused, 1, 0, 0);
    trainer_result_free(refused);
  }
  struct trainer_result *taken = take(&p.s[0], 2, sum_of(given, 2)); /* the truth still counts */
  check_account(taken, 1.5, 0, 0.5);
  trainer_result_free(taken);
  trainer_result_free(given);
  pair_done(&p);
}
END_TEST

START_TEST(a_joiner_adopts_what_a_sum_is_the_mean_of) {
  struct pair p;
  size_t n;
  pair_init(&p);
  struct trainer_result *given = give(&p.s[1], 1, false);
  struct trainer_job *job = job_with_peers(JOB_ADOPT, 1, 1);
  struct trainer_result *none = run(&p.s[0], job);
  ck_assert_int_eq(none->error, ERR_NOT_FOUND);
  job = job_with_peers(JOB_ADOPT, 1, 1);
  add_link(&job->peers[0], sum_of(given, 1));
  struct trainer_result *adopted = run(&p.s[0], job);
  ck_assert_int_eq(adopted->error, ERR_OK);
  check_account(adopted, 1, 0, 0);
  ck_assert_mem_eq(values(&p.s[0], &adopted->model, &n), given->payload.bytes, SUM_BYTES); /* of mass 1 */
  trainer_result_free(adopted);
  trainer_result_free(none);
  trainer_result_free(given);
  pair_done(&p);
}
END_TEST

int main(void) {
  return SUITE_RUN(
      "agent/trainer", loads_data_and_says_what_is_worth_a_warning, a_failed_load_says_where_and_may_be_repeated,
      a_snapshot_of_another_model_is_refused, a_training_is_answered_with_payload_and_half,
      a_training_takes_the_steps_of_its_job, alone_it_learns, a_failed_training_leaves_the_model_as_committed,
      a_training_that_never_began_undoes_none_before, a_restart_repeats_the_own_models_steps,
      a_restart_repeats_the_bits, the_scale_comes_back_with_the_model, a_snapshot_splits_into_learner_and_scale,
      two_sites_average_to_the_same_model, a_copy_made_of_links_equals_the_senders,
      a_bad_link_refuses_its_peer_and_no_other, without_peers_the_model_stays_to_the_bit, a_kept_model_is_taken_back,
      a_model_from_elsewhere_is_taken, stops_within_a_second_of_a_long_training,
      one_that_is_interrupted_answers_without_being_joined, what_is_appended_is_trained_on_from_the_next_round,
      what_cannot_be_read_now_is_told_once_and_read_when_it_can, who_is_not_followed_may_say_that_it_has_nothing,
      tasks_come_in_turn_are_judged_and_outlast_a_restart, what_is_kept_of_a_task_is_sealed,
      a_site_without_samples_of_a_task_does_not_start, the_shadow_keeps_up, the_payload_does_not_wait_for_the_shadow,
      two_sites_give_each_other_half_and_have_the_mean, what_is_withheld_is_not_given, the_account_outlasts_a_restart,
      a_sum_that_is_refused_changes_no_mass, a_joiner_adopts_what_a_sum_is_the_mean_of);
}
