/* starling wait and starling rounds wait: until something is so. */
#include "agent/cli/wait.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/cli/answer.h"
#include "agent/cli/ask.h"
#include "agent/cli/history.h"
#include "agent/cli/table.h"
#include "agent/cli/verbs.h"
#include "agent/clock.h"
#include "agent/scalar.h"
#include "gossip/gossip.h"

enum { FLAG_FOR, FLAG_TIMEOUT };

/* ---- conditions --------------------------------------------------------------------------------------------------- */

/* What is waited for, read from the word after --for. */
struct wanted {
  const struct condition *condition;
  char text[2 * MAX_NAME_BYTES];
  json_int_t round;
  char word[MAX_NAME_BYTES], peer[MAX_NAME_BYTES];
};

struct condition {
  const char *form; /* "round=N" */
  /* NULL: the form says it all */
  enum err (*read)(const char *value, const struct config *c, struct wanted *w, char why[MAX_REASON_BYTES]);
  bool (*holds)(const struct wanted *w, const json_t *status);
  bool outlasts; /* no agent there is what it waits to end */
};

static enum err read_round(const char *value, const struct config *c, struct wanted *w, char why[MAX_REASON_BYTES]) {
  (void)c;
  uint64_t round;
  enum err e = scalar_integer(value, 1, INT64_MAX, &round, why);
  if (!e)
    w->round = (json_int_t)round;
  return e;
}

static bool round_holds(const struct wanted *w, const json_t *status) {
  return json_integer_value(json_at(status, "job.round")) >= w->round;
}

static enum err read_phase(const char *value, const struct config *c, struct wanted *w, char why[MAX_REASON_BYTES]) {
  (void)c;
  const char *words[N_PHASES + 1] = {NULL};
  size_t index;
  for (size_t i = 0; i < N_PHASES; i++)
    words[i] = phase_name((enum phase)i);
  enum err e = scalar_word(value, words, &index, why);
  if (!e)
    snprintf(w->word, sizeof w->word, "%s", words[index]);
  return e;
}

static bool phase_holds(const struct wanted *w, const json_t *status) {
  return strcmp(json_string_value(json_at(status, "job.phase")), w->word) == 0;
}

/* "alive" or a reason of the error list. */
static bool is_peer_state(const char *word) {
  bool is_known = strcmp(word, "alive") == 0;
  for (int i = ERR_FIRST_DROP; i < ERR_COUNT; i++)
    is_known = is_known || strcmp(word, err_name((enum err)i)) == 0;
  return is_known;
}

static enum err read_peer(const char *value, const struct config *c, struct wanted *w, char why[MAX_REASON_BYTES]) {
  static const char middle[] = ",state=";
  const char *comma = strstr(value, middle);
  bool is_known = false;
  snprintf(w->peer, sizeof w->peer, "%.*s", (int)(comma ? comma - value : 0), value);
  snprintf(w->word, sizeof w->word, "%s", comma ? comma + sizeof middle - 1 : "");
  for (size_t i = 0; i < c->n_peers; i++)
    is_known = is_known || strcmp(c->peers[i].name, w->peer) == 0;
  if (comma && is_known && is_peer_state(w->word))
    return ERR_OK;
  snprintf(why, MAX_REASON_BYTES, "%s",
           !comma      ? "write peer=NAME,state=WORD"
           : !is_known ? "no peer has that name; see `starling peer list`"
                       : "no such state; it is alive or one of `starling peer list`");
  return ERR_NOT_FOUND;
}

static bool peer_holds(const struct wanted *w, const json_t *status) {
  size_t i;
  const json_t *row;
  json_array_foreach(json_object_get(status, "peers"), i, row) {
    if (strcmp(json_string_value(json_object_get(row, "name")), w->peer) == 0)
      return strcmp(json_string_value(json_object_get(row, "state")), w->word) == 0;
  }
  return false;
}

static bool is_finished(const json_t *status) {
  return strcmp(json_string_value(json_object_get(status, "word")), "FINISHED") == 0;
}

static bool finished_holds(const struct wanted *w, const json_t *status) {
  (void)w;
  return is_finished(status);
}

static bool alive_holds(const struct wanted *w, const json_t *status) {
  (void)w;
  return status != NULL;
}

static bool health_holds(const struct wanted *w, const json_t *status) {
  (void)w;
  return strcmp(json_string_value(json_object_get(status, "word")), "HALTED") != 0;
}

static const struct condition conditions[] = {
    {"round=N", read_round, round_holds, false},
    {"phase=WORD", read_phase, phase_holds, false},
    {"peer=NAME,state=WORD", read_peer, peer_holds, false},
    {"finished", NULL, finished_holds, false},
    {"alive", NULL, alive_holds, true},
    {"health=ok", NULL, health_holds, false},
};
enum { N_CONDITIONS = sizeof conditions / sizeof *conditions };

/* A form with a capital after its '=' takes a value there, any other is meant as it stands. */
static enum err read_condition(const char *text, const struct config *c, struct wanted *w,
                               char why[MAX_CONFIG_WHY_BYTES]) {
  char reason[MAX_REASON_BYTES];
  size_t n = 0;
  snprintf(w->text, sizeof w->text, "%.120s", text);
  for (size_t i = 0; i < N_CONDITIONS; i++) {
    const char *form = conditions[i].form, *equals = strchr(form, '=');
    size_t n_fixed = equals && equals[1] >= 'A' && equals[1] <= 'Z' ? (size_t)(equals - form) + 1 : 0;
    if (n_fixed ? strncmp(text, form, n_fixed) != 0 : strcmp(text, form) != 0)
      continue;
    w->condition = &conditions[i];
    enum err e = conditions[i].read ? conditions[i].read(text + n_fixed, c, w, reason) : ERR_OK;
    if (e)
      snprintf(why, MAX_CONFIG_WHY_BYTES, "--for %.120s: %s", text, reason);
    return e;
  }
  n += (size_t)snprintf(why, MAX_CONFIG_WHY_BYTES, "--for %.120s: no such condition; there are", text);
  for (size_t i = 0; i < N_CONDITIONS; i++)
    n += (size_t)snprintf(why + n, MAX_CONFIG_WHY_BYTES - n, "%s %s", i ? "," : "", conditions[i].form);
  return ERR_NOT_FOUND;
}

/* ---- looking ------------------------------------------------------------------------------------------------------ */

struct waiting {
  struct call *call;
  const struct config *c;
  struct digest job;
  struct wanted wanted;
  bool has_change;
  json_int_t change;  /* what the last status said: the next one comes when that is over */
  json_int_t reached; /* newest committed round, −1 when nothing is known */
  char why[MAX_CONFIG_WHY_BYTES];
};

/* No agent: what the database knows. */
static void look_into_history(struct waiting *w) {
  char why[MAX_REASON_BYTES];
  json_t *data = NULL, *row;
  size_t i;
  if (history_read(w->c, &(struct history_query){.job = w->job, .last = 2}, &data, why))
    return;
  json_array_foreach(json_object_get(data, "rounds"), i, row) {
    if (strcmp(json_string_value(json_object_get(row, "state")), "committed") == 0)
      w->reached = json_integer_value(json_object_get(row, "round"));
  }
  json_decref(data);
}

/* EXIT_FAILED: the job ended before the round that is waited for. */
static int judge(struct waiting *w, const json_t *status) {
  w->has_change = true;
  w->change = json_integer_value(json_object_get(status, "change"));
  w->reached = json_integer_value(json_at(status, "job.round"));
  if (w->wanted.condition->holds(&w->wanted, status))
    return EXIT_DONE;
  return w->wanted.round > 0 && is_finished(status) ? EXIT_FAILED : EXIT_TIMED_OUT;
}

/* One look; EXIT_TIMED_OUT means not yet. The agent answers the second and later ones when something has changed. */
static int look(struct waiting *w, bool *out_pause) {
  json_t *status = NULL, *request = call_request(w->call, json_pack("{s:s}", "ask", "status"));
  if (w->has_change)
    json_object_set_new(request, "unless", json_integer(w->change));
  enum err e = agent_ask(w->call, w->c->state_dir, request, &status, w->why);
  *out_pause = e != ERR_OK;
  if (e == ERR_OK) {
    int code = judge(w, status);
    json_decref(status);
    return code;
  }
  w->has_change = false;
  if (e == ERR_TIMED_OUT || e == ERR_STOPPED)
    return EXIT_TIMED_OUT; /* busy, or still starting */
  if (e != ERR_NOT_CONNECTED)
    return ask_exit_code(e);
  if (w->wanted.condition->outlasts)
    return EXIT_TIMED_OUT;
  if (w->wanted.round > 0)
    look_into_history(w);
  return w->wanted.round > 0 && w->reached >= w->wanted.round ? EXIT_DONE : EXIT_UNREACHABLE;
}

/* With a time-out it outlasts an agent that has not started yet or starts again; without one no agent is an error. */
static int wait_until(struct waiting *w, bool outlasts, double timeout_s) {
  static const struct timespec moment = {.tv_nsec = 100000000};
  double end = clock_s() + timeout_s;
  bool pauses;
  int code = look(w, &pauses);
  while ((code == EXIT_TIMED_OUT || (code == EXIT_UNREACHABLE && outlasts)) && clock_s() < end) {
    if (pauses)
      nanosleep(&moment, NULL);
    code = look(w, &pauses);
  }
  return code;
}

/* ---- answering ---------------------------------------------------------------------------------------------------- */

static void view(const struct call *call, const json_t *data, FILE *out) {
  (void)call;
  value_print(json_object_get(data, "round"), FORM_COUNT, out);
  fputc('\n', out);
}

static int answer_wait(struct waiting *w, int code) {
  switch (code) {
  case EXIT_DONE:
    return answer(w->call,
                  json_pack("{s:s, s:o}", "for", w->wanted.text, "round",
                            w->reached < 0 ? json_null() : json_integer(w->reached)),
                  view);
  case EXIT_FAILED:
    return answer_error(w->call, code, err_name(ERR_FINISHED), NULL, "the job ended with round %" JSON_INTEGER_FORMAT,
                        w->reached);
  case EXIT_TIMED_OUT:
    return answer_error(w->call, code, err_name(ERR_TIMED_OUT), NULL, "%s did not come in time", w->wanted.text);
  default:
    return answer_error(w->call, code, err_name(ERR_NOT_CONNECTED), "start it with `starling run`",
                        "%s, and %s did not come", w->why, w->wanted.text);
  }
}

int wait_for(struct call *call, const char *condition, const char *timeout) {
  char why[MAX_CONFIG_WHY_BYTES];
  double timeout_s = 1e18;
  struct config *c;
  if (timeout && scalar_number(timeout, 0, 1e9, &timeout_s, why))
    return answer_error(call, EXIT_USAGE, "usage", NULL, "--timeout: %s", why);
  const struct site_job_config *job;
  if (!call_load_job(call, &c, &job))
    return EXIT_USAGE;
  struct waiting w = {.call = call, .c = c, .job = config_job_id(c, &job->job), .reached = -1};
  int code = read_condition(condition, c, &w.wanted, why) ? answer_error(call, EXIT_USAGE, "usage", NULL, "%s", why)
                                                          : answer_wait(&w, wait_until(&w, timeout != NULL, timeout_s));
  config_free(c);
  return code;
}

int verb_wait(struct call *call) {
  const char *condition = call->flags[FLAG_FOR];
  return condition ? wait_for(call, condition, call->flags[FLAG_TIMEOUT])
                   : answer_error(call, EXIT_USAGE, "usage", NULL, "--for is missing; see `starling help wait`");
}
