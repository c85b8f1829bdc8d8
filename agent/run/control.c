#include "agent/run/control.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/file.h"
#include "base/must.h"

enum stage { STAGE_FREE, STAGE_ASKING, STAGE_WAITING, STAGE_READING };

struct client {
  enum stage stage;
  int fd;
  bool half_closed; /* it will send nothing more: no longer polled while it waits */
  uint64_t id;
  uint64_t due_ms;
  size_t n, sent;                    /* bytes of the line */
  char line[MAX_CONTROL_LINE_BYTES]; /* first the request, then the answer */
};

enum { MAX_SHOWN_PATH_BYTES = 128 };

/* Where it listens. */
struct socket_place {
  int folder;
  struct sockaddr_un address;       /* through the descriptor of the folder, so that a long path fits */
  char shown[MAX_SHOWN_PATH_BYTES]; /* for people: the end of the path, should it be long */
};

struct control {
  struct control_events events;
  struct socket_place place;
  int listener;
  uint64_t now_ms, last_id;
  struct client clients[MAX_CONTROL_CLIENTS]; /* pages are touched by long lines only */
};

/* ---- opening ---- */

__attribute__((format(printf, 3, 4))) static enum err fault(char why[MAX_REASON_BYTES], enum err e, const char *format,
                                                            ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(why, MAX_REASON_BYTES, format, args);
  va_end(args);
  return e;
}

static void path_show(const char *path, char out_shown[MAX_SHOWN_PATH_BYTES]) {
  size_t n = strlen(path);
  bool is_long = n >= MAX_SHOWN_PATH_BYTES;
  snprintf(out_shown, MAX_SHOWN_PATH_BYTES, "%s%s", is_long ? "…" : "",
           is_long ? path + n - (MAX_SHOWN_PATH_BYTES - 8) : path);
}

static enum err place_open(struct socket_place *p, const char *path, char why[MAX_REASON_BYTES]) {
  char folder[MAX_PATH_BYTES];
  const char *slash = strrchr(path, '/');
  path_folder(path, folder);
  path_show(path, p->shown);
  p->address.sun_family = AF_UNIX;
  p->folder = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (p->folder < 0)
    return fault(why, err_from_errno(errno), "%s: cannot listen: %s", p->shown, strerror(errno));
  int n = snprintf(p->address.sun_path, sizeof p->address.sun_path, "/proc/self/fd/%d/%s", p->folder,
                   slash ? slash + 1 : path);
  if (n < (int)sizeof p->address.sun_path)
    return ERR_OK;
  close(p->folder);
  return fault(why, ERR_LIMIT, "%s: longer than a socket's name may be", p->shown);
}

/* Whether somebody answers at the address. */
static enum err probe(const struct sockaddr_un *address) {
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0)
    return err_from_errno(errno);
  enum err e = ERR_LOCKED; /* a full backlog is an answer too */
  if (connect(fd, (const struct sockaddr *)address, sizeof *address) != 0 && errno != EAGAIN)
    e = errno == ECONNREFUSED || errno == ENOENT ? ERR_OK : err_from_errno(errno);
  close(fd);
  return e;
}

/* Removes what an agent that is gone has left. */
static enum err clear_place(const struct socket_place *p, char why[MAX_REASON_BYTES]) {
  const char *path = p->address.sun_path;
  struct stat st;
  if (lstat(path, &st) != 0)
    return errno == ENOENT ? ERR_OK : fault(why, err_from_errno(errno), "%s: %s", p->shown, strerror(errno));
  if (!S_ISSOCK(st.st_mode))
    return fault(why, ERR_EXISTS, "%s: not a socket; move it away or choose another state_dir", p->shown);
  enum err e = probe(&p->address);
  if (e == ERR_LOCKED)
    return fault(why, e, "%s: another agent answers there; stop it or choose another state_dir", p->shown);
  if (e != ERR_OK || (unlink(path) != 0 && errno != ENOENT))
    return fault(why, e != ERR_OK ? e : err_from_errno(errno), "%s: cannot replace the old socket", p->shown);
  return ERR_OK;
}

/* Nobody can connect before listen(), so the mode is in force in time. */
static enum err listen_at(const struct sockaddr_un *address, int *out_fd) {
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd >= 0 && bind(fd, (const struct sockaddr *)address, sizeof *address) == 0 &&
      chmod(address->sun_path, S_IRUSR | S_IWUSR) == 0 && listen(fd, MAX_CONTROL_CLIENTS) == 0) {
    *out_fd = fd;
    return ERR_OK;
  }
  enum err e = err_from_errno(errno);
  if (fd >= 0)
    close(fd);
  return e;
}

enum err control_open(const char *path, const struct control_events *events, struct control **out_control,
                      char out_why[MAX_REASON_BYTES]) {
  struct control *c = calloc(1, sizeof *c);
  if (c == NULL)
    return fault(out_why, ERR_NO_MEMORY, "%s", err_sentence(ERR_NO_MEMORY));
  c->events = *events;
  enum err e = place_open(&c->place, path, out_why);
  if (e != ERR_OK) {
    free(c);
    return e;
  }
  e = clear_place(&c->place, out_why);
  if (e == ERR_OK && (e = listen_at(&c->place.address, &c->listener)) != ERR_OK)
    e = fault(out_why, e, "%s: cannot listen: %s", c->place.shown, err_sentence(e));
  if (e != ERR_OK) {
    close(c->place.folder);
    free(c);
    return e;
  }
  *out_control = c;
  return ERR_OK;
}

static void client_close(struct client *client) {
  close(client->fd);
  client->stage = STAGE_FREE;
}

void control_close(struct control *c) {
  if (c == NULL)
    return;
  for (size_t i = 0; i < MAX_CONTROL_CLIENTS; i++)
    if (c->clients[i].stage != STAGE_FREE)
      client_close(&c->clients[i]);
  unlink(c->place.address.sun_path);
  close(c->place.folder);
  close(c->listener);
  free(c);
}

/* ---- answering ---- */

static void enter(struct control *c, struct client *client, enum stage stage) {
  client->stage = stage;
  client->due_ms = c->now_ms + (stage == STAGE_WAITING ? CONTROL_WAITING_MS : CONTROL_STAGE_MS);
}

static void client_write(struct client *client) {
  ssize_t n = send(client->fd, client->line + client->sent, client->n - client->sent, MSG_NOSIGNAL);
  if (n < 0 && (errno == EAGAIN || errno == EINTR))
    return;
  client->sent += n > 0 ? (size_t)n : 0;
  if (n <= 0 || client->sent == client->n)
    client_close(client);
}

/* The longest list of an answer: data itself or a member of it. */
static json_t *longest_list(json_t *data, const char **out_name) {
  json_t *longest = json_is_array(data) ? data : NULL, *member;
  const char *name;
  *out_name = "list";
  json_object_foreach(data, name, member) {
    if (json_is_array(member) && json_array_size(member) > json_array_size(longest)) {
      longest = member;
      *out_name = name;
    }
  }
  return longest;
}

/* Cuts the longest list to what should fit, less a tenth for what is no list. false: there is nothing to cut. */
static bool cut(json_t *envelope, size_t n_bytes, size_t capacity) {
  const char *name;
  json_t *list = longest_list(json_object_get(envelope, "data"), &name);
  size_t n = json_array_size(list);
  if (n == 0)
    return false;
  size_t kept = (size_t)(0.9 * (double)n * (double)capacity / (double)n_bytes);
  while (json_array_size(list) > kept)
    json_array_remove(list, json_array_size(list) - 1);
  char warning[MAX_REASON_BYTES];
  snprintf(warning, sizeof warning, "%s: cut to the first %zu of %zu, the answer was too long", name, kept, n);
  json_array_append_new(json_object_get(envelope, "warnings"), json_string(warning));
  return true;
}

/* Writes the envelope as the client's line. false: it does not fit. */
static bool line_write(struct client *client, json_t *envelope) {
  const size_t capacity = sizeof client->line - 1;
  size_t n;
  while ((n = json_dumpb(envelope, client->line, capacity, JSON_COMPACT)) > capacity)
    if (!cut(envelope, n, capacity))
      return false;
  client->line[n] = '\n';
  client->n = n + 1;
  client->sent = 0;
  return n > 0;
}

static json_t *failure(enum err e, const char *message, const char *hint) {
  return json_pack("{s:i, s:b, s:{s:s, s:s, s:s*}, s:[]}", "schema", 1, "ok", 0, "error", "code", err_name(e),
                   "message", message, "hint", hint, "warnings");
}

/* `envelope` is stolen; NULL means that it could not be made. */
static void client_answer(struct control *c, struct client *client, json_t *envelope) {
  bool fits = envelope != NULL && line_write(client, envelope);
  json_decref(envelope);
  if (!fits) {
    envelope = failure(ERR_LIMIT, "the answer is longer than a line may be", "ask for less at once");
    fits = envelope != NULL && line_write(client, envelope);
    json_decref(envelope);
  }
  if (!fits) {
    client_close(client);
    return;
  }
  enter(c, client, STAGE_READING);
  client_write(client);
}

static struct client *find_waiting(struct control *c, uint64_t id) {
  for (size_t i = 0; i < MAX_CONTROL_CLIENTS; i++)
    if (c->clients[i].stage == STAGE_WAITING && c->clients[i].id == id)
      return &c->clients[i];
  return NULL;
}

void control_answer(struct control *c, uint64_t client, json_t *data) {
  struct client *found = find_waiting(c, client);
  if (found != NULL)
    client_answer(c, found, json_pack("{s:i, s:b, s:O, s:[]}", "schema", 1, "ok", 1, "data", data, "warnings"));
  json_decref(data);
}

void control_fail(struct control *c, uint64_t client, enum err e, const char *message, const char *hint) {
  struct client *found = find_waiting(c, client);
  if (found != NULL)
    client_answer(c, found, failure(e, message, hint));
}

/* ---- asking ---- */

static void on_line(struct control *c, struct client *client, size_t n_line) {
  json_error_t error;
  json_t *request = json_loadb(client->line, n_line, JSON_REJECT_DUPLICATES, &error);
  enter(c, client, STAGE_WAITING);
  if (!json_is_object(request))
    control_fail(c, client->id, ERR_SYNTAX, request == NULL ? error.text : "the request is not an object", NULL);
  else
    c->events.on_request(c->events.context, client->id, request);
  json_decref(request);
}

/* One request a connection: what follows its line is a mistake of the client. */
static void on_bytes(struct control *c, struct client *client, size_t n_new) {
  const char *end = memchr(client->line + client->n, '\n', n_new);
  client->n += n_new;
  if (end == NULL && client->n < sizeof client->line)
    return;
  if (end != NULL && end + 1 == client->line + client->n) {
    on_line(c, client, (size_t)(end - client->line));
    return;
  }
  enter(c, client, STAGE_WAITING);
  if (end == NULL)
    control_fail(c, client->id, ERR_LIMIT, "the request is longer than a line may be", NULL);
  else
    control_fail(c, client->id, ERR_TRAILING, "one request a connection", NULL);
}

static void client_read(struct control *c, struct client *client) {
  ssize_t n = recv(client->fd, client->line + client->n, sizeof client->line - client->n, 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR))
    return;
  if (n <= 0)
    client_close(client);
  else
    on_bytes(c, client, (size_t)n);
}

/* A client that waits may close its sending side and still read, so an end of its bytes does not end it. */
static void client_listen(struct client *client) {
  char byte;
  ssize_t n = recv(client->fd, &byte, 1, 0);
  if (n == 0)
    client->half_closed = true;
  else if (n > 0 || (errno != EAGAIN && errno != EINTR))
    client_close(client);
}

static void client_ready(struct control *c, struct client *client) {
  switch (client->stage) {
  case STAGE_ASKING:
    client_read(c, client);
    break;
  case STAGE_WAITING:
    client_listen(client);
    break;
  case STAGE_READING:
    client_write(client);
    break;
  case STAGE_FREE:
    break;
  }
}

/* ---- arriving ---- */

static bool is_allowed(int fd) {
  struct ucred peer;
  socklen_t n = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) != 0)
    return false;
  return peer.uid == 0 || peer.uid == geteuid() || peer.gid == getegid();
}

static struct client *find_free(struct control *c) {
  for (size_t i = 0; i < MAX_CONTROL_CLIENTS; i++)
    if (c->clients[i].stage == STAGE_FREE)
      return &c->clients[i];
  return NULL;
}

static void on_connection(struct control *c, int fd) {
  if (!is_allowed(fd)) {
    close(fd);
    return;
  }
  struct client *client = find_free(c);
  client->fd = fd;
  client->id = ++c->last_id;
  client->half_closed = false;
  client->n = client->sent = 0;
  enter(c, client, STAGE_ASKING);
}

/* While all places are taken, whoever comes waits in the backlog. */
static void accept_all(struct control *c) {
  int fd;
  while (find_free(c) != NULL && (fd = accept4(c->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0)
    on_connection(c, fd);
}

/* ---- the loop's side ---- */

size_t control_fds(const struct control *c, struct link_fd out_fds[CONTROL_MAX_FDS]) {
  size_t n = 0;
  bool has_room = false;
  for (size_t i = 0; i < MAX_CONTROL_CLIENTS; i++) {
    const struct client *client = &c->clients[i];
    has_room = has_room || client->stage == STAGE_FREE;
    if (client->stage != STAGE_FREE && !(client->stage == STAGE_WAITING && client->half_closed))
      out_fds[n++] = (struct link_fd){.fd = client->fd, .want_write = client->stage == STAGE_READING};
  }
  if (has_room)
    out_fds[n++] = (struct link_fd){.fd = c->listener};
  return n;
}

static bool is_ready(const struct link_fd *fds, size_t n_fds, int fd) {
  for (size_t i = 0; i < n_fds; i++)
    if (fds[i].fd == fd)
      return fds[i].ready;
  return false;
}

void control_ready(struct control *c, const struct link_fd *fds, size_t n_fds, uint64_t now_ms) {
  c->now_ms = now_ms;
  for (size_t i = 0; i < MAX_CONTROL_CLIENTS; i++) {
    struct client *client = &c->clients[i];
    if (client->stage != STAGE_FREE && is_ready(fds, n_fds, client->fd))
      client_ready(c, client);
    if (client->stage != STAGE_FREE && client->due_ms <= now_ms)
      client_close(client);
  }
  if (is_ready(fds, n_fds, c->listener))
    accept_all(c);
}

uint64_t control_due_ms(const struct control *c) {
  uint64_t due = UINT64_MAX;
  for (size_t i = 0; i < MAX_CONTROL_CLIENTS; i++)
    if (c->clients[i].stage != STAGE_FREE && c->clients[i].due_ms < due)
      due = c->clients[i].due_ms;
  return due;
}
