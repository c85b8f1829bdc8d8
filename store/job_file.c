#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "store/room.h"

static const char *const state_names[] = {
    [JOB_FILE_PROPOSED] = "proposed", [JOB_FILE_ACCEPTED] = "accepted", [JOB_FILE_STOPPED] = "stopped"};

enum { N_STATES = sizeof state_names / sizeof *state_names };

static const char *state_name(enum job_file_state state) {
  MUST((size_t)state < N_STATES);
  return state_names[state];
}

static enum err state_find(const char *name, enum job_file_state *out_state) {
  size_t i;
  enum err e = word_find(state_names, N_STATES, name, &i);
  if (e == ERR_OK)
    *out_state = (enum job_file_state)i;
  return e;
}

/* The columns after the digest. */
static enum err file_read(struct query *q, struct store_job_file *file) {
  char *text = malloc(STORE_JOB_TEXT_MAX_BYTES + 1);
  char state[16];
  if (text == NULL)
    return ERR_NO_MEMORY;
  column_text(q, file->name, sizeof file->name);
  file->version = (uint32_t)column_u64(q);
  (void)column_fixed(q, file->proposer, sizeof file->proposer);
  (void)column_fixed(q, file->signature, sizeof file->signature);
  column_text(q, text, STORE_JOB_TEXT_MAX_BYTES + 1);
  column_text(q, state, sizeof state);
  file->at_unix_s = column_i64(q);
  enum err e = state_find(state, &file->state);
  if (e == ERR_OK) {
    file->text = text;
    text = NULL; /* now the file's */
  }
  free(text);
  return e;
}

void store_job_files_free(struct store_job_file *files, size_t n) {
  for (size_t i = 0; i < n; i++) {
    free(files[i].text);
    files[i].text = NULL;
  }
}

/* ERR_NOT_FOUND. Caller frees the text. */
static enum err file_find(struct store *s, const struct digest *digest, struct store_job_file *out_file) {
  struct store_job_file file = {.digest = *digest};
  struct query q = query_begin(&s->database, SQL_JOB_FILE_FIND);
  bind_blob(&q, digest->bytes, DIGEST_BYTES);
  enum err e = query_next(&q) ? file_read(&q, &file) : ERR_NOT_FOUND;
  enum err end = query_end(&q);
  if (end != ERR_OK || e != ERR_OK) {
    store_job_files_free(&file, 1);
    return end != ERR_OK ? end : e;
  }
  *out_file = file;
  return ERR_OK;
}

static enum err count_judge(struct store *s) {
  struct query q = query_begin(&s->database, SQL_JOB_FILE_COUNT);
  bool full = query_next(&q) && column_u64(&q) >= STORE_MAX_JOB_FILES;
  enum err e = query_end(&q);
  return e == ERR_OK && full ? ERR_LIMIT : e;
}

static bool is_same(const struct store_job_file *a, const struct store_job_file *b) {
  return strcmp(a->name, b->name) == 0 && a->version == b->version && strcmp(a->text, b->text) == 0 &&
         memcmp(a->proposer, b->proposer, sizeof a->proposer) == 0 &&
         memcmp(a->signature, b->signature, sizeof a->signature) == 0;
}

static enum err file_add(struct store *s, const struct store_job_file *file) {
  struct query q = query_begin(&s->database, SQL_JOB_FILE_ADD);
  bind_blob(&q, file->digest.bytes, DIGEST_BYTES);
  bind_text(&q, file->name);
  bind_u64(&q, file->version);
  bind_blob(&q, file->proposer, sizeof file->proposer);
  bind_blob(&q, file->signature, sizeof file->signature);
  bind_text(&q, file->text);
  bind_text(&q, state_name(file->state));
  bind_i64(&q, file->at_unix_s);
  return query_run(&q);
}

struct file_change {
  const struct store_job_file *file;
  const struct digest *digest;
  enum job_file_state state;
  bool *out_changed;
};

static enum err put_body(struct store *s, const void *argument) {
  const struct file_change *c = argument;
  struct store_job_file stored;
  enum err e = file_find(s, &c->file->digest, &stored);
  if (e == ERR_OK) {
    e = is_same(&stored, c->file) ? ERR_OK : ERR_EXISTS;
    store_job_files_free(&stored, 1);
    return e;
  }
  if (e != ERR_NOT_FOUND || (e = count_judge(s)) != ERR_OK)
    return e;
  *c->out_changed = true;
  return file_add(s, c->file);
}

enum err store_job_file_put(struct store *s, const struct store_job_file *file, bool *out_changed) {
  bool changed = false;
  struct file_change c = {.file = file, .out_changed = &changed};
  if (strlen(file->text) > STORE_JOB_TEXT_MAX_BYTES)
    return ERR_LIMIT;
  enum err e = room_transaction(s, put_body, &c);
  if (e == ERR_OK)
    *out_changed = changed;
  return e;
}

static enum err state_body(struct store *s, const void *argument) {
  const struct file_change *c = argument;
  struct store_job_file stored;
  enum err e = file_find(s, c->digest, &stored);
  if (e != ERR_OK)
    return e;
  bool same = stored.state == c->state;
  store_job_files_free(&stored, 1);
  if (same)
    return ERR_OK;
  struct query q = query_begin(&s->database, SQL_JOB_FILE_SET);
  bind_text(&q, state_name(c->state));
  bind_blob(&q, c->digest->bytes, DIGEST_BYTES);
  *c->out_changed = true;
  return query_run(&q);
}

enum err store_job_file_set_state(struct store *s, const struct digest *digest, enum job_file_state state,
                                  bool *out_changed) {
  bool changed = false;
  struct file_change c = {.digest = digest, .state = state, .out_changed = &changed};
  enum err e = room_transaction(s, state_body, &c);
  if (e == ERR_OK)
    *out_changed = changed;
  return e;
}

enum err store_job_file_list(struct store *s, struct store_job_file *out_files, size_t capacity, size_t *out_n) {
  size_t n = 0;
  enum err e = ERR_OK;
  struct query q = query_begin(&s->database, SQL_JOB_FILES);
  bind_u64(&q, capacity);
  while (e == ERR_OK && n < capacity && query_next(&q)) {
    struct store_job_file file = {0};
    (void)column_digest(&q, &file.digest);
    if ((e = file_read(&q, &file)) == ERR_OK)
      out_files[n++] = file;
  }
  enum err end = query_end(&q);
  if (e == ERR_OK)
    e = end;
  if (e == ERR_OK)
    *out_n = n;
  else
    store_job_files_free(out_files, n);
  return e;
}
