/* What a site's entry for a job asks of the models room: the same for the running trainer and for the verbs that judge a
 * stored model. Any thread; everything passed in is borrowed. */
#ifndef AGENT_SITE_JOB_H
#define AGENT_SITE_JOB_H

#include <stdbool.h>

#include "agent/config.h"
#include "agent/core/round.h"
#include "base/err.h"
#include "models/data/dataset.h"
#include "models/learner.h"
#include "models/schema.h"

/* The learner of the job, with the schema's hash; first weights and copies of peers are the caller's to add. */
struct learner_config site_job_learner(const struct site_job_config *s, const struct schema *schema);

/* What its rounds go by: of round_config what the site's entry and the job file say. The rest, identity, lengths and memory, is the
 * caller's to add. */
struct round_config site_job_rounds(const struct site_job_config *s, size_t n_peers);

/* How many agents can be in the job at most, of which this one lists so many peers. */
size_t site_job_agents(const struct site_job_config *s, size_t n_peers);

/* The most bytes that an update of so many shared values has, a full copy (a sum is one), and either of them. */
size_t site_job_update_bound(const struct site_job_config *s, size_t n_shared);
size_t site_job_full_bound(const struct site_job_config *s, size_t n_shared);
size_t site_job_payload_bound(const struct site_job_config *s, size_t n_shared);

/* How many arrays as long as the model a half has, with so many peers. */
size_t site_job_half_arrays(const struct site_job_config *s, size_t n_peers);

/* Seed of the first weights, equal at every agent of the job: H(tag ‖ job id ‖ schema hash ‖ init_seed). */
struct digest site_job_first_weights(const struct site_job_config *s, const struct digest *job,
                                     const struct digest *schema);

/* What memory and disk samples may take: data.memory_max_mib, and what is free in the state directory but for the rounds that
 * the disk ladder wants room for, with so many peers. store.max_mib bounds what is stored, and so not this. `state_dir` is
 * borrowed. */
struct data_memory site_job_memory(const struct site_job_config *s, const struct schema *schema, size_t n_peers,
                                   const char *state_dir);

/* Reads the site's training data and, where wanted and given, the common test set (else *out_global is left alone).
 * `saved`: scale that was stored with a model, n = 0 for none. `hook`: NULL, or asked while reading. `memory`: as
 * dataset_open, NULL for no cap. The caller closes both
 * also after a failure. Errors as dataset_open, out_why as there. */
MUST_USE enum err site_job_open_data(const struct site_job_config *s, const struct scale *saved, bool with_global,
                                     const struct work_hook *hook, struct data_memory *memory,
                                     struct splits *out_splits, struct dataset **out_global,
                                     struct data_place *out_why);

/* The newest version of a name in the site file: whose settings a version that came as a job file runs with. NULL. */
const struct site_job_config *site_job_newest(const struct config *c, const char *name);

#endif
