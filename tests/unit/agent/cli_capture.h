/* Runs the command line in this process and keeps what it prints. */
#ifndef TESTS_UNIT_AGENT_CLI_CAPTURE_H
#define TESTS_UNIT_AGENT_CLI_CAPTURE_H

#include <check.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/cli/cli.h"
#include "crypto/random.h"

struct cli_capture {
  int code;
  char out[65536], err[8192];
};

static inline void cli_capture_read(FILE *file, char *text, size_t capacity) {
  rewind(file);
  text[fread(text, 1, capacity - 1, file)] = '\0';
  fclose(file);
}

/* argv after "starling", NULL-terminated. */
static inline void cli_capture_run(struct cli_capture *c, const char *const *argv) {
  static const char *const environment[] = {NULL};
  const char *all[16] = {"starling"};
  int argc = 1;
  for (; argv[argc - 1]; argc++) {
    ck_assert_int_lt(argc, 15);
    all[argc] = argv[argc - 1];
  }
  ck_assert_int_eq(random_open(), ERR_OK); /* as main does */
  FILE *out = tmpfile(), *err = tmpfile();
  ck_assert(out && err);
  fflush(stdout);
  fflush(stderr);
  int old_out = dup(STDOUT_FILENO), old_err = dup(STDERR_FILENO);
  dup2(fileno(out), STDOUT_FILENO);
  dup2(fileno(err), STDERR_FILENO);
  c->code = cli_main(argc, all, environment);
  fflush(stdout);
  fflush(stderr);
  dup2(old_out, STDOUT_FILENO);
  dup2(old_err, STDERR_FILENO);
  close(old_out);
  close(old_err);
  cli_capture_read(out, c->out, sizeof c->out);
  cli_capture_read(err, c->err, sizeof c->err);
}

#define CLI(c, ...) cli_capture_run(c, (const char *const[]){__VA_ARGS__, NULL})

/* The JSON that was printed: one object. The caller releases it. */
static inline json_t *cli_capture_json(const struct cli_capture *c) {
  json_error_t error;
  json_t *object = json_loads(c->out, 0, &error);
  ck_assert_msg(json_is_object(object), "%s: %s", error.text, c->out);
  ck_assert_int_eq(json_integer_value(json_object_get(object, "schema")), 1);
  ck_assert(json_is_array(json_object_get(object, "warnings")));
  return object;
}

#endif
