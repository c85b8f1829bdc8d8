/* The real link: loopback TCP and IPC, real time. Ports are the kernel's choice (bound once to find them free). */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include "gossip/zmq_link.h"
#include "tests/unit/gossip/world.h"
#include "tests/unit/suite.h"

enum { SOON_MS = 4000 };

/* ---- plain sockets ---- */

static int listen_raw(uint16_t *io_port) {
  int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
  struct sockaddr_in at = {
      .sin_family = AF_INET, .sin_port = htons(*io_port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t n = sizeof at;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  ck_assert_int_eq(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
  ck_assert_int_eq(listen(fd, 8), 0);
  ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&at, &n), 0);
  *io_port = ntohs(at.sin_port);
  return fd;
}

static int connect_raw(uint16_t port) {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  ck_assert_int_eq(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
  return fd;
}

static bool is_readable(int fd) {
  struct pollfd p = {.fd = fd, .events = POLLIN};
  return poll(&p, 1, 0) > 0;
}

/* The connection was ended by the other side, after whatever it had sent. */
static bool is_ended(int fd) {
  uint8_t bytes[256];
  while (is_readable(fd))
    if (recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) <= 0)
      return true;
  return false;
}

/* Whether a ZMTP command came after the greeting; the other one would be ERROR. */
static bool is_told(int fd, const char *command) {
  uint8_t bytes[64 + 3 + 5];
  return recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) == sizeof bytes && memcmp(bytes + 67, command, 5) == 0;
}

/* Moves an agent from IPC to a TCP port of loopback. */
static uint16_t use_tcp(struct agent *a) {
  uint16_t port = 0;
  close(listen_raw(&port));
  snprintf(a->listen, sizeof a->listen, "tcp://127.0.0.1:%u", port);
  return port;
}

/* A ZMTP 3.0 greeting and a READY of a DEALER: as far as the gate's question. */
static const uint8_t greeting[64] = {0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 0, 'N', 'U', 'L', 'L'};
static const uint8_t ready[] = "\x04\x1c\x05READY\x0bSocket-Type\x00\x00\x00\x06"
                               "DEALER";

static int enter_raw(uint16_t port) {
  int fd = connect_raw(port);
  ck_assert_int_eq((int)send(fd, greeting, sizeof greeting, MSG_NOSIGNAL), sizeof greeting);
  (void)!send(fd, ready, sizeof ready - 1, MSG_NOSIGNAL);
  return fd;
}

/* ---- agents ---- */

/* Everybody that knows the other. */
static bool have_met(struct world *w) {
  for (size_t i = 0; i < w->n_agents; i++)
    for (size_t k = 0; k < w->agents[i].config.n_peers; k++)
      if (!w->agents[i].heard[w->agents[i].number_of_peer[k]].n_up)
        return false;
  return true;
}

START_TEST(three_agents_meet_and_a_payload_arrives_whole) {
  struct world *w = world_new(3, true);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  agent_publish(a, 5000000, 1);
  b->fetches = true;
  world_start(w);
  WORLD_UNTIL(w, have_met(w), SOON_MS);
  gossip_offer(a->node, peer_of(a, b), 0, a->published_bytes);
  WORLD_UNTIL(w, heard_by(b, a)->n_payload == 1, SOON_MS);
  ck_assert_mem_eq(heard_by(b, a)->payload, a->payload, a->published.n_payload);
  ck_assert_uint_eq(info_of(b, a).drops[err_drop_index(ERR_REPLAY)], 0);
  ck_assert_uint_eq(info_of(b, a).drops[err_drop_index(ERR_SEAL)], 0);
  world_free(w);
}
END_TEST

START_TEST(tcp_carries_a_payload_to_the_dialler) {
  struct world *w = world_new(2, true);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  use_tcp(b);
  only_called_by(b, a);
  agent_publish(b, 3000000, 1);
  a->fetches = true;
  world_start(w);
  WORLD_UNTIL(w, have_met(w), SOON_MS);
  gossip_ask(a->node, 0, 0, MANIFEST_FULL, 0, 1);
  WORLD_UNTIL(w, heard_by(a, b)->n_payload == 1, SOON_MS);
  ck_assert_mem_eq(heard_by(a, b)->payload, b->payload, b->published.n_payload);
  world_free(w);
}
END_TEST

/* A frame that was begun and dropped neither reaches anybody nor stands in another one's way. */
START_TEST(a_payload_that_is_gone_leaves_the_connections_whole) {
  struct world *w = world_new(3, true);
  struct agent *a = &w->agents[0];
  for (size_t i = 1; i < 3; i++) {
    only_called_by(a, &w->agents[i]);
    w->agents[i].fetches = true;
  }
  agent_publish(a, 300000, 1);
  a->read = ERR_GONE;
  world_start(w);
  WORLD_UNTIL(w, have_met(w), SOON_MS);
  for (size_t i = 1; i < 3; i++)
    gossip_offer(a->node, peer_of(a, &w->agents[i]), 0, a->published_bytes);
  link_poll(a->node, NULL, 0, 0);
  for (uint64_t end_ms = world_now(w) + 100; world_now(w) < end_ms;) /* so that both ask `a` at once */
    for (size_t i = 1; i < 3; i++)
      link_poll(w->agents[i].node, NULL, 0, 5);
  for (size_t i = 1; i < 3; i++)
    WORLD_UNTIL(w, heard_by(&w->agents[i], a)->n_failed == 1, SOON_MS);
  a->read = ERR_OK;
  for (size_t i = 1; i < 3; i++)
    gossip_offer(a->node, peer_of(a, &w->agents[i]), 0, a->published_bytes);
  for (size_t i = 1; i < 3; i++) {
    WORLD_UNTIL(w, heard_by(&w->agents[i], a)->n_payload == 1, SOON_MS);
    for (size_t k = 0; k < N_DROPS; k++)
      ck_assert_uint_eq(info_of(&w->agents[i], a).drops[k], 0);
  }
  world_free(w);
}
END_TEST

START_TEST(a_wrong_key_gets_silence_and_is_counted) {
  struct world *w = world_new(2, true);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  struct identity *other = identity_numbered(77);
  use_tcp(b);
  only_called_by(b, a);
  b->peers[0].key = *identity_public(other);
  world_start(w);
  struct gossip_stranger row;
  WORLD_UNTIL(w, gossip_strangers(b->node, &row, 1) == 1, SOON_MS);
  world_pass(w, 200);
  ck_assert_str_eq(row.address, "127.0.0.1");
  ck_assert_uint_ge(row.n_unknown_key, 1);
  ck_assert_uint_eq(gossip_sent_bytes(b->node), 0);
  ck_assert_uint_eq(gossip_received_bytes(a->node), 0);
  identity_free(other);
  world_free(w);
}
END_TEST

START_TEST(with_the_gate_shut_nobody_enters) {
  struct world *w = world_new(2, true);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  only_called_by(b, a);
  agent_start(b);
  zmq_link_shut_gate(b->node->link.context);
  agent_start(a);
  world_pass(w, 700);
  ck_assert_uint_eq(heard_by(a, b)->n_up + heard_by(b, a)->n_up, 0);
  ck_assert_uint_eq(gossip_received_bytes(b->node), 0);
  world_free(w);
}
END_TEST

START_TEST(one_address_has_eight_connections_without_a_session) {
  struct world *w = world_new(2, true);
  struct agent *b = &w->agents[1];
  int fds[12], n_in = 0;
  uint16_t port = use_tcp(b);
  agent_start(b);
  for (int i = 0; i < 12; i++)
    fds[i] = enter_raw(port);
  world_pass(w, 300);
  for (int i = 0; i < 12; i++)
    n_in += is_told(fds[i], "READY");
  ck_assert_int_eq(n_in, MAX_GATE_PER_ADDRESS);
  struct gossip_stranger row;
  ck_assert_uint_eq(gossip_strangers(b->node, &row, 1), 1);
  ck_assert_uint_eq(row.n_gate, 4);
  for (int i = 0; i < 12; i++)
    close(fds[i]);
  world_pass(w, 100);
  int again = enter_raw(port); /* those that left are not counted any more */
  world_pass(w, 200);
  ck_assert(is_told(again, "READY"));
  close(again);
  world_free(w);
}
END_TEST

/* Enters with a READY of its own and, when the other side's has come, sends a frame of five bytes. */
static int speak_raw(struct world *w, uint16_t port, const void *own_ready, size_t n) {
  static const uint8_t frame[] = {0, 5, 'h', 'e', 'l', 'l', 'o'};
  uint8_t bytes[sizeof greeting + 1];
  int fd = connect_raw(port);
  (void)!send(fd, greeting, sizeof greeting, MSG_NOSIGNAL);
  (void)!send(fd, own_ready, n, MSG_NOSIGNAL);
  WORLD_UNTIL(w, recv(fd, bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT) == sizeof bytes, SOON_MS);
  (void)!send(fd, frame, sizeof frame, MSG_NOSIGNAL);
  return fd;
}

START_TEST(a_connection_that_names_itself_is_ended) {
  static const uint8_t named[] = "\x04\x2f\x05READY\x0bSocket-Type\0\0\0\6DEALER\x08Identity\0\0\0\6mallet";
  struct world *w = world_new(2, true);
  struct agent *b = &w->agents[1];
  uint16_t port = use_tcp(b);
  agent_start(b);
  int stranger = speak_raw(w, port, ready, sizeof ready - 1);
  WORLD_UNTIL(w, gossip_received_bytes(b->node) == 5, SOON_MS);
  int mallet = speak_raw(w, port, named, sizeof named - 1);
  WORLD_UNTIL(w, is_ended(mallet), SOON_MS);
  ck_assert_uint_eq(gossip_received_bytes(b->node), 5);
  ck_assert(!is_ended(stranger));
  close(mallet);
  close(stranger);
  world_free(w);
}
END_TEST

START_TEST(a_kick_ends_the_connection) {
  struct world *w = world_new(2, true);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  only_called_by(b, a);
  world_start(w);
  WORLD_UNTIL(w, have_met(w), SOON_MS);
  peer_kick(b->node, &b->node->peers[0], ERR_QUARANTINED);
  WORLD_UNTIL(w, heard_by(a, b)->n_down == 1, SOON_MS);
  ck_assert_int_eq(heard_by(a, b)->down, ERR_QUARANTINED);
  WORLD_UNTIL(w, heard_by(a, b)->n_up == 2, SOON_MS);
  world_free(w);
}
END_TEST

START_TEST(a_peer_that_closes_says_bye_and_is_dialled_again) {
  struct world *w = world_new(2, true);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  only_called_by(b, a);
  world_start(w);
  WORLD_UNTIL(w, have_met(w), SOON_MS);
  uint64_t begin_ms = world_now(w);
  agent_stop(b, ERR_STOPPED);
  ck_assert_uint_le(world_now(w) - begin_ms, 1000);
  WORLD_UNTIL(w, heard_by(a, b)->n_down == 1, SOON_MS);
  ck_assert_int_eq(heard_by(a, b)->down, ERR_STOPPED);
  WORLD_UNTIL(w, info_of(a, b).reason == ERR_UNREACHABLE, SOON_MS);
  b->config.boot_epoch++;
  agent_start(b);
  WORLD_UNTIL(w, heard_by(a, b)->n_up == 2, SOON_MS);
  world_free(w);
}
END_TEST

/* ---- something else on the peer's port ---- */

static const char http[] = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n";
static const char garbage[] = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff";
static const char error_command[] = "\4\x0a\5ERROR\3no.";

static const struct {
  bool greets; /* as a ZMTP 3 peer, first */
  const char *bytes;
  size_t n;
} bogus[] = {
    {false, http, sizeof http - 1},
    {false, garbage, sizeof garbage - 1},
    {false, "", 0},
    {true, error_command, sizeof error_command - 1},
};

START_TEST(one_bogus_answer_does_not_stop_the_link) {
  struct world *w = world_new(2, true);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  uint16_t port = use_tcp(b);
  only_called_by(b, a);
  int listener = listen_raw(&port);
  agent_start(a);
  WORLD_UNTIL(w, is_readable(listener), SOON_MS);
  int fd = accept(listener, NULL, NULL);
  if (bogus[_i].greets)
    (void)!send(fd, greeting, sizeof greeting, MSG_NOSIGNAL);
  (void)!send(fd, bogus[_i].bytes, bogus[_i].n, MSG_NOSIGNAL);
  world_pass(w, 100);
  close(fd);
  close(listener);
  world_pass(w, 200);
  agent_start(b);
  WORLD_UNTIL(w, heard_by(a, b)->n_up == 1, 5000);
  world_free(w);
}
END_TEST

START_TEST(what_is_not_an_agent_is_said_in_words) {
  struct world *w = world_new(2, true);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  uint16_t port = use_tcp(b);
  int listener = listen_raw(&port);
  agent_start(a);
  WORLD_UNTIL(w, is_readable(listener), SOON_MS);
  int fd = accept(listener, NULL, NULL);
  (void)!send(fd, http, sizeof http - 1, MSG_NOSIGNAL);
  shutdown(fd, SHUT_WR);
  WORLD_UNTIL(w, info_of(a, b).reason == ERR_NO_ANSWER, SOON_MS);
  ck_assert_ptr_nonnull(strstr(info_of(a, b).sentence, "is not an agent"));
  close(fd);
  close(listener);
  world_free(w);
}
END_TEST

/* ---- opening ---- */

START_TEST(an_address_in_use_is_named) {
  struct world *w = world_new(2, true);
  struct agent *b = &w->agents[1];
  char why[MAX_REASON_BYTES] = "";
  uint16_t port = use_tcp(b);
  int listener = listen_raw(&port);
  ck_assert_int_eq(agent_open(b, why), ERR_BUSY);
  ck_assert_msg(strstr(why, b->listen) != NULL, "%s", why);
  close(listener);
  snprintf(b->listen, sizeof b->listen, "tcp://no such thing");
  ck_assert_int_ne(agent_open(b, why), ERR_OK);
  ck_assert_msg(strstr(why, b->listen) != NULL, "%s", why);
  world_free(w);
}
END_TEST

START_TEST(lent_descriptors_are_polled) {
  struct world *w = world_new(2, true);
  int pipe_fds[2];
  ck_assert_int_eq(pipe(pipe_fds), 0);
  agent_start(&w->agents[0]);
  struct link_fd fds[] = {{.fd = pipe_fds[0]}, {.fd = pipe_fds[1], .want_write = true}};
  link_poll(w->agents[0].node, fds, 2, 0);
  ck_assert(!fds[0].ready && fds[1].ready);
  ck_assert_int_eq((int)write(pipe_fds[1], "x", 1), 1);
  uint64_t begin_ms = world_now(w);
  link_poll(w->agents[0].node, fds, 1, 10000);
  ck_assert(fds[0].ready);
  ck_assert_uint_lt(world_now(w) - begin_ms, 5000);
  close(pipe_fds[0]);
  close(pipe_fds[1]);
  world_free(w);
}
END_TEST

/* ---- two links without nodes: what has come is told at once, however the socket was used before ---- */

struct end {
  struct link link;
  struct world *world;
  bool is_connected;
  uint64_t conn; /* of the last frame */
  unsigned n_frames;
  uint64_t rest_us; /* how long it takes over each */
};

static void rest(uint64_t us) {
  struct timespec t = {.tv_nsec = (long)us * 1000};
  nanosleep(&t, NULL);
}

static void end_on_frame(void *context, uint64_t conn, const char *address, uint8_t *frame, size_t n) {
  struct end *e = context;
  (void)address;
  memset(frame, 0, n); /* it may be written over */
  e->conn = conn;
  e->n_frames++;
  rest(e->rest_us);
}

static void end_on_dial(void *context, size_t peer, enum dial_event event) {
  (void)peer;
  ((struct end *)context)->is_connected = event == DIAL_CONNECTED;
}

static void end_on_gone(void *context, uint64_t conn) {
  (void)context, (void)conn;
}

static void end_on_gate(void *context, const char *address) {
  (void)context, (void)address;
}

static void end_open(struct end *e, struct world *w, const char *const *listen) {
  struct zmq_link_config config = {.listen = listen,
                                   .n_listen = listen ? 1 : 0,
                                   .n_peers = listen ? 0 : 1,
                                   .beat_s = 1,
                                   .now_ms = world_now,
                                   .now_context = w};
  struct link_sink sink = {e, end_on_frame, end_on_dial, end_on_gone, end_on_gate};
  char why[MAX_REASON_BYTES];
  *e = (struct end){.world = w};
  ck_assert_msg(zmq_link_open(&config, &sink, &e->link, why) == ERR_OK, "%s", why);
}

/* Waits as a node with nothing due does; how long it took. */
static uint64_t end_wait(struct end *e, int64_t timeout_ms) {
  uint64_t begin_ms = world_now(e->world);
  e->link.calls->wait(e->link.context, NULL, 0, timeout_ms);
  return world_now(e->world) - begin_ms;
}

static bool end_send(struct end *e, uint64_t conn) {
  uint8_t *frame;
  if (e->link.calls->frame_new(e->link.context, conn, 8, &frame) != ERR_OK)
    return false;
  memset(frame, 0, 8);
  return e->link.calls->frame_send(e->link.context, conn) == ERR_OK;
}

/* `dials` dials `listens`, whose gate has to be asked, and says something. */
static void ends_meet(struct end *listens, struct end *dials, const char *address) {
  dials->link.calls->dial(dials->link.context, 0, address);
  for (uint64_t until_ms = world_now(dials->world) + SOON_MS; !listens->n_frames;) {
    ck_assert_uint_lt(world_now(dials->world), until_ms);
    end_wait(listens, 1);
    end_wait(dials, 1);
    if (dials->is_connected && !listens->n_frames)
      (void)end_send(dials, 0);
  }
  listens->link.calls->set_session(listens->link.context, listens->conn, true); /* frames without one are counted */
}

enum { PATIENCE_MS = 2000, MANY = 150 };

struct two_ends {
  struct world *world;
  struct end listens, dials;
};

static struct two_ends *two_ends_new(void) {
  static struct two_ends t;
  t.world = world_new(2, true);
  const char *const listen[] = {t.world->agents[0].listen};
  end_open(&t.listens, t.world, listen);
  end_open(&t.dials, t.world, NULL);
  ends_meet(&t.listens, &t.dials, listen[0]);
  return &t;
}

static void two_ends_free(struct two_ends *t) {
  t->dials.link.calls->close(t->dials.link.context);
  t->listens.link.calls->close(t->listens.link.context);
  world_free(t->world);
}

/* What comes while it sends, libzmq takes from the descriptor that would tell of it. */
START_TEST(a_frame_that_came_while_sending_is_told_at_once) {
  struct two_ends *t = two_ends_new();
  for (unsigned i = 0; i < MANY; i++) {
    unsigned before = t->listens.n_frames;
    while (!end_send(&t->dials, 0))
      end_wait(&t->dials, 1);
    end_wait(&t->dials, 0);
    rest((uint64_t)10 * i);
    (void)end_send(&t->listens, t->listens.conn);
    while (t->listens.n_frames == before)
      ck_assert_uint_lt(end_wait(&t->listens, PATIENCE_MS), PATIENCE_MS);
  }
  two_ends_free(t);
}
END_TEST

/* A slow receiver, behind whom the next frames are always there already. */
START_TEST(what_did_not_fit_in_one_turn_is_told_in_the_next) {
  struct two_ends *t = two_ends_new();
  unsigned n_sent = t->listens.n_frames;
  for (uint64_t until_ms = world_now(t->world) + SOON_MS; n_sent < MANY && world_now(t->world) < until_ms;)
    n_sent += end_send(&t->dials, 0);
  ck_assert_uint_ge(n_sent, MANY);
  t->listens.rest_us = 500;
  while (t->listens.n_frames < n_sent)
    ck_assert_uint_lt(end_wait(&t->listens, PATIENCE_MS), PATIENCE_MS);
  two_ends_free(t);
}
END_TEST

int main(void) {
  TCase *tcase = tcase_create("zmq_link");
  tcase_set_timeout(tcase, 30);
  tcase_add_test(tcase, three_agents_meet_and_a_payload_arrives_whole);
  tcase_add_test(tcase, tcp_carries_a_payload_to_the_dialler);
  tcase_add_test(tcase, a_payload_that_is_gone_leaves_the_connections_whole);
  tcase_add_test(tcase, a_wrong_key_gets_silence_and_is_counted);
  tcase_add_test(tcase, with_the_gate_shut_nobody_enters);
  tcase_add_test(tcase, one_address_has_eight_connections_without_a_session);
  tcase_add_test(tcase, a_connection_that_names_itself_is_ended);
  tcase_add_test(tcase, a_kick_ends_the_connection);
  tcase_add_test(tcase, a_peer_that_closes_says_bye_and_is_dialled_again);
  tcase_add_loop_test(tcase, one_bogus_answer_does_not_stop_the_link, 0, sizeof bogus / sizeof *bogus);
  tcase_add_test(tcase, what_is_not_an_agent_is_said_in_words);
  tcase_add_test(tcase, an_address_in_use_is_named);
  tcase_add_test(tcase, lent_descriptors_are_polled);
  tcase_add_test(tcase, a_frame_that_came_while_sending_is_told_at_once);
  tcase_add_test(tcase, what_did_not_fit_in_one_turn_is_told_in_the_next);
  return suite_run_case("zmq_link", tcase);
}
