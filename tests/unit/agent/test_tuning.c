#include "agent/tuning.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/file.h"
#include "base/must.h"
#include "models/schema.h"
#include "tests/unit/suite.h"

static char folder[64], path[128];
static struct plan plan;
static struct schema *schema;

static struct schema *make_plan(const char *line, struct plan *out_plan) {
  struct contract c = {.task = TASK_CLASSIFY, .loss = LOSS_CROSS_ENTROPY, .n_classes = 3, .n_features = 8};
  char why[MAX_REASON_BYTES];
  struct schema *s;
  struct cpu cpu = cpu_detect();
  ck_assert_int_eq(schema_from_arch(line, &c, &s, why), ERR_OK);
  ck_assert_int_eq(plan_make(schema_arch(s), 32, &cpu, 1, out_plan), ERR_OK);
  return s;
}

static void begin(void) {
  snprintf(folder, sizeof folder, "/tmp/starling-tuning-XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/tuning.json", folder);
  schema = make_plan("dense 16, relu, dense classes", &plan);
}

static void end(void) {
  unlink(path);
  ck_assert_int_eq(rmdir(folder), 0); /* nothing else is left there */
  schema_free(schema);
}

static struct host a_host(const char *cpu, double quota) {
  struct host h = {.n_processors = 4, .quota = quota};
  snprintf(h.cpu, sizeof h.cpu, "%s", cpu);
  return h;
}

static struct tuning *measured(const struct host *host) {
  struct tuning *t = calloc(1, sizeof *t);
  struct tuning_outcome outcome;
  MUST(t != NULL);
  const struct tuning_order order = {.plan = &plan, .host = host, .seconds = 1};
  ck_assert_int_eq(tuning_measure(t, &order, &outcome, NULL), ERR_OK);
  return t;
}

static void drop(struct tuning *t) {
  tuning_done(t);
  free(t);
}

START_TEST(it_is_read_as_it_was_written) {
  begin();
  struct host h = a_host("A", 0), slower = a_host("A", 0.4), other = a_host("B", 0);
  struct tuning *t = measured(&h), *again = calloc(1, sizeof *again);
  ck_assert_int_eq(tuning_file_read(path, &plan, again), ERR_NOT_FOUND);
  ck_assert_int_eq(tuning_file_write(path, &plan, t), ERR_OK);
  ck_assert_int_eq(tuning_file_read(path, &plan, again), ERR_OK);
  ck_assert_uint_eq(again->n_hosts, 1);
  ck_assert_mem_eq(&again->hosts[0], &t->hosts[0], sizeof t->hosts[0]);
  ck_assert_mem_eq(cost_weights(again->cost), cost_weights(t->cost),
                   COST_MEMBERS * cost_terms(plan.n_variants) * sizeof(double));
  ck_assert_ptr_eq(tuning_find(again, &h), &again->hosts[0]);
  ck_assert_ptr_null(tuning_find(again, &slower));
  ck_assert_ptr_null(tuning_find(again, &other));
  drop(t);
  drop(again);
  end();
}
END_TEST

START_TEST(another_host_is_learnt_beside_it) {
  begin();
  struct host h = a_host("A", 0), slower = a_host("A", 0.4), other = a_host("B", 0);
  struct tuning *t = measured(&h);
  struct tuning_outcome outcome;
  struct tuning_order order = {.plan = &plan, .host = &slower, .seconds = 1};
  ck_assert_int_eq(tuning_measure(t, &order, &outcome, NULL), ERR_OK);
  ck_assert(outcome.is_again);
  ck_assert_uint_le(outcome.n_measured, 8);
  order.host = &other;
  ck_assert_int_eq(tuning_measure(t, &order, &outcome, NULL), ERR_OK);
  ck_assert_uint_eq(t->n_hosts, 3);
  ck_assert_uint_eq(t->hosts[0].number, 1);
  ck_assert_uint_eq(t->hosts[1].number, 0);
  ck_assert_ptr_eq(tuning_find(t, &h), &t->hosts[2]);
  for (int i = 0; i < 2 * MAX_TUNED_HOSTS; i++) {
    struct tuned_host more = {.processors = 1 + i, .seconds = 1, .selection = {.lanes = 1, .threads = 1}};
    tuning_put(t, &more);
  }
  ck_assert_uint_eq(t->n_hosts, MAX_TUNED_HOSTS);
  ck_assert_ptr_null(tuning_find(t, &h));
  ck_assert_int_eq(tuning_file_write(path, &plan, t), ERR_OK);
  drop(t);
  end();
}
END_TEST

START_TEST(what_is_measured_from_nothing_leaves_others_alone) {
  begin();
  struct host h = a_host("A", 0), other = a_host("B", 0);
  struct tuning *t = measured(&h);
  struct tuning_outcome outcome;
  struct tuning_order order = {.plan = &plan, .host = &other, .seconds = 1};
  ck_assert_int_eq(tuning_measure(t, &order, &outcome, NULL), ERR_OK);
  struct tuned_host kept = *tuning_find(t, &other);
  order.host = &h;
  tuning_forget(t);
  ck_assert_int_eq(tuning_measure(t, &order, &outcome, NULL), ERR_OK);
  ck_assert(!outcome.is_again);
  ck_assert_uint_eq(t->n_hosts, 2);
  ck_assert_ptr_eq(tuning_find(t, &h), &t->hosts[0]);
  ck_assert_ptr_nonnull(t->cost);
  ck_assert_mem_eq(tuning_find(t, &other), &kept, sizeof kept);
  drop(t);
  end();
}
END_TEST

START_TEST(of_another_model_it_is_foreign) {
  begin();
  struct host h = a_host("A", 0);
  struct tuning *t = measured(&h), *again = calloc(1, sizeof *again);
  static struct plan wider;
  struct schema *s = make_plan("dense 17, relu, dense classes", &wider);
  ck_assert_int_eq(tuning_file_write(path, &plan, t), ERR_OK);
  ck_assert_int_eq(tuning_file_read(path, &wider, again), ERR_FOREIGN);
  wider = plan;
  wider.batch = 33;
  ck_assert_int_eq(tuning_file_read(path, &wider, again), ERR_FOREIGN);
  schema_free(s);
  drop(t);
  drop(again);
  end();
}
END_TEST

static enum err read_text(const char *text) {
  static struct tuning t;
  ck_assert_int_eq(file_replace(path, 0600, text), ERR_OK);
  enum err e = tuning_file_read(path, &plan, &t);
  if (e)
    ck_assert(t.n_hosts == 0 && t.cost == NULL);
  tuning_done(&t);
  return e;
}

START_TEST(damage_is_noticed) {
  static const struct {
    const char *from, *to;
    enum err e;
  } changes[] = {
      {"\"lanes\":1", "\"lanes\":0", ERR_CORRUPT},
      {"\"lanes\":1", "\"lanes\":65", ERR_CORRUPT},
      {"\"lanes\":1", "\"lanes\":\"1\"", ERR_CORRUPT},
      {"\"threads\":1", "\"threads\":2", ERR_CORRUPT},
      {"\"block\":0", "\"block\":-1", ERR_CORRUPT},
      {"\"processors\":4.0", "\"processors\":-4.0", ERR_CORRUPT},
      {"\"processors\":4.0", "\"processors\":4e300", ERR_CORRUPT},
      {"\"processors\":4.0", "\"processors\":4e-300", ERR_CORRUPT},
      {"\"seconds\":0.5", "\"seconds\":1e300", ERR_CORRUPT},
      {"\"number\":0", "\"number\":9", ERR_CORRUPT},
      {"\"number\":0", "\"number\":4294967295", ERR_CORRUPT},
      {"\"lanes\":1", "\"lanes\":64", ERR_CORRUPT},
      {"\"lanes\":1", "\"lanes\":3", ERR_CORRUPT},
      {"\"block\":0", "\"block\":5", ERR_CORRUPT},
      {"\"machine\":", "\"engine\":", ERR_CORRUPT},
      {"\"hosts\":[", "\"hosts\":[1,", ERR_CORRUPT},
      {"\"cost\":[", "\"cost\":[1,", ERR_CORRUPT},
      {"\"cost\":[", "\"cost\":[\"1\",", ERR_CORRUPT},
      {"\"schema\":1", "\"schema\":2", ERR_TOO_NEW},
      {"\"schema\":1", "\"schema\":0", ERR_CORRUPT},
      {"\"schema\":1", "\"schema\":1,\"more\":1", ERR_CORRUPT},
      {"\"schema\":1", "\"schema\":1,\"schema\":1", ERR_CORRUPT},
  };
  begin();
  struct host h = a_host("A", 0);
  struct tuning *t = measured(&h);
  t->hosts[0].selection.lanes = t->hosts[0].selection.threads = 1;
  t->hosts[0].selection.block = 0;
  t->hosts[0].seconds = 0.5;
  ck_assert_int_eq(tuning_file_write(path, &plan, t), ERR_OK);
  char *text;
  size_t n;
  ck_assert_int_eq(file_read(path, MAX_TUNING_FILE_BYTES, &text, &n), ERR_OK);
  char *changed = calloc(1, n + 64);
  for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
    const char *at = strstr(text, changes[i].from);
    ck_assert_msg(at != NULL, "case %zu", i);
    snprintf(changed, n + 64, "%.*s%s%s", (int)(at - text), text, changes[i].to, at + strlen(changes[i].from));
    enum err e = read_text(changed);
    ck_assert_msg(e == changes[i].e, "case %zu: %s", i, err_name(e));
  }
  for (size_t length = 0; length < n; length += 1 + n / 97) {
    snprintf(changed, length + 1, "%s", text);
    ck_assert_int_eq(read_text(changed), ERR_CORRUPT);
  }
  ck_assert_int_eq(read_text(text), ERR_OK);
  free(changed);
  free(text);
  drop(t);
  end();
}
END_TEST

START_TEST(weights_that_nothing_can_be_computed_with_are_damage) {
  begin();
  struct host h = a_host("A", 0);
  struct tuning *t = measured(&h), *again = calloc(1, sizeof *again);
  size_t n = COST_MEMBERS * cost_terms(plan.n_variants);
  double *weights = calloc(n, sizeof *weights);
  memcpy(weights, cost_weights(t->cost), n * sizeof *weights);
  weights[n / 2] = -1e300;
  ck_assert_int_eq(cost_take(t->cost, weights), ERR_OK);
  ck_assert_int_eq(tuning_file_write(path, &plan, t), ERR_OK);
  ck_assert_int_eq(tuning_file_read(path, &plan, again), ERR_CORRUPT);
  free(weights);
  drop(t);
  drop(again);
  end();
}
END_TEST

/* A state directory that moves from machine to machine. */
START_TEST(numbers_of_machines_stay_small) {
  begin();
  struct host h = a_host("0", 0);
  struct tuning *t = measured(&h), *again = calloc(1, sizeof *again);
  struct tuning_outcome outcome;
  for (int i = 1; i < 2 * MAX_TUNED_HOSTS; i++) {
    char name[8];
    snprintf(name, sizeof name, "%d", i);
    h = a_host(name, 0);
    const struct tuning_order order = {.plan = &plan, .host = &h, .seconds = 0};
    ck_assert_int_eq(tuning_measure(t, &order, &outcome, NULL), ERR_OK);
    for (size_t k = 1; k < t->n_hosts; k++)
      ck_assert_uint_ne(t->hosts[k].number, t->hosts[0].number);
  }
  ck_assert_uint_eq(t->n_hosts, MAX_TUNED_HOSTS);
  ck_assert_int_eq(tuning_file_write(path, &plan, t), ERR_OK);
  ck_assert_int_eq(tuning_file_read(path, &plan, again), ERR_OK);
  drop(t);
  drop(again);
  end();
}
END_TEST

static enum err stop_at_once(void *context, size_t done, size_t total) {
  (void)context;
  (void)done;
  (void)total;
  return ERR_STOPPED;
}

START_TEST(it_stops_when_asked) {
  begin();
  struct host h = a_host("A", 0);
  struct tuning *t = calloc(1, sizeof *t);
  struct tuning_outcome outcome;
  const struct work_hook hook = {stop_at_once, NULL};
  const struct tuning_order order = {.plan = &plan, .host = &h, .seconds = 1, .hook = &hook};
  ck_assert_int_eq(tuning_measure(t, &order, &outcome, NULL), ERR_STOPPED);
  ck_assert_uint_eq(t->n_hosts, 0);
  drop(t);
  end();
}
END_TEST

int main(void) {
  return SUITE_RUN("agent/tuning", it_is_read_as_it_was_written, another_host_is_learnt_beside_it,
                   what_is_measured_from_nothing_leaves_others_alone, of_another_model_it_is_foreign, damage_is_noticed,
                   weights_that_nothing_can_be_computed_with_are_damage, numbers_of_machines_stay_small,
                   it_stops_when_asked);
}
