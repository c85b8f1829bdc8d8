#include "agent/tuning_file.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/file.h"
#include "agent/scalar.h"
#include "base/must.h"

enum { SCHEMA = 1, REAL_DIGITS = 17 };

/* Numbers beyond these were not measured; a cost model with such would say nothing that can be computed with. */
static const double least_processors = 1e-6, most_processors = 1e6, most_seconds = 1e6, most_weight = 1e4;

void tuning_done(struct tuning *t) {
  tuning_forget(t);
  memset(t, 0, sizeof *t);
}

void tuning_forget(struct tuning *t) {
  cost_free(t->cost);
  t->cost = NULL;
}

/* ---- hosts ---- */

static bool is_of(const struct tuned_host *t, const char *machine, double processors) {
  return fingerprint_equal(t->machine, t->processors, machine, processors);
}

const struct tuned_host *tuning_find(const struct tuning *t, const struct host *host) {
  char machine[FINGERPRINT_BYTES];
  host_machine(host, machine);
  for (size_t i = 0; i < t->n_hosts; i++)
    if (is_of(&t->hosts[i], machine, host_processors(host)))
      return &t->hosts[i];
  return NULL;
}

void tuning_put(struct tuning *t, const struct tuned_host *host) {
  size_t at = 0;
  while (at < t->n_hosts && !is_of(&t->hosts[at], host->machine, host->processors))
    at++;
  if (at == MAX_TUNED_HOSTS)
    at--;
  if (at == t->n_hosts)
    t->n_hosts++;
  memmove(t->hosts + 1, t->hosts, at * sizeof *t->hosts);
  t->hosts[0] = *host;
}

/* ---- writing ---- */

static void input_text(const struct plan *p, char out[SHAPE_TEXT_BYTES]) {
  const struct extent *e = &p->arch->input;
  scalar_shape_write((const uint32_t[]){e->height, e->width, e->channels}, out);
}

static json_t *variants_json(const struct plan *p) {
  json_t *names = json_array();
  for (uint32_t i = 0; i < p->n_variants; i++)
    json_array_append_new(names, json_string(p->variants[i]));
  return names;
}

static json_t *host_json(const struct tuned_host *h) {
  json_t *kernels = json_object();
  for (size_t i = 0; i < h->selection.n; i++)
    json_object_set_new(kernels, h->selection.entries[i].key, json_string(h->selection.entries[i].kernel));
  return json_pack("{s:s, s:I, s:f, s:f, s:I, s:I, s:I, s:o}", "machine", h->machine, "number", (json_int_t)h->number,
                   "processors", h->processors, "seconds", h->seconds, "lanes", (json_int_t)h->selection.lanes,
                   "threads", (json_int_t)h->selection.threads, "block", (json_int_t)h->selection.block, "kernels",
                   kernels);
}

static json_t *cost_json(const struct plan *p, const struct tuning *t) {
  json_t *weights = json_array();
  for (size_t i = 0; t->cost && i < COST_MEMBERS * cost_terms(p->n_variants); i++)
    json_array_append_new(weights, json_real(cost_weights(t->cost)[i]));
  return weights;
}

enum err tuning_file_write(const char *path, const struct plan *p, const struct tuning *t) {
  char input[SHAPE_TEXT_BYTES];
  json_t *hosts = json_array();
  input_text(p, input);
  for (size_t i = 0; i < t->n_hosts; i++)
    json_array_append_new(hosts, host_json(&t->hosts[i]));
  json_t *whole =
      json_pack("{s:i, s:s, s:s, s:I, s:o, s:o, s:o}", "schema", SCHEMA, "model", p->arch->text, "input", input,
                "batch", (json_int_t)p->batch, "variants", variants_json(p), "hosts", hosts, "cost", cost_json(p, t));
  char *text = whole ? json_dumps(whole, JSON_COMPACT | JSON_REAL_PRECISION(REAL_DIGITS)) : NULL;
  enum err e = text ? file_replace(path, 0600, text) : ERR_NO_MEMORY;
  free(text);
  json_decref(whole);
  return e;
}

/* ---- reading ---- */

static bool read_kernels(json_t *kernels, struct selection *s) {
  const char *key;
  json_t *kernel;
  bool sound = json_is_object(kernels);
  if (sound)
    json_object_foreach(kernels, key, kernel) sound =
        sound && json_is_string(kernel) && selection_put(s, key, json_string_value(kernel)) == ERR_OK;
  return sound;
}

static bool is_within(json_int_t n, json_int_t lo, json_int_t hi) {
  return n >= lo && n <= hi;
}

static bool is_within_real(double x, double lo, double hi) {
  return x >= lo && x <= hi;
}

/* Lanes and blocks that the plan has: others could take more memory than training may. Threads are as the host was. */
static bool is_split_of(const struct plan *p, const struct selection *s) {
  for (size_t i = 0; i < p->n_splits; i++)
    if (p->splits[i].lanes == s->lanes && p->splits[i].block == s->block)
      return true;
  return false;
}

static bool read_host(json_t *json, const struct plan *p, struct tuned_host *h) {
  const char *machine;
  json_int_t number, lanes, threads, block;
  json_t *kernels;
  memset(h, 0, sizeof *h);
  if (json_unpack_ex(json, NULL, JSON_STRICT, "{s:s, s:I, s:F, s:F, s:I, s:I, s:I, s:o}", "machine", &machine, "number",
                     &number, "processors", &h->processors, "seconds", &h->seconds, "lanes", &lanes, "threads",
                     &threads, "block", &block, "kernels", &kernels) != 0)
    return false;
  bool sound = strlen(machine) < sizeof h->machine && is_within(number, 0, MAX_TUNED_HOSTS) &&
               is_within_real(h->processors, least_processors, most_processors) &&
               is_within_real(h->seconds, 0, most_seconds) && h->seconds > 0 && is_within(lanes, 1, MAX_LANES) &&
               is_within(threads, 1, lanes) && is_within(block, 0, MAX_BATCH);
  if (!sound)
    return false;
  memcpy(h->machine, machine, strlen(machine) + 1);
  h->number = (uint32_t)number;
  h->selection.lanes = (uint32_t)lanes;
  h->selection.threads = (uint32_t)threads;
  h->selection.block = (uint32_t)block;
  return is_split_of(p, &h->selection) && read_kernels(kernels, &h->selection);
}

static enum err read_cost(json_t *json, const struct plan *p, struct cost_model **out_cost) {
  size_t n = COST_MEMBERS * cost_terms(p->n_variants);
  struct cost_model *cost = NULL;
  if (json_array_size(json) != n)
    return ERR_CORRUPT;
  double *weights = calloc(n, sizeof *weights);
  enum err e = weights ? cost_new(p->n_variants, &cost) : ERR_NO_MEMORY;
  for (size_t i = 0; i < n && !e; i++) {
    json_t *number = json_array_get(json, i);
    weights[i] = json_number_value(number);
    e = json_is_number(number) && is_within_real(weights[i], -most_weight, most_weight) ? ERR_OK : ERR_CORRUPT;
  }
  if (!e)
    e = cost_take(cost, weights) ? ERR_CORRUPT : ERR_OK;
  free(weights);
  if (e)
    cost_free(cost);
  else
    *out_cost = cost;
  return e;
}

static bool is_of_plan(const struct plan *p, const char *model, const char *input, json_int_t batch, json_t *variants) {
  char own[SHAPE_TEXT_BYTES];
  input_text(p, own);
  json_t *names = variants_json(p);
  bool is = strcmp(model, p->arch->text) == 0 && strcmp(input, own) == 0 && batch == p->batch && names &&
            json_equal(names, variants);
  json_decref(names);
  return is;
}

static enum err read_whole(json_t *whole, const struct plan *p, struct tuning *out) {
  const char *model, *input;
  json_int_t schema, batch;
  json_t *variants, *hosts, *cost;
  if (json_unpack(whole, "{s:I}", "schema", &schema) == 0 && schema > SCHEMA)
    return ERR_TOO_NEW;
  if (json_unpack_ex(whole, NULL, JSON_STRICT, "{s:I, s:s, s:s, s:I, s:o, s:o, s:o}", "schema", &schema, "model",
                     &model, "input", &input, "batch", &batch, "variants", &variants, "hosts", &hosts, "cost",
                     &cost) != 0 ||
      schema != SCHEMA || !json_is_array(hosts) || json_array_size(hosts) > MAX_TUNED_HOSTS || !json_is_array(cost) ||
      !json_is_array(variants))
    return ERR_CORRUPT;
  if (!is_of_plan(p, model, input, batch, variants))
    return ERR_FOREIGN;
  for (size_t i = 0; i < json_array_size(hosts); i++)
    if (!read_host(json_array_get(hosts, i), p, &out->hosts[out->n_hosts++]))
      return ERR_CORRUPT;
  return json_array_size(cost) > 0 ? read_cost(cost, p, &out->cost) : ERR_OK;
}

enum err tuning_file_read(const char *path, const struct plan *p, struct tuning *out) {
  char *text;
  size_t n;
  memset(out, 0, sizeof *out);
  enum err e = file_read(path, MAX_TUNING_FILE_BYTES, &text, &n);
  if (e)
    return e;
  json_t *whole = json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL);
  e = whole ? read_whole(whole, p, out) : ERR_CORRUPT;
  json_decref(whole);
  free(text);
  if (e)
    tuning_done(out);
  return e;
}
