#include <time.h>

#include "store/reason.h"
#include "store/room.h"

/* Where an agent could start from: after COMMIT, or gathering after PUBLISHED. */
struct snapshot {
  uint64_t job;
  struct round_label label;
  bool committed;
  uint64_t sequence;
  struct digest half, model, payload; /* zeros: none */
};

static void snapshot_read(struct query *q, struct snapshot *out_snapshot) {
  out_snapshot->label = column_label(q);
  out_snapshot->committed = column_u64(q) != 0;
  out_snapshot->sequence = column_u64(q);
  (void)column_digest(q, &out_snapshot->half);
  (void)column_digest(q, &out_snapshot->model);
  (void)column_digest(q, &out_snapshot->payload);
}

static enum err snapshot_check(const struct store *s, const struct snapshot *snapshot) {
  const struct digest files[] = {snapshot->half, snapshot->model, snapshot->payload};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    enum err e = digest_is_zero(&files[i]) ? ERR_OK : files_check(&s->files, &files[i]);
    if (e != ERR_OK)
      return e;
  }
  return ERR_OK;
}

/* The newest whole snapshot; out_n_damaged are the newer ones. ERR_NOT_FOUND when the job has no snapshot at all. */
static enum err snapshot_find(struct store *s, uint64_t job, struct snapshot *out_snapshot, unsigned *out_n_damaged) {
  struct snapshot snapshot = {.job = job};
  enum err e = ERR_NOT_FOUND;
  unsigned n_damaged = 0;
  struct query q = query_begin(&s->database, SQL_SNAPSHOTS);
  bind_u64(&q, job);
  while ((e == ERR_NOT_FOUND || e == ERR_CORRUPT) && query_next(&q)) {
    snapshot_read(&q, &snapshot);
    e = snapshot_check(s, &snapshot);
    n_damaged += e == ERR_CORRUPT;
  }
  enum err end = query_end(&q);
  if (end != ERR_OK)
    return end;
  if (e == ERR_OK) {
    *out_snapshot = snapshot;
    *out_n_damaged = n_damaged;
  }
  return e;
}

/* What the snapshots are ordered by. */
static void bind_place(struct query *q, const struct snapshot *at) {
  bind_u64(q, at->job);
  bind_u64(q, at->sequence);
  bind_u64(q, at->committed);
  bind_label(q, at->label);
}

static enum err drop_newer(struct store *s, enum statement which, const struct snapshot *than) {
  struct query q = query_begin(&s->database, which);
  bind_place(&q, than);
  return query_run(&q);
}

/* Forgets what is newer than a snapshot, so that its rounds can be learnt again. The sequence numbers stay used; the chain
 * they led to does not, for no snapshot goes with it: also a second restart must start a new one. */
static enum err fall_back_body(struct store *s, const void *argument) {
  const struct snapshot *to = argument;
  char text[MAX_REASON_BYTES];
  enum err e = drop_newer(s, SQL_COMMITMENTS_DROP, to);
  if (e == ERR_OK)
    e = drop_newer(s, SQL_PUBLICATIONS_VOID, to);
  if (e != ERR_OK)
    return e;
  reason_set(text, "the newest snapshot was damaged: going on from the one of round %llu+%u, %s",
             (unsigned long long)to->label.round, to->label.sub, to->committed ? "committed" : "published");
  return room_event_add(s, (int64_t)time(NULL), "snapshot-damaged", "", text);
}

/* What stays true whatever the snapshots are: the numbers that were used. */
static enum err resume_sequence(struct store *s, uint64_t job, struct store_resume *resume) {
  struct query q = query_begin(&s->database, SQL_LAST_PUBLISHED);
  bind_u64(&q, job);
  if (query_next(&q)) {
    resume->sequence = column_u64(&q);
    resume->sequence_epoch = column_u64(&q);
    (void)column_digest(&q, &resume->chain);
  }
  return query_end(&q);
}

static enum err resume_committed(struct store *s, const struct snapshot *at, struct store_resume *resume) {
  struct query q = query_begin(&s->database, SQL_COMMITTED_UNTIL);
  bind_place(&q, at);
  if (query_next(&q)) {
    resume->committed = column_label(&q);
    (void)column_digest(&q, &resume->shadow);
  }
  return query_end(&q);
}

static enum err resume_short(struct store *s, uint64_t job, struct store_resume *resume) {
  struct query q = query_begin(&s->database, SQL_SHORT_COUNT);
  bind_u64(&q, job);
  bind_label(&q, resume->committed);
  if (query_next(&q))
    resume->n_short = (uint32_t)column_u64(&q);
  return query_end(&q);
}

static enum err resume_from(struct store *s, const struct snapshot *at, struct store_resume *resume) {
  resume->at = at->committed ? RESUME_COMMITTED : RESUME_PUBLISHED;
  if (!at->committed)
    resume->published = at->label;
  resume->half = at->half;
  resume->model = at->model;
  enum err e = resume_committed(s, at, resume);
  return e == ERR_OK ? resume_short(s, at->job, resume) : e;
}

static enum err resume_find(struct store *s, const struct digest *job, struct store_resume *resume) {
  struct snapshot newest;
  unsigned n_damaged;
  uint64_t id;
  enum err e;
  if ((e = room_job_find(s, job, &id)) != ERR_OK || (e = resume_sequence(s, id, resume)) != ERR_OK)
    return e;
  e = room_roll_back_last(s, id, &resume->roll_back);
  resume->has_roll_back = e == ERR_OK;
  if (e != ERR_OK && e != ERR_NOT_FOUND)
    return e;
  if ((e = snapshot_find(s, id, &newest, &n_damaged)) == ERR_NOT_FOUND)
    return ERR_OK;
  if (e != ERR_OK)
    return e;
  resume->fell_back = n_damaged > 0;
  if (resume->fell_back && !s->read_only && (e = room_transaction(s, fall_back_body, &newest)) != ERR_OK)
    return e;
  return resume_from(s, &newest, resume);
}

enum err store_resume(struct store *s, const struct digest *job, struct store_resume *out_resume,
                      char out_why[MAX_REASON_BYTES]) {
  struct store_resume resume = {.at = RESUME_FRESH};
  enum err e = resume_find(s, job, &resume);
  if (e == ERR_OK)
    *out_resume = resume;
  else if (e == ERR_CORRUPT)
    reason_set(out_why, "no snapshot in files/ is whole: put back a backup of the state directory, or move it away to "
                        "start again");
  else
    reason_set(out_why, "the state directory: %s", err_sentence(e));
  return e;
}
