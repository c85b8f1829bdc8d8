#include "agent/cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/cli/answer.h"
#include "agent/cli/catalogue.h"
#include "agent/cli/table.h"
#include "agent/cli/verbs.h"
#include "agent/scalar.h"

static int verb_help(struct call *call);
static int verb_version(struct call *call);

/* Of every verb that speaks of one job: call->job has it. */
#define JOB_FLAG                                                                                                       \
  { "--job", NULL, "NAME[@VERSION]", "which job, where there are several (default: the one that serves)", false }

#define PASSPHRASE_FLAG                                                                                                \
  { "--passphrase-file", NULL, "FILE", "the passphrase of the key is the first line of FILE", false }

static const struct verb verbs[] = {
    {"init",
     "[DIR]",
     0,
     1,
     {{"--name", NULL, "NAME", "what people call the agent (default: the host's name)", false},
      {"--swarm", NULL, "SWARM", "the swarm to belong to (default: a new one)", false},
      PASSPHRASE_FLAG},
     "make a key, a site file and an example job; overwrites nothing",
     verb_init,
     VERB_CHANGES},
    {"run",
     "",
     0,
     0,
     {{"--hold", NULL, NULL, "stay up, unhealthy, where the configuration would end it (orchestrators)", false}},
     "run the agent until its job is done or it is stopped",
     verb_run,
     VERB_NARRATES},
    {"status",
     "",
     0,
     0,
     {{"--watch", "-w", "SECONDS", "show it again and again (default: each 2 seconds)", true}, JOB_FLAG},
     "what the agent is doing, waiting for, and why",
     verb_status,
     VERB_SHOWS},
    {"health", "", 0, 0, {{0}}, "one sentence; exit code 0 when the agent is healthy", verb_health, VERB_SHOWS},
    {"data check",
     "[FILE]",
     0,
     1,
     {{"--job", NULL, "JOB.yaml", "hold FILE against this job file; no site file, key or peer need exist", false},
      {"--labels", NULL, "FILE", "the IDX labels of FILE", false}},
     "this site's data against the contract: units, classes, duplicates",
     verb_data_check,
     VERB_SHOWS},
    {"data contract",
     "FILE",
     1,
     1,
     {{"--label", NULL, "COLUMN", "the column to learn, by name or counted from 1 (default: the last)", false},
      {"--labels", NULL, "FILE", "the IDX labels of FILE", false},
      {"--task", NULL, "classify|regress", "a class or a number (default: guessed from the label)", false}},
     "propose a job's contract from a data file, for people to agree on",
     verb_data_contract,
     VERB_SHOWS},
    {"eval",
     "",
     0,
     0,
     {{"--set", NULL, "local|validation|global", "which samples (default: local, the test split)", false},
      {"--model", NULL, "ROUND|latest|serving", "which model (default: latest)", false},
      JOB_FLAG},
     "evaluate a kept model; needs no running agent",
     verb_eval,
     VERB_SHOWS},
    {"compare",
     "",
     0,
     0,
     {{"--set", NULL, "local|global", "which samples (default: local, the test split)", false},
      {"--by", NULL, "CLASS,…", "rows of these classes only", false},
      JOB_FLAG},
     "does the swarm help this site? Exit code 0: yes, 1: no evidence",
     verb_compare,
     VERB_SHOWS},
    {"demo",
     "",
     0,
     0,
     {{"--dir", NULL, "DIR", "where everything of the demo lies (default: starling-demo)", false},
      {"--rounds", NULL, "N", "how many rounds (default: 20)", false},
      {"--seed", NULL, "N", "seed of split, first weights and order (default: 1)", false}},
     "five agents on this host learn Fashion-MNIST together and alone",
     verb_demo,
     VERB_NARRATES},
    {"wait",
     "",
     0,
     0,
     {{"--for", NULL, "CONDITION", "round=N, phase=WORD, peer=NAME,state=WORD, finished, alive or health=ok", false},
      {"--timeout", NULL, "SECONDS", "give up after so long (default: never)", false},
      JOB_FLAG},
     "wait until something is so",
     verb_wait,
     VERB_SHOWS},
    {"events",
     "",
     0,
     0,
     {{"--follow", "-f", NULL, "wait for more; ends when the agent is away for 5 seconds", false},
      {"--after", NULL, "ID", "those after that one: how to go on", false},
      {"--last", "-n", "N", "the last so many (default: 20)", false}},
     "what happened: peers come and go, disk, roll-backs",
     verb_events,
     VERB_SHOWS},
    {"rounds list",
     "",
     0,
     0,
     {{"--last", "-n", "N", "how many (default: 20)", false}, JOB_FLAG},
     "the last rounds: outcome, losses, accuracies, bytes",
     verb_rounds_list,
     VERB_SHOWS},
    {"rounds show",
     "ROUND[+SUB]",
     1,
     1,
     {JOB_FLAG},
     "one round: who took part, who was left out and why",
     verb_rounds_show,
     VERB_SHOWS},
    {"rounds wait",
     "ROUND",
     1,
     1,
     {{"--timeout", NULL, "SECONDS", "give up after so long (default: never)", false}, JOB_FLAG},
     "wait until the round is committed",
     verb_rounds_wait,
     VERB_SHOWS},
    {"models list",
     "",
     0,
     0,
     {JOB_FLAG},
     "the models that are kept; which is served, which trains on",
     verb_models_list,
     VERB_SHOWS},
    {"models show", "ROUND|latest|serving", 1, 1, {JOB_FLAG}, "one kept model", verb_models_show, VERB_SHOWS},
    {"models diff",
     "A B",
     2,
     2,
     {{"--set", NULL, "local|validation|global", "which samples (default: local, the test split)", false}, JOB_FLAG},
     "two kept models: accuracy by class, flips, distance by tensor",
     verb_models_diff,
     VERB_SHOWS},
    {"models pin",
     "ROUND[+SUB]",
     1,
     1,
     {{"--note", NULL, "TEXT", "why", false}, JOB_FLAG},
     "keep a model until it is unpinned",
     verb_models_pin,
     VERB_CHANGES},
    {"models unpin",
     "ROUND[+SUB]",
     1,
     1,
     {JOB_FLAG},
     "let go of it where no other rule keeps it",
     verb_models_unpin,
     VERB_CHANGES},
    {"models serve",
     "ROUND|best|latest",
     1,
     1,
     {JOB_FLAG},
     "which model others use from now on",
     verb_models_serve,
     VERB_CHANGES},
    {"models rollback",
     "ROUND[+SUB]",
     1,
     1,
     {{"--note", NULL, "TEXT", "why; peers see it", false},
      {"--timeout", NULL, "SECONDS", "wait so long for the end of the round (default: 600)", false},
      JOB_FLAG},
     "train on from a kept model; the round number stays",
     verb_models_rollback,
     VERB_CHANGES},
    {"job status",
     "",
     0,
     0,
     {{0}},
     "the jobs: state, peers that accepted and are ready, who serves",
     verb_job_status,
     VERB_SHOWS},
    {"job show",
     "[NAME[@VERSION]]",
     0,
     1,
     {{0}},
     "a job file, its tensors, its contract, and who signed it",
     verb_job_show,
     VERB_SHOWS},
    {"job pull",
     "[NAME[@VERSION]]",
     0,
     1,
     {{"--from", NULL, "PEER", "the peer to fetch it from", false},
      {"--out", NULL, "FILE",
       "where to write it (default: NAME.job.yaml beside the site file, NAME-2.job.yaml for version 2)", false}},
     "fetch a job file from a peer; works before the first run",
     verb_job_pull,
     VERB_CHANGES},
    {"job propose", "FILE", 1, 1, {{0}}, "sign a job file and offer it to the peers", verb_job_propose, VERB_CHANGES},
    {"job accept",
     "NAME@VERSION",
     1,
     1,
     {{0}},
     "run a proposed job, beside those that run",
     verb_job_accept,
     VERB_CHANGES},
    {"job stop", "NAME@VERSION", 1, 1, {{0}}, "run a job no more; what it learnt is kept", verb_job_stop, VERB_CHANGES},
    {"job serve", "NAME@VERSION", 1, 1, {{0}}, "let this version serve from now on", verb_job_serve, VERB_CHANGES},
    {"peer list", "", 0, 0, {JOB_FLAG}, "the peers: state, reason, addresses, bytes", verb_peer_list, VERB_SHOWS},
    {"peer add",
     "NAME KEY [ADDRESS]",
     2,
     3,
     {{0}},
     "write a peer's file into conf.d; taken in at the next start",
     verb_peer_add,
     VERB_CHANGES},
    {"key new",
     "[FILE]",
     0,
     1,
     {PASSPHRASE_FLAG, {"--passphrase", NULL, NULL, "ask for a passphrase on the terminal", false}},
     "make a secret key; never overwrites",
     verb_key_new,
     VERB_CHANGES},
    {"key show",
     "[FILE]",
     0,
     1,
     {PASSPHRASE_FLAG},
     "the public key that peers write into their configuration",
     verb_key_show,
     VERB_SHOWS},
    {"config check",
     "",
     0,
     0,
     {{0}},
     "judge configuration and key file; forecast memory and bytes",
     verb_config_check,
     VERB_SHOWS},
    {"config show", "", 0, 0, {{0}}, "every value in effect and where it comes from", verb_config_show, VERB_SHOWS},
    {"config keys",
     "[PATTERN]",
     0,
     1,
     {{0}},
     "every key, or those with PATTERN in name or sentence, explained",
     verb_config_keys,
     VERB_SHOWS},
    {"help", "[all|VERB]", 0, 2, {{0}}, "this list, everything, or one verb", verb_help, VERB_NARRATES},
    {"version", "", 0, 0, {{0}}, "the version of this program", verb_version, VERB_SHOWS},
};
enum { N_VERBS = sizeof verbs / sizeof *verbs };

/* ---- help and version --------------------------------------------------------------------------------------------- */

static const char *const exit_words =
    "\nEvery verb also takes --format table|json|tsv and -C FILE, the site file (default: $STARLING_CONFIG,\n"
    "./site.yaml, /etc/starling/site.yaml). A ROUND is 418, or 418+2 for two local rounds after it.\n"
    "Exit codes: 0 done, 1 failed, 2 no agent reachable or not allowed, 3 time-out,\n"
    "4 arguments, configuration or data, 5 internal.\n";

/* The flag of every verb that changes something. */
static const struct flag check_flag = {"--check", NULL, NULL, "say what would change, and change nothing", false};

/* Two columns: how it is written, and a sentence, on a line of its own where the first is too wide. */
static void print_help(const char *usage, size_t indent, const char *sentence, FILE *out) {
  enum { SENTENCE_AT = 33, LINE = 100 };
  size_t width = indent + text_width(usage, SIZE_MAX);
  bool fits = width < SENTENCE_AT;
  fprintf(out, "%*s%s%s%*s", (int)indent, "", usage, fits ? "" : "\n", (int)(SENTENCE_AT - (fits ? width : 0)), "");
  text_flow(sentence, SENTENCE_AT, LINE, out);
}

static void print_flag(const struct flag *f, FILE *out) {
  char usage[MAX_REASON_BYTES];
  snprintf(usage, sizeof usage, "%s%s%s%s%s%s%s", f->brief ? f->brief : "", f->brief ? ", " : "", f->name,
           f->value ? " " : "", f->value_is_optional ? "[" : "", f->value ? f->value : "",
           f->value_is_optional ? "]" : "");
  print_help(usage, 4, f->sentence, out);
}

static void print_verb(const struct verb *v, bool in_full, FILE *out) {
  char usage[MAX_REASON_BYTES];
  snprintf(usage, sizeof usage, "%s%s%s", v->words, v->arguments[0] ? " " : "", v->arguments);
  print_help(usage, 2, v->summary, out);
  for (size_t i = 0; in_full && i < MAX_FLAGS && v->flags[i].name; i++)
    print_flag(&v->flags[i], out);
  if (in_full && v->kind == VERB_CHANGES)
    print_flag(&check_flag, out);
}

/* Whether the verb is one that `help WORDS…` asks for: all of them, its first word, or both. */
static bool is_asked_for(const struct verb *v, const struct call *call) {
  char words[2 * MAX_NAME_BYTES];
  if (call->n_arguments == 0 || strcmp(call->arguments[0], "all") == 0)
    return true;
  snprintf(words, sizeof words, "%.60s%s%.60s", call->arguments[0], call->n_arguments > 1 ? " " : "",
           call->n_arguments > 1 ? call->arguments[1] : "");
  size_t n = strlen(words);
  return strncmp(v->words, words, n) == 0 && (v->words[n] == '\0' || v->words[n] == ' ');
}

static int unknown_verb(struct call *call, const char *words);

static int verb_help(struct call *call) {
  bool in_full = call->n_arguments > 0;
  size_t n = 0;
  for (size_t i = 0; i < N_VERBS; i++)
    n += is_asked_for(&verbs[i], call);
  if (n == 0)
    return unknown_verb(call, call->arguments[0]);
  puts("starling: many sites learn one model together, without a server and without their data leaving them\n");
  for (size_t i = 0; i < N_VERBS; i++)
    if (is_asked_for(&verbs[i], call))
      print_verb(&verbs[i], in_full, stdout);
  fputs(exit_words, stdout);
  return EXIT_DONE;
}

static void view_version(const struct call *call, const json_t *data, FILE *out) {
  (void)call;
  fprintf(out, "%s\n", json_string_value(json_object_get(data, "version")));
}

static int verb_version(struct call *call) {
  return answer(call, json_pack("{s:s}", "version", STARLING_VERSION), view_version);
}

/* ---- finding the verb --------------------------------------------------------------------------------------------- */

static size_t count_words(const char *words) {
  return strchr(words, ' ') ? 2 : 1;
}

/* Whether the arguments begin with the verb's words. */
static bool begins_with(const struct verb *v, int argc, const char *const *argv) {
  size_t n = strcspn(v->words, " ");
  if (argc < 1 || strlen(argv[0]) != n || strncmp(argv[0], v->words, n) != 0)
    return false;
  return v->words[n] == '\0' || (argc > 1 && strcmp(argv[1], v->words + n + 1) == 0);
}

static int unknown_verb(struct call *call, const char *words) {
  const char *nearest = NULL;
  size_t best = SIZE_MAX;
  for (size_t i = 0; i < N_VERBS; i++) {
    size_t distance = edit_distance(words, verbs[i].words);
    if (is_near(words, verbs[i].words) && distance < best)
      nearest = verbs[i].words, best = distance;
  }
  return nearest ? answer_error(call, EXIT_USAGE, "usage", NULL, "no such verb: %s; did you mean `starling %s`?", words,
                                nearest)
                 : answer_error(call, EXIT_USAGE, "usage", NULL, "no such verb: %s; see `starling help`", words);
}

/* A noun alone or with a word that is none of its verbs. */
static int refuse_words(struct call *call, int argc, const char *const *argv) {
  char words[2 * MAX_NAME_BYTES], known[MAX_REASON_BYTES] = "";
  size_t n = strlen(argv[0]), n_known = 0;
  bool has_second = argc > 1 && argv[1][0] != '-';
  for (size_t i = 0; i < N_VERBS; i++)
    if (strncmp(verbs[i].words, argv[0], n) == 0 && verbs[i].words[n] == ' ')
      n_known += (size_t)snprintf(known + n_known, sizeof known - n_known, "%s%s", n_known ? ", " : "",
                                  verbs[i].words + n + 1);
  snprintf(words, sizeof words, "%.60s%s%.60s", argv[0], has_second ? " " : "", has_second ? argv[1] : "");
  if (n_known && !has_second)
    return answer_error(call, EXIT_USAGE, "usage", NULL, "`%s` goes on with one of: %s", argv[0], known);
  return unknown_verb(call, n_known || !has_second ? words : argv[0]);
}

/* ---- options ------------------------------------------------------------------------------------------------------ */

/* If the argument at hand is the flag: its value ("" for a switch) in *out_value, and how many arguments it takes. A value
 * that is missing gives 1 and NULL. */
static int match_flag(const struct flag *f, int argc, const char *const *argv, const char **out_value) {
  size_t n = strlen(f->name);
  bool is_joined = strncmp(argv[0], f->name, n) == 0 && argv[0][n] == '=';
  if (!is_joined && strcmp(argv[0], f->name) != 0 && !(f->brief && strcmp(argv[0], f->brief) == 0))
    return 0;
  bool takes_next =
      f->value && !is_joined && argc > 1 && (!f->value_is_optional || (argv[1][0] >= '0' && argv[1][0] <= '9'));
  *out_value = is_joined ? argv[0] + n + 1 : takes_next ? argv[1] : f->value && !f->value_is_optional ? NULL : "";
  return takes_next ? 2 : 1;
}

/* The two flags of every verb. */
static int take_global_flag(struct call *call, int argc, const char *const *argv, int *out_code) {
  static const struct flag flags[] = {{"--config", "-C", "FILE", "", false}, {"--format", NULL, "FORMAT", "", false}};
  static const char *const formats[] = {"table", "json", "tsv", NULL};
  const char *value;
  char why[MAX_REASON_BYTES];
  size_t format;
  for (size_t i = 0; i < 2; i++) {
    int n = match_flag(&flags[i], argc, argv, &value);
    if (n && !value)
      *out_code = answer_error(call, EXIT_USAGE, "usage", NULL, "%s needs a value: %s", argv[0], flags[i].value);
    else if (n && i == 0)
      call->site_path = value;
    else if (n && scalar_word(value, formats, &format, why))
      *out_code = answer_error(call, EXIT_USAGE, "usage", NULL, "--format: %s", why);
    else if (n)
      call->format = (enum format)format;
    if (n)
      return n;
  }
  return 0;
}

static int take_verb_flag(struct call *call, int argc, const char *const *argv, int *out_code) {
  const char *value;
  if (call->verb->kind == VERB_CHANGES && match_flag(&check_flag, argc, argv, &value)) {
    call->checks = true;
    return 1;
  }
  for (size_t i = 0; i < MAX_FLAGS && call->verb->flags[i].name; i++) {
    const struct flag *f = &call->verb->flags[i];
    int n = match_flag(f, argc, argv, &call->flags[i]);
    if (n && !call->flags[i])
      *out_code = answer_error(call, EXIT_USAGE, "usage", NULL, "%s needs a value: %s", argv[0], f->value);
    if (n && strcmp(f->name, "--job") == 0)
      call->job = call->flags[i];
    if (n)
      return n;
  }
  return 0;
}

/* What follows the verb. Returns EXIT_DONE when it fits. */
static int parse_rest(struct call *call, int argc, const char *const *argv) {
  const struct verb *v = call->verb;
  bool flags_ended = false;
  int code = EXIT_DONE;
  for (int i = 0; i < argc && !code;) {
    if (!flags_ended && strcmp(argv[i], "--") == 0) {
      flags_ended = true;
      i++;
      continue;
    }
    int n = flags_ended ? 0 : take_global_flag(call, argc - i, argv + i, &code);
    if (!n && !flags_ended)
      n = take_verb_flag(call, argc - i, argv + i, &code);
    if (n) {
      i += n;
      continue;
    }
    if (!flags_ended && argv[i][0] == '-' && argv[i][1])
      return answer_error(call, EXIT_USAGE, "usage", NULL, "no such option: %s; see `starling help %s`", argv[i],
                          v->words);
    if (call->n_arguments == v->max_arguments)
      return answer_error(call, EXIT_USAGE, "usage", NULL, "one argument too many: %s; write starling %s%s%s", argv[i],
                          v->words, v->arguments[0] ? " " : "", v->arguments);
    call->arguments[call->n_arguments++] = argv[i++];
  }
  if (!code && v->kind == VERB_NARRATES && call->format != FORMAT_TABLE)
    return answer_error(call, EXIT_USAGE, "usage", NULL, "`starling %s` has no other --format than table", v->words);
  if (!code && call->n_arguments < v->min_arguments)
    return answer_error(call, EXIT_USAGE, "usage", NULL, "an argument is missing; write starling %s %s", v->words,
                        v->arguments);
  return code;
}

static bool asks_for_help(int argc, const char *const *argv) {
  for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
    if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
      return true;
  return false;
}

static int parse_and_run(struct call *call, int argc, const char *const *argv) {
  int code = EXIT_DONE;
  for (int n; argc > 0 && (n = take_global_flag(call, argc, argv, &code)) > 0; argc -= n, argv += n)
    if (code)
      return code;
  if (argc == 0 || strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0)
    return verb_help(call), argc == 0 ? EXIT_USAGE : EXIT_DONE;
  for (size_t i = 0; i < N_VERBS && !call->verb; i++)
    if (begins_with(&verbs[i], argc, argv))
      call->verb = &verbs[i];
  if (!call->verb)
    return refuse_words(call, argc, argv);
  int n_words = (int)count_words(call->verb->words);
  if (asks_for_help(argc - n_words, argv + n_words)) {
    print_verb(call->verb, true, stdout);
    fputs(exit_words, stdout);
    return EXIT_DONE;
  }
  code = parse_rest(call, argc - n_words, argv + n_words);
  return code ? code : call->verb->run(call);
}

static const char *default_site_path(const char *const *environment) {
  static const char name[] = "STARLING_CONFIG=";
  for (; environment && *environment; environment++)
    if (strncmp(*environment, name, sizeof name - 1) == 0)
      return *environment + sizeof name - 1;
  return access("site.yaml", F_OK) != 0 && access("/etc/starling/site.yaml", F_OK) == 0 ? "/etc/starling/site.yaml"
                                                                                        : "site.yaml";
}

int cli_main(int argc, const char *const *argv, const char *const *environment) {
  struct call call = {
      .environment = environment, .site_path = default_site_path(environment), .warnings = json_array()};
  int code = parse_and_run(&call, argc > 0 ? argc - 1 : 0, argv + (argc > 0));
  json_decref(call.warnings);
  if (call.catalogue) {
    catalogue_close(call.catalogue);
    free(call.catalogue);
  }
  return code;
}

bool call_load_config(struct call *call, struct config **out_config) {
  char why[MAX_CONFIG_WHY_BYTES];
  struct config *c;
  enum err e = config_load(call->site_path, call->environment, &c, why);
  if (e) {
    answer_error(call, EXIT_USAGE, err_name(e), NULL, "%s", why);
    return false;
  }
  for (size_t i = 0; i < c->n_warnings; i++)
    answer_warn(call, "%s", c->warnings[i]);
  *out_config = c;
  return true;
}
