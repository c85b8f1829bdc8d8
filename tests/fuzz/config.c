/* The site file, with a job file beside it that is good: it stands at JOB_FD, where the corpus names it. What is read can
 * be asked for its jobs; what is refused has one line that says why. */
#include "agent/config.h"

#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/parts.h"

enum { JOB_FD = 100 };

static const char job[] =
    "job: inspection\ntask: classify\nlabel: verdict\nclasses: [ ok, bad ]\nfeatures: [ a, b ]\nmodel: dense classes\n";

static void check_jobs(const struct config *c) {
  for (size_t i = 0; i < c->n_jobs; i++) {
    struct digest id = config_job_id(c, &c->jobs[i].job);
    MUST(!digest_is_zero(&id));
  }
  for (size_t i = 1; i < c->n_peers; i++)
    MUST(identity_key_compare(&c->peers[i - 1].key, &c->peers[i].key) < 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static bool is_open;
  if (!is_open) {
    struct memory_file f = memory_file_new(job, sizeof job - 1);
    MUST(random_open() == ERR_OK && dup2(f.fd, JOB_FD) == JOB_FD);
    memory_file_free(&f);
    is_open = true;
  }
  char why[MAX_CONFIG_WHY_BYTES] = "";
  struct config *c = NULL;
  struct memory_file f = memory_file_new(data, size);
  if (config_load(f.path, NULL, &c, why) == ERR_OK)
    check_jobs(c);
  else
    MUST(c == NULL && why[0] != '\0' && strchr(why, '\n') == NULL);
  config_free(c);
  memory_file_free(&f);
  return 0;
}
