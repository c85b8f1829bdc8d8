/* The text of a job file, as it comes from a peer, under the settings of another version of the job. What is read says the
 * same when it is read again; what is refused has one line that says why. */
#include <stdlib.h>
#include <string.h>

#include "agent/config.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/parts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const struct config site = {.path = "/site.yaml", .n_peers = 1, .payload_max_mib = 64};
  static const struct site_job_config settings = {.deadline_min_s = 1, .deadline_max_s = 120, .linger_s = 240};
  char why[MAX_CONFIG_WHY_BYTES] = "";
  struct site_job_config *read = NULL, *again = NULL;
  MUST(random_open() == ERR_OK);
  char *text = malloc(size + 1); /* its end is where the reader has to stop */
  MUST(text != NULL);
  memcpy(text, data, size);
  text[size] = 'x';
  enum err e = config_read_job(&site, size % 2 ? &settings : NULL, "peer mec-03", text, size, &read, why);
  MUST(e == ERR_OK || (read == NULL && why[0] != '\0' && strchr(why, '\n') == NULL));
  if (e == ERR_OK) {
    MUST(config_read_job(&site, NULL, "peer mec-03", read->job.text, read->job.n_text, &again, why) == ERR_OK);
    MUST(memcmp(&read->job.file, &again->job.file, sizeof again->job.file) == 0);
  }
  config_job_free(again);
  config_job_free(read);
  free(text);
  return 0;
}
