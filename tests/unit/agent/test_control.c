#include "agent/cli/ask.h"
#include "agent/run/control.h"
#include "tests/unit/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* A server whose loop is turned by hand; the request decides what is done with it. */
struct server {
  char folder[32], path[64];
  struct control *control;
  uint64_t now_ms;
  uint64_t asked_by; /* the last client that asked */
  size_t n_requests;
};

static json_t *long_list(json_int_t n) {
  json_t *list = json_array();
  for (json_int_t i = 0; i < n; i++)
    json_array_append_new(list, json_integer(100000 + i));
  return list;
}

static void on_request(void *context, uint64_t client, const json_t *request) {
  struct server *s = context;
  const char *verb = json_string_value(json_object_get(request, "verb"));
  s->asked_by = client;
  s->n_requests++;
  if (strcmp(verb, "echo") == 0)
    control_answer(s->control, client, json_deep_copy(request));
  else if (strcmp(verb, "fail") == 0)
    control_fail(s->control, client, ERR_NOT_FOUND, "no round 7", "starling rounds list");
  else if (strcmp(verb, "long") == 0)
    control_answer(s->control, client,
                   json_pack("{s:s, s:[i], s:o}", "name", "x", "few", 1, "rounds", long_list(20000)));
  else if (strcmp(verb, "huge") == 0)
    control_answer(s->control, client, json_pack("{s:o}", "text", json_sprintf("%070000d", 1)));
}

static void server_open(struct server *s) {
  *s = (struct server){.folder = "/tmp/starling-XXXXXX", .now_ms = 1000};
  char why[MAX_REASON_BYTES];
  ck_assert_ptr_nonnull(mkdtemp(s->folder));
  snprintf(s->path, sizeof s->path, "%s/control.sock", s->folder);
  const struct control_events events = {.context = s, .on_request = on_request};
  ck_assert_int_eq(control_open(s->path, &events, &s->control, why), ERR_OK);
}

static void server_close(struct server *s) {
  control_close(s->control);
  ck_assert_int_eq(access(s->path, F_OK), -1); /* the socket goes with its agent */
  ck_assert_int_eq(rmdir(s->folder), 0);
}

/* Turns the loop until nothing is ready any more. */
static void turn(struct server *s) {
  struct link_fd fds[CONTROL_MAX_FDS];
  struct pollfd polled[CONTROL_MAX_FDS];
  int n_ready, n_turns = 0;
  do {
    size_t n = control_fds(s->control, fds);
    ck_assert_uint_le(n, CONTROL_MAX_FDS);
    for (size_t i = 0; i < n; i++)
      polled[i] = (struct pollfd){.fd = fds[i].fd, .events = (short)(POLLIN | (fds[i].want_write ? POLLOUT : 0))};
    n_ready = poll(polled, (nfds_t)n, 0);
    for (size_t i = 0; i < n; i++)
      fds[i].ready = polled[i].revents != 0;
    control_ready(s->control, fds, n, s->now_ms);
  } while (n_ready > 0 && ++n_turns < 100);
  ck_assert_int_lt(n_turns, 100); /* else it spins */
}

static int dial(const struct server *s) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  memcpy(address.sun_path, s->path, strlen(s->path) + 1);
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  ck_assert_int_eq(connect(fd, (const struct sockaddr *)&address, sizeof address), 0);
  ck_assert_int_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
  return fd;
}

static void say(int fd, const char *text) {
  ck_assert_int_eq(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* Reads to the end, turning the loop; NULL when the server closed without a word. Closes fd. */
static json_t *answer(struct server *s, int fd) {
  static char line[MAX_CONTROL_LINE_BYTES + 1];
  size_t n = 0;
  ssize_t got = 0;
  for (int i = 0; i < 100; i++) {
    turn(s);
    while ((got = recv(fd, line + n, sizeof line - n, 0)) > 0)
      n += (size_t)got;
    if (got == 0)
      break;
  }
  ck_assert_int_eq(got, 0);
  close(fd);
  if (n == 0)
    return NULL;
  ck_assert_uint_le(n, MAX_CONTROL_LINE_BYTES);
  ck_assert(line[n - 1] == '\n' && memchr(line, '\n', n) == line + n - 1);
  json_t *object = json_loadb(line, n, 0, NULL);
  ck_assert(json_is_object(object));
  ck_assert_int_eq(json_integer_value(json_object_get(object, "schema")), 1);
  ck_assert(json_is_array(json_object_get(object, "warnings")));
  return object;
}

static json_t *ask(struct server *s, const char *request) {
  int fd = dial(s);
  say(fd, request);
  return answer(s, fd);
}

static void check_failure(json_t *object, const char *name) {
  ck_assert_ptr_nonnull(object);
  ck_assert(json_is_false(json_object_get(object, "ok")));
  ck_assert_ptr_null(json_object_get(object, "data"));
  ck_assert_str_eq(json_string_value(json_object_get(json_object_get(object, "error"), "code")), name);
  json_decref(object);
}

START_TEST(answers_in_the_envelope) {
  struct server s;
  server_open(&s);
  json_t *object = ask(&s, "{\"verb\":\"echo\",\"n\":5}\n");
  ck_assert(json_is_true(json_object_get(object, "ok")));
  ck_assert_int_eq(json_integer_value(json_object_get(json_object_get(object, "data"), "n")), 5);
  ck_assert_uint_eq(json_array_size(json_object_get(object, "warnings")), 0);
  json_decref(object);
  server_close(&s);
}
END_TEST

START_TEST(failures_name_error_message_and_hint) {
  struct server s;
  server_open(&s);
  json_t *object = ask(&s, "{\"verb\":\"fail\"}\n");
  const json_t *error = json_object_get(object, "error");
  ck_assert_str_eq(json_string_value(json_object_get(error, "message")), "no round 7");
  ck_assert_str_eq(json_string_value(json_object_get(error, "hint")), "starling rounds list");
  check_failure(object, "not-found");
  server_close(&s);
}
END_TEST

START_TEST(refuses_what_is_no_request) {
  static const struct {
    const char *text, *name;
  } cases[] = {
      {"hello\n", "syntax"},
      {"[1]\n", "syntax"},
      {"\n", "syntax"},
      {"{\"verb\":\"echo\",\"verb\":\"fail\"}\n", "syntax"},
      {"{\"verb\":\"echo\"}\n{\"verb\":\"echo\"}\n", "trailing"},
      {"{\"verb\":\"echo\"}\nx", "trailing"},
  };
  struct server s;
  server_open(&s);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    check_failure(ask(&s, cases[i].text), cases[i].name);
  ck_assert_uint_eq(s.n_requests, 0);
  server_close(&s);
}
END_TEST

START_TEST(a_request_has_a_longest_line) {
  struct server s;
  server_open(&s);
  char *text = malloc(MAX_CONTROL_LINE_BYTES + 1);
  memset(text, ' ', MAX_CONTROL_LINE_BYTES);
  text[MAX_CONTROL_LINE_BYTES] = '\0';
  check_failure(ask(&s, text), "limit");
  memcpy(text, "{\"verb\":\"echo\"}", 15);
  text[MAX_CONTROL_LINE_BYTES - 1] = '\n';
  json_t *object = ask(&s, text);
  ck_assert(json_is_true(json_object_get(object, "ok")));
  json_decref(object);
  free(text);
  server_close(&s);
}
END_TEST

START_TEST(a_request_may_come_in_pieces) {
  struct server s;
  server_open(&s);
  int fd = dial(&s);
  for (const char *c = "{\"verb\":\"echo\"}\n"; *c != '\0'; c++) {
    turn(&s);
    say(fd, (const char[]){*c, '\0'});
  }
  json_t *object = answer(&s, fd);
  ck_assert(json_is_true(json_object_get(object, "ok")));
  json_decref(object);
  server_close(&s);
}
END_TEST

START_TEST(an_answer_may_come_later) {
  struct server s;
  server_open(&s);
  int fd = dial(&s);
  say(fd, "{\"verb\":\"later\"}\n");
  ck_assert_int_eq(shutdown(fd, SHUT_WR), 0); /* as `nc -N` does */
  turn(&s);
  ck_assert_uint_eq(s.n_requests, 1);
  control_answer(s.control, s.asked_by, json_pack("{s:i}", "n", 9));
  json_t *object = answer(&s, fd);
  ck_assert_int_eq(json_integer_value(json_object_get(json_object_get(object, "data"), "n")), 9);
  json_decref(object);
  control_answer(s.control, s.asked_by, json_null()); /* nobody is there any more */
  control_fail(s.control, 12345, ERR_IO, "x", NULL);
  server_close(&s);
}
END_TEST

START_TEST(long_lists_are_cut_with_a_warning) {
  struct server s;
  server_open(&s);
  json_t *object = ask(&s, "{\"verb\":\"long\"}\n");
  ck_assert(json_is_true(json_object_get(object, "ok")));
  const json_t *data = json_object_get(object, "data"), *rounds = json_object_get(data, "rounds");
  ck_assert_uint_gt(json_array_size(rounds), 8000); /* seven bytes each: near what fits */
  ck_assert_uint_lt(json_array_size(rounds), 9363);
  ck_assert_int_eq(json_integer_value(json_array_get(rounds, 0)), 100000);
  ck_assert_uint_eq(json_array_size(json_object_get(data, "few")), 1);
  const char *warning = json_string_value(json_array_get(json_object_get(object, "warnings"), 0));
  ck_assert_ptr_nonnull(strstr(warning, "rounds: cut to the first "));
  json_decref(object);
  check_failure(ask(&s, "{\"verb\":\"huge\"}\n"), "limit");
  server_close(&s);
}
END_TEST

START_TEST(slow_clients_are_closed) {
  struct server s;
  server_open(&s);
  ck_assert_uint_eq(control_due_ms(s.control), UINT64_MAX);
  int silent = dial(&s), unanswered = dial(&s);
  say(unanswered, "{\"verb\":\"later\"}\n");
  turn(&s);
  uint64_t began_ms = s.now_ms;
  ck_assert_uint_eq(control_due_ms(s.control), began_ms + CONTROL_STAGE_MS);
  s.now_ms += CONTROL_STAGE_MS - 1;
  turn(&s);
  char byte;
  ck_assert(recv(silent, &byte, 1, 0) < 0 && errno == EAGAIN);
  s.now_ms++;
  ck_assert_ptr_null(answer(&s, silent));
  ck_assert_uint_eq(control_due_ms(s.control), began_ms + CONTROL_WAITING_MS);
  ck_assert(recv(unanswered, &byte, 1, 0) < 0 && errno == EAGAIN);
  ck_assert_int_gt(CONTROL_WAITING_MS, CONTROL_SLOW_TIMEOUT_MS);
  s.now_ms = began_ms + CONTROL_WAITING_MS;
  ck_assert_ptr_null(answer(&s, unanswered));
  ck_assert_uint_eq(control_due_ms(s.control), UINT64_MAX);
  server_close(&s);
}
END_TEST

START_TEST(more_clients_than_places_wait) {
  struct server s;
  server_open(&s);
  int fds[MAX_CONTROL_CLIENTS];
  for (size_t i = 0; i < MAX_CONTROL_CLIENTS; i++) {
    fds[i] = dial(&s);
    turn(&s);
  }
  int late = dial(&s);
  say(late, "{\"verb\":\"echo\"}\n");
  turn(&s);
  ck_assert_uint_eq(s.n_requests, 0);
  close(fds[3]);
  json_t *object = answer(&s, late);
  ck_assert(json_is_true(json_object_get(object, "ok")));
  json_decref(object);
  for (size_t i = 0; i < MAX_CONTROL_CLIENTS; i++)
    if (i != 3)
      close(fds[i]);
  server_close(&s);
}
END_TEST

START_TEST(the_socket_is_its_owners) {
  mode_t before = umask(0);
  struct server s;
  server_open(&s);
  umask(before);
  struct stat st;
  ck_assert_int_eq(stat(s.path, &st), 0);
  ck_assert(S_ISSOCK(st.st_mode));
  ck_assert_uint_eq(st.st_mode & 07777, 0600);
  server_close(&s);
}
END_TEST

START_TEST(a_socket_of_a_dead_agent_is_replaced_a_live_one_never) {
  struct server s;
  server_open(&s);
  const struct control_events events = {.on_request = on_request};
  struct control *other = NULL;
  char why[MAX_REASON_BYTES];
  ck_assert_int_eq(control_open(s.path, &events, &other, why), ERR_LOCKED);
  ck_assert_ptr_null(other);
  ck_assert_ptr_nonnull(strstr(why, "another agent"));

  char dead[64];
  snprintf(dead, sizeof dead, "%s/dead.sock", s.folder);
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  memcpy(address.sun_path, dead, strlen(dead) + 1);
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  ck_assert_int_eq(bind(fd, (const struct sockaddr *)&address, sizeof address), 0);
  close(fd);
  ck_assert_int_eq(control_open(dead, &events, &other, why), ERR_OK);
  control_close(other);
  turn(&s); /* the probe is no client worth an answer */
  json_t *object = ask(&s, "{\"verb\":\"echo\"}\n");
  ck_assert(json_is_true(json_object_get(object, "ok")));
  json_decref(object);
  server_close(&s);
}
END_TEST

/* Makes the folder PATH/ddd…d with so many d, and adds it to the path. */
static void folder_add(char *path, size_t n) {
  size_t at = strlen(path);
  path[at] = '/';
  memset(path + at + 1, 'd', n);
  path[at + 1 + n] = '\0';
  ck_assert_int_eq(mkdir(path, 0700), 0);
}

START_TEST(listens_in_a_folder_with_a_long_path) {
  const struct control_events events = {.on_request = on_request};
  struct control *control = NULL, *other = NULL;
  char why[MAX_REASON_BYTES], path[MAX_PATH_BYTES] = "/tmp/starling-XXXXXX", socket_path[MAX_PATH_BYTES + 16];
  ck_assert_ptr_nonnull(mkdtemp(path));
  while (strlen(path) < 4000 - 200)
    folder_add(path, 200);
  snprintf(socket_path, sizeof socket_path, "%s/control.sock", path);
  ck_assert_int_eq(control_open(socket_path, &events, &control, why), ERR_OK);
  ck_assert_int_eq(access(socket_path, F_OK), 0);
  ck_assert_int_eq(control_open(socket_path, &events, &other, why), ERR_LOCKED);
  ck_assert_ptr_nonnull(strstr(why, "choose another state_dir"));
  control_close(control);
  ck_assert_int_eq(access(socket_path, F_OK), -1);
  for (; strlen(path) > strlen("/tmp/starling-XXXXXX"); *strrchr(path, '/') = '\0')
    ck_assert_int_eq(rmdir(path), 0);
  ck_assert_int_eq(rmdir(path), 0);
}
END_TEST

START_TEST(says_why_it_cannot_open) {
  const struct control_events events = {.on_request = on_request};
  struct control *control = NULL;
  char why[MAX_REASON_BYTES], path[160], folder[] = "/tmp/starling-XXXXXX";
  ck_assert_ptr_nonnull(mkdtemp(folder));
  memset(path, 'x', sizeof path);
  memcpy(path, "/tmp/", 5);
  path[108] = '\0';
  ck_assert_int_eq(control_open(path, &events, &control, why), ERR_LIMIT);
  ck_assert_ptr_nonnull(strstr(why, "longer than"));
  snprintf(path, sizeof path, "%s/none/control.sock", folder);
  ck_assert_int_eq(control_open(path, &events, &control, why), ERR_NOT_FOUND);
  snprintf(path, sizeof path, "%s/file", folder);
  close(open(path, O_CREAT | O_WRONLY, 0600));
  ck_assert_int_eq(control_open(path, &events, &control, why), ERR_EXISTS);
  ck_assert_ptr_nonnull(strstr(why, "not a socket"));
  ck_assert_int_eq(access(path, F_OK), 0);
  ck_assert_ptr_null(control);
  control_close(NULL);
  unlink(path);
  rmdir(folder);
}
END_TEST

int main(void) {
  return SUITE_RUN("agent/control", answers_in_the_envelope, failures_name_error_message_and_hint,
                   refuses_what_is_no_request, a_request_has_a_longest_line, a_request_may_come_in_pieces,
                   an_answer_may_come_later, long_lists_are_cut_with_a_warning, slow_clients_are_closed,
                   more_clients_than_places_wait, the_socket_is_its_owners,
                   a_socket_of_a_dead_agent_is_replaced_a_live_one_never, listens_in_a_folder_with_a_long_path,
                   says_why_it_cannot_open);
}
