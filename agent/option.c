#include "agent/option.h"

#include <float.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "agent/config.h"
#include "agent/file.h"
#include "agent/job_words.h"
#include "agent/scalar.h"
#include "base/must.h"
#include "crypto/key_text.h"
#include "models/number.h"

static const enum option_group base_groups[N_OPTION_BASES] = {
    [IN_SITE] = GROUP_SITE, [IN_PEER] = GROUP_PEER,    [IN_SITE_JOB] = GROUP_SITE_JOB,
    [IN_JOB] = GROUP_JOB,   [IN_CONTRACT] = GROUP_JOB,
};

static const char *const group_prefixes[N_OPTION_GROUPS] = {
    [GROUP_SITE] = "", [GROUP_PEER] = "peers[].", [GROUP_SITE_JOB] = "jobs[].", [GROUP_JOB] = ""};

enum option_group option_group(const struct option *o) {
  return base_groups[o->base];
}

static const char *option_prefix(const struct option *o) {
  return group_prefixes[option_group(o)];
}

void option_name(const struct option *o, char out_name[MAX_OPTION_NAME_BYTES]) {
  snprintf(out_name, MAX_OPTION_NAME_BYTES, "%s%s", option_prefix(o), o->path);
}

static void *field_of(const struct option *o, void *base) {
  return (char *)base + o->offset;
}

static const void *const_field_of(const struct option *o, const void *base) {
  return (const char *)base + o->offset;
}

/* ---- errors ------------------------------------------------------------------------------------------------------- */

__attribute__((format(printf, 6, 0))) static enum err vfail(struct option_reader *r, enum err e, const char *file,
                                                            struct place at, const char *name, const char *format,
                                                            va_list arguments) {
  char sentence[MAX_PATH_BYTES + MAX_REASON_BYTES];
  vsnprintf(sentence, sizeof sentence, format, arguments);
  if (at.line)
    snprintf(r->why, MAX_CONFIG_WHY_BYTES, "%s:%u:%u: %s%s", file, at.line, at.column, name, sentence);
  else
    snprintf(r->why, MAX_CONFIG_WHY_BYTES, "%s: %s%s", file, name, sentence);
  return e;
}

/* About a key or value of the map being read. */
__attribute__((format(printf, 4, 5))) static enum err fail_at(struct option_reader *r, enum err e, struct place at,
                                                              const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vfail(r, e, r->file, at, "", format, arguments);
  va_end(arguments);
  return e;
}

enum err option_fail(struct option_reader *r, const struct option *o, enum err e, const struct tree *otherwise,
                     const char *format, ...) {
  char name[2 * MAX_NAME_BYTES];
  const struct option_origin *origin = &r->origins[option_index(o)];
  snprintf(name, sizeof name, "%s%s: ", option_prefix(o), o->path);
  va_list arguments;
  va_start(arguments, format);
  vfail(r, e, origin->file ? origin->file : r->file, origin->file || !otherwise ? origin->place : otherwise->place,
        name, format, arguments);
  va_end(arguments);
  return e;
}

static enum err no_memory(struct option_reader *r) {
  snprintf(r->why, MAX_CONFIG_WHY_BYTES, "%s: %s", r->file, err_sentence(ERR_NO_MEMORY));
  return ERR_NO_MEMORY;
}

/* About an item of the option's list rather than the whole. */
static enum err fail_item(struct option_reader *r, const struct option *o, enum err e, const struct tree *item,
                          const char *sentence) {
  return fail_at(r, e, item->place, "%s%s: %s", option_prefix(o), o->path, sentence);
}

/* ---- scalar types ------------------------------------------------------------------------------------------------- */

/* The value must be one text that is not empty. */
static enum err need_text(struct option_reader *r, const struct option *o, const struct tree *value) {
  if (value->kind != TREE_TEXT)
    return option_fail(r, o, ERR_SYNTAX, NULL, "a %s where one value is expected; write %s",
                       value->kind == TREE_LIST ? "list" : "map", o->type->name);
  if (value->text[0] == '\0')
    return option_fail(r, o, ERR_SYNTAX, NULL, "no value; write %s or remove the line", o->type->name);
  return ERR_OK;
}

static enum err read_u64(struct option_reader *r, const struct option *o, const struct tree *value, void *base) {
  char why[MAX_REASON_BYTES];
  uint64_t number;
  enum err e = scalar_integer(value->text, (uint64_t)o->min, (uint64_t)o->max, &number, why);
  if (e)
    return option_fail(r, o, e, NULL, "%s", why);
  *(uint64_t *)field_of(o, base) = number;
  return ERR_OK;
}

static void write_u64(const struct option *o, const void *base, FILE *out) {
  uint64_t value = *(const uint64_t *)const_field_of(o, base);
  if (value > 0 || o->min <= 0) /* else not given */
    fprintf(out, "%" PRIu64, value);
}

static enum err read_u32(struct option_reader *r, const struct option *o, const struct tree *value, void *base) {
  char why[MAX_REASON_BYTES];
  uint64_t number;
  MUST(o->max <= UINT32_MAX);
  enum err e = scalar_integer(value->text, (uint64_t)o->min, (uint64_t)o->max, &number, why);
  if (e)
    return option_fail(r, o, e, NULL, "%s", why);
  *(uint32_t *)field_of(o, base) = (uint32_t)number;
  return ERR_OK;
}

static void write_u32(const struct option *o, const void *base, FILE *out) {
  uint32_t value = *(const uint32_t *)const_field_of(o, base);
  if (value > 0 || o->min <= 0) /* else not given */
    fprintf(out, "%" PRIu32, value);
}

/* Steps a round: a number, or that of the swarm. */
static enum err read_steps(struct option_reader *r, const struct option *o, const struct tree *value, void *base) {
  struct job_config *job = base;
  job->is_steps_auto = strcmp(value->text, "auto") == 0;
  return job->is_steps_auto ? ERR_OK : read_u32(r, o, value, base);
}

static void write_steps(const struct option *o, const void *base, FILE *out) {
  const struct job_config *job = base;
  if (job->is_steps_auto)
    fputs("auto", out);
  else
    write_u32(o, base, out);
}

static void write_number(double value, FILE *out) {
  char text[NUMBER_TEXT_BYTES];
  number_write(value, text);
  fputs(text, out);
}

static enum err read_f64(struct option_reader *r, const struct option *o, const struct tree *value, void *base) {
  char why[MAX_REASON_BYTES];
  enum err e = scalar_number(value->text, o->min, o->max, field_of(o, base), why);
  return e ? option_fail(r, o, e, NULL, "%s", why) : ERR_OK;
}

static void write_f64(const struct option *o, const void *base, FILE *out) {
  write_number(*(const double *)const_field_of(o, base), out);
}

static enum err read_word(struct option_reader *r, const struct option *o, const struct tree *value, void *base) {
  char why[MAX_REASON_BYTES];
  size_t index;
  enum err e = scalar_word(value->text, o->words, &index, why);
  if (e)
    return option_fail(r, o, e, NULL, "%s", why);
  unsigned number = (unsigned)index; /* every enumeration here has the representation of unsigned */
  memcpy(field_of(o, base), &number, sizeof number);
  return ERR_OK;
}

static void write_word(const struct option *o, const void *base, FILE *out) {
  unsigned number;
  memcpy(&number, const_field_of(o, base), sizeof number);
  fputs(o->words[number], out);
}

/* A word of which only one is known yet: checked, not kept. */
static enum err read_only_word(struct option_reader *r, const struct option *o, const struct tree *value, void *base) {
  (void)base;
  char why[MAX_REASON_BYTES];
  size_t index;
  enum err e = scalar_word(value->text, o->words, &index, why);
  return e ? option_fail(r, o, e, NULL, "%s", why) : ERR_OK;
}

static void write_only_word(const struct option *o, const void *base, FILE *out) {
  (void)base;
  fputs(o->words[0], out);
}

static enum err read_label(struct option_reader *r, const struct option *o, const struct tree *value, void *base) {
  char why[MAX_REASON_BYTES];
  enum err e = scalar_label(value->text, why);
  if (e)
    return option_fail(r, o, e, NULL, "%s", why);
  snprintf(field_of(o, base), MAX_NAME_BYTES, "%s", value->text);
  return ERR_OK;
}

static enum err read_name(struct option_reader *r, const struct option *o, const struct tree *value, void *base) {
  if (strlen(value->text) >= MAX_NAME_BYTES)
    return option_fail(r, o, ERR_LIMIT, NULL, "\"%.40s\"… is too long; write at most %d bytes", value->text,
                       MAX_NAME_BYTES - 1);
  snprintf(field_of(o, base), MAX_NAME_BYTES, "%s", value->text);
  return ERR_OK;
}

/* Every text in an array inside its structure. */
static void write_text(const struct option *o, const void *base, FILE *out) {
  fputs(const_field_of(o, base), out);
}

static enum err read_address(struct option_reader *r, const struct option *o, const struct tree *value, void *base) {
  char why[MAX_REASON_BYTES];
  enum err e = scalar_address(value->text, ADDRESS_DIAL, why);
  if (e)
    return option_fail(r, o, e, NULL, "%s", why);
  snprintf(field_of(o, base), MAX_ADDRESS_BYTES, "%s", value->text);
  return ERR_OK;
}

static enum err read_path(struct option_reader *r, const struct option *o, const struct tree *value, void *base) {
  if (path_join(r->folder, value->text, field_of(o, base)))
    return option_fail(r, o, ERR_LIMIT, NULL, "the path is too long; at most %d bytes", MAX_PATH_BYTES - 1);
  return ERR_OK;
}

static enum err keep_text(struct option_reader *r, const char *text, char **field) {
  char *copy = strdup(text);
  if (!copy)
    return no_memory(r);
  free(*field);
  *field = copy;
  return ERR_OK;
}

static enum err read_data_path(struct option_reader *r, const struct option *o, const struct tree *value, void *base) {
  char path[MAX_PATH_BYTES];
  if (path_join(r->folder, value->text, path))
    return option_fail(r, o, ERR_LIMIT, NULL, "the path is too long; at most %d bytes", MAX_PATH_BYTES - 1);
  return keep_text(r, path, field_of(o, base));
}

static enum err read_arch(struct option_reader *r, const struct option *o, const struct tree *value, void *base) {
  if (strlen(value->text) >= MAX_ARCH_BYTES)
    return option_fail(r, o, ERR_LIMIT, NULL, "the line is too long; at most %d bytes", MAX_ARCH_BYTES - 1);
  return keep_text(r, value->text, field_of(o, base));
}

static void write_pointed_text(const struct option *o, const void *base, FILE *out) {
  const char *text = *(char *const *)const_field_of(o, base);
  fputs(text ? text : "", out);
}

static enum err read_key(struct option_reader *r, const struct option *o, const struct tree *value, void *base) {
  enum err e = key_text_read(value->text, field_of(o, base));
  switch (e) {
  case ERR_OK:
    return ERR_OK;
  case ERR_CORRUPT:
    return option_fail(r, o, ERR_SYNTAX, NULL, "the key is mistyped; copy what `starling key show` prints there");
  case ERR_RANGE:
    return option_fail(r, o, ERR_RANGE, NULL, "no usable public key; copy what `starling key show` prints there");
  default:
    return option_fail(r, o, ERR_SYNTAX, NULL,
                       "not a public key; write its 14 groups as `starling key show` prints them");
  }
}

static void write_key(const struct option *o, const void *base, FILE *out) {
  char text[KEY_TEXT_BYTES];
  key_text_write(const_field_of(o, base), text);
  fputs(text, out);
}

static enum err read_shape(struct option_reader *r, const struct option *o, const struct tree *value, void *base) {
  struct contract *c = base;
  char why[MAX_REASON_BYTES];
  uint32_t shape[3];
  enum err e = scalar_shape(value->text, shape, why);
  if (e)
    return option_fail(r, o, e, NULL, "%s", why);
  c->height = shape[0], c->width = shape[1], c->channels = shape[2];
  return ERR_OK;
}

static void write_shape(const struct option *o, const void *base, FILE *out) {
  const struct contract *c = base;
  (void)o;
  if (c->channels)
    fprintf(out, "%" PRIu32 "x%" PRIu32 "x%" PRIu32, c->height, c->width, c->channels);
}

static enum err read_range(struct option_reader *r, const struct option *o, const struct tree *value, void *base) {
  struct contract *c = base;
  char why[MAX_REASON_BYTES];
  enum err e = scalar_range(value->text, &c->range_lo, &c->range_hi, why);
  return e ? option_fail(r, o, e, NULL, "%s", why) : ERR_OK;
}

static void write_bounds(const char *before, double lo, double hi, FILE *out) {
  if (lo < -DBL_MAX || hi > DBL_MAX)
    return;
  fputs(before, out);
  write_number(lo, out);
  fputs("..", out);
  write_number(hi, out);
}

static void write_range(const struct option *o, const void *base, FILE *out) {
  const struct contract *c = base;
  (void)o;
  write_bounds("", c->range_lo, c->range_hi, out);
}

/* "iid", "dirichlet 0.3", "shards 2", "none". */
static enum err read_split_rule(struct option_reader *r, const struct option *o, const struct tree *value, void *base) {
  struct split *split = &((struct contract *)base)->split;
  char why[MAX_REASON_BYTES], word[MAX_NAME_BYTES];
  size_t n_word = strcspn(value->text, " "), index;
  const char *amount = value->text + n_word + strspn(value->text + n_word, " ");
  snprintf(word, sizeof word, "%.*s", (int)(n_word < sizeof word ? n_word : sizeof word - 1), value->text);
  enum err e = scalar_word(word, o->words, &index, why);
  if (e)
    return option_fail(r, o, e, NULL, "%s", why);
  bool takes_amount = index == SPLIT_DIRICHLET || index == SPLIT_SHARDS;
  if (takes_amount != (amount[0] != '\0'))
    return option_fail(r, o, ERR_SYNTAX, NULL,
                       takes_amount ? "%s needs a number; write as in %s %s" : "%s takes no number", word, word,
                       index == SPLIT_DIRICHLET ? "0.3" : "2");
  uint64_t shards = 0;
  if (index == SPLIT_DIRICHLET)
    e = scalar_number(amount, 1e-3, 1e6, &split->alpha, why);
  if (index == SPLIT_SHARDS)
    e = scalar_integer(amount, 1, MAX_PARTS, &shards, why);
  if (e)
    return option_fail(r, o, e, NULL, "%s", why);
  split->shards = (uint32_t)shards;
  split->rule = (enum split_rule)index;
  return ERR_OK;
}

static void write_split_rule(const struct option *o, const void *base, FILE *out) {
  const struct split *split = &((const struct contract *)base)->split;
  fputs(o->words[split->rule], out);
  if (split->rule == SPLIT_SHARDS)
    fprintf(out, " %" PRIu32, split->shards);
  if (split->rule == SPLIT_DIRICHLET) {
    fputc(' ', out);
    write_number(split->alpha, out);
  }
}

/* ---- lists and maps ----------------------------------------------------------------------------------------------- */

static size_t count_children(const struct tree *parent) {
  size_t n = 0;
  for (const struct tree *child = parent->first; child; child = child->next)
    n++;
  return n;
}

/* A list of maps that config.c reads one by one. */
static enum err read_maps(struct option_reader *r, const struct option *o, const struct tree *value, void *base) {
  (void)base;
  if (value->kind != TREE_LIST)
    return option_fail(r, o, ERR_SYNTAX, NULL, "not a list; begin each entry with '- ' on its own line");
  for (const struct tree *item = value->first; item; item = item->next)
    if (item->kind != TREE_MAP)
      return fail_item(r, o, ERR_SYNTAX, item, "an entry without keys; write KEY: VALUE lines after '- '");
  return ERR_OK;
}

static void write_nothing(const struct option *o, const void *base, FILE *out) {
  (void)o, (void)base, (void)out;
}

static enum err read_listen(struct option_reader *r, const struct option *o, const struct tree *value, void *base) {
  struct config *c = base;
  char why[MAX_REASON_BYTES];
  const struct tree *item = value->kind == TREE_TEXT ? value : value->first; /* one address needs no list */
  size_t n = value->kind == TREE_TEXT ? 1 : count_children(value);
  if (value->kind == TREE_MAP)
    return option_fail(r, o, ERR_SYNTAX, NULL, "a map where a list is expected; write [ \"tcp://[::]:7411\" ]");
  if (n > MAX_LISTEN)
    return option_fail(r, o, ERR_LIMIT, NULL, "%zu addresses; write at most %d", n, MAX_LISTEN);
  if (n == 0)
    return ERR_OK;
  c->listen = calloc(n, sizeof *c->listen);
  if (!c->listen)
    return no_memory(r);
  for (; item; item = value->kind == TREE_TEXT ? NULL : item->next) {
    if (item->kind != TREE_TEXT)
      return fail_item(r, o, ERR_SYNTAX, item, "not an address; quote it as in \"tcp://[::]:7411\"");
    enum err e = scalar_address(item->text, ADDRESS_LISTEN, why);
    if (e)
      return fail_item(r, o, e, item, why);
    for (size_t i = 0; i < c->n_listen; i++)
      if (strcmp(c->listen[i], item->text) == 0)
        return fail_item(r, o, ERR_EXISTS, item, "the address stands here twice; remove one");
    snprintf(c->listen[c->n_listen++], sizeof *c->listen, "%s", item->text);
  }
  return ERR_OK;
}

/* Text inside a list: quoted where a YAML reader or a comparison could misread it. */
static void write_item(const char *text, bool is_first, FILE *out) {
  char why[MAX_REASON_BYTES];
  fputs(is_first ? "" : ", ", out);
  if (scalar_label(text, why) == ERR_OK) {
    fputs(text, out);
    return;
  }
  fputc('"', out);
  for (; *text; text++)
    fprintf(out, "%s%c", *text == '"' || *text == '\\' ? "\\" : "", *text);
  fputc('"', out);
}

static void write_listen(const struct option *o, const void *base, FILE *out) {
  const struct config *c = base;
  (void)o;
  fputc('[', out);
  for (size_t i = 0; i < c->n_listen; i++)
    write_item(c->listen[i], i == 0, out);
  fputc(']', out);
}

/* The value must be a list of at most max items. */
static enum err need_list(struct option_reader *r, const struct option *o, const struct tree *value, size_t max) {
  if (value->kind != TREE_LIST)
    return option_fail(r, o, ERR_SYNTAX, NULL, "not a list; write as in [ first, second ]");
  size_t n = count_children(value);
  return n <= max ? ERR_OK : option_fail(r, o, ERR_LIMIT, NULL, "%zu names; write at most %zu", n, max);
}

static const char *const name_limit = "the name is empty or longer than 63 bytes; shorten it";

static enum err read_classes(struct option_reader *r, const struct option *o, const struct tree *value, void *base) {
  enum err e = need_list(r, o, value, MAX_CLASSES);
  for (const struct tree *item = value->first; item && !e; item = item->next) {
    if (item->kind != TREE_TEXT || item->text[0] == '\0')
      return fail_item(r, o, ERR_SYNTAX, item, "not a class name; write one word or quoted text");
    e = contract_add_class(base, item->text);
    if (e)
      return fail_item(r, o, e, item, e == ERR_LIMIT ? name_limit : err_sentence(e));
  }
  return e;
}

static void write_classes(const struct option *o, const void *base, FILE *out) {
  const struct contract *c = base;
  (void)o;
  fputc('[', out);
  for (size_t i = 0; i < c->n_classes; i++)
    write_item(c->classes[i].text, i == 0, out);
  fputc(']', out);
}

/* `temp_C` or `{ name: temp_C, unit: "°C", range: -40..85 }`. */
static enum err read_feature(struct option_reader *r, const struct option *o, const struct tree *item, void *base) {
  const char *name = item->kind == TREE_TEXT ? item->text : NULL, *unit = NULL, *range = NULL;
  const struct { const char *key, **text; } parts[] = {{"name", &name}, {"unit", &unit}, {"range", &range}};
  for (const struct tree *child = item->kind == TREE_MAP ? item->first : NULL; child; child = child->next) {
    const char **to = NULL;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
      if (strcmp(child->key, parts[i].key) == 0)
        to = parts[i].text;
    if (!to || *to || child->kind != TREE_TEXT)
      return fail_at(r, ERR_SYNTAX, child->key_place,
                     "%s: a feature has one `name`, at most one `unit` and `range`; write { name: temp_C, unit: C, "
                     "range: -40..85 }",
                     o->path);
    *to = child->text;
  }
  if (!name || !name[0])
    return fail_item(r, o, ERR_SYNTAX, item, "not a feature; write its name or { name: temp_C, unit: C }");
  struct contract *c = base;
  char why[MAX_REASON_BYTES];
  enum err e = contract_add_feature(c, name, unit);
  if (e)
    return fail_item(r, o, e, item, e == ERR_LIMIT ? name_limit : err_sentence(e));
  struct feature *added = &c->features[c->n_features - 1];
  e = range ? scalar_range(range, &added->range_lo, &added->range_hi, why) : ERR_OK;
  return e ? fail_item(r, o, e, item, why) : ERR_OK;
}

static enum err read_features(struct option_reader *r, const struct option *o, const struct tree *value, void *base) {
  enum err e = need_list(r, o, value, MAX_CSV_COLUMNS);
  for (const struct tree *item = value->first; item && !e; item = item->next)
    e = read_feature(r, o, item, base);
  return e;
}

static void write_features(const struct option *o, const void *base, FILE *out) {
  const struct contract *c = base;
  (void)o;
  fputc('[', out);
  for (size_t i = 0; i < c->n_features; i++) {
    write_item(c->features[i].name, i == 0, out);
    if (c->features[i].unit[0])
      fprintf(out, " (%s)", c->features[i].unit);
    write_bounds(" ", c->features[i].range_lo, c->features[i].range_hi, out);
  }
  fputc(']', out);
}

/* One of the two halves of `scale: { mean: …, sd: … }`: a number or a list of them into out [n]. */
static enum err read_scale_half(struct option_reader *r, const struct option *o, const struct tree *half, double min,
                                double *out) {
  char why[MAX_REASON_BYTES];
  for (const struct tree *item = half->kind == TREE_LIST ? half->first : half; item;
       item = half->kind == TREE_LIST ? item->next : NULL) {
    if (item->kind != TREE_TEXT)
      return fail_item(r, o, ERR_SYNTAX, item, "not a number; write as in mean: [ 14.2, 21.5 ]");
    enum err e = scalar_number(item->text, min, 1e300, out++, why);
    if (e)
      return fail_item(r, o, e, item, why);
  }
  return ERR_OK;
}

static enum err read_scale_map(struct option_reader *r, const struct option *o, const struct tree *value,
                               struct scale *scale) {
  const struct tree *mean = NULL, *sd = NULL;
  for (const struct tree *child = value->first; child; child = child->next) {
    const struct tree **to = strcmp(child->key, "mean") == 0 ? &mean : strcmp(child->key, "sd") == 0 ? &sd : NULL;
    if (!to || *to)
      return fail_at(r, to ? ERR_EXISTS : ERR_SYNTAX, child->key_place,
                     "scale: one `mean` and one `sd` are expected; write { mean: [ … ], sd: [ … ] }");
    *to = child;
  }
  if (!mean || !sd || mean->kind == TREE_MAP || sd->kind == TREE_MAP)
    return option_fail(r, o, ERR_SYNTAX, NULL, "needs both; write { mean: [ … ], sd: [ … ] }");
  size_t n = mean->kind == TREE_LIST ? count_children(mean) : 1;
  if (n == 0 || n != (sd->kind == TREE_LIST ? count_children(sd) : 1))
    return option_fail(r, o, ERR_RANGE, NULL, "mean and sd differ in length; write one of each for every input");
  enum err e = scale_init(scale, SCALE_FIXED, n);
  if (e)
    return option_fail(r, o, e, NULL, "%s", err_sentence(e));
  e = read_scale_half(r, o, mean, -1e300, scale->mean);
  return e ? e : read_scale_half(r, o, sd, 1e-300, scale->sd);
}

static enum err read_scale(struct option_reader *r, const struct option *o, const struct tree *value, void *base) {
  struct scale *scale = &((struct contract *)base)->scale;
  if (value->kind == TREE_MAP)
    return read_scale_map(r, o, value, scale);
  if (value->kind == TREE_TEXT && strcmp(value->text, "none") == 0)
    return ERR_OK;
  for (enum scale_rule rule = SCALE_LOCAL; rule <= SCALE_POOLED; rule++)
    if (value->kind == TREE_TEXT && strcmp(value->text, scale_rule_name(rule)) == 0) {
      scale->rule = rule;
      return ERR_OK;
    }
  return option_fail(r, o, ERR_SYNTAX, NULL, "not a scaling; write none, { mean: [ … ], sd: [ … ] }, pooled or local");
}

static void write_numbers(const char *name, const double *values, size_t n, FILE *out) {
  fprintf(out, "%s: [", name);
  for (size_t i = 0; i < n; i++) {
    fputs(i ? ", " : "", out);
    write_number(values[i], out);
  }
  fputc(']', out);
}

static void write_scale(const struct option *o, const void *base, FILE *out) {
  const struct scale *scale = &((const struct contract *)base)->scale;
  (void)o;
  if (scale->rule != SCALE_FIXED) {
    fputs(scale_rule_name(scale->rule), out);
    return;
  }
  fputs("{ ", out);
  write_numbers("mean", scale->mean, scale->n, out);
  fputs(", ", out);
  write_numbers("sd", scale->sd, scale->n, out);
  fputs(" }", out);
}

static enum err read_keys(struct option_reader *r, const struct option *o, const struct tree *value, void *base) {
  struct config *c = base;
  enum err e = need_list(r, o, value, MAX_PEERS);
  size_t n = e ? 0 : count_children(value);
  if (n == 0)
    return e;
  c->accept_keys = calloc(n, sizeof *c->accept_keys);
  if (!c->accept_keys)
    return no_memory(r);
  for (const struct tree *item = value->first; item; item = item->next)
    if (item->kind != TREE_TEXT || key_text_read(item->text, &c->accept_keys[c->n_accept_keys++]))
      return fail_item(r, o, ERR_SYNTAX, item,
                       "not a public key; write its 14 groups as `starling key show` prints them");
  return ERR_OK;
}

static void write_keys(const struct option *o, const void *base, FILE *out) {
  const struct config *c = base;
  (void)o;
  fputc('[', out);
  for (size_t i = 0; i < c->n_accept_keys; i++) {
    char text[KEY_TEXT_BYTES];
    key_text_write(&c->accept_keys[i], text);
    write_item(text, i == 0, out);
  }
  fputc(']', out);
}

/* "inspection@1" */
static enum err read_init_from(struct option_reader *r, const struct option *o, const struct tree *value, void *base) {
  struct job_config *job = base;
  struct job_words words;
  char why[MAX_REASON_BYTES];
  enum err e = job_words_read(value->text, &words, why);
  if (!e && words.version == 0) {
    snprintf(why, sizeof why, "the version is missing; write as in %.60s@1", words.name);
    e = ERR_SYNTAX;
  }
  if (e)
    return option_fail(r, o, e, NULL, "%s", why);
  memcpy(job->init_name, words.name, sizeof job->init_name);
  job->init_version = words.version;
  return ERR_OK;
}

static void write_init_from(const struct option *o, const void *base, FILE *out) {
  const struct job_config *job = base;
  char text[JOB_WORDS_BYTES];
  (void)o;
  if (job->init_version == 0)
    return;
  job_words_write(job->init_name, job->init_version, text);
  fputs(text, out);
}

/* ---- the table ---------------------------------------------------------------------------------------------------- */

static const struct option_type type_u32 = {"a whole number", false, read_u32, write_u32};
static const struct option_type type_steps = {"a whole number or auto", false, read_steps, write_steps};
static const struct option_type type_u64 = {"a whole number", false, read_u64, write_u64};
static const struct option_type type_number = {"a number", false, read_f64, write_f64};
static const struct option_type type_word = {"a word", false, read_word, write_word};
static const struct option_type type_only_word = {"a word", false, read_only_word, write_only_word};
static const struct option_type type_label = {"a label", false, read_label, write_text};
static const struct option_type type_name = {"a name", false, read_name, write_text};
static const struct option_type type_path = {"a path", false, read_path, write_text};
static const struct option_type type_data_path = {"a path", false, read_data_path, write_pointed_text};
static const struct option_type type_arch = {"layers", false, read_arch, write_pointed_text};
static const struct option_type type_address = {"an address", false, read_address, write_text};
static const struct option_type type_key = {"a public key", false, read_key, write_key};
static const struct option_type type_shape = {"a shape", false, read_shape, write_shape};
static const struct option_type type_range = {"a range", false, read_range, write_range};
static const struct option_type type_split_rule = {"a split", false, read_split_rule, write_split_rule};
static const struct option_type type_maps = {"a list of maps", true, read_maps, write_nothing};
static const struct option_type type_listen = {"a list of addresses", true, read_listen, write_listen};
static const struct option_type type_classes = {"a list of names", true, read_classes, write_classes};
static const struct option_type type_features = {"a list of names", true, read_features, write_features};
static const struct option_type type_keys = {"a list of public keys", true, read_keys, write_keys};
static const struct option_type type_init_from = {"a job and its version", false, read_init_from, write_init_from};
static const struct option_type type_scale = {"a scaling", true, read_scale, write_scale};

static const char *const log_level_words[] = {"error", "warning", "info", "debug", NULL};
static const char *const metered_words[] = {"false", "true", NULL}; /* enum metered */
static const char *const log_format_words[] = {"text", "json", NULL};
static const char *const merge_rule_words[] = {"mean", NULL};
static const char *const weights_words[] = {"metropolis", "samples", NULL};
static const char *const serve_words[] = {
    [SERVE_BEST] = "best", [SERVE_LATEST] = "latest", [SERVE_PINNED] = "pinned", NULL};
static const char *const when_done_words[] = {"exit", "serve", NULL};
static const char *const shadow_words[] = {"auto", "on", "off", NULL};
static const char *const task_words[] = {"classify", "regress", NULL};
/* by enum metric; the first is never written: config.c puts the task's own there */
static const char *const metric_words[] = {"by-task", "accuracy", "r2", "auc", NULL};
static const char *const loss_words[] = {"cross-entropy", "mean-squared-error", NULL};
static const char *const split_words[] = {"none", "iid", "dirichlet", "shards", NULL};
static const char *const schedule_words[] = {"constant", "step", "cosine", NULL};
static const char *const activate_words[] = {"compare", NULL};
static const char *const codec_words[] = {"f32", "f16", NULL};

#define SITE(field) IN_SITE, offsetof(struct config, field)
#define PEER(field) IN_PEER, offsetof(struct peer_config, field)
#define SITE_JOB(field) IN_SITE_JOB, offsetof(struct site_job_config, field)
#define JOB(field) IN_JOB, offsetof(struct job_config, field)
#define CONTRACT(field) IN_CONTRACT, offsetof(struct contract, field)
#define NO_BOUNDS 0, 0, NULL
#define BOUNDS(min, max) min, max, NULL
#define ONE_OF(words) 0, 0, words

static const double max_seed = 9007199254740992; /* 2^53: exact in JSON and in a double */

const struct option option_table[] = {
    /* path, base and field, type, default, bounds, scope, sentence */
    {"swarm", SITE(swarm), &type_label, NULL, NO_BOUNDS, MUST_AGREE,
     "name of the swarm, equal on all its sites; the first `starling init` makes one"},
    {"name", SITE(name), &type_label, NULL, NO_BOUNDS, LOCAL, "what people call this agent; its key is its identity"},
    {"key_file", SITE(key_file), &type_path, "(agent.key beside this file, or in $CREDENTIALS_DIRECTORY)", NO_BOUNDS,
     LOCAL, "secret key of this agent, made by `starling key new`"},
    {"passphrase_file", SITE(passphrase_file), &type_path, "", NO_BOUNDS, LOCAL,
     "passphrase of the key file; without it a terminal is asked"},
    {"state_dir", SITE(state_dir), &type_path, "state", NO_BOUNDS, LOCAL,
     "folder of rounds and models; local file systems only"},
    {"listen", SITE(listen), &type_listen, "tcp://[::]:7411", NO_BOUNDS, LOCAL,
     "addresses where peers reach this agent; [] only dials"},
    {"peers", SITE(peers), &type_maps, "", NO_BOUNDS, LOCAL,
     "the agents to learn with; conf.d/*.yaml beside this file adds one each"},
    {"store.keep_last", SITE(keep_last), &type_u32, "3", BOUNDS(1, 1000), LOCAL,
     "newest committed models kept on disk"},
    {"store.keep_best", SITE(keep_best), &type_u32, "2", BOUNDS(0, 1000), LOCAL,
     "best models kept beside them, by the validation split's headline over three rounds"},
    {"store.max_mib", SITE(store_max_mib), &type_u32, "0", BOUNDS(0, 1 << 30), LOCAL,
     "most that the state directory may take, as if the disk ended there; 0: only the disk itself is the bound"},
    {"accept_jobs", IN_SITE, 0, &type_keys, "", NO_BOUNDS, LOCAL,
     "public keys whose proposed job files are accepted at once; others wait for `starling job accept`"},
    {"payload_max_mib", SITE(payload_max_mib), &type_u32, "64", BOUNDS(1, 65536), LOCAL,
     "memory for updates being received, of all peers together"},
    {"follow_max", SITE(follow_max), &type_u32, "12", BOUNDS(1, MAX_PEERS), LOCAL,
     "peers at most: each costs a copy of the model in memory"},
    {"wire.metered", SITE(metered), &type_word, "false", ONE_OF(metered_words), LOCAL,
     "true where bytes are paid for: 25 s instead of 1 s between two signs of life, and so 100 s until silence is "
     "noticed"},
    {"log.level", SITE(log_level), &type_word, "info", ONE_OF(log_level_words), LOCAL, "how much is logged"},
    {"log.format", SITE(log_format), &type_word, "text", ONE_OF(log_format_words), LOCAL,
     "key=value lines or JSON lines"},
    {"jobs", SITE(jobs), &type_maps, NULL, NO_BOUNDS, LOCAL,
     "what is learnt; at most 16, no two of one name and version"},

    {"name", PEER(name), &type_label, NULL, NO_BOUNDS, LOCAL, "what people here call the peer"},
    {"key", PEER(key), &type_key, NULL, NO_BOUNDS, LOCAL, "its public key, from `starling key show` there"},
    {"address", PEER(address), &type_address, "", NO_BOUNDS, LOCAL,
     "where it listens; without one it dials this agent"},

    {"job", SITE_JOB(job_path), &type_data_path, NULL, NO_BOUNDS, LOCAL, "the job file, equal on all sites"},
    {"data.train", SITE_JOB(train_path), &type_data_path, NULL, NO_BOUNDS, LOCAL,
     "training samples: CSV, or IDX images (also .gz)"},
    {"data.train_labels", SITE_JOB(train_labels), &type_data_path, "", NO_BOUNDS, LOCAL, "IDX labels of data.train"},
    {"data.test", SITE_JOB(test_path), &type_data_path, "", NO_BOUNDS, LOCAL,
     "local test samples; without them `holdout` of data.train is the test split"},
    {"data.test_labels", SITE_JOB(test_labels), &type_data_path, "", NO_BOUNDS, LOCAL, "IDX labels of data.test"},
    {"data.global_test", SITE_JOB(global_test_path), &type_data_path, "", NO_BOUNDS, LOCAL,
     "a test set that all sites share, to compare them"},
    {"data.global_test_labels", SITE_JOB(global_test_labels), &type_data_path, "", NO_BOUNDS, LOCAL,
     "IDX labels of data.global_test"},
    {"data.part", SITE_JOB(part), &type_u32, "", BOUNDS(1, MAX_PARTS), LOCAL,
     "which part of a public set is this site's; exactly when the job has a `split`"},
    {"train.seed", SITE_JOB(train_seed), &type_u64, "0", BOUNDS(0, max_seed), LOCAL,
     "seed of the order of samples and dropout"},
    {"merge.rule", IN_SITE_JOB, 0, &type_only_word, "mean", ONE_OF(merge_rule_words), LOCAL,
     "how peers' models are merged; `merge: mean` for short"},
    {"merge.weights", SITE_JOB(weights), &type_word, "metropolis", ONE_OF(weights_words), LOCAL,
     "a peer's weight by the graph, or by its number of samples"},
    {"merge.max_share", SITE_JOB(max_share), &type_number, "0.5", BOUNDS(0.01, 1), LOCAL,
     "largest weight of one peer with `weights: samples`"},
    {"round.min_peers", SITE_JOB(min_peers), &type_u32, "(1; 0 without peers)", BOUNDS(0, MAX_PEERS), LOCAL,
     "peers that must contribute for a round to get its number; never counts this agent"},
    {"round.deadline_min_s", SITE_JOB(deadline_min_s), &type_number, "1", BOUNDS(0.01, 86400), LOCAL,
     "shortest wait for peers' updates"},
    {"round.deadline_max_s", SITE_JOB(deadline_max_s), &type_number, "120", BOUNDS(0.01, 604800), LOCAL,
     "longest wait for peers' updates"},
    {"round.every_s", SITE_JOB(every_s), &type_number, "0", BOUNDS(0, 604800), LOCAL,
     "least time from the start of one training to the next"},
    {"round.alone_rounds", SITE_JOB(alone_rounds), &type_u32, "3", BOUNDS(1, 1000000), LOCAL,
     "rounds without min_peers before this agent stops training and only dials"},
    {"round.meet_s", SITE_JOB(meet_s), &type_number, "(30; 0 without peers)", BOUNDS(0, 86400), LOCAL,
     "how long a new agent waits for its peers before the first round"},
    {"round.linger_s", SITE_JOB(linger_s), &type_number, "(2 * deadline_max_s)", BOUNDS(0, 1209600), LOCAL,
     "how long a finished agent serves peers that are not"},
    {"round.staleness_max", SITE_JOB(staleness_max), &type_u32, "5", BOUNDS(0, 1000), LOCAL,
     "rounds by which a peer's model may lag and still count"},
    {"alone.shadow", SITE_JOB(shadow), &type_word, "auto", ONE_OF(shadow_words), LOCAL,
     "a model trained here alone beside the swarm's, for `compare`; auto while that takes below 10 % of a round"},
    {"serve", SITE_JOB(serve), &type_word, "best", ONE_OF(serve_words), LOCAL,
     "the model that others use: the best on the validation split, the latest, or the newest pinned one; `starling "
     "models "
     "serve` overrides it"},
    {"when_done", SITE_JOB(when_done), &type_word, "exit", ONE_OF(when_done_words), LOCAL,
     "end after the job's last round, or go on serving peers and status"},

    {"job", JOB(name), &type_label, NULL, NO_BOUNDS, MUST_AGREE, "name of the job"},
    {"version", JOB(version), &type_u32, "1", BOUNDS(1, 1000000), MUST_AGREE,
     "version of the job; another one is another job"},
    {"run_label", JOB(run_label), &type_label, "", NO_BOUNDS, MUST_AGREE, "tells runs of one job apart"},
    {"task", CONTRACT(task), &type_word, NULL, ONE_OF(task_words), MUST_AGREE, "predict a class or a number"},
    {"loss", CONTRACT(loss), &type_word, "(cross-entropy; mean-squared-error to regress)", ONE_OF(loss_words),
     MUST_AGREE, "what training minimises"},
    {"metric", CONTRACT(metric), &type_word, "(accuracy; r2 to regress)", ONE_OF(metric_words), MUST_AGREE,
     "the headline in every view; auc for two classes"},
    {"label", CONTRACT(label), &type_name, "", NO_BOUNDS, MUST_AGREE,
     "CSV column of the class or number, by name or counted from 1"},
    {"classes", CONTRACT(classes), &type_classes, "", NO_BOUNDS, MUST_AGREE, "names of the classes; the order counts"},
    {"features", CONTRACT(features), &type_features, "", NO_BOUNDS, MUST_AGREE,
     "CSV columns of the inputs, each a name or { name, unit, range }; the order counts"},
    {"input", CONTRACT(height), &type_shape, "", NO_BOUNDS, MUST_AGREE,
     "images: height x width x channels, as in 28x28x1"},
    {"range", CONTRACT(range_lo), &type_range, "", NO_BOUNDS, MUST_AGREE, "what raw inputs range over, as in 0..255"},
    {"scale", CONTRACT(scale), &type_scale, "none", NO_BOUNDS, MUST_AGREE,
     "standardisation: none, { mean, sd } with the numbers, pooled (of all sites together), or local (each site its "
     "own)"},
    {"holdout", CONTRACT(holdout), &type_number, "0.2", BOUNDS(0, 0.9), MUST_AGREE,
     "fraction of the samples kept as local test where a site names no test file"},
    {"validation", CONTRACT(validation), &type_number, "0.1", BOUNDS(0, 0.9), MUST_AGREE,
     "fraction of the samples kept apart to choose between models, never trained on and never the test; 0 = none"},
    {"holdout_by", CONTRACT(holdout_by), &type_name, "", NO_BOUNDS, MUST_AGREE,
     "CSV column, such as a patient's number, whose rows are all in one split; need not be a feature"},
    {"split.rule", CONTRACT(split), &type_split_rule, "none", ONE_OF(split_words), MUST_AGREE,
     "how a public set is divided: iid, dirichlet ALPHA or shards K"},
    {"split.n", CONTRACT(split.n_parts), &type_u32, "", BOUNDS(1, MAX_PARTS), MUST_AGREE, "into how many parts"},
    {"split.seed", CONTRACT(split.seed), &type_u64, "0", BOUNDS(0, max_seed), MUST_AGREE, "seed of the division"},
    {"init_seed", CONTRACT(init_seed), &type_u64, "0", BOUNDS(0, max_seed), MUST_AGREE, "seed of the first weights"},
    {"init.from", IN_JOB, 0, &type_init_from, "", NO_BOUNDS, MUST_AGREE,
     "start from this site's model of that job and version where names and shapes are equal, as in inspection@1"},
    {"model", JOB(arch), &type_arch, NULL, NO_BOUNDS, MUST_AGREE,
     "layers, as in dense 64, relu, dropout 0.2, dense classes"},
    {"train.epochs", JOB(train.epochs), &type_u32, "1", BOUNDS(1, 10000), ANNOUNCED,
     "passes over the local samples a round"},
    {"train.steps", JOB(train.steps), &type_steps, "", BOUNDS(1, 1000000000), ANNOUNCED,
     "training steps a round, instead of epochs; auto: as many as the swarm's median of one epoch, so that unequal "
     "sites do "
     "equal work"},
    {"train.batch", JOB(train.batch), &type_u32, "32", BOUNDS(1, MAX_BATCH), ANNOUNCED, "samples a step"},
    {"train.learning_rate", JOB(train.learning_rate), &type_number, "0.05", BOUNDS(1e-9, 1000), ANNOUNCED,
     "size of a step"},
    {"train.momentum", JOB(train.momentum), &type_number, "0.9", BOUNDS(0, 0.9999), ANNOUNCED,
     "share of the last step kept"},
    {"train.weight_decay", JOB(train.weight_decay), &type_number, "0", BOUNDS(0, 1), ANNOUNCED,
     "pull of weights towards 0"},
    {"train.schedule", JOB(train.schedule), &type_word, "constant", ONE_OF(schedule_words), ANNOUNCED,
     "learning rate over the rounds; cosine needs `count`"},
    {"train.step_rounds", JOB(train.step_rounds), &type_u32, "10", BOUNDS(1, 1000000), ANNOUNCED,
     "schedule step: rounds between two steps"},
    {"train.step_factor", JOB(train.step_factor), &type_number, "0.5", BOUNDS(1e-6, 1), ANNOUNCED,
     "schedule step: what the rate is multiplied by"},
    {"activate.ready", JOB(activate_ready), &type_u32, "", BOUNDS(1, MAX_PEERS), ANNOUNCED,
     "take over serving from the version before when so many peers have a committed round and it is not worse here"},
    {"activate.by", IN_JOB, 0, &type_only_word, "compare", ONE_OF(activate_words), ANNOUNCED,
     "not worse means: the mean of three rounds' headlines on this site's validation split"},
    {"codec", JOB(codec), &type_word, "f32", ONE_OF(codec_words), ANNOUNCED,
     "encoding of updates; f16 halves the bytes"},
    {"count", JOB(count), &type_u64, "", BOUNDS(1, 1000000000), ANNOUNCED,
     "number of the last round; without it, for ever"},
};

const size_t n_options = sizeof option_table / sizeof *option_table;
_Static_assert(sizeof option_table / sizeof *option_table <= MAX_OPTIONS, "raise MAX_OPTIONS");
_Static_assert(sizeof(enum task) == sizeof(unsigned) && sizeof(enum codec) == sizeof(unsigned), "see read_word");

/* ---- reading by the table ----------------------------------------------------------------------------------------- */

const struct option *option_find(enum option_group group, const char *path) {
  for (size_t i = 0; i < n_options; i++)
    if (option_group(&option_table[i]) == group && strcmp(option_table[i].path, path) == 0)
      return &option_table[i];
  return NULL;
}

/* Whether the path is a map of further keys. */
static bool is_section(enum option_group group, const char *path) {
  size_t n = strlen(path);
  for (size_t i = 0; i < n_options; i++)
    if (option_group(&option_table[i]) == group && strncmp(option_table[i].path, path, n) == 0 &&
        option_table[i].path[n] == '.')
      return true;
  return false;
}

static const char *last_part(const char *path) {
  const char *dot = strrchr(path, '.');
  return dot ? dot + 1 : path;
}

/* The known key that a mistyped one is nearest to, first in its own group; NULL: none is near. */
static const struct option *option_nearest(enum option_group group, const char *path) {
  const struct option *best = NULL;
  size_t best_cost = SIZE_MAX;
  for (size_t i = 0; i < n_options; i++) {
    const struct option *o = &option_table[i];
    const char *known = last_part(o->path), *typed = last_part(path);
    size_t whole = edit_distance(path, o->path), part = edit_distance(typed, known);
    size_t cost = 4 * (whole < part ? whole : part) + (whole < part ? 0 : 1) + (option_group(o) == group ? 0 : 2);
    if ((is_near(path, o->path) || is_near(typed, known)) && cost < best_cost)
      best = o, best_cost = cost;
  }
  return best;
}

static enum err fail_unknown(struct option_reader *r, enum option_group group, const struct tree *child,
                             const char *path) {
  static const char *const homes[N_OPTION_GROUPS] = {
      [GROUP_SITE] = "", [GROUP_PEER] = "", [GROUP_SITE_JOB] = "", [GROUP_JOB] = " of the job file"};
  const struct option *near = option_nearest(group, path);
  if (!near)
    return fail_at(r, ERR_SYNTAX, child->key_place,
                   "unknown key \"%.60s\"; `starling config keys` lists the known ones", path);
  return fail_at(r, ERR_SYNTAX, child->key_place, "unknown key \"%.60s\"; did you mean %s%s%s?", path,
                 option_prefix(near), near->path, option_group(near) == group ? "" : homes[option_group(near)]);
}

static enum err read_option(struct option_reader *r, const struct option *o, const struct tree *value) {
  r->origins[option_index(o)] = (struct option_origin){r->file, value->place};
  enum err e = o->type->is_list ? ERR_OK : need_text(r, o, value);
  return e ? e : o->type->read(r, o, value, r->bases[o->base]);
}

static enum err read_section(struct option_reader *r, enum option_group group, const struct tree *map,
                             const char *section);

static enum err read_child(struct option_reader *r, enum option_group group, const struct tree *child,
                           const char *path) {
  const struct option *o = option_find(group, path);
  if (o)
    return read_option(r, o, child);
  if (!is_section(group, path))
    return fail_unknown(r, group, child, path);
  if (child->kind == TREE_MAP)
    return read_section(r, group, child, path);
  char rule[MAX_REASON_BYTES];
  snprintf(rule, sizeof rule, "%s.rule", path);
  o = option_find(group, rule); /* `merge: mean` for `merge: { rule: mean }` */
  if (o && child->kind == TREE_TEXT)
    return read_option(r, o, child);
  return fail_at(r, ERR_SYNTAX, child->place, "%s%s: keys are expected here; write %s: { KEY: VALUE }",
                 group_prefixes[group], path, path);
}

static enum err read_section(struct option_reader *r, enum option_group group, const struct tree *map,
                             const char *section) {
  for (const struct tree *child = map->first; child; child = child->next) {
    char path[MAX_REASON_BYTES - 8];
    snprintf(path, sizeof path, "%.100s%s%.100s", section, section[0] ? "." : "", child->key);
    for (const struct tree *earlier = map->first; earlier != child; earlier = earlier->next)
      if (strcmp(earlier->key, child->key) == 0)
        return fail_at(r, ERR_EXISTS, child->key_place, "%s%s: the key stands in line %u already; remove one",
                       group_prefixes[group], path, earlier->key_place.line);
    enum err e = read_child(r, group, child, path);
    if (e)
      return e;
  }
  return ERR_OK;
}

enum err option_read_map(struct option_reader *r, enum option_group group, const struct tree *map) {
  if (map->kind != TREE_MAP)
    return fail_at(r, ERR_SYNTAX, map->place, "no keys; write lines of the form KEY: VALUE");
  return read_section(r, group, map, "");
}

enum err option_read_defaults(struct option_reader *r, enum option_group group, const struct tree *map) {
  for (const struct option *o = option_table; o < option_table + n_options; o++) {
    if (option_group(o) != group || option_is_given(r, o))
      continue;
    if (!o->fallback)
      return option_fail(r, o, ERR_SYNTAX, map, "is missing; write %s: %s (%s)", o->path, o->type->name, o->sentence);
    if (o->fallback[0] == '\0' || o->fallback[0] == '(')
      continue;
    char text[MAX_REASON_BYTES];
    snprintf(text, sizeof text, "%s", o->fallback);
    enum err e = o->type->read(r, o, &(struct tree){.kind = TREE_TEXT, .text = text}, r->bases[o->base]);
    if (e)
      return e;
  }
  return ERR_OK;
}

enum err option_read_variable(struct option_reader *r, const struct option *o, const char *variable, const char *text) {
  const char *file = r->file;
  char *copy = strdup(text);
  if (!copy)
    return no_memory(r);
  r->file = variable;
  enum err e = read_option(r, o, &(struct tree){.kind = TREE_TEXT, .text = copy});
  r->file = file;
  free(copy);
  return e;
}

bool option_is_given(const struct option_reader *r, const struct option *o) {
  return r->origins[option_index(o)].file != NULL;
}

void option_write(const struct option_reader *r, const struct option *o, FILE *out) {
  o->type->write(o, r->bases[o->base], out);
}
