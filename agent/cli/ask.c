#include "agent/cli/ask.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "agent/cli/answer.h"
#include "agent/cli/table.h"
#include "agent/clock.h"

static enum err wait_for(int fd, short events, int64_t deadline_ms) {
  int64_t left = deadline_ms - (int64_t)clock_ms();
  struct pollfd p = {.fd = fd, .events = events};
  int n = poll(&p, 1, left > 0 ? (int)left : 0);
  return n > 0 || (n < 0 && errno == EINTR && left > 0) ? ERR_OK : ERR_TIMED_OUT;
}

/* Through the descriptor of the folder, so that a long path fits into a socket address. */
static enum err dial(const char *state_dir, int *out_fd) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  int folder = open(state_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0)
    return errno == EACCES ? ERR_PERMISSION : ERR_NOT_CONNECTED;
  snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/" CONTROL_SOCKET, folder);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  int failed = fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0 ? errno : 0;
  close(folder);
  if (!failed) {
    *out_fd = fd;
    return ERR_OK;
  }
  if (fd >= 0)
    close(fd);
  return failed == EACCES || failed == EPERM ? ERR_PERMISSION : failed == EAGAIN ? ERR_TIMED_OUT : ERR_NOT_CONNECTED;
}

static enum err send_line(int fd, const char *line, int64_t deadline_ms) {
  for (size_t left = strlen(line); left > 0;) {
    ssize_t n = send(fd, line, left, MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EINTR)
      return ERR_NOT_CONNECTED;
    if (n < 0) {
      enum err e = wait_for(fd, POLLOUT, deadline_ms);
      if (e)
        return e;
      continue;
    }
    line += n;
    left -= (size_t)n;
  }
  return ERR_OK;
}

/* Reads up to the end of the line or of the stream. */
static enum err read_line(int fd, char *line, size_t capacity, int64_t deadline_ms) {
  for (size_t n = 0; n + 1 < capacity;) {
    ssize_t got = recv(fd, line + n, capacity - 1 - n, 0);
    if (got < 0 && errno != EAGAIN && errno != EINTR)
      return ERR_NOT_CONNECTED;
    if (got < 0) {
      enum err e = wait_for(fd, POLLIN, deadline_ms);
      if (e)
        return e;
      continue;
    }
    n += (size_t)got;
    line[n] = '\0';
    if (got == 0 || memchr(line, '\n', n))
      return n ? ERR_OK : ERR_NOT_CONNECTED;
  }
  return ERR_LIMIT;
}

static int64_t patience_ms(const json_t *request) {
  static const char *const from_memory[] = {"status", "peers", "health", "jobs"};
  const char *ask = json_string_value(json_object_get(request, "ask"));
  for (size_t i = 0; ask && i < sizeof from_memory / sizeof *from_memory; i++)
    if (strcmp(ask, from_memory[i]) == 0)
      return CONTROL_TIMEOUT_MS;
  return CONTROL_SLOW_TIMEOUT_MS;
}

static enum err exchange(const char *state_dir, const char *request, int64_t timeout_ms, char *line, size_t capacity) {
  int64_t deadline_ms = (int64_t)clock_ms() + timeout_ms;
  int fd;
  enum err e = dial(state_dir, &fd);
  if (e)
    return e;
  e = send_line(fd, request, deadline_ms);
  if (!e)
    e = send_line(fd, "\n", deadline_ms);
  if (!e)
    e = read_line(fd, line, capacity, deadline_ms);
  close(fd);
  return e;
}

static enum err take_envelope(struct call *call, json_t *envelope, json_t **out_data, char *why) {
  json_t *data = json_object_get(envelope, "data"), *warnings = json_object_get(envelope, "warnings");
  const char *message = json_string_value(json_at(envelope, "error.message"));
  bool is_ok = json_is_true(json_object_get(envelope, "ok"));
  bool says_it = is_ok ? json_is_object(data) : message && message[0] != '\0';
  if (json_integer_value(json_object_get(envelope, "schema")) != 1 || !says_it)
    return ERR_SYNTAX;
  if (!is_ok) {
    snprintf(why, MAX_CONFIG_WHY_BYTES, "%s", message);
    return ERR_STOPPED;
  }
  size_t i;
  json_t *warning;
  json_array_foreach(warnings, i, warning) {
    if (json_is_string(warning))
      json_array_append(call->warnings, warning);
  }
  *out_data = json_incref(data);
  return ERR_OK;
}

enum err agent_ask(struct call *call, const char *state_dir, json_t *request, json_t **out_data,
                   char why[MAX_CONFIG_WHY_BYTES]) {
  char *line = malloc(MAX_CONTROL_LINE_BYTES + 2), *text = json_dumps(request, JSON_COMPACT);
  enum err e =
      line && text ? exchange(state_dir, text, patience_ms(request), line, MAX_CONTROL_LINE_BYTES + 2) : ERR_NO_MEMORY;
  snprintf(why, MAX_CONFIG_WHY_BYTES, "%s/" CONTROL_SOCKET ": %s", state_dir,
           e == ERR_NOT_CONNECTED ? "no agent runs there" : err_sentence(e));
  json_t *envelope = e ? NULL : json_loads(line, 0, NULL);
  if (!e)
    e = take_envelope(call, envelope, out_data, why);
  if (e == ERR_SYNTAX)
    snprintf(why, MAX_CONFIG_WHY_BYTES, "%s/" CONTROL_SOCKET ": no answer of this version", state_dir);
  json_decref(envelope);
  json_decref(request);
  free(text);
  free(line);
  return e;
}

enum err agent_wait_between_rounds(struct call *call, const char *state_dir, const char *ask, double timeout_s,
                                   json_t *state, json_t **out_state, char why[MAX_CONFIG_WHY_BYTES]) {
  static const struct timespec pause = {.tv_nsec = 50000000};
  double end = clock_s() + timeout_s;
  enum err e = ERR_OK;
  while (e == ERR_OK && json_is_true(json_object_get(state, "pending"))) {
    json_decref(state);
    state = NULL;
    nanosleep(&pause, NULL);
    if (clock_s() > end) {
      snprintf(why, MAX_CONFIG_WHY_BYTES, "the agent has not come to the end of its round; it will do it then");
      return ERR_TIMED_OUT;
    }
    e = agent_ask(call, state_dir, call_request(call, json_pack("{s:s}", "ask", ask)), &state, why);
  }
  const char *error = json_string_value(json_object_get(state, "error"));
  if (e == ERR_OK && error) {
    snprintf(why, MAX_CONFIG_WHY_BYTES, "the agent did not take it: %s", error);
    e = ERR_STOPPED;
  }
  if (e == ERR_OK)
    *out_state = state;
  else
    json_decref(state);
  return e;
}

int ask_exit_code(enum err e) {
  return e == ERR_STOPPED ? EXIT_FAILED : e == ERR_SYNTAX ? EXIT_INTERNAL : exit_code_of(e);
}

json_t *agent_need(struct call *call, const struct config *c, json_t *request, int *out_code) {
  char why[MAX_CONFIG_WHY_BYTES];
  json_t *data = NULL;
  enum err e = agent_ask(call, c->state_dir, request, &data, why);
  if (e)
    *out_code = answer_error(call, ask_exit_code(e), err_name(e),
                             e == ERR_NOT_CONNECTED ? "start it with `starling run`" : NULL, "%s", why);
  return data;
}
