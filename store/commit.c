#include <string.h>

#include "base/must.h"
#include "store/outcome.h"
#include "store/room.h"

/* Is the label committed already? ERR_EXISTS when it is, with another model. */
static enum err commitment_compare(struct store *s, uint64_t job, const struct store_commitment *c,
                                   bool *out_is_there) {
  struct digest stored = {0};
  struct query q = query_begin(&s->database, SQL_COMMITMENT_FIND);
  bind_u64(&q, job);
  bind_label(&q, c->label);
  bool is_there = query_next(&q);
  if (is_there)
    (void)column_digest(&q, &stored);
  enum err e = query_end(&q);
  if (e == ERR_OK && is_there) {
    e = files_is_name(&s->files, &stored, c->model, c->n_model) ? ERR_OK : ERR_EXISTS;
  }
  if (e == ERR_OK)
    *out_is_there = is_there;
  return e;
}

/* The first column of the job's newest row; 0 without one. */
static enum err newest_sequence(struct store *s, uint64_t job, enum statement which, uint64_t *out_sequence) {
  struct query q = query_begin(&s->database, which);
  bind_u64(&q, job);
  uint64_t sequence = query_next(&q) ? column_u64(&q) : 0;
  enum err e = query_end(&q);
  if (e == ERR_OK)
    *out_sequence = sequence;
  return e;
}

enum err room_last_published(struct store *s, uint64_t job, uint64_t *out_sequence) {
  return newest_sequence(s, job, SQL_LAST_PUBLISHED, out_sequence);
}

/* The label comes after the last commitment, and where its outcome asks for that, a publication waits to be merged. */
static enum err commitment_follows(struct store *s, uint64_t job, const struct store_commitment *c,
                                   uint64_t *out_sequence) {
  struct round_label committed;
  enum err e = room_last_committed(s, job, &committed);
  if (e != ERR_OK)
    return e;
  if (label_compare(c->label, committed) <= 0)
    return ERR_RANGE;
  uint64_t closed = 0;
  e = room_last_published(s, job, out_sequence);
  if (e != ERR_OK || c->outcome == ROUND_JUMPED || c->outcome == ROUND_ADOPTED)
    return e;
  e = newest_sequence(s, job, SQL_LAST_CLOSED, &closed);
  return e == ERR_OK && *out_sequence <= closed ? ERR_NOT_FOUND : e;
}

static enum err newest_half(struct store *s, uint64_t job, struct digest *out_half) {
  struct query q = query_begin(&s->database, SQL_NEWEST_HALF);
  bind_u64(&q, job);
  *out_half = (struct digest){0};
  if (query_next(&q))
    (void)column_digest(&q, out_half);
  return query_end(&q);
}

static void bind_figures(struct query *q, bool has, const double *figures, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (has)
      bind_f64(q, figures[i]);
    else
      bind_null(q);
  }
}

/* The files that a commitment names; zeros: none. */
struct commitment_files {
  struct digest model, half, shadow;
};

static void bind_metrics(struct query *q, const struct store_metrics *m) {
  bind_figures(q, m->has_local,
               (const double[]){m->local_loss, m->local_headline, m->local_macro_f1, m->local_balanced}, 4);
  bind_figures(q, m->has_global,
               (const double[]){m->global_loss, m->global_headline, m->global_macro_f1, m->global_balanced}, 4);
  bind_figures(q, m->has_validation, (const double[]){m->validation_loss, m->validation_headline}, 2);
}

static enum err commitment_add(struct store *s, uint64_t job, const struct store_commitment *c, uint64_t sequence,
                               const struct commitment_files *files) {
  struct query q = query_begin(&s->database, SQL_COMMITMENT_ADD);
  bind_u64(&q, job);
  bind_label(&q, c->label);
  bind_u64(&q, sequence);
  bind_text(&q, outcome_name(c->outcome));
  bind_digest(&q, &files->model);
  bind_digest(&q, &files->half);
  bind_digest(&q, &files->shadow);
  bind_figures(&q, c->shadow != NULL, (const double[]){c->shadow_headline, c->shadow_seconds}, 2);
  bind_metrics(&q, &c->metrics);
  bind_f64(&q, c->seconds);
  bind_u64(&q, c->sent_bytes);
  bind_u64(&q, c->received_bytes);
  return query_run(&q);
}

/* A row a task. */
static enum err tasks_add(struct store *s, uint64_t job, struct round_label label, const struct store_tasks *t) {
  enum err e = ERR_OK;
  MUST(t->n <= STORE_MAX_TASKS);
  for (uint32_t task = 0; task < t->n && e == ERR_OK; task++) {
    struct query q = query_begin(&s->database, SQL_TASK_ACCURACY_ADD);
    bind_u64(&q, job);
    bind_label(&q, label);
    bind_u64(&q, task);
    bind_u64(&q, t->position);
    bind_u64(&q, t->trained);
    bind_f64(&q, t->accuracy[task]);
    e = query_run(&q);
  }
  return e;
}

static enum err contribution_add(struct store *s, uint64_t job, struct round_label label,
                                 const struct store_contribution *row) {
  struct query q = query_begin(&s->database, SQL_CONTRIBUTION_ADD);
  bind_u64(&q, job);
  bind_label(&q, label);
  bind_blob(&q, row->origin, sizeof row->origin);
  bind_text(&q, row->name);
  bind_text(&q, err_name(row->reason));
  bind_u64(&q, row->fate);
  bind_u64(&q, row->lag);
  bind_f64(&q, row->weight);
  bind_u64(&q, row->boot_epoch);
  bind_u64(&q, row->sequence);
  bind_u64(&q, row->n_bytes);
  bind_i64(&q, row->arrival_ms);
  return query_run(&q);
}

/* Raises the origin's position, never lowers it. */
static enum err position_raise(struct store *s, uint64_t job, const struct store_contribution *row) {
  uint64_t epoch, sequence;
  enum err e = room_position_get(s, job, row->origin, &epoch, &sequence);
  if (e != ERR_OK)
    return e;
  if (row->boot_epoch < epoch || (row->boot_epoch == epoch && row->sequence <= sequence))
    return ERR_OK;
  struct query q = query_begin(&s->database, SQL_POSITION_SET);
  bind_u64(&q, job);
  bind_blob(&q, row->origin, sizeof row->origin);
  bind_u64(&q, row->boot_epoch);
  bind_u64(&q, row->sequence);
  return query_run(&q);
}

static enum err commitment_rows(struct store *s, uint64_t job, const struct store_commitment *c, uint64_t sequence,
                                const struct commitment_files *files) {
  enum err e = commitment_add(s, job, c, sequence, files);
  if (e == ERR_OK)
    e = tasks_add(s, job, c->label, &c->tasks);
  for (size_t i = 0; e == ERR_OK && i < c->n_contributions; i++) {
    e = contribution_add(s, job, c->label, &c->contributions[i]);
    if (e == ERR_OK)
      e = position_raise(s, job, &c->contributions[i]);
  }
  return e;
}

static enum err commitment_files_put(struct store *s, uint64_t job, const struct store_commitment *c,
                                     struct commitment_files *out_files) {
  *out_files = (struct commitment_files){0};
  enum err e = room_file_put(s, c->model, c->n_model, &out_files->model);
  if (e == ERR_OK)
    e = room_file_put(s, c->shadow, c->n_shadow, &out_files->shadow);
  if (e == ERR_OK)
    e = c->own_half != NULL ? room_file_put(s, c->own_half, c->n_own_half, &out_files->half)
                            : newest_half(s, job, &out_files->half);
  return e;
}

enum err room_commit(struct store *s, const void *argument) {
  const struct store_commitment *c = argument;
  struct commitment_files files;
  uint64_t job, sequence;
  bool is_there;
  enum err e;
  if ((e = room_job_add(s, &c->job, &job)) != ERR_OK || (e = commitment_compare(s, job, c, &is_there)) != ERR_OK)
    return e;
  if (is_there)
    return ERR_OK;
  if ((e = commitment_follows(s, job, c, &sequence)) != ERR_OK ||
      (e = room_admit(s, c->n_model + c->n_own_half + c->n_shadow)) != ERR_OK ||
      (e = commitment_files_put(s, job, c, &files)) != ERR_OK ||
      (e = commitment_rows(s, job, c, sequence, &files)) != ERR_OK)
    return e;
  return room_keep_models(s, job);
}

enum err room_commit_judge(const struct store_commitment *c) {
  MUST(c->model != NULL && c->outcome != ROUND_ROLLED_BACK);
  return label_is_valid(c->label) ? ERR_OK : ERR_RANGE;
}

enum err store_commit(struct store *s, const struct store_commitment *c) {
  enum err e = room_commit_judge(c);
  return e == ERR_OK ? room_transaction(s, room_commit, c) : e;
}
