/* Which job a call means. */
#include <stdlib.h>

#include "agent/cli/answer.h"
#include "agent/cli/catalogue.h"

static bool find_job(struct call *call, const struct config *c, const struct site_job_config **out_job) {
  char why[MAX_CONFIG_WHY_BYTES] = "";
  const struct known_job *k = NULL;
  call->catalogue = calloc(1, sizeof *call->catalogue);
  enum err e = call->catalogue ? catalogue_open(call->catalogue, c, why) : ERR_NO_MEMORY;
  if (e == ERR_OK)
    e = catalogue_find(call->catalogue, call->job, &k, why);
  if (e == ERR_OK) {
    *out_job = k->job;
    return true;
  }
  bool is_named = call->job != NULL;
  answer_error(call, EXIT_USAGE, e == ERR_NOT_FOUND ? err_name(e) : "usage", "write --job NAME[@VERSION]", "%s%s",
               is_named ? "--job: " : "", why[0] ? why : err_sentence(e));
  return false;
}

bool call_load_job(struct call *call, struct config **out_config, const struct site_job_config **out_job) {
  struct config *c;
  if (!call_load_config(call, &c))
    return false;
  if (!find_job(call, c, out_job)) {
    config_free(c);
    return false;
  }
  *out_config = c;
  return true;
}

json_t *call_request(const struct call *call, json_t *request) {
  if (call->job && request)
    json_object_set_new(request, "job", json_string(call->job));
  return request;
}
