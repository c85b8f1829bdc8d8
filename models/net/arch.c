#include "models/net/arch.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/edit_distance.h"
#include "base/must.h"

/* Words that stand for a layer and its argument. */
static const struct shorthand { const char *word, *type, *argument; } shorthands[] = {{"softmax", "dense", "classes"}};
enum { N_SHORTHANDS = sizeof shorthands / sizeof *shorthands };

struct word {
  char text[MAX_LAYER_NAME_BYTES]; /* cut, and unprintable bytes shown as '?' */
  size_t column;                   /* from 1 */
  bool cut;
};

/* One more than a layer can have: word argument… option value… as NAME personal. */
enum { MAX_WORDS = 1 + 2 * MAX_LAYER_WORDS + 3 + 1, MAX_OPEN = 16 };

struct parser {
  const char *text, *at;
  const struct contract *contract;
  struct arch *arch;
  char *why;
  const char *const *personal; /* [n_personal] names and words of layers that are, too */
  size_t n_personal;
  struct word words[MAX_WORDS]; /* of the layer in work */
  size_t n_words;
  size_t used; /* words that were understood */
  struct open_block {
    size_t layer, column;
  } open[MAX_OPEN];
  size_t n_open;
};

/* ---- words */

static bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

/* What words end at. */
static bool is_mark(char c) {
  return c == '\0' || c == ',' || c == '{' || c == '}';
}

/* The words up to the next mark; more than MAX_WORDS are passed over. */
static void read_words(struct parser *p) {
  p->n_words = p->used = 0;
  while (!is_mark(*p->at)) {
    if (is_blank(*p->at)) {
      p->at++;
      continue;
    }
    struct word w = {.column = (size_t)(p->at - p->text) + 1};
    size_t n = 0;
    for (; !is_mark(*p->at) && !is_blank(*p->at); p->at++) {
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

/* The shorthands, then the layers; NULL behind the last. */
static const char *known_word(size_t i) {
  if (i < N_SHORTHANDS)
    return shorthands[i].word;
  const struct layer_type *type = layer_type_at(i - N_SHORTHANDS);
  return type ? type->word : NULL;
}

/* Whatever its case; NULL: none is near, more than half of the word would have to change. */
static const char *nearest_word(const char *word) {
  char lower[MAX_LAYER_NAME_BYTES];
  size_t n = strlen(word), best_distance = n / 2 + 1;
  const char *best = NULL, *known;
  for (size_t i = 0; i <= n; i++)
    lower[i] = (char)tolower((unsigned char)word[i]);
  for (size_t i = 0; (known = known_word(i)); i++) {
    size_t distance = edit_distance(lower, known);
    if (distance < best_distance) {
      best = known;
      best_distance = distance;
    }
  }
  return best;
}

/* ---- one layer */

/* Sets the sentence, "column N: …", and returns the error. */
__attribute__((format(printf, 4, 5))) static enum err fail(const struct parser *p, size_t column, enum err e,
                                                           const char *format, ...) {
  va_list args;
  int n = snprintf(p->why, MAX_REASON_BYTES, "column %zu: ", column);
  va_start(args, format);
  vsnprintf(p->why + n, MAX_REASON_BYTES - (size_t)n, format, args);
  va_end(args);
  return e;
}

static enum err unknown_layer(const struct parser *p, const struct word *w) {
  if (!w)
    return fail(p, column_of(p, w), ERR_SYNTAX, "a layer is missing");
  const char *near = nearest_word(w->text);
  if (near)
    return fail(p, w->column, ERR_SYNTAX, "unknown layer '%s', did you mean '%s'?", w->text, near);
  return fail(p, w->column, ERR_SYNTAX, "unknown layer '%s'; `starling help layers` has all", w->text);
}

/* The next word as what `known` says. */
static enum err read_value(struct parser *p, struct layer *l, const struct layer_word *known) {
  const char *taker = known->option ? known->option : l->type->word;
  const struct word *w = next_word(p);
  if (!w)
    return fail(p, column_of(p, w), ERR_SYNTAX, "%s takes %s", taker, known->takes);
  if (w->cut || known->read(l, w->text, p->contract))
    return fail(p, w->column, ERR_RANGE, "%s takes %s, not '%s'", taker, known->takes, w->text);
  return ERR_OK;
}

static size_t find_option(const struct layer_word *words, const char *option) {
  for (size_t i = 0; words[i].takes; i++)
    if (words[i].option && strcmp(words[i].option, option) == 0)
      return i;
  return MAX_LAYER_WORDS;
}

static enum err read_values(struct parser *p, struct layer *l) {
  const struct layer_word *words = l->type->words;
  bool seen[MAX_LAYER_WORDS] = {false};
  for (size_t i = 0; words[i].takes && !words[i].option; i++) {
    enum err e = read_value(p, l, &words[i]);
    if (e)
      return e;
  }
  while (p->used < p->n_words) {
    const struct word *w = &p->words[p->used];
    size_t i = find_option(words, w->text);
    if (i == MAX_LAYER_WORDS)
      break;
    if (seen[i])
      return fail(p, w->column, ERR_EXISTS, "'%s' stands twice", w->text);
    seen[i] = true;
    p->used++;
    enum err e = read_value(p, l, &words[i]);
    if (e)
      return e;
  }
  return ERR_OK;
}

static enum err read_shorthand(struct parser *p, struct layer *l, const struct shorthand *s) {
  l->type = layer_type_find(s->type);
  MUST(l->type);
  if (l->type->words[0].read(l, s->argument, p->contract))
    return fail(p, p->words[0].column, ERR_RANGE, "'%s' stands for '%s %s', which this task does not have", s->word,
                s->type, s->argument);
  return ERR_OK;
}

static enum err read_type(struct parser *p, struct layer *l) {
  const struct word *w = next_word(p);
  for (size_t i = 0; w && i < N_SHORTHANDS; i++)
    if (strcmp(w->text, shorthands[i].word) == 0)
      return read_shorthand(p, l, &shorthands[i]);
  l->type = w ? layer_type_find(w->text) : NULL;
  return l->type ? read_values(p, l) : unknown_layer(p, w);
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

static size_t count_stem(const struct arch *a, const char *stem) {
  size_t n = 0;
  for (size_t i = 0; i < a->n_layers; i++)
    n += a->layers[i].type->stem && strcmp(a->layers[i].type->stem, stem) == 0;
  return n;
}

/* [as NAME]; without it the default name. */
static enum err read_name(struct parser *p, struct layer *l, bool *out_named) {
  MUST(l->type);
  const char *stem = l->type->stem;
  *out_named = p->used < p->n_words && strcmp(p->words[p->used].text, "as") == 0 && stem;
  if (stem)
    snprintf(l->name, sizeof l->name, "%s%zu", stem, 1 + count_stem(p->arch, stem));
  size_t column = p->words[0].column;
  if (*out_named) {
    p->used++;
    const struct word *w = next_word(p);
    column = column_of(p, w);
    if (!w || w->cut || !name_well_formed(w->text))
      return fail(p, column, ERR_SYNTAX, "'as' takes a name of a-z, 0-9 and _, a letter first, at most %d bytes",
                  MAX_LAYER_NAME_BYTES - 1);
    memcpy(l->name, w->text, sizeof l->name);
  }
  if (stem && name_taken(p->arch, l->name))
    return fail(p, column, ERR_EXISTS, "a second layer is called '%s'", l->name);
  return ERR_OK;
}

/* Whether a name from a job file means this layer. */
static bool is_called(const struct layer *l, const char *name) {
  return l->type->stem && (strcmp(l->name, name) == 0 || strcmp(l->type->word, name) == 0);
}

/* [personal] */
static enum err read_personal(struct parser *p, struct layer *l) {
  MUST(l->type);
  for (size_t i = 0; i < p->n_personal; i++)
    l->is_personal = l->is_personal || is_called(l, p->personal[i]);
  if (p->used == p->n_words || strcmp(p->words[p->used].text, "personal") != 0)
    return ERR_OK;
  if (!l->type->stem)
    return fail(p, p->words[p->used].column, ERR_RANGE, "%s has nothing that could be personal", l->type->word);
  p->used++;
  l->is_personal = true;
  return ERR_OK;
}

static enum err check_all_used(const struct parser *p) {
  if (p->used == p->n_words)
    return ERR_OK;
  const struct word *w = &p->words[p->used];
  return fail(p, w->column, ERR_SYNTAX, "'%s' is not expected here, a comma separates layers", w->text);
}

/* ---- placing it */

/* Appends to a canonical text. */
__attribute__((format(printf, 3, 4))) static enum err write_text(struct parser *p, char text[MAX_ARCH_BYTES],
                                                                 const char *format, ...) {
  va_list args;
  size_t n = strlen(text);
  va_start(args, format);
  int n_more = vsnprintf(text + n, MAX_ARCH_BYTES - n, format, args);
  va_end(args);
  if ((size_t)n_more < MAX_ARCH_BYTES - n)
    return ERR_OK;
  snprintf(p->why, MAX_REASON_BYTES, "the architecture is longer than %d bytes", MAX_ARCH_BYTES - 1);
  return ERR_LIMIT;
}

/* A comma, but for the first layer of all and of a block. */
static const char *separator(const struct arch *a) {
  if (a->n_layers == 0)
    return "";
  return a->layers[a->n_layers - 1].type->closes ? " " : ", ";
}

static enum err write_layer(struct parser *p, const struct layer *l, bool named) {
  char form[2 * MAX_LAYER_NAME_BYTES];
  MUST((size_t)l->type->text(l, form, sizeof form) < sizeof form);
  const char *as = named ? " as " : "", *name = named ? l->name : "", *personal = l->is_personal ? " personal" : "";
  const char *brace = l->type->closes ? " {" : "", *before = separator(p->arch);
  enum err e = write_text(p, p->arch->text, "%s%s%s%s%s%s", before, form, as, name, personal, brace);
  if (!e)
    e = write_text(p, p->arch->shared_text, "%s%s%s%s%s%s", before, l->is_personal ? l->type->word : form, as, name,
                   personal, brace);
  return e;
}

/* A rectifier decides the first weights of the layer before it, however many norms stand between. */
static void tell_layers_before(struct arch *a) {
  for (size_t i = a->n_layers; i-- > 0;) {
    a->layers[i].before_relu = true;
    if (!a->layers[i].type->transparent)
      return;
  }
}

/* The extent that comes out, and the place of the parameters, of a layer whose words are known. */
static enum err shape_layer(struct parser *p, struct layer *l, size_t column) {
  struct arch *a = p->arch;
  char why[MAX_REASON_BYTES];
  if (a->n_layers == MAX_LAYERS) {
    snprintf(p->why, MAX_REASON_BYTES, "more than %d layers", MAX_LAYERS);
    return ERR_LIMIT;
  }
  enum err e = l->type->shape(l, why);
  if (e)
    return fail(p, column, e, "%s", why);
  l->offset = a->n_parameters;
  if (layer_count_parameters(l) || l->n_trained + l->n_statistics > MAX_PARAMETERS - a->n_parameters)
    return fail(p, column, ERR_LIMIT,
                "with %" PRIu32 " inputs and %" PRIu32 " outputs here the model has more than %d parameters", l->n_in,
                l->n_out, MAX_PARAMETERS);
  return ERR_OK;
}

/* Puts it behind what is there. */
static void append_layer(struct arch *a, const struct layer *l) {
  a->n_parameters += l->n_trained + l->n_statistics;
  a->n_trained += l->n_trained;
  if (l->type->rectifies)
    tell_layers_before(a);
  a->layers[a->n_layers++] = *l;
}

/* What comes out of the last layer, or goes into the first. */
static struct layer layer_behind(const struct arch *a) {
  if (a->n_layers == 0)
    return (struct layer){.in = a->input, .n_in = a->n_inputs};
  const struct layer *last = &a->layers[a->n_layers - 1];
  return (struct layer){.in = last->out, .n_in = last->n_out};
}

static enum err read_layer(struct parser *p) {
  struct layer l = layer_behind(p->arch);
  bool named = false;
  read_words(p);
  enum err e = read_type(p, &l);
  if (!e)
    e = read_name(p, &l, &named);
  if (!e)
    e = read_personal(p, &l);
  if (!e)
    e = check_all_used(p);
  if (!e && (*p->at == '{') != (l.type->closes != NULL))
    e = l.type->closes ? fail(p, column_of(p, NULL), ERR_SYNTAX,
                              "%s takes a block of layers, as in '%s { dense 8, relu }'", l.type->word, l.type->word)
                       : fail(p, column_of(p, NULL), ERR_SYNTAX, "%s takes no block of layers", l.type->word);
  if (!e)
    e = shape_layer(p, &l, p->words[0].column);
  if (!e)
    e = write_layer(p, &l, named);
  if (!e)
    append_layer(p->arch, &l);
  return e;
}

/* ---- blocks */

/* The last layer opens one, p->at is its brace. */
static enum err open_block(struct parser *p) {
  if (p->n_open == MAX_OPEN)
    return fail(p, column_of(p, NULL), ERR_LIMIT, "more than %d blocks within each other", MAX_OPEN);
  p->open[p->n_open++] = (struct open_block){p->arch->n_layers - 1, column_of(p, NULL)};
  return ERR_OK;
}

/* p->at is a closing brace. */
static enum err close_block(struct parser *p) {
  struct arch *a = p->arch;
  size_t column = column_of(p, NULL);
  if (p->n_open == 0)
    return fail(p, column, ERR_SYNTAX, "'}' closes nothing; remove it");
  struct layer *first = &a->layers[p->open[--p->n_open].layer], l = layer_behind(a);
  l.type = first->type->closes;
  l.out = first->in;
  l.partner = p->open[p->n_open].layer;
  first->partner = a->n_layers;
  enum err e = shape_layer(p, &l, column);
  if (!e)
    e = write_text(p, a->text, " }");
  if (!e)
    e = write_text(p, a->shared_text, " }");
  if (e)
    return e;
  append_layer(a, &l);
  p->at++;
  read_words(p);
  e = check_all_used(p);
  if (!e && *p->at == '{')
    e = fail(p, column_of(p, NULL), ERR_SYNTAX, "'{' is not expected here, a comma separates layers");
  return e;
}

/* ---- the whole */

static enum err check_outputs(const struct parser *p) {
  const struct arch *a = p->arch;
  if (a->n_trained == 0) {
    snprintf(p->why, MAX_REASON_BYTES, "no layer can learn, a 'dense' one is missing");
    return ERR_RANGE;
  }
  if (a->n_outputs != contract_n_outputs(p->contract)) {
    const struct task_type *task = task_type(p->contract->task);
    snprintf(p->why, MAX_REASON_BYTES, "the last layer has %u outputs, the contract needs %zu: end with 'dense %s'%s",
             a->n_outputs, contract_n_outputs(p->contract), task->outputs,
             task->answer == ANSWER_NUMBER ? ", and make a job of each number that is to be learnt" : "");
    return ERR_RANGE;
  }
  return ERR_OK;
}

/* What stands behind a layer: ends of blocks, then a comma or the end of all. */
static enum err read_marks(struct parser *p) {
  enum err e = ERR_OK;
  while (!e && *p->at == '}')
    e = close_block(p);
  if (!e && *p->at == '\0' && p->n_open > 0)
    e = fail(p, column_of(p, NULL), ERR_SYNTAX, "a '}' is missing for the '{' in column %zu",
             p->open[p->n_open - 1].column);
  return e;
}

static enum err read_layers(struct parser *p) {
  struct arch *a = p->arch;
  for (;;) {
    enum err e = read_layer(p);
    if (!e)
      e = *p->at == '{' ? open_block(p) : read_marks(p);
    if (e)
      return e;
    a->n_outputs = layer_behind(a).n_in;
    if (!*p->at)
      return check_outputs(p);
    p->at++; /* the comma or the brace */
  }
}

/* At least as many layers as the text can have: one before each mark and the end, and one for each end of a block. */
static size_t count_places(const char *text) {
  size_t n = 1;
  for (const char *c = text; *c; c++)
    n += *c == ',' || *c == '{' || *c == '}';
  return n < MAX_LAYERS ? n : MAX_LAYERS;
}

static struct extent input_of(const struct contract *c) {
  if (contract_is_image(c))
    return (struct extent){c->height, c->width, c->channels};
  return (struct extent){1, 1, (uint32_t)contract_n_inputs(c)};
}

static enum err parse(const char *text, const struct contract *contract, const char *const *personal, size_t n_personal,
                      struct arch **out_arch, char why[MAX_REASON_BYTES]) {
  if (strnlen(text, MAX_ARCH_BYTES) == MAX_ARCH_BYTES) {
    snprintf(why, MAX_REASON_BYTES, "the architecture is longer than %d bytes", MAX_ARCH_BYTES - 1);
    return ERR_LIMIT;
  }
  struct arch *a = calloc(1, sizeof *a + count_places(text) * sizeof *a->layers);
  struct parser p = {.text = text,
                     .at = text,
                     .contract = contract,
                     .arch = a,
                     .why = why,
                     .personal = personal,
                     .n_personal = n_personal};
  enum err e = a ? ERR_OK : ERR_NO_MEMORY;
  if (e) {
    snprintf(why, MAX_REASON_BYTES, "%s", err_sentence(e));
    goto out;
  }
  a->loss = contract->loss;
  a->input = input_of(contract);
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

enum err arch_parse(const char *text, const struct contract *contract, struct arch **out_arch,
                    char why[MAX_REASON_BYTES]) {
  return parse(text, contract, NULL, 0, out_arch, why);
}

/* ---- personal layers by their names */

/* The name of a layer with parameters that is nearest; NULL: none is near. */
static const char *nearest_name(const struct arch *a, const char *name) {
  size_t best_distance = strlen(name) / 2 + 1;
  const char *best = NULL;
  for (size_t i = 0; i < a->n_layers; i++) {
    size_t distance = a->layers[i].type->stem ? edit_distance(name, a->layers[i].name) : SIZE_MAX;
    if (distance < best_distance) {
      best = a->layers[i].name;
      best_distance = distance;
    }
  }
  return best;
}

static enum err find_called(const struct arch *a, const char *name, char why[MAX_REASON_BYTES]) {
  for (size_t i = 0; i < a->n_layers; i++)
    if (is_called(&a->layers[i], name))
      return ERR_OK;
  const struct layer_type *type = layer_type_find(name);
  if (type && !type->stem) {
    snprintf(why, MAX_REASON_BYTES, "%s has nothing that could be personal", type->word);
    return ERR_RANGE;
  }
  const char *near = nearest_name(a, name);
  snprintf(why, MAX_REASON_BYTES, "no layer of the model is called '%.47s'%s%s%s", name, near ? ", did you mean '" : "",
           near ? near : "", near ? "'?" : "");
  return ERR_NOT_FOUND;
}

static bool shares_any(const struct arch *a) {
  for (size_t i = 0; i < a->n_layers; i++)
    if (a->layers[i].n_trained > 0 && !a->layers[i].is_personal)
      return true;
  return false;
}

enum err arch_make_personal(const char *text, const struct contract *contract, const char *const *layers, size_t n,
                            char **out_text, char why[MAX_REASON_BYTES]) {
  struct arch *a = NULL;
  enum err e = parse(text, contract, layers, n, &a, why);
  for (size_t i = 0; i < n && !e; i++)
    e = find_called(a, layers[i], why);
  if (!e && !shares_any(a)) {
    snprintf(why, MAX_REASON_BYTES, "every layer that learns is personal, so that nothing is shared; leave one out");
    e = ERR_RANGE;
  }
  char *personal = e ? NULL : strdup(a->text);
  if (!e && !personal) {
    snprintf(why, MAX_REASON_BYTES, "%s", err_sentence(ERR_NO_MEMORY));
    e = ERR_NO_MEMORY;
  }
  arch_free(a);
  if (!e)
    *out_text = personal; /* now the caller's */
  return e;
}

void arch_free(struct arch *a) {
  free(a);
}

double arch_flops(const struct arch *a) {
  double flops = 0;
  for (size_t i = 0; i < a->n_layers; i++)
    flops += layer_flops(&a->layers[i]);
  return flops;
}
