/* starling key new|show: the agent's own key. */
#include <stdlib.h>
#include <string.h>

#include "agent/cli/answer.h"
#include "agent/cli/key_make.h"
#include "agent/cli/verbs.h"
#include "agent/file.h"
#include "agent/key.h"
#include "crypto/key_text.h"

enum { FLAG_PASSPHRASE_FILE, FLAG_PASSPHRASE };

enum err key_make(const char *path, const char *passphrase_file, struct identity **out_identity,
                  char why[MAX_CONFIG_WHY_BYTES]) {
  char passphrase[MAX_PASSPHRASE_BYTES] = "", reason[MAX_REASON_BYTES] = "";
  struct identity *identity = NULL;
  enum err e = passphrase_file ? passphrase_read(passphrase_file, passphrase) : ERR_OK;
  if (e) {
    snprintf(why, MAX_CONFIG_WHY_BYTES, "%s: the passphrase could not be read: %s",
             passphrase_file[0] ? passphrase_file : "terminal", err_sentence(e));
    return e;
  }
  e = identity_new(&identity);
  if (!e)
    e = key_file_create(path, identity, passphrase, reason);
  explicit_bzero(passphrase, sizeof passphrase);
  if (e) {
    snprintf(why, MAX_CONFIG_WHY_BYTES, "%s: %s", path, reason[0] ? reason : err_sentence(e));
    identity_free(identity);
    return e;
  }
  *out_identity = identity;
  return ERR_OK;
}

static void view(const struct call *call, const json_t *data, FILE *out) {
  (void)call;
  fprintf(out, "%s\n", json_string_value(json_object_get(data, "key")));
}

static int answer_key(struct call *call, const struct identity_key *key, const char *path) {
  char text[KEY_TEXT_BYTES], brief[KEY_SHORT_BYTES];
  key_text_write(key, text);
  key_text_short(key, brief);
  return answer(call, json_pack("{s:s, s:s, s:s}", "key", text, "short", brief, "key_file", path), view);
}

/* The file named, else agent.key beside the site file. */
static enum err new_path(const struct call *call, char out_path[MAX_PATH_BYTES]) {
  char folder[MAX_PATH_BYTES];
  path_folder(call->site_path, folder);
  return call->n_arguments ? path_join("", call->arguments[0], out_path) : path_join(folder, "agent.key", out_path);
}

int verb_key_new(struct call *call) {
  char path[MAX_PATH_BYTES], why[MAX_CONFIG_WHY_BYTES];
  struct identity *identity;
  if (new_path(call, path))
    return answer_error(call, EXIT_USAGE, err_name(ERR_LIMIT), NULL, "the path is too long");
  enum err e = key_make(path, call->flags[FLAG_PASSPHRASE] ? "" : call->flags[FLAG_PASSPHRASE_FILE], &identity, why);
  if (e)
    return answer_error(call, EXIT_FAILED, err_name(e),
                        e == ERR_EXISTS ? "`starling key show` prints it; a new key is a new identity" : NULL, "%s",
                        why);
  int code = answer_key(call, identity_public(identity), path);
  identity_free(identity);
  return code;
}

/* The site file's key, which may stand where its configuration says; a file that is named needs no site file. */
int verb_key_show(struct call *call) {
  char why[MAX_CONFIG_WHY_BYTES];
  struct config *c = NULL;
  struct identity *identity = NULL;
  if (call->n_arguments) {
    c = calloc(1, sizeof *c);
    if (!c || path_join("", call->arguments[0], c->key_file)) {
      free(c);
      return answer_error(call, EXIT_USAGE, err_name(ERR_LIMIT), NULL, "the path is too long");
    }
  } else if (!call_load_config(call, &c)) {
    return EXIT_USAGE;
  }
  if (call->flags[FLAG_PASSPHRASE_FILE])
    snprintf(c->passphrase_file, sizeof c->passphrase_file, "%s", call->flags[FLAG_PASSPHRASE_FILE]);
  enum err e = key_open(c, &identity, why);
  int code = e ? answer_error(call, EXIT_USAGE, err_name(e), e == ERR_NOT_FOUND ? "`starling key new` makes one" : NULL,
                              "%s", why)
               : answer_key(call, identity_public(identity), c->key_file);
  identity_free(identity);
  config_free(c);
  return code;
}
