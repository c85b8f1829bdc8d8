#include "agent/run/request.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum member_kind { MEMBER_TEXT, MEMBER_FLAG, MEMBER_NUMBER };

static const struct member {
  const char *name;
  enum member_kind kind;
  json_int_t most; /* of a number */
} members[] = {
    {"ask", MEMBER_TEXT, 0},
    {"job", MEMBER_TEXT, 0},
    {"peer", MEMBER_TEXT, 0},
    {"text", MEMBER_TEXT, 0},
    {"note", MEMBER_TEXT, 0},
    {"mode", MEMBER_TEXT, 0},
    {"file", MEMBER_TEXT, 0},
    {"check", MEMBER_FLAG, 0},
    {"wait", MEMBER_FLAG, 0},
    {"round", MEMBER_NUMBER, INT64_MAX},
    {"sub", MEMBER_NUMBER, UINT32_MAX},
    {"from", MEMBER_NUMBER, INT64_MAX},
    {"last", MEMBER_NUMBER, UINT32_MAX},
    {"after", MEMBER_NUMBER, INT64_MAX},
    {"unless", MEMBER_NUMBER, INT64_MAX},
};

static const struct member *find(const char *name) {
  for (size_t i = 0; i < sizeof members / sizeof *members; i++)
    if (strcmp(name, members[i].name) == 0)
      return &members[i];
  return NULL;
}

static bool fits(const struct member *m, const json_t *value) {
  switch (m->kind) {
  case MEMBER_TEXT:
    return json_is_string(value);
  case MEMBER_FLAG:
    return json_is_boolean(value);
  case MEMBER_NUMBER:
    return json_is_integer(value) && json_integer_value(value) >= 0 && json_integer_value(value) <= m->most;
  }
  return false;
}

static void tell(const struct member *m, char out_why[MAX_REASON_BYTES]) {
  static const char *const types[] = {[MEMBER_TEXT] = "text", [MEMBER_FLAG] = "true or false"};
  if (m->kind == MEMBER_NUMBER)
    snprintf(out_why, MAX_REASON_BYTES, "%s: write a whole number from 0 to %" JSON_INTEGER_FORMAT, m->name, m->most);
  else
    snprintf(out_why, MAX_REASON_BYTES, "%s: write %s", m->name, types[m->kind]);
}

enum err request_judge(const json_t *request, char out_why[MAX_REASON_BYTES]) {
  const char *name;
  json_t *value;
  json_object_foreach((json_t *)request, name, value) {
    const struct member *m = find(name);
    if (m && fits(m, value))
      continue;
    if (m)
      tell(m, out_why);
    else
      snprintf(out_why, MAX_REASON_BYTES, "\"%.64s\": a request has no such member", name);
    return ERR_RANGE;
  }
  return ERR_OK;
}
