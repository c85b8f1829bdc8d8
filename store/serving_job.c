#include "store/room.h"

struct change {
  const char *name;
  uint32_t version;
  int64_t at_unix_s;
  bool *out_changed;
};

enum err store_serving_job(struct store *s, const char *name, uint32_t *out_version) {
  struct query q = query_begin(&s->database, SQL_SERVING_JOB_GET);
  bind_text(&q, name);
  uint32_t version = query_next(&q) ? (uint32_t)column_u64(&q) : 0;
  enum err e = query_end(&q);
  if (e == ERR_OK)
    *out_version = version;
  return e;
}

static enum err change_body(struct store *s, const void *argument) {
  const struct change *c = argument;
  uint32_t before;
  enum err e = store_serving_job(s, c->name, &before);
  *c->out_changed = e == ERR_OK && before != c->version;
  if (!*c->out_changed)
    return e;
  struct query q = query_begin(&s->database, SQL_SERVING_JOB_SET);
  bind_text(&q, c->name);
  bind_u64(&q, c->version);
  bind_i64(&q, c->at_unix_s);
  return query_run(&q);
}

// NOLINTNEXTLINE(readability-non-const-parameter): written through the change
enum err store_serve_job(struct store *s, const char *name, uint32_t version, int64_t at_unix_s, bool *out_changed) {
  const struct change c = {name, version, at_unix_s, out_changed};
  return room_transaction(s, change_body, &c);
}
