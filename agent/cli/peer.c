/* starling peer list|members|add. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/cli/answer.h"
#include "agent/cli/ask.h"
#include "agent/cli/peer_view.h"
#include "agent/cli/verbs.h"
#include "agent/file.h"
#include "agent/key.h"
#include "agent/scalar.h"
#include "crypto/key_text.h"

/* ---- list --------------------------------------------------------------------------------------------------------- */

/* "mec-03: class 2 is "dent" here, "scratch" there": a sentence has as much room as it needs. */
static void print_sentences(const json_t *peers, const char *key, FILE *out) {
  const json_t *peer;
  size_t i;
  json_array_foreach(peers, i, peer) {
    if (json_string_length(json_object_get(peer, key)) == 0)
      continue;
    text_print(json_string_value(json_object_get(peer, "name")), out);
    fputs(": ", out);
    text_print(json_string_value(json_object_get(peer, key)), out);
    fputc('\n', out);
  }
}

void peers_print(const json_t *data, bool is_tsv, FILE *out) {
  static const struct column columns[] = {{"PEER", "name", FORM_TEXT},
                                          {"STATE", "state", FORM_TEXT},
                                          {"SINCE", "since_s", FORM_DURATION},
                                          {"HEARD", "last_heard_s", FORM_DURATION},
                                          {"ROUND", "round", FORM_COUNT},
                                          {"PHASE", "phase", FORM_TEXT},
                                          {"LAG", "lag", FORM_COUNT | COLUMN_IF_ANY},
                                          {"WEIGHT", "weight", FORM_LOSS},
                                          {"RULE", "fate", FORM_TEXT | COLUMN_IF_ANY},
                                          {"SHARE", "share", FORM_LOSS | COLUMN_IF_ANY},
                                          {"DISTANCE", "distance", FORM_LOSS | COLUMN_IF_ANY},
                                          {"GROUP", "group", FORM_COUNT | COLUMN_IF_ANY},
                                          {"COSINE", "cosine", FORM_LOSS | COLUMN_IF_ANY},
                                          {"TOLD", "told", FORM_LOSS | COLUMN_IF_ANY},
                                          {"TAKEN", "taken", FORM_LOSS | COLUMN_IF_ANY},
                                          {"SENT", "sent_bytes", FORM_BYTES},
                                          {"RECEIVED", "received_bytes", FORM_BYTES},
                                          {"ADDRESS", "address", FORM_TEXT | COLUMN_IF_ANY},
                                          {"VIA", "via", FORM_TEXT | COLUMN_IF_ANY},
                                          {"RELAYED", "relayed_bytes", FORM_BYTES | COLUMN_IF_ANY},
                                          {"MEMBER", "member", FORM_TEXT | COLUMN_IN_TSV},
                                          {"REFUSED", "refused", FORM_TEXT | COLUMN_IF_ANY},
                                          {"NOTICE", "notice", FORM_TEXT | COLUMN_IN_TSV},
                                          {"SENTENCE", "sentence", FORM_TEXT | COLUMN_IN_TSV}};
  const json_t *peers = json_object_get(data, "peers");
  table_print(columns, sizeof columns / sizeof *columns, peers, is_tsv, out);
  if (is_tsv)
    return;
  print_sentences(peers, "sentence", out);
  print_sentences(peers, "notice", out);
}

static void view_list(const struct call *call, const json_t *data, FILE *out) {
  static const struct column columns[] = {{"STRANGER", "address", FORM_TEXT},
                                          {"UNKNOWN KEY", "unknown_key", FORM_COUNT},
                                          {"HANDSHAKE", "handshake", FORM_COUNT},
                                          {"GATE", "gate", FORM_COUNT},
                                          {"AGO", "last_s", FORM_DURATION}};
  const json_t *strangers = json_object_get(data, "strangers");
  peers_print(data, call->format == FORMAT_TSV, out);
  if (call->format == FORMAT_TABLE && json_array_size(strangers)) {
    fputc('\n', out);
    table_print(columns, sizeof columns / sizeof *columns, strangers, false, out);
  }
}

int verb_peer_list(struct call *call) {
  struct config *c;
  int code;
  const struct site_job_config *job;
  if (!(call->job ? call_load_job(call, &c, &job) : call_load_config(call, &c)))
    return EXIT_USAGE;
  json_t *data = agent_need(call, c, call_request(call, json_pack("{s:s}", "ask", "peers")), &code);
  config_free(c);
  return data ? answer(call, data, view_list) : code;
}

/* ---- members -------------------------------------------------------------------------------------------------------- */

static void view_members(const struct call *call, const json_t *data, FILE *out) {
  static const struct column columns[] = {{"MEMBER", "name", FORM_TEXT},
                                          {"ROLE", "role", FORM_TEXT},
                                          {"STATE", "state", FORM_TEXT},
                                          {"SINCE", "since_s", FORM_DURATION},
                                          {"REFUTATIONS", "refutation", FORM_COUNT},
                                          {"ADDRESSES", "addresses", FORM_TEXT},
                                          {"KEY", "key", FORM_TEXT}};
  table_print(columns, sizeof columns / sizeof *columns, json_object_get(data, "members"), call->format == FORMAT_TSV,
              out);
}

/* Page by page, until one is empty; NULL after saying why not. */
static json_t *fetch_members(struct call *call, const struct config *c, int *out_code) {
  json_t *all = NULL;
  for (size_t n_page = 1; n_page > 0;) {
    json_t *rows = all ? json_object_get(all, "members") : NULL;
    json_t *request = json_pack("{s:s, s:I}", "ask", "members", "from", (json_int_t)json_array_size(rows));
    json_t *page = agent_need(call, c, request, out_code);
    if (!page) {
      json_decref(all);
      return NULL;
    }
    n_page = json_array_size(json_object_get(page, "members"));
    if (all)
      json_array_extend(rows, json_object_get(page, "members"));
    else
      all = json_incref(page);
    json_decref(page);
  }
  return all;
}

int verb_peer_members(struct call *call) {
  struct config *c;
  int code;
  if (!call_load_config(call, &c))
    return EXIT_USAGE;
  json_t *data = fetch_members(call, c, &code);
  config_free(c);
  return data ? answer(call, data, view_members) : code;
}

/* ---- add ---------------------------------------------------------------------------------------------------------- */

/* The arguments as a peer; why says which one is wrong. */
static enum err read_arguments(const struct call *call, struct peer_config *out_peer, char why[MAX_CONFIG_WHY_BYTES]) {
  struct peer_config peer = {0};
  char reason[MAX_REASON_BYTES] = "not a public key; copy what `starling key show` prints there";
  const char *name = call->arguments[0], *address = call->n_arguments > 2 ? call->arguments[2] : "";
  const char *what = "KEY";
  enum err e = key_text_read(call->arguments[1], &peer.key);
  if (e == ERR_CORRUPT)
    snprintf(reason, sizeof reason, "the key is mistyped; copy what `starling key show` prints there");
  if (!e && (e = scalar_label(name, reason)))
    what = "NAME";
  if (!e && address[0] && (e = scalar_address(address, ADDRESS_DIAL, reason)))
    what = "ADDRESS";
  snprintf(why, MAX_CONFIG_WHY_BYTES, "%s: %s", what, reason);
  if (e)
    return e;
  snprintf(peer.name, sizeof peer.name, "%s", name);
  snprintf(peer.address, sizeof peer.address, "%s", address);
  *out_peer = peer;
  return ERR_OK;
}

/* Whether the peer is new. ERR_EXISTS: stands there with other values; why says where. */
static enum err compare(const struct config *c, const struct peer_config *peer, bool *out_is_new,
                        char why[MAX_CONFIG_WHY_BYTES]) {
  struct identity *own;
  enum err e = key_open(c, &own, why);
  if (e)
    return e;
  bool is_own = identity_key_equal(identity_public(own), &peer->key);
  identity_free(own);
  if (is_own) {
    snprintf(why, MAX_CONFIG_WHY_BYTES, "that is this agent's own key; write the peer's");
    return ERR_RANGE;
  }
  for (size_t i = 0; i < c->n_peers; i++) {
    const struct peer_config *other = &c->peers[i];
    bool same_key = identity_key_equal(&other->key, &peer->key), same_name = strcmp(other->name, peer->name) == 0;
    if (same_key && same_name && strcmp(other->address, peer->address) == 0) {
      *out_is_new = false;
      return ERR_OK;
    }
    if (same_key || same_name) {
      snprintf(why, MAX_CONFIG_WHY_BYTES, "%s in %s has the same %s%s; change or remove it there", other->name,
               other->origin, same_key ? "key" : "name", same_key && same_name ? " and another address" : "");
      return ERR_EXISTS;
    }
  }
  *out_is_new = true;
  return ERR_OK;
}

/* conf.d beside the site file and the peer's file in it. */
struct peer_place {
  char conf_d[MAX_PATH_BYTES], file[MAX_PATH_BYTES];
};

static enum err find_place(const struct peer_config *peer, const char *site_path, struct peer_place *out_place) {
  char site_folder[MAX_PATH_BYTES], name[MAX_NAME_BYTES + 8];
  path_folder(site_path, site_folder);
  snprintf(name, sizeof name, "%s.yaml", peer->name);
  enum err e = path_join(site_folder, "conf.d", out_place->conf_d);
  return e ? e : path_join(out_place->conf_d, name, out_place->file);
}

static enum err write_file(const struct peer_config *peer, const struct peer_place *place) {
  char key[KEY_TEXT_BYTES], text[2 * MAX_ADDRESS_BYTES];
  key_text_write(&peer->key, key);
  snprintf(text, sizeof text, "name: %s\nkey: %s\n%s%s%s", peer->name, key, peer->address[0] ? "address: \"" : "",
           peer->address, peer->address[0] ? "\"\n" : "");
  if (mkdir(place->conf_d, 0755) != 0 && errno != EEXIST)
    return err_from_errno(errno);
  return file_create(place->file, 0644, text);
}

/* Makes the new peer's file, or only says which. */
static enum err add(const struct call *call, const struct config *c, const struct peer_config *peer,
                    struct peer_place *out_place, char why[MAX_CONFIG_WHY_BYTES]) {
  enum err e = find_place(peer, c->path, out_place);
  if (!e && call->checks)
    e = access(out_place->file, F_OK) == 0 ? ERR_EXISTS : ERR_OK;
  else if (!e)
    e = write_file(peer, out_place);
  snprintf(why, MAX_CONFIG_WHY_BYTES, "%s: %s", out_place->file, err_sentence(e));
  return e;
}

static void view_add(const struct call *call, const json_t *data, FILE *out) {
  const char *name = json_string_value(json_object_get(data, "name"));
  bool changed = json_is_true(json_object_get(data, "changed"));
  if (call->format == FORMAT_TSV)
    fprintf(out, "%s\t%s\n", name, changed ? "yes" : "no");
  else if (changed)
    fprintf(out, "%s %s; the agent takes %s in at its next start\n", call->checks ? "would write" : "wrote",
            json_string_value(json_object_get(data, "file")), name);
  else
    fprintf(out, "%s is a peer already; nothing changed\n", name);
}

int verb_peer_add(struct call *call) {
  char why[MAX_CONFIG_WHY_BYTES];
  struct peer_config peer;
  struct peer_place place = {0};
  struct config *c;
  bool is_new = false;
  enum err e = read_arguments(call, &peer, why);
  if (e)
    return answer_error(call, EXIT_USAGE, err_name(e), NULL, "%s", why);
  if (!call_load_config(call, &c))
    return EXIT_USAGE;
  e = compare(c, &peer, &is_new, why);
  if (!e && is_new)
    e = add(call, c, &peer, &place, why);
  config_free(c);
  if (e)
    return answer_error(call, e == ERR_RANGE ? EXIT_USAGE : EXIT_FAILED, err_name(e), NULL, "%s", why);
  return answer_change(call,
                       json_pack("{s:s, s:s, s:b}", "name", peer.name, "file", place.file, "needs_restart", is_new),
                       is_new, view_add);
}
