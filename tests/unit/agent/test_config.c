#include "agent/config.h"
#include "tests/unit/agent/site_folder.h"
#include "tests/unit/suite.h"

static struct config *load(const struct site_folder *f, const char *const *environment) {
  char why[MAX_CONFIG_WHY_BYTES];
  struct config *c;
  enum err e = config_load(f->site, environment, &c, why);
  ck_assert_msg(e == ERR_OK, "%s", why);
  return c;
}

static const struct config_value *value_of(const struct config *c, const char *path) {
  for (size_t i = 0; i < c->n_values; i++)
    if (strcmp(c->values[i].path, path) == 0)
      return &c->values[i];
  ck_abort_msg("no value %s", path);
}

START_TEST(the_least_config_has_every_default) {
  struct site_folder f = site_folder_new(GOOD_SITE, GOOD_JOB);
  struct config *c = load(&f, NULL);
  const struct site_job_config *s = &c->jobs[0];
  char path[128];
  ck_assert_str_eq(c->swarm, "k3vz-7qd2");
  ck_assert_str_eq(c->name, "mec-07");
  snprintf(path, sizeof path, "%s/agent.key", f.path);
  ck_assert_str_eq(c->key_file, path);
  snprintf(path, sizeof path, "%s/state", f.path);
  ck_assert_str_eq(c->state_dir, path);
  snprintf(path, sizeof path, "%s/parts.csv", f.path);
  ck_assert_str_eq(s->train_path, path);
  ck_assert_uint_eq(c->n_listen, 1);
  ck_assert_str_eq(c->listen[0], "tcp://[::]:7411");
  ck_assert(c->keep_last == 3 && c->payload_max_mib == 64 && c->log_level == LOG_INFO && c->log_format == LOG_TEXT);
  ck_assert(c->n_peers == 0 && c->n_jobs == 1 && c->n_warnings == 0);
  ck_assert(s->min_peers == 0 && s->meet_s == 0 && s->alone_rounds == 3 && s->staleness_max == 5);
  ck_assert(s->deadline_min_s == 1 && s->deadline_max_s == 120 && s->linger_s == 240);
  ck_assert(s->rule.rule == RULE_MEAN && s->rule.byzantine == RULE_A_THIRD && s->rule.bucket == 1);
  ck_assert_str_eq(value_of(c, "jobs[].merge.byzantine")->text, "third");
  ck_assert(s->part == 0 && s->weights == WEIGHTS_METROPOLIS && s->max_share == 0.5 && s->when_done == WHEN_DONE_EXIT);
  ck_assert_ptr_null(s->test_path);
  ck_assert(s->job.version == 1 && s->job.count == 0 && s->job.contract->codec.kind == CODEC_F32 &&
            s->job.statistics == STATISTIC_POOLED);
  ck_assert(s->job.train.epochs == 1 && s->job.train.steps == 0 && s->job.train.batch == 32);
  ck_assert(s->job.contract->loss == LOSS_CROSS_ENTROPY && s->job.contract->n_classes == 2);
  config_free(c);
  site_folder_free(&f);
}
END_TEST

START_TEST(push_sum_goes_in_one_direction_and_takes_statistics_for_weights) {
  struct site_folder f = site_folder_new(GOOD_SITE, GOOD_JOB "average: push-sum\ntopology: ring\n");
  struct config *c = load(&f, NULL);
  const struct job_config *job = &c->jobs[0].job;
  ck_assert(job_is_push_sum(job) && job->topology.is_directed && job->statistics == STATISTIC_MEAN);
  ck_assert_str_eq(value_of(c, "average")->text, "push-sum");
  config_free(c);
  site_folder_free(&f);
}
END_TEST

START_TEST(every_key_reaches_its_field) {
  static const char site[] = GOOD_HEAD
      "key_file: /k/agent.key\npassphrase_file: pass\nstate_dir: /var/lib/x\nlisten: []\n"
      "store: { keep_last: 7 }\npayload_max_mib: 9\nlog:\n  level: debug\n  format: json\n"
      "peers:\n  - name: b\n    key: @2\n  - name: a\n    key: @1\n    address: tcp://mec-03.lan:7411\n"
      "jobs:\n  - job: a.job.yaml\n"
      "    data: { train: i.gz, train_labels: l.gz, test: t, test_labels: u, global_test: g, global_test_labels: h, "
      "part: 5 }\n"
      "    train: { seed: 9 }\n    merge: { rule: trimmed, byzantine: 1, bucketing: 1, weights: samples, max_share: "
      "0.25 }\n"
      "    round: { min_peers: 2, deadline_min_s: 2.5, deadline_max_s: 60, alone_rounds: 4, meet_s: 11, linger_s: 12,"
      " staleness_max: 6 }\n    when_done: serve\n";
  static const char job[] =
      "job: fashion\nversion: 2\nrun_label: x1\ntask: classify\nloss: cross-entropy\n"
      "classes: [ a, \"b, c\", d ]\ninput: 28x28x1\nrange: 0..255\nscale: { mean: 0.286, sd: 0.353 }\nholdout: "
      "0.25\nvalidation: 0.15\n"
      "split: { rule: dirichlet 0.3, n: 5, seed: 3 }\ninit_seed: 4\nmodel: dense 128, relu, dense classes\n"
      "train: { steps: 40, batch: 16, learning_rate: 0.1, momentum: 0.5, weight_decay: 1e-4, schedule: cosine,"
      " step_rounds: 3, step_factor: 0.25 }\ncodec: f16\ncount: 20\n"
      "merge: { statistics: local }\n";
  struct site_folder f = site_folder_new(site, job);
  struct config *c = load(&f, NULL);
  const struct site_job_config *s = &c->jobs[0];
  const struct job_config *j = &s->job;
  const struct contract *k = j->contract;
  ck_assert_str_eq(c->key_file, "/k/agent.key");
  ck_assert_str_eq(c->state_dir, "/var/lib/x");
  ck_assert_str_eq(strrchr(c->passphrase_file, '/'), "/pass");
  ck_assert(c->n_listen == 0 && c->keep_last == 7 && c->payload_max_mib == 9);
  ck_assert(c->log_level == LOG_DEBUG && c->log_format == LOG_JSON);
  ck_assert_uint_eq(c->n_peers, 2);
  ck_assert_int_lt(identity_key_compare(&c->peers[0].key, &c->peers[1].key), 0);
  const struct peer_config *a = strcmp(c->peers[0].name, "a") == 0 ? &c->peers[0] : &c->peers[1];
  struct identity_key key = test_key(1);
  ck_assert(identity_key_equal(&a->key, &key));
  ck_assert_str_eq(a->address, "tcp://mec-03.lan:7411");
  ck_assert_ptr_nonnull(strstr(a->origin, "site.yaml:15"));
  ck_assert_str_eq(strrchr(s->global_test_labels, '/'), "/h");
  ck_assert(s->part == 5 && s->train_seed == 9 && s->weights == WEIGHTS_SAMPLES && s->max_share == 0.25);
  ck_assert(s->rule.rule == RULE_TRIMMED && s->rule.byzantine == 1 && s->rule.bucket == 1);
  ck_assert(s->min_peers == 2 && s->deadline_min_s == 2.5 && s->deadline_max_s == 60 && s->alone_rounds == 4);
  ck_assert(s->meet_s == 11 && s->linger_s == 12 && s->staleness_max == 6 && s->when_done == WHEN_DONE_SERVE);
  ck_assert_str_eq(j->name, "fashion");
  ck_assert_str_eq(j->run_label, "x1");
  ck_assert_str_eq(j->arch, "dense 128, relu, dense classes");
  ck_assert(j->version == 2 && k->codec.kind == CODEC_F16 && j->count == 20 && j->statistics == STATISTIC_LOCAL);
  ck_assert(k->task == TASK_CLASSIFY && k->loss == LOSS_CROSS_ENTROPY && k->n_classes == 3);
  ck_assert_str_eq(k->classes[1].text, "b, c");
  ck_assert(k->height == 28 && k->width == 28 && k->channels == 1 && k->range_lo == 0 && k->range_hi == 255);
  ck_assert(k->scale.rule == SCALE_FIXED && k->scale.n == 1 && k->scale.mean[0] == 0.286 && k->scale.sd[0] == 0.353);
  ck_assert(k->holdout == 0.25 && k->validation == 0.15 && k->holdout_by[0] == '\0' && k->init_seed == 4 &&
            k->split.rule == SPLIT_DIRICHLET && k->split.alpha == 0.3);
  ck_assert(k->split.n_parts == 5 && k->split.seed == 3);
  ck_assert(j->train.epochs == 0 && j->train.steps == 40 && j->train.batch == 16 && j->train.learning_rate == 0.1);
  ck_assert(j->train.optimiser.momentum == 0.5 && j->train.optimiser.weight_decay == 1e-4 &&
            j->train.schedule == SCHEDULE_COSINE);
  ck_assert(j->train.step_rounds == 3 && j->train.step_factor == 0.25 && j->train.total_rounds == 20);
  ck_assert_str_eq(value_of(c, "split.rule")->text, "dirichlet 0.3");
  ck_assert_str_eq(value_of(c, "classes")->text, "[a, \"b, c\", d]");
  ck_assert_str_eq(value_of(c, "peers[a].address")->text, "tcp://mec-03.lan:7411");
  config_free(c);
  site_folder_free(&f);
}
END_TEST

START_TEST(codecs_have_words_and_a_fraction) {
  static const struct {
    const char *line, *shown;
    struct codec codec;
  } rows[] = {{"", "f32", {CODEC_F32, 0}},
              {"codec: q8\n", "q8", {CODEC_Q8, 0}},
              {"codec: q4\n", "q4", {CODEC_Q4, 0}},
              {"codec: topk 0.01\n", "topk 0.01", {CODEC_TOPK, 0.01}}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char job[2048];
    snprintf(job, sizeof job, "%s%s", GOOD_JOB, rows[i].line);
    struct site_folder f = site_folder_new(GOOD_SITE, job);
    struct config *c = load(&f, NULL);
    struct codec codec = c->jobs[0].job.contract->codec;
    ck_assert(codec.kind == rows[i].codec.kind && codec.fraction == rows[i].codec.fraction);
    ck_assert_str_eq(value_of(c, "codec")->text, rows[i].shown);
    config_free(c);
    site_folder_free(&f);
  }
}
END_TEST

START_TEST(steps_can_be_those_of_the_swarm) {
  struct site_folder f =
      site_folder_new(GOOD_SITE "    round: { every_s: 2.5 }\nfollow_max: 3\n", GOOD_JOB "train: { steps: auto }\n");
  struct config *c = load(&f, NULL);
  const struct job_config *j = &c->jobs[0].job;
  ck_assert(j->is_steps_auto && j->train.steps == 0 && j->train.epochs == 1);
  ck_assert_str_eq(value_of(c, "train.steps")->text, "auto");
  ck_assert(c->jobs[0].every_s == 2.5 && c->follow_max == 3 && c->n_warnings == 0);
  struct digest by_auto = j->file;
  config_free(c);
  site_folder_write(&f, "a.job.yaml", GOOD_JOB);
  c = load(&f, NULL);
  ck_assert(!c->jobs[0].job.is_steps_auto && c->jobs[0].every_s == 2.5);
  ck_assert(!digest_equal(&c->jobs[0].job.file, &by_auto)); /* peers see the difference */
  config_free(c);
  site_folder_free(&f);
}
END_TEST

START_TEST(an_interval_above_the_longest_wait_is_warned_about) {
  struct site_folder f = site_folder_new(GOOD_SITE "    round: { every_s: 121 }\n", GOOD_JOB);
  struct config *c = load(&f, NULL);
  ck_assert(c->jobs[0].every_s == 121 && c->follow_max == 12);
  ck_assert_uint_eq(c->n_warnings, 1);
  ck_assert_ptr_nonnull(strstr(c->warnings[0], "round.every_s is 121, but peers wait at most 120 s"));
  config_free(c);
  site_folder_free(&f);
}
END_TEST

START_TEST(regression_needs_no_classes) {
  struct site_folder f = site_folder_new(
      GOOD_SITE, "job: a\ntask: regress\nlabel: y\nfeatures: [ x, { name: t, unit: C, range: -40..85 } ]\n"
                 "holdout_by: part\n"
                 "scale: { mean: [ 1, 2 ], sd: [ 3, 4 ] }\nmodel: dense 1\n");
  struct config *c = load(&f, NULL);
  const struct contract *k = c->jobs[0].job.contract;
  ck_assert(k->task == TASK_REGRESS && k->loss == LOSS_MEAN_SQUARED_ERROR && k->n_classes == 0);
  ck_assert_str_eq(k->features[1].unit, "C");
  ck_assert(k->features[1].range_lo == -40 && k->features[1].range_hi == 85);
  ck_assert_str_eq(k->holdout_by, "part");
  ck_assert(k->validation == 0.1);
  ck_assert(k->scale.n == 2 && k->scale.sd[1] == 4);
  ck_assert_str_eq(value_of(c, "features")->text, "[x, t (C) -40..85]");
  ck_assert_str_eq(value_of(c, "scale")->text, "{ mean: [1, 2], sd: [3, 4] }");
  config_free(c);
  site_folder_free(&f);
}
END_TEST

START_TEST(columns_have_types) {
  struct site_folder f = site_folder_new(
      GOOD_SITE, "job: a\ntask: regress\nlabel: y\nmissing: number -1\nmodel: dense targets\nfeatures:\n  - x\n"
                 "  - { name: t, missing: mean }\n  - { name: line, categories: [ a, \"b c\", other ] }\n"
                 "scale: { mean: [ 1, 2 ], sd: [ 1, 1 ] }\n");
  struct config *c = load(&f, NULL);
  const struct contract *k = c->jobs[0].job.contract;
  ck_assert(k->n_features == 3 && contract_n_inputs(k) == 5 && k->features[2].n_categories == 3);
  ck_assert_str_eq(k->features[2].categories[1].text, "b c");
  ck_assert(k->missing.rule == MISSING_NUMBER && k->missing.number == -1);
  ck_assert(k->features[0].missing.rule == MISSING_INHERITED && k->features[1].missing.rule == MISSING_MEAN);
  ck_assert_str_eq(value_of(c, "features")->text, "[x, t missing: mean, line [a, \"b c\", other]]");
  ck_assert_str_eq(value_of(c, "missing")->text, "number -1");
  config_free(c);
  site_folder_free(&f);
}
END_TEST

/* Whoever makes the schema of a job knows them. */
START_TEST(personal_layers_are_set_by_the_job_file) {
  struct site_folder f =
      site_folder_new(GOOD_SITE, "job: a\ntask: classify\nlabel: v\nclasses: [ ok, bad ]\nfeatures: [ a, b ]\n"
                                 "model: dense 4, relu, dense classes\npersonal: { layers: [ dense2 ] }\n");
  struct config *c = load(&f, NULL);
  ck_assert_str_eq(c->jobs[0].job.arch, "dense 4, relu, dense 2 personal");
  ck_assert_str_eq(value_of(c, "personal.layers")->text, "[dense2]");
  config_free(c);
  site_folder_free(&f);
}
END_TEST

START_TEST(training_is_set_by_the_job_file) {
  struct site_folder f = site_folder_new(
      GOOD_SITE,
      GOOD_JOB "train: { optimizer: adamw, beta1: 0.8, beta2: 0.99, epsilon: 1e-6, weight_decay: 0.01, clip_norm: 2,"
               " label_smoothing: 0.1, class_weights: [ 1, 2.5 ] }\n");
  struct config *c = load(&f, NULL);
  const struct train_config *t = &c->jobs[0].job.train;
  ck_assert(t->optimiser.kind == OPTIMISER_ADAMW && t->optimiser.beta1 == 0.8 && t->optimiser.beta2 == 0.99);
  ck_assert(t->optimiser.epsilon == 1e-6 && t->optimiser.weight_decay == 0.01 && t->optimiser.clip_norm == 2);
  ck_assert(t->learning_rate == 0.001 && t->label_smoothing == 0.1); /* Adam's own rate */
  ck_assert(t->class_weights.rule == CLASS_WEIGHTS_GIVEN && t->class_weights.n == 2);
  ck_assert(t->class_weights.values[0] == 1 && t->class_weights.values[1] == 2.5f);
  ck_assert_str_eq(value_of(c, "train.class_weights")->text, "[1, 2.5]");
  ck_assert_str_eq(value_of(c, "train.optimizer")->text, "adamw");
  ck_assert_int_eq(train_config_check(t), ERR_OK);
  config_free(c);
  site_folder_free(&f);
  f = site_folder_new(GOOD_SITE, GOOD_JOB "train: { nesterov: true, class_weights: balanced }\n");
  c = load(&f, NULL);
  t = &c->jobs[0].job.train;
  ck_assert(t->optimiser.kind == OPTIMISER_SGD && t->optimiser.nesterov && t->optimiser.momentum == 0.9);
  ck_assert(t->learning_rate == 0.05 && t->class_weights.rule == CLASS_WEIGHTS_BALANCED);
  ck_assert_str_eq(value_of(c, "train.nesterov")->text, "true");
  config_free(c);
  site_folder_free(&f);
}
END_TEST

START_TEST(other_tasks_have_their_own_losses_and_headlines) {
  struct site_folder f =
      site_folder_new(GOOD_SITE, "job: a\ntask: multilabel\nclasses: [ hot, loud ]\nfeatures: [ x ]\n"
                                 "model: dense 4, relu, dense classes\n");
  struct config *c = load(&f, NULL);
  ck_assert_str_eq(value_of(c, "loss")->text, "binary-cross-entropy");
  ck_assert_str_eq(value_of(c, "metric")->text, "macro-f1");
  config_free(c);
  site_folder_free(&f);
  f = site_folder_new(GOOD_SITE, "job: a\ntask: reconstruct\nfeatures: [ x, y ]\nmodel: dense 1, dense inputs\n");
  c = load(&f, NULL);
  ck_assert_str_eq(value_of(c, "loss")->text, "mean-squared-error");
  ck_assert_str_eq(value_of(c, "metric")->text, "r2");
  config_free(c);
  site_folder_free(&f);
  f = site_folder_new(GOOD_SITE,
                      "job: a\ntask: regress\nlabel: z\nloss: huber\nfeatures: [ x, y ]\nmodel: dense targets\n"
                      "train: { huber_delta: 0.5 }\n");
  c = load(&f, NULL);
  ck_assert(c->jobs[0].job.contract->loss == LOSS_HUBER && c->jobs[0].job.train.huber_delta == 0.5);
  config_free(c);
  site_folder_free(&f);
}
END_TEST

START_TEST(the_environment_overrides_scalars_of_the_site) {
  static const char *const environment[] = {"STARLING_LOG_LEVEL=debug",
                                            "STARLING_STORE_KEEP_LAST=9",
                                            "STARLING_DATA_TRAIN=other.csv",
                                            "STARLING_PORT=tcp://10.0.0.1:80",
                                            "STARLING_MODEL=dense 3",
                                            "PATH=/bin",
                                            NULL};
  struct site_folder f = site_folder_new(GOOD_SITE, GOOD_JOB);
  struct config *c = load(&f, environment);
  ck_assert(c->log_level == LOG_DEBUG && c->keep_last == 9);
  ck_assert_str_eq(strrchr(c->jobs[0].train_path, '/'), "/other.csv");
  ck_assert_str_eq(c->jobs[0].job.arch, "dense classes"); /* must agree: files only */
  ck_assert_str_eq(value_of(c, "log.level")->origin, "STARLING_LOG_LEVEL");
  ck_assert_str_eq(value_of(c, "log.format")->origin, "default");
  ck_assert_ptr_nonnull(strstr(value_of(c, "name")->origin, "site.yaml:2"));
  ck_assert_ptr_nonnull(strstr(value_of(c, "model")->origin, "a.job.yaml:6"));
  config_free(c);

  static const char *const bad[] = {"STARLING_STORE_KEEP_LAST=0", NULL};
  char why[MAX_CONFIG_WHY_BYTES];
  ck_assert_int_eq(config_load(f.site, bad, &c, why), ERR_RANGE);
  ck_assert_str_eq(why, "STARLING_STORE_KEEP_LAST: store.keep_last: \"0\" is out of range; write 1 to 1000");
  site_folder_free(&f);
}
END_TEST

START_TEST(a_bom_and_crlf_are_fine) {
  struct site_folder f = site_folder_new("\xef\xbb\xbfswarm: s\r\nname: n\r\njobs:\r\n  - job: a.job.yaml\r\n"
                                         "    data: { train: x }\r\n",
                                         GOOD_JOB);
  struct config *c = load(&f, NULL);
  ck_assert_str_eq(c->name, "n");
  ck_assert_ptr_nonnull(strstr(value_of(c, "name")->origin, "site.yaml:2"));
  config_free(c);
  site_folder_free(&f);
}
END_TEST

START_TEST(conf_d_adds_peers) {
  struct site_folder f = site_folder_new(GOOD_SITE "peers:\n  - { name: c, key: @3 }\n", GOOD_JOB);
  site_folder_make(&f, "conf.d");
  site_folder_write(&f, "conf.d/b.yaml", "name: b\nkey: @2\n");
  site_folder_write(&f, "conf.d/a.yaml", "name: a\nkey: @1\naddress: tcp://10.0.0.1:7411\n");
  site_folder_write(&f, "conf.d/note.txt", "not yaml: [");
  site_folder_write(&f, "conf.d/.hidden.yaml", "not yaml: [");
  struct config *c = load(&f, NULL);
  ck_assert_uint_eq(c->n_peers, 3);
  ck_assert(c->jobs[0].min_peers == 1 && c->jobs[0].meet_s == 30);
  ck_assert_ptr_nonnull(strstr(value_of(c, "peers[a].key")->origin, "conf.d/a.yaml:1"));
  config_free(c);

  char why[MAX_CONFIG_WHY_BYTES];
  site_folder_write(&f, "conf.d/d.yaml", "name: d\nkey: @3\n");
  ck_assert_int_eq(config_load(f.site, NULL, &c, why), ERR_EXISTS);
  ck_assert_ptr_nonnull(strstr(why, "conf.d/d.yaml:1: peers[]: d has the same key as c in "));
  ck_assert_ptr_nonnull(strstr(why, "site.yaml:7"));
  site_folder_free(&f);
}
END_TEST

START_TEST(a_key_of_base64_is_the_same_peer) {
  struct identity_key key = test_key(1);
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  char site[512], text[45] = "";
  for (size_t i = 0; i < 43; i++) {
    size_t bit = i * 6, byte = bit / 8;
    unsigned pair = (unsigned)key.bytes[byte] << 8 | (byte + 1 < sizeof key.bytes ? key.bytes[byte + 1] : 0u);
    text[i] = digits[pair >> (10 - bit % 8) & 63];
  }
  text[43] = '=';
  snprintf(site, sizeof site, GOOD_SITE "peers: [ { name: a, key: \"%s\" } ]\n", text);
  struct site_folder f = site_folder_new(site, GOOD_JOB);
  struct config *c = load(&f, NULL);
  ck_assert(identity_key_equal(&c->peers[0].key, &key));
  config_free(c);
  site_folder_free(&f);
}
END_TEST

START_TEST(the_own_key_is_no_peer) {
  struct site_folder f = site_folder_new(GOOD_SITE "peers: [ { name: a, key: @1 } ]\n", GOOD_JOB);
  struct config *c = load(&f, NULL);
  struct identity_key own = test_key(1), other = test_key(2);
  char why[MAX_CONFIG_WHY_BYTES];
  ck_assert_int_eq(config_check_key(c, &other, why), ERR_OK);
  ck_assert_int_eq(config_check_key(c, &own, why), ERR_EXISTS);
  ck_assert_ptr_nonnull(strstr(why, "site.yaml:6: peers[]: a has this agent's own key"));
  config_free(c);
  site_folder_free(&f);
}
END_TEST

START_TEST(little_room_for_updates_is_a_warning) {
  struct site_folder f =
      site_folder_new(GOOD_SITE "payload_max_mib: 4\npeers: [ { name: a, key: @1 }, { name: b, key: @2 } ]\n",
                      "job: a\ntask: classify\nlabel: v\nclasses: [ a, b ]\nfeatures: [ x ]\nmodel: dense 1000, dense "
                      "1000, dense classes\n");
  struct config *c = load(&f, NULL);
  ck_assert_uint_eq(c->n_warnings, 1);
  ck_assert_ptr_nonnull(strstr(c->warnings[0], "payload_max_mib is 4, full copies of all 2 peers have 8 MiB"));
  config_free(c);
  site_folder_free(&f);
}
END_TEST

START_TEST(what_is_probably_not_meant_is_a_warning) {
  struct site_folder f = site_folder_new(
      GOOD_SITE "    round: { min_peers: 2 }\npeers: [ { name: mec-07, key: @1 } ]\n", GOOD_JOB "scale: local\n");
  struct config *c = load(&f, NULL);
  ck_assert_uint_eq(c->n_warnings, 3);
  ck_assert_ptr_nonnull(strstr(c->warnings[0], "min_peers is 2, but only 1 peers"));
  ck_assert_ptr_nonnull(strstr(c->warnings[1], "scale is local"));
  ck_assert_ptr_nonnull(strstr(c->warnings[2], "has this agent's name"));
  config_free(c);
  site_folder_free(&f);
}
END_TEST

/* The digest of a job file. */
static struct digest digest_of_job(const char *job) {
  struct site_folder f = site_folder_new(GOOD_SITE, job);
  struct config *c = load(&f, NULL);
  struct digest d = c->jobs[0].job.file;
  config_free(c);
  site_folder_free(&f);
  return d;
}

START_TEST(the_job_digest_is_of_values_not_of_bytes) {
  struct digest a = digest_of_job(GOOD_JOB);
  struct digest b =
      digest_of_job("model: \"dense classes\" # same\nfeatures:\n  - a\n  - b\nclasses: [ok,bad]\nlabel: verdict\n"
                    "task: classify\njob: inspection\nversion: 1\nsplit: none\n");
  struct digest c = digest_of_job(GOOD_JOB "train: { batch: 33 }\n");
  ck_assert(digest_equal(&a, &b));
  ck_assert(!digest_equal(&a, &c));
}
END_TEST

#define TWO_JOBS                                                                                                       \
  GOOD_SITE "  - job: b.job.yaml\n    data: { train: drift.csv }\n    round: { min_peers: 0, meet_s: 7 }\n"

START_TEST(several_jobs_have_their_own_values) {
  struct site_folder f =
      site_folder_new(TWO_JOBS "peers: [ { name: x, key: @1 } ]\n", GOOD_JOB "loss: cross-entropy\n");
  site_folder_write(&f, "b.job.yaml",
                    "job: drift\nversion: 3\ntask: regress\nlabel: y\nfeatures: [ a ]\nmodel: dense 1\n");
  struct config *c = load(&f, NULL);
  ck_assert_uint_eq(c->n_jobs, 2);
  ck_assert_str_eq(c->jobs[0].job.name, "inspection");
  ck_assert_str_eq(c->jobs[1].job.name, "drift");
  ck_assert(c->jobs[0].min_peers == 1 && c->jobs[0].meet_s == 30); /* nothing of the other's */
  ck_assert(c->jobs[1].min_peers == 0 && c->jobs[1].meet_s == 7);
  ck_assert_str_eq(value_of(c, "jobs[inspection].round.meet_s")->origin, "default");
  ck_assert_ptr_nonnull(strstr(value_of(c, "jobs[drift].round.meet_s")->origin, "site.yaml:8"));
  ck_assert_str_eq(strrchr(value_of(c, "jobs[inspection].data.train")->text, '/'), "/parts.csv");
  ck_assert_str_eq(strrchr(value_of(c, "jobs[drift].data.train")->text, '/'), "/drift.csv");
  ck_assert_str_eq(value_of(c, "job[drift].loss")->origin, "default");
  ck_assert_ptr_nonnull(strstr(value_of(c, "job[inspection].loss")->origin, "a.job.yaml:7"));
  ck_assert_str_eq(value_of(c, "swarm")->text, "k3vz-7qd2");
  struct digest alone = digest_of_job(GOOD_JOB "loss: cross-entropy\n");
  ck_assert(digest_equal(&c->jobs[0].job.file, &alone));
  struct digest one = config_job_id(c, &c->jobs[0].job), two = config_job_id(c, &c->jobs[1].job);
  ck_assert(!digest_equal(&one, &two));
  config_free(c);
  site_folder_free(&f);
}
END_TEST

START_TEST(two_versions_of_a_job_are_told_apart) {
  struct site_folder f = site_folder_new(TWO_JOBS, GOOD_JOB);
  site_folder_write(&f, "b.job.yaml", GOOD_JOB "version: 2\n");
  struct config *c = load(&f, NULL);
  ck_assert_str_eq(value_of(c, "job[inspection@1].version")->text, "1");
  ck_assert_str_eq(value_of(c, "job[inspection@2].version")->text, "2");
  config_free(c);
  site_folder_free(&f);
}
END_TEST

START_TEST(an_override_for_one_of_several_jobs_is_refused) {
  static const char *const environment[] = {"STARLING_DATA_TRAIN=other.csv", NULL};
  struct site_folder f = site_folder_new(TWO_JOBS, GOOD_JOB);
  site_folder_write(&f, "b.job.yaml", GOOD_JOB "version: 2\n");
  struct config *c = NULL;
  char why[MAX_CONFIG_WHY_BYTES];
  ck_assert_int_eq(config_load(f.site, environment, &c, why), ERR_LIMIT);
  ck_assert_ptr_nonnull(strstr(why, "STARLING_DATA_TRAIN: it would count for one of 2 jobs; write it into "));
  site_folder_free(&f);
}
END_TEST

/* A job file that came over the wire: read by the same rules, with what the site says about another version of it. */
START_TEST(a_job_is_read_from_its_text) {
  struct site_folder f = site_folder_new(GOOD_SITE "    round: { meet_s: 5 }\n", GOOD_JOB);
  struct config *c = load(&f, NULL);
  char why[MAX_CONFIG_WHY_BYTES];
  struct site_job_config *job = NULL;
  const char text[] = GOOD_JOB "version: 2\n";
  ck_assert_int_eq(config_read_job(c, &c->jobs[0], "mec-03", text, strlen(text), &job, why), ERR_OK);
  ck_assert_uint_eq(job->job.version, 2);
  ck_assert_str_eq(job->train_path, c->jobs[0].train_path);
  ck_assert(job->meet_s == 5 && job->job.n_text == strlen(text));
  struct digest same = digest_of_job(text);
  ck_assert(digest_equal(&job->job.file, &same));
  config_job_free(job);
  ck_assert_int_eq(config_read_job(c, NULL, "mec-03", text, strlen(text), &job, why), ERR_OK);
  ck_assert_ptr_null(job->train_path);
  config_job_free(job);

  static const struct {
    const char *text, *why;
    enum err e;
  } bad[] = {{GOOD_JOB "data: { train: /etc/shadow }\n", "mec-03:7:1: unknown key", ERR_SYNTAX},
             {GOOD_JOB "count: 1e3\n", "mec-03:7:8: ", ERR_SYNTAX},
             {"job: x\n", "mec-03", ERR_SYNTAX},
             {"- 1\n", "mec-03", ERR_SYNTAX},
             {GOOD_JOB "split: { rule: iid, n: 2 }\n", "jobs[].data.part: is missing", ERR_SYNTAX}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    ck_assert_int_eq(config_read_job(c, &c->jobs[0], "mec-03", bad[i].text, strlen(bad[i].text), &job, why), bad[i].e);
    ck_assert_msg(strstr(why, bad[i].why) != NULL, "%s", why);
  }
  config_free(c);
  site_folder_free(&f);
}
END_TEST

START_TEST(a_site_is_read_without_its_jobs) {
  struct site_folder f = site_folder_new(GOOD_HEAD "jobs:\n  - job: none.job.yaml\n    data: { train: x }\n", GOOD_JOB);
  struct config *c = NULL;
  char why[MAX_CONFIG_WHY_BYTES];
  ck_assert_int_eq(config_load_site(f.site, NULL, &c, why), ERR_OK);
  ck_assert(c->n_jobs == 0 && strcmp(c->name, "mec-07") == 0);
  ck_assert_ptr_nonnull(strstr(c->key_file, "agent.key"));
  config_free(c);
  site_folder_free(&f);
}
END_TEST

START_TEST(credentials_have_the_key) {
  struct site_folder f = site_folder_new(GOOD_SITE, GOOD_JOB);
  char variable[128], path[128];
  const char *const environment[] = {variable, NULL};
  site_folder_make(&f, "credentials");
  snprintf(variable, sizeof variable, "CREDENTIALS_DIRECTORY=%s/credentials", f.path);
  struct config *c = load(&f, environment);
  snprintf(path, sizeof path, "%s/agent.key", f.path);
  ck_assert_str_eq(c->key_file, path);
  config_free(c);
  site_folder_write(&f, "credentials/agent.key", "x");
  c = load(&f, environment);
  snprintf(path, sizeof path, "%s/credentials/agent.key", f.path);
  ck_assert_str_eq(c->key_file, path);
  config_free(c);
  site_folder_free(&f);
}
END_TEST

/* A default that the reader would refuse, or a bound that the default breaks, would fail the_least_config_…; the rest of
 * the table is checked here. */
START_TEST(the_table_is_consistent) {
  for (size_t i = 0; i < n_options; i++) {
    const struct option *o = &option_table[i];
    ck_assert(o->sentence[0] != '\0' && o->path[0] != '\0');
    ck_assert(o->min <= o->max);
    ck_assert_ptr_eq(option_find(option_group(o), o->path), o); /* no path twice */
  }
  ck_assert_ptr_null(option_find(GROUP_SITE, "model"));
}
END_TEST

/* What job files say is what canonical texts, hashes and views say. */
static const char *word_of(const char *path, unsigned i) {
  if (strcmp(path, "task") == 0)
    return task_name((enum task)i);
  if (strcmp(path, "loss") == 0)
    return loss_kind_name((enum loss_kind)i);
  if (strcmp(path, "codec") == 0)
    return codec_name((enum codec_kind)i);
  return strcmp(path, "merge.statistics") == 0 ? statistic_policy_name((enum statistic_policy)i)
                                               : optimiser_name((enum optimiser)i);
}

START_TEST(its_words_are_those_of_models) {
  static const struct {
    const char *path;
    unsigned n;
  } vocabularies[] = {{"task", N_TASKS},
                      {"loss", N_LOSS_KINDS},
                      {"codec", N_CODECS},
                      {"merge.statistics", N_STATISTIC_POLICIES},
                      {"train.optimizer", N_OPTIMISERS}};
  for (size_t v = 0; v < sizeof vocabularies / sizeof *vocabularies; v++) {
    const struct option *o = option_find(GROUP_JOB, vocabularies[v].path);
    ck_assert_ptr_nonnull(o);
    for (unsigned i = 0; i < vocabularies[v].n; i++)
      ck_assert_str_eq(o->words[i], word_of(o->path, i));
    ck_assert_ptr_null(o->words[vocabularies[v].n]);
  }
  const struct option *rule = option_find(GROUP_SITE_JOB, "merge.rule");
  for (unsigned i = 0; i < N_MERGE_RULES; i++)
    ck_assert_str_eq(rule->words[i], merge_rule_name((enum merge_rule)i));
  ck_assert_ptr_null(rule->words[N_MERGE_RULES]);
}
END_TEST

int main(void) {
  return SUITE_RUN("agent/config", columns_have_types, the_least_config_has_every_default,
                   push_sum_goes_in_one_direction_and_takes_statistics_for_weights, every_key_reaches_its_field,
                   regression_needs_no_classes, training_is_set_by_the_job_file,
                   personal_layers_are_set_by_the_job_file, other_tasks_have_their_own_losses_and_headlines,
                   codecs_have_words_and_a_fraction, steps_can_be_those_of_the_swarm,
                   an_interval_above_the_longest_wait_is_warned_about, the_environment_overrides_scalars_of_the_site,
                   a_bom_and_crlf_are_fine, conf_d_adds_peers, a_key_of_base64_is_the_same_peer, the_own_key_is_no_peer,
                   what_is_probably_not_meant_is_a_warning, little_room_for_updates_is_a_warning,
                   the_job_digest_is_of_values_not_of_bytes, credentials_have_the_key,
                   several_jobs_have_their_own_values, two_versions_of_a_job_are_told_apart,
                   an_override_for_one_of_several_jobs_is_refused, a_job_is_read_from_its_text,
                   a_site_is_read_without_its_jobs, the_table_is_consistent, its_words_are_those_of_models);
}
