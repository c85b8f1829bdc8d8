#include "agent/sim/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/must.h"

enum { KIND_SHIFT = 24, MAX_N = (1 << KIND_SHIFT) - 1 };

static const char magic[] = "starling-trace 1\n";
enum { N_MAGIC = sizeof magic - 1, N_MAGIC_NAME = N_MAGIC - 2 /* without the version */ };

struct trace_record trace_record_of(const struct sim *s) {
  return (struct trace_record){s->now_us, s->trace, s->last.agent, s->last.n, s->last.kind};
}

bool trace_record_equal(const struct trace_record *a, const struct trace_record *b) {
  return a->at_us == b->at_us && a->hash == b->hash && a->agent == b->agent && a->n == b->n && a->kind == b->kind;
}

const char *trace_kind_name(uint8_t kind) {
  static const char *const names[N_SIM_EVENT_KINDS] = {
      [SIM_WAKE] = "wake",       [SIM_FRAME] = "frame",     [SIM_DIAL] = "dial",       [SIM_GONE] = "gone",
      [SIM_TRAINED] = "trained", [SIM_DURABLE] = "durable", [SIM_WRITTEN] = "written", [SIM_HEARTBEAT] = "heartbeat"};
  return kind < N_SIM_EVENT_KINDS && names[kind] ? names[kind] : "unknown";
}

/* A FIFO whose other end nobody holds is not waited for. */
static enum err open_now(const char *path, int flags, const char *mode, FILE **out_file) {
  enum { NEW_FILE_MODE = 0666 };
  int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK, NEW_FILE_MODE);
  *out_file = fd >= 0 && fcntl(fd, F_SETFL, 0) == 0 ? fdopen(fd, mode) : NULL;
  enum err e = *out_file ? ERR_OK : err_from_errno(errno);
  if (e && fd >= 0)
    close(fd);
  return e;
}

/* ---- writing ---- */

struct trace_writer {
  FILE *out;
  uint64_t n;
};

static enum err write_head(struct trace_writer *w, const struct scenario *c) {
  char *text = scenario_text(c);
  size_t n = strlen(text);
  uint8_t length[sizeof(uint32_t)];
  struct writer bytes;
  writer_init(&bytes, length, sizeof length);
  writer_u32(&bytes, (uint32_t)n);
  enum err e = ERR_OK;
  if (n > MAX_SCENARIO_BYTES)
    e = ERR_LIMIT;
  else if (fwrite(magic, 1, N_MAGIC, w->out) != N_MAGIC || fwrite(length, 1, sizeof length, w->out) != sizeof length ||
           fwrite(text, 1, n, w->out) != n)
    e = err_from_errno(errno);
  free(text);
  return e;
}

/* Something else than an old trace stands there: a scenario, a key. */
static bool is_taken(const char *path) {
  struct stat status;
  char head[N_MAGIC_NAME];
  FILE *in;
  if (stat(path, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size == 0 ||
      open_now(path, O_RDONLY, "rb", &in) != ERR_OK)
    return false;
  bool is_trace = fread(head, 1, sizeof head, in) == sizeof head && memcmp(head, magic, sizeof head) == 0;
  fclose(in);
  return !is_trace;
}

enum err trace_create(const char *path, const struct scenario *c, struct trace_writer **out_writer) {
  if (is_taken(path))
    return ERR_EXISTS;
  struct trace_writer *w = calloc(1, sizeof *w);
  if (!w)
    return ERR_NO_MEMORY;
  enum err e = open_now(path, O_WRONLY | O_CREAT | O_TRUNC, "wb", &w->out);
  if (!e)
    e = write_head(w, c);
  if (e == ERR_OK) {
    *out_writer = w;
    return ERR_OK;
  }
  if (w->out)
    fclose(w->out);
  free(w);
  return e;
}

enum err trace_put(struct trace_writer *w, const struct trace_record *r) {
  uint8_t bytes[TRACE_RECORD_BYTES];
  struct writer to;
  MUST(r->n <= MAX_N);
  if (w->n == MAX_TRACE_RECORDS)
    return ERR_LIMIT;
  writer_init(&to, bytes, sizeof bytes);
  writer_u64(&to, r->at_us);
  writer_u64(&to, r->hash);
  writer_u32(&to, r->agent);
  writer_u32(&to, (uint32_t)r->kind << KIND_SHIFT | r->n);
  w->n++;
  return fwrite(bytes, 1, sizeof bytes, w->out) == sizeof bytes ? ERR_OK : err_from_errno(errno);
}

enum err trace_close(struct trace_writer *w) {
  if (!w)
    return ERR_OK;
  enum err e = fclose(w->out) == 0 ? ERR_OK : err_from_errno(errno);
  free(w);
  return e;
}

/* ---- reading ---- */

struct trace_reader {
  FILE *in;
  uint64_t n, n_agents, last_us;
};

static enum err refuse(enum err e, const char *path, const char *what, char *why) {
  snprintf(why, MAX_CONFIG_WHY_BYTES, "%s: %s", path, what);
  return e;
}

static enum err read_scenario(FILE *in, const char *path, struct scenario **out_scenario, char *why) {
  uint8_t length[sizeof(uint32_t)];
  struct cursor c;
  if (fread(length, 1, sizeof length, in) != sizeof length)
    return refuse(ERR_TRUNCATED, path, "the trace ends within its head; record it again with --trace", why);
  cursor_init(&c, length, sizeof length);
  uint32_t n = cursor_u32(&c);
  if (n > MAX_SCENARIO_BYTES)
    return refuse(ERR_LIMIT, path, "its scenario is longer than one may be; record it again with --trace", why);
  char *text = malloc((size_t)n + 1);
  if (!text)
    return refuse(ERR_NO_MEMORY, path, err_sentence(ERR_NO_MEMORY), why);
  bool is_whole = fread(text, 1, n, in) == n;
  text[n] = 0;
  enum err e =
      is_whole ? scenario_read(path, text, n, out_scenario, why)
               : refuse(ERR_TRUNCATED, path, "the trace ends within its scenario; record it again with --trace", why);
  free(text);
  return e;
}

static enum err read_head(FILE *in, const char *path, struct scenario **out_scenario, char *why) {
  char head[N_MAGIC];
  if (fread(head, 1, sizeof head, in) != sizeof head || memcmp(head, magic, N_MAGIC_NAME) != 0)
    return refuse(ERR_SYNTAX, path, "it is no trace; record one with starling sim FILE.yaml --trace", why);
  if (memcmp(head, magic, N_MAGIC) != 0)
    return refuse(ERR_TOO_NEW, path, "it is of another version of traces; use the program that wrote it", why);
  return read_scenario(in, path, out_scenario, why);
}

enum err trace_open(const char *path, struct trace_reader **out_reader, struct scenario **out_scenario,
                    char out_why[MAX_CONFIG_WHY_BYTES]) {
  struct scenario *c = NULL;
  FILE *in;
  struct stat status;
  enum err e = open_now(path, O_RDONLY, "rb", &in);
  if (e)
    return refuse(e, path, err_sentence(e), out_why);
  if (fstat(fileno(in), &status) != 0 || !S_ISREG(status.st_mode))
    e = refuse(ERR_UNSUPPORTED, path, "it is not a regular file; record one with starling sim FILE.yaml --trace",
               out_why);
  else
    e = read_head(in, path, &c, out_why);
  struct trace_reader *r = e ? NULL : calloc(1, sizeof *r);
  if (!e && !r)
    e = refuse(ERR_NO_MEMORY, path, err_sentence(ERR_NO_MEMORY), out_why);
  if (e) {
    scenario_free(c);
    fclose(in);
    return e;
  }
  *r = (struct trace_reader){.in = in, .n_agents = c->n_agents};
  *out_reader = r;
  *out_scenario = c;
  return ERR_OK;
}

enum err trace_next(struct trace_reader *r, struct trace_record *out_record, bool *out_has) {
  uint8_t bytes[TRACE_RECORD_BYTES];
  size_t n = fread(bytes, 1, sizeof bytes, r->in);
  *out_has = false;
  if (n == 0)
    return ferror(r->in) ? ERR_IO : ERR_OK;
  if (n < sizeof bytes)
    return ERR_TRUNCATED;
  if (r->n++ == MAX_TRACE_RECORDS)
    return ERR_LIMIT;
  struct cursor c;
  cursor_init(&c, bytes, sizeof bytes);
  struct trace_record record;
  record.at_us = cursor_u64(&c);
  record.hash = cursor_u64(&c);
  record.agent = cursor_u32(&c);
  uint32_t word = cursor_u32(&c);
  record.kind = (uint8_t)(word >> KIND_SHIFT);
  record.n = word & MAX_N;
  if (record.kind >= N_SIM_EVENT_KINDS || record.agent >= r->n_agents || record.at_us < r->last_us)
    return ERR_SYNTAX;
  r->last_us = record.at_us;
  *out_record = record;
  *out_has = true;
  return ERR_OK;
}

void trace_reader_free(struct trace_reader *r) {
  if (!r)
    return;
  fclose(r->in);
  free(r);
}
