/* starling job pull: the job file from a peer, into a file beside the site file. A running agent is asked; before the first
 * run this program itself dials the peer, with the site's key and without a job, and leaves again. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/cli/answer.h"
#include "agent/cli/ask.h"
#include "agent/cli/verbs.h"
#include "agent/clock.h"
#include "agent/file.h"
#include "agent/job_words.h"
#include "agent/key.h"
#include "agent/text.h"
#include "crypto/key_text.h"
#include "crypto/names.h"
#include "crypto/random.h"
#include "gossip/gossip.h"

enum { FLAG_FROM, FLAG_OUT, PATIENCE_MS = 20000, SETTLE_MS = 1000, ASK_EVERY_MS = 200, MAX_PULLED = 64 };

/* What came, by job. */
struct pulled {
  struct job_file file; /* its text is in bytes */
  uint8_t *bytes;
};

struct pull {
  struct call *call;
  struct config *config; /* of the site alone */
  struct job_words words;
  bool has_words;
  size_t peer; /* index */
  struct pulled files[MAX_PULLED];
  size_t n;
  bool is_up;
  uint64_t last_ms; /* when something came */
  struct gossip *gossip;
  char why[MAX_CONFIG_WHY_BYTES];
};

static bool is_wanted(const struct pull *p, const char *name, uint32_t version) {
  return !p->has_words || job_words_fit(&p->words, name, version);
}

/* ---- from the peer itself ------------------------------------------------------------------------------------------ */

static void on_session(void *context, size_t peer, bool is_up, enum err reason) {
  static const struct digest all = {{0}};
  struct pull *p = context;
  (void)reason;
  if (peer != p->peer)
    return;
  p->is_up = is_up;
  p->last_ms = clock_ms();
  if (is_up)
    gossip_ask_job(p->gossip, peer, &all);
}

static void on_ask_job(void *context, size_t peer, const struct digest *job) {
  (void)context, (void)peer, (void)job;
}

static void on_job_file(void *context, size_t peer, const struct job_file *f, const uint8_t *bytes, size_t n) {
  struct pull *p = context;
  if (peer != p->peer || p->n == MAX_PULLED || !is_wanted(p, f->name, f->version))
    return;
  for (size_t i = 0; i < p->n; i++)
    if (digest_equal(&p->files[i].file.job, &f->job))
      return;
  uint8_t *copy = malloc(n);
  if (!copy)
    return;
  memcpy(copy, bytes, n);
  if (job_file_read(copy, n, &p->files[p->n].file) == ERR_OK)
    p->files[p->n++].bytes = copy;
  else
    free(copy);
  p->last_ms = clock_ms();
}

static uint64_t read_clock(void *context) {
  (void)context;
  return clock_ms();
}

/* Listens too where the peer has no address and dials us. */
static enum err open_gossip(struct pull *p, const struct identity *id, const struct gossip_peer_config *peers) {
  const struct config *c = p->config;
  const char *listen[MAX_LISTEN];
  struct swarm_id swarm = swarm_id(c->swarm);
  bool dials = c->peers[p->peer].address[0] != '\0';
  for (size_t i = 0; i < c->n_listen; i++)
    listen[i] = c->listen[i];
  struct gossip_config config = {.identity = id,
                                 .boot_epoch = random_u64() | 1,
                                 .listen = listen,
                                 .n_listen = dials ? 0 : c->n_listen,
                                 .peers = peers,
                                 .n_peers = c->n_peers,
                                 .payload_max_bytes = 1,
                                 .payload_bound = 1,
                                 .now_ms = read_clock,
                                 .events_context = p};
  static const struct gossip_events events = {
      .on_session = on_session, .on_ask_job = on_ask_job, .on_job_file = on_job_file};
  memcpy(config.swarm, swarm.bytes, sizeof config.swarm);
  return gossip_open(&config, &events, &p->gossip, p->why);
}

/* Until what is wanted is there: the one that is named with its version, else all that come within a moment. */
static bool is_done(const struct pull *p) {
  bool is_exact = p->has_words && p->words.version > 0 && p->n == 1;
  return is_exact || (p->is_up && clock_ms() - p->last_ms >= SETTLE_MS);
}

static enum err talk(struct pull *p) {
  uint64_t end_ms = clock_ms() + PATIENCE_MS;
  while (!is_done(p) && clock_ms() < end_ms)
    link_poll(p->gossip, NULL, 0, 50);
  if (p->n > 0)
    return ERR_OK;
  struct gossip_peer_info info;
  gossip_peer_info(p->gossip, p->peer, &info);
  if (p->is_up) {
    snprintf(p->why, sizeof p->why, "%s offers no such job file", p->config->peers[p->peer].name);
    return ERR_NOT_FOUND;
  }
  snprintf(p->why, sizeof p->why, "%s: %s", p->config->peers[p->peer].name,
           info.sentence[0] ? info.sentence : err_sentence(info.reason));
  return ERR_TIMED_OUT;
}

static enum err dial(struct pull *p) {
  const struct config *c = p->config;
  struct identity *id = NULL;
  struct gossip_peer_config *peers = calloc(c->n_peers, sizeof *peers);
  enum err e = peers ? key_open(c, &id, p->why) : ERR_NO_MEMORY;
  for (size_t i = 0; i < c->n_peers && e == ERR_OK; i++) {
    const struct peer_config *peer = &c->peers[i];
    peers[i] = (struct gossip_peer_config){peer->key, peer->name, i == p->peer ? peer->address : ""};
  }
  if (e == ERR_OK)
    e = open_gossip(p, id, peers);
  if (e == ERR_OK)
    e = talk(p);
  gossip_close(p->gossip, ERR_STOPPED);
  identity_free(id);
  free(peers);
  return e;
}

/* ---- from the running agent ----------------------------------------------------------------------------------------- */

static json_t *request(const struct pull *p) {
  char words[JOB_WORDS_BYTES];
  if (p->words.version > 0)
    job_words_write(p->words.name, p->words.version, words);
  else
    snprintf(words, sizeof words, "%s", p->words.name);
  return json_pack("{s:s, s:s, s:s}", "ask", "job-file", "job", words, "peer", p->config->peers[p->peer].name);
}

/* It knows what its peers offer, and asks once more. ERR_NOT_CONNECTED: none runs. */
static enum err ask_running(struct pull *p, json_t **out_data) {
  static const struct timespec moment = {.tv_nsec = ASK_EVERY_MS * 1000000L};
  json_t *data = NULL;
  enum err e = agent_ask(p->call, p->config->state_dir, json_pack("{s:s}", "ask", "health"), &data, p->why);
  json_decref(data);
  if (e != ERR_OK)
    return e;
  if (!p->has_words) {
    snprintf(p->why, sizeof p->why, "which job? write its NAME; `starling job status` shows what peers offer");
    return ERR_RANGE;
  }
  uint64_t end_ms = clock_ms() + PATIENCE_MS / 4;
  while ((e = agent_ask(p->call, p->config->state_dir, request(p), out_data, p->why)) == ERR_STOPPED &&
         clock_ms() < end_ms)
    nanosleep(&moment, NULL);
  return e;
}

/* ---- the file ------------------------------------------------------------------------------------------------------- */

static enum err find_peer(struct pull *p) {
  const char *name = p->call->flags[FLAG_FROM];
  for (size_t i = 0; i < p->config->n_peers; i++)
    if (strcmp(p->config->peers[i].name, name) == 0) {
      p->peer = i;
      return ERR_OK;
    }
  snprintf(p->why, sizeof p->why, "%s: no peer is called %s; `starling peer add` writes one", p->config->path, name);
  return ERR_NOT_FOUND;
}

/* --out, else NAME.job.yaml, or NAME-VERSION.job.yaml for a later one, beside the site file. */
static enum err place(const struct pull *p, const char *name, uint32_t version, char out_path[MAX_PATH_BYTES]) {
  char folder[MAX_PATH_BYTES], file[MAX_NAME_BYTES + 32];
  if (p->call->flags[FLAG_OUT])
    return path_join("", p->call->flags[FLAG_OUT], out_path);
  path_folder(p->config->path, folder);
  if (version > 1)
    snprintf(file, sizeof file, "%s-%u.job.yaml", name, version);
  else
    snprintf(file, sizeof file, "%s.job.yaml", name);
  return path_join(folder, file, out_path);
}

static void view(const struct call *call, const json_t *data, FILE *out) {
  bool changed = json_is_true(json_object_get(data, "changed"));
  const char *file = json_string_value(json_object_get(data, "file"));
  if (call->format == FORMAT_TSV)
    fprintf(out, "%s\t%s\n", file, changed ? "yes" : "no");
  else
    fprintf(out, changed ? "%s %s\n" : "%s%s is there already; nothing changed\n",
            changed ? call->checks ? "would write" : "wrote" : "", file);
}

/* Writes a text that reads as the job; other contents are never replaced. */
static int keep(struct pull *p, const char *name, uint32_t version, const char *text, size_t n_text,
                const char *signed_by) {
  char path[MAX_PATH_BYTES], words[JOB_WORDS_BYTES];
  struct site_job_config *read = NULL;
  char *there = NULL, *copy = text_copy(text, n_text);
  size_t n_there = 0;
  job_words_write(name, version, words);
  enum err e = copy ? config_read_job(p->config, NULL, words, text, n_text, &read, p->why) : ERR_NO_MEMORY;
  config_job_free(read);
  if (e == ERR_OK)
    e = place(p, name, version, path);
  bool is_there = e == ERR_OK && file_read(path, MAX_CONFIG_BYTES, &there, &n_there) == ERR_OK;
  bool is_same = is_there && n_there == n_text && memcmp(there, text, n_text) == 0;
  if (is_there && !is_same) {
    e = ERR_EXISTS;
    snprintf(p->why, sizeof p->why, "%s: it has other contents; move it away, or write --out FILE", path);
  } else if (e == ERR_OK && !is_same && !p->call->checks) {
    e = file_create(path, 0644, copy);
    if (e != ERR_OK)
      snprintf(p->why, sizeof p->why, "%s: %s", path, err_sentence(e));
  }
  free(there);
  free(copy);
  if (e != ERR_OK)
    return answer_error(p->call, EXIT_FAILED, err_name(e), NULL, "%s", p->why[0] ? p->why : err_sentence(e));
  return answer_change(p->call,
                       json_pack("{s:s, s:I, s:s, s:s}", "job", name, "version", (json_int_t)version, "file", path,
                                 "signed_by", signed_by),
                       !is_same, view);
}

static int keep_asked(struct pull *p, const json_t *data) {
  const json_t *text = json_object_get(data, "text");
  return keep(p, json_string_value(json_object_get(data, "job")),
              (uint32_t)json_integer_value(json_object_get(data, "version")), json_string_value(text),
              json_string_length(text), json_string_value(json_object_get(data, "signed_by")));
}

static int keep_dialled(struct pull *p) {
  const struct job_file *f = &p->files[0].file;
  const char *name = "";
  if (p->n > 1) {
    size_t n = (size_t)snprintf(p->why, sizeof p->why, "which job is meant? %s offers", p->config->peers[p->peer].name);
    for (size_t i = 0; i < p->n && n < sizeof p->why; i++) {
      char words[JOB_WORDS_BYTES];
      job_words_write(p->files[i].file.name, p->files[i].file.version, words);
      n += (size_t)snprintf(p->why + n, sizeof p->why - n, "%s %s", i ? "," : "", words);
    }
    return answer_error(p->call, EXIT_USAGE, "usage", "write NAME@VERSION", "%s", p->why);
  }
  for (size_t i = 0; i < p->config->n_peers; i++)
    if (identity_key_equal(&p->config->peers[i].key, &f->proposer))
      name = p->config->peers[i].name;
  return keep(p, f->name, f->version, f->text, f->n_text, name);
}

static int pull(struct pull *p) {
  json_t *data = NULL;
  enum err e = find_peer(p);
  if (e != ERR_OK)
    return answer_error(p->call, EXIT_USAGE, err_name(e), NULL, "%s", p->why);
  e = ask_running(p, &data);
  if (e == ERR_OK) {
    int code = keep_asked(p, data);
    json_decref(data);
    return code;
  }
  bool is_running = e != ERR_NOT_CONNECTED;
  if (!is_running)
    e = dial(p);
  if (e == ERR_OK)
    return keep_dialled(p);
  int code = e == ERR_RANGE ? EXIT_USAGE : is_running ? ask_exit_code(e) : exit_code_of(e);
  return answer_error(p->call, e == ERR_NOT_FOUND ? EXIT_FAILED : code, err_name(e), NULL, "%s", p->why);
}

int verb_job_pull(struct call *call) {
  char why[MAX_CONFIG_WHY_BYTES];
  struct pull *p = calloc(1, sizeof *p);
  int code = EXIT_INTERNAL;
  if (!p)
    return answer_error(call, code, err_name(ERR_NO_MEMORY), NULL, "%s", err_sentence(ERR_NO_MEMORY));
  *p = (struct pull){.call = call, .has_words = call->n_arguments > 0};
  enum err e = p->has_words ? job_words_read(call->arguments[0], &p->words, why) : ERR_OK;
  if (e == ERR_OK && !call->flags[FLAG_FROM]) {
    e = ERR_SYNTAX;
    snprintf(why, sizeof why, "--from is missing; write the name of a peer");
  }
  if (e == ERR_OK)
    e = config_load_site(call->site_path, call->environment, &p->config, why);
  code = e ? answer_error(call, EXIT_USAGE, e == ERR_SYNTAX ? "usage" : err_name(e), NULL, "%s", why) : pull(p);
  for (size_t i = 0; i < p->n; i++)
    free(p->files[i].bytes);
  config_free(p->config);
  free(p);
  return code;
}
