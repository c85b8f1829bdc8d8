#include "models/schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "models/net/arch.h"

struct schema {
  struct arch *arch; /* NULL: tensors only */
  size_t n_parameters, n_shared;
  size_t n_tensors;
  struct tensor tensors[];
};

enum err tensor_values(const struct tensor *t, size_t *out_n) {
  if (t->rank < 1 || t->rank > MAX_RANK)
    return ERR_SYNTAX;
  size_t n = 1;
  for (uint32_t i = 0; i < t->rank; i++) {
    if (t->shape[i] == 0)
      return ERR_SYNTAX;
    if (t->shape[i] > MAX_PARAMETERS / n)
      return ERR_LIMIT;
    n *= t->shape[i];
  }
  *out_n = n;
  return ERR_OK;
}

static bool name_well_formed(const char name[MAX_NAME_BYTES]) {
  size_t n = strnlen(name, MAX_NAME_BYTES);
  if (n == 0 || n == MAX_NAME_BYTES)
    return false;
  for (size_t i = 0; i < n; i++)
    if (name[i] <= ' ' || name[i] > '~')
      return false;
  return true;
}

/* Takes one tensor to the end of the model. */
static enum err tensor_place(struct tensor *t, size_t *n_parameters) {
  if (!name_well_formed(t->name) || (unsigned)t->role > ROLE_STATISTIC)
    return ERR_SYNTAX;
  enum err e = tensor_values(t, &t->n_values);
  if (e)
    return e;
  if (t->n_values > MAX_PARAMETERS - *n_parameters)
    return ERR_LIMIT;
  t->offset = *n_parameters;
  *n_parameters += t->n_values;
  return ERR_OK;
}

static int compare_names(const void *a, const void *b) {
  const char *const *x = a, *const *y = b;
  return strcmp(*x, *y);
}

static enum err check_names_unique(const struct schema *s) {
  const char **names = calloc(s->n_tensors, sizeof *names);
  if (!names)
    return ERR_NO_MEMORY;
  for (size_t i = 0; i < s->n_tensors; i++)
    names[i] = s->tensors[i].name;
  qsort(names, s->n_tensors, sizeof *names, compare_names);
  enum err e = ERR_OK;
  for (size_t i = 1; i < s->n_tensors && !e; i++)
    if (strcmp(names[i - 1], names[i]) == 0)
      e = ERR_EXISTS;
  free(names);
  return e;
}

enum err schema_new(const struct tensor *tensors, size_t n_tensors, struct schema **out_schema) {
  if (n_tensors == 0)
    return ERR_RANGE;
  if (n_tensors > MAX_TENSORS)
    return ERR_LIMIT;
  struct schema *s = calloc(1, sizeof *s + n_tensors * sizeof *tensors);
  if (!s)
    return ERR_NO_MEMORY;
  s->n_tensors = n_tensors;
  memcpy(s->tensors, tensors, n_tensors * sizeof *tensors);
  enum err e = ERR_OK;
  for (size_t i = 0; i < n_tensors && !e; i++)
    e = tensor_place(&s->tensors[i], &s->n_parameters);
  for (size_t i = 0; i < n_tensors && !e; i++)
    s->n_shared += s->tensors[i].role == ROLE_PERSONAL ? 0 : s->tensors[i].n_values;
  if (!e)
    e = check_names_unique(s);
  if (e) {
    schema_free(s);
    return e;
  }
  *out_schema = s;
  return ERR_OK;
}

static size_t arch_tensors(const struct arch *a, struct tensor *out_tensors) {
  size_t n = 0;
  for (size_t i = 0; i < a->n_layers; i++) {
    size_t n_layer = a->layers[i].type->tensors ? a->layers[i].type->tensors(&a->layers[i], out_tensors + n) : 0;
    for (size_t k = 0; k < n_layer && a->layers[i].is_personal; k++)
      out_tensors[n + k].role = ROLE_PERSONAL;
    n += n_layer;
  }
  return n;
}

enum err schema_from_arch(const char *text, const struct contract *contract, struct schema **out_schema,
                          char why[MAX_REASON_BYTES]) {
  struct arch *arch = NULL;
  struct schema *s = NULL;
  struct tensor *tensors = NULL;
  enum err e = arch_parse(text, contract, &arch, why);
  if (e)
    return e;
  tensors = calloc(arch->n_layers * MAX_LAYER_TENSORS, sizeof *tensors);
  e = tensors ? schema_new(tensors, arch_tensors(arch, tensors), &s) : ERR_NO_MEMORY;
  if (e) {
    snprintf(why, MAX_REASON_BYTES, "%s", err_sentence(e));
    goto out;
  }
  s->arch = arch;
  arch = NULL; /* now the schema's */
  *out_schema = s;
out:
  free(tensors);
  arch_free(arch);
  return e;
}

void schema_free(struct schema *s) {
  if (s)
    arch_free(s->arch);
  free(s);
}

size_t schema_parameters(const struct schema *s) {
  return s->n_parameters;
}

size_t schema_shared(const struct schema *s) {
  return s->n_shared;
}

size_t schema_tensors(const struct schema *s) {
  return s->n_tensors;
}

const struct tensor *schema_tensor(const struct schema *s, size_t i) {
  MUST(i < s->n_tensors);
  return &s->tensors[i];
}

const struct arch *schema_arch(const struct schema *s) {
  return s->arch;
}

/* ---- the canonical text, line by line: line 0 is the model, line i tensor i */

enum { MAX_LINE_BYTES = MAX_ARCH_BYTES + 64, MORE_LINE_BYTES = 32 };

static void shape_text(const struct tensor *t, char *out_text, size_t capacity) {
  if (t->role == ROLE_PERSONAL) {
    snprintf(out_text, capacity, "-");
    return;
  }
  size_t n = 0;
  for (uint32_t i = 0; i < t->rank; i++)
    n += (size_t)snprintf(out_text + n, capacity - n, "%s%u", i ? "," : "", t->shape[i]);
}

static size_t line_write(const struct schema *s, size_t line, char out_line[MAX_LINE_BYTES]) {
  static const char *const roles[] = {
      [ROLE_SHARED] = "shared", [ROLE_PERSONAL] = "personal", [ROLE_STATISTIC] = "statistic"};
  if (line == 0)
    return (size_t)snprintf(out_line, MAX_LINE_BYTES, "model: %s\n", s->arch ? s->arch->shared_text : "tensors");
  const struct tensor *t = &s->tensors[line - 1];
  char shape[MAX_RANK * 11 + 1];
  shape_text(t, shape, sizeof shape);
  return (size_t)snprintf(out_line, MAX_LINE_BYTES, "tensor %zu: %s [%s] f32 %s\n", line, t->name, shape,
                          roles[t->role]);
}

void schema_text(const struct schema *s, char out_text[MAX_SCHEMA_TEXT_BYTES]) {
  char line[MAX_LINE_BYTES];
  size_t used = 0;
  for (size_t i = 0; i <= s->n_tensors; i++) {
    size_t n = line_write(s, i, line);
    size_t spare = i < s->n_tensors ? MORE_LINE_BYTES : 1; /* the last line needs no "and N more" after it */
    if (used + n + spare > MAX_SCHEMA_TEXT_BYTES) {
      snprintf(out_text + used, MAX_SCHEMA_TEXT_BYTES - used, "and %zu more\n", s->n_tensors + 1 - i);
      return;
    }
    memcpy(out_text + used, line, n + 1);
    used += n;
  }
}

void schema_hash(const struct schema *s, const struct digest_fn *digest, struct digest *out_hash) {
  static const char domain[] = "starling/v1/schema"; /* with its NUL */
  char line[MAX_LINE_BYTES];
  struct digest_state state;
  digest->init(&state);
  digest->add(&state, domain, sizeof domain);
  for (size_t i = 0; i <= s->n_tensors; i++)
    digest->add(&state, line, line_write(s, i, line));
  digest->end(&state, out_hash);
}
