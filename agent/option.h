/* The one table of options: what may stand in a site file, a job file and conf.d, and how it is read, shown and explained.
 *
 * `config_load` reads by it, `config keys` prints it, `config show` writes values by it, and the job file's digest is
 * taken over what it writes, so a new option is a new row. Pure; any thread. */
#ifndef AGENT_OPTION_H
#define AGENT_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "agent/tree.h"
#include "base/err.h"
#include "base/limits.h"

/* The structure in which an option's field lies. */
enum option_base {
  IN_SITE,     /* struct config */
  IN_PEER,     /* struct peer_config */
  IN_SITE_JOB, /* struct site_job_config */
  IN_JOB,      /* struct job_config */
  IN_CONTRACT, /* struct contract */
  N_OPTION_BASES
};

/* Whose keys stand side by side in one map. */
enum option_group { GROUP_SITE, GROUP_PEER, GROUP_SITE_JOB, GROUP_JOB, N_OPTION_GROUPS };

enum option_scope {
  MUST_AGREE, /* a difference between peers refuses the job or the session */
  ANNOUNCED,  /* a difference is told */
  LOCAL,      /* nobody else knows */
};

struct option;
struct option_reader;

struct option_type {
  const char *name; /* "whole number" */
  bool is_list;     /* takes a list or map; else a scalar, which the environment can override */
  enum err (*read)(struct option_reader *r, const struct option *o, const struct tree *value, void *base);
  void (*write)(const struct option *o, const void *base, FILE *out);
};

struct option {
  const char *path; /* "store.keep_last" */
  enum option_base base;
  size_t offset; /* of the field in the base */
  const struct option_type *type;
  const char *fallback;     /* as it would be written; NULL: required, "": none, "(…)": follows from others as said */
  double min, max;          /* numbers */
  const char *const *words; /* NULL-terminated; the field is the enum of their index */
  enum option_scope scope;
  const char *sentence;
};

enum { MAX_OPTIONS = 192 };
extern const struct option option_table[];
extern const size_t n_options;

/* The words of `average`, by enum average_rule; NULL behind the last. Scenarios have them, too. */
extern const char *const average_words[];

/* Where a value comes from. */
struct option_origin {
  const char *file;   /* borrowed; NULL: the default */
  struct place place; /* line 0: `file` is the name of an environment variable */
};

/* One reading of a group; zero-initialise and fill in what the group needs. */
struct option_reader {
  const char *file;   /* being read, for messages and origins */
  const char *folder; /* relative paths are relative to it */
  void *bases[N_OPTION_BASES];
  struct option_origin origins[MAX_OPTIONS]; /* by index in option_table */
  char *why;                                 /* MAX_CONFIG_WHY_BYTES */
  bool keeps_given;                          /* what an earlier map has given stays */
};

enum option_group option_group(const struct option *o);

/* As it stands in a file: "jobs[].data.part". */
enum { MAX_OPTION_NAME_BYTES = 64 };
void option_name(const struct option *o, char out_name[MAX_OPTION_NAME_BYTES]);

/* NULL: no such key. */
const struct option *option_find(enum option_group group, const char *path);

static inline size_t option_index(const struct option *o) {
  return (size_t)(o - option_table);
}

/* Reads a map by the table. Every key must be known and stand once. Errors: one line in r->why,
 * "file:line:column: key: what is wrong; what to write", and the code of config.h. */
MUST_USE enum err option_read_map(struct option_reader *r, enum option_group group, const struct tree *map);

/* Fills in what was not given: defaults; ERR_SYNTAX at `map` for a required one. */
MUST_USE enum err option_read_defaults(struct option_reader *r, enum option_group group, const struct tree *map);

/* The same for one scalar of the environment. */
MUST_USE enum err option_read_variable(struct option_reader *r, const struct option *o, const char *variable,
                                       const char *text);

/* Whether the user gave the option, in whatever way. */
bool option_is_given(const struct option_reader *r, const struct option *o);

/* Ends with an error about an option, at the place where it was given, else at the place of `otherwise`. */
__attribute__((format(printf, 5, 6))) MUST_USE enum err option_fail(struct option_reader *r, const struct option *o,
                                                                    enum err e, const struct tree *otherwise,
                                                                    const char *format, ...);

/* Writes the option's value in effect as it would stand in the file. */
void option_write(const struct option_reader *r, const struct option *o, FILE *out);

#endif
