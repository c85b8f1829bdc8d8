#include "store/room.h"

#include "base/fault_point.h"

/* In doubt every file is kept. */
static void remove_unnamed(struct store *s) {
  struct digest name;
  if (!s->files.is_listed && files_list(&s->files) != ERR_OK)
    return;
  struct query q = query_begin(&s->database, SQL_FILES_NAMED);
  while (query_next(&q))
    if (column_digest(&q, &name))
      files_claim(&s->files, &name);
  if (query_end(&q) == ERR_OK)
    files_sweep(&s->files);
}

enum err room_transaction(struct store *s, enum err (*body)(struct store *s, const void *argument),
                          const void *argument) {
  if (s->read_only)
    return ERR_READ_ONLY;
  if (s->poisoned)
    return ERR_IO;
  enum err e = database_begin(&s->database);
  FAULT_POINT("transaction-begun");
  if (e == ERR_OK) {
    if ((e = body(s, argument)) == ERR_OK)
      e = files_sync(&s->files);
    e = database_end(&s->database, e);
  }
  FAULT_POINT("transaction-ended");
  files_forget(&s->files);
  if (e == ERR_IO)
    s->poisoned = true;
  else
    remove_unnamed(s);
  FAULT_POINT("files-let-go");
  if (s->keeps_few || e == ERR_NO_SPACE)
    files_drop_spares(&s->files);
  return e;
}

enum err room_file_put(struct store *s, const uint8_t *bytes, size_t n_bytes, struct digest *name) {
  if (bytes == NULL) {
    *name = (struct digest){0};
    return ERR_OK;
  }
  if (digest_is_zero(name))
    *name = digest_of(s->files.digest, bytes, n_bytes);
  return files_put(&s->files, name, bytes, n_bytes);
}

enum err room_job_find(struct store *s, const struct digest *job, uint64_t *out_id) {
  struct query q = query_begin(&s->database, SQL_JOB_FIND);
  bind_blob(&q, job->bytes, DIGEST_BYTES);
  *out_id = query_next(&q) ? column_u64(&q) : 0;
  return query_end(&q);
}

enum err room_job_add(struct store *s, const struct digest *job, uint64_t *out_id) {
  enum err e = room_job_find(s, job, out_id);
  if (e != ERR_OK || *out_id > 0)
    return e;
  struct query q = query_begin(&s->database, SQL_JOB_ADD);
  bind_blob(&q, job->bytes, DIGEST_BYTES);
  e = query_run(&q);
  return e == ERR_OK ? room_job_find(s, job, out_id) : e;
}

static enum err keep_newest(struct store *s, enum statement which, uint64_t job, uint32_t n) {
  struct query q = query_begin(&s->database, which);
  bind_u64(&q, job);
  bind_u64(&q, n);
  return query_run(&q);
}

static uint32_t kept_last(const struct store *s) {
  return s->keeps_few ? 1 : s->keep_last;
}

enum err room_keep_models(struct store *s, uint64_t job) {
  struct query q = query_begin(&s->database, SQL_MODELS_KEEP);
  bind_u64(&q, job);
  bind_u64(&q, kept_last(s));
  bind_u64(&q, s->keeps_few ? 0 : s->keep_best);
  return query_run(&q);
}

enum err room_keep_publications(struct store *s, uint64_t job) {
  enum err e = keep_newest(s, SQL_PAYLOADS_KEEP, job, KEEP_PAYLOADS);
  return e == ERR_OK ? keep_newest(s, SQL_HALVES_KEEP, job, kept_last(s)) : e;
}

int label_compare(struct round_label a, struct round_label b) {
  if (a.round != b.round)
    return a.round < b.round ? -1 : 1;
  return (a.sub > b.sub) - (a.sub < b.sub);
}

bool label_is_valid(struct round_label label) {
  return label.round <= INT64_MAX;
}

struct round_label column_label(struct query *q) {
  uint64_t round = column_u64(q);
  return (struct round_label){.round = round, .sub = (uint32_t)column_u64(q)};
}

void bind_label(struct query *q, struct round_label label) {
  bind_u64(q, label.round);
  bind_u64(q, label.sub);
}

enum err room_last_committed(struct store *s, uint64_t job, struct round_label *out_label) {
  struct query q = query_begin(&s->database, SQL_LAST_COMMITTED);
  bind_u64(&q, job);
  *out_label = (struct round_label){0};
  if (query_next(&q))
    *out_label = column_label(&q);
  return query_end(&q);
}
