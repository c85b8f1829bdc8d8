/* Which job a call means. */
#include <string.h>

#include "agent/cli/answer.h"
#include "agent/job_words.h"

/* "inspection@1, drift@3" */
static void list_jobs(const struct config *c, char *out_text, size_t capacity) {
  size_t n = 0;
  out_text[0] = '\0';
  for (size_t i = 0; i < c->n_jobs && n < capacity; i++) {
    char words[JOB_WORDS_BYTES];
    job_words_write(c->jobs[i].job.name, c->jobs[i].job.version, words);
    n += (size_t)snprintf(out_text + n, capacity - n, "%s%s", n ? ", " : "", words);
  }
}

bool call_find_job(struct call *call, const struct config *c, const struct site_job_config **out_job) {
  struct job_words words = {.version = 0};
  char why[MAX_REASON_BYTES], known[2 * MAX_REASON_BYTES];
  size_t n = 0;
  if (call->job && job_words_read(call->job, &words, why)) {
    answer_error(call, EXIT_USAGE, "usage", NULL, "--job: %s", why);
    return false;
  }
  for (size_t i = 0; i < c->n_jobs; i++)
    if (!call->job || job_words_fit(&words, c->jobs[i].job.name, c->jobs[i].job.version)) {
      *out_job = &c->jobs[i];
      n++;
    }
  if (n == 1)
    return true;
  list_jobs(c, known, sizeof known);
  answer_error(call, EXIT_USAGE, n ? "usage" : err_name(ERR_NOT_FOUND), "write --job NAME[@VERSION]",
               n ? "which job is meant? here are %s" : "no such job; here are %s", known);
  return false;
}

json_t *call_request(const struct call *call, json_t *request) {
  if (call->job && request)
    json_object_set_new(request, "job", json_string(call->job));
  return request;
}
