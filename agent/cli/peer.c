/* starling peer list|add. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/cli/answer.h"
#include "agent/cli/ask.h"
#include "agent/cli/peer_view.h"
#include "agent/cli/verbs.h"
#include "agent/file.h"
#include "agent/key.h"
#include "agent/scalar.h"
#include "crypto/key_text.h"

/* ---- list --------------------------------------------------------------------------------------------------------- */

void peers_print(const json_t *data, bool is_tsv, FILE *out) {
  static const struct column columns[] = {
      {"PEER", "name", FORM_TEXT},         {"STATE", "state", FORM_TEXT},
      {"SINCE", "since_s", FORM_DURATION}, {"HEARD", "last_heard_s", FORM_DURATION},
      {"ROUND", "round", FORM_COUNT},      {"PHASE", "phase", FORM_TEXT},
      {"LAG", "lag", FORM_COUNT},          {"WEIGHT", "weight", FORM_LOSS},
      {"SENT", "sent_bytes", FORM_BYTES},  {"RECEIVED", "received_bytes", FORM_BYTES},
      {"ADDRESS", "address", FORM_TEXT},   {"REFUSED", "refused", FORM_TEXT},
      {"SENTENCE", "sentence", FORM_TEXT}};
  table_print(columns, sizeof columns / sizeof *columns, json_object_get(data, "peers"), is_tsv, out);
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
  if (!call_load_config(call, &c))
    return EXIT_USAGE;
  json_t *data = agent_need(call, c, json_pack("{s:s}", "ask", "peers"), &code);
  config_free(c);
  return data ? answer(call, data, view_list) : code;
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

/* ERR_OK: is new; ERR_EXISTS with an empty why: stands there already, just so; else why not. */
static enum err compare(const struct config *c, const struct peer_config *peer, char why[MAX_CONFIG_WHY_BYTES]) {
  struct identity *own;
  why[0] = '\0';
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
    if (same_key && same_name && strcmp(other->address, peer->address) == 0)
      return ERR_EXISTS;
    if (same_key || same_name) {
      snprintf(why, MAX_CONFIG_WHY_BYTES, "%s in %s has the same %s; change or remove it there", other->name,
               other->origin, same_key ? "key" : "name");
      return ERR_EXISTS;
    }
  }
  return ERR_OK;
}

static enum err write_file(const struct peer_config *peer, const char *site_path, char out_path[MAX_PATH_BYTES]) {
  char conf_d[MAX_PATH_BYTES], site_folder[MAX_PATH_BYTES], name[MAX_NAME_BYTES + 8], key[KEY_TEXT_BYTES];
  char text[2 * MAX_ADDRESS_BYTES];
  path_folder(site_path, site_folder);
  key_text_write(&peer->key, key);
  snprintf(name, sizeof name, "%s.yaml", peer->name);
  snprintf(text, sizeof text, "name: %s\nkey: %s\n%s%s%s", peer->name, key, peer->address[0] ? "address: \"" : "",
           peer->address, peer->address[0] ? "\"\n" : "");
  if (path_join(site_folder, "conf.d", conf_d) || path_join(conf_d, name, out_path))
    return ERR_LIMIT;
  if (mkdir(conf_d, 0755) != 0 && errno != EEXIST)
    return err_from_errno(errno);
  return file_create(out_path, 0644, text);
}

static void view_add(const struct call *call, const json_t *data, FILE *out) {
  const char *name = json_string_value(json_object_get(data, "name"));
  bool changed = json_is_true(json_object_get(data, "changed"));
  if (call->format == FORMAT_TSV)
    fprintf(out, "%s\t%s\n", name, changed ? "yes" : "no");
  else if (changed)
    fprintf(out, "wrote %s; the agent takes %s in at its next start\n",
            json_string_value(json_object_get(data, "file")), name);
  else
    fprintf(out, "%s is a peer already; nothing changed\n", name);
}

int verb_peer_add(struct call *call) {
  char why[MAX_CONFIG_WHY_BYTES], path[MAX_PATH_BYTES] = "";
  struct peer_config peer;
  struct config *c;
  enum err e = read_arguments(call, &peer, why);
  if (e)
    return answer_error(call, EXIT_USAGE, err_name(e), NULL, "%s", why);
  if (!call_load_config(call, &c))
    return EXIT_USAGE;
  e = compare(c, &peer, why);
  bool is_there = e == ERR_EXISTS && why[0] == '\0';
  if (!e) {
    e = write_file(&peer, c->path, path);
    snprintf(why, sizeof why, "%s: %s", path, err_sentence(e));
  }
  config_free(c);
  if (e && !is_there)
    return answer_error(call, e == ERR_RANGE ? EXIT_USAGE : EXIT_FAILED, err_name(e), NULL, "%s", why);
  return answer(call,
                json_pack("{s:s, s:b, s:s, s:b}", "name", peer.name, "changed", !is_there, "file", path,
                          "needs_restart", !is_there),
                view_add);
}
