#include "agent/run/log.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/clock.h"
#include "agent/run/log_limit.h"
#include "agent/text.h"
#include "base/fd.h"

enum { TIME_BYTES = 32 };

static struct {
  atomic_int level, format;
  pthread_mutex_t mutex; /* of what follows */
  struct log_limit limit;
} the_log = {.level = LOG_INFO, .format = LOG_TEXT, .mutex = PTHREAD_MUTEX_INITIALIZER};

struct line {
  char time[TIME_BYTES];
  enum log_level level;
  const char *event, *peer;
  uint32_t n_left_out;
  const struct log_field *fields;
};

static const char *level_name(enum log_level level) {
  static const char *const names[] = {
      [LOG_ERROR] = "error", [LOG_WARNING] = "warning", [LOG_INFO] = "info", [LOG_DEBUG] = "debug"};
  return names[level];
}

/* RFC 3339 in UTC. */
static void time_text(char out_text[TIME_BYTES]) {
  struct timespec now;
  struct tm utc;
  clock_gettime(CLOCK_REALTIME, &now);
  gmtime_r(&now.tv_sec, &utc);
  size_t n = strftime(out_text, TIME_BYTES, "%Y-%m-%dT%H:%M:%S", &utc);
  snprintf(out_text + n, TIME_BYTES - n, ".%03dZ", (int)(now.tv_nsec / 1000000));
}

/* ---- text ---- */

static bool is_word(const char *text) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/+,@%#[]";
  size_t n = strspn(text, plain);
  return n > 0 && text[n] == '\0';
}

static void put_quoted(FILE *f, const char *text) {
  fputc('"', f);
  while (*text != '\0') {
    size_t n = text_character_bytes(text);
    if (n == 0)
      fprintf(f, "\\x%02x", (unsigned)(uint8_t)*text);
    else if (*text == '"' || *text == '\\')
      fprintf(f, "\\%c", *text);
    else
      fwrite(text, 1, n, f);
    text += n > 0 ? n : 1;
  }
  fputc('"', f);
}

static void put_text(FILE *f, const char *key, const char *text) {
  fprintf(f, " %s=", key);
  if (is_word(text))
    fputs(text, f);
  else
    put_quoted(f, text);
}

static void put_field(FILE *f, const struct log_field *field) {
  switch (field->type) {
  case LOG_FIELD_TEXT:
    put_text(f, field->key, field->text);
    break;
  case LOG_FIELD_INTEGER:
    fprintf(f, " %s=%" PRId64, field->key, field->integer);
    break;
  case LOG_FIELD_REAL:
    fprintf(f, " %s=%.6g", field->key, field->real);
    break;
  }
}

static char *text_line(const struct line *l) {
  char *text = NULL;
  size_t n;
  FILE *f = open_memstream(&text, &n);
  if (f == NULL)
    return NULL;
  fprintf(f, "%s %s %s", l->time, level_name(l->level), l->event);
  if (l->peer != NULL)
    put_text(f, "peer", l->peer);
  for (const struct log_field *field = l->fields; field != NULL && field->key != NULL; field++)
    put_field(f, field);
  if (l->n_left_out > 0)
    fprintf(f, " left_out=%" PRIu32, l->n_left_out);
  fclose(f);
  return text;
}

/* ---- JSON ---- */

static json_t *json_text(const char *text) {
  char *clean = strdup(text);
  if (clean == NULL)
    return NULL;
  for (char *c = clean; *c != '\0';) {
    size_t n = text_character_bytes(c);
    if (n == 0 && (uint8_t)*c >= 0x80)
      *c = '?';
    c += n > 0 ? n : 1;
  }
  json_t *value = json_string(clean);
  free(clean);
  return value;
}

static json_t *json_value(const struct log_field *field) {
  switch (field->type) {
  case LOG_FIELD_TEXT:
    return json_text(field->text);
  case LOG_FIELD_INTEGER:
    return json_integer(field->integer);
  case LOG_FIELD_REAL:
    break;
  }
  json_t *number = json_real(field->real); /* NULL unless finite */
  return number != NULL ? number : json_null();
}

static char *json_line(const struct line *l) {
  json_t *object = json_object();
  json_object_set_new(object, "time", json_string(l->time));
  json_object_set_new(object, "level", json_string(level_name(l->level)));
  json_object_set_new(object, "event", json_string(l->event));
  if (l->peer != NULL)
    json_object_set_new(object, "peer", json_text(l->peer));
  for (const struct log_field *field = l->fields; field != NULL && field->key != NULL; field++)
    json_object_set_new(object, field->key, json_value(field));
  if (l->n_left_out > 0)
    json_object_set_new(object, "left_out", json_integer(l->n_left_out));
  char *text = json_dumps(object, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(6));
  json_decref(object);
  return text;
}

/* ---- both ---- */

static bool may_write(const char *event, const char *peer, uint32_t *out_n_left_out) {
  if (peer == NULL)
    return true;
  pthread_mutex_lock(&the_log.mutex);
  bool may = log_limit_take(&the_log.limit, event, peer, clock_ms(), out_n_left_out);
  pthread_mutex_unlock(&the_log.mutex);
  return may;
}

/* One write a line, so that lines of two threads do not mix. Where stderr is gone there is nobody to tell. */
static void write_line(char *text) {
  size_t n = strlen(text);
  text[n] = '\n'; /* in place of the NUL */
  enum err unheard = fd_write_all(STDERR_FILENO, text, n + 1);
  (void)unheard;
}

void log_set(enum log_level level, enum log_format format) {
  atomic_store(&the_log.level, (int)level);
  atomic_store(&the_log.format, (int)format);
}

void log_event(enum log_level level, const char *event, const char *peer, const struct log_field *fields) {
  struct line l = {.level = level, .event = event, .peer = peer, .fields = fields};
  if ((int)level > atomic_load(&the_log.level) || !may_write(event, peer, &l.n_left_out))
    return;
  time_text(l.time);
  char *text = atomic_load(&the_log.format) == LOG_JSON ? json_line(&l) : text_line(&l);
  if (text != NULL)
    write_line(text);
  free(text);
}
