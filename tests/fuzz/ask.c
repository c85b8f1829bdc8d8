/* The command line's side of the control socket: an agent that answers any bytes. */
#include "agent/cli/ask.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/parts.h"

static int listener;
static char folder[64], path[80];

static void close_all(void) {
  unlink(path);
  rmdir(folder);
}

static void open_all(void) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(folder, sizeof folder, "/tmp/starling-fuzz-XXXXXX");
  MUST(mkdtemp(folder) != NULL && atexit(close_all) == 0);
  snprintf(path, sizeof path, "%s/" CONTROL_SOCKET, folder);
  snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
  listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  MUST(bind(listener, (struct sockaddr *)&address, sizeof address) == 0 && listen(listener, 1) == 0);
}

/* Reads the request, writes the answer, hangs up. */
static void *answer(void *context) {
  struct cursor *input = context;
  char byte = 0;
  int fd = accept(listener, NULL, NULL);
  while (byte != '\n' && recv(fd, &byte, 1, 0) == 1)
    ;
  while (input->left > 0) {
    ssize_t put = send(fd, input->at, input->left, MSG_NOSIGNAL);
    if (put <= 0)
      break;
    cursor_view(input, (size_t)put);
  }
  close(fd);
  return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (listener == 0)
    open_all();
  struct call call = {.warnings = json_array()};
  struct cursor input;
  pthread_t agent;
  json_t *got = NULL;
  char why[MAX_CONFIG_WHY_BYTES] = "";
  cursor_init(&input, data, size);
  MUST(pthread_create(&agent, NULL, answer, &input) == 0);
  enum err e = agent_ask(&call, folder, json_pack("{s:s}", "verb", "status"), &got, why);
  MUST(pthread_join(agent, NULL) == 0);
  MUST(e == ERR_OK ? json_is_object(got) : got == NULL && why[0] != '\0');
  json_decref(got);
  json_decref(call.warnings);
  return 0;
}
