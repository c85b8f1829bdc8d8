/* starling trace: the flight recorder of the running agent as a file. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/cli/answer.h"
#include "agent/cli/ask.h"
#include "agent/cli/sim.h"
#include "agent/cli/table.h"
#include "agent/cli/verbs.h"
#include "agent/file.h"
#include "agent/run/snapshot.h"
#include "base/fd.h"

enum { TRACE_MODE = 0600 };

static void view(const struct call *call, const json_t *data, FILE *out) {
  (void)call;
  fprintf(out, "%s: ", json_string_value(json_object_get(data, "file")));
  value_print(json_object_get(data, "bytes"), FORM_BYTES, out);
  fprintf(out, "; starling sim --replay does it again\n");
}

/* What the agent wrote into its folder, into ours; there it goes. */
static enum err take(const char *from, int to) {
  char *bytes;
  size_t n;
  enum err e = file_read(from, MAX_AGENT_TRACE_BYTES, &bytes, &n);
  if (e != ERR_OK)
    return e;
  e = fd_write_all(to, bytes, n);
  free(bytes);
  unlink(from);
  return e;
}

static int fetch(struct call *call, const struct config *c, int to) {
  const char *path = call->arguments[0];
  char from[MAX_PATH_BYTES];
  int code;
  json_t *data = agent_need(call, c, call_request(call, json_pack("{s:s}", "ask", "trace")), &code);
  if (!data)
    return code;
  const char *name = json_string_value(json_object_get(data, "file"));
  bool is_ours = name && strcmp(name, TRACE_FILE) == 0;
  enum err e = is_ours ? path_join(c->state_dir, name, from) : ERR_SYNTAX;
  if (e == ERR_OK)
    e = take(from, to);
  if (e != ERR_OK) {
    json_decref(data);
    return answer_error(call, EXIT_FAILED, err_name(e), "make room there", "%s: %s", path, err_sentence(e));
  }
  json_object_set_new(data, "file", json_string(path));
  return answer(call, data, view);
}

int verb_trace(struct call *call) {
  struct config *c;
  const char *path = call->arguments[0];
  if (!call_load_config(call, &c))
    return EXIT_USAGE;
  int to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, TRACE_MODE);
  if (to < 0) {
    enum err e = err_from_errno(errno);
    config_free(c);
    return answer_error(call, EXIT_USAGE, err_name(e), "name a new file", "%s: %s", path, err_sentence(e));
  }
  int code = fetch(call, c, to);
  close(to);
  if (code != EXIT_DONE)
    unlink(path);
  config_free(c);
  return code;
}
