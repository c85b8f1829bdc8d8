#include <string.h>

#include "base/must.h"
#include "store/outcome.h"
#include "store/room.h"

enum { REASON_NAME_BYTES = 32 };

static enum err reason_find(const char *name, enum err *out_reason) {
  for (int i = 0; i < ERR_COUNT; i++) {
    if (strcmp(err_name((enum err)i), name) == 0) {
      *out_reason = (enum err)i;
      return ERR_OK;
    }
  }
  return ERR_CORRUPT;
}

/* Not there without a loss, which is the first; the others are then zeros. */
static bool figures_read(struct query *q, double *const *out_figures, size_t n) {
  bool has = false;
  for (size_t i = 0; i < n; i++) {
    double v = column_f64(q);
    has = i == 0 ? v == v : has; /* not NULL */
    *out_figures[i] = has ? v : 0;
  }
  return has;
}

static void metrics_read(struct query *q, struct store_metrics *m) {
  m->has_local =
      figures_read(q, (double *const[]){&m->local_loss, &m->local_headline, &m->local_macro_f1, &m->local_balanced}, 4);
  m->has_global = figures_read(
      q, (double *const[]){&m->global_loss, &m->global_headline, &m->global_macro_f1, &m->global_balanced}, 4);
  m->has_validation = figures_read(q, (double *const[]){&m->validation_loss, &m->validation_headline}, 2);
}

/* The columns of ROUND_COLUMNS in order. */
static enum err round_read(struct query *q, struct store_round *out_round) {
  char outcome[REASON_NAME_BYTES];
  struct store_round r = {0};
  r.label = column_label(q);
  column_text(q, outcome, sizeof outcome);
  r.committed_unix_s = column_i64(q);
  r.seconds = column_f64(q);
  r.sent_bytes = column_u64(q);
  r.received_bytes = column_u64(q);
  (void)column_digest(q, &r.model);
  metrics_read(q, &r.metrics);
  (void)column_digest(q, &r.shadow);
  r.shadow_headline = column_f64(q);
  r.shadow_seconds = column_f64(q);
  r.interrupted = column_u64(q) != 0;
  r.train_loss = column_f64(q);
  r.train_seconds = column_f64(q);
  r.n_samples = (uint32_t)column_u64(q);
  r.sequence = column_u64(q);
  r.n_merged = (uint32_t)column_u64(q);
  r.n_expected = (uint32_t)column_u64(q);
  r.committed = outcome[0] != '\0';
  enum err e = r.committed ? outcome_find(outcome, &r.outcome) : ERR_OK;
  if (e == ERR_OK)
    *out_round = r;
  return e;
}

enum err store_rounds(struct store *s, const struct digest *job, uint64_t from_round, struct store_round *out_rounds,
                      size_t capacity, size_t *out_n) {
  uint64_t id;
  size_t n = 0;
  enum err e = room_job_find(s, job, &id);
  if (e != ERR_OK)
    return e;
  struct query q = query_begin(&s->database, from_round > 0 ? SQL_ROUNDS_FROM : SQL_ROUNDS_LAST);
  bind_u64(&q, id);
  bind_u64(&q, capacity);
  if (from_round > 0)
    bind_u64(&q, from_round);
  while (e == ERR_OK && n < capacity && query_next(&q))
    e = round_read(&q, &out_rounds[n++]);
  enum err end = query_end(&q);
  if (e == ERR_OK)
    e = end;
  if (e == ERR_OK)
    *out_n = n;
  return e;
}

static enum err contribution_read(struct query *q, struct store_contribution *out_row) {
  char reason[REASON_NAME_BYTES];
  struct store_contribution row = {0};
  (void)column_fixed(q, row.origin, sizeof row.origin);
  column_text(q, row.name, sizeof row.name);
  column_text(q, reason, sizeof reason);
  row.fate = (uint8_t)column_u64(q);
  row.lag = (uint32_t)column_u64(q);
  row.weight = column_f64(q);
  row.boot_epoch = column_u64(q);
  row.sequence = column_u64(q);
  row.n_bytes = column_u64(q);
  row.arrival_ms = column_i64(q);
  enum err e = reason_find(reason, &row.reason);
  if (e == ERR_OK)
    *out_row = row;
  return e;
}

static enum err contributions_read(struct store *s, uint64_t job, struct round_label label,
                                   struct store_contribution *out_rows, size_t capacity, size_t *out_n) {
  size_t n = 0;
  enum err e = ERR_OK;
  struct query q = query_begin(&s->database, SQL_CONTRIBUTIONS);
  bind_u64(&q, job);
  bind_label(&q, label);
  bind_u64(&q, capacity);
  while (e == ERR_OK && n < capacity && query_next(&q))
    e = contribution_read(&q, &out_rows[n++]);
  enum err end = query_end(&q);
  if (e == ERR_OK)
    e = end;
  if (e == ERR_OK)
    *out_n = n;
  return e;
}

enum err store_round_find(struct store *s, const struct digest *job, struct round_label label,
                          struct store_round *out_round, struct store_contribution *out_peers, size_t capacity,
                          size_t *out_n_peers) {
  uint64_t id;
  enum err e = room_job_find(s, job, &id);
  if (e != ERR_OK)
    return e;
  struct query q = query_begin(&s->database, SQL_ROUND_ONE);
  bind_u64(&q, id);
  bind_label(&q, label);
  struct store_round round = {0};
  e = query_next(&q) ? round_read(&q, &round) : ERR_NOT_FOUND;
  enum err end = query_end(&q);
  if (end != ERR_OK || e != ERR_OK)
    return end != ERR_OK ? end : e;
  if ((e = contributions_read(s, id, label, out_peers, capacity, out_n_peers)) == ERR_OK)
    *out_round = round;
  return e;
}

enum err store_jobs(struct store *s, struct digest *out_jobs, size_t capacity, size_t *out_n) {
  size_t n = 0;
  struct query q = query_begin(&s->database, SQL_JOBS);
  bind_u64(&q, capacity);
  while (n < capacity && query_next(&q))
    (void)column_digest(&q, &out_jobs[n++]);
  enum err e = query_end(&q);
  if (e == ERR_OK)
    *out_n = n;
  return e;
}

static void outbox_read(struct query *q, struct store_outbox_entry *out_entry) {
  struct store_outbox_entry entry = {0};
  entry.boot_epoch = column_u64(q);
  entry.sequence = column_u64(q);
  entry.label = column_label(q);
  (void)column_digest(q, &entry.chain);
  entry.n_manifest = column_blob(q, entry.manifest, sizeof entry.manifest);
  entry.has_payload = column_digest(q, &entry.payload);
  entry.has_copy = column_digest(q, &entry.half);
  entry.copy_offset = column_u64(q);
  entry.n_copy = column_u64(q);
  entry.has_copy = entry.has_copy && entry.n_copy > 0;
  *out_entry = entry;
}

enum err store_outbox(struct store *s, const struct digest *job, struct store_outbox_entry *out_entries,
                      size_t capacity, size_t *out_n) {
  uint64_t id;
  size_t n = 0;
  enum err e = room_job_find(s, job, &id);
  if (e != ERR_OK)
    return e;
  struct query q = query_begin(&s->database, SQL_OUTBOX);
  bind_u64(&q, id);
  bind_u64(&q, capacity);
  while (n < capacity && query_next(&q))
    outbox_read(&q, &out_entries[n++]);
  if ((e = query_end(&q)) == ERR_OK)
    *out_n = n;
  return e;
}

enum err room_position_get(struct store *s, uint64_t job, const uint8_t origin[32], uint64_t *out_boot_epoch,
                           uint64_t *out_sequence) {
  struct query q = query_begin(&s->database, SQL_POSITION_GET);
  bind_u64(&q, job);
  bind_blob(&q, origin, 32);
  bool found = query_next(&q);
  *out_boot_epoch = found ? column_u64(&q) : 0;
  *out_sequence = found ? column_u64(&q) : 0;
  return query_end(&q);
}

enum err store_position(struct store *s, const struct digest *job, const uint8_t origin[32], uint64_t *out_boot_epoch,
                        uint64_t *out_sequence) {
  uint64_t id, epoch, sequence;
  enum err e;
  if ((e = room_job_find(s, job, &id)) != ERR_OK || (e = room_position_get(s, id, origin, &epoch, &sequence)) != ERR_OK)
    return e;
  *out_boot_epoch = epoch;
  *out_sequence = sequence;
  return ERR_OK;
}

enum err store_file_open(const struct store *s, const struct digest *name, int *out_fd, uint64_t *out_n_bytes) {
  return files_get(&s->files, name, out_fd, out_n_bytes);
}

enum err store_file_check(const struct store *s, const struct digest *name) {
  return files_check(&s->files, name);
}

enum err store_file_load(const struct store *s, const struct digest *name, size_t max_bytes, uint8_t **out_bytes,
                         size_t *out_n_bytes) {
  return files_load(&s->files, name, max_bytes, out_bytes, out_n_bytes);
}
