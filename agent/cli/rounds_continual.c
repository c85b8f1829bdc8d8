/* starling rounds --continual: the accuracy matrix of a job with tasks, from the database. */
#include <stdlib.h>
#include <string.h>

#include "agent/cli/answer.h"
#include "agent/cli/history.h"
#include "agent/cli/table.h"
#include "agent/cli/verbs.h"
#include "agent/round_json.h"
#include "models/continual/matrix.h"

enum { TASK_TEXT_BYTES = 256 };

/* "shirt, coat" */
static void task_text(const struct job_config *job, size_t task, char out_text[TASK_TEXT_BYTES]) {
  size_t n = 0;
  out_text[0] = '\0';
  for (size_t i = 0; i < job->n_listed && n < TASK_TEXT_BYTES; i++)
    if (job->listed[i].task == task)
      n += (size_t)snprintf(out_text + n, TASK_TEXT_BYTES - n, "%s%s", n > 0 ? ", " : "", job->listed[i].name);
}

static struct continual_summary summary_of(const struct store_matrix *m) {
  double r[STORE_MAX_TASKS * STORE_MAX_TASKS];
  size_t trained[STORE_MAX_TASKS];
  for (size_t t = 0; t < m->n_times; t++) {
    trained[t] = m->times[t].trained;
    memcpy(r + t * m->n_tasks, m->times[t].accuracy, m->n_tasks * sizeof *r);
  }
  return matrix_summary(r, trained, m->n_times, m->n_tasks);
}

static json_t *time_json(const struct store_matrix *m, size_t t) {
  char label[ROUND_LABEL_BYTES];
  json_t *row = json_object(), *accuracy = json_array();
  for (size_t q = 0; q < m->n_tasks; q++)
    json_array_append_new(accuracy, json_number(m->times[t].accuracy[q]));
  round_label_write(m->times[t].label, label);
  json_object_set_new(row, "trained", json_integer((json_int_t)m->times[t].trained + 1));
  json_object_set_new(row, "label", json_string(label));
  json_object_set_new(row, "accuracy", accuracy);
  return row;
}

static json_t *matrix_json(const struct store_matrix *m, const struct job_config *job) {
  const struct continual_summary s = summary_of(m);
  json_t *o = json_object(), *tasks = json_array(), *times = json_array();
  for (size_t q = 0; q < m->n_tasks; q++) {
    char text[TASK_TEXT_BYTES];
    task_text(job, q, text);
    json_array_append_new(tasks, json_text(text));
  }
  for (size_t t = 0; t < m->n_times; t++)
    json_array_append_new(times, time_json(m, t));
  json_object_set_new(o, "tasks", tasks);
  json_object_set_new(o, "times", times);
  json_object_set_new(o, "acc", json_number(s.acc));
  json_object_set_new(o, "bwt", json_number(s.bwt));
  json_object_set_new(o, "forgetting", json_number(s.forgetting));
  return o;
}

/* A column a task, so the table is made by hand. */
static void print_times(const json_t *data, const char *between, FILE *out) {
  const json_t *time, *value;
  size_t i, q;
  bool is_tsv = between[0] == '\t';
  if (!is_tsv) {
    fputs("AFTER   ROUND  ", out);
    for (q = 0; q < json_array_size(json_object_get(data, "tasks")); q++)
      fprintf(out, "  ON %2zu", q + 1);
    fputc('\n', out);
  }
  json_array_foreach(json_object_get(data, "times"), i, time) {
    fprintf(out, is_tsv ? "%lld\t%s" : "%5lld  %6s  ", json_integer_value(json_object_get(time, "trained")),
            json_string_value(json_object_get(time, "label")));
    json_array_foreach(json_object_get(time, "accuracy"), q, value) {
      if (is_tsv)
        json_is_number(value) ? fprintf(out, "\t%.6f", json_number_value(value)) : fputc('\t', out);
      else
        json_is_number(value) ? fprintf(out, "%7.1f", 100 * json_number_value(value)) : fputs("      -", out);
    }
    fputc('\n', out);
  }
}

static void print_figure(const json_t *data, const char *key, const char *what, FILE *out) {
  const json_t *value = json_object_get(data, key);
  if (json_is_number(value))
    fprintf(out, "%-11s %5.1f  %s\n", key, 100 * json_number_value(value), what);
}

static void view(const struct call *call, const json_t *data, FILE *out) {
  const json_t *task;
  size_t q;
  print_times(data, call->format == FORMAT_TSV ? "\t" : " ", out);
  if (call->format == FORMAT_TSV)
    return;
  fputc('\n', out);
  print_figure(data, "acc", "accuracy on the tasks trained so far, mean", out);
  print_figure(data, "bwt", "what later tasks did to the earlier ones, mean", out);
  print_figure(data, "forgetting", "best accuracy before less that of now, mean of the earlier ones", out);
  fputc('\n', out);
  json_array_foreach(json_object_get(data, "tasks"), q, task) {
    fprintf(out, "task %zu: %s\n", q + 1, json_string_value(task));
  }
}

static enum err read_matrix(const struct config *c, const struct job_config *job, struct store_matrix *m,
                            char why[MAX_REASON_BYTES]) {
  struct store *s;
  enum err e = history_open(c, &s, why);
  if (e != ERR_OK)
    return e;
  const struct digest id = config_job_id(c, job);
  e = store_task_matrix(s, &id, m);
  if (e == ERR_NOT_FOUND)
    snprintf(why, MAX_REASON_BYTES,
             "no round of a job with tasks is committed yet, or there was no test set to judge it on");
  else if (e != ERR_OK)
    snprintf(why, MAX_REASON_BYTES, "the database could not be read: %s", err_sentence(e));
  store_close(s);
  return e;
}

int verb_rounds_continual(struct call *call) {
  char why[MAX_REASON_BYTES] = "";
  struct config *c;
  const struct site_job_config *job;
  if (!call_load_job(call, &c, &job))
    return EXIT_USAGE;
  int code;
  struct store_matrix *m = calloc(1, sizeof *m);
  enum err e = ERR_NOT_FOUND;
  if (m == NULL)
    e = ERR_NO_MEMORY;
  else if (job->job.continual.tasks.n_tasks == 0)
    snprintf(why, sizeof why, "the job %s has no continual.tasks", job->job.name);
  else
    e = read_matrix(c, &job->job, m, why);
  if (e == ERR_OK)
    code = answer(call, matrix_json(m, &job->job), view);
  else
    code = answer_error(call, e == ERR_NOT_FOUND ? EXIT_FAILED : EXIT_UNREACHABLE, err_name(e), NULL, "%s",
                        why[0] ? why : err_sentence(e));
  free(m);
  config_free(c);
  return code;
}
