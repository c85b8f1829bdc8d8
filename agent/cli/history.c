#include "agent/cli/history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/round_json.h"
#include "crypto/digest.h"
#include "crypto/random.h"

enum err history_open(const struct config *c, struct store **out_store, char why[MAX_REASON_BYTES]) {
  enum err e = store_open_read_only(c->state_dir, &digest_tree, out_store, why);
  if (e != ERR_NOT_FOUND)
    return e;
  snprintf(why, MAX_REASON_BYTES, "%.190s: no agent has run there yet; start one with `starling run`", c->state_dir);
  return ERR_NOT_CONNECTED; /* not to be taken for a round that is missing */
}

enum err history_identity(const struct config *c, uint8_t out_identity[32], char why[MAX_REASON_BYTES]) {
  struct store *s;
  enum err e = history_open(c, &s, why);
  if (e != ERR_OK)
    return e;
  e = store_identity(s, out_identity);
  if (e != ERR_OK)
    snprintf(why, MAX_REASON_BYTES, "%.190s: %s", c->state_dir, err_sentence(e));
  store_close(s);
  return e;
}

enum err history_open_to_change(const struct config *c, const uint8_t identity[32], struct store **out_store,
                                char why[MAX_REASON_BYTES]) {
  char warning[MAX_REASON_BYTES];
  struct store_config config = {.state_dir = c->state_dir,
                                .digest = &digest_tree,
                                .keep_last = c->keep_last,
                                .keep_best = c->keep_best,
                                .random = (uint32_t)random_u64()};
  memcpy(config.identity, identity, sizeof config.identity);
  return store_open(&config, out_store, warning, why);
}

static enum err read_list(struct store *s, const struct digest *job, size_t last, json_t **out_data) {
  struct store_round *rounds = calloc(last, sizeof *rounds);
  size_t n = 0;
  enum err e = rounds ? store_rounds(s, job, 0, rounds, last, &n) : ERR_NO_MEMORY;
  json_t *rows = json_array();
  for (size_t i = 0; !e && i < n; i++)
    json_array_append_new(rows, round_json(&rounds[i]));
  free(rounds);
  if (e)
    json_decref(rows);
  else
    *out_data = json_pack("{s:o}", "rounds", rows);
  return e;
}

static enum err read_round(struct store *s, const struct digest *job, struct round_label label, json_t **out_data) {
  struct store_contribution *peers = calloc(MAX_PEERS, sizeof *peers);
  struct store_round round;
  size_t n_peers = 0;
  enum err e = peers ? store_round_find(s, job, label, &round, peers, MAX_PEERS, &n_peers) : ERR_NO_MEMORY;
  if (!e)
    *out_data = round_json_with_peers(&round, peers, n_peers);
  free(peers);
  return e;
}

enum err history_read(const struct config *c, const struct history_query *query, json_t **out_data,
                      char why[MAX_REASON_BYTES]) {
  struct store *s;
  enum err e = history_open(c, &s, why);
  if (e)
    return e;
  e = query->one_round ? read_round(s, &query->job, query->label, out_data)
                       : read_list(s, &query->job, query->last, out_data);
  if (e == ERR_NOT_FOUND)
    round_missing_write(query->label, why);
  else if (e)
    snprintf(why, MAX_REASON_BYTES, "the database could not be read: %s", err_sentence(e));
  store_close(s);
  return e;
}

void round_explain(json_t *round, const struct contract *contract) {
  static const struct {
    const char *headline, *loss, *note;
  } sets[] = {{"local", "local_loss", "local_note"}, {"global", "global_loss", "global_note"}};
  const char *missing = task_type(contract->task)->what_missing;
  char why[MAX_REASON_BYTES];
  snprintf(why, sizeof why, "%s: not comparable", missing ? missing : "only one class in this test set");
  json_object_set_new(round, "metric", json_string(metric_name(contract_metric(contract))));
  for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
    bool is_missing =
        json_is_null(json_object_get(round, sets[i].headline)) && json_is_number(json_object_get(round, sets[i].loss));
    json_object_set_new(round, sets[i].note, json_string(is_missing ? why : ""));
  }
}
