#include "agent/experiment/results.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/file.h"
#include "base/fd.h"
#include "base/must.h"

enum { TRACE_TEXT_BYTES = 17 };

struct results {
  int fd;
  bool ends_whole; /* with a line's end */
  struct experiment_result *items;
  size_t n, capacity, n_skipped;
};

static void add(struct results *r, struct experiment_result *result) {
  if (r->n == r->capacity) {
    r->capacity = r->capacity ? 2 * r->capacity : 64;
    r->items = realloc(r->items, r->capacity * sizeof *r->items);
    MUST(r->items != NULL);
  }
  r->items[r->n++] = *result;
  *result = (struct experiment_result){0};
}

/* ---- reading ------------------------------------------------------------------------------------------------------ */

static double number_or_nan(const json_t *value) {
  return json_is_number(value) ? json_number_value(value) : __builtin_nan("");
}

static uint64_t count_of(const json_t *value) {
  return json_is_integer(value) && json_integer_value(value) > 0 ? (uint64_t)json_integer_value(value) : 0;
}

static bool read_id(const json_t *line, struct digest *out) {
  const char *text = json_string_value(json_object_get(line, "run"));
  if (!text || strlen(text) != 2 * (size_t)DIGEST_BYTES)
    return false;
  for (size_t i = 0; i < DIGEST_BYTES; i++) {
    const char pair[3] = {text[2 * i], text[2 * i + 1], '\0'};
    char *end;
    out->bytes[i] = (uint8_t)strtoul(pair, &end, 16);
    if (end != pair + 2)
      return false;
  }
  return true;
}

static bool read_result(const json_t *line, struct experiment_result *out) {
  const json_t *agents = json_object_get(line, "agents");
  size_t n = json_array_size(agents);
  struct experiment_result r = {.n_agents = n, .seconds = number_or_nan(json_object_get(line, "seconds"))};
  const char *trace = json_string_value(json_object_get(line, "trace"));
  if (n == 0 || n > MAX_EXPERIMENT_AGENTS || !trace || !read_id(line, &r.id))
    return false;
  r.trace = strtoull(trace, NULL, 16);
  r.agents = calloc(n, sizeof *r.agents);
  MUST(r.agents != NULL);
  for (size_t i = 0; i < n; i++) {
    const json_t *a = json_array_get(agents, i);
    r.agents[i] = (struct experiment_agent){.local = number_or_nan(json_object_get(a, "local")),
                                            .global = number_or_nan(json_object_get(a, "global")),
                                            .n_tests = count_of(json_object_get(a, "tests")),
                                            .round = count_of(json_object_get(a, "round")),
                                            .sent_bytes = count_of(json_object_get(a, "sent_bytes")),
                                            .acc = number_or_nan(json_object_get(a, "acc")),
                                            .forgetting = number_or_nan(json_object_get(a, "forgetting"))};
  }
  *out = r;
  return true;
}

static void read_line(struct results *r, const char *line, size_t n) {
  struct experiment_result result;
  json_t *object = n <= MAX_RESULT_LINE_BYTES ? json_loadb(line, n, JSON_REJECT_DUPLICATES, NULL) : NULL;
  if (json_is_object(object) && read_result(object, &result))
    add(r, &result);
  else
    r->n_skipped += n > 0;
  json_decref(object);
}

/* The lines that have an end; *is_long: so far, the first one was too long to be kept. Returns how many bytes they are. */
static size_t read_lines(struct results *r, const char *bytes, size_t n, bool *is_long) {
  size_t at = 0;
  for (const char *end; (end = memchr(bytes + at, '\n', n - at)) != NULL; at = (size_t)(end - bytes) + 1) {
    if (*is_long)
      r->n_skipped++;
    else
      read_line(r, bytes + at, (size_t)(end - bytes) - at);
    *is_long = false;
  }
  return at;
}

static enum err read_all(struct results *r) {
  const size_t capacity = MAX_RESULT_LINE_BYTES + 1; /* with its end */
  char *bytes = malloc(capacity);
  MUST(bytes != NULL);
  size_t n = 0, n_new;
  bool is_long = false;
  enum err e;
  while ((e = fd_read_full(r->fd, bytes + n, capacity - n, &n_new)) == ERR_OK && n_new > 0) {
    n += n_new;
    size_t n_read = read_lines(r, bytes, n, &is_long);
    if (n - n_read == capacity) {
      is_long = true;
      n_read = n;
    }
    n -= n_read;
    memmove(bytes, bytes + n_read, n);
  }
  r->ends_whole = n == 0 && !is_long;
  if (is_long)
    r->n_skipped++;
  else
    read_line(r, bytes, n);
  free(bytes);
  return e;
}

static enum err sync_folder_of(const char *path) {
  char folder[MAX_PATH_BYTES];
  path_folder(path, folder);
  int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  enum err e = fd >= 0 && fsync(fd) == 0 ? ERR_OK : err_from_errno(errno);
  if (fd >= 0)
    close(fd);
  return e;
}

static enum err open_file(struct results *r, const char *path, bool writes) {
  struct stat status;
  r->fd = open(path, O_CLOEXEC | O_NONBLOCK | (writes ? O_RDWR | O_APPEND | O_CREAT : O_RDONLY), 0666);
  if (r->fd < 0 || fstat(r->fd, &status) != 0)
    return err_from_errno(errno);
  if (!S_ISREG(status.st_mode))
    return ERR_UNSUPPORTED;
  if (writes && flock(r->fd, LOCK_EX | LOCK_NB) != 0)
    return errno == EWOULDBLOCK ? ERR_BUSY : err_from_errno(errno);
  return writes ? sync_folder_of(path) : ERR_OK;
}

enum err results_open(const char *path, bool writes, struct results **out_results) {
  struct results *r = calloc(1, sizeof *r);
  MUST(r != NULL);
  enum err e = open_file(r, path, writes);
  if (!e)
    e = read_all(r);
  if (e)
    results_close(r);
  else
    *out_results = r;
  return e;
}

void results_close(struct results *r) {
  if (!r)
    return;
  if (r->fd >= 0)
    close(r->fd);
  for (size_t i = 0; i < r->n; i++)
    experiment_result_done(&r->items[i]);
  free(r->items);
  free(r);
}

size_t results_skipped(const struct results *r) {
  return r->n_skipped;
}

const struct experiment_result *results_find(const struct results *r, const struct digest *id) {
  for (size_t i = r->n; i-- > 0;)
    if (digest_equal(&r->items[i].id, id))
      return &r->items[i];
  return NULL;
}

/* ---- writing ------------------------------------------------------------------------------------------------------ */

static json_t *figure_json(double value) {
  return value == value ? json_real(value) : json_null();
}

static json_t *agents_json(const struct experiment_result *result) {
  json_t *agents = json_array();
  for (size_t i = 0; i < result->n_agents; i++) {
    const struct experiment_agent *a = &result->agents[i];
    json_array_append_new(agents, json_pack("{s:o, s:I, s:o, s:I, s:I, s:o, s:o}", "local", figure_json(a->local),
                                            "tests", (json_int_t)a->n_tests, "global", figure_json(a->global), "round",
                                            (json_int_t)a->round, "sent_bytes", (json_int_t)a->sent_bytes, "acc",
                                            figure_json(a->acc), "forgetting", figure_json(a->forgetting)));
  }
  return agents;
}

/* With its line's end; allocated. */
static char *line_text(const struct experiment *x, const struct experiment_run *run,
                       const struct experiment_result *result) {
  char id[2 * DIGEST_BYTES + 1], trace[TRACE_TEXT_BYTES];
  for (size_t i = 0; i < DIGEST_BYTES; i++)
    snprintf(id + 2 * i, 3, "%02x", result->id.bytes[i]);
  snprintf(trace, sizeof trace, "%016" PRIx64, result->trace);
  json_t *line =
      json_pack("{s:s, s:s, s:s, s:s, s:I, s:f, s:s, s:o}", "run", id, "experiment", x->name, "method",
                x->methods[run->method].name, "split", x->splits[run->split]->text, "seed", (json_int_t)run->seed,
                "seconds", result->seconds, "trace", trace, "agents", agents_json(result));
  char *text = json_dumps(line, JSON_COMPACT | JSON_PRESERVE_ORDER);
  json_decref(line);
  MUST(text != NULL);
  size_t n = strlen(text);
  char *whole = malloc(n + 2);
  MUST(whole != NULL);
  memcpy(whole, text, n);
  whole[n] = '\n';
  whole[n + 1] = '\0';
  free(text);
  return whole;
}

static enum err write_durably(int fd, const char *text) {
  enum err e = fd_write_all(fd, text, strlen(text));
  return e != ERR_OK || fsync(fd) == 0 ? e : err_from_errno(errno);
}

enum err results_put(struct results *r, const struct experiment *x, const struct experiment_run *run,
                     struct experiment_result *result) {
  char *text = line_text(x, run, result);
  enum err e = r->ends_whole ? ERR_OK : write_durably(r->fd, "\n");
  if (!e) {
    r->ends_whole = false; /* until it is whole again */
    e = write_durably(r->fd, text);
    r->ends_whole = e == ERR_OK;
  }
  free(text);
  if (!e)
    add(r, result);
  return e;
}
