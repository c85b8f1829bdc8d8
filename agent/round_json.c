#include "agent/round_json.h"

#include <float.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/text.h"
#include "crypto/key_text.h"
#include "models/merging/rule.h"

json_t *json_number(double value) {
  return value >= -DBL_MAX && value <= DBL_MAX ? json_real(value) : json_null();
}

json_t *json_share(uint64_t part, uint64_t n) {
  return n ? json_real((double)part / (double)n) : json_null();
}

static json_t *number_if(bool is_known, double value) {
  return is_known ? json_number(value) : json_null();
}

void round_missing_write(struct round_label label, char out_sentence[MAX_REASON_BYTES]) {
  char text[ROUND_LABEL_BYTES];
  round_label_write(label, text);
  snprintf(out_sentence, MAX_REASON_BYTES, "there is no round %s", text);
}

static json_t *label_text(struct round_label label) {
  char text[ROUND_LABEL_BYTES];
  round_label_write(label, text);
  return json_string(text);
}

json_t *json_time(int64_t unix_s) {
  struct tm tm;
  time_t at = (time_t)unix_s;
  char text[32];
  if (!gmtime_r(&at, &tm) || strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
    return json_null();
  return json_string(text);
}

/* Null for a file that is no longer kept. */
static json_t *digest_text(const struct digest *d) {
  char text[DIGEST_TEXT_BYTES];
  digest_hex(d, text);
  return digest_is_zero(d) ? json_null() : json_string(text);
}

json_t *json_text(const char *text) {
  size_t capacity = 4 * strlen(text) + 1;
  char *clean = malloc(capacity);
  if (!clean)
    return NULL;
  text_escape(text, clean, capacity);
  json_t *made = json_string(clean);
  free(clean);
  return made;
}

json_t *json_names(const struct class_name *names, size_t n) {
  json_t *list = json_array();
  for (size_t i = 0; i < n; i++)
    json_array_append_new(list, json_string(names[i].text));
  return list;
}

static json_t *count(uint64_t n) {
  return json_integer((json_int_t)n);
}

json_t *round_json(const struct store_round *r) {
  static const char *const outcomes[] = {[ROUND_MERGED] = "merged",   [ROUND_SHORT] = "short",
                                         [ROUND_JUMPED] = "jumped",   [ROUND_MERGE_REFUSED] = "merge-refused",
                                         [ROUND_ADOPTED] = "adopted", [ROUND_ROLLED_BACK] = "rolled-back"};
  const struct store_metrics *m = &r->metrics;
  bool done = r->committed;
  json_t *row = json_object();
  json_object_set_new(row, "round", count(r->label.round));
  json_object_set_new(row, "sub", count(r->label.sub));
  json_object_set_new(row, "label", label_text(r->label));
  json_object_set_new(row, "state", json_string(done ? "committed" : r->interrupted ? "interrupted" : "published"));
  json_object_set_new(row, "outcome", done ? json_string(outcomes[r->outcome]) : json_null());
  json_object_set_new(row, "committed_at", done ? json_time(r->committed_unix_s) : json_null());
  json_object_set_new(row, "train_loss", json_number(r->train_loss));
  json_object_set_new(row, "train_s", json_number(r->train_seconds));
  json_object_set_new(row, "seconds", number_if(done, r->seconds));
  json_object_set_new(row, "samples", count(r->n_samples));
  json_object_set_new(row, "local", number_if(done && m->has_local, m->local_headline));
  json_object_set_new(row, "global", number_if(done && m->has_global, m->global_headline));
  json_object_set_new(row, "local_loss", number_if(done && m->has_local, m->local_loss));
  json_object_set_new(row, "global_loss", number_if(done && m->has_global, m->global_loss));
  json_object_set_new(row, "local_macro_f1", number_if(done && m->has_local, m->local_macro_f1));
  json_object_set_new(row, "global_macro_f1", number_if(done && m->has_global, m->global_macro_f1));
  json_object_set_new(row, "local_balanced", number_if(done && m->has_local, m->local_balanced));
  json_object_set_new(row, "global_balanced", number_if(done && m->has_global, m->global_balanced));
  json_object_set_new(row, "merged", count(r->n_merged));
  json_object_set_new(row, "expected", count(r->n_expected));
  json_object_set_new(row, "sent_bytes", count(r->sent_bytes));
  json_object_set_new(row, "received_bytes", count(r->received_bytes));
  json_object_set_new(row, "model", digest_is_zero(&r->model) ? json_null() : digest_text(&r->model));
  return row;
}

json_t *contribution_json(const struct store_contribution *c) {
  struct identity_key key;
  char text[KEY_TEXT_BYTES];
  memcpy(key.bytes, c->origin, sizeof key.bytes);
  key_text_write(&key, text);
  json_t *row = json_object();
  json_object_set_new(row, "name", json_string(c->name));
  json_object_set_new(row, "key", json_string(text));
  json_object_set_new(row, "reason", json_string(err_name(c->reason)));
  json_object_set_new(row, "clipped", json_boolean(c->fate == FATE_CLIPPED));
  json_object_set_new(row, "fate",
                      json_string(c->reason == ERR_OK ? fate_name(c->fate < N_FATES ? c->fate : FATE_KEPT) : ""));
  json_object_set_new(row, "lag", count(c->lag));
  json_object_set_new(row, "weight", json_number(c->weight));
  json_object_set_new(row, "bytes", count(c->n_bytes));
  json_object_set_new(row, "arrival_ms", c->arrival_ms < 0 ? json_null() : json_integer(c->arrival_ms));
  return row;
}

json_t *round_json_with_peers(const struct store_round *r, const struct store_contribution *rows, size_t n_rows) {
  json_t *row = round_json(r), *peers = json_array();
  for (size_t i = 0; i < n_rows; i++)
    json_array_append_new(peers, contribution_json(&rows[i]));
  json_object_set_new(row, "peers", peers);
  return row;
}
