/* The log: one line an event on stderr, for people or as JSON.
 *
 *   2026-03-01T09:30:00.125Z info round-committed round=418 merged=3 late=mec-03 loss=0.402
 *   {"time":"2026-03-01T09:30:00.125Z","level":"info","event":"round-committed","round":418,"merged":3, …}
 *
 * Event names are stable words with dashes. Text from outside cannot forge a line: what is not a plain word is quoted, and
 * control characters and malformed UTF-8 are written as \xHH in quotes (JSON: escaped, malformed bytes as '?').
 * A line about a peer is subject to the limit of agent/run/log_limit.h; `left_out=N` tells how many went before it.
 *
 * The log is the process's own, as stderr is: its state is the one mutable global of the program. Any thread. */
#ifndef AGENT_RUN_LOG_H
#define AGENT_RUN_LOG_H

#include <stddef.h>
#include <stdint.h>

#include "agent/config.h"

enum log_field_type { LOG_FIELD_TEXT, LOG_FIELD_INTEGER, LOG_FIELD_REAL };

/* key NULL ends a list of fields. Strings are borrowed for the call. */
struct log_field {
  const char *key; /* a plain word */
  enum log_field_type type;
  union {
    const char *text;
    int64_t integer;
    double real; /* three to six digits are written; JSON: null unless finite */
  };
};

static inline struct log_field log_text(const char *key, const char *text) {
  return (struct log_field){.key = key, .type = LOG_FIELD_TEXT, .text = text};
}

static inline struct log_field log_integer(const char *key, int64_t integer) {
  return (struct log_field){.key = key, .type = LOG_FIELD_INTEGER, .integer = integer};
}

static inline struct log_field log_real(const char *key, double real) {
  return (struct log_field){.key = key, .type = LOG_FIELD_REAL, .real = real};
}

/* The fields of one event: LOG_FIELDS(log_integer("round", 418), log_text("late", "mec-03")). */
#define LOG_FIELDS(...) ((const struct log_field[]){__VA_ARGS__, {.key = NULL}})

/* Before it is called: LOG_INFO, LOG_TEXT. Called again when the configuration changes. */
void log_set(enum log_level level, enum log_format format);

/* Writes one line if the level is in effect. peer: who it is about, a name or an address, the line's first field; NULL for
 * the agent's own events, which are not limited. fields may be NULL. */
void log_event(enum log_level level, const char *event, const char *peer, const struct log_field *fields);

#endif
