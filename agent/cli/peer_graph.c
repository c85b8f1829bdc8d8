/* starling peer graph: who averages with whom by the job's topology. It is made of the configuration alone, as every agent makes it. */
#include <inttypes.h>
#include <string.h>

#include "agent/cli/answer.h"
#include "agent/cli/table.h"
#include "agent/cli/verbs.h"
#include "agent/key.h"
#include "agent/scalar.h"
#include "base/must.h"
#include "crypto/key_text.h"

enum { FLAG_ROUND = 1 };

/* Members of the job in the order of their keys. */
struct roster {
  const struct config *config;
  struct identity_key own;
  size_t n, self; /* agents, and the place of oneself */
};

static struct roster roster_of(const struct config *c, const struct identity_key *own) {
  struct roster r = {.config = c, .own = *own, .n = c->n_peers + 1};
  while (r.self < c->n_peers && identity_key_compare(&c->peers[r.self].key, own) < 0)
    r.self++;
  return r;
}

static const struct peer_config *peer_at(const struct roster *r, size_t i) {
  return &r->config->peers[i < r->self ? i : i - 1];
}

static const char *name_at(const struct roster *r, size_t i) {
  return i == r->self ? r->config->name : peer_at(r, i)->name;
}

/* What a site that only lists its own peers can know. */
static bool is_known(const struct job_topology *t, const struct roster *r, size_t i, size_t j) {
  return t->rule != GRAPH_PEERS || i == r->self || j == r->self;
}

static json_t *row_of(const struct roster *r, const struct job_topology *t, const struct graph *g, size_t i) {
  char key[KEY_TEXT_BYTES];
  json_t *hears = json_array();
  for (size_t j = 0; j < g->n; j++)
    if (graph_hears(g, i, j) && is_known(t, r, i, j))
      json_array_append_new(hears, json_string(name_at(r, j)));
  key_text_write(i == r->self ? &r->own : &peer_at(r, i)->key, key);
  return json_pack("{s:s, s:s, s:b, s:o}", "name", name_at(r, i), "key", key, "self", i == r->self, "hears", hears);
}

/* With peers as configured only the own edges are known, and no gap. */
static json_t *gap_of(const struct job_topology *t, const struct graph *g) {
  double gap;
  bool has_gap = t->rule != GRAPH_PEERS && !t->is_directed && g->n > 1;
  return has_gap && graph_spectral_gap(g, &gap) == ERR_OK ? json_real(gap) : json_null();
}

/* What the graph is, and what may differ from it in a round as it comes about. */
static json_t *plan_text(const struct job_config *job, uint64_t round) {
  const char *groups = job->cluster.is_on ? ", and peers of other groups are left out" : "";
  if (job_topology_rotates(&job->topology))
    return json_sprintf("of round %" PRIu64
                        "; an agent all of whose neighbours are away then takes a later round's graph%s",
                        round, groups);
  return json_sprintf("of every round; peers that are away then are left out%s", groups);
}

static json_t *graph_json(const struct roster *r, const struct config *c, const struct job_config *job,
                          uint64_t round) {
  const struct job_topology *t = &job->topology;
  struct digest id = config_job_id(c, job);
  char text[MAX_TOPOLOGY_TEXT];
  struct graph g;
  if (graph_make(t, r->n, job_topology_seed(&id), round, &g) != ERR_OK)
    return NULL;
  json_t *rows = json_array();
  for (size_t i = 0; i < g.n; i++)
    json_array_append_new(rows, row_of(r, t, &g, i));
  job_topology_write(t, text);
  json_t *o =
      json_pack("{s:s, s:i, s:s, s:b, s:b, s:o, s:o, s:I, s:I, s:o, s:o}", "job", job->name, "version",
                (int)job->version, "topology", text, "directed", t->is_directed, "whole", t->rule != GRAPH_PEERS,
                "round", job_topology_rotates(t) ? json_integer((json_int_t)round) : json_null(), "plan",
                plan_text(job, round), "degree", (json_int_t)job_topology_degree(t, r->n), "follows",
                (json_int_t)job_topology_follows(t, r->n), "spectral_gap", gap_of(t, &g), "agents", rows);
  graph_done(&g);
  return o;
}

/* "mec-03, mec-09" in place of the list. */
static json_t *lines_of(const json_t *agents) {
  json_t *lines = json_array();
  const json_t *agent, *name;
  size_t i, k;
  json_array_foreach(agents, i, agent) {
    json_t *line = json_copy((json_t *)(uintptr_t)agent);
    char text[4 * MAX_REASON_BYTES] = "";
    size_t n = 0;
    json_array_foreach(json_object_get(agent, "hears"), k, name) {
      if (n < sizeof text)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", k > 0 ? ", " : "", json_string_value(name));
    }
    json_object_set_new(line, "hears", json_string(text));
    json_array_append_new(lines, line);
  }
  return lines;
}

static void view_graph(const struct call *call, const json_t *data, FILE *out) {
  static const struct column columns[] = {
      {"AGENT", "name", FORM_TEXT}, {"AVERAGES OVER", "hears", FORM_TEXT}, {"KEY", "key", FORM_TEXT | COLUMN_IN_TSV}};
  json_t *lines = lines_of(json_object_get(data, "agents"));
  table_print(columns, sizeof columns / sizeof *columns, lines, call->format == FORMAT_TSV, out);
  json_decref(lines);
  if (call->format == FORMAT_TSV)
    return;
  const json_t *gap = json_object_get(data, "spectral_gap");
  fprintf(out, "topology: %s", json_string_value(json_object_get(data, "topology")));
  if (json_is_real(gap))
    fprintf(out, "; spectral gap %.4f: what is left of a difference after a round is at most %.4f of it",
            json_real_value(gap), 1 - json_real_value(gap));
  if (!json_is_true(json_object_get(data, "whole")))
    fputs("; what the peers list beside us is not known here, so there is no spectral gap", out);
  fprintf(out, "\nthe plan %s\n", json_string_value(json_object_get(data, "plan")));
}

static bool read_round(struct call *call, uint64_t *out_round) {
  char why[MAX_REASON_BYTES];
  const char *text = call->flags[FLAG_ROUND];
  *out_round = 1;
  if (!text || scalar_integer(text, 1, UINT32_MAX, out_round, why) == ERR_OK)
    return true;
  (void)answer_error(call, EXIT_USAGE, "range", NULL, "--round: %s", why);
  return false;
}

int verb_peer_graph(struct call *call) {
  char why[MAX_CONFIG_WHY_BYTES];
  const struct site_job_config *job;
  struct identity *identity;
  struct config *c;
  uint64_t round;
  if (!read_round(call, &round) || !call_load_job(call, &c, &job))
    return EXIT_USAGE;
  enum err e = key_open(c, &identity, why);
  if (e) {
    config_free(c);
    return answer_error(call, EXIT_USAGE, err_name(e), NULL, "%s", why);
  }
  struct roster r = roster_of(c, identity_public(identity));
  json_t *data = graph_json(&r, c, &job->job, round);
  identity_free(identity);
  config_free(c);
  MUST(data != NULL);
  return answer(call, data, view_graph);
}
