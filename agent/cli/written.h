/* What rounds write to the disk, for `config check` and `rounds show`: cards and flash wear out by it. */
#ifndef AGENT_CLI_WRITTEN_H
#define AGENT_CLI_WRITTEN_H

#include "agent/cli/cli.h"

/* Whether a model is trained alone beside the job's, as far as the configuration says; by auto it may end soon. */
bool shadow_is_wanted(const struct config *c, const struct site_job_config *job);

/* Bytes of the files that a round of the job writes; 0 when its model cannot be made. */
uint64_t written_a_round(const struct config *c, const struct site_job_config *job);

/* What that is a day with rounds of so many seconds each; null when that is not known (not above 0). */
json_t *written_a_day(uint64_t bytes, double round_seconds);

/* Mean seconds from round to round: of the last committed ones in the database, but every_s at least; 0 when nothing is
 * known. */
double seconds_a_round(const struct config *c, const struct site_job_config *job);

#endif
