#include "agent/core/work.h"

#include <stdlib.h>

#include "base/must.h"

static void peers_free(struct merge_peer *peers, size_t n_peers) {
  for (size_t i = 0; i < n_peers; i++) {
    for (size_t j = 0; j < peers[i].n_links; j++)
      free(peers[i].links[j].payload);
    free(peers[i].links);
  }
  free(peers);
}

void trainer_job_free(struct trainer_job *job) {
  if (job == NULL)
    return;
  free(job->half.bytes);
  free(job->model.bytes);
  scale_done(&job->scale);
  peers_free(job->peers, job->n_peers);
  free(job->told);
  free(job);
}

void trainer_result_free(struct trainer_result *result) {
  if (result == NULL)
    return;
  free(result->payload.bytes);
  scale_done(&result->scale);
  scale_stats_done(&result->stats);
  free(result->half.bytes);
  free(result->model.bytes);
  free(result->shadow.bytes);
  free(result->account.peers);
  peers_free(result->peers, result->n_peers);
  free(result);
}

void scribe_job_free(struct scribe_job *job) {
  if (job == NULL)
    return;
  free(job->payload.bytes);
  free(job->half.bytes);
  free(job->model.bytes);
  free(job->shadow.bytes);
  free(job->contributions);
  free(job->path);
  scribe_job_free(job->before);
  if (job->call != NULL)
    job->call->drop(job->call);
  free(job);
}

bool scribe_kind_is_of_round(enum scribe_job_kind kind) {
  static const enum scribe_job_kind of_round[] = {SCRIBE_PUBLISH, SCRIBE_COMMIT, SCRIBE_RAISE_EPOCH, SCRIBE_LOAD_MODEL,
                                                  SCRIBE_ROLL_BACK};
  for (size_t i = 0; i < sizeof of_round / sizeof *of_round; i++)
    if (of_round[i] == kind)
      return true;
  return false;
}

bool scribe_is_refused(enum scribe_job_kind kind, enum err e) {
  return kind == SCRIBE_LOAD_MODEL
             ? e != ERR_OK
             : kind == SCRIBE_ROLL_BACK && (e == ERR_NOT_FOUND || e == ERR_CORRUPT || e == ERR_RANGE);
}

bool err_is_temporary(enum err e) {
  return e == ERR_NO_SPACE || e == ERR_READ_ONLY;
}

void scribe_result_free(struct scribe_result *result) {
  if (result == NULL)
    return;
  MUST(result->payload_fd == -1 && result->copy_fd == -1);
  scribe_job_free(result->job);
  free(result->half.bytes);
  free(result->model.bytes);
  if (result->call != NULL)
    result->call->drop(result->call);
  free(result->rounds);
  free(result->contributions);
  free(result->events);
  free(result);
}
