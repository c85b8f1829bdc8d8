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

/* Where the passphrase of an existing key comes from, and whether it was needed. */
struct asked {
  const char *file; /* NULL: there is none */
  bool was_needed;
};

static enum err read_asked(void *context, char out_passphrase[MAX_PASSPHRASE_BYTES]) {
  struct asked *asked = context;
  asked->was_needed = true;
  return asked->file ? passphrase_read(asked->file, out_passphrase) : ERR_PASSPHRASE;
}

enum err key_find(const char *path, const char *passphrase_file, struct identity **out_identity,
                  char why[MAX_CONFIG_WHY_BYTES]) {
  struct asked asked = {.file = passphrase_file};
  const struct passphrase_source source = {.read = read_asked, .context = &asked};
  struct identity *identity = NULL;
  char reason[MAX_REASON_BYTES];
  enum err e = key_file_open(path, getenv("CREDENTIALS_DIRECTORY"), &source, &identity, reason);
  if (e == ERR_OK && passphrase_file && !asked.was_needed) {
    identity_free(identity);
    identity = NULL;
    e = ERR_EXISTS;
    snprintf(reason, sizeof reason, "it exists already, without a passphrase");
  }
  if (e == ERR_NOT_FOUND)
    e = ERR_OK;
  if (e == ERR_OK)
    *out_identity = identity;
  else
    snprintf(why, MAX_CONFIG_WHY_BYTES, "%s: %s", path, reason);
  return e;
}

static void view(const struct call *call, const json_t *data, FILE *out) {
  const char *key = json_string_value(json_object_get(data, "key"));
  if (!key && call->format == FORMAT_TABLE)
    fprintf(out, "would make %s\n", json_string_value(json_object_get(data, "key_file")));
  else
    fprintf(out, "%s\n", key ? key : "-");
}

/* identity NULL: not made yet. */
static json_t *key_json(const struct identity *identity, const char *path) {
  char text[KEY_TEXT_BYTES] = "", brief[KEY_SHORT_BYTES] = "";
  if (identity) {
    key_text_write(identity_public(identity), text);
    key_text_short(identity_public(identity), brief);
  }
  return json_pack("{s:s?, s:s?, s:s}", "key", identity ? text : NULL, "short", identity ? brief : NULL, "key_file",
                   path);
}

/* The file named, else agent.key beside the site file. */
static enum err new_path(const struct call *call, char out_path[MAX_PATH_BYTES]) {
  char folder[MAX_PATH_BYTES];
  path_folder(call->site_path, folder);
  return call->n_arguments ? path_join("", call->arguments[0], out_path) : path_join(folder, "agent.key", out_path);
}

int verb_key_new(struct call *call) {
  const char *passphrase_file = call->flags[FLAG_PASSPHRASE] ? "" : call->flags[FLAG_PASSPHRASE_FILE];
  char path[MAX_PATH_BYTES], why[MAX_CONFIG_WHY_BYTES];
  struct identity *identity = NULL;
  if (new_path(call, path))
    return answer_error(call, EXIT_USAGE, err_name(ERR_LIMIT), NULL, "the path is too long");
  enum err e = key_find(path, passphrase_file, &identity, why);
  bool is_new = !identity;
  if (!e && is_new && !call->checks)
    e = key_make(path, passphrase_file, &identity, why);
  if (e)
    return answer_error(call, EXIT_FAILED, err_name(e), "keys are never overwritten: a new key is a new identity", "%s",
                        why);
  if (!is_new)
    answer_warn(call, "%s exists already; nothing changed", path);
  int code = answer_change(call, key_json(identity, path), is_new, view);
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
               : answer(call, key_json(identity, c->key_file), view);
  identity_free(identity);
  config_free(c);
  return code;
}
