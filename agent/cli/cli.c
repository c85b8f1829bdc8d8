#include "agent/cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/cli/answer.h"
#include "agent/cli/catalogue.h"
#include "agent/cli/verbs.h"
#include "agent/scalar.h"
#include "base/edit_distance.h"

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

int call_refuse_verb(struct call *call, const char *words) {
  const char *nearest = NULL;
  size_t best = SIZE_MAX;
  for (size_t i = 0; i < n_verbs; i++) {
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
  for (size_t i = 0; i < n_verbs; i++)
    if (strncmp(verbs[i].words, argv[0], n) == 0 && verbs[i].words[n] == ' ')
      n_known += (size_t)snprintf(known + n_known, sizeof known - n_known, "%s%s", n_known ? ", " : "",
                                  verbs[i].words + n + 1);
  snprintf(words, sizeof words, "%.60s%s%.60s", argv[0], has_second ? " " : "", has_second ? argv[1] : "");
  if (n_known && !has_second)
    return answer_error(call, EXIT_USAGE, "usage", NULL, "`%s` goes on with one of: %s", argv[0], known);
  return call_refuse_verb(call, n_known || !has_second ? words : argv[0]);
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

/* `export` writes formats of its own; a word that is none of the answer's is then one of those. */
static bool has_own_formats(const struct verb *v) {
  for (size_t i = 0; v && i < MAX_FLAGS && v->flags[i].name; i++)
    if (strcmp(v->flags[i].name, "--format") == 0)
      return true;
  return false;
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
    else if (n && scalar_word(value, formats, &format, why) && has_own_formats(call->verb))
      return 0;
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

/* What is shown in JSON, as names of files are, has to be text there: it is refused before anything is done with it. */
static int refuse_bytes(struct call *call, int argc, const char *const *argv) {
  for (int i = 0; i < argc; i++) {
    json_t *text = json_string(argv[i]);
    if (!text)
      return answer_error(call, EXIT_USAGE, "usage", NULL, "an argument is no UTF-8: %s; rename the file", argv[i]);
    json_decref(text);
  }
  return EXIT_DONE;
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
  return code ? code : refuse_bytes(call, argc, argv);
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
  for (size_t i = 0; i < n_verbs && !call->verb; i++)
    if (begins_with(&verbs[i], argc, argv))
      call->verb = &verbs[i];
  if (!call->verb)
    return refuse_words(call, argc, argv);
  int n_words = (int)count_words(call->verb->words);
  if (asks_for_help(argc - n_words, argv + n_words)) {
    help_print(call->verb);
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

/* An answer that did not arrive whole is none, whatever became of what was asked. */
static int code_of_output(int code) {
  if (fflush(stdout) == 0 && !ferror(stdout))
    return code;
  fputs("starling: standard output could not be written whole; is its disk full?\n", stderr);
  return code == EXIT_DONE ? EXIT_FAILED : code;
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
  return code_of_output(code);
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
