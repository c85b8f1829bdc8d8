/* The command line: one table of verbs, one way to parse, one way to answer.
 *
 * Every verb that shows something makes JSON first; tables and TSV are views of it (cli/table.h). Exit codes are those of
 * agent/exit.h for every verb. Nothing depends on the locale. Main thread. */
#ifndef AGENT_CLI_CLI_H
#define AGENT_CLI_CLI_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "agent/config.h"
#include "agent/exit.h"

enum format { FORMAT_TABLE, FORMAT_JSON, FORMAT_TSV };

enum { MAX_ARGUMENTS = 8, MAX_FLAGS = 12 };

/* An option of a verb. */
struct flag {
  const char *name;  /* "--last" */
  const char *brief; /* "-n" or NULL */
  const char *value; /* "N"; NULL: a switch */
  const char *sentence;
  bool value_is_optional; /* a following word that begins with a digit is taken */
};

/* What a verb does, and so what is common to all of its kind. */
enum verb_kind {
  VERB_SHOWS,   /* it reads */
  VERB_CHANGES, /* it changes something: takes --check, is answered by answer_change, and done twice it changes nothing */
  VERB_NARRATES, /* it talks while it works and has no data: other formats than tables are refused */
};

struct call;
struct catalogue;

struct verb {
  const char *words;     /* "peer add" */
  const char *arguments; /* "NAME KEY [ADDRESS]" */
  size_t min_arguments, max_arguments;
  struct flag flags[MAX_FLAGS]; /* up to the first without name */
  const char *summary;
  int (*run)(struct call *call); /* the exit code */
  enum verb_kind kind;
};

/* One invocation. */
struct call {
  const struct verb *verb;
  const char *arguments[MAX_ARGUMENTS];
  size_t n_arguments;
  const char *flags[MAX_FLAGS]; /* as in the verb: NULL not given, "" without value */
  const char *job;              /* --job as it was given, NULL: not */
  struct catalogue *catalogue;  /* of call_load_job; NULL: not asked */
  enum format format;
  bool checks;           /* --check: say what would change, change nothing */
  const char *site_path; /* -C, $STARLING_CONFIG, ./site.yaml or /etc/starling/site.yaml */
  const char *const *environment;
  json_t *warnings;
};

/* Runs the program. */
int cli_main(int argc, const char *const *argv, const char *const *environment);

/* Loads the site file of the call; answers the error itself: false, and the exit code is EXIT_USAGE. */
MUST_USE bool call_load_config(struct call *call, struct config **out_config);

/* The site file, and the job that the call means: --job, or the only one, or the version that serves; it lives as long as
 * the configuration and the call. Answers the error itself, saying which there are: false, and the exit code is EXIT_USAGE. */
MUST_USE bool call_load_job(struct call *call, struct config **out_config, const struct site_job_config **out_job);

/* A request for the agent that also says which job is meant, where the call does; `request` is moved. */
json_t *call_request(const struct call *call, json_t *request);

#endif
