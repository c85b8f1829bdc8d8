#include "agent/cli/written.h"

#include "agent/cli/history.h"
#include "agent/core/disk.h"
#include "agent/site_job.h"
#include "models/merging/codec.h"
#include "models/schema.h"

bool shadow_is_wanted(const struct config *c, const struct site_job_config *job) {
  return job->shadow == SHADOW_ON || (job->shadow == SHADOW_AUTO && c->n_peers > 0);
}

uint64_t written_a_round(const struct config *c, const struct site_job_config *site_job) {
  const struct job_config *job = &site_job->job;
  struct schema *schema;
  char reason[MAX_REASON_BYTES];
  uint64_t publish, commit;
  if (schema_from_arch(job->arch, job->contract, &schema, reason))
    return 0;
  size_t n_parameters = schema_parameters(schema), n_shared = schema_shared(schema);
  schema_free(schema);
  size_t full = codec_full_bytes(n_parameters), half_arrays = site_job_half_arrays(site_job, c->n_peers);
  disk_forecast(site_job_update_bound(site_job, n_shared), full, half_arrays, &publish, &commit);
  return publish + commit + (shadow_is_wanted(c, site_job) ? half_arrays * full : 0);
}

json_t *written_a_day(uint64_t bytes, double round_seconds) {
  static const double seconds_a_day = 86400;
  return round_seconds > 0 ? json_real((double)bytes * seconds_a_day / round_seconds) : json_null();
}

double seconds_a_round(const struct config *c, const struct site_job_config *job) {
  enum { LOOK_BACK = 20 };
  char why[MAX_REASON_BYTES];
  json_t *data = NULL;
  const json_t *row, *rows;
  double sum = 0;
  size_t i, n = 0;
  if (history_read(c, &(struct history_query){.job = config_job_id(c, &job->job), .last = LOOK_BACK}, &data, why))
    return job->every_s;
  rows = json_object_get(data, "rounds");
  json_array_foreach(rows, i, row) {
    const json_t *seconds = json_object_get(row, "seconds");
    sum += json_number_value(seconds);
    n += json_is_number(seconds);
  }
  json_decref(data);
  double mean = n ? sum / (double)n : 0;
  return mean < job->every_s ? job->every_s : mean;
}
