/* starling init: the first files of a site. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/cli/answer.h"
#include "agent/cli/key_make.h"
#include "agent/cli/verbs.h"
#include "agent/file.h"
#include "agent/key.h"
#include "agent/scalar.h"
#include "crypto/key_text.h"
#include "crypto/random.h"

enum { FLAG_NAME, FLAG_SWARM, FLAG_PASSPHRASE_FILE };
enum { SWARM_BYTES = 10, MAX_SITE_BYTES = 2 * MAX_PATH_BYTES };

static const char site_format[] =
    "# This site. `starling config keys` explains every key, `starling config check` judges the whole.\n"
    "swarm: %s%*s# equal on all sites; pass it to the next `starling init --swarm`\n"
    "name: %s%*s# a label; the key is the identity\n"
    "%s"
    "\n"
    "listen: [ \"tcp://[::]:7411\" ]           # where peers reach us; [] when we only dial\n"
    "\n"
    "# The agents to learn with, each with what `starling key show` prints there; or conf.d/NAME.yaml, one peer a "
    "file\n"
    "# (`starling peer add` writes it).\n"
    "peers: []\n"
    "#  - name: mec-03\n"
    "#    key: GHW8-AR2K-VZ7Q-…\n"
    "#    address: tcp://10.20.0.3:7411      # none: it dials us\n"
    "\n"
    "jobs:\n"
    "  - job: example.job.yaml               # equal on all sites\n"
    "    data:\n"
    "      train: /data/parts.csv            # `holdout` of it is kept as local test unless `test:` names a file\n";

static const char job_text[] =
    "# The job: what is learnt and what the data mean. Equal on every site; each checks it at every handshake.\n"
    "job: inspection\n"
    "version: 1\n"
    "task: classify                          # or regress, multilabel, reconstruct (to find anomalies)\n"
    "label: verdict                          # the CSV column\n"
    "classes: [ ok, scratch, dent ]          # the order is part of the contract\n"
    "features: [ force_N, temp_C, speed_mm_s ] # order and units too; for images: input: 28x28x1, range: 0..255\n"
    "scale:                                  # numbers that everybody uses; `starling data contract FILE` proposes all "
    "this\n"
    "  mean: [ 14.2, 21.5, 120.0 ]\n"
    "  sd: [ 3.1, 4.0, 35.0 ]\n"
    "model: dense 64, relu, dense classes    # `starling help layers` has all\n"
    "train:\n"
    "  epochs: 1                             # passes over the local samples a round\n"
    "  batch: 32\n"
    "  learning_rate: 0.05\n"
    "  momentum: 0.9\n"
    "count: 50                               # the last round; without it, for ever\n";

/* Four and four of the digits that a key has, "k3vz-7qd2": 40 bits. */
static void make_swarm(char out_swarm[SWARM_BYTES]) {
  static const char digits[] = "0123456789abcdefghjkmnpqrstvwxyz";
  uint64_t bits = random_u64();
  for (size_t i = 0; i < SWARM_BYTES - 1; i++, bits /= 32)
    out_swarm[i] = digits[bits % 32];
  out_swarm[4] = '-';
  out_swarm[SWARM_BYTES - 1] = '\0';
}

/* The host's name up to the first dot, where it is a label. */
static void host_label(char out_name[MAX_NAME_BYTES]) {
  char why[MAX_REASON_BYTES];
  if (gethostname(out_name, MAX_NAME_BYTES) == 0) {
    out_name[MAX_NAME_BYTES - 1] = '\0';
    out_name[strcspn(out_name, ".")] = '\0';
    if (scalar_label(out_name, why) == ERR_OK)
      return;
  }
  snprintf(out_name, MAX_NAME_BYTES, "agent");
}

struct site_files {
  char name[MAX_NAME_BYTES], swarm[MAX_NAME_BYTES];
  char site[MAX_PATH_BYTES], job[MAX_PATH_BYTES], key[MAX_PATH_BYTES];
  char passphrase_line[MAX_PATH_BYTES + 32];
};

/* What the arguments say, with nothing made yet. */
static enum err plan(const struct call *call, struct site_files *f, char why[MAX_CONFIG_WHY_BYTES]) {
  const char *folder = call->n_arguments ? call->arguments[0] : "";
  const char *passphrase_file = call->flags[FLAG_PASSPHRASE_FILE];
  char reason[MAX_REASON_BYTES] = "the path is too long", absolute[MAX_PATH_BYTES];
  host_label(f->name);
  make_swarm(f->swarm);
  enum err e = ERR_OK;
  if (call->flags[FLAG_NAME] && !(e = scalar_label(call->flags[FLAG_NAME], reason)))
    snprintf(f->name, sizeof f->name, "%s", call->flags[FLAG_NAME]);
  if (!e && call->flags[FLAG_SWARM] && !(e = scalar_label(call->flags[FLAG_SWARM], reason)))
    snprintf(f->swarm, sizeof f->swarm, "%s", call->flags[FLAG_SWARM]);
  if (!e)
    e = path_join(folder, "site.yaml", f->site);
  if (!e)
    e = path_join(folder, "example.job.yaml", f->job);
  if (!e)
    e = path_join(folder, "agent.key", f->key);
  if (!e && passphrase_file) {
    if (!realpath(passphrase_file, absolute)) {
      e = err_from_errno(errno);
      snprintf(reason, sizeof reason, "%.200s: %s", passphrase_file, err_sentence(e));
    } else if (strpbrk(absolute, "\"\\\n")) {
      e = ERR_SYNTAX;
      snprintf(reason, sizeof reason, "%.200s: a path with quotes or backslashes; rename it", passphrase_file);
    } else {
      snprintf(f->passphrase_line, sizeof f->passphrase_line, "passphrase_file: \"%s\"\n", absolute);
    }
  }
  snprintf(why, MAX_CONFIG_WHY_BYTES, "%s", reason);
  return e;
}

static enum err make_files(const struct site_files *f, char why[MAX_CONFIG_WHY_BYTES]) {
  enum { COMMENT_COLUMN = 40 };
  char site[MAX_SITE_BYTES];
  int pad_swarm = COMMENT_COLUMN - (int)strlen("swarm: ") - (int)strlen(f->swarm);
  int pad_name = COMMENT_COLUMN - (int)strlen("name: ") - (int)strlen(f->name);
  snprintf(site, sizeof site, site_format, f->swarm, pad_swarm > 1 ? pad_swarm : 1, "", f->name,
           pad_name > 1 ? pad_name : 1, "", f->passphrase_line);
  enum err e = file_create(f->job, 0644, job_text);
  snprintf(why, MAX_CONFIG_WHY_BYTES, "%s: %s", f->job, err_sentence(e));
  if (e)
    return e;
  e = file_create(f->site, 0644, site);
  snprintf(why, MAX_CONFIG_WHY_BYTES, "%s: %s", f->site, err_sentence(e));
  if (e)
    unlink(f->job);
  return e;
}

static void view(const struct call *call, const json_t *data, FILE *out) {
  const char *site = json_string_value(json_object_get(data, "site_file"));
  const char *key = json_string_value(json_object_get(data, "key"));
  const char *swarm = json_string_value(json_object_get(data, "swarm"));
  bool changed = json_is_true(json_object_get(data, "changed"));
  if (call->format == FORMAT_TSV) {
    fprintf(out, "%s\t%s\t%s\n", site, swarm ? swarm : "-", key ? key : "-");
    return;
  }
  if (call->checks || !changed) {
    fprintf(out,
            changed ? "would make %s, an example job file and a key file beside it\n"
                    : "%s is there already; nothing changed\n",
            site);
    return;
  }
  fprintf(out, "made %s, %s and the key file beside them\n", site,
          json_string_value(json_object_get(data, "job_file")));
  fprintf(out, "public key  %s\nswarm       %s\n", key, swarm);
  fprintf(out, "next: edit the two files, then `starling -C %s config check` and `starling -C %s run`\n", site, site);
  fprintf(out, "another site: starling init --swarm %s\n", swarm);
}

/* swarm and identity NULL: not made yet. */
static int answer_site(struct call *call, const struct site_files *f, const char *swarm,
                       const struct identity *identity, bool changed) {
  char key[KEY_TEXT_BYTES] = "";
  if (identity)
    key_text_write(identity_public(identity), key);
  return answer_change(call,
                       json_pack("{s:s, s:s, s:s, s:s, s:s?, s:s?}", "site_file", f->site, "job_file", f->job,
                                 "key_file", f->key, "name", f->name, "swarm", swarm, "key", identity ? key : NULL),
                       changed, view);
}

/* What the arguments ask for stands in the site file, which may have been edited since. */
static enum err compare(const struct call *call, const struct config *c, const struct site_files *f,
                        char why[MAX_CONFIG_WHY_BYTES]) {
  const char *passphrase_file = call->flags[FLAG_PASSPHRASE_FILE];
  char absolute[MAX_PATH_BYTES] = "";
  const char *differs = NULL;
  if (passphrase_file && (!realpath(passphrase_file, absolute) || strcmp(absolute, c->passphrase_file) != 0))
    differs = "passphrase_file";
  if (call->flags[FLAG_SWARM] && strcmp(f->swarm, c->swarm) != 0)
    differs = "swarm";
  if (call->flags[FLAG_NAME] && strcmp(f->name, c->name) != 0)
    differs = "name";
  if (!differs)
    return ERR_OK;
  snprintf(why, MAX_CONFIG_WHY_BYTES, "%s: it exists already, with another %s; choose another folder or edit it",
           f->site, differs);
  return ERR_EXISTS;
}

/* The site is there: it is left as it is. */
static int keep_site(struct call *call, struct site_files *f) {
  static const char *const nothing[] = {NULL};
  char why[MAX_CONFIG_WHY_BYTES];
  struct config *c = NULL;
  struct identity *identity = NULL;
  enum err e = config_load(f->site, nothing, &c, why);
  if (!e)
    e = compare(call, c, f, why);
  if (!e)
    e = key_open(c, &identity, why);
  int code;
  if (e) {
    code = answer_error(call, EXIT_FAILED, err_name(e), NULL, "%s", why);
  } else {
    snprintf(f->name, sizeof f->name, "%s", c->name);
    snprintf(f->job, sizeof f->job, "%s", c->jobs[0].job_path);
    snprintf(f->key, sizeof f->key, "%s", c->key_file);
    code = answer_site(call, f, c->swarm, identity, false);
  }
  identity_free(identity);
  config_free(c);
  return code;
}

/* All or nothing. */
static enum err make_site(const struct call *call, const struct site_files *f, struct identity **out_identity,
                          char why[MAX_CONFIG_WHY_BYTES]) {
  if (call->n_arguments && mkdir(call->arguments[0], 0755) != 0 && errno != EEXIST) {
    enum err e = err_from_errno(errno);
    snprintf(why, MAX_CONFIG_WHY_BYTES, "%s: %s", call->arguments[0], err_sentence(e));
    return e;
  }
  struct identity *identity;
  enum err e = key_make(f->key, call->flags[FLAG_PASSPHRASE_FILE], &identity, why);
  if (e)
    return e;
  e = make_files(f, why);
  if (e) {
    unlink(f->key);
    identity_free(identity);
    return e;
  }
  *out_identity = identity;
  return ERR_OK;
}

int verb_init(struct call *call) {
  struct site_files f = {0};
  char why[MAX_CONFIG_WHY_BYTES];
  struct identity *identity = NULL;
  enum err e = plan(call, &f, why);
  if (e)
    return answer_error(call, EXIT_USAGE, err_name(e), NULL, "%s", why);
  if (access(f.site, F_OK) == 0)
    return keep_site(call, &f);
  const char *const paths[] = {f.job, f.key};
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
    if (access(paths[i], F_OK) == 0)
      return answer_error(call, EXIT_FAILED, err_name(ERR_EXISTS), "choose another folder, nothing was written",
                          "%s: it exists already", paths[i]);
  if (call->checks)
    return answer_site(call, &f, call->flags[FLAG_SWARM], NULL, true);
  e = make_site(call, &f, &identity, why);
  if (e)
    return answer_error(call, EXIT_FAILED, err_name(e), NULL, "%s", why);
  int code = answer_site(call, &f, f.swarm, identity, true);
  identity_free(identity);
  return code;
}
