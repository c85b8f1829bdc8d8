#include "store/room.h"

enum { EVENTS_KEPT = 10000 };

struct event {
  int64_t at_unix_s;
  const char *name, *peer, *text;
};

enum err room_event_add(struct store *s, int64_t at_unix_s, const char *name, const char *peer, const char *text) {
  struct query add = query_begin(&s->database, SQL_EVENT_ADD);
  bind_i64(&add, at_unix_s);
  bind_text(&add, name);
  bind_text(&add, peer);
  bind_text(&add, text);
  enum err e = query_run(&add);
  if (e != ERR_OK)
    return e;
  struct query keep = query_begin(&s->database, SQL_EVENTS_KEEP);
  bind_u64(&keep, EVENTS_KEPT);
  return query_run(&keep);
}

static enum err event_body(struct store *s, const void *argument) {
  const struct event *event = argument;
  return room_event_add(s, event->at_unix_s, event->name, event->peer, event->text);
}

enum err store_event(struct store *s, int64_t at_unix_s, const char *name, const char *peer, const char *text) {
  struct event event = {
      .at_unix_s = at_unix_s, .name = name, .peer = peer != NULL ? peer : "", .text = text != NULL ? text : ""};
  return room_transaction(s, event_body, &event);
}

enum err store_events(struct store *s, uint64_t after_id, struct store_event_row *out_rows, size_t capacity,
                      size_t *out_n) {
  size_t n = 0;
  if (after_id > INT64_MAX)
    after_id = INT64_MAX;
  struct query q = query_begin(&s->database, SQL_EVENTS);
  bind_u64(&q, after_id);
  bind_u64(&q, capacity);
  while (n < capacity && query_next(&q)) {
    struct store_event_row *row = &out_rows[n++];
    row->id = column_u64(&q);
    row->at_unix_s = column_i64(&q);
    column_text(&q, row->name, sizeof row->name);
    column_text(&q, row->peer, sizeof row->peer);
    column_text(&q, row->text, sizeof row->text);
  }
  enum err e = query_end(&q);
  if (e == ERR_OK)
    *out_n = n;
  return e;
}

enum err store_event_last(struct store *s, uint64_t *out_id) {
  struct query q = query_begin(&s->database, SQL_EVENT_LAST);
  uint64_t id = query_next(&q) ? column_u64(&q) : 0;
  enum err e = query_end(&q);
  if (e == ERR_OK)
    *out_id = id;
  return e;
}
