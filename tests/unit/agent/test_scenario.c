/* Scenario files and `starling sim`: what is read and refused, and that a run says what became of it. */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/sim/scenario.h"
#include "base/rng.h"
#include "tests/size.h"
#include "tests/unit/agent/cli_capture.h"
#include "tests/unit/agent/site_folder.h"
#include "tests/unit/suite.h"

static struct cli_capture c;
static char path[64];

static void write_scenario(const char *text) {
  strcpy(path, "/tmp/starling-scenario-XXXXXX");
  int fd = mkstemp(path);
  ck_assert_int_ge(fd, 0);
  ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
  close(fd);
}

/* The line after the file's name; the scenario when it is read. */
static enum err load(const char *text, struct scenario **out, char why[MAX_CONFIG_WHY_BYTES]) {
  char whole[MAX_CONFIG_WHY_BYTES] = "";
  write_scenario(text);
  enum err e = scenario_load(path, out, whole);
  unlink(path);
  if (e) {
    ck_assert_int_eq(strncmp(whole, path, strlen(path)), 0);
    snprintf(why, MAX_CONFIG_WHY_BYTES, "%s", whole + strlen(path) + 1);
  }
  return e;
}

START_TEST(everything_is_read_and_the_rest_has_defaults) {
  char why[MAX_CONFIG_WHY_BYTES];
  struct scenario *s;
  ck_assert_int_eq(
      load("hosts: [ { agents: 1..2, speed: 0.5 } ]\nagents: 5\nseed: 9\n"
           "events:\n  - { at_s: 9, do: heal, agents: 0 }\n  - { at_s: 3, do: part, agents: 0, to: 1..4 }\n"
           "links:\n  - { agents: 0, to: 1, one_way: true, delay_ms: 99 }\n"
           "host: { training_ms: 70, memory_kib: 150 }\nlink: { delay_ms: 4, rate_kbit: 8 }\nround: { deadline_max_s: "
           "9 }\n",
           &s, why),
      ERR_OK);
  ck_assert_uint_eq(s->seed, 9);
  ck_assert_uint_eq(s->n_agents, 5);
  ck_assert_uint_eq(s->topology, TOPOLOGY_RING);
  ck_assert_uint_eq(s->rounds, 20);
  ck_assert_uint_eq(s->n_hosts, 1);
  ck_assert(s->hosts[0].host.speed == 0.5);
  ck_assert_uint_eq(s->hosts[0].host.training_ms, 70); /* what stands below counts, too */
  ck_assert(s->links[0].link.delay_ms == 99 && s->links[0].link.rate_kbit == 8 && s->links[0].one_way);
  ck_assert_uint_eq(s->events[0].action, ACTION_PART);
  ck_assert_uint_eq(s->events[1].action, ACTION_HEAL);
  struct sim *sim = scenario_sim(s);
  ck_assert_uint_eq(sim->n_agents, 5);
  ck_assert_uint_eq(sim->agents[0]->n_peers, 2);
  ck_assert_uint_eq(sim_link(sim, 0, 1)->delay_us, 99000);
  ck_assert_uint_eq(sim_link(sim, 1, 0)->delay_us, 4000);
  ck_assert_uint_eq(sim_link(sim, 1, 0)->bytes_per_s, 1000);
  ck_assert_uint_eq(sim_config(sim->agents[2])->deadline_max_ms, 9000);
  ck_assert_uint_eq(sim_config(sim->agents[2])->payload_max_bytes, 200 << 10); /* one of each peer */
  ck_assert(sim->agents[2]->host.speed == 0.5 && sim->agents[3]->host.speed == 1);
  sim_free(sim);
  scenario_free(s);
}
END_TEST

static const struct {
  const char *text, *why;
} refused[] = {
    {"seed: 1\n", "1:1: agents: is missing; write agents: …"},
    {"agents: 0\n", "1:9: agents: \"0\" is out of range; write 1 to 100000"},
    {"agents: 3\nagent: 4\n", "2:1: unknown key \"agent\"; did you mean agents?"},
    {"agents: 3\nlink: { delay: 4 }\n", "2:9: unknown key \"link.delay\"; did you mean link.delay_ms?"},
    {"agents: 3\nagents: 4\n", "2:1: agents: the key stands in line 1 already; remove one"},
    {"agents: 3\nlink: 4\n", "2:7: no keys; write lines of the form KEY: VALUE"},
    {"agents: 3\nlink: { loss: 2 }\n", "2:15: link.loss: \"2\" is out of range; write 0 to 1"},
    {"agents: 3\ntopology: star\n",
     "2:11: topology: \"star\" is not known here; write full, ring, random, regular, alone, dumbbell or besieged"},
    {"agents: 3\nhosts: { agents: 1 }\n", "2:8: hosts: a list is expected here; "},
    {"agents: 3\nhosts:\n  - { speed: 1 }\n", "3:5: hosts[].agents: is missing"},
    {"agents: 3\nhosts:\n  - { agents: 2..1 }\n", "3:15: hosts[].agents: \"1\" is out of range; write 2 to 99999"},
    {"agents: 3\nhosts:\n  - { agents: 1..3 }\n", "3:15: hosts[].agents: there is no agent 3; the last one is 2"},
    {"agents: 3\nlinks:\n  - { agents: 0, to: 1 }\n  - { agents: 0, to: 3 }\n",
     "4:22: links[].to: there is no agent 3; "},
    {"agents: 3\nevents:\n  - { at_s: 9, do: kill, agents: 1 }\n  - { at_s: 1, do: kill, agents: 0..3 }\n",
     "4:34: events[].agents: there is no agent 3; the last one is 2"},
    {"agents: 3\nevents:\n  - { at_s: 9, do: pause, agents: 1 }\n",
     "3:5: events[].for_s: is missing or 0; write how long, for_s: …"},
    {"agents: 3\nevents:\n  - { at_s: 9, do: leap, agents: 1 }\n",
     "3:5: events[].for_s: is missing or 0; write how long, for_s: …"},
    {"agents: 3\nhost: { version: 65536 }\n", "2:18: host.version: \"65536\" is out of range; write 0 to 65535"},
    {"agents: 3\nevents:\n  - { at_s: 1, do: dance, agents: 1 }\n", "3:20: events[].do: \"dance\" is not known here; "},
    {"agents: 3\nevents:\n  - { at_s: 1, do: kill, agents: 1, link: 3 }\n",
     "3:37: unknown key \"events[].link\"; write one of at_s, do, agents, to, for_s, times, version"},
    {"agents: 300\ntopology: full\n", "2:11: topology: full has 299 peers an agent; at most 256 are possible; write "},
    {"agents: 3\ntopology: random\n", "2:11: degree: 4, and there are only 2 other agents; write a smaller one"},
    {"agents: 90000\nmodel_kib: 1000\n", "2:12: 90000 agents with models of 1000 KiB would take more than 4 GiB; "},
    {"topology: random\nagents: 100000\ndegree: 100\nfidelity: protocol\n",
     "2:9: 100000 agents of up to 200 peers would take more than 4 GiB; write 10356 or a smaller degree"},
    {"agents: 3\nround: { deadline_min_s: 9, deadline_max_s: 8 }\n",
     "2:8: round.deadline_min_s: is above round.deadline_max_s, 9 and 8; "},
    {"- agents: 3\n", "1:1: no keys; write lines of the form KEY: VALUE"},
    {"agents: &a 3\n", "1:9: "},
};

/* A line of a file is little, what it is done to is not. */
START_TEST(what_happens_is_bounded) {
  static const char head[] = "agents: 20000\nmodel_kib: 1\nevents:\n",
                    line[] = "  - { at_s: 1, do: mute, agents: 0..19999 }\n";
  char why[MAX_CONFIG_WHY_BYTES] = "", *text = malloc(MAX_SCENARIO_BYTES);
  struct scenario *read;
  size_t n = (size_t)snprintf(text, MAX_SCENARIO_BYTES, "%s", head);
  for (size_t i = 0; i < MAX_SCENARIO_STEPS / 40000; i++)
    n += (size_t)snprintf(text + n, MAX_SCENARIO_BYTES - n, "%s", line);
  ck_assert_msg(scenario_read("it", text, n, &read, why) == ERR_OK, "%s", why);
  scenario_free(read);
  n += (size_t)snprintf(text + n, MAX_SCENARIO_BYTES - n, "%s", line);
  ck_assert(scenario_read("it", text, n, &read, why) == ERR_LIMIT);
  ck_assert_ptr_nonnull(strstr(why, "hosts, links, events: those of 16800000 links, at most 16777216 are possible"));
  free(text);
}
END_TEST

START_TEST(what_is_wrong_has_its_place_and_remedy) {
  char why[MAX_CONFIG_WHY_BYTES] = "";
  struct scenario *s;
  enum err e = load(refused[_i].text, &s, why);
  ck_assert_int_ne(e, ERR_OK);
  ck_assert_msg(strncmp(why, refused[_i].why, strlen(refused[_i].why)) == 0, "%s", why);
}
END_TEST

static const char troubled[] =
    "agents: 6\nseed: 3\nrounds: 12\nmodel_kib: 70\n"
    "link: { delay_ms: 20, jitter_ms: 10, rate_kbit: 8000, loss: 0.002 }\n"
    "hosts:\n  - { agents: 4, speed: 0.3 }\n"
    "round: { deadline_max_s: 6, meet_s: 5 }\n"
    "events:\n  - { at_s: 10, do: kill, agents: 2 }\n  - { at_s: 20, do: start, agents: 2 }\n"
    "  - { at_s: 25, do: part, agents: 0, to: 1..5 }\n  - { at_s: 32, do: heal, agents: 0 }\n"
    "  - { at_s: 34, do: pause, agents: 1, for_s: 2 }\n  - { at_s: 36, do: wipe, agents: 3 }\n"
    "  - { at_s: 37, do: start, agents: 3 }\n  - { at_s: 40, do: fill, agents: 5 }\n"
    "  - { at_s: 48, do: free, agents: 5 }\n  - { at_s: 50, do: mute, agents: 5, to: 0 }\n"
    "  - { at_s: 60, do: heal, agents: 5 }\n";

static json_t *run(const char *text, const char *seed) {
  write_scenario(text);
  CLI(&c, "sim", path, "--seed", seed, "--format", "json");
  unlink(path);
  ck_assert_msg(c.code == EXIT_DONE, "%s%s", c.out, c.err);
  return cli_capture_json(&c);
}

static const json_t *datum(const json_t *answer, const char *key) {
  return json_object_get(json_object_get(answer, "data"), key);
}

START_TEST(one_seed_gives_one_trace_hash) {
  json_t *first = run(troubled, "3"), *again = run(troubled, "3"), *other = run(troubled, "4");
  ck_assert_str_eq(json_string_value(datum(first, "trace")), json_string_value(datum(again, "trace")));
  ck_assert(json_equal(datum(first, "rows"), datum(again, "rows")));
  ck_assert_str_ne(json_string_value(datum(first, "trace")), json_string_value(datum(other, "trace")));
  ck_assert(json_is_null(datum(first, "broken")));
  json_decref(first);
  json_decref(again);
  json_decref(other);
}
END_TEST

static json_int_t whole(const json_t *rows, size_t i, const char *key) {
  return json_integer_value(json_object_get(json_array_get(rows, i), key));
}

START_TEST(the_table_says_who_is_slow_and_what_it_costs) {
  json_t *answer = run("agents: 4\nrounds: 10\nmodel_kib: 64\nhosts:\n  - { agents: 2, speed: 0.2 }\n", "1");
  const json_t *rows = datum(answer, "rows");
  ck_assert_uint_eq(json_array_size(rows), 4);
  for (size_t i = 0; i < 4; i++) {
    ck_assert_int_eq(whole(rows, i, "round"), 10);
    ck_assert_int_eq(whole(rows, i, "merged_rounds"), 10);
    ck_assert_int_eq(whole(rows, i, "left_out"), 0);
    /* ten payloads to each of two peers, and words */
    ck_assert_int_ge(whole(rows, i, "sent_bytes"), INTMAX_C(20) * 65536);
    ck_assert_int_le(whole(rows, i, "sent_bytes"), INTMAX_C(23) * 65536);
  }
  ck_assert_int_eq(whole(rows, 2, "last"), 20); /* at both neighbours, always */
  double round_s = json_number_value(datum(answer, "round_seconds"));
  ck_assert(round_s > 5 && round_s < 5.2);
  json_decref(answer);
  write_scenario("agents: 3\nrounds: 2\nmodel_kib: 1\n");
  CLI(&c, "sim", path);
  unlink(path);
  ck_assert_int_eq(c.code, EXIT_DONE);
  ck_assert_ptr_nonnull(strstr(c.out, "AGENT  ROUND"));
  ck_assert_ptr_nonnull(strstr(c.out, "trace "));
}
END_TEST

static const json_t *row_of(const json_t *rows, json_int_t agent) {
  size_t i = 0;
  while (whole(rows, i, "agent") != agent)
    i++;
  return json_array_get(rows, i);
}

/* Who speaks an older version has a part in it; who speaks another major one is refused by all, for that reason. */
START_TEST(versions_are_mixed) {
  json_t *answer = run("agents: 4\ntopology: full\nrounds: 10\nmodel_kib: 1\nround: { meet_s: 5, deadline_max_s: 5 }\n"
                       "hosts:\n  - { agents: 1, version: 1 }\n  - { agents: 3, version: 99 }\n",
                       "1");
  const json_t *rows = datum(answer, "rows");
  for (json_int_t i = 0; i < 3; i++) {
    const json_t *row = row_of(rows, i);
    ck_assert_int_eq(json_integer_value(json_object_get(row, "merged_rounds")), 10);
    ck_assert_int_eq(json_integer_value(json_object_get(row, "taken")), 20); /* by the two others */
  }
  ck_assert_int_eq(json_integer_value(json_object_get(row_of(rows, 3), "taken")), 0);
  ck_assert_str_eq(json_string_value(json_object_get(row_of(rows, 3), "reason")), "version");
  json_decref(answer);
}
END_TEST

/* A gather whose end has come by the leap is over: the slow peer that it waited for is left out. */
START_TEST(a_clock_leaps) {
  static const char *const leaps[] = {"", "events:\n  - { at_s: 3, do: leap, agents: 0, for_s: 3600 }\n"};
  for (json_int_t i = 0; i < 2; i++) {
    char text[512];
    snprintf(text, sizeof text,
             "agents: 3\ntopology: full\nrounds: 6\nmodel_kib: 1\nhosts:\n  - { agents: 2, speed: 0.25 }\n%s",
             leaps[i]);
    json_t *answer = run(text, "1");
    const json_t *rows = datum(answer, "rows");
    ck_assert_int_eq(json_integer_value(json_object_get(row_of(rows, 2), "left_out")) > 0, i);
    for (json_int_t a = 0; a < 3; a++)
      ck_assert_int_eq(json_integer_value(json_object_get(row_of(rows, a), "round")), 6);
    json_decref(answer);
  }
}
END_TEST

/* Ctrl-C, which was pressed before it began: the tally so far, and a trace that can be repeated. */
START_TEST(who_is_stopped_says_what_became_of_it_until_then) {
  char trace[] = "/tmp/starling-trace-XXXXXX";
  sigset_t stops, before;
  close(mkstemp(trace));
  sigemptyset(&stops);
  sigaddset(&stops, SIGINT);
  sigprocmask(SIG_BLOCK, &stops, &before);
  raise(SIGINT);
  write_scenario("agents: 8\nrounds: 0\nmodel_kib: 1\nfidelity: protocol\nduration_s: 1e6\n");
  CLI(&c, "sim", path, "--trace", trace, "--format", "json");
  unlink(path);
  sigprocmask(SIG_SETMASK, &before, NULL);
  ck_assert_int_eq(c.code, EXIT_DONE);
  json_t *answer = cli_capture_json(&c);
  ck_assert(json_number_value(datum(answer, "seconds")) < 60);
  ck_assert_ptr_nonnull(
      strstr(json_string_value(json_array_get(json_object_get(answer, "warnings"), 0)), "it was stopped after"));
  json_decref(answer);
  CLI(&c, "sim", "--replay", trace);
  ck_assert_int_eq(c.code, EXIT_DONE);
  unlink(trace);
}
END_TEST

/* Thirty years in which nobody lives take no time. */
START_TEST(quiet_time_is_skipped) {
  write_scenario("agents: 2\nrounds: 1\nmodel_kib: 1\nduration_s: 1e9\nevents:\n"
                 "  - { at_s: 0, do: kill, agents: 0..1 }\n  - { at_s: 999999900, do: start, agents: 0..1 }\n");
  CLI(&c, "sim", path, "--format", "json");
  unlink(path);
  ck_assert_int_eq(c.code, EXIT_DONE);
  json_t *answer = cli_capture_json(&c);
  ck_assert(json_number_value(datum(answer, "seconds")) > 999999900);
  ck_assert(json_number_value(datum(answer, "wall_seconds")) < 5);
  ck_assert_int_eq(whole(datum(answer, "rows"), 0, "round"), 1);
  json_decref(answer);
}
END_TEST

/* Of a model that is longer than what a site usually gives updates room for, all arrive. */
START_TEST(a_model_is_as_long_as_one_likes) {
  write_scenario("agents: 4\nrounds: 3\nmodel_kib: 100000\nfidelity: protocol\nduration_s: 1000\n");
  CLI(&c, "sim", path, "--format", "json");
  unlink(path);
  ck_assert_int_eq(c.code, EXIT_DONE);
  json_t *answer = cli_capture_json(&c);
  ck_assert_int_eq(json_integer_value(datum(answer, "taken")), 24);
  ck_assert_int_eq(json_integer_value(datum(answer, "left_out")), 0);
  json_decref(answer);
}
END_TEST

START_TEST(a_file_that_cannot_be_read_is_a_wrong_argument) {
  CLI(&c, "sim", "/nowhere/at.yaml");
  ck_assert_int_eq(c.code, EXIT_USAGE);
  ck_assert_ptr_nonnull(strstr(c.err, "/nowhere/at.yaml: it does not exist"));
  write_scenario("agents: 3\n");
  CLI(&c, "sim", path, "--seed", "x");
  unlink(path);
  ck_assert_int_eq(c.code, EXIT_USAGE);
  ck_assert_ptr_nonnull(strstr(c.err, "--seed: \"x\" is not a whole number"));
}
END_TEST

/* ---- traces ---- */

static char trace_path[64];

static void record(const char *text) {
  write_scenario(text);
  snprintf(trace_path, sizeof trace_path, "%.50s.trace", path);
  CLI(&c, "sim", path, "--trace", trace_path);
  unlink(path);
  ck_assert_msg(c.code == EXIT_DONE, "%s%s", c.out, c.err);
}

/* Changes one byte so many before the end. */
static void change_byte(long before_end) {
  FILE *f = fopen(trace_path, "r+b");
  ck_assert(f != NULL && fseek(f, -before_end, SEEK_END) == 0);
  int byte = fgetc(f);
  ck_assert(fseek(f, -before_end, SEEK_END) == 0 && fputc(byte ^ 1, f) != EOF && fclose(f) == 0);
}

START_TEST(a_trace_is_repeated_and_stops_where_one_likes) {
  record(troubled);
  CLI(&c, "sim", "--replay", trace_path, "--format", "json");
  ck_assert_int_eq(c.code, EXIT_DONE);
  json_t *whole_story = cli_capture_json(&c);
  ck_assert(json_is_true(datum(whole_story, "equal")) && json_is_null(datum(whole_story, "difference")));
  CLI(&c, "sim", "--replay", trace_path, "--stop-at", "2000", "--format", "json");
  json_t *part = cli_capture_json(&c);
  ck_assert_int_eq(json_integer_value(datum(part, "events")), 2000);
  ck_assert_uint_eq(json_array_size(datum(part, "rows")), 6);
  ck_assert(json_number_value(datum(part, "seconds")) < json_number_value(datum(whole_story, "seconds")));
  CLI(&c, "sim", "--replay", trace_path, "--stop-at", "2000");
  ck_assert_ptr_nonnull(strstr(c.out, "as it was recorded"));
  ck_assert_ptr_nonnull(strstr(c.out, "AGENT  PHASE"));
  json_decref(whole_story);
  json_decref(part);
  unlink(trace_path);
}
END_TEST

START_TEST(the_first_event_that_differs_is_named) {
  record("agents: 3\nrounds: 3\nmodel_kib: 1\n");
  change_byte(24 * 50 - 8); /* the hash of the fiftieth last */
  CLI(&c, "sim", "--replay", trace_path, "--format", "json");
  ck_assert_int_eq(c.code, EXIT_FAILED);
  json_t *answer = cli_capture_json(&c);
  ck_assert(json_is_false(datum(answer, "equal")));
  json_int_t at = json_integer_value(datum(answer, "events"));
  ck_assert(json_is_object(json_object_get(datum(answer, "difference"), "now")));
  json_decref(answer);
  CLI(&c, "sim", "--replay", trace_path, "--stop-at", "10");
  ck_assert_int_eq(c.code, EXIT_DONE); /* before it all is equal */
  change_byte(24 * 50 - 8);
  CLI(&c, "sim", "--replay", trace_path, "--format", "json");
  ck_assert_int_eq(c.code, EXIT_DONE);
  answer = cli_capture_json(&c);
  ck_assert_int_eq(json_integer_value(datum(answer, "events")), at + 49);
  json_decref(answer);
  unlink(trace_path);
}
END_TEST

START_TEST(what_is_no_trace_is_refused) {
  record("agents: 2\nrounds: 1\nmodel_kib: 1\n");
  ck_assert_int_eq(truncate(trace_path, 200), 0);
  CLI(&c, "sim", "--replay", trace_path);
  ck_assert_int_eq(c.code, EXIT_USAGE);
  ck_assert_ptr_nonnull(strstr(c.err, ": it ends too early"));
  ck_assert_int_eq(truncate(trace_path, 30), 0);
  CLI(&c, "sim", "--replay", trace_path);
  ck_assert_int_eq(c.code, EXIT_USAGE);
  ck_assert_ptr_nonnull(strstr(c.err, "the trace ends within its scenario; record it again"));
  ck_assert_int_eq(truncate(trace_path, 5), 0);
  CLI(&c, "sim", "--replay", trace_path);
  ck_assert_ptr_nonnull(strstr(c.err, "it is no trace; record one with"));
  unlink(trace_path);
  CLI(&c, "sim", "--replay", trace_path, "--stop-at", "0");
  ck_assert_ptr_nonnull(strstr(c.err, "--stop-at: \"0\" is out of range"));
  write_scenario("agents: 2\n");
  CLI(&c, "sim", path, "--trace", "/nowhere/at");
  unlink(path);
  ck_assert_int_eq(c.code, EXIT_USAGE);
  ck_assert_ptr_nonnull(strstr(c.err, "--trace: /nowhere/at: it does not exist"));
  CLI(&c, "sim", "/tmp");
  ck_assert_int_eq(c.code, EXIT_USAGE);
  ck_assert_str_eq(c.err, "starling: /tmp: it is not a regular file; name a scenario in YAML\n");
  CLI(&c, "sim", "/nowhere.yaml");
  ck_assert_str_eq(c.err, "starling: /nowhere.yaml: it does not exist; check the path\n");
  write_scenario("agents: 2\n");
  ck_assert_int_eq(truncate(path, MAX_SCENARIO_BYTES + 1), 0);
  CLI(&c, "sim", path);
  unlink(path);
  ck_assert_ptr_nonnull(strstr(c.err, ": it or its name is too long; a scenario has at most 256 KiB\n"));
}
END_TEST

START_TEST(a_trace_that_ends_before_the_story_is_told) {
  record("agents: 3\nrounds: 3\nmodel_kib: 1\n");
  struct stat whole;
  ck_assert_int_eq(stat(trace_path, &whole), 0);
  CLI(&c, "sim", "--replay", trace_path);
  ck_assert_str_eq(c.err, "");
  CLI(&c, "sim", "--replay", trace_path, "--stop-at", "16777216");
  ck_assert_int_eq(c.code, EXIT_DONE);
  ck_assert_ptr_nonnull(strstr(c.err, "--stop-at: there is no event 16777216; the last one is "));
  ck_assert_int_eq(truncate(trace_path, whole.st_size - 24), 0); /* one record */
  CLI(&c, "sim", "--replay", trace_path);
  ck_assert_int_eq(c.code, EXIT_DONE);
  ck_assert_ptr_nonnull(strstr(c.err, ", before the story does; what comes after it is not compared"));
  unlink(trace_path);
}
END_TEST

START_TEST(a_trace_that_cannot_be_written_is_a_failure_and_leaves_nothing) {
  struct rlimit old, small = {.rlim_cur = 5000};
  struct stat status;
  write_scenario("agents: 3\nrounds: 9\nmodel_kib: 1\n");
  snprintf(trace_path, sizeof trace_path, "%.50s.trace", path);
  ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &old), 0);
  small.rlim_max = old.rlim_max;
  signal(SIGXFSZ, SIG_IGN);
  ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
  CLI(&c, "sim", path, "--trace", trace_path);
  ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &old), 0);
  ck_assert_int_eq(c.code, EXIT_FAILED);
  ck_assert_ptr_nonnull(strstr(c.err, "there is no trace, make room or name another file"));
  ck_assert_ptr_nonnull(strstr(c.out, "AGENT  ROUND")); /* what came of it is told all the same */
  ck_assert_int_ne(stat(trace_path, &status), 0);
  CLI(&c, "sim", path, "--trace", "/dev/full");
  ck_assert_int_eq(c.code, EXIT_FAILED);
  ck_assert_ptr_nonnull(strstr(c.err, "/dev/full: no space left on the device; there is no trace"));
  ck_assert_int_eq(stat("/dev/full", &status), 0);
  unlink(path);
}
END_TEST

START_TEST(a_trace_replaces_a_trace_and_nothing_else) {
  struct scenario *s;
  char why[MAX_CONFIG_WHY_BYTES];
  record("agents: 2\nrounds: 1\nmodel_kib: 1\n");
  write_scenario("agents: 3\nrounds: 1\nmodel_kib: 1\n");
  CLI(&c, "sim", path, "--trace", trace_path);
  ck_assert_int_eq(c.code, EXIT_DONE);
  unlink(trace_path);
  CLI(&c, "sim", path, "--trace", path);
  ck_assert_int_eq(c.code, EXIT_USAGE);
  ck_assert_ptr_nonnull(strstr(c.err, ": it exists already; name a new file or an old trace"));
  ck_assert_int_eq(scenario_load(path, &s, why), ERR_OK); /* it is whole */
  scenario_free(s);
  unlink(path);
}
END_TEST

START_TEST(a_fifo_is_not_waited_for) {
  write_scenario("agents: 2\nrounds: 1\nmodel_kib: 1\n");
  snprintf(trace_path, sizeof trace_path, "%.50s.trace", path);
  ck_assert_int_eq(mkfifo(trace_path, 0600), 0);
  CLI(&c, "sim", "--replay", trace_path);
  ck_assert_int_eq(c.code, EXIT_USAGE);
  ck_assert_ptr_nonnull(strstr(c.err, ": it is not a regular file; record one with"));
  CLI(&c, "sim", path, "--trace", trace_path);
  ck_assert_int_eq(c.code, EXIT_USAGE);
  ck_assert_ptr_nonnull(strstr(c.err, "; name a new file or an old trace that can be written"));
  unlink(trace_path);
  unlink(path);
}
END_TEST

/* ---- plans ---- */

/* Under valgrind fewer, who agree sooner. */
static const char *planned_agents(void) {
  return size_is("least") ? "6" : "500";
}

static json_t *plan(const struct site_folder *f, const char *link, const char *training) {
  CLI(&c, "sim", "--from", f->site, "--agents", planned_agents(), "--link", link, "--training", training, "--slow",
      "10%/0.25", "--format", "json");
  ck_assert_msg(c.code == EXIT_DONE, "%s%s", c.out, c.err);
  return cli_capture_json(&c);
}

static double figure(const json_t *answer, const char *key) {
  return json_number_value(datum(answer, key));
}

static const json_t *advice(const json_t *answer, const char *beginning) {
  size_t i;
  const json_t *row;
  json_array_foreach(datum(answer, "advice"), i, row) {
    if (strncmp(json_string_value(json_object_get(row, "change")), beginning, strlen(beginning)) == 0)
      return row;
  }
  return NULL;
}

START_TEST(a_plan_says_what_it_takes_and_what_would_help) {
  struct site_folder f =
      site_folder_new(GOOD_SITE, "job: wide\ntask: classify\nlabel: verdict\nclasses: [ ok, bad ]\nfeatures: [ a, b ]\n"
                                 "model: dense 128, relu, dense 256, relu, dense classes\n");
  json_t *fast = plan(&f, "1gbit/1ms", "2s"), *slow = plan(&f, "2mbit/80ms", "2s");
  ck_assert_int_eq(json_integer_value(datum(fast, "parameters")), 3 * 128 + 129 * 256 + 257 * 2);
  ck_assert(figure(fast, "update_bytes") == 4 * figure(fast, "parameters"));
  ck_assert(figure(fast, "round_seconds") > 8 && figure(fast, "round_seconds") < 8.5); /* as the slow hosts train */
  const json_t *kinds = datum(fast, "kinds");
  ck_assert_uint_eq(json_array_size(kinds), 2);
  ck_assert(json_number_value(json_object_get(json_array_get(kinds, 1), "last")) >
            2 * json_number_value(json_object_get(json_array_get(kinds, 0), "last")));
  ck_assert(advice(fast, "codec") == NULL); /* the line is not what it waits for */
  ck_assert(advice(fast, "round.deadline_max_s") != NULL);
  /* five or six updates of 136 kB out by 250 kB/s */
  ck_assert(figure(slow, "round_bytes") > 4 * figure(slow, "update_bytes"));
  ck_assert(figure(slow, "round_bytes") < 8 * figure(slow, "update_bytes"));
  ck_assert(figure(slow, "round_seconds") > figure(fast, "round_seconds"));
  ck_assert(figure(slow, "consensus_rounds") >= (double)least_or(2, 20) && figure(slow, "consensus_rounds") <= 60);
  json_decref(fast);
  json_decref(slow);
  slow = plan(&f, "500kbit/80ms", "100ms");
  const json_t *q8 = advice(slow, "codec: q8");
  ck_assert(q8 != NULL && json_number_value(json_object_get(q8, "gain")) > 0.3);
  json_decref(slow);
  CLI(&c, "sim", "--from", f.site, "--agents", planned_agents(), "--link", "500kbit/80ms", "--training", "100ms");
  ck_assert_int_eq(c.code, EXIT_DONE);
  ck_assert_ptr_nonnull(strstr(c.out, "What would help:"));
  ck_assert_ptr_nonnull(strstr(c.out, "a difference between sites is down to a hundredth after"));
  site_folder_free(&f);
}
END_TEST

START_TEST(rounds_that_are_spaced_are_told_and_are_no_reason_for_advice) {
  struct site_folder f = site_folder_new(GOOD_SITE "    round: { every_s: 60 }\n", GOOD_JOB);
  CLI(&c, "sim", "--from", f.site, "--agents", "8", "--link", "4mbit/80ms", "--training", "1ms", "--format", "json");
  ck_assert_msg(c.code == EXIT_DONE, "%s%s", c.out, c.err);
  json_t *answer = cli_capture_json(&c);
  ck_assert(figure(answer, "every_seconds") == 60);
  ck_assert(advice(answer, "four times as many steps") == NULL); /* 0.01 % of the time instead of 0.002 % */
  json_decref(answer);
  CLI(&c, "sim", "--from", f.site, "--agents", "8", "--link", "4mbit/80ms", "--training", "1ms");
  ck_assert_ptr_nonnull(strstr(c.out, "; round.every_s spaces them: 1m00s\n"));
  CLI(&c, "sim", "--from", f.site, "--agents", "8", "--link", "4mbit/80ms", "--training", "20s");
  ck_assert_ptr_nonnull(strstr(c.out, "four times as many steps a round: training, of its time, "));
  ck_assert_ptr_null(strstr(c.out, "0 s instead of"));
  site_folder_free(&f);
}
END_TEST

START_TEST(a_plan_of_more_than_there_is_memory_for_is_refused) {
  enum { N_PEERS = 12 };
  char site[4096], key_text[KEY_TEXT_BYTES];
  size_t n = (size_t)snprintf(site, sizeof site, "%s%speers:\n", GOOD_HEAD, GOOD_JOBS);
  for (int i = 1; i <= N_PEERS; i++) {
    struct identity_key key = test_key(i);
    key_text_write(&key, key_text);
    n += (size_t)snprintf(site + n, sizeof site - n, "  - { name: p%d, key: %s }\n", i, key_text);
  }
  struct site_folder f = site_folder_new(site, GOOD_JOB);
  CLI(&c, "sim", "--from", f.site, "--agents", "100000", "--link", "4mbit/80ms", "--training", "2s");
  ck_assert_int_eq(c.code, EXIT_USAGE);
  ck_assert_msg(strstr(c.err, "--agents: 100000 sites of 12 peers would take more than 4 GiB; write at most 79137"),
                "%s", c.err);
  site_folder_free(&f);
}
END_TEST

static const struct {
  const char *flag, *value, *why;
} bad_plans[] = {
    {"--link", "4mb/80ms", "--link: \"4mb\" has no unit that is known here; write a number and one of kbit, "},
    {"--link", "4mbit/80s", "--link: \"80s\" has no unit that is known here; write a number and one of ms"},
    {"--link", "4mbit", "--link: \"4mbit\" is no pair; write for example 4mbit/80ms"},
    {"--link", "0kbit/8ms", "--link: \"0kbit\" is out of range; write 1kbit to "},
    {"--agents", "1", "--agents: \"1\" is out of range; write 2 to 100000"},
    {"--training", "2", "--training: \"2\" has no unit that is known here; write a number and one of ms, s, min"},
    {"--slow", "10/0.5", "--slow: \"10\" has no unit that is known here; write a number and one of %"},
    {"--slow", "10%/2", "--slow: \"2\" is out of range; write 0.001 to 1"}};

START_TEST(a_bad_plan_is_refused_with_its_remedy) {
  struct site_folder f = site_folder_new(GOOD_SITE, GOOD_JOB);
  CLI(&c, "sim", "--from", f.site, "--agents", "50", "--link", "4mbit/80ms", "--training", "2s", bad_plans[_i].flag,
      bad_plans[_i].value);
  ck_assert_int_eq(c.code, EXIT_USAGE);
  ck_assert_msg(strstr(c.err, bad_plans[_i].why) != NULL, "%s", c.err);
  CLI(&c, "sim", "--from", f.site, "--agents", "50");
  ck_assert_ptr_nonnull(strstr(c.err, "--link: is missing; write a site's line"));
  CLI(&c, "sim", "--from", f.site, "--agents", "50", "--link", "4mbit/80ms");
  ck_assert_int_eq(c.code, EXIT_USAGE);
  ck_assert_ptr_nonnull(strstr(c.err, "--training: no round was trained here yet; write how long"));
  site_folder_free(&f);
}
END_TEST

/* ---- learning ---- */

/* Three classes around three points, and a job that divides them unevenly between eight sites. */
static void write_points(const struct site_folder *f, const char *name, size_t n, uint64_t seed) {
  static const double middles[3][2] = {{0, 2}, {2, -1}, {-2, -1}};
  char *text = NULL;
  size_t n_text;
  FILE *out = open_memstream(&text, &n_text);
  struct rng r;
  rng_init(&r, seed);
  fprintf(out, "a,b,verdict\n");
  for (size_t i = 0; i < n; i++) {
    size_t k = (size_t)rng_below(&r, 3);
    double a = middles[k][0], b = middles[k][1];
    for (size_t u = 0; u < 6; u++) { /* nearly normal, sd 1.2 */
      a += 1.7 * (rng_unit(&r) - 0.5);
      b += 1.7 * (rng_unit(&r) - 0.5);
    }
    fprintf(out, "%.4f,%.4f,%c\n", a, b, (char)('x' + k));
  }
  fclose(out);
  site_folder_write(f, name, text);
  free(text);
}

static struct site_folder points_site(void) {
  struct site_folder f = site_folder_new(
      GOOD_HEAD "jobs:\n  - job: a.job.yaml\n    data: { train: points.csv, part: 1, global_test: all.csv }\n",
      "job: points\ntask: classify\nlabel: verdict\nclasses: [ x, y, z ]\nfeatures: [ a, b ]\n"
      "model: dense 16, relu, dense classes\nsplit: { rule: dirichlet 0.3, n: 8 }\n"
      "train: { epochs: 1, batch: 16, learning_rate: 0.02 }\n");
  write_points(&f, "points.csv", 1600, 1);
  write_points(&f, "all.csv", 3000, 2);
  return f;
}

/* Under valgrind not all has been learnt. */
static size_t learnt_rounds(void) {
  return least_or(6, 60);
}

/* The mean accuracy of eight agents after these rounds on the common test set. */
static double learn(const struct site_folder *f, const char *events) {
  char text[4096];
  snprintf(text, sizeof text,
           "agents: 8\ntopology: random\ndegree: 4\nrounds: %zu\nmodel_kib: 1\n"
           "round: { deadline_max_s: 10 }\n%s",
           learnt_rounds(), events);
  write_scenario(text);
  CLI(&c, "sim", path, "--learn", f->site, "--format", "json");
  unlink(path);
  ck_assert_msg(c.code == EXIT_DONE, "%s%s", c.out, c.err);
  json_t *answer = cli_capture_json(&c);
  double headline = json_number_value(datum(answer, "headline"));
  for (size_t i = 0; i < 8; i++)
    ck_assert_int_eq(whole(datum(answer, "rows"), i, "round"), (int)learnt_rounds());
  json_decref(answer);
  return headline;
}

START_TEST(what_was_learnt_bears_partitions_and_crashes) {
  struct site_folder f = points_site();
  char crashes[3500] = "events:\n";
  struct rng r;
  rng_init(&r, 3);
  for (size_t k = 0, n = strlen(crashes); k < 40; k++) {
    uint64_t who = rng_below(&r, 8);
    double at_s = 5 + 1.2 * (double)k;
    n += (size_t)snprintf(crashes + n, sizeof crashes - n,
                          "  - { at_s: %.1f, do: kill, agents: %d }\n  - { at_s: %.1f, do: start, agents: %d }\n", at_s,
                          (int)who, at_s + 2.5, (int)who);
  }
  double plain = learn(&f, ""), again = learn(&f, "");
  double parted = learn(&f, "events:\n  - { at_s: 20, do: part, agents: 0..3, to: 4..7 }\n"
                            "  - { at_s: 31, do: heal, agents: 0..7 }\n");
  double crashed = learn(&f, crashes);
  printf(
      "accuracy undisturbed %.4f; parted into 4+4 for 10 rounds %.4f (within 0.005); two or three of eight crash and "
      "restart all the time %.4f (within 0.01)\n",
      plain, parted, crashed);
  ck_assert(!(plain < again) && !(plain > again));
  site_folder_free(&f);
  if (size_is("least"))
    return;
  ck_assert(plain > 0.8);
  ck_assert(parted > plain - 0.005 && parted < plain + 0.005);
  ck_assert(crashed > plain - 0.01 && crashed < plain + 0.01);
}
END_TEST

/* 35 KiB of a model where the scenario says 1, at either fidelity: all of it arrives everywhere, and is the same. */
START_TEST(what_learns_sends_its_own_length) {
  struct site_folder f = points_site();
  site_folder_write(&f, "a.job.yaml",
                    "job: points\ntask: classify\nlabel: verdict\nclasses: [ x, y, z ]\nfeatures: [ a, b ]\n"
                    "model: dense 92, relu, dense 92, relu, dense classes\nsplit: { rule: dirichlet 0.3, n: 8 }\n");
  json_t *answers[2];
  static const char *const fidelities[] = {"sealed", "protocol"};
  for (size_t i = 0; i < 2; i++) {
    char text[200];
    snprintf(text, sizeof text, "agents: 4\nrounds: 5\nmodel_kib: 1\nduration_s: 100\nfidelity: %s\n", fidelities[i]);
    write_scenario(text);
    CLI(&c, "sim", path, "--learn", f.site, "--format", "json");
    unlink(path);
    ck_assert_msg(c.code == EXIT_DONE, "%s%s", c.out, c.err);
    answers[i] = cli_capture_json(&c);
    ck_assert_int_eq(json_integer_value(datum(answers[i], "left_out")), 0);
    ck_assert_int_eq(json_integer_value(datum(answers[i], "taken")), 40);
    ck_assert_int_ge(json_integer_value(datum(answers[i], "sent_bytes")), INTMAX_C(4) * 2 * 5 * 35000);
  }
  ck_assert_str_eq(json_string_value(datum(answers[0], "trace")), json_string_value(datum(answers[1], "trace")));
  json_decref(answers[0]);
  json_decref(answers[1]);
  write_scenario("agents: 513\nmodel_kib: 1\n");
  CLI(&c, "sim", path, "--learn", f.site);
  unlink(path);
  ck_assert_int_eq(c.code, EXIT_USAGE);
  ck_assert_ptr_nonnull(strstr(c.err, "513 agents cannot train here; write agents: 512 or fewer"));
  site_folder_free(&f);
}
END_TEST

START_TEST(data_that_cannot_be_loaded_are_named) {
  struct site_folder f = points_site();
  site_folder_write(&f, "points.csv", "a,b,verdict\n1,nonsense,x\n");
  write_scenario("agents: 2\nrounds: 2\nmodel_kib: 1\n");
  CLI(&c, "sim", path, "--learn", f.site);
  ck_assert_int_eq(c.code, EXIT_USAGE);
  ck_assert_msg(strstr(c.err, "points.csv:2:") != NULL, "%s", c.err);
  CLI(&c, "sim", path, "--learn", "/nowhere/site.yaml");
  unlink(path);
  ck_assert_int_eq(c.code, EXIT_USAGE);
  site_folder_free(&f);
}
END_TEST

START_TEST(random_scenarios_are_counted) {
  CLI(&c, "sim", "--random", "2", "--seed", "7", "--format", "json");
  ck_assert_int_eq(c.code, EXIT_DONE);
  json_t *answer = cli_capture_json(&c);
  ck_assert_int_eq(json_integer_value(datum(answer, "seeds")), 2);
  ck_assert_uint_eq(json_array_size(datum(answer, "broken")), 0);
  ck_assert_int_gt(json_integer_value(datum(answer, "events")), 1000);
  json_decref(answer);
  CLI(&c, "sim", "--random", "1", "--seed", "x");
  ck_assert_str_eq(c.err, "starling: --seed: \"x\" is not a whole number; write digits only\n");
  CLI(&c, "sim", "--random", "0");
  ck_assert_int_eq(c.code, EXIT_USAGE);
  CLI(&c, "sim", "--random", "1", "--stop-at", "4");
  ck_assert_ptr_nonnull(strstr(c.err, "--stop-at does not go with --random"));
  CLI(&c, "sim");
  ck_assert_ptr_nonnull(strstr(c.err, "sim needs FILE.yaml"));
}
END_TEST

int main(void) {
  if (random_open() != ERR_OK)
    return 1;
  TCase *tcase = tcase_create("scenario");
  tcase_add_test(tcase, everything_is_read_and_the_rest_has_defaults);
  tcase_add_loop_test(tcase, what_is_wrong_has_its_place_and_remedy, 0, sizeof refused / sizeof *refused);
  tcase_add_test(tcase, what_happens_is_bounded);
  tcase_add_test(tcase, quiet_time_is_skipped);
  tcase_add_test(tcase, versions_are_mixed);
  tcase_add_test(tcase, a_clock_leaps);
  tcase_add_test(tcase, who_is_stopped_says_what_became_of_it_until_then);
  tcase_add_test(tcase, a_model_is_as_long_as_one_likes);
  tcase_add_test(tcase, one_seed_gives_one_trace_hash);
  tcase_add_test(tcase, the_table_says_who_is_slow_and_what_it_costs);
  tcase_add_test(tcase, a_file_that_cannot_be_read_is_a_wrong_argument);
  tcase_add_test(tcase, a_trace_is_repeated_and_stops_where_one_likes);
  tcase_add_test(tcase, the_first_event_that_differs_is_named);
  tcase_add_test(tcase, what_is_no_trace_is_refused);
  tcase_add_test(tcase, a_trace_that_ends_before_the_story_is_told);
  tcase_add_test(tcase, a_trace_that_cannot_be_written_is_a_failure_and_leaves_nothing);
  tcase_add_test(tcase, a_trace_replaces_a_trace_and_nothing_else);
  tcase_add_test(tcase, a_fifo_is_not_waited_for);
  tcase_add_test(tcase, what_was_learnt_bears_partitions_and_crashes);
  tcase_add_test(tcase, what_learns_sends_its_own_length);
  tcase_add_test(tcase, data_that_cannot_be_loaded_are_named);
  tcase_add_test(tcase, random_scenarios_are_counted);
  tcase_add_test(tcase, a_plan_says_what_it_takes_and_what_would_help);
  tcase_add_test(tcase, rounds_that_are_spaced_are_told_and_are_no_reason_for_advice);
  tcase_add_test(tcase, a_plan_of_more_than_there_is_memory_for_is_refused);
  tcase_add_loop_test(tcase, a_bad_plan_is_refused_with_its_remedy, 0, sizeof bad_plans / sizeof *bad_plans);
  return suite_run_case("scenario", tcase);
}
