/* What the agent does while one call of the outside world fails: for every scenario, every k and every errno of the table
 * it ends, says why when it did not work, leaves nothing behind (the sanitisers look), and works when nothing fails. Runs
 * in the root of the tree. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/cli/ask.h"
#include "agent/clock.h"
#include "agent/config.h"
#include "agent/file.h"
#include "agent/key.h"
#include "agent/run/control.h"
#include "agent/run/snapshot.h"
#include "agent/tuning_file.h"
#include "base/must.h"
#include "crypto/digest.h"
#include "crypto/key_file.h"
#include "crypto/noise.h"
#include "crypto/random.h"
#include "crypto/session.h"
#include "gossip/handshake.h"
#include "models/data/dataset.h"
#include "models/exchange/foreign.h"
#include "models/exchange/onnx.h"
#include "models/formats/csv_reader.h"
#include "models/formats/idx.h"
#include "models/formats/npy.h"
#include "models/judging/prediction.h"
#include "models/learner.h"
#include "models/schema.h"
#include "tests/fault/fault.h"
#include "tests/size.h"

static char folder[64];

static const char *in_folder(const char *name) {
  static char path[4][MAX_PATH_BYTES];
  static unsigned turn;
  char *out = path[turn++ % 4];
  snprintf(out, MAX_PATH_BYTES, "%s/%s", folder, name);
  return out;
}

static void write_text(const char *name, const char *text) {
  FILE *out = fopen(in_folder(name), "w");
  MUST(out != NULL && fputs(text, out) >= 0 && fclose(out) == 0);
}

/* With a sentence, as long as it did not work. */
static void judge(enum err e, const char *why) {
  MUST(e == ERR_OK || why[0] != '\0');
}

/* ---- learning: nothing is allocated between opening and freeing ---- */

enum { N_SAMPLES = 11, N_PIXELS = 8 * 8 };

static struct schema *schema_of_images(struct contract *images) {
  char why[MAX_REASON_BYTES] = "";
  struct schema *schema = NULL;
  enum err e =
      schema_from_arch("conv 3x3x4 pad 1, residual { conv 3x3x4 pad 1, relu, depthwise 3x3 pad 1 }, relu, pool 2, "
                       "avgpool 2, dropout 0.2, dense 8, tanh, dense classes",
                       images, &schema, why);
  judge(e, why);
  return schema;
}

static void learn(struct learner *l) {
  static float pixels[N_SAMPLES * N_PIXELS];
  static uint16_t labels[N_SAMPLES];
  static double shift[N_PIXELS], gain[N_PIXELS];
  static uint8_t payload[1 << 16];
  const struct dataset train = {.task = TASK_CLASSIFY,
                                .n = N_SAMPLES,
                                .n_inputs = N_PIXELS,
                                .floats = pixels,
                                .labels = labels,
                                .shift = shift,
                                .gain = gain,
                                .n_classes = 2};
  struct train_report report;
  size_t n_payload;
  MUST(learner_attach(l, &train, (const struct dataset *const[N_TEST_SETS]){NULL}) == ERR_OK);
  MUST(learner_payload_bound(l) <= sizeof payload);
  fault_arm(1, ENOMEM);
  for (uint64_t round = 1; round <= 3; round++) {
    MUST(learner_train(l, round, 0, 1, NULL, &report) == ERR_OK && report.local_steps == 3);
    MUST(learner_encode(l, round == 1, payload, &n_payload) == ERR_OK);
    learner_published(l);
    MUST(round == 1 ? learner_copy_set(l, 0, payload, n_payload) == ERR_OK
                    : learner_copy_add(l, 0, CODEC_F16, payload, n_payload) == ERR_OK);
    MUST(learner_merge(l, &(struct contribution){.weight = 0.5}, 1) == ERR_OK);
  }
  MUST(!fault_disarm());
}

/* NULL when there is no memory. */
static struct learner *learner_of_images(struct schema **out_schema) {
  static struct contract images = {.task = TASK_CLASSIFY, .n_classes = 2, .height = 8, .width = 8, .channels = 1};
  const struct train_config train = {.epochs = 1, .batch = 4, .learning_rate = 0.1, .optimiser = {.momentum = 0.9}};
  struct learner *l = NULL;
  *out_schema = schema_of_images(&images);
  if (*out_schema == NULL)
    return NULL;
  enum err e = learner_open(
      &(struct learner_config){.schema = *out_schema, .train = train, .codec = {.kind = CODEC_F16}, .n_copies = 1}, &l);
  MUST((e == ERR_OK && l != NULL) || (e == ERR_NO_MEMORY && l == NULL));
  return l;
}

static void open_learner(void) {
  struct schema *schema;
  struct learner *l = learner_of_images(&schema);
  learner_free(l);
  schema_free(schema);
}

static void learn_without_memory(void) {
  struct schema *schema;
  struct learner *l = learner_of_images(&schema);
  MUST(l != NULL);
  learn(l);
  learner_free(l);
  schema_free(schema);
}

/* ---- crypto ---- */

static struct identity *own, *other;

static void make_key_file(void) {
  char why[MAX_REASON_BYTES] = "";
  struct identity *id = NULL;
  const char *path = in_folder("new.key");
  enum err e = key_file_create(path, own, NULL, why);
  judge(e, why);
  if (e == ERR_OK) {
    e = key_file_open(path, folder, NULL, &id, why);
    judge(e, why);
    MUST((e == ERR_OK) == (id != NULL));
  }
  identity_free(id);
  fault_disarm();
  unlink(path);
}

static enum err say_open(void *context, char out_passphrase[MAX_PASSPHRASE_BYTES]) {
  (void)context;
  snprintf(out_passphrase, MAX_PASSPHRASE_BYTES, "open");
  return ERR_OK;
}

static void open_sealed_key(void) {
  struct passphrase_source source = {say_open, NULL};
  char why[MAX_REASON_BYTES] = "";
  struct identity *id = NULL;
  judge(key_file_open(in_folder("sealed.key"), NULL, &source, &id, why), why);
  identity_free(id);
}

static void shake_hands(void) {
  struct offer offer = {.version_min = 1, .version_max = 1, .session_index = 7}, heard;
  struct answer answer = {.verdict = ERR_OK, .version = 1, .own = offer};
  struct noise *asking = NULL, *answering = NULL;
  struct session *session = NULL;
  struct session_keys keys;
  struct session_ends ends = {.own_index = 7, .peer_index = 7};
  struct frame_head head;
  const struct x25519_pair *a = identity_x25519(own), *b = identity_x25519(other);
  uint8_t first[HANDSHAKE_1_BYTES], second[HANDSHAKE_2_BYTES];
  enum err e = handshake_1_write(a, b->public_key, &offer, &asking, first);
  if (e == ERR_OK)
    e = handshake_1_read(b, first, &answering, &heard);
  if (e == ERR_OK)
    e = handshake_2_write(answering, 7, &answer, second);
  if (e == ERR_OK)
    e = frame_head_read(second, sizeof second, &head);
  if (e == ERR_OK)
    e = handshake_2_read(asking, &head, second, sizeof second, &answer);
  if (e == ERR_OK) {
    noise_split(asking, &keys);
    e = session_new(&keys, &ends, 0, &session);
    session_keys_wipe(&keys);
  }
  MUST((e == ERR_OK) == (session != NULL));
  session_free(session);
  noise_free(asking);
  noise_free(answering);
}

static void make_identity(void) {
  struct identity *id = NULL;
  MUST((identity_new(&id) == ERR_OK) == (id != NULL));
  identity_free(id);
}

/* ---- configuration ---- */

static void load_config(void) {
  static const char *const environment[] = {"STARLING_LOG_LEVEL=debug", "HOME=/", NULL};
  char why[MAX_CONFIG_WHY_BYTES] = "";
  struct config *c = NULL;
  struct site_job_config *again = NULL;
  enum err e = config_load(in_folder("site.yaml"), environment, &c, why);
  judge(e, why);
  MUST((e == ERR_OK) == (c != NULL));
  if (e == ERR_OK)
    judge(config_read_job(c, &c->jobs[0], "a peer", c->jobs[0].job.text, c->jobs[0].job.n_text, &again, why), why);
  config_job_free(again);
  config_free(c);
}

static void load_job(void) {
  char why[MAX_CONFIG_WHY_BYTES] = "";
  struct config *c = NULL;
  judge(config_load_job(in_folder("a.job.yaml"), &c, why), why);
  config_free(c);
}

static void open_own_key(void) {
  static struct config c;
  char why[MAX_CONFIG_WHY_BYTES] = "";
  struct identity *id = NULL;
  snprintf(c.path, sizeof c.path, "%s", in_folder("site.yaml"));
  snprintf(c.key_file, sizeof c.key_file, "%s", in_folder("sealed.key"));
  snprintf(c.passphrase_file, sizeof c.passphrase_file, "%s", in_folder("pass"));
  judge(key_open(&c, &id, why), why);
  identity_free(id);
}

static void keep_file(void) {
  const char *path = in_folder("kept");
  char *bytes = NULL;
  size_t n = 0;
  enum err e = file_create(path, 0600, "some words\n");
  if (e == ERR_OK)
    e = file_read(path, 100, &bytes, &n);
  MUST((e == ERR_OK) == (bytes != NULL) && (e != ERR_OK || n == 11));
  free(bytes);
  fault_disarm();
  char temporary[MAX_PATH_BYTES];
  snprintf(temporary, sizeof temporary, "%.200s.%ld.tmp", path, (long)getpid());
  unlink(temporary); /* where removing it was what failed */
  unlink(path);
}

/* ---- data ---- */

static struct contract *contract;

static enum err count_row(void *context, const struct sample *s) {
  (void)s;
  ++*(size_t *)context;
  return ERR_OK;
}

static void read_csv(void) {
  struct data_place why = {0};
  size_t n_rows = 0, n_ignored;
  enum err e =
      csv_read(in_folder("x.csv"), contract, &(struct sample_sink){count_row, &n_rows, NULL}, &n_ignored, &why);
  judge(e, why.sentence);
  MUST(e != ERR_OK || n_rows == 2);
}

static void read_idx(void) {
  struct data_place why = {0};
  struct idx_file *f = NULL;
  enum err e = idx_open("tests/fuzz/idx/labels.gz", &f, &why);
  uint8_t label;
  for (uint32_t i = 0; e == ERR_OK && i < idx_shape(f)->size[0]; i++)
    e = idx_next(f, &label, &why);
  if (e == ERR_OK)
    e = idx_end(f, &why);
  judge(e, why.sentence);
  idx_close(f);
}

/* Where removing what was made was what failed. */
static void remove_made(const char *path, const char *ending) {
  char part[MAX_PATH_BYTES];
  fault_disarm();
  snprintf(part, sizeof part, "%.200s.%ld.%s", path, (long)getpid(), ending);
  unlink(part);
  unlink(path);
}

static struct schema *points;
static float model[(2 + 1) * 3 + (3 + 1) * 2];

static enum err import(const char *path, float *x, struct data_place *why) {
  static struct map_line *map;
  struct tensor_file *f = NULL;
  struct match m = {0};
  size_t n_map = 0;
  enum err e = tensor_file_open(path, &f, why);
  if (e == ERR_OK)
    e = map_read("dense1.bias dense1.bias\n", 24, &map, &n_map, why->sentence);
  if (e == ERR_OK)
    e = match_make(points, f, LAYOUT_TORCH, map, n_map, &m, why->sentence);
  if (e == ERR_OK)
    e = match_read(&m, points, f, x, why);
  match_done(&m);
  free(map);
  map = NULL;
  tensor_file_close(f);
  return e;
}

static void keep_tensors(enum tensor_format format, const char *path) {
  static const struct tensor_note note = {"job", "inspection"};
  struct tensor_out out[4];
  struct data_place why = {0};
  float x[sizeof model / sizeof *model] = {0};
  for (size_t k = 0; k < 4; k++) {
    const struct tensor *t = schema_tensor(points, k);
    out[k] = (struct tensor_out){t->name, t->rank, {t->shape[0], t->shape[1]}, model + t->offset};
  }
  enum err e = tensor_file_write(path, format, out, 4, &note, 1);
  if (e == ERR_OK) {
    e = import(path, x, &why);
    judge(e, why.sentence);
  }
  for (size_t i = 0; e == ERR_OK && i < sizeof model / sizeof *model; i++)
    MUST(x[i] == model[i]);
  remove_made(path, "part");
}

static void keep_safetensors(void) {
  keep_tensors(TENSORS_SAFETENSORS, in_folder("m.safetensors"));
}

static void keep_npz(void) {
  keep_tensors(TENSORS_NPZ, in_folder("m.npz"));
}

static void write_graph(void) {
  const char *path = in_folder("m.onnx");
  const struct scale none = {0};
  enum err e = onnx_write(path, &(const struct onnx_model){points, contract, &none, model, NULL, 0});
  struct stat status;
  MUST((e == ERR_OK) == (stat(path, &status) == 0));
  remove_made(path, "part");
}

static enum err take_prediction(void *context, const struct prediction *p) {
  *(size_t *)context += p->n_outputs;
  return ERR_OK;
}

static void predict(void) {
  const struct scale none = {0};
  struct predictor *p = NULL;
  struct data_place why = {0};
  size_t n = 0;
  enum err e = predictor_open(points, contract, &none, model, &p);
  if (e == ERR_OK) {
    e = predictor_read(p, in_folder("x.csv"), &(const struct prediction_sink){take_prediction, &n}, &why);
    judge(e, why.sentence);
  }
  MUST(e != ERR_OK || n == 4);
  predictor_close(p);
}

static void keep_tuning(void) {
  static struct plan plan;
  static struct tuning t, again;
  const struct cpu plain = {0};
  const char *path = in_folder("tuning.json");
  enum err e = plan_make(schema_arch(points), 4, &plain, 1, &plan);
  t.n_hosts = 1;
  t.hosts[0] = (struct tuned_host){"a", 0, 1, 1e-5, {.lanes = 1, .threads = 1}};
  if (e == ERR_OK)
    e = cost_new(plan.n_variants, &t.cost);
  if (e == ERR_OK)
    e = tuning_file_write(path, &plan, &t);
  if (e == ERR_OK)
    e = tuning_file_read(path, &plan, &again);
  MUST(again.n_hosts == (e == ERR_OK) && (again.cost != NULL) == (e == ERR_OK));
  tuning_done(&t);
  tuning_done(&again);
  remove_made(path, "tmp");
}

enum { N_WIDE = 1200, N_WIDE_ROWS = 120 }; /* more than a scratch file's buffer */

/* Samples on disk, from arrays. */
static void stream_arrays(void) {
  struct contract *c = contract_new();
  struct data_memory memory = {.max_bytes = 1 << 16, .folder = folder, .disk_max_bytes = 1 << 22};
  struct data_source source = {.train = {in_folder("wide.npy"), in_folder("wide_y.npy")}, .memory = &memory};
  struct splits splits = {0};
  struct data_place why = {0};
  const void *rows;
  size_t n = 0;
  enum err e = c ? contract_add_class(c, "a") : ERR_NO_MEMORY;
  if (e == ERR_OK)
    e = contract_add_class(c, "b");
  if (e == ERR_OK) {
    c->height = 1;
    c->width = N_WIDE;
    c->channels = 1;
    e = dataset_open(&source, c, &digest_blake2b, &splits, &why);
    judge(e, why.sentence);
  }
  if (e == ERR_OK) {
    MUST(splits.train->scratch != NULL);
    e = dataset_rows(splits.train, 0, &rows, &n);
    MUST(e != ERR_OK || n > 0);
  }
  splits_close(&splits);
  contract_free(c);
}

static void make_contract(void) {
  struct contract *c = contract_new();
  struct digest hash;
  struct schema *s = NULL;
  struct scale scale = {0};
  struct buffer text = {0};
  char why[MAX_REASON_BYTES] = "";
  enum err e = c ? contract_add_class(c, "a") : ERR_NO_MEMORY;
  if (e == ERR_OK)
    e = contract_add_class(c, "b");
  if (e == ERR_OK)
    e = contract_add_feature(c, "x", "m");
  if (e == ERR_OK)
    e = contract_hash(c, &digest_blake2b, &hash);
  if (e == ERR_OK)
    e = schema_from_arch("dense 3, relu, dropout 0.1, dense classes", c, &s, why);
  if (e == ERR_OK)
    e = scale_init(&scale, SCALE_LOCAL, 2);
  if (e == ERR_OK)
    e = scale_copy(&scale, &c->scale);
  if (e == ERR_OK)
    e = snapshot_scale_text(&scale, &text);
  if (e == ERR_OK) {
    struct buffer learner;
    scale_done(&scale);
    e = snapshot_split(c, &text, 0, &learner, &scale);
  }
  MUST(e == ERR_OK || e == ERR_NO_MEMORY);
  free(text.bytes);
  scale_done(&scale);
  schema_free(s);
  contract_free(c);
}

/* ---- control ---- */

static struct control *control;

static void on_request(void *context, uint64_t client, const json_t *request) {
  (void)context;
  control_answer(control, client, json_pack("{s:O}", "echo", request));
}

static int dial_control(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof address.sun_path, "%.100s", path);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
    return fd;
  if (fd >= 0)
    close(fd);
  return -1;
}

static void serve_control(void) {
  static const struct control_events events = {NULL, on_request};
  static const char request[] = "{\"verb\":\"status\"}\n";
  const char *path = in_folder("run.sock");
  char why[MAX_REASON_BYTES] = "", line[256];
  enum err e = control_open(path, &events, &control, why);
  judge(e, why);
  if (e != ERR_OK)
    return;
  int fd = dial_control(path);
  for (uint64_t turn = 0; fd >= 0 && turn < 6; turn++) {
    struct link_fd fds[CONTROL_MAX_FDS];
    size_t n = control_fds(control, fds);
    for (size_t i = 0; i < n; i++)
      fds[i].ready = true;
    control_ready(control, fds, n, turn);
    if (turn == 1)
      (void)!send(fd, request, sizeof request - 1, MSG_NOSIGNAL);
    else
      (void)!recv(fd, line, sizeof line, 0);
  }
  if (fd >= 0)
    close(fd);
  control_close(control);
}

/* An agent that answers one client after the other; `stop` ends it. */
static void *answer_all(void *context) {
  static const char answer[] = "{\"schema\":1,\"ok\":true,\"data\":{\"a\":1},\"warnings\":[\"careful\"]}\n";
  int listener = *(int *)context, fd;
  bool stops = false;
  while (!stops && (fd = accept(listener, NULL, NULL)) >= 0) {
    char byte = 0, last = 0;
    while (byte != '\n' && recv(fd, &byte, 1, 0) == 1)
      if (byte != '\n')
        last = byte;
    stops = last == '!';
    (void)!send(fd, answer, sizeof answer - 1, MSG_NOSIGNAL);
    close(fd);
  }
  return NULL;
}

static void ask_agent(void) {
  struct call call = {.warnings = NULL};
  char why[MAX_CONFIG_WHY_BYTES] = "";
  json_t *data = NULL;
  enum err e = agent_ask(&call, folder, json_pack("{s:s}", "verb", "status"), &data, why);
  judge(e, why);
  MUST((e == ERR_OK) == (data != NULL));
  json_decref(data);
}

/* ---- the link ---- */

static uint64_t now_ms(void *context) {
  (void)context;
  return clock_ms();
}

static void on_session(void *context, size_t peer, bool is_up, enum err reason) {
  (void)peer, (void)reason;
  *(bool *)context |= is_up;
}

static const struct gossip_events of_link = {.on_session =
                                                 on_session}; /* there is no job, so that no other is called */

static enum err open_node(const struct identity *id, const struct gossip_peer_config *peer, const char *listen,
                          void *context, struct gossip **out_gossip) {
  static const char *addresses[1];
  char why[MAX_REASON_BYTES] = "";
  addresses[0] = listen;
  struct gossip_config config = {.identity = id,
                                 .boot_epoch = 1,
                                 .listen = addresses,
                                 .n_listen = 1,
                                 .peers = peer,
                                 .n_peers = 1,
                                 .payload_max_bytes = 1 << 20,
                                 .payload_bound = 1 << 20,
                                 .now_ms = now_ms,
                                 .events_context = context};
  enum err e = gossip_open(&config, &of_link, out_gossip, why);
  judge(e, why);
  return e;
}

static size_t k_now;
static int errno_now;

/* Two agents until they have a session, or for some turns; what fails does so from `is_open` on. */
static void meet_from(bool is_open) {
  bool is_up = false;
  char a_listens[MAX_ADDRESS_BYTES], b_listens[MAX_ADDRESS_BYTES];
  struct gossip *a = NULL, *b = NULL;
  snprintf(a_listens, sizeof a_listens, "ipc://%.200s", in_folder("a.ipc"));
  snprintf(b_listens, sizeof b_listens, "ipc://%.200s", in_folder("b.ipc"));
  const struct gossip_peer_config of_a = {*identity_public(other), "b", ""};
  const struct gossip_peer_config of_b = {*identity_public(own), "a", a_listens};
  if (is_open)
    fault_disarm();
  enum err e = open_node(own, &of_a, a_listens, &is_up, &a);
  if (e == ERR_OK)
    e = open_node(other, &of_b, b_listens, &is_up, &b);
  if (is_open)
    fault_arm(k_now, errno_now);
  for (int turn = 0; e == ERR_OK && turn < 20 && !is_up; turn++) {
    link_poll(a, NULL, 0, 2);
    link_poll(b, NULL, 0, 2);
  }
  gossip_close(b, ERR_STOPPED);
  gossip_close(a, ERR_STOPPED);
}

static void open_link(void) {
  meet_from(false);
}

static void meet(void) {
  meet_from(true);
}

/* ---- all ---- */

static const int errnos[] = {EIO, EINTR, EAGAIN, EACCES, ENOSPC};
enum { N_ERRNOS = sizeof errnos / sizeof *errnos };

static const struct {
  const char *name;
  void (*run)(void);
  size_t max_k, n_errnos; /* where what happens depends on time there is no last call */
} scenarios[] = {
    {"open a learner", open_learner, 200, 1},
    {"make a key file", make_key_file, 200, N_ERRNOS},
    {"open a sealed key", open_sealed_key, 200, N_ERRNOS},
    {"shake hands", shake_hands, 200, N_ERRNOS},
    {"make an identity", make_identity, 200, N_ERRNOS},
    {"load a site file", load_config, 4000, N_ERRNOS},
    {"load a job file", load_job, 4000, N_ERRNOS},
    {"open the own key", open_own_key, 200, N_ERRNOS},
    {"keep a file", keep_file, 200, N_ERRNOS},
    {"read CSV", read_csv, 500, N_ERRNOS},
    {"read IDX", read_idx, 500, N_ERRNOS},
    {"make a contract", make_contract, 500, N_ERRNOS},
    {"keep tensors", keep_safetensors, 500, N_ERRNOS},
    {"keep arrays", keep_npz, 500, N_ERRNOS},
    {"write a graph", write_graph, 2000, N_ERRNOS},
    {"predict", predict, 500, N_ERRNOS},
    {"keep a tuning", keep_tuning, 500, N_ERRNOS},
    {"stream arrays", stream_arrays, 500, N_ERRNOS},
    {"serve a client", serve_control, 500, N_ERRNOS},
    {"ask an agent", ask_agent, 500, N_ERRNOS},
    {"open a link", open_link, 46, 1},
    {"meet a peer", meet, 60, 2},
};

/* An array of zeros. */
static void write_array(const char *name, enum array_type type, size_t n_rows, size_t width) {
  struct array a = {.type = type, .rank = 2, .size = {n_rows, width}};
  uint8_t head[NPY_MAX_HEAD_BYTES];
  size_t n = npy_head_write(&a, head), n_values = n_rows * width;
  void *values = calloc(n_values, array_type_bytes(type));
  FILE *out = fopen(in_folder(name), "wb");
  MUST(values != NULL && out != NULL && fwrite(head, 1, n, out) == n);
  MUST(fwrite(values, array_type_bytes(type), n_values, out) == n_values && fclose(out) == 0);
  free(values);
}

static void make_points(void) {
  char why[MAX_REASON_BYTES];
  MUST(schema_from_arch("dense 3, relu, dense classes", contract, &points, why) == ERR_OK);
  MUST(schema_parameters(points) == sizeof model / sizeof *model);
  for (size_t i = 0; i < sizeof model / sizeof *model; i++)
    model[i] = (float)i;
}

static void set_up(void) {
  snprintf(folder, sizeof folder, "/tmp/starling-fault-XXXXXX");
  MUST(mkdtemp(folder) != NULL && random_open() == ERR_OK);
  MUST(identity_from_seed((const uint8_t[IDENTITY_SEED_BYTES]){1}, &own) == ERR_OK);
  MUST(identity_from_seed((const uint8_t[IDENTITY_SEED_BYTES]){2}, &other) == ERR_OK);
  write_text("a.job.yaml", "job: inspection\ntask: classify\nlabel: verdict\nclasses: [ ok, bad ]\nfeatures:\n  - a\n"
                           "  - { name: b, unit: C, range: 0..9 }\nscale: { mean: [ 1, 2 ], sd: [ 3, 4 ] }\n"
                           "model: dense 4, relu, dense classes\ntrain: { steps: 3 }\n");
  write_text("site.yaml", "swarm: k3vz-7qd2\nname: mec-07\nlisten: [ \"tcp://[::]:7411\" ]\npassphrase_file: pass\n"
                          "jobs:\n  - job: a.job.yaml\n    data: { train: x.csv, test: t.csv, global_test: g.csv }\n");
  write_text("x.csv", "a,b,verdict\n1,2,ok\n3,4,\"bad\"\n");
  write_text("pass", "open\n");
  char *sealed;
  size_t n;
  MUST(file_read("tests/fuzz/key_file/sealed", MAX_KEY_FILE_BYTES, &sealed, &n) == ERR_OK);
  MUST(file_create(in_folder("sealed.key"), 0600, sealed) == ERR_OK);
  free(sealed);
  contract = contract_new();
  MUST(contract != NULL && contract_add_class(contract, "ok") == ERR_OK &&
       contract_add_class(contract, "bad") == ERR_OK);
  MUST(contract_add_feature(contract, "a", NULL) == ERR_OK && contract_add_feature(contract, "b", NULL) == ERR_OK);
  snprintf(contract->label, sizeof contract->label, "verdict");
  make_points();
  write_array("wide.npy", ARRAY_F32, N_WIDE_ROWS, N_WIDE);
  write_array("wide_y.npy", ARRAY_I64, N_WIDE_ROWS, 1);
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk) {
  (void)status, (void)type, (void)walk;
  return remove(path);
}

static void run_all(void) {
  for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
    size_t n_fired = 0;
    printf("%s: ", scenarios[i].name);
    fflush(stdout);
    for (size_t j = 0; j < scenarios[i].n_errnos; j++) {
      bool is_fired = true;
      const size_t stride = least_or(3, 1);
      for (size_t k = 1 + j % stride; is_fired && k <= scenarios[i].max_k; k += stride) {
        k_now = k;
        errno_now = errnos[j];
        fault_arm(k, errnos[j]);
        scenarios[i].run();
        is_fired = fault_disarm();
        n_fired += is_fired;
      }
    }
    MUST(n_fired > 0);
    printf("%zu faults\n", n_fired);
  }
}

int main(void) {
  int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  pthread_t agent;
  set_up();
  snprintf(address.sun_path, sizeof address.sun_path, "%.90s", in_folder(CONTROL_SOCKET));
  MUST(bind(listener, (struct sockaddr *)&address, sizeof address) == 0 && listen(listener, 8) == 0);
  MUST(pthread_create(&agent, NULL, answer_all, &listener) == 0);
  learn_without_memory();
  run_all();
  int last = dial_control(address.sun_path);
  MUST(last >= 0 && send(last, "!\n", 2, 0) == 2 && pthread_join(agent, NULL) == 0);
  close(last);
  close(listener);
  schema_free(points);
  contract_free(contract);
  identity_free(own);
  identity_free(other);
  nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
  return 0;
}
