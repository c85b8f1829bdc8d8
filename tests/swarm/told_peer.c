/* A peer that says what it is told: told_peer KEY_FILE SWARM PEER_KEY tcp://host:port BOOT_EPOCH
 *
 * It makes one session with an agent and is a pipe from then on. In both directions, what passes is a type (u8), a length
 * (u32, little-endian) and as many bytes: messages of the protocol (gossip/PROTOCOL.md), sealed and opened here but never
 * checked. These types are not of the protocol: 0 is bytes for the connection, in no session; 1 is the part of a manifest
 * that is signed, to be signed and sent; 2 is seconds (u8), a type and a message, to be sent as fast as the connection takes
 * it for so long, during which nothing is read; 3 answers that with the number sent (u32); after 4 nothing is read any more,
 * but what it is told goes on to be sent. It ends with its input (0) or with its session (1). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#include "base/must.h"
#include "crypto/key_file.h"
#include "crypto/key_text.h"
#include "crypto/names.h"
#include "crypto/random.h"
#include "crypto/session.h"
#include "gossip/handshake.h"

enum {
  TYPE_RAW = 0,
  TYPE_SIGN = 1,
  TYPE_FLOOD = 2,
  TYPE_FLOODED = 3,
  TYPE_DEAF = 4,
  OWN_INDEX = 7,
  PATIENCE_MS = 10000,
  PIPE_HEAD_BYTES = 5
};

static uint64_t now_ms(void) {
  struct timespec t;
  MUST(clock_gettime(CLOCK_MONOTONIC, &t) == 0);
  return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void tell(uint8_t type, const uint8_t *bytes, size_t n) {
  uint8_t head[PIPE_HEAD_BYTES] = {type, (uint8_t)n, (uint8_t)(n >> 8), (uint8_t)(n >> 16), 0};
  MUST(fwrite(head, sizeof head, 1, stdout) == 1 && fwrite(bytes, 1, n, stdout) == n && fflush(stdout) == 0);
}

static bool read_exactly(uint8_t *bytes, size_t n) {
  for (ssize_t got; n > 0; bytes += got, n -= (size_t)got)
    if ((got = read(STDIN_FILENO, bytes, n)) <= 0)
      return false;
  return true;
}

static struct session *meet(void *socket, const struct identity *id, const struct identity_key *peer, const char *swarm,
                            uint64_t boot_epoch) {
  struct offer offer = {.version_min = 1, .version_max = 1, .session_index = OWN_INDEX, .boot_epoch = boot_epoch};
  struct swarm_id name = swarm_id(swarm);
  memcpy(offer.swarm, name.bytes, sizeof offer.swarm);
  uint8_t frame[MAX_FRAME_BYTES], peer_x25519[X25519_BYTES];
  struct noise *noise;
  struct frame_head head;
  struct answer answer;
  MUST(identity_key_x25519(peer, peer_x25519) == ERR_OK);
  MUST(handshake_1_write(identity_x25519(id), peer_x25519, &offer, &noise, frame) == ERR_OK);
  zmq_send(socket, frame, HANDSHAKE_1_BYTES, 0);
  int n = zmq_recv(socket, frame, sizeof frame, 0);
  struct session *session = NULL;
  struct session_keys keys;
  if (n >= 0 && frame_head_read(frame, (size_t)n, &head) == ERR_OK &&
      handshake_2_read(noise, &head, frame, (size_t)n, &answer) == ERR_OK && answer.verdict == ERR_OK) {
    struct session_ends ends = {OWN_INDEX, answer.own.session_index, true};
    noise_split(noise, &keys);
    MUST(session_new(&keys, &ends, now_ms(), &session) == ERR_OK);
  }
  noise_free(noise);
  return session;
}

/* Sends one message as often as it can. */
static void flood(void *socket, struct session *session, const uint8_t *told, size_t n_told) {
  static uint8_t frame[MAX_FRAME_BYTES];
  MUST(n_told >= 2);
  size_t n = n_told - 2;
  uint32_t count = 0;
  const int stuck_ms = 1000;
  zmq_setsockopt(socket, ZMQ_SNDTIMEO, &stuck_ms, sizeof stuck_ms);
  for (uint64_t end_ms = now_ms() + 1000 * (uint64_t)told[0]; now_ms() < end_ms; count++) {
    memcpy(frame + FRAME_HEAD_BYTES, told + 2, n);
    if (session_seal(session, now_ms(), told[1], frame, n) != ERR_OK || zmq_send(socket, frame, frame_bytes(n), 0) < 0)
      break;
  }
  uint8_t answer[4] = {(uint8_t)count, (uint8_t)(count >> 8), (uint8_t)(count >> 16), (uint8_t)(count >> 24)};
  tell(TYPE_FLOODED, answer, sizeof answer);
}

/* One thing that it is told; false at the end of the input. */
static bool pass_out(void *socket, struct session *session, const struct identity *id, bool *is_deaf) {
  static uint8_t frame[MAX_FRAME_BYTES];
  uint8_t pipe_head[PIPE_HEAD_BYTES], *plain = frame + FRAME_HEAD_BYTES;
  if (!read_exactly(pipe_head, sizeof pipe_head))
    return false;
  size_t n = pipe_head[1] | (size_t)pipe_head[2] << 8 | (size_t)pipe_head[3] << 16 | (size_t)pipe_head[4] << 24;
  MUST(n <= MAX_FRAME_PLAIN_BYTES);
  if (!read_exactly(plain, n))
    return false;
  uint8_t type = pipe_head[0];
  if (type == TYPE_RAW) {
    zmq_send(socket, plain, n, 0);
    return true;
  }
  if (type == TYPE_DEAF) {
    *is_deaf = true;
    return true;
  }
  if (type == TYPE_FLOOD) {
    static uint8_t told[MAX_FRAME_PLAIN_BYTES];
    memcpy(told, plain, n);
    flood(socket, session, told, n);
    return true;
  }
  if (type == TYPE_SIGN) {
    struct signature signature;
    identity_sign(id, "starling/v1/manifest", plain, n, &signature);
    memcpy(plain + n, signature.bytes, sizeof signature.bytes);
    n += sizeof signature.bytes;
    type = MESSAGE_MANIFEST;
  }
  MUST(session_seal(session, now_ms(), type, frame, n) == ERR_OK);
  zmq_send(socket, frame, frame_bytes(n), 0);
  return true;
}

static void pass_in(void *socket, struct session *session) {
  static uint8_t frame[MAX_FRAME_BYTES];
  struct frame_head head;
  for (int n; (n = zmq_recv(socket, frame, sizeof frame, ZMQ_DONTWAIT)) >= 0;)
    if (frame_head_read(frame, (size_t)n, &head) == ERR_OK &&
        session_open_frame(session, now_ms(), &head, frame) == ERR_OK)
      tell(head.type, frame + FRAME_HEAD_BYTES, head.n_plain);
}

/* Passes things on until the input or the connection ends. */
static int serve_pipe(void *socket, void *monitor, struct session *session, const struct identity *id) {
  bool is_deaf = false;
  for (;;) {
    zmq_pollitem_t items[] = {{.fd = STDIN_FILENO, .events = ZMQ_POLLIN},
                              {.socket = monitor, .events = ZMQ_POLLIN},
                              {.socket = socket, .events = ZMQ_POLLIN}};
    zmq_poll(items, is_deaf ? 2 : 3, -1);
    if (!is_deaf)
      pass_in(socket, session);
    if (items[0].revents && !pass_out(socket, session, id, &is_deaf))
      return 0;
    if (items[1].revents)
      return 1;
  }
}

int main(int argc, char **argv) {
  MUST(argc == 6);
  char why[MAX_REASON_BYTES] = "";
  struct identity *id;
  struct identity_key peer;
  if (random_open() || key_file_open(argv[1], NULL, NULL, &id, why) || key_text_read(argv[3], &peer)) {
    fprintf(stderr, "told_peer: %s\n", why);
    return 2;
  }
  void *context = zmq_ctx_new(), *socket = zmq_socket(context, ZMQ_DEALER), *monitor = zmq_socket(context, ZMQ_PAIR);
  const int patience_ms = PATIENCE_MS, linger_ms = 200, never_ms = 3600 * 1000, most_unread = 8,
            buffer_bytes = 64 * 1024;
  zmq_setsockopt(socket, ZMQ_RCVHWM, &most_unread, sizeof most_unread);
  zmq_setsockopt(socket, ZMQ_RCVBUF, &buffer_bytes, sizeof buffer_bytes);
  zmq_setsockopt(socket, ZMQ_RCVTIMEO, &patience_ms, sizeof patience_ms);
  zmq_setsockopt(socket, ZMQ_SNDTIMEO, &patience_ms, sizeof patience_ms);
  zmq_setsockopt(socket, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
  zmq_setsockopt(socket, ZMQ_RECONNECT_IVL, &never_ms, sizeof never_ms);
  MUST(zmq_socket_monitor(socket, "inproc://monitor", ZMQ_EVENT_DISCONNECTED) == 0);
  MUST(zmq_connect(monitor, "inproc://monitor") == 0 && zmq_connect(socket, argv[4]) == 0);
  struct session *session = meet(socket, id, &peer, argv[2], strtoull(argv[5], NULL, 0));
  int code = session ? serve_pipe(socket, monitor, session, id) : 1;
  session_free(session);
  identity_free(id);
  zmq_socket_monitor(socket, NULL, 0);
  zmq_close(monitor);
  zmq_close(socket);
  zmq_ctx_term(context);
  return code;
}
