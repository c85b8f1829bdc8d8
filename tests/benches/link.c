/* How fast 64 MiB pass from one process to another over loopback TCP: through gossip (sealed, pulled by GET) and through
 * bare ZeroMQ, NULL and CURVE, as frames of the same size. Interleaved; one line a transfer:
 *
 *   null|curve|sealed|hashed SECONDS
 *
 * `hashed` is the transfer of the `sealed` line before it and the payload's Merkle root after it, checked. In all of them
 * the payload lies in memory at one side and in memory at the other side at the end; making connections and sessions is not
 * timed. usage: bench_link [REPETITIONS] */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#include "base/must.h"
#include "crypto/digest.h"
#include "crypto/frame.h"
#include "crypto/merkle.h"
#include "crypto/random.h"
#include "gossip/gossip.h"

enum { PAYLOAD_BYTES = 64 << 20, HEAD_BYTES = 45, CURVE_KEY_BYTES = 41, LIMIT_S = 60, DEFAULT_REPETITIONS = 7 };

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint64_t now_ms(void *context) {
  (void)context;
  return (uint64_t)(1e3 * now_s());
}

static void free_address(char out_address[MAX_ADDRESS_BYTES]) {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t n = sizeof at;
  MUST(bind(fd, (struct sockaddr *)&at, sizeof at) == 0 && getsockname(fd, (struct sockaddr *)&at, &n) == 0);
  close(fd);
  snprintf(out_address, MAX_ADDRESS_BYTES, "tcp://127.0.0.1:%u", ntohs(at.sin_port));
}

/* What one side sends; both make it, so that the receiver knows what it must get. */
static uint8_t *payload_new(void) {
  uint8_t *payload = malloc(PAYLOAD_BYTES);
  MUST(payload != NULL);
  uint32_t x = 1;
  for (size_t i = 0; i < PAYLOAD_BYTES; i++) {
    x = x * 1664525u + 1013904223u;
    payload[i] = (uint8_t)(x >> 24);
  }
  return payload;
}

/* ---- bare ZeroMQ --------------------------------------------------------------------------------------------------- */

struct curve {
  bool is_on;
  char server_public[CURVE_KEY_BYTES], server_secret[CURVE_KEY_BYTES];
  char client_public[CURVE_KEY_BYTES], client_secret[CURVE_KEY_BYTES];
};

static void set(void *socket, int option, const void *value, size_t n) {
  MUST(zmq_setsockopt(socket, option, value, n) == 0);
}

static void bare_send(const char *address, const struct curve *curve, const uint8_t *payload) {
  void *context = zmq_ctx_new(), *router = zmq_socket(context, ZMQ_ROUTER);
  int on = 1;
  set(router, ZMQ_ROUTER_MANDATORY, &on, sizeof on); /* wait at the high-water mark instead of dropping */
  if (curve->is_on) {
    set(router, ZMQ_CURVE_SERVER, &on, sizeof on);
    set(router, ZMQ_CURVE_SECRETKEY, curve->server_secret, CURVE_KEY_BYTES);
  }
  MUST(zmq_bind(router, address) == 0);
  uint8_t id[16];
  char word[8];
  int n_id = zmq_recv(router, id, sizeof id, 0); /* ready? */
  MUST(n_id > 0 && zmq_recv(router, word, sizeof word, 0) > 0);
  zmq_send(router, id, (size_t)n_id, ZMQ_SNDMORE);
  zmq_send(router, "yes", 3, 0);
  MUST(zmq_recv(router, id, sizeof id, 0) == n_id && zmq_recv(router, word, sizeof word, 0) > 0); /* go */
  for (size_t at = 0; at < PAYLOAD_BYTES; at += CHUNK_BYTES) {
    zmq_msg_t frame;
    zmq_msg_init_size(&frame, HEAD_BYTES + CHUNK_BYTES);
    uint8_t *bytes = zmq_msg_data(&frame);
    memset(bytes, 0, HEAD_BYTES);
    memcpy(bytes + HEAD_BYTES, payload + at, CHUNK_BYTES);
    zmq_send(router, id, (size_t)n_id, ZMQ_SNDMORE);
    MUST(zmq_msg_send(&frame, router, 0) >= 0);
  }
  zmq_recv(router, id, sizeof id, 0); /* it has come */
  zmq_close(router);
  zmq_ctx_term(context);
}

static double bare_receive(const char *address, const struct curve *curve, const uint8_t *expected) {
  void *context = zmq_ctx_new(), *dealer = zmq_socket(context, ZMQ_DEALER);
  if (curve->is_on) {
    set(dealer, ZMQ_CURVE_SERVERKEY, curve->server_public, CURVE_KEY_BYTES);
    set(dealer, ZMQ_CURVE_PUBLICKEY, curve->client_public, CURVE_KEY_BYTES);
    set(dealer, ZMQ_CURVE_SECRETKEY, curve->client_secret, CURVE_KEY_BYTES);
  }
  MUST(zmq_connect(dealer, address) == 0);
  char word[8];
  zmq_send(dealer, "ready?", 6, 0);
  MUST(zmq_recv(dealer, word, sizeof word, 0) == 3);
  double begin_s = now_s();
  zmq_send(dealer, "go", 2, 0);
  uint8_t *payload = malloc(PAYLOAD_BYTES);
  for (size_t at = 0; at < PAYLOAD_BYTES; at += CHUNK_BYTES) {
    zmq_msg_t frame;
    zmq_msg_init(&frame);
    MUST(zmq_msg_recv(&frame, dealer, 0) == HEAD_BYTES + CHUNK_BYTES);
    memcpy(payload + at, (uint8_t *)zmq_msg_data(&frame) + HEAD_BYTES, CHUNK_BYTES);
    zmq_msg_close(&frame);
  }
  double seconds = now_s() - begin_s;
  MUST(memcmp(payload, expected, PAYLOAD_BYTES) == 0);
  zmq_send(dealer, "thanks", 6, 0);
  free(payload);
  zmq_close(dealer);
  zmq_ctx_term(context);
  return seconds;
}

static struct curve curve_new(bool is_on) {
  struct curve c = {.is_on = is_on};
  MUST(!is_on || (zmq_curve_keypair(c.server_public, c.server_secret) == 0 &&
                  zmq_curve_keypair(c.client_public, c.client_secret) == 0));
  return c;
}

/* ---- gossip ---------------------------------------------------------------------------------------------------------- */

struct side {
  struct gossip *node;
  struct gossip_peer_config peer;
  const uint8_t *payload; /* the sender's */
  struct digest root;
  uint8_t manifest[MANIFEST_BYTES];
  bool has_session, is_done;
  double begin_s, end_s;
  uint8_t *received;
};

static void on_session(void *context, size_t peer, bool is_up, enum err reason) {
  (void)peer;
  (void)reason;
  ((struct side *)context)->has_session = is_up;
}

static void on_hello(void *context, size_t peer, size_t job, const struct hello_job *hello) {
  (void)context;
  (void)peer;
  (void)job;
  (void)hello;
}

static void on_refused_job(void *context, size_t peer, size_t job, enum err reason) {
  (void)context;
  (void)peer;
  (void)job;
  (void)reason;
  MUST(false);
}

static void on_state(void *context, size_t peer, size_t job, const struct wire_state *state) {
  (void)context;
  (void)peer;
  (void)job;
  (void)state;
}

static void on_manifest(void *context, size_t peer, size_t job, const struct manifest *m, const uint8_t *bytes) {
  (void)bytes;
  struct side *s = context;
  s->begin_s = now_s();
  MUST(gossip_fetch(s->node, peer, job, m) == ERR_OK);
}

static void on_payload(void *context, size_t peer, size_t job, const struct manifest *m, uint8_t *payload) {
  (void)job;
  struct side *s = context;
  s->end_s = now_s();
  s->received = payload;
  s->root = m->payload_root;
  s->is_done = true;
  gossip_done(s->node, peer, 0, m->sequence, ERR_OK);
}

static void on_failed(void *context, size_t peer, size_t job, const struct manifest *m, enum err reason) {
  (void)context;
  (void)peer;
  (void)job;
  (void)m;
  (void)reason;
  MUST(false);
}

static void on_answer(void *context, size_t peer, size_t job, uint64_t first, enum err reason) {
  (void)context;
  (void)peer;
  (void)job;
  (void)first;
  (void)reason;
}

static void on_done(void *context, size_t peer, size_t job, uint64_t sequence, enum err outcome) {
  (void)peer;
  (void)job;
  (void)sequence;
  (void)outcome;
  ((struct side *)context)->is_done = true;
}

static void fill_hello(void *context, size_t peer, size_t job, struct hello_job *out_hello) {
  (void)context;
  (void)peer;
  (void)job;
  *out_hello = (struct hello_job){0};
}

static void fill_state(void *context, size_t peer, size_t job, struct wire_state *out_state) {
  (void)context;
  (void)peer;
  (void)job;
  *out_state = (struct wire_state){.follows = true, .phase = PHASE_IDLE};
}

static enum err find_manifest(void *context, size_t peer, size_t job, enum manifest_kind kind, uint64_t first, size_t i,
                              uint8_t out_bytes[MANIFEST_BYTES]) {
  (void)peer;
  (void)job;
  (void)kind;
  (void)first;
  memcpy(out_bytes, ((struct side *)context)->manifest, MANIFEST_BYTES);
  return i == 0 ? ERR_OK : ERR_NOT_FOUND;
}

static enum err read_payload(void *context, size_t job, const struct digest *root, uint64_t offset, uint8_t *out,
                             size_t n) {
  (void)job;
  (void)root;
  memcpy(out, ((struct side *)context)->payload + offset, n);
  return ERR_OK;
}

/* What both sides have: two keys and a job. */
struct pair {
  struct identity *sender, *receiver;
  struct gossip_job_config job;
  struct manifest manifest;
};

static struct pair pair_new(const uint8_t *payload) {
  struct pair p = {.job = {.schema_text = "", .contract_text = ""}};
  MUST(identity_new(&p.sender) == ERR_OK && identity_new(&p.receiver) == ERR_OK);
  p.manifest = (struct manifest){.kind = MANIFEST_FULL,
                                 .encoding = ENCODING_F32,
                                 .boot_epoch = 1,
                                 .sequence = 1,
                                 .round = 1,
                                 .samples = 1,
                                 .mu = 1,
                                 .n_payload = PAYLOAD_BYTES};
  merkle_root(&digest_blake2b, payload, PAYLOAD_BYTES, &p.manifest.payload_root);
  p.manifest.chain = chain_start(&p.manifest.payload_root);
  manifest_sign(&p.manifest, p.sender);
  return p;
}

static void pair_done(struct pair *p) {
  identity_free(p->sender);
  identity_free(p->receiver);
}

/* One node that knows one other: the one without `address` listens at `listen`. */
static void side_open(struct side *s, const struct pair *p, const struct identity *own, const struct identity *other,
                      const char *listen, const char *address) {
  const char *const listen_list[] = {listen};
  const struct gossip_job_config *const jobs[] = {&p->job};
  s->peer = (struct gossip_peer_config){*identity_public(other), "other", address};
  struct gossip_config config = {.identity = own,
                                 .boot_epoch = 1,
                                 .listen = listen_list,
                                 .n_listen = listen[0] ? 1 : 0,
                                 .peers = &s->peer,
                                 .n_peers = 1,
                                 .jobs = jobs,
                                 .n_jobs = 1,
                                 .payload_max_bytes = PAYLOAD_BYTES,
                                 .payload_bound = PAYLOAD_BYTES,
                                 .now_ms = now_ms,
                                 .events_context = s};
  static const struct gossip_events events = {.on_session = on_session,
                                              .on_hello = on_hello,
                                              .on_refused_job = on_refused_job,
                                              .on_state = on_state,
                                              .on_manifest = on_manifest,
                                              .on_payload = on_payload,
                                              .on_fetch_failed = on_failed,
                                              .on_answer = on_answer,
                                              .on_done = on_done,
                                              .fill_hello = fill_hello,
                                              .fill_state = fill_state,
                                              .find_manifest = find_manifest,
                                              .read_payload = read_payload};
  char why[MAX_REASON_BYTES] = "";
  if (gossip_open(&config, &events, &s->node, why) != ERR_OK) {
    fprintf(stderr, "bench_link: %s\n", why);
    exit(1);
  }
}

static void sealed_send(const char *address, const struct pair *p, const uint8_t *payload) {
  struct side s = {.payload = payload};
  manifest_write(&p->manifest, s.manifest);
  side_open(&s, p, p->sender, p->receiver, address, "");
  while (!s.is_done)
    link_poll(s.node, NULL, 0, 1000);
  gossip_close(s.node, ERR_STOPPED);
}

static double sealed_receive(const char *address, const struct pair *p, const uint8_t *expected, double *out_hashed_s) {
  struct side s = {0};
  struct digest root;
  side_open(&s, p, p->receiver, p->sender, "", address);
  while (!s.has_session)
    link_poll(s.node, NULL, 0, 1000);
  gossip_ask(s.node, 0, 0, MANIFEST_FULL, 0, 1);
  while (!s.is_done)
    link_poll(s.node, NULL, 0, 1000);
  double seconds = s.end_s - s.begin_s, before_s = now_s();
  merkle_root(&digest_blake2b, s.received, PAYLOAD_BYTES, &root);
  *out_hashed_s = seconds + now_s() - before_s;
  MUST(digest_equal(&root, &s.root) && memcmp(s.received, expected, PAYLOAD_BYTES) == 0);
  gossip_close(s.node, ERR_STOPPED); /* DONE leaves before */
  free(s.received);
  return seconds;
}

/* ---- both ends in two processes -------------------------------------------------------------------------------------- */

static void wait_for(pid_t child) {
  int status;
  MUST(waitpid(child, &status, 0) == child);
  if (status != 0) {
    fprintf(stderr, "bench_link: the sending process failed\n");
    exit(1);
  }
}

static double bare_transfer(bool with_curve, const uint8_t *payload) {
  char address[MAX_ADDRESS_BYTES];
  struct curve curve = curve_new(with_curve);
  free_address(address);
  pid_t child = fork();
  if (child == 0) {
    alarm(LIMIT_S);
    bare_send(address, &curve, payload);
    _exit(0);
  }
  double seconds = bare_receive(address, &curve, payload);
  wait_for(child);
  return seconds;
}

static double sealed_transfer(const struct pair *p, const uint8_t *payload, double *out_hashed_s) {
  char address[MAX_ADDRESS_BYTES];
  free_address(address);
  pid_t child = fork();
  if (child == 0) {
    alarm(LIMIT_S);
    sealed_send(address, p, payload);
    _exit(0);
  }
  double seconds = sealed_receive(address, p, payload, out_hashed_s);
  wait_for(child);
  return seconds;
}

int main(int argc, char **argv) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  long repetitions = argc > 1 ? strtol(argv[1], NULL, 10) : DEFAULT_REPETITIONS;
  if (random_open() != ERR_OK)
    return 1;
  uint8_t *payload = payload_new();
  struct pair p = pair_new(payload);
  for (long i = 0; i < repetitions; i++) {
    double hashed_s;
    alarm(LIMIT_S);
    printf("null %.6f\n", bare_transfer(false, payload));
    printf("curve %.6f\n", bare_transfer(true, payload));
    printf("sealed %.6f\n", sealed_transfer(&p, payload, &hashed_s));
    printf("hashed %.6f\n", hashed_s);
  }
  pair_done(&p);
  free(payload);
  return 0;
}
