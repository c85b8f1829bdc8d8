#include "agent/event_json.h"

#include "agent/round_json.h"
#include "agent/text.h"

/* Peers' sentences are among the texts: what is not UTF-8 becomes '?'. */
static json_t *clean_text(const char *text) {
  char clean[STORE_EVENT_TEXT_BYTES];
  size_t n_clean = 0;
  for (size_t n; *text && n_clean + 4 < sizeof clean; text += n > 0 ? n : 1) {
    n = text_character_bytes(text);
    for (size_t i = 0; i < n; i++)
      clean[n_clean++] = text[i];
    if (n == 0)
      clean[n_clean++] = '?';
  }
  return json_stringn(clean, n_clean);
}

static json_t *event_json(const struct store_event_row *row) {
  return json_pack("{s:I, s:o, s:o, s:o, s:o}", "id", (json_int_t)row->id, "at", json_time(row->at_unix_s), "name",
                   clean_text(row->name), "peer", row->peer[0] ? clean_text(row->peer) : json_null(), "text",
                   clean_text(row->text));
}

json_t *events_json(const struct store_event_row *rows, size_t n_rows, uint64_t after_id) {
  json_t *list = json_array();
  for (size_t i = 0; i < n_rows; i++)
    json_array_append_new(list, event_json(&rows[i]));
  return json_pack("{s:o, s:I}", "events", list, "after", (json_int_t)after_id);
}
