/* Payloads with NaN, infinities, numbers whose sums overflow, denormals and −0, through the trainer: the first never reach
 * a model or a copy and their sender is told apart, the last are kept to the bit. */
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/run/trainer.h"
#include "base/rng.h"
#include "crypto/digest.h"
#include "crypto/merkle.h"
#include "tests/size.h"
#include "tests/unit/suite.h"

enum { N_PEERS = 200, ANSWER_MS = 60000 };

/* A site with few samples, and what its trainer holds of its peers. */
struct site {
  char path[32];
  struct site_job_config config;
  struct schema *schema;
  struct trainer *trainer;
  size_t n_values;
  float *copies[N_PEERS]; /* as they have to be */
  uint64_t round;
  struct rng rng;
};

static void site_open(struct site *s) {
  char why[MAX_REASON_BYTES];
  static char job_path[] = "x.job.yaml";
  *s = (struct site){.path = "/tmp/starling-XXXXXX"};
  int fd = mkstemp(s->path);
  ck_assert_int_ge(fd, 0);
  FILE *f = fdopen(fd, "w");
  fprintf(f, "a,b,verdict\n");
  for (int i = 0; i < 40; i++)
    fprintf(f, "%d,%d,%s\n", i, i % 7, i % 2 ? "ok" : "dent");
  ck_assert_int_eq(fclose(f), 0);
  struct contract *c = contract_new();
  ck_assert_ptr_nonnull(c);
  snprintf(c->label, sizeof c->label, "verdict");
  ck_assert_int_eq(contract_add_class(c, "ok"), ERR_OK);
  ck_assert_int_eq(contract_add_class(c, "dent"), ERR_OK);
  ck_assert_int_eq(contract_add_feature(c, "a", NULL), ERR_OK);
  ck_assert_int_eq(contract_add_feature(c, "b", NULL), ERR_OK);
  s->config =
      (struct site_job_config){.train_path = s->path,
                               .job_path = job_path,
                               .job = {.contract = c, .train = {.epochs = 1, .batch = 16, .learning_rate = 0.1}}};
  c->codec.kind = CODEC_F16;
  ck_assert_int_eq(schema_from_arch("dense 9, tanh, dense classes", c, &s->schema, why), ERR_OK);
  s->n_values = schema_parameters(s->schema);
  for (size_t i = 0; i < N_PEERS; i++)
    s->copies[i] = calloc(s->n_values, sizeof(float));
  rng_init(&s->rng, 11);
  const struct trainer_config config = {
      .site_job = &s->config, .schema = s->schema, .init = {{1, 2, 3}}, .n_copies = N_PEERS};
  ck_assert_int_eq(trainer_start(&config, &s->trainer), ERR_OK);
}

static void site_close(struct site *s) {
  trainer_stop(s->trainer);
  for (size_t i = 0; i < N_PEERS; i++)
    free(s->copies[i]);
  schema_free(s->schema);
  contract_free(s->config.job.contract);
  unlink(s->path);
}

static struct trainer_job *job_new(struct site *s, enum trainer_job_kind kind, size_t n_peers) {
  struct trainer_job *job = calloc(1, sizeof *job);
  ck_assert_ptr_nonnull(job);
  job->kind = kind;
  job->label.round = s->round++;
  job->rate_scale = 1;
  job->start_chain = true;
  job->n_peers = n_peers;
  job->peers = calloc(n_peers + 1, sizeof *job->peers);
  for (size_t i = 0; i < n_peers; i++)
    job->peers[i] = (struct merge_peer){.peer = i, .use = true, .weight = 0.9 / N_PEERS, .reason = ERR_LATE};
  return job;
}

static struct trainer_result *run(struct site *s, struct trainer_job *job) {
  trainer_put(s->trainer, job);
  struct pollfd fd = {.fd = trainer_fd(s->trainer), .events = POLLIN};
  ck_assert_int_eq(poll(&fd, 1, ANSWER_MS), 1);
  struct trainer_result *r = trainer_poll(s->trainer);
  ck_assert_ptr_nonnull(r);
  ck_assert_msg(r->error == ERR_OK || r->error == ERR_MERGE_REFUSED, "%s %s", err_name(r->error), r->sentence);
  return r;
}

static void add_link(struct merge_peer *p, enum manifest_kind kind, enum encoding encoding, const void *bytes, size_t n,
                     const struct digest *copy_root) {
  ck_assert_uint_gt(n, 0);
  p->links = realloc(p->links, (p->n_links + 1) * sizeof *p->links);
  ck_assert_ptr_nonnull(p->links);
  struct link_in *link = &p->links[p->n_links++];
  *link =
      (struct link_in){.manifest = {.kind = kind, .encoding = (uint8_t)encoding, .n_payload = n}, .payload = malloc(n)};
  ck_assert_ptr_nonnull(link->payload);
  memcpy(link->payload, bytes, n);
  merkle_root(&digest_blake2b, bytes, n, &link->manifest.payload_root);
  if (copy_root)
    link->manifest.copy_root = *copy_root;
}

static void check_finite(const struct site *s, const struct buffer *model) {
  const uint8_t *at = model->bytes + 64;
  for (size_t i = 0; i < s->n_values; i++) {
    float x;
    memcpy(&x, at + 4 * i, sizeof x);
    ck_assert(isfinite(x));
  }
}

/* The bits of every copy are as they have to be: a difference of nothing but −0, which changes no bit, states their root,
 * and a copy that does not have it is refused as `chain`. */
static void check_copies(struct site *s) {
  struct trainer_job *job = job_new(s, JOB_MERGE, N_PEERS);
  float *nothing = malloc(4 * s->n_values);
  for (size_t i = 0; i < s->n_values; i++)
    nothing[i] = -0.0F;
  for (size_t i = 0; i < N_PEERS; i++) {
    struct digest root;
    merkle_root(&digest_blake2b, s->copies[i], 4 * s->n_values, &root);
    add_link(&job->peers[i], MANIFEST_DIFFERENCE, ENCODING_F32, nothing, 4 * s->n_values, &root);
  }
  struct trainer_result *r = run(s, job);
  check_finite(s, &r->model);
  for (size_t i = 0; i < N_PEERS; i++)
    ck_assert_str_eq(err_name(r->peers[i].reason), "ok");
  trainer_result_free(r);
  free(nothing);
}

/* ---- kinds of payload ----------------------------------------------------------------------------------------------- */

static uint32_t bits_any(struct rng *rng) {
  return (uint32_t)rng_u64(rng);
}

static uint32_t nan_32(struct rng *rng) {
  uint32_t fraction = bits_any(rng) & 0x7fffff;
  return (bits_any(rng) & 0x80000000) | 0x7f800000 | (fraction ? fraction : 1);
}

static uint32_t plus_infinity_32(struct rng *rng) {
  (void)rng;
  return 0x7f800000;
}

static uint32_t minus_infinity_32(struct rng *rng) {
  (void)rng;
  return 0xff800000;
}

/* Added to a copy that holds it already it overflows. */
static uint32_t huge_32(struct rng *rng) {
  (void)rng;
  float x = 3.0e38F;
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static uint32_t ordinary_32(struct rng *rng) {
  float x = (float)(rng_unit(rng) - 0.5);
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static uint32_t tiny_32(struct rng *rng) {
  uint32_t sign = bits_any(rng) & 0x80000000;
  return bits_any(rng) % 4 == 0 ? sign : sign | (bits_any(rng) & 0x7fffff); /* ±0 or a denormal */
}

static uint16_t nan_16(struct rng *rng) {
  uint16_t fraction = bits_any(rng) & 0x3ff;
  return (uint16_t)((bits_any(rng) & 0x8000) | 0x7c00 | (fraction ? fraction : 1));
}

static uint16_t plus_infinity_16(struct rng *rng) {
  (void)rng;
  return 0x7c00;
}

static uint16_t minus_infinity_16(struct rng *rng) {
  (void)rng;
  return 0xfc00;
}

static const struct bad {
  const char *name;
  uint32_t (*value_32)(struct rng *rng);
  uint16_t (*value_16)(struct rng *rng);
} bad[] = {
    {"NaN", nan_32, nan_16},
    {"+inf", plus_infinity_32, plus_infinity_16},
    {"-inf", minus_infinity_32, minus_infinity_16},
};

/* A payload of small values in which one, or one in three, is bad. */
static void payload_32(struct site *s, uint32_t (*value)(struct rng *), uint32_t *out) {
  for (size_t i = 0; i < s->n_values; i++)
    out[i] = ordinary_32(&s->rng);
  out[rng_below(&s->rng, s->n_values)] = value(&s->rng);
  for (size_t i = 0; bits_any(&s->rng) & 1 && i < s->n_values; i += 3)
    out[i] = value(&s->rng);
}

static void payload_16(struct site *s, uint16_t (*value)(struct rng *), uint16_t *out) {
  for (size_t i = 0; i < s->n_values; i++)
    out[i] = (uint16_t)(bits_any(&s->rng) & 0x83ff); /* up to 2^-14 */
  out[rng_below(&s->rng, s->n_values)] = value(&s->rng);
}

enum way { WAY_FULL, WAY_DIFFERENCE_32, WAY_DIFFERENCE_16, N_WAYS };

static void add_bad(struct site *s, struct merge_peer *p, const struct bad *b, enum way way) {
  uint32_t words[256];
  uint16_t halves[256];
  ck_assert_uint_le(s->n_values, 256);
  if (way == WAY_DIFFERENCE_16) {
    payload_16(s, b->value_16, halves);
    add_link(p, MANIFEST_DIFFERENCE, ENCODING_F16, halves, 2 * s->n_values, NULL);
    return;
  }
  payload_32(s, b->value_32, words);
  add_link(p, way == WAY_FULL ? MANIFEST_FULL : MANIFEST_DIFFERENCE, ENCODING_F32, words, 4 * s->n_values, NULL);
}

/* Full copies of `value` for every peer, all accepted. */
static void fill_copies(struct site *s, uint32_t (*value)(struct rng *)) {
  struct trainer_job *job = job_new(s, JOB_MERGE, N_PEERS);
  for (size_t i = 0; i < N_PEERS; i++) {
    for (size_t k = 0; k < s->n_values; k++) {
      uint32_t bits = value(&s->rng);
      memcpy(&s->copies[i][k], &bits, sizeof bits);
    }
    add_link(&job->peers[i], MANIFEST_FULL, ENCODING_F32, s->copies[i], 4 * s->n_values, NULL);
  }
  struct trainer_result *r = run(s, job);
  check_finite(s, &r->model);
  for (size_t i = 0; i < N_PEERS; i++)
    ck_assert_str_eq(err_name(r->peers[i].reason), "ok");
  trainer_result_free(r);
}

static void load(struct site *s) {
  trainer_result_free(run(s, job_new(s, JOB_LOAD, 0)));
}

START_TEST(what_is_not_finite_reaches_no_model_and_no_copy) {
  struct site s;
  site_open(&s);
  load(&s);
  fill_copies(&s, ordinary_32);
  size_t n_jobs = sized(1, 10000 / N_PEERS, 40000 / N_PEERS);
  for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)
    for (enum way way = 0; way < N_WAYS; way++)
      for (size_t n = 0; n < n_jobs; n++) {
        struct trainer_job *job = job_new(&s, JOB_MERGE, N_PEERS);
        for (size_t i = 0; i < N_PEERS; i++)
          add_bad(&s, &job->peers[i], &bad[k], way);
        struct trainer_result *r = run(&s, job);
        check_finite(&s, &r->model);
        for (size_t i = 0; i < N_PEERS; i++) {
          ck_assert_msg(r->peers[i].reason == ERR_NON_FINITE, "%s: %s", bad[k].name, err_name(r->peers[i].reason));
          ck_assert_uint_eq(r->peers[i].n_applied, 0);
        }
        trainer_result_free(r);
      }
  check_copies(&s);
  site_close(&s);
}
END_TEST

START_TEST(a_sum_that_overflows_is_refused) {
  struct site s;
  site_open(&s);
  load(&s);
  fill_copies(&s, huge_32); /* finite, so they are copies; the norm bound keeps them from the model */
  uint32_t words[256];
  size_t n_jobs = sized(1, 10000 / N_PEERS, 40000 / N_PEERS);
  for (size_t n = 0; n < n_jobs; n++) {
    struct trainer_job *job = job_new(&s, JOB_MERGE, N_PEERS);
    for (size_t i = 0; i < N_PEERS; i++) {
      payload_32(&s, huge_32, words);
      add_link(&job->peers[i], MANIFEST_DIFFERENCE, ENCODING_F32, words, 4 * s.n_values, NULL);
    }
    struct trainer_result *r = run(&s, job);
    check_finite(&s, &r->model);
    for (size_t i = 0; i < N_PEERS; i++)
      ck_assert_str_eq(err_name(r->peers[i].reason), "non-finite");
    trainer_result_free(r);
  }
  check_copies(&s);
  site_close(&s);
}
END_TEST

/* copy + payload as plain IEEE arithmetic says. */
static void add_plainly(float *copy, const uint32_t *words, size_t n) {
  for (size_t i = 0; i < n; i++) {
    float x;
    memcpy(&x, &words[i], sizeof x);
    copy[i] += x;
  }
}

START_TEST(denormals_and_negative_zero_are_kept) {
  struct site s;
  site_open(&s);
  load(&s);
  uint32_t words[256];
  fill_copies(&s, tiny_32);
  check_copies(&s);
  size_t n_jobs = sized(1, 10000 / N_PEERS, 40000 / N_PEERS);
  for (size_t n = 0; n < n_jobs; n++) {
    struct trainer_job *job = job_new(&s, JOB_MERGE, N_PEERS);
    for (size_t i = 0; i < N_PEERS; i++) {
      for (size_t k = 0; k < s.n_values; k++)
        words[k] = tiny_32(&s.rng);
      add_plainly(s.copies[i], words, s.n_values);
      add_link(&job->peers[i], MANIFEST_DIFFERENCE, ENCODING_F32, words, 4 * s.n_values, NULL);
    }
    struct trainer_result *r = run(&s, job);
    for (size_t i = 0; i < N_PEERS; i++)
      ck_assert_str_eq(err_name(r->peers[i].reason), "ok");
    trainer_result_free(r);
  }
  check_copies(&s);
  site_close(&s);
}
END_TEST

int main(void) {
  return SUITE_RUN_WITHIN("non_finite", SUITE_LIMIT_S, what_is_not_finite_reaches_no_model_and_no_copy,
                          a_sum_that_overflows_is_refused, denormals_and_negative_zero_are_kept);
}
