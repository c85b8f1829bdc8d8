#include "gossip/zmq_link.h"

#include <errno.h>
#include <malloc.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <zmq.h>

#include "base/must.h"
#include "crypto/random.h"
#include "gossip/gate.h"

enum {
  SOCKET_OPTION_ZAP_ENFORCE_DOMAIN = 93, /* ZMQ_ZAP_ENFORCE_DOMAIN: in the library, not in the public header */
  ROUTING_ID_BYTES = 5,                  /* what a ROUTER gives a connection that has not named itself: 0, u32 */
  MAX_ZAP_PARTS = 8,
  MAX_FRAMES_AT_ONCE = 64,
  MAX_LENT = 64,
  CLOSE_LINGER_MS = 200,
  SELF_TEST_MS = 10 * 1000, /* on a host that is busy with something else */
  MAX_UNACKNOWLEDGED_BEATS = 3,
  NEVER_MS = 24 * 3600 * 1000,
  SOCKETS_PER_PORT = 4, /* the port, its monitor and the end of it inside libzmq */
  KEPT_BYTES = 8 << 20,
};

static const char gate_domain[] = "starling", gate_address[] = "inproc://zeromq.zap.01";

enum dial_step { DIAL_IDLE, DIAL_TRYING, DIAL_STANDS, DIAL_OVER /* what was sent before is still to be read */ };

/* One bound ROUTER or one DEALER, with the socket that tells of its connections. */
struct port {
  void *socket, *monitor;    /* NULL: a peer that was not dialled yet */
  int socket_fd, monitor_fd; /* that tell of what is new */
  bool is_new;               /* a socket tells only of what comes after it was once found empty */
  bool is_touched;           /* used since it was last asked what can be read */
  bool is_ready;             /* has something to be handled */
  enum dial_step step;
  char address[MAX_ADDRESS_BYTES];
};

struct zmq_link {
  struct zmq_link_config config;
  struct link_sink sink;
  void *context, *zap;
  int zap_fd;         /* −1: the gate is shut */
  bool is_gate_ready; /* somebody may have asked it */
  struct port *ports; /* n_listen ROUTERs, then n_peers DEALERs */
  size_t n_ports;
  struct pollfd *fds;
  struct gate gate;
  zmq_msg_t frame;   /* going out */
  uint64_t envelope; /* the accepted connection whose routing id is written already, or CONN_NONE */
};

static uint64_t now(const struct zmq_link *l) {
  return l->config.now_ms(l->config.now_context);
}

static bool is_router(const struct zmq_link *l, const struct port *port) {
  return (size_t)(port - l->ports) < l->config.n_listen;
}

/* ---- sockets ------------------------------------------------------------------------------------------------------------ */

struct option {
  int name, value;
};

static bool options_set(void *socket, const struct option *options, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (zmq_setsockopt(socket, options[i].name, &options[i].value, sizeof options[i].value) != 0)
      return false;
  return true;
}

/* IPv6 only where an address can be one: a host without IPv6 keeps working. */
static int needs_ipv6(const char *address) {
  return strncmp(address, "tcp://", 6) == 0 && strspn(address + 6, "0123456789.:") != strlen(address + 6);
}

/* Sessions have beats of their own instead of ZMQ_HEARTBEAT_IVL: a ping that is due on a connection which broke while its
 * input was full (an agent that was stopped and goes on) ends the whole process (libzmq 4.3.4, its issue 4364). */
static void *socket_new(const struct zmq_link *l, int type, const char *address) {
  const struct option options[] = {
      {ZMQ_LINGER, 0},          /* else closing waits for ever for a peer that is gone */
      {ZMQ_SNDHWM, SOCKET_HWM}, /* high-water marks count messages: 8 of one chunk */
      {ZMQ_RCVHWM, SOCKET_HWM},
      {ZMQ_HANDSHAKE_IVL, 2000}, /* a half-open connection costs a descriptor for 2 s */
      {ZMQ_TCP_MAXRT, 1000 * MAX_UNACKNOWLEDGED_BEATS * l->config.beat_s}, /* a link that drops all is noticed */
      {ZMQ_IPV6, needs_ipv6(address)},
  };
  const struct option of_router[] = {
      {ZMQ_ROUTER_MANDATORY, 1},             /* a full or dead connection is an error, not silence */
      {ZMQ_ROUTER_HANDOVER, 0},              /* nobody takes over another one's routing id */
      {SOCKET_OPTION_ZAP_ENFORCE_DOMAIN, 1}, /* without an answer from the gate nobody enters */
  };
  const struct option of_dealer[] = {
      {ZMQ_IMMEDIATE, 0},            /* 1 would drop what came just before the end; we send only while it stands */
      {ZMQ_RECONNECT_IVL, NEVER_MS}, /* redialling is the node's; -1 would drop it too */
  };
  int64_t max_bytes = MAX_FRAME_BYTES; /* memory that somebody without a session can pin */
  void *s = zmq_socket(l->context, type);
  if (!s)
    return NULL;
  bool is_set = options_set(s, options, sizeof options / sizeof *options) &&
                zmq_setsockopt(s, ZMQ_MAXMSGSIZE, &max_bytes, sizeof max_bytes) == 0;
  if (type == ZMQ_ROUTER)
    is_set = is_set && zmq_setsockopt(s, ZMQ_ZAP_DOMAIN, gate_domain, sizeof gate_domain - 1) == 0 &&
             options_set(s, of_router, sizeof of_router / sizeof *of_router);
  else
    is_set = is_set && options_set(s, of_dealer, sizeof of_dealer / sizeof *of_dealer);
  if (!is_set) {
    zmq_close(s);
    return NULL;
  }
  return s;
}

static void *monitor_new(void *context, void *socket, const char *name) {
  const struct option options[] = {{ZMQ_LINGER, 0}, {ZMQ_RCVHWM, 0}}; /* the I/O thread must never wait for us */
  char address[64];
  snprintf(address, sizeof address, "inproc://monitor.%s", name);
  /* not its own end: libzmq would wait for ever to tell that to a monitor that could not be made */
  if (zmq_socket_monitor(socket, address, ZMQ_EVENT_ALL & ~ZMQ_EVENT_MONITOR_STOPPED) != 0)
    return NULL;
  void *monitor = zmq_socket(context, ZMQ_PAIR);
  if (monitor && options_set(monitor, options, sizeof options / sizeof *options) && zmq_connect(monitor, address) == 0)
    return monitor;
  if (monitor)
    zmq_close(monitor);
  return NULL;
}

static int descriptor_of(void *socket) {
  int fd = -1;
  size_t n = sizeof fd;
  (void)zmq_getsockopt(socket, ZMQ_FD, &fd, &n);
  return fd;
}

static bool port_open(struct zmq_link *l, struct port *port, int type) {
  char name[32];
  snprintf(name, sizeof name, "%zu", (size_t)(port - l->ports));
  port->socket = socket_new(l, type, port->address);
  port->monitor = port->socket ? monitor_new(l->context, port->socket, name) : NULL;
  if (!port->monitor)
    return false;
  port->socket_fd = descriptor_of(port->socket);
  port->monitor_fd = descriptor_of(port->monitor);
  port->is_new = true;
  return true;
}

static void port_close(struct port *port, int linger_ms) {
  const struct option linger = {ZMQ_LINGER, linger_ms};
  if (port->socket) {
    zmq_socket_monitor(port->socket, NULL, 0);
    (void)options_set(port->socket, &linger, 1);
    zmq_close(port->socket);
  }
  if (port->monitor)
    zmq_close(port->monitor);
  *port = (struct port){0};
}

/* The next message of one or more parts; the number of parts, of which the first `capacity` are kept in `parts`, or 0
 * when none waits. The caller closes them. */
static size_t parts_receive(void *socket, zmq_msg_t *parts, size_t capacity) {
  size_t n = 0;
  bool has_more = true;
  while (has_more) {
    zmq_msg_t part;
    zmq_msg_init(&part);
    if (zmq_msg_recv(&part, socket, ZMQ_DONTWAIT) < 0) {
      zmq_msg_close(&part);
      break;
    }
    has_more = zmq_msg_more(&part);
    if (n < capacity) {
      zmq_msg_init(&parts[n]);
      zmq_msg_move(&parts[n], &part);
    }
    zmq_msg_close(&part);
    n++;
  }
  return n;
}

static void parts_close(zmq_msg_t *parts, size_t n, size_t capacity) {
  for (size_t i = 0; i < n && i < capacity; i++)
    zmq_msg_close(&parts[i]);
}

/* ---- events of connections ------------------------------------------------------------------------------------------------ */

/* An event and its number: a descriptor, a status or an interval. False when none waits. */
static bool event_take(void *monitor, uint16_t *out_event, int32_t *out_value) {
  zmq_msg_t parts[2];
  size_t n = parts_receive(monitor, parts, 2);
  bool is_event = n == 2 && zmq_msg_size(&parts[0]) == sizeof *out_event + sizeof *out_value;
  if (is_event) {
    const uint8_t *bytes = zmq_msg_data(&parts[0]);
    memcpy(out_event, bytes, sizeof *out_event);
    memcpy(out_value, bytes + sizeof *out_event, sizeof *out_value);
  }
  parts_close(parts, n, 2);
  return is_event;
}

/* Addresses as people write them; every IPC connection has the same. */
static void address_show(const char *numeric, char out_address[GATE_ADDRESS_BYTES]) {
  static const char mapped[] = "::ffff:"; /* IPv4 as seen by an IPv6 socket */
  if (strncmp(numeric, mapped, sizeof mapped - 1) == 0)
    numeric += sizeof mapped - 1;
  bool is_ipc = numeric[0] == '\0' || numeric[0] == 'l'; /* libzmq: "localhost:" and the credentials */
  snprintf(out_address, GATE_ADDRESS_BYTES, "%s", is_ipc ? "ipc" : numeric);
}

static void address_of_fd(int fd, char out_address[GATE_ADDRESS_BYTES]) {
  struct sockaddr_storage who = {0};
  socklen_t n_who = sizeof who;
  char numeric[GATE_ADDRESS_BYTES] = "";
  if (getpeername(fd, (struct sockaddr *)&who, &n_who) == 0 && who.ss_family != AF_UNIX)
    (void)getnameinfo((struct sockaddr *)&who, n_who, numeric, sizeof numeric, NULL, 0, NI_NUMERICHOST);
  address_show(numeric, out_address);
}

static void row_end(struct zmq_link *l, struct gate_row *row) {
  uint64_t conn = row->conn;
  gate_remove(&l->gate, row);
  if (conn != CONN_NONE)
    l->sink.on_gone(l->sink.context, conn);
}

static void on_accepted(struct zmq_link *l, int fd) {
  struct gate_row *old = gate_find_fd(&l->gate, fd);
  if (old)
    row_end(l, old);
  char address[GATE_ADDRESS_BYTES];
  address_of_fd(fd, address);
  if (!gate_add(&l->gate, fd, address, now(l))) {
    shutdown(fd, SHUT_RDWR);
    l->sink.on_gate(l->sink.context, address);
  }
}

static void on_router_event(struct zmq_link *l, uint16_t event, int32_t value) {
  if (event == ZMQ_EVENT_ACCEPTED) {
    on_accepted(l, value);
  } else if (event == ZMQ_EVENT_DISCONNECTED) {
    struct gate_row *row = gate_find_fd(&l->gate, value);
    if (row)
      row->is_over = true;
  }
}

/* A dial has one outcome, and after it has stood, one end; what else libzmq says about it is not told on. */
static void on_dealer_event(struct zmq_link *l, struct port *port, uint16_t event) {
  static const struct outcome {
    uint16_t event;
    enum dial_step in, next;
    enum dial_event tells;
  } outcomes[] = {
      {ZMQ_EVENT_HANDSHAKE_SUCCEEDED, DIAL_TRYING, DIAL_STANDS, DIAL_CONNECTED},
      {ZMQ_EVENT_CLOSED, DIAL_TRYING, DIAL_IDLE, DIAL_FAILED},
      {ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL, DIAL_TRYING, DIAL_IDLE, DIAL_GARBLED},
      {ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL, DIAL_TRYING, DIAL_IDLE, DIAL_GARBLED},
      {ZMQ_EVENT_HANDSHAKE_FAILED_AUTH, DIAL_TRYING, DIAL_IDLE, DIAL_REFUSED},
      {ZMQ_EVENT_DISCONNECTED, DIAL_TRYING, DIAL_IDLE, DIAL_GARBLED},
  };
  if (event == ZMQ_EVENT_DISCONNECTED && port->step == DIAL_STANDS)
    port->step = DIAL_OVER;
  for (size_t i = 0; i < sizeof outcomes / sizeof *outcomes; i++) {
    const struct outcome *o = &outcomes[i];
    if (o->event != event || o->in != port->step)
      continue;
    port->step = o->next;
    l->sink.on_dial(l->sink.context, (size_t)(port - l->ports) - l->config.n_listen, o->tells);
    return;
  }
}

static void drain_monitor(struct zmq_link *l, struct port *port) {
  uint16_t event;
  int32_t value;
  while (port->monitor && event_take(port->monitor, &event, &value)) {
    if (is_router(l, port))
      on_router_event(l, event, value);
    else
      on_dealer_event(l, port, event);
  }
}

/* Connections that have ended and been read to their end. */
static void end_connections(struct zmq_link *l) {
  for (struct gate_row *row; (row = gate_find_over(&l->gate));)
    row_end(l, row);
  for (size_t i = l->config.n_listen; i < l->n_ports; i++)
    if (l->ports[i].step == DIAL_OVER) {
      l->ports[i].step = DIAL_IDLE;
      l->sink.on_dial(l->sink.context, i - l->config.n_listen, DIAL_LOST);
    }
}

/* ---- the gate -------------------------------------------------------------------------------------------------------------- */

/* A request of the ZeroMQ Authentication Protocol (RFC 27): version, id, domain, address, routing id, mechanism. */
struct zap_request {
  zmq_msg_t parts[MAX_ZAP_PARTS];
  size_t n;
};

static bool zap_receive(void *zap, struct zap_request *out_request) {
  out_request->n = parts_receive(zap, out_request->parts, MAX_ZAP_PARTS);
  return out_request->n > 0;
}

static void zap_address(struct zap_request *r, char out_address[GATE_ADDRESS_BYTES]) {
  char numeric[GATE_ADDRESS_BYTES] = "";
  if (r->n > 3 && r->n <= MAX_ZAP_PARTS && zmq_msg_size(&r->parts[3]) < sizeof numeric) {
    memcpy(numeric, zmq_msg_data(&r->parts[3]), zmq_msg_size(&r->parts[3]));
    numeric[zmq_msg_size(&r->parts[3])] = '\0';
  }
  address_show(numeric, out_address);
}

static void zap_send(void *zap, const void *bytes, size_t n, bool has_more) {
  (void)zmq_send(zap, bytes, n, ZMQ_DONTWAIT | (has_more ? ZMQ_SNDMORE : 0));
}

/* Version, id, status, its text, user id, metadata. */
static void zap_reply(void *zap, struct zap_request *r, bool is_admitted) {
  bool has_id = r->n > 1;
  zap_send(zap, "1.0", 3, true);
  zap_send(zap, has_id ? zmq_msg_data(&r->parts[1]) : "", has_id ? zmq_msg_size(&r->parts[1]) : 0, true);
  zap_send(zap, is_admitted ? "200" : "400", 3, true);
  zap_send(zap, "", 0, true);
  zap_send(zap, "", 0, true);
  zap_send(zap, "", 0, false);
  parts_close(r->parts, r->n, MAX_ZAP_PARTS);
}

static void answer_gate(struct zmq_link *l) {
  struct zap_request request;
  while (l->zap && zap_receive(l->zap, &request)) {
    char address[GATE_ADDRESS_BYTES];
    zap_address(&request, address);
    for (size_t i = 0; i < l->config.n_listen; i++)
      drain_monitor(l, &l->ports[i]); /* that the connection was accepted was said before it asked */
    bool is_admitted = gate_admit(&l->gate, address);
    zap_reply(l->zap, &request, is_admitted);
    if (!is_admitted)
      l->sink.on_gate(l->sink.context, address);
  }
}

void zmq_link_shut_gate(struct zmq_link *l) {
  if (l->zap)
    zmq_close(l->zap);
  l->zap = NULL;
  l->zap_fd = -1;
}

static void *zap_open(void *context) {
  const struct option linger = {ZMQ_LINGER, 0};
  void *zap = zmq_socket(context, ZMQ_REP);
  if (zap && options_set(zap, &linger, 1) && zmq_bind(zap, gate_address) == 0)
    return zap;
  if (zap)
    zmq_close(zap);
  return NULL;
}

/* ---- proof of the gate: one connection refused, one admitted ---------------------------------------------------------------- */

struct self_test {
  void *zap, *server, *monitor;
  char address[64];
};

/* Dials with a fresh client and answers its request; whether it came in. ERR_TIMED_OUT: the gate was never asked. */
static enum err self_test_enter(struct self_test *t, const struct zmq_link *l, bool admits, bool *out_entered) {
  void *client = socket_new(l, ZMQ_DEALER, t->address);
  if (!client)
    return ERR_IO;
  if (zmq_connect(client, t->address) != 0) {
    zmq_close(client);
    return ERR_IO;
  }
  bool is_asked = false, is_decided = false;
  for (int left_ms = SELF_TEST_MS; left_ms > 0 && !is_decided; left_ms -= 10) {
    zmq_pollitem_t items[] = {{.socket = t->zap, .events = ZMQ_POLLIN}, {.socket = t->monitor, .events = ZMQ_POLLIN}};
    zmq_poll(items, 2, 10);
    struct zap_request request;
    if (zap_receive(t->zap, &request)) {
      zap_reply(t->zap, &request, admits);
      is_asked = true;
    }
    uint16_t event;
    int32_t value;
    while (event_take(t->monitor, &event, &value)) {
      bool has_entered = event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED;
      if (has_entered || event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) {
        is_decided = true;
        *out_entered = has_entered;
      }
    }
  }
  zmq_close(client);
  return is_asked && is_decided ? ERR_OK : ERR_TIMED_OUT;
}

static enum err self_test_run(struct self_test *t, const struct zmq_link *l) {
  snprintf(t->address, sizeof t->address, "ipc://@starling-gate-%016llx", (unsigned long long)random_u64());
  t->server = socket_new(l, ZMQ_ROUTER, t->address);
  t->monitor = t->server ? monitor_new(l->context, t->server, "self-test") : NULL;
  if (!t->monitor || zmq_bind(t->server, t->address) != 0)
    return ERR_IO;
  bool refused_entered = true, admitted_entered = false;
  enum err e = self_test_enter(t, l, false, &refused_entered);
  if (e == ERR_OK)
    e = self_test_enter(t, l, true, &admitted_entered);
  if (e == ERR_OK && (refused_entered || !admitted_entered))
    e = ERR_PERMISSION;
  return e;
}

static enum err gate_open(struct zmq_link *l, char out_why[MAX_REASON_BYTES]) {
  l->zap = zap_open(l->context);
  l->zap_fd = l->zap ? descriptor_of(l->zap) : -1;
  l->is_gate_ready = true;
  struct self_test t = {.zap = l->zap};
  enum err e = t.zap ? self_test_run(&t, l) : ERR_IO;
  struct port server = {.socket = t.server, .monitor = t.monitor};
  port_close(&server, 0);
  if (e != ERR_OK)
    snprintf(out_why, MAX_REASON_BYTES, "the connection gate does not work with this libzmq: %s", err_sentence(e));
  return e;
}

/* ---- frames in ---------------------------------------------------------------------------------------------------------------- */

/* The number of an accepted connection, or CONN_NONE when it has named itself: none of ours does. */
static uint64_t conn_of(const struct zmq_link *l, const struct port *port, zmq_msg_t *routing_id) {
  const uint8_t *id = zmq_msg_data(routing_id);
  if (zmq_msg_size(routing_id) != ROUTING_ID_BYTES || id[0] != 0)
    return CONN_NONE;
  uint32_t number;
  memcpy(&number, id + 1, sizeof number);
  return CONN_ACCEPTED | (uint64_t)(port - l->ports) << 32 | number;
}

static void receive_accepted(struct zmq_link *l, struct port *port, zmq_msg_t *parts, size_t n) {
  int fd = zmq_msg_get(&parts[1], ZMQ_SRCFD);
  struct gate_row *row = gate_find_fd(&l->gate, fd);
  uint64_t conn = conn_of(l, port, &parts[0]);
  if (!row)
    return;
  if (conn == CONN_NONE || n != 2) { /* not one of ours */
    gate_kick(row, now(l));
    return;
  }
  row->conn = conn;
  row->is_admitted = true;
  if (!gate_take_frame(row, now(l)))
    return;
  char address[GATE_ADDRESS_BYTES];
  memcpy(address, row->address, sizeof address); /* rows move while the frame is handled */
  l->sink.on_frame(l->sink.context, conn, address, zmq_msg_data(&parts[1]), zmq_msg_size(&parts[1]));
}

static void receive_port(struct zmq_link *l, struct port *port) {
  zmq_msg_t parts[2];
  size_t n;
  int i = 0;
  for (; i < MAX_FRAMES_AT_ONCE && (n = parts_receive(port->socket, parts, 2)) > 0; i++) {
    if (is_router(l, port) && n >= 2)
      receive_accepted(l, port, parts, n);
    else if (!is_router(l, port) && n == 1 && port->step >= DIAL_STANDS)
      l->sink.on_frame(l->sink.context, (size_t)(port - l->ports) - l->config.n_listen, port->address,
                       zmq_msg_data(&parts[0]), zmq_msg_size(&parts[0]));
    parts_close(parts, n, 2);
  }
  port->is_touched |= i == MAX_FRAMES_AT_ONCE;
}

/* ---- the functions of a link ---------------------------------------------------------------------------------------------------- */

/* The connection's port, to be used: libzmq may then take what the descriptor would have told. */
static struct port *port_use(struct zmq_link *l, uint64_t conn) {
  size_t i = conn_is_accepted(conn) ? (conn & ~CONN_ACCEPTED) >> 32 : l->config.n_listen + conn;
  l->ports[i].is_touched = true;
  return &l->ports[i];
}

/* What was begun for a connection is ended without a frame. */
static void envelope_end(struct zmq_link *l) {
  (void)zmq_send(port_use(l, l->envelope)->socket, "", 0, ZMQ_DONTWAIT);
  l->envelope = CONN_NONE;
}

/* A ROUTER is asked for room by the first part of the message, the routing id. */
static enum err envelope_open(struct zmq_link *l, struct port *port, uint64_t conn) {
  if (l->envelope == conn)
    return ERR_OK; /* of a frame that was dropped */
  if (l->envelope != CONN_NONE)
    envelope_end(l);
  uint8_t id[ROUTING_ID_BYTES] = {0};
  uint32_t number = (uint32_t)conn;
  memcpy(id + 1, &number, sizeof number);
  if (zmq_send(port->socket, id, sizeof id, ZMQ_DONTWAIT | ZMQ_SNDMORE) < 0)
    return errno == EAGAIN ? ERR_BUSY : ERR_NOT_CONNECTED;
  l->envelope = conn;
  return ERR_OK;
}

static bool has_event(void *socket, int event) {
  int events = 0;
  size_t n = sizeof events;
  return zmq_getsockopt(socket, ZMQ_EVENTS, &events, &n) == 0 && (events & event) != 0;
}

static enum err room_find(struct zmq_link *l, uint64_t conn) {
  struct port *port = port_use(l, conn);
  if (conn_is_accepted(conn))
    return envelope_open(l, port, conn);
  if (port->step != DIAL_STANDS)
    return ERR_NOT_CONNECTED;
  return has_event(port->socket, ZMQ_POLLOUT) ? ERR_OK : ERR_BUSY;
}

static enum err frame_new(void *context, uint64_t conn, size_t n, uint8_t **out_frame) {
  struct zmq_link *l = context;
  enum err e = room_find(l, conn);
  if (e != ERR_OK)
    return e;
  zmq_msg_close(&l->frame);
  if (zmq_msg_init_size(&l->frame, n) != 0) {
    zmq_msg_init(&l->frame);
    return ERR_NO_MEMORY;
  }
  *out_frame = zmq_msg_data(&l->frame);
  return ERR_OK;
}

static void frame_drop(void *context) {
  struct zmq_link *l = context;
  zmq_msg_close(&l->frame);
  zmq_msg_init(&l->frame);
}

static enum err frame_send(void *context, uint64_t conn) {
  struct zmq_link *l = context;
  bool is_sent = zmq_msg_send(&l->frame, port_use(l, conn)->socket, ZMQ_DONTWAIT) >= 0;
  frame_drop(l);
  l->envelope = CONN_NONE;
  return is_sent ? ERR_OK : ERR_NOT_CONNECTED;
}

static void hang_up(void *context, size_t peer) {
  struct zmq_link *l = context;
  struct port *port = port_use(l, peer);
  if (port->socket)
    (void)zmq_disconnect(port->socket, port->address); /* ENOENT: libzmq has given it up already */
  port->step = DIAL_IDLE;
}

static void dial(void *context, size_t peer, const char *address) {
  struct zmq_link *l = context;
  struct port *port = &l->ports[l->config.n_listen + peer];
  hang_up(l, peer);
  snprintf(port->address, sizeof port->address, "%s", address); /* another one, if the peer has moved */
  bool is_ready = port->socket || port_open(l, port, ZMQ_DEALER);
  port->step = DIAL_TRYING;
  if (is_ready && zmq_connect(port->socket, address) == 0)
    return;
  if (!is_ready)
    port_close(port, 0);
  port->step = DIAL_IDLE; /* the node's patience ends and it dials again */
}

static void kick(void *context, uint64_t conn) {
  struct zmq_link *l = context;
  struct gate_row *row = gate_find_conn(&l->gate, conn);
  if (row)
    gate_kick(row, now(l));
}

static void set_session(void *context, uint64_t conn, bool has_session) {
  struct zmq_link *l = context;
  struct gate_row *row = gate_find_conn(&l->gate, conn);
  if (row)
    gate_set_session(row, has_session, now(l));
}

static int poll_ms(struct zmq_link *l, int64_t timeout_ms) {
  uint64_t due_ms = gate_due_ms(&l->gate), now_ms = now(l);
  if (due_ms != UINT64_MAX) {
    int64_t until_ms = due_ms > now_ms ? (int64_t)(due_ms - now_ms) : 0;
    timeout_ms = timeout_ms < 0 || until_ms < timeout_ms ? until_ms : timeout_ms;
  }
  return timeout_ms < NEVER_MS ? (int)timeout_ms : NEVER_MS;
}

static void close_overdue(struct zmq_link *l) {
  for (struct gate_row *row; (row = gate_overdue(&l->gate, now(l)));)
    shutdown(row->fd, SHUT_RDWR); /* libzmq notices and says so */
}

/* Accepted before asked before sent: that order keeps a descriptor that is used again from being mistaken. */
static void handle_ready(struct zmq_link *l) {
  if (l->is_gate_ready)
    answer_gate(l);
  l->is_gate_ready = false;
  for (size_t i = 0; i < l->n_ports; i++)
    if (l->ports[i].is_ready)
      drain_monitor(l, &l->ports[i]);
  for (size_t i = 0; i < l->n_ports; i++)
    if (l->ports[i].is_ready && l->ports[i].socket)
      receive_port(l, &l->ports[i]);
  end_connections(l);
  close_overdue(l);
}

/* A descriptor tells only of what is new, so a port that was used is asked itself; one that was not costs nothing. Being
 * told of more than ZMQ_POLLIN matters, too: of room in a connection that was full, which zmq_poll would sleep over. */
static bool has_ready(struct zmq_link *l) {
  bool has_any = l->is_gate_ready;
  for (size_t i = 0; i < l->n_ports; i++) {
    struct port *port = &l->ports[i];
    port->is_ready = port->is_new || (port->socket && port->is_touched && has_event(port->socket, ZMQ_POLLIN));
    port->is_new = port->is_touched = false;
    has_any |= port->is_ready;
  }
  return has_any;
}

static void add_fd(struct pollfd *fds, size_t *n, int fd, int events) {
  fds[(*n)++] = (struct pollfd){.fd = fd, .events = (short)events};
}

static void wait_link(void *context, struct link_fd *extra, size_t n_extra, int64_t timeout_ms) {
  struct zmq_link *l = context;
  MUST(n_extra <= MAX_LENT);
  size_t n = 0;
  for (size_t i = 0; i < n_extra; i++)
    add_fd(l->fds, &n, extra[i].fd, POLLIN | (extra[i].want_write ? POLLOUT : 0));
  add_fd(l->fds, &n, l->zap_fd, POLLIN);
  for (size_t i = 0; i < l->n_ports; i++) {
    add_fd(l->fds, &n, l->ports[i].socket ? l->ports[i].socket_fd : -1, POLLIN);
    add_fd(l->fds, &n, l->ports[i].socket ? l->ports[i].monitor_fd : -1, POLLIN);
  }
  if (poll(l->fds, n, has_ready(l) ? 0 : poll_ms(l, timeout_ms)) < 0)
    memset(l->fds, 0, n * sizeof *l->fds); /* a signal */
  for (size_t i = 0; i < n_extra; i++)
    extra[i].ready = l->fds[i].revents != 0;
  l->is_gate_ready |= l->fds[n_extra].revents != 0;
  const struct pollfd *of_ports = &l->fds[n_extra + 1];
  for (size_t i = 0; i < l->n_ports; i++)
    l->ports[i].is_ready |= of_ports[2 * i].revents != 0 || of_ports[2 * i + 1].revents != 0;
  handle_ready(l);
}

static void close_link(void *context) {
  struct zmq_link *l = context;
  if (!l)
    return;
  zmq_link_shut_gate(l);
  for (size_t i = 0; i < l->n_ports; i++)
    port_close(&l->ports[i], CLOSE_LINGER_MS);
  zmq_msg_close(&l->frame);
  if (l->context)
    zmq_ctx_term(l->context);
  free(l->ports);
  free(l->fds);
  free(l);
}

/* ---- opening ---------------------------------------------------------------------------------------------------------------------- */

static enum err bind_error(int code) {
  static const struct {
    int code;
    enum err e;
  } table[] = {{EADDRINUSE, ERR_BUSY},         {EACCES, ERR_PERMISSION},      {EPERM, ERR_PERMISSION},
               {EINVAL, ERR_SYNTAX},           {EPROTONOSUPPORT, ERR_SYNTAX}, {ENODEV, ERR_NOT_FOUND},
               {EADDRNOTAVAIL, ERR_NOT_FOUND}, {ENOENT, ERR_NOT_FOUND},       {EROFS, ERR_READ_ONLY}};
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (table[i].code == code)
      return table[i].e;
  return ERR_IO;
}

static enum err listen_all(struct zmq_link *l, char out_why[MAX_REASON_BYTES]) {
  for (size_t i = 0; i < l->config.n_listen; i++) {
    const char *address = l->config.listen[i];
    snprintf(l->ports[i].address, sizeof l->ports[i].address, "%s", address);
    if (port_open(l, &l->ports[i], ZMQ_ROUTER) && zmq_bind(l->ports[i].socket, address) == 0)
      continue;
    int code = errno;
    snprintf(out_why, MAX_REASON_BYTES, "cannot listen on %.150s: %s", address, zmq_strerror(code));
    return bind_error(code);
  }
  return ERR_OK;
}

/* A frame's memory is freed and wanted again all the time, from two threads: with glibc's defaults it goes back to the
 * kernel each time, and the page faults cost more than sealing (a third of the CPU time of a transfer). */
static void keep_frame_memory(void) {
  mallopt(M_TRIM_THRESHOLD, KEPT_BYTES);
  mallopt(M_TOP_PAD, KEPT_BYTES / 8);
}

static struct zmq_link *link_new(const struct zmq_link_config *config, const struct link_sink *sink) {
  size_t n_ports = config->n_listen + config->n_peers;
  struct zmq_link *l = calloc(1, sizeof *l);
  if (!l)
    return NULL;
  l->config = *config;
  l->sink = *sink;
  l->ports = calloc(n_ports + 1, sizeof *l->ports);
  l->n_ports = n_ports;
  l->fds = calloc(MAX_LENT + 1 + 2 * n_ports, sizeof *l->fds);
  l->context = zmq_ctx_new();
  l->envelope = CONN_NONE;
  zmq_msg_init(&l->frame);
  if (l->ports && l->fds && l->context &&
      zmq_ctx_set(l->context, ZMQ_MAX_SOCKETS, (int)(SOCKETS_PER_PORT * (n_ports + 4))) == 0)
    return l;
  if (!l->ports)
    l->n_ports = 0;
  close_link(l);
  return NULL;
}

static const struct link_calls calls = {frame_new, frame_send,  frame_drop, dial,      hang_up,
                                        kick,      set_session, wait_link,  close_link};

enum err zmq_link_open(const struct zmq_link_config *config, const struct link_sink *sink, struct link *out_link,
                       char out_why[MAX_REASON_BYTES]) {
  keep_frame_memory();
  struct zmq_link *l = link_new(config, sink);
  if (!l) {
    snprintf(out_why, MAX_REASON_BYTES, "%s", err_sentence(ERR_NO_MEMORY));
    return ERR_NO_MEMORY;
  }
  enum err e = gate_open(l, out_why);
  if (e == ERR_OK)
    e = listen_all(l, out_why);
  if (e != ERR_OK) {
    close_link(l);
    return e;
  }
  *out_link = (struct link){l, &calls};
  return ERR_OK;
}
