#include "models/net/arch.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"

/* Words that stand for a layer and its argument. */
static const struct shorthand { const char *word, *type, *argument; } shorthands[] = {{"softmax", "dense", "classes"}};
enum { N_SHORTHANDS = sizeof shorthands / sizeof *shorthands };

struct word {
  char text[MAX_LAYER_NAME_BYTES]; /* cut, and unprintable bytes shown as '?' */
  size_t column;                   /* from 1 */
  bool cut;
};

enum { MAX_WORDS = 5 }; /* one more than a layer can have: word argument as NAME */

struct parser {
  const char *text, *at;
  const struct contract *contract;
  struct arch *arch;
  char *why;
  struct word words[MAX_WORDS]; /* of the layer in work */
  size_t n_words;
  size_t used; /* words that were understood */
};

/* ---- words */

static bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

/* The words up to the next comma or the end; more than MAX_WORDS are passed over. */
static void read_words(struct parser *p) {
  p->n_words = p->used = 0;
  while (*p->at && *p->at != ',') {
    if (is_blank(*p->at)) {
      p->at++;
      continue;
    }
    struct word w = {.column = (size_t)(p->at - p->text) + 1};
    size_t n = 0;
    for (; *p->at && *p->at != ',' && !is_blank(*p->at); p->at++) {
      if (n < sizeof w.text - 1)
        w.text[n++] = isprint((unsigned char)*p->at) ? *p->at : '?';
      else
        w.cut = true;
    }
    if (p->n_words < MAX_WORDS)
      p->words[p->n_words++] = w;
  }
}

static const struct word *next_word(struct parser *p) {
  return p->used < p->n_words ? &p->words[p->used++] : NULL;
}

/* Column of the word in work, or of where it is missing. */
static size_t column_of(const struct parser *p, const struct word *w) {
  return w ? w->column : (size_t)(p->at - p->text) + 1;
}

/* ---- the nearest known word */

static size_t min3(size_t a, size_t b, size_t c) {
  size_t ab = a < b ? a : b;
  return ab < c ? ab : c;
}

/* Levenshtein's distance; b is one of the table's short words. */
static size_t edit_distance(const char *a, const char *b) {
  size_t row[MAX_LAYER_NAME_BYTES];
  size_t n_b = strlen(b);
  MUST(n_b < MAX_LAYER_NAME_BYTES);
  for (size_t j = 0; j <= n_b; j++)
    row[j] = j;
  for (size_t i = 1; a[i - 1]; i++) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= n_b; j++) {
      size_t above = row[j];
      row[j] = min3(above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1]));
      diagonal = above;
    }
  }
  return row[n_b];
}

static const char *nearest_word(const char *word) {
  size_t n_types;
  const struct layer_type *types = layer_types(&n_types);
  const char *best = NULL;
  size_t best_distance = 0;
  for (size_t i = 0; i < n_types + N_SHORTHANDS; i++) {
    const char *known = i < n_types ? types[i].word : shorthands[i - n_types].word;
    size_t distance = edit_distance(word, known);
    if (!best || distance < best_distance) {
      best = known;
      best_distance = distance;
    }
  }
  return best;
}

/* ---- one layer */

static enum err unknown_layer(const struct parser *p, const struct word *w) {
  if (w)
    snprintf(p->why, MAX_REASON_BYTES, "column %zu: unknown layer '%s', did you mean '%s'?", w->column, w->text,
             nearest_word(w->text));
  else
    snprintf(p->why, MAX_REASON_BYTES, "column %zu: a layer is missing", column_of(p, w));
  return ERR_SYNTAX;
}

static enum err bad_argument(const struct parser *p, const struct layer_type *type, const struct word *w) {
  snprintf(p->why, MAX_REASON_BYTES, "column %zu: %s takes %s%s%s%s", column_of(p, w), type->word, type->argument,
           w ? ", not '" : "", w ? w->text : "", w ? "'" : "");
  return w ? ERR_RANGE : ERR_SYNTAX;
}

static enum err read_argument(struct parser *p, struct layer *l) {
  const struct word *w = next_word(p);
  if (!w || w->cut || l->type->read(l, w->text, p->contract))
    return bad_argument(p, l->type, w);
  return ERR_OK;
}

static enum err read_shorthand(struct parser *p, struct layer *l, const struct shorthand *s) {
  l->type = layer_type_find(s->type);
  enum err e = l->type->read(l, s->argument, p->contract);
  if (e)
    snprintf(p->why, MAX_REASON_BYTES, "column %zu: '%s' stands for '%s %s', which this task does not have",
             p->words[0].column, s->word, s->type, s->argument);
  return e;
}

static enum err read_type(struct parser *p, struct layer *l) {
  const struct word *w = next_word(p);
  for (size_t i = 0; w && i < N_SHORTHANDS; i++)
    if (strcmp(w->text, shorthands[i].word) == 0)
      return read_shorthand(p, l, &shorthands[i]);
  l->type = w ? layer_type_find(w->text) : NULL;
  if (!l->type)
    return unknown_layer(p, w);
  return l->type->argument ? read_argument(p, l) : l->type->read(l, NULL, p->contract);
}

static bool name_well_formed(const char *name) {
  for (const char *c = name; *c; c++)
    if (!(*c >= 'a' && *c <= 'z') && (c == name || (*c != '_' && !(*c >= '0' && *c <= '9'))))
      return false;
  return true;
}

static bool name_taken(const struct arch *a, const char *name) {
  for (size_t i = 0; i < a->n_layers; i++)
    if (strcmp(a->layers[i].name, name) == 0)
      return true;
  return false;
}

static size_t count_type(const struct arch *a, const struct layer_type *type) {
  size_t n = 0;
  for (size_t i = 0; i < a->n_layers; i++)
    n += a->layers[i].type == type;
  return n;
}

/* [as NAME]; without it the default name. */
static enum err read_name(struct parser *p, struct layer *l, bool *out_named) {
  *out_named = p->used < p->n_words && strcmp(p->words[p->used].text, "as") == 0 && l->type->stem;
  if (l->type->stem)
    snprintf(l->name, sizeof l->name, "%s%zu", l->type->stem, 1 + count_type(p->arch, l->type));
  size_t column = p->words[0].column;
  if (*out_named) {
    p->used++;
    const struct word *w = next_word(p);
    column = column_of(p, w);
    if (!w || w->cut || !name_well_formed(w->text)) {
      snprintf(p->why, MAX_REASON_BYTES,
               "column %zu: 'as' takes a name of a-z, 0-9 and _, a letter first, at most %d bytes", column,
               MAX_LAYER_NAME_BYTES - 1);
      return ERR_SYNTAX;
    }
    memcpy(l->name, w->text, sizeof l->name);
  }
  if (l->type->stem && name_taken(p->arch, l->name)) {
    snprintf(p->why, MAX_REASON_BYTES, "column %zu: a second layer is called '%s'", column, l->name);
    return ERR_EXISTS;
  }
  return ERR_OK;
}

/* Appends the layer to the canonical text. */
static enum err write_text(struct parser *p, const struct layer *l, bool named) {
  char form[2 * MAX_LAYER_NAME_BYTES];
  MUST((size_t)l->type->text(l, form, sizeof form) < sizeof form);
  size_t n = strlen(p->arch->text);
  int n_more = snprintf(p->arch->text + n, MAX_ARCH_BYTES - n, "%s%s%s%s", n ? ", " : "", form, named ? " as " : "",
                        named ? l->name : "");
  if ((size_t)n_more < MAX_ARCH_BYTES - n)
    return ERR_OK;
  snprintf(p->why, MAX_REASON_BYTES, "the architecture is longer than %d bytes", MAX_ARCH_BYTES - 1);
  return ERR_LIMIT;
}

static enum err place_layer(struct parser *p, struct layer *l, bool named, size_t *n_parameters) {
  struct arch *a = p->arch;
  size_t n;
  l->offset = *n_parameters;
  if (layer_parameters(l, &n) || n > MAX_PARAMETERS - *n_parameters) {
    snprintf(p->why, MAX_REASON_BYTES,
             "column %zu: with %" PRIu32 " inputs and %" PRIu32 " outputs here the model has more than %d parameters",
             p->words[0].column, l->n_in, l->n_out, MAX_PARAMETERS);
    return ERR_LIMIT;
  }
  *n_parameters += n;
  if (a->n_layers > 0)
    a->layers[a->n_layers - 1].before_relu = strcmp(l->type->word, "relu") == 0;
  a->layers[a->n_layers++] = *l;
  return write_text(p, l, named);
}

static enum err read_layer(struct parser *p, uint32_t n_in, size_t *n_parameters) {
  struct layer l = {.n_in = n_in};
  bool named = false;
  read_words(p);
  enum err e = read_type(p, &l);
  if (!e)
    e = read_name(p, &l, &named);
  if (!e && p->used < p->n_words) {
    const struct word *w = &p->words[p->used];
    snprintf(p->why, MAX_REASON_BYTES, "column %zu: '%s' is not expected here, a comma separates layers", w->column,
             w->text);
    e = ERR_SYNTAX;
  }
  return e ? e : place_layer(p, &l, named, n_parameters);
}

/* ---- the whole */

static enum err check_outputs(const struct parser *p, size_t n_parameters) {
  const struct arch *a = p->arch;
  if (n_parameters == 0) {
    snprintf(p->why, MAX_REASON_BYTES, "no layer can learn, a 'dense' one is missing");
    return ERR_RANGE;
  }
  if (a->n_outputs != contract_n_outputs(p->contract)) {
    snprintf(p->why, MAX_REASON_BYTES, "the last layer has %u outputs, the contract needs %zu: end with 'dense %s'",
             a->n_outputs, contract_n_outputs(p->contract), a->loss == LOSS_CROSS_ENTROPY ? "classes" : "targets");
    return ERR_RANGE;
  }
  return ERR_OK;
}

static enum err read_layers(struct parser *p) {
  struct arch *a = p->arch;
  size_t n_parameters = 0;
  a->n_outputs = a->n_inputs;
  for (;;) {
    if (a->n_layers == MAX_LAYERS) {
      snprintf(p->why, MAX_REASON_BYTES, "more than %d layers", MAX_LAYERS);
      return ERR_LIMIT;
    }
    enum err e = read_layer(p, a->n_outputs, &n_parameters);
    if (e)
      return e;
    a->n_outputs = a->layers[a->n_layers - 1].n_out;
    if (!*p->at)
      return check_outputs(p, n_parameters);
    p->at++; /* the comma */
  }
}

static size_t count_commas(const char *text) {
  size_t n = 0;
  for (const char *c = text; *c; c++)
    n += *c == ',';
  return n;
}

enum err arch_parse(const char *text, const struct contract *contract, struct arch **out_arch,
                    char why[MAX_REASON_BYTES]) {
  if (strnlen(text, MAX_ARCH_BYTES) == MAX_ARCH_BYTES) {
    snprintf(why, MAX_REASON_BYTES, "the architecture is longer than %d bytes", MAX_ARCH_BYTES - 1);
    return ERR_LIMIT;
  }
  struct arch *a = calloc(1, sizeof *a + (count_commas(text) + 1) * sizeof *a->layers);
  struct parser p = {.text = text, .at = text, .contract = contract, .arch = a, .why = why};
  enum err e = a ? ERR_OK : ERR_NO_MEMORY;
  if (e) {
    snprintf(why, MAX_REASON_BYTES, "%s", err_sentence(e));
    goto out;
  }
  a->loss = contract->loss;
  a->n_inputs = (uint32_t)contract_n_inputs(contract);
  e = read_layers(&p);
  if (e)
    goto out;
  *out_arch = a;
  a = NULL;
out:
  arch_free(a);
  return e;
}

void arch_free(struct arch *a) {
  free(a);
}

double arch_flops(const struct arch *a) {
  double flops = 0;
  for (size_t i = 0; i < a->n_layers; i++)
    flops += a->layers[i].type->flops(&a->layers[i]);
  return flops;
}
