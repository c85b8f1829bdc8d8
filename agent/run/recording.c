/* `trace_mib`: what a job's round machine was told and did, in a ring, and as a file when somebody asks or the agent breaks. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/core/record.h"
#include "agent/core/recorder.h"
#include "agent/file.h"
#include "agent/run/log.h"
#include "agent/run/parts.h"
#include "agent/run/snapshot.h"
#include "base/fd.h"

enum { TRACE_MODE = 0600 };

enum err recording_start(struct agent_job *j) {
  uint64_t mib = j->agent->config->trace_mib;
  if (mib == 0)
    return ERR_OK;
  enum err e = recorder_new((size_t)mib << 20, &j->recorder);
  if (e == ERR_OK)
    recorder_attach(j->recorder, j->round);
  return e;
}

/* A new file's bytes: the first line, then the records. Freed by the caller; NULL: no memory. */
static uint8_t *file_bytes(const struct recorder *r, size_t *out_n) {
  *out_n = N_RECORD_MAGIC + recorder_bytes(r);
  uint8_t *bytes = malloc(*out_n);
  if (!bytes)
    return NULL;
  memcpy(bytes, RECORD_MAGIC, N_RECORD_MAGIC);
  recorder_copy(r, bytes + N_RECORD_MAGIC);
  return bytes;
}

/* What is no file is not waited for. */
static int trace_open(const char *path) {
  return open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, TRACE_MODE);
}

/* Closes the descriptor. */
static enum err write_all(int fd, const uint8_t *bytes, size_t n) {
  if (fd < 0)
    return err_from_errno(errno);
  enum err e = fd_write_all(fd, bytes, n);
  if (close(fd) != 0 && e == ERR_OK)
    e = err_from_errno(errno);
  return e;
}

/* ---- when somebody asks --------------------------------------------------------------------------------------------- */

struct trace_call {
  struct agent_call call;
  uint64_t client;
  uint8_t *bytes;
  size_t n_bytes;
  char path[MAX_PATH_BYTES], beside[MAX_PATH_BYTES];
  enum err error; /* of the file: never the call's, which would be the store's */
};

static enum err name_files(const struct agent *a, char out_path[MAX_PATH_BYTES], char out_beside[MAX_PATH_BYTES]) {
  enum err e = path_join(a->config->state_dir, TRACE_FILE, out_path);
  return e == ERR_OK ? path_join(a->config->state_dir, TRACE_FILE ".tmp", out_beside) : e;
}

static enum err run(struct store *store, struct scribe_call *call) {
  struct trace_call *t = (struct trace_call *)call;
  (void)store;
  t->error = write_all(trace_open(t->beside), t->bytes, t->n_bytes);
  if (t->error == ERR_OK && rename(t->beside, t->path) != 0)
    t->error = err_from_errno(errno);
  if (t->error != ERR_OK)
    unlink(t->beside);
  return ERR_OK;
}

static void done(struct agent *a, struct agent_call *call, enum err e) {
  const struct trace_call *t = (const struct trace_call *)call;
  char sentence[MAX_PATH_BYTES + MAX_REASON_BYTES];
  a->is_tracing = false;
  if (e == ERR_OK)
    e = t->error;
  snprintf(sentence, sizeof sentence, "%s: the trace could not be written: %s", a->config->state_dir, err_sentence(e));
  if (e != ERR_OK)
    control_fail(a->control, t->client, e, sentence, "see that the agent may write there and has room");
  else
    control_answer(a->control, t->client, json_pack("{s:s, s:I}", "file", TRACE_FILE, "bytes", (json_int_t)t->n_bytes));
}

static void drop(struct scribe_call *call) {
  struct trace_call *t = (struct trace_call *)call;
  free(t->bytes);
  free(t);
}

void agent_answer_trace(struct agent *a, uint64_t client, const json_t *request) {
  const struct agent_job *j = agent_asked_job(a, client, request);
  if (!j)
    return;
  if (!j->recorder || recorder_bytes(j->recorder) == 0) {
    control_fail(a->control, client, ERR_NOT_FOUND,
                 j->recorder ? "one checkpoint of this job is longer than trace_mib: set more"
                             : "this agent records nothing: set trace_mib in its site file, 16 say, and restart it",
                 NULL);
    return;
  }
  if (a->is_tracing) {
    control_fail(a->control, client, ERR_BUSY, "another trace is being written", "ask again");
    return;
  }
  struct trace_call *t = calloc(1, sizeof *t);
  uint8_t *bytes = t ? file_bytes(j->recorder, &t->n_bytes) : NULL;
  enum err e = bytes ? name_files(a, t->path, t->beside) : ERR_NO_MEMORY;
  if (e != ERR_OK) {
    free(bytes);
    free(t);
    control_fail(a->control, client, e, err_sentence(e), NULL);
    return;
  }
  t->call = (struct agent_call){.scribe = {run, drop}, .done = done};
  t->client = client;
  t->bytes = bytes;
  a->is_tracing = true;
  agent_call(a, &t->call);
}

void recordings_forget(const struct agent *a) {
  char path[MAX_PATH_BYTES], beside[MAX_PATH_BYTES];
  if (name_files(a, path, beside) != ERR_OK)
    return;
  unlink(path);
  unlink(beside);
}

/* ---- when the agent breaks ------------------------------------------------------------------------------------------ */

static void keep(const struct agent_job *j) {
  const struct job_config *job = &j->config->job;
  char file[JOB_WORDS_BYTES + sizeof "failed-.trace"], words[JOB_WORDS_BYTES], whole[MAX_PATH_BYTES];
  size_t n;
  job_words_write(job->name, job->version, words);
  snprintf(file, sizeof file, "failed-%s.trace", words);
  uint8_t *bytes = file_bytes(j->recorder, &n);
  enum err e = bytes ? path_join(j->agent->config->state_dir, file, whole) : ERR_NO_MEMORY;
  if (e == ERR_OK)
    e = write_all(trace_open(whole), bytes, n);
  free(bytes);
  if (e == ERR_OK)
    log_event(LOG_INFO, "trace-kept", NULL, LOG_FIELDS(log_text("file", whole)));
}

void recordings_keep(const struct agent *a) {
  for (size_t i = 0; i < a->n_jobs; i++)
    if (a->jobs[i]->recorder)
      keep(a->jobs[i]);
}
