#include "agent/cli/catalogue.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/cli/history.h"
#include "agent/job_words.h"
#include "agent/site_job.h"
#include "crypto/identity.h"
#include "crypto/key_text.h"

/* A row that is of a job in the site file only says its state; one that does not read any more, or is of a name and version
 * with another run_label, is passed over. */
static void take_row(struct catalogue *k, struct store_job_file *row) {
  const struct config *c = k->config;
  char why[MAX_CONFIG_WHY_BYTES], label[JOB_WORDS_BYTES];
  for (size_t i = 0; i < k->n; i++) {
    const struct job_config *job = &k->jobs[i].job->job;
    struct digest id = config_job_id(c, job);
    if (strcmp(job->name, row->name) != 0 || job->version != row->version)
      continue;
    if (digest_equal(&id, &row->digest))
      k->jobs[i].state = row->state == JOB_FILE_STOPPED ? JOB_FILE_STOPPED : JOB_FILE_ACCEPTED;
    free(row->text);
    return;
  }
  struct site_job_config *own = NULL;
  job_words_write(row->name, row->version, label);
  if (config_read_job(c, site_job_newest(c, row->name), label, row->text, strlen(row->text), &own, why) != ERR_OK &&
      config_read_job(c, NULL, label, row->text, strlen(row->text), &own, why) != ERR_OK) {
    free(row->text);
    return;
  }
  k->jobs[k->n++] = (struct known_job){.job = own, .own = own, .state = row->state, .row = *row};
}

enum err catalogue_open(struct catalogue *k, const struct config *c, char why[MAX_CONFIG_WHY_BYTES]) {
  *k = (struct catalogue){.config = c};
  struct store_job_file *rows = calloc(STORE_MAX_JOB_FILES, sizeof *rows);
  k->jobs = calloc(c->n_jobs + STORE_MAX_JOB_FILES, sizeof *k->jobs);
  struct store *store = NULL;
  size_t n = 0;
  enum err e = rows && k->jobs ? ERR_OK : ERR_NO_MEMORY;
  for (size_t i = 0; i < c->n_jobs && e == ERR_OK; i++)
    k->jobs[k->n++] = (struct known_job){.job = &c->jobs[i], .is_configured = true, .state = JOB_FILE_ACCEPTED};
  if (e == ERR_OK)
    e = history_open(c, &store, why);
  if (e == ERR_OK)
    e = store_job_file_list(store, rows, STORE_MAX_JOB_FILES, &n);
  else if (e != ERR_NO_MEMORY)
    e = ERR_OK; /* none yet, or one that only an agent brings up */
  for (size_t i = 0; i < n; i++)
    take_row(k, &rows[i]);
  store_close(store);
  free(rows);
  return e;
}

void catalogue_close(struct catalogue *k) {
  for (size_t i = 0; i < k->n; i++) {
    config_job_free(k->jobs[i].own);
    free(k->jobs[i].row.text);
  }
  free(k->jobs);
}

/* The version that serves, where that was said. */
static uint32_t serving_version(const struct config *c, const char *name) {
  char why[MAX_REASON_BYTES];
  struct store *store;
  uint32_t version = 0;
  if (history_open(c, &store, why) != ERR_OK)
    return 0;
  if (store_serving_job(store, name, &version) != ERR_OK)
    version = 0;
  store_close(store);
  return version;
}

/* Among jobs that fit: the one, else of accepted ones the one that serves. */
static const struct known_job *choose(const struct catalogue *k, const struct job_words *words, size_t *out_n) {
  const struct known_job *only = NULL, *serving = NULL, *oldest = NULL;
  size_t n_accepted = 0;
  bool one_name = true;
  for (size_t i = 0; i < k->n; i++) {
    const struct known_job *j = &k->jobs[i];
    const struct job_config *job = &j->job->job;
    if (words && !job_words_fit(words, job->name, job->version))
      continue;
    one_name = one_name && (!only || strcmp(only->job->job.name, job->name) == 0);
    only = j;
    (*out_n)++;
    if (j->state != JOB_FILE_ACCEPTED)
      continue;
    n_accepted++;
    if (!oldest || job->version < oldest->job->job.version)
      oldest = j;
  }
  if (*out_n <= 1 || !one_name || n_accepted == 0)
    return *out_n == 1 ? only : NULL;
  uint32_t version = serving_version(k->config, only->job->job.name);
  for (size_t i = 0; i < k->n; i++)
    if (version > 0 && k->jobs[i].state == JOB_FILE_ACCEPTED && k->jobs[i].job->job.version == version &&
        strcmp(k->jobs[i].job->job.name, only->job->job.name) == 0)
      serving = &k->jobs[i];
  return serving ? serving : oldest;
}

enum err catalogue_find(const struct catalogue *k, const char *text, const struct known_job **out_job,
                        char why[MAX_CONFIG_WHY_BYTES]) {
  struct job_words words;
  size_t n = 0, n_why;
  enum err e = text ? job_words_read(text, &words, why) : ERR_OK;
  if (e != ERR_OK)
    return e;
  *out_job = choose(k, text ? &words : NULL, &n);
  if (*out_job)
    return ERR_OK;
  n_why = (size_t)snprintf(why, MAX_CONFIG_WHY_BYTES, "%s; here are", n ? "which job is meant?" : "no such job");
  for (size_t i = 0; i < k->n && n_why < MAX_CONFIG_WHY_BYTES; i++) {
    char label[JOB_WORDS_BYTES];
    job_words_write(k->jobs[i].job->job.name, k->jobs[i].job->job.version, label);
    n_why += (size_t)snprintf(why + n_why, MAX_CONFIG_WHY_BYTES - n_why, "%s %s", i ? "," : "", label);
  }
  return n ? ERR_RANGE : ERR_NOT_FOUND;
}

const char *catalogue_state(const struct known_job *job) {
  static const char *const words[] = {
      [JOB_FILE_PROPOSED] = "proposed", [JOB_FILE_ACCEPTED] = "accepted", [JOB_FILE_STOPPED] = "stopped"};
  return job->is_configured && job->state == JOB_FILE_ACCEPTED ? "configured" : words[job->state];
}

static json_t *row_of(const struct catalogue *k, const struct known_job *j) {
  const struct job_config *job = &j->job->job;
  struct identity_key proposer;
  char key[KEY_TEXT_BYTES] = "";
  size_t n = 0;
  struct job_words words = {.version = 0};
  memcpy(words.name, job->name, sizeof words.name);
  memcpy(proposer.bytes, j->row.proposer, sizeof proposer.bytes);
  if (!j->is_configured)
    key_text_write(&proposer, key);
  return json_pack("{s:s, s:I, s:s, s:s, s:b, s:i, s:i, s:I, s:b, s:n, s:n, s:n, s:s, s:s, s:s, s:s}", "job", job->name,
                   "version", (json_int_t)job->version, "run_label", job->run_label, "state", catalogue_state(j),
                   "running", 0, "accepted", 0, "ready", 0, "peers", (json_int_t)k->config->n_peers, "serving",
                   choose(k, &words, &n) == j, "phase", "round", "validation", "metric",
                   metric_name(contract_metric(job->contract)), "signed_by", "", "proposer", key, "note", "");
}

json_t *catalogue_rows(const struct config *c) {
  char why[MAX_CONFIG_WHY_BYTES];
  struct catalogue k;
  json_t *rows = json_array();
  if (catalogue_open(&k, c, why) == ERR_OK)
    for (size_t i = 0; i < k.n; i++)
      json_array_append_new(rows, row_of(&k, &k.jobs[i]));
  catalogue_close(&k);
  return rows;
}

static enum err same_text(const struct store_job_file *row, const char *text, size_t n_text,
                          char why[MAX_CONFIG_WHY_BYTES]) {
  if (strlen(row->text) == n_text && memcmp(row->text, text, n_text) == 0)
    return ERR_OK;
  snprintf(why, MAX_CONFIG_WHY_BYTES, "%s@%" PRIu32 " is known with other contents; write a higher version", row->name,
           row->version);
  return ERR_EXISTS;
}

enum err catalogue_may_add(const struct config *c, struct store *store, const struct store_job_file *row,
                           bool *out_is_new, char why[MAX_CONFIG_WHY_BYTES]) {
  struct store_job_file *rows = calloc(STORE_MAX_JOB_FILES, sizeof *rows);
  size_t n = 0;
  enum err e = rows ? store_job_file_list(store, rows, STORE_MAX_JOB_FILES, &n) : ERR_NO_MEMORY;
  *out_is_new = true;
  for (size_t i = 0; i < c->n_jobs && e == ERR_OK; i++) {
    const struct job_config *job = &c->jobs[i].job;
    if (strcmp(job->name, row->name) != 0 || job->version != row->version)
      continue;
    *out_is_new = false;
    e = same_text(row, c->jobs[i].job.text, c->jobs[i].job.n_text, why);
  }
  for (size_t i = 0; i < n && e == ERR_OK; i++) {
    if (strcmp(rows[i].name, row->name) != 0 || rows[i].version != row->version)
      continue;
    *out_is_new = false;
    e = same_text(row, rows[i].text, strlen(rows[i].text), why);
  }
  if (rows)
    store_job_files_free(rows, n);
  free(rows);
  return e;
}
