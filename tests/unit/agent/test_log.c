#include "agent/run/log.h"
#include "tests/unit/suite.h"

#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What is written to stderr between capture_begin and capture_end. */
struct capture {
  int saved;
  FILE *file;
};

static struct capture capture_begin(void) {
  struct capture c = {.saved = dup(STDERR_FILENO), .file = tmpfile()};
  ck_assert(c.saved >= 0 && c.file != NULL);
  ck_assert_int_eq(dup2(fileno(c.file), STDERR_FILENO), STDERR_FILENO);
  return c;
}

enum { CAPTURED_BYTES = 256 * 1024, TIME_LENGTH = 24 };

static const char *capture_end(struct capture *c) {
  static char text[CAPTURED_BYTES];
  dup2(c->saved, STDERR_FILENO);
  close(c->saved);
  rewind(c->file);
  text[fread(text, 1, sizeof text - 1, c->file)] = '\0';
  fclose(c->file);
  return text;
}

static const char *logged(enum log_level level, const char *event, const char *peer, const struct log_field *fields) {
  struct capture c = capture_begin();
  log_event(level, event, peer, fields);
  return capture_end(&c);
}

static size_t n_lines(const char *text) {
  size_t n = 0;
  for (; *text != '\0'; text++)
    n += *text == '\n';
  return n;
}

START_TEST(a_line_has_time_level_event_and_fields) {
  log_set(LOG_INFO, LOG_TEXT);
  const char *line =
      logged(LOG_INFO, "round-committed", "mec-03",
             LOG_FIELDS(log_integer("round", 418), log_text("late", "mec-07"), log_real("loss", 0.4021)));
  for (size_t i = 0; i < TIME_LENGTH; i++) {
    char shape = "dddd-dd-ddTdd:dd:dd.dddZ"[i];
    ck_assert(shape == 'd' ? line[i] >= '0' && line[i] <= '9' : line[i] == shape);
  }
  ck_assert_str_eq(line + TIME_LENGTH, " info round-committed peer=mec-03 round=418 late=mec-07 loss=0.4021\n");
}
END_TEST

START_TEST(text_from_outside_cannot_forge_a_line) {
  static const struct {
    const char *text, *expected;
  } cases[] = {
      {"mec-03", "mec-03"},
      {"tcp://[fe80::1]:7411", "tcp://[fe80::1]:7411"},
      {"", "\"\""},
      {"two words", "\"two words\""},
      {"a=b", "\"a=b\""},
      {"say \"x\" \\", "\"say \\\"x\\\" \\\\\""},
      {"x\n2026 error", "\"x\\x0a2026 error\""},
      {"\x1b[31mred", "\"\\x1b[31mred\""},
      {"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\xa6", "\"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\xa6\""},
      {"\xc2\x9b"
       "31m",
       "\"\\xc2\\x9b31m\""},                                       /* CSI as one character */
      {"\xff\xc3", "\"\\xff\\xc3\""},                              /* malformed and cut off */
      {"\xc0\xaf \xed\xa0\x80", "\"\\xc0\\xaf \\xed\\xa0\\x80\""}, /* overlong, surrogate */
  };
  log_set(LOG_INFO, LOG_TEXT);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char expected[128];
    snprintf(expected, sizeof expected, " info x why=%s\n", cases[i].expected);
    const char *line = logged(LOG_INFO, "x", NULL, LOG_FIELDS(log_text("why", cases[i].text)));
    ck_assert_str_eq(line + TIME_LENGTH, expected);
  }
}
END_TEST

START_TEST(json_lines_are_objects) {
  log_set(LOG_INFO, LOG_JSON);
  const char *line = logged(LOG_WARNING, "refused", "m\xff\n",
                            LOG_FIELDS(log_integer("round", -3), log_real("loss", NAN), log_real("rate", 0.25),
                                       log_text("why", "caf\xc3\xa9 \"\x1b\"")));
  log_set(LOG_INFO, LOG_TEXT);
  ck_assert_uint_eq(n_lines(line), 1);
  json_error_t error;
  json_t *object = json_loads(line, 0, &error);
  ck_assert_msg(json_is_object(object), "%s", line);
  ck_assert_uint_eq(strlen(json_string_value(json_object_get(object, "time"))), TIME_LENGTH);
  ck_assert_str_eq(json_string_value(json_object_get(object, "level")), "warning");
  ck_assert_str_eq(json_string_value(json_object_get(object, "event")), "refused");
  ck_assert_str_eq(json_string_value(json_object_get(object, "peer")), "m?\n");
  ck_assert_int_eq(json_integer_value(json_object_get(object, "round")), -3);
  ck_assert(json_is_null(json_object_get(object, "loss")));
  ck_assert(json_real_value(json_object_get(object, "rate")) == 0.25);
  ck_assert_str_eq(json_string_value(json_object_get(object, "why")), "caf\xc3\xa9 \"\x1b\"");
  json_decref(object);
}
END_TEST

START_TEST(the_level_filters) {
  log_set(LOG_WARNING, LOG_TEXT);
  ck_assert_str_eq(logged(LOG_INFO, "x", NULL, NULL), "");
  ck_assert_str_eq(logged(LOG_WARNING, "x", NULL, NULL) + TIME_LENGTH, " warning x\n");
  log_set(LOG_DEBUG, LOG_TEXT);
  ck_assert_str_eq(logged(LOG_DEBUG, "x", NULL, NULL) + TIME_LENGTH, " debug x\n");
  log_set(LOG_INFO, LOG_TEXT);
}
END_TEST

START_TEST(lines_about_a_peer_are_limited_own_ones_are_not) {
  struct capture c = capture_begin();
  for (int i = 0; i < 50; i++) {
    log_event(LOG_WARNING, "no-answer", "mec-11", NULL);
    log_event(LOG_INFO, "round-committed", NULL, LOG_FIELDS(log_integer("round", i)));
  }
  const char *text = capture_end(&c);
  ck_assert_uint_eq(n_lines(text), 3 + 50);
}
END_TEST

enum { N_THREADS = 4, PER_THREAD = 200 };

static void *chatter(void *context) {
  for (int i = 0; i < PER_THREAD; i++)
    log_event(LOG_INFO, "tick", NULL, LOG_FIELDS(log_text("from", context), log_text("why", "some more words")));
  return NULL;
}

START_TEST(lines_of_threads_do_not_mix) {
  static char names[N_THREADS][2] = {"a", "b", "c", "d"};
  struct capture c = capture_begin();
  pthread_t threads[N_THREADS];
  for (size_t i = 0; i < N_THREADS; i++)
    ck_assert_int_eq(pthread_create(&threads[i], NULL, chatter, names[i]), 0);
  for (size_t i = 0; i < N_THREADS; i++)
    pthread_join(threads[i], NULL);
  const char *text = capture_end(&c);
  ck_assert_uint_eq(n_lines(text), (size_t)N_THREADS * PER_THREAD);
  for (const char *line = text; *line != '\0'; line = strchr(line, '\n') + 1) {
    char from;
    ck_assert_int_eq(sscanf(line + TIME_LENGTH, " info tick from=%c", &from), 1);
    ck_assert_int_eq(strncmp(strchr(line, '"'), "\"some more words\"\n", 18), 0);
  }
}
END_TEST

int main(void) {
  return SUITE_RUN("agent/log", a_line_has_time_level_event_and_fields, text_from_outside_cannot_forge_a_line,
                   json_lines_are_objects, the_level_filters, lines_about_a_peer_are_limited_own_ones_are_not,
                   lines_of_threads_do_not_mix);
}
