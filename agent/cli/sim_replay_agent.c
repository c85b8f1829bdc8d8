/* starling sim --replay of what a deployed agent recorded: its round machine is told the same and must do the same. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/cli/answer.h"
#include "agent/cli/sim.h"
#include "agent/cli/table.h"
#include "agent/core/replay.h"
#include "agent/core/round_machine.h"
#include "agent/file.h"
#include "agent/round_json.h"
#include "agent/scalar.h"
#include "base/fd.h"

static json_t *label_json(struct round_label label) {
  char text[ROUND_LABEL_BYTES];
  round_label_write(label, text);
  return json_string(text);
}

static json_t *peers_json(const struct round_machine *m) {
  json_t *rows = json_array();
  for (size_t i = 0; i < m->self.n_peers; i++) {
    const struct round_peer *p = &m->peers[i];
    struct round_peer_view v;
    round_peer_view(m, i, &v);
    json_array_append_new(
        rows, json_pack("{s:o, s:b, s:s, s:b, s:I, s:I, s:I, s:s}", "peer", json_text(m->self.peers[i].name), "session",
                        p->has_session, "standing", v.standing == ERR_OK ? "ok" : err_name(v.standing), "waited_for",
                        v.is_waited_for, "copy_round", (json_int_t)p->inbox.copy.round, "held_round",
                        (json_int_t)p->inbox.held.round, "waiting_links", (json_int_t)p->inbox.n_queue, "last",
                        v.last_reason == ERR_OK ? "merged" : err_name(v.last_reason)));
  }
  return rows;
}

/* Its words are those of whoever wrote the file. */
static json_t *state_json(const struct replay *r) {
  const struct round_machine *m = replay_machine(r);
  const struct replay_event *e = replay_event(r);
  struct round_view v;
  round_view(m, &v);
  json_t *difference =
      e->differs ? json_pack("{s:o, s:o}", "recorded", json_text(e->recorded), "now", json_text(e->now)) : json_null();
  return json_pack("{s:I, s:I, s:o, s:o, s:b, s:o, s:I, s:s, s:o, s:o, s:I, s:o}", "events", (json_int_t)e->n, "at_ms",
                   (json_int_t)e->at_ms, "event", json_text(e->text), "about", json_text(e->peer), "equal", !e->differs,
                   "difference", difference, "gaps", (json_int_t)replay_gaps(r), "phase", phase_name(v.phase),
                   "committed", label_json(v.committed), "in_work", label_json(v.in_work), "published",
                   (json_int_t)m->own.sequence, "rows", peers_json(m));
}

static void view(const struct call *call, const json_t *data, FILE *out) {
  static const struct column columns[] = {{"PEER", "peer", FORM_TEXT},
                                          {"SESSION", "session", FORM_TEXT},
                                          {"STANDING", "standing", FORM_TEXT},
                                          {"WAITED FOR", "waited_for", FORM_TEXT},
                                          {"COPY", "copy_round", FORM_COUNT},
                                          {"HELD", "held_round", FORM_COUNT},
                                          {"LINKS WAITING", "waiting_links", FORM_COUNT | COLUMN_IF_ANY},
                                          {"LAST MERGE", "last", FORM_TEXT}};
  bool is_tsv = call->format == FORMAT_TSV;
  table_print(columns, sizeof columns / sizeof *columns, json_object_get(data, "rows"), is_tsv, out);
  if (is_tsv)
    return;
  fprintf(out, "\n%s, committed %s, in work %s, published %.0f\n", json_string_value(json_object_get(data, "phase")),
          json_string_value(json_object_get(data, "committed")), json_string_value(json_object_get(data, "in_work")),
          json_number_value(json_object_get(data, "published")));
  const char *about = json_string_value(json_object_get(data, "about"));
  fprintf(out, "%.0f events, the last at %.0f ms (%s%s%s): ", json_number_value(json_object_get(data, "events")),
          json_number_value(json_object_get(data, "at_ms")), json_string_value(json_object_get(data, "event")),
          about[0] ? " of " : "", about);
  const json_t *difference = json_object_get(data, "difference");
  if (json_is_null(difference))
    fprintf(out, "as it was recorded\n");
  else
    fprintf(out, "it differs: recorded %s, now %s\n", json_string_value(json_object_get(difference, "recorded")),
            json_string_value(json_object_get(difference, "now")));
}

/* A FIFO is none, and is not waited for. */
bool sim_is_agent_trace(const char *path) {
  char head[N_RECORD_MAGIC_NAME];
  size_t n = 0;
  int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0)
    return false;
  enum err e = fd_read_full(fd, head, sizeof head, &n);
  close(fd);
  return e == ERR_OK && n == sizeof head && memcmp(head, RECORD_MAGIC, sizeof head) == 0;
}

static int refuse(struct call *call, enum err e, uint64_t event) {
  return answer_error(call, EXIT_USAGE, err_name(e), "write it again with starling trace", "%s: event %" PRIu64 ": %s",
                      call->flags[SIM_REPLAY], event, err_sentence(e));
}

static int run(struct call *call, struct replay *r, uint64_t stop_at) {
  enum err e = ERR_OK;
  bool has = true;
  while (e == ERR_OK && has && (stop_at == 0 || replay_event(r)->n < stop_at))
    e = replay_next(r, &has);
  const struct replay_event *last = replay_event(r);
  if (e != ERR_OK)
    return refuse(call, e, last->n);
  if (stop_at > last->n && !last->differs)
    answer_warn(call, "--stop-at: there is no event %" PRIu64 "; the last one is %" PRIu64, stop_at, last->n);
  if (replay_gaps(r) > 0)
    answer_warn(call, "%s: what the ring had no room for is missing in %" PRIu64 " places", call->flags[SIM_REPLAY],
                replay_gaps(r));
  int code = answer(call, state_json(r), view);
  return code == EXIT_DONE && last->differs ? EXIT_FAILED : code;
}

int sim_replay_agent(struct call *call, uint64_t stop_at) {
  const char *path = call->flags[SIM_REPLAY];
  struct replay *r = NULL;
  char *bytes;
  size_t n;
  enum err e = file_read(path, MAX_AGENT_TRACE_BYTES, &bytes, &n);
  if (e != ERR_OK)
    return answer_error(call, EXIT_USAGE, err_name(e), NULL, "%s: %s", path, err_sentence(e));
  if (n < N_RECORD_MAGIC || memcmp(bytes, RECORD_MAGIC, N_RECORD_MAGIC) != 0)
    e = ERR_TOO_NEW;
  else
    e = replay_new((const uint8_t *)bytes + N_RECORD_MAGIC, n - N_RECORD_MAGIC, &r);
  int code = e == ERR_OK ? run(call, r, stop_at) : refuse(call, e, 0);
  replay_free(r);
  free(bytes);
  return code;
}
