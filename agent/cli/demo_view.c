#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/cli/demo.h"
#include "agent/cli/table.h"
#include "agent/round_json.h"

static double number_at(const json_t *status, const char *path) {
  const json_t *value = status ? json_at(status, path) : NULL;
  return json_is_number(value) ? json_number_value(value) : 0;
}

static const char *text_at(const json_t *status, const char *path) {
  const char *text = status ? json_string_value(json_at(status, path)) : NULL;
  return text ? text : "starting";
}

/* ---- live --------------------------------------------------------------------------------------------------------- */

static size_t count_alive(const json_t *status) {
  size_t n = 0, i;
  const json_t *peer;
  json_array_foreach(json_object_get(status, "peers"), i, peer) {
    const char *state = text_at(peer, "state");
    n += strcmp(state, "alive") == 0 || strcmp(state, "finished") == 0;
  }
  return n;
}

static double sent_by(const struct demo_site *site) {
  return (double)site->sent_before + number_at(site->status, "sent_bytes");
}

static json_t *live_row(const struct demo_site *site) {
  const json_t *s = site->status;
  char round[32], peers[32];
  snprintf(round, sizeof round, "%.0f/%.0f", number_at(s, "job.round"), number_at(s, "job.count"));
  snprintf(peers, sizeof peers, "%zu/%zu", count_alive(s), json_array_size(json_object_get(s, "peers")));
  return json_pack("{s:s, s:s, s:s, s:f, s:O?, s:O?, s:s, s:f}", "site", site->name, "round", round, "phase",
                   text_at(s, "job.phase"), "loss", number_at(s, "job.train_loss"), "global",
                   s ? json_at(s, "job.global") : NULL, "local", s ? json_at(s, "job.local") : NULL, "peers", peers,
                   "sent", sent_by(site));
}

static void draw(struct demo_view *view, const struct demo_site sites[DEMO_SITES], double seconds) {
  static const struct column columns[] = {
      {"SITE", "site", FORM_TEXT},   {"ROUND", "round", FORM_TEXT},          {"PHASE", "phase", FORM_TEXT},
      {"LOSS", "loss", FORM_LOSS},   {"TEST (ALL)", "global", FORM_PERCENT}, {"TEST (OWN)", "local", FORM_PERCENT},
      {"PEERS", "peers", FORM_TEXT}, {"SENT", "sent", FORM_BYTES},
  };
  json_t *rows = json_array();
  for (size_t i = 0; i < DEMO_SITES; i++)
    json_array_append_new(rows, live_row(&sites[i]));
  if (view->n_drawn > 0)
    printf("\x1b[%dA\x1b[J", view->n_drawn);
  table_print(columns, sizeof columns / sizeof *columns, rows, false, stdout);
  printf("%.0f s\n", seconds);
  view->n_drawn = DEMO_SITES + 2;
  fflush(stdout);
  json_decref(rows);
}

static uint64_t slowest_round(const struct demo_site sites[DEMO_SITES]) {
  double round = number_at(sites[0].status, "job.round");
  for (size_t i = 1; i < DEMO_SITES; i++)
    if (number_at(sites[i].status, "job.round") < round)
      round = number_at(sites[i].status, "job.round");
  return (uint64_t)round;
}

static void print_line(struct demo_view *view, const struct demo_site sites[DEMO_SITES], double seconds) {
  uint64_t round = slowest_round(sites);
  double global = 0, local = 0, sent = 0;
  if (round <= view->printed_round)
    return;
  for (size_t i = 0; i < DEMO_SITES; i++) {
    global += number_at(sites[i].status, "job.global") / DEMO_SITES;
    local += number_at(sites[i].status, "job.local") / DEMO_SITES;
    sent += sent_by(&sites[i]);
  }
  printf("round %2" PRIu64 "  test on all %.1f %%  on each site's own %.1f %%  sent %.1f MB  %.0f s\n", round,
         100 * global, 100 * local, sent / 1e6, seconds);
  fflush(stdout);
  view->printed_round = round;
}

void demo_view_show(struct demo_view *view, const struct demo_site sites[DEMO_SITES], double seconds) {
  if (view->is_terminal)
    draw(view, sites, seconds);
  else
    print_line(view, sites, seconds);
}

void demo_view_note(struct demo_view *view, const struct demo_site *site, const char *text) {
  printf("%s %s\n", site->name, text);
  fflush(stdout);
  view->n_drawn = 0;
}

/* ---- result ------------------------------------------------------------------------------------------------------- */

struct totals {
  double swarm_global, alone_global, swarm_local,
      alone_local; /* fractions; local ones weighted by the size of the test */
  double wire_bytes;
};

/* A test set that cannot tell models apart adds nothing. */
static double counted(double headline) {
  return __builtin_isnan(headline) ? 0 : headline;
}

static struct totals total(const struct demo_site sites[DEMO_SITES]) {
  struct totals t = {0};
  double n_tests = 0;
  for (size_t i = 0; i < DEMO_SITES; i++) {
    double n = __builtin_isnan(sites[i].swarm.local_headline) ? 0 : sites[i].n_test;
    t.swarm_global += sites[i].swarm.global_headline / DEMO_SITES;
    t.alone_global += sites[i].alone.global_headline / DEMO_SITES;
    t.swarm_local += n * counted(sites[i].swarm.local_headline);
    t.alone_local += n * counted(sites[i].alone.local_headline);
    t.wire_bytes += (double)sites[i].sent_bytes;
    n_tests += n;
  }
  t.swarm_local /= n_tests > 0 ? n_tests : 1;
  t.alone_local /= n_tests > 0 ? n_tests : 1;
  return t;
}

static void print_sites(const struct demo_site sites[DEMO_SITES]) {
  static const struct column columns[] = {
      {"SITE", "site", FORM_TEXT},
      {"ALONE (ALL)", "alone_global", FORM_PERCENT},
      {"SWARM (ALL)", "swarm_global", FORM_PERCENT},
      {"ALONE (OWN)", "alone_local", FORM_PERCENT},
      {"SWARM (OWN)", "swarm_local", FORM_PERCENT},
      {"OWN TEST", "n_test", FORM_COUNT},
      {"SENT", "sent", FORM_BYTES},
  };
  json_t *rows = json_array();
  for (size_t i = 0; i < DEMO_SITES; i++) {
    const struct demo_site *s = &sites[i];
    json_array_append_new(
        rows, json_pack("{s:s, s:o, s:o, s:o, s:o, s:i, s:f}", "site", s->name, "alone_global",
                        json_number(s->alone.global_headline), "swarm_global", json_number(s->swarm.global_headline),
                        "alone_local", json_number(s->alone.local_headline), "swarm_local",
                        json_number(s->swarm.local_headline), "n_test", (int)s->n_test, "sent", (double)s->sent_bytes));
  }
  table_print(columns, sizeof columns / sizeof *columns, rows, false, stdout);
  json_decref(rows);
}

void demo_view_result(const struct demo_options *options, const struct demo_site sites[DEMO_SITES], double seconds) {
  struct totals t = total(sites);
  bool is_better_at_home = t.swarm_local > t.alone_local;
  printf("\n");
  print_sites(sites);
  printf("\nAccuracy on all ten kinds of clothes: together %.1f %%, alone %.1f %%.\n"
         "On each site's own mix: together %.1f %%, alone %.1f %%: %s\n",
         100 * t.swarm_global, 100 * t.alone_global, 100 * t.swarm_local, 100 * t.alone_local,
         is_better_at_home ? "the swarm helps there too."
                           : "for its own mix a site may not need the swarm; for what it has not yet seen it does.");
  printf("\nSee more:      %s -C %s/s1/site.yaml rounds list   (or rounds show %" PRIu64 ", eval, config show)\n"
         "Every bit again: the same command.   Remove everything: rm -r %s\n",
         program_invocation_name, options->folder, options->rounds, options->folder);
  printf("result swarm_global=%.2f alone_global=%.2f swarm_local=%.2f alone_local=%.2f wire_bytes=%.0f seconds=%.1f\n",
         100 * t.swarm_global, 100 * t.alone_global, 100 * t.swarm_local, 100 * t.alone_local, t.wire_bytes, seconds);
}
