#include "models/data/scale.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/must.h"
#include "models/formats/number.h"
#include "models/text.h"

static const char *const rule_names[] = {
    [SCALE_NONE] = "none",
    [SCALE_FIXED] = "fixed",
    [SCALE_LOCAL] = "local",
    [SCALE_POOLED] = "pooled",
};
enum { N_RULES = sizeof rule_names / sizeof rule_names[0] };

const char *scale_rule_name(enum scale_rule rule) {
  MUST((size_t)rule < N_RULES);
  return rule_names[rule];
}

bool scale_is_measured(enum scale_rule rule) {
  return rule == SCALE_LOCAL || rule == SCALE_POOLED;
}

enum err scale_init(struct scale *s, enum scale_rule rule, size_t n) {
  if (n > MAX_FEATURES)
    return ERR_LIMIT;
  *s = (struct scale){.rule = rule, .n = n};
  if (n == 0)
    return ERR_OK;
  s->mean = calloc(n, sizeof *s->mean);
  s->sd = calloc(n, sizeof *s->sd);
  if (s->mean == NULL || s->sd == NULL) {
    scale_done(s);
    return ERR_NO_MEMORY;
  }
  for (size_t i = 0; i < n; i++)
    s->sd[i] = 1;
  return ERR_OK;
}

void scale_done(struct scale *s) {
  free(s->mean);
  free(s->sd);
  *s = (struct scale){0};
}

enum err scale_copy(const struct scale *s, struct scale *out_copy) {
  struct scale copy;
  enum err e = scale_init(&copy, s->rule, s->n);
  if (e != ERR_OK)
    return e;
  for (size_t i = 0; i < s->n; i++) {
    copy.mean[i] = s->mean[i];
    copy.sd[i] = s->sd[i];
  }
  *out_copy = copy;
  return ERR_OK;
}

void scale_write(struct writer *w, const struct scale *s) {
  text_line(w, "scale: %s", scale_rule_name(s->rule));
  text_line(w, "scale pairs: %zu", s->n);
  for (size_t i = 0; i < s->n; i++) {
    char number[NUMBER_TEXT_BYTES];
    number_write(s->mean[i], number);
    text_line(w, "scale mean %zu: %s", i, number);
    number_write(s->sd[i], number);
    text_line(w, "scale sd %zu: %s", i, number);
  }
}

/* The value of the next line, which must begin with `what`. */
struct line_value {
  const char *text;
  size_t n;
};

static enum err take_line(struct cursor *c, const char *what, struct line_value *out_value) {
  size_t n_what = strlen(what);
  const uint8_t *end = c->left == 0 ? NULL : memchr(c->at, '\n', c->left);
  if (end == NULL || (size_t)(end - c->at) < n_what || memcmp(c->at, what, n_what) != 0)
    return ERR_SYNTAX;
  size_t n_line = (size_t)(end - c->at);
  const char *line = (const char *)cursor_view(c, n_line + 1);
  *out_value = (struct line_value){line + n_what, n_line - n_what};
  return ERR_OK;
}

static enum err take_number(struct cursor *c, const char *what, double *out_number) {
  struct line_value v;
  enum err e = take_line(c, what, &v);
  return e != ERR_OK ? e : number_read(v.text, v.n, out_number);
}

static enum err take_rule(struct cursor *c, enum scale_rule *out_rule) {
  struct line_value v;
  enum err e = take_line(c, "scale: ", &v);
  if (e != ERR_OK)
    return e;
  for (size_t i = 0; i < N_RULES; i++)
    if (strlen(rule_names[i]) == v.n && memcmp(rule_names[i], v.text, v.n) == 0) {
      *out_rule = (enum scale_rule)i;
      return ERR_OK;
    }
  return ERR_SYNTAX;
}

static enum err take_pair(struct cursor *c, size_t i, struct scale *s) {
  char what[TEXT_LINE_BYTES];
  snprintf(what, sizeof what, "scale mean %zu: ", i);
  enum err e = take_number(c, what, &s->mean[i]);
  if (e != ERR_OK)
    return e;
  snprintf(what, sizeof what, "scale sd %zu: ", i);
  e = take_number(c, what, &s->sd[i]);
  return e == ERR_OK && !(s->sd[i] > 0) ? ERR_RANGE : e;
}

enum err scale_read(const char *text, size_t n_bytes, struct scale *out_scale) {
  struct cursor c;
  cursor_init(&c, text, n_bytes);
  enum scale_rule rule;
  double n;
  enum err e = take_rule(&c, &rule);
  if (e == ERR_OK)
    e = take_number(&c, "scale pairs: ", &n);
  if (e != ERR_OK)
    return e;
  if (!(n >= 0) || n > (double)c.left / 2 || n != floor(n)) /* a pair is two lines */
    return ERR_RANGE;
  struct scale s;
  e = scale_init(&s, rule, (size_t)n);
  if (e != ERR_OK)
    return e;
  for (size_t i = 0; e == ERR_OK && i < s.n; i++)
    e = take_pair(&c, i, &s);
  if (e == ERR_OK && c.left > 0)
    e = ERR_SYNTAX;
  if (e != ERR_OK) {
    scale_done(&s);
    return e;
  }
  *out_scale = s;
  return ERR_OK;
}

enum err scale_stats_init(struct scale_stats *s, size_t n) {
  MUST(n > 0);
  *s = (struct scale_stats){.n = n};
  s->mean = calloc(n, sizeof *s->mean);
  s->m2 = calloc(n, sizeof *s->m2);
  s->x = calloc(n, sizeof *s->x);
  if (s->mean != NULL && s->m2 != NULL && s->x != NULL)
    return ERR_OK;
  scale_stats_done(s);
  return ERR_NO_MEMORY;
}

void scale_stats_done(struct scale_stats *s) {
  free(s->mean);
  free(s->m2);
  free(s->x);
  *s = (struct scale_stats){0};
}

void scale_stats_add(struct scale_stats *s) {
  s->count++;
  for (size_t i = 0; i < s->n; i++) {
    double delta = s->x[i] - s->mean[i];
    s->mean[i] += delta / (double)s->count;
    s->m2[i] += delta * (s->x[i] - s->mean[i]);
  }
}

/* δ = mean_b − mean_a:  mean = mean_a + δ·n_b/n,  M2 = M2_a + M2_b + δ²·n_a·n_b/n */
void scale_stats_merge(struct scale_stats *s, const struct scale_stats *from) {
  MUST(s->n == from->n);
  double n_a = (double)s->count, n_b = (double)from->count, n = n_a + n_b;
  for (size_t i = 0; i < s->n && n_b > 0; i++) {
    double delta = from->mean[i] - s->mean[i];
    s->mean[i] += delta * (n_b / n);
    s->m2[i] += from->m2[i] + delta * delta * (n_a * (n_b / n));
  }
  s->count += from->count;
}

enum err scale_stats_end(const struct scale_stats *s, enum scale_rule rule, struct scale *out_scale) {
  MUST(s->count > 0 && scale_is_measured(rule));
  struct scale result;
  enum err e = scale_init(&result, rule, s->n);
  if (e != ERR_OK)
    return e;
  for (size_t i = 0; i < s->n; i++) {
    double sd = sqrt(s->m2[i] / (double)s->count);
    result.mean[i] = s->mean[i];
    result.sd[i] = sd > 0 && isfinite(sd) ? sd : 1;
  }
  *out_scale = result;
  return ERR_OK;
}
