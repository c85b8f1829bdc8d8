/* One agent without peers is plain local training, bit for bit: the agent's models after every round against a loop of
 * learner calls on the same data. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/config.h"
#include "agent/run/agent.h"
#include "base/bytes.h"
#include "base/rng.h"
#include "crypto/digest.h"
#include "crypto/identity.h"
#include "crypto/key_file.h"
#include "crypto/names.h"
#include "crypto/random.h"
#include "models/data/dataset.h"
#include "models/learner.h"
#include "models/schema.h"
#include "store/store.h"
#include "tests/unit/agent/site_folder.h"
#include "tests/unit/suite.h"

enum { ROUNDS = 4, ROWS = 240 };

static const char job_yaml[] =
    "job: alone\ntask: classify\nlabel: verdict\nclasses: [ ok, bad, odd ]\nfeatures: [ a, b, c ]\n"
    "scale: { mean: [ 0.1, 0.2, 0.3 ], sd: [ 1, 1.5, 2 ] }\nmodel: dense 16, relu, dropout 0.25, dense classes\n"
    "train: { epochs: 2, batch: 8, learning_rate: 0.1, momentum: 0.9, weight_decay: 0.001, schedule: cosine }\n"
    "init_seed: 7\ncount: 4\n";

static const char site_yaml[] =
    "swarm: solo\nname: only\nlisten: []\npeers: []\nstore: { keep_last: 10 }\nkernels: built-in\n"
    "log: { level: error }\n"
    "jobs:\n  - job: a.job.yaml\n    data: { train: rows.csv }\n"
    "    train: { seed: 3 }\n";

static void write_rows(const struct site_folder *folder) {
  static const char *const classes[] = {"ok", "bad", "odd"};
  static char text[64 * ROWS];
  struct rng rng;
  rng_init(&rng, 5);
  int n = snprintf(text, sizeof text, "a,b,c,verdict\n");
  for (int i = 0; i < ROWS; i++) {
    int class = i % 3;
    n += snprintf(text + n, sizeof text - (size_t)n, "%.4f,%.4f,%.4f,%s\n", class + rng_unit(&rng),
                  rng_unit(&rng) - class, rng_unit(&rng), classes[class]);
  }
  site_folder_write(folder, "rows.csv", text);
}

static void write_key(const struct site_folder *folder) {
  char path[256], why[MAX_REASON_BYTES];
  struct identity *id;
  snprintf(path, sizeof path, "%s/agent.key", folder->path);
  ck_assert_int_eq(identity_new(&id), ERR_OK);
  ck_assert_int_eq(key_file_create(path, id, NULL, why), ERR_OK);
  identity_free(id);
}

/* The seed of the first weights as the protocol says: H("starling/v1/init" ‖ 0 ‖ job id ‖ schema hash ‖ init_seed). */
static struct digest init_seed(const struct config *c, const struct digest *schema) {
  const struct job_config *job = &c->jobs[0].job;
  struct swarm_id swarm = swarm_id(c->swarm);
  struct digest id = job_id(&swarm, job->name, job->version, job->run_label);
  uint8_t bytes[17 + 2 * DIGEST_BYTES + 8];
  struct writer w;
  writer_init(&w, bytes, sizeof bytes);
  writer_bytes(&w, "starling/v1/init", 17);
  writer_bytes(&w, id.bytes, DIGEST_BYTES);
  writer_bytes(&w, schema->bytes, DIGEST_BYTES);
  writer_u64(&w, job->contract->init_seed);
  ck_assert_int_eq(writer_end(&w), ERR_OK);
  return digest_of(&digest_blake2b, bytes, sizeof bytes);
}

static void train_plainly(const struct config *c, struct digest out_models[ROUNDS]) {
  const struct site_job_config *site = &c->jobs[0];
  char why[MAX_REASON_BYTES];
  struct schema *schema;
  struct data_place place;
  struct splits data;
  struct learner *learner;
  struct data_source source = {.train = {.path = site->train_path}};
  ck_assert_int_eq(schema_from_arch(site->job.arch, site->job.contract, &schema, why), ERR_OK);
  ck_assert_int_eq(dataset_open(&source, site->job.contract, &digest_blake2b, &data, &place), ERR_OK);
  struct learner_config config = {
      .schema = schema, .train = site->job.train, .codec = site->job.contract->codec, .train_seed = site->train_seed};
  schema_hash(schema, &digest_blake2b, &config.schema_hash);
  config.init = init_seed(c, &config.schema_hash);
  ck_assert_int_eq(learner_open(&config, &learner), ERR_OK);
  ck_assert_int_eq(learner_attach(learner, data.train, (const struct dataset *const[N_TEST_SETS]){data.test}), ERR_OK);
  size_t n = learner_model_bytes(learner);
  uint8_t *model = malloc(n);
  for (uint32_t round = 0; round < ROUNDS; round++) {
    struct train_report report;
    ck_assert_int_eq(learner_train(learner, round + 1, 0, 1, NULL, &report), ERR_OK);
    learner_model_write(learner, model);
    out_models[round] = digest_of(&digest_tree, model, n); /* as the store names it */
  }
  free(model);
  learner_free(learner);
  splits_close(&data);
  schema_free(schema);
}

static void read_models(const char *state_dir, struct store_round rounds[ROUNDS]) {
  char why[MAX_REASON_BYTES];
  struct store *store;
  struct digest job;
  size_t n;
  ck_assert_int_eq(store_open_read_only(state_dir, &digest_tree, &store, why), ERR_OK);
  ck_assert_int_eq(store_jobs(store, &job, 1, &n), ERR_OK);
  ck_assert_int_eq(store_rounds(store, &job, 1, rounds, ROUNDS, &n), ERR_OK);
  ck_assert_uint_eq(n, ROUNDS);
  store_close(store);
}

START_TEST(an_agent_without_peers_is_plain_local_training) {
  struct site_folder folder = site_folder_new(site_yaml, job_yaml);
  char why[MAX_CONFIG_WHY_BYTES];
  struct config *config;
  struct digest plain[ROUNDS];
  struct store_round rounds[ROUNDS];
  write_rows(&folder);
  write_key(&folder);
  ck_assert_msg(config_load(folder.site, NULL, &config, why) == ERR_OK, "%s", why);
  ck_assert_int_eq(agent_run(config, false), 0);
  train_plainly(config, plain);
  read_models(config->state_dir, rounds);
  for (size_t i = 0; i < ROUNDS; i++) {
    ck_assert_int_eq(rounds[i].outcome, ROUND_MERGED);
    ck_assert_mem_eq(rounds[i].model.bytes, plain[i].bytes, DIGEST_BYTES);
  }
  ck_assert_mem_ne(plain[0].bytes, plain[1].bytes, DIGEST_BYTES);
  config_free(config);
  site_folder_free(&folder);
}
END_TEST

int main(void) {
  if (random_open() != ERR_OK)
    return 1;
  return SUITE_RUN("alone", an_agent_without_peers_is_plain_local_training);
}
