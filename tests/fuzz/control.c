/* The control socket: a client's bytes in pieces, whose size is the first byte's. Whatever they are it gets one line of JSON
 * back and is closed, or nothing when the line never ended. */
#include "agent/run/control.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/parts.h"

static struct control *control;
static char folder[64], path[80];

static void on_request(void *context, uint64_t client, const json_t *request) {
  (void)context;
  MUST(json_is_object(request));
  if (json_object_size(request) % 2)
    control_answer(control, client, json_pack("{s:O}", "echo", request));
  else
    control_fail(control, client, ERR_UNSUPPORTED, "no such verb", "ask another");
}

static void close_all(void) {
  control_close(control);
  rmdir(folder);
}

static void open_all(void) {
  static const struct control_events events = {NULL, on_request};
  char why[MAX_REASON_BYTES];
  snprintf(folder, sizeof folder, "/tmp/starling-fuzz-XXXXXX");
  MUST(mkdtemp(folder) != NULL);
  snprintf(path, sizeof path, "%s/control.sock", folder);
  MUST(control_open(path, &events, &control, why) == ERR_OK && atexit(close_all) == 0);
}

static int dial(void) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  MUST(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
  return fd;
}

/* One turn of the loop: all that is watched is said to be ready, which it is or would say EAGAIN. */
static void turn(uint64_t now_ms) {
  struct link_fd fds[CONTROL_MAX_FDS];
  size_t n = control_fds(control, fds);
  for (size_t i = 0; i < n; i++)
    fds[i].ready = true;
  control_ready(control, fds, n, now_ms);
}

static size_t receive(int fd, char *line, size_t capacity) {
  size_t n = 0;
  for (ssize_t got = 1; got > 0 && n<capacity; n += got> 0 ? (size_t)got : 0) {
    turn(0);
    got = recv(fd, line + n, capacity - n, 0);
  }
  return n;
}

static void check_answer(const char *line, size_t n, bool was_asked) {
  MUST((n > 0) == was_asked);
  if (n == 0)
    return;
  json_t *envelope = json_loadb(line, n, 0, NULL);
  MUST(line[n - 1] == '\n' && memchr(line, '\n', n) == line + n - 1 && json_is_object(envelope));
  json_decref(envelope);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static char line[MAX_CONTROL_LINE_BYTES + 1];
  if (control == NULL)
    open_all();
  struct cursor input;
  cursor_init(&input, data, size);
  size_t piece = (size_t)cursor_u8(&input) + 1;
  bool was_asked = input.left >= MAX_CONTROL_LINE_BYTES || (input.left > 0 && memchr(input.at, '\n', input.left));
  int fd = dial();
  turn(0);
  while (input.left > 0) {
    size_t n = input.left < piece ? input.left : piece;
    ssize_t put = send(fd, input.at, n, MSG_NOSIGNAL);
    turn(0);
    if (put < 0) /* it was answered and closed before all was sent */
      break;
    cursor_view(&input, (size_t)put);
  }
  check_answer(line, receive(fd, line, sizeof line), was_asked);
  close(fd);
  turn(CONTROL_STAGE_MS); /* the place is free again */
  MUST(control_due_ms(control) == UINT64_MAX);
  return 0;
}
