/* The jobs that a site knows, without a running agent: those of the site file, and the job files in the database. */
#ifndef AGENT_CLI_CATALOGUE_H
#define AGENT_CLI_CATALOGUE_H

#include "agent/cli/cli.h"
#include "store/store.h"

struct known_job {
  const struct site_job_config *job; /* of the config, or `own` */
  struct site_job_config *own;       /* read from the row's text, with the site's settings where it has such a job */
  bool is_configured;
  enum job_file_state state;
  struct store_job_file row; /* zero for a job that is only in the site file */
};

struct catalogue {
  const struct config *config;
  struct known_job *jobs;
  size_t n;
};

/* A database that is not there yet has no files. Close it also after an error. */
MUST_USE enum err catalogue_open(struct catalogue *k, const struct config *c, char why[MAX_CONFIG_WHY_BYTES]);
void catalogue_close(struct catalogue *k);

/* By NAME[@VERSION]; NULL: the only one. Of several versions the one that serves, else ERR_RANGE: why says which there are.
 * ERR_NOT_FOUND; ERR_SYNTAX. Borrowed. */
MUST_USE enum err catalogue_find(const struct catalogue *k, const char *words, const struct known_job **out_job,
                                 char why[MAX_CONFIG_WHY_BYTES]);

/* The word for its state: "configured", "proposed", "accepted", "stopped". */
const char *catalogue_state(const struct known_job *job);

/* As `job status` of a running agent, with what is known without one. */
json_t *catalogue_rows(const struct config *c);

/* Whether a new row may be stored: not when the job is known with another text (ERR_EXISTS); known with the same changes nothing. */
MUST_USE enum err catalogue_may_add(const struct config *c, struct store *store, const struct store_job_file *row,
                                    bool *out_is_new, char why[MAX_CONFIG_WHY_BYTES]);

void jobs_print(const json_t *rows, bool is_tsv, FILE *out);

#endif
