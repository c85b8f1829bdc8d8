/* starling events: what happened, from the running agent, or from the database when none runs. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/cli/answer.h"
#include "agent/cli/ask.h"
#include "agent/cli/history.h"
#include "agent/cli/table.h"
#include "agent/cli/verbs.h"
#include "agent/clock.h"
#include "agent/event_json.h"
#include "agent/scalar.h"

enum { FLAG_FOLLOW, FLAG_AFTER, FLAG_LAST };
enum { PAGE = 64, MAX_LAST = 10000 };

static const double away_s = 5; /* so long --follow waits for an agent that went away: a restart takes less */

/* Where the reading stands. */
struct reading {
  struct call *call;
  const struct config *c;
  bool is_after; /* else the last so many */
  uint64_t after, last;
  bool waits; /* for the next event, where the agent can */
  bool has_heading;
  char why[MAX_CONFIG_WHY_BYTES];
};

static enum err read_database(struct reading *r, json_t **out_data) {
  struct store *s;
  struct store_event_row *rows = calloc(PAGE, sizeof *rows);
  uint64_t newest = 0;
  size_t n = 0;
  enum err e = rows ? history_open(r->c, &s, r->why) : ERR_NO_MEMORY;
  if (e) {
    free(rows);
    return e;
  }
  if (!r->is_after)
    e = store_event_last(s, &newest);
  uint64_t after = r->is_after ? r->after : newest > r->last ? newest - r->last : 0;
  if (!e)
    e = store_events(s, after, rows, PAGE, &n);
  if (!e)
    *out_data = events_json(rows, n, n ? rows[n - 1].id : after);
  else
    snprintf(r->why, sizeof r->why, "the database could not be read: %s", err_sentence(e));
  store_close(s);
  free(rows);
  return e;
}

static enum err read_agent(struct reading *r, json_t **out_data) {
  json_t *request = json_pack("{s:s, s:b, s:I}", "ask", "events", "wait", r->waits, "last", (json_int_t)r->last);
  if (r->is_after)
    json_object_set_new(request, "after", json_integer((json_int_t)r->after));
  return agent_ask(r->call, r->c->state_dir, request, out_data, r->why);
}

/* ---- showing ------------------------------------------------------------------------------------------------------ */

static void print_heading(const struct call *call) {
  if (call->format == FORMAT_TABLE)
    printf("%6s  %-20s  %-18s  %-12s  %s\n", "ID", "AT", "EVENT", "PEER", "TEXT");
}

static void print_text(const json_t *row, const char *key, int width) {
  const char *text = json_string_value(json_object_get(row, key));
  text_print(text ? text : "-", stdout);
  for (int n = (int)strlen(text ? text : "-"); n < width; n++)
    putchar(' ');
}

static void print_row(const struct call *call, const json_t *row) {
  static const struct {
    const char *key;
    int width;
  } columns[] = {{"at", 20}, {"name", 18}, {"peer", 12}, {"text", 0}};
  bool is_table = call->format == FORMAT_TABLE;
  if (call->format == FORMAT_JSON) {
    json_dumpf(row, stdout, JSON_COMPACT);
  } else {
    printf(is_table ? "%6" JSON_INTEGER_FORMAT : "%" JSON_INTEGER_FORMAT,
           json_integer_value(json_object_get(row, "id")));
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
      fputs(is_table ? "  " : "\t", stdout);
      print_text(row, columns[i].key, is_table ? columns[i].width : 0);
    }
  }
  putchar('\n');
}

/* Prints a page (moved) and goes on behind it; how many rows it had. */
static size_t take_page(struct reading *r, json_t *data) {
  size_t i;
  const json_t *row, *rows = json_object_get(data, "events");
  if (!r->has_heading)
    print_heading(r->call);
  r->has_heading = true;
  json_array_foreach(rows, i, row) {
    print_row(r->call, row);
  }
  fflush(stdout);
  r->is_after = true;
  r->after = (uint64_t)json_integer_value(json_object_get(data, "after"));
  json_decref(data);
  return i;
}

/* ---- reading ------------------------------------------------------------------------------------------------------ */

/* Everything up to now: pages until one is empty. ERR_NOT_CONNECTED: neither an agent nor a database. */
static enum err read_all(struct reading *r) {
  enum err e;
  size_t n;
  do {
    json_t *data = NULL;
    e = read_agent(r, &data);
    if (e == ERR_NOT_CONNECTED)
      e = read_database(r, &data);
    n = e ? 0 : take_page(r, data);
  } while (n > 0);
  return e;
}

/* Waits for events until the agent is away for too long or the reader is gone. */
static enum err follow(struct reading *r) {
  static const struct timespec pause = {.tv_nsec = 100000000};
  double seen_s = clock_s();
  enum err e = ERR_OK;
  r->waits = true;
  while (!ferror(stdout) && clock_s() - seen_s < away_s) {
    json_t *data = NULL;
    e = read_agent(r, &data);
    if (e == ERR_OK) {
      take_page(r, data);
      seen_s = clock_s();
    } else if (e == ERR_NOT_CONNECTED || e == ERR_TIMED_OUT || e == ERR_STOPPED) {
      nanosleep(&pause, NULL); /* away, busy or starting */
    } else {
      return e;
    }
  }
  return e;
}

static enum err read_flags(struct reading *r) {
  const char *after = r->call->flags[FLAG_AFTER], *last = r->call->flags[FLAG_LAST];
  char why[MAX_REASON_BYTES] = "write either --after or --last";
  enum err e = after && last ? ERR_RANGE : ERR_OK;
  if (e == ERR_OK && after && (e = scalar_integer(after, 0, INT64_MAX, &r->after, why)) != ERR_OK)
    snprintf(r->why, sizeof r->why, "--after: %s", why);
  else if (e == ERR_OK && last && (e = scalar_integer(last, 0, MAX_LAST, &r->last, why)) != ERR_OK)
    snprintf(r->why, sizeof r->why, "--last: %s", why);
  else
    snprintf(r->why, sizeof r->why, "%s", why);
  r->is_after = after != NULL;
  return e;
}

int verb_events(struct call *call) {
  struct config *c;
  struct reading r = {.call = call, .last = 20};
  if (read_flags(&r))
    return answer_error(call, EXIT_USAGE, "usage", NULL, "%s", r.why);
  if (!call_load_config(call, &c))
    return EXIT_USAGE;
  r.c = c;
  answer_warnings(call);
  bool follows = call->flags[FLAG_FOLLOW] != NULL;
  enum err e = read_all(&r);
  if (follows && (!e || e == ERR_NOT_CONNECTED))
    e = follow(&r);
  int code = EXIT_DONE;
  if (e == ERR_NOT_CONNECTED && follows && r.is_after)
    code = answer_error(call, EXIT_UNREACHABLE, err_name(e), NULL,
                        "%s; go on with `starling events --follow --after %" PRIu64 "`", r.why, r.after);
  else if (e)
    code = answer_error(call, ask_exit_code(e), err_name(e), NULL, "%s", r.why);
  config_free(c);
  return code;
}
