/* starling tune: measures how this host trains a job's model fastest, shows it, and keeps it for the next start. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/cli/answer.h"
#include "agent/cli/table.h"
#include "agent/cli/verbs.h"
#include "agent/run/team.h"
#include "agent/tuning.h"
#include "models/schema.h"

enum { LONGEST_S = 60 };

/* ---- what is told meanwhile --------------------------------------------------------------------------------------- */

struct progress {
  size_t n;
  bool shows;
};

static void show(void *context, const struct plan *p, const struct tuner_cell *cell, double seconds) {
  struct progress *progress = context;
  const struct tuner_split *s = &p->splits[cell->split];
  progress->n++;
  if (progress->shows)
    fprintf(stderr, "\r\033[K%zu: %s, %s, %u lanes, %u threads, block %u: %.1f us", progress->n,
            p->keys[cell->operation], plan_kernel(p, cell->operation, cell->variant), s->lanes, s->threads, s->block,
            seconds * 1e6);
}

/* ---- the answer --------------------------------------------------------------------------------------------------- */

/* A cell is worth a row when it was measured, or stands beside the choice. */
static json_t *cell_rows(const struct plan *p, const struct tuner *tuner, const struct tuner_choice *choice,
                         const struct selection *taken) {
  json_t *rows = json_array();
  for (size_t o = 0; o < p->n_operations; o++)
    for (size_t split = 0; split < p->n_splits; split++)
      for (uint32_t v = 0; v < p->operations[o].n_variants; v++) {
        const struct tuner_split *s = &p->splits[split];
        const char *kernel = plan_kernel(p, o, v), *own = selection_find(taken, p->keys[o]);
        bool measured, is_split = s->lanes == taken->lanes && s->threads == taken->threads && s->block == taken->block;
        double seconds = tuner_believes(tuner, &(struct tuner_cell){o, split, v}, &measured);
        if (!measured && !is_split && split != choice->split)
          continue;
        json_array_append_new(rows,
                              json_pack("{s:s, s:s, s:I, s:I, s:I, s:f, s:b, s:b}", "operation", p->keys[o], "kernel",
                                        kernel, "lanes", (json_int_t)s->lanes, "threads", (json_int_t)s->threads,
                                        "block", (json_int_t)s->block, "microseconds", seconds * 1e6, "measured",
                                        measured, "chosen", is_split && own && strcmp(own, kernel) == 0));
      }
  return rows;
}

static json_t *tuned_json(const char *job, const struct plan *p, const struct host *h, const struct tuning *t,
                          const struct tuning_outcome *outcome, const struct tuner *tuner) {
  const struct selection *s = &t->hosts[0].selection;
  return json_pack("{s:s, s:{s:s, s:s, s:s, s:s, s:f, s:I}, s:I, s:I, s:f, s:b, s:I, s:I, s:I, s:f, s:f, s:o}", "job",
                   job, "host", "cpu", h->cpu, "features", h->features, "caches", h->caches, "blas", h->blas,
                   "processors", host_processors(h), "threads", (json_int_t)host_threads(h), "cells",
                   (json_int_t)outcome->n_cells, "measured", (json_int_t)outcome->n_measured, "seconds",
                   outcome->seconds, "again", outcome->is_again, "lanes", (json_int_t)s->lanes, "threads",
                   (json_int_t)s->threads, "block", (json_int_t)s->block, "step_microseconds", outcome->step * 1e6,
                   "default_step_microseconds", outcome->step_before * 1e6, "rows",
                   cell_rows(p, tuner, &outcome->choice, s));
}

static double number_at(const json_t *data, const char *path) {
  return json_number_value(json_at(data, path));
}

/* The row of each operation that was chosen. */
static json_t *chosen_rows(const json_t *rows) {
  json_t *chosen = json_array(), *row;
  size_t i;
  json_array_foreach(rows, i, row) {
    if (json_is_true(json_object_get(row, "chosen")))
      json_array_append(chosen, row);
  }
  return chosen;
}

static const char *ending_of(double n) {
  return n == 1 ? "" : "s";
}

static void write_split(const json_t *data, FILE *out) {
  double lanes = number_at(data, "lanes"), threads = number_at(data, "threads"), block = number_at(data, "block");
  fprintf(out, "%.0f thread%s, the batch in %.0f lane%s", threads, ending_of(threads), lanes, ending_of(lanes));
  if (block > 0)
    fprintf(out, " and blocks of %.0f samples", block);
}

static void view(const struct call *call, const json_t *data, FILE *out) {
  static const struct column columns[] = {{"OPERATION", "operation", FORM_TEXT},
                                          {"KERNEL", "kernel", FORM_TEXT},
                                          {"LANES", "lanes", FORM_COUNT | COLUMN_IN_TSV},
                                          {"THREADS", "threads", FORM_COUNT | COLUMN_IN_TSV},
                                          {"BLOCK", "block", FORM_COUNT | COLUMN_IN_TSV},
                                          {"MICROSECONDS", "microseconds", FORM_LOSS},
                                          {"MEASURED", "measured", FORM_TEXT},
                                          {"CHOSEN", "chosen", FORM_TEXT | COLUMN_IN_TSV}};
  const json_t *rows = json_object_get(data, "rows");
  if (call->format == FORMAT_TSV) {
    table_print(columns, sizeof columns / sizeof *columns, rows, true, out);
    return;
  }
  json_t *chosen = chosen_rows(rows);
  table_print(columns, sizeof columns / sizeof *columns, chosen, false, out);
  json_decref(chosen);
  double step = number_at(data, "step_microseconds"), before = number_at(data, "default_step_microseconds");
  fprintf(out, "\n%s: %.0f of %.0f cells measured in %.2f s on %s, %.4g processors; --format tsv has %zu of them\n",
          json_string_value(json_at(data, "job")), number_at(data, "measured"), number_at(data, "cells"),
          number_at(data, "seconds"), json_string_value(json_at(data, "host.cpu")), number_at(data, "host.processors"),
          json_array_size(rows));
  fprintf(out, "a step of training takes %.1f us with ", step);
  write_split(data, out);
  if (step < before)
    fprintf(out, "; %.1f us with the built-in choice\n", before);
  else
    fputs("; the built-in choice is as fast\n", out);
  if (json_is_true(json_object_get(data, "changed")))
    fprintf(out, "the next start %s that\n", call->checks ? "would take" : "takes");
}

/* ---- the verb ----------------------------------------------------------------------------------------------------- */

struct tune {
  const struct config *config;
  const struct site_job_config *job;
  struct schema *schema;
  struct host host;
  struct team *team;
  struct plan plan;
  struct tuning tuning;
  struct tuning_outcome outcome;
  struct tuner *tuner;
  struct selection before; /* what was kept for this host; without entries: nothing */
  char path[MAX_PATH_BYTES], why[MAX_CONFIG_WHY_BYTES];
};

static enum err because(struct tune *t, enum err e, const char *what) {
  if (e && !t->why[0])
    snprintf(t->why, sizeof t->why, "%s: %s", what, err_sentence(e));
  return e;
}

static enum err prepare(struct tune *t) {
  const struct job_config *job = &t->job->job;
  const struct cpu cpu = cpu_detect();
  char reason[MAX_REASON_BYTES];
  enum err e = schema_from_arch(job->arch, job->contract, &t->schema, reason);
  if (e) {
    snprintf(t->why, sizeof t->why, "%s: model: %s", t->job->job_path, reason);
    return e;
  }
  t->host = host_look("");
  e = plan_make(schema_arch(t->schema), job->train.batch, &cpu, host_threads(&t->host), &t->plan);
  if (!e)
    e = tuning_path(t->config->state_dir, job->name, job->version, t->path);
  return because(t, e, "the model");
}

/* A host that the file knows is measured from nothing, one that it does not know beside what it says of others, whose entries
 * stay in either case. */
static enum err measure(struct call *call, struct tune *t) {
  struct progress progress = {.shows = isatty(STDERR_FILENO)};
  const struct tuning_observer observer = {show, &progress};
  enum err e = tuning_file_read(t->path, &t->plan, &t->tuning);
  if (e != ERR_OK && e != ERR_NOT_FOUND && e != ERR_FOREIGN)
    answer_warn(call, "%s: %s; it is measured anew", t->path, err_sentence(e));
  const struct tuned_host *known = tuning_find(&t->tuning, &t->host);
  if (known) {
    t->before = known->selection;
    tuning_forget(&t->tuning);
  }
  t->team = team_start(host_threads(&t->host));
  const struct tuning_order order = {
      .plan = &t->plan, .host = &t->host, .team = t->team, .seconds = LONGEST_S, .observer = &observer};
  e = tuning_measure(&t->tuning, &order, &t->outcome, &t->tuner);
  if (progress.shows)
    fprintf(stderr, "\r\033[K");
  return because(t, e, "measuring");
}

static bool is_other_choice(const struct selection *a, const struct selection *b) {
  bool is_other = a->lanes != b->lanes || a->threads != b->threads || a->block != b->block || a->n != b->n;
  for (size_t i = 0; i < a->n && !is_other; i++) {
    const char *kernel = selection_find(b, a->entries[i].key);
    is_other = !kernel || strcmp(kernel, a->entries[i].kernel) != 0;
  }
  return is_other;
}

/* What was measured is kept also where it says what was known. */
static int show_and_keep(struct call *call, struct tune *t) {
  bool changes = is_other_choice(&t->tuning.hosts[0].selection, &t->before);
  json_t *data = tuned_json(t->job->job.name, &t->plan, &t->host, &t->tuning, &t->outcome, t->tuner);
  if (call->checks)
    return answer_change(call, data, changes, view);
  mkdir(t->config->state_dir, 0700); /* before the first start; what is wrong with it, the file says */
  enum err e = tuning_file_write(t->path, &t->plan, &t->tuning);
  if (e)
    answer_warn(call, "%s: %s; the next start measures again", t->path, err_sentence(e));
  return answer_change(call, data, changes && !e, view);
}

int verb_tune(struct call *call) {
  struct config *config;
  const struct site_job_config *job;
  if (!call_load_job(call, &config, &job))
    return EXIT_USAGE;
  struct tune *t = calloc(1, sizeof *t);
  enum err e = t ? ERR_OK : ERR_NO_MEMORY;
  int code = exit_code_of(e);
  if (t) {
    *t = (struct tune){.config = config, .job = job};
    if ((e = prepare(t)) == ERR_OK)
      e = measure(call, t);
    code = e ? answer_error(call, exit_code_of(e), err_name(e), NULL, "%s", t->why) : show_and_keep(call, t);
    tuner_free(t->tuner);
    tuning_done(&t->tuning);
    team_stop(t->team);
    schema_free(t->schema);
    free(t);
  }
  config_free(config);
  return code;
}
