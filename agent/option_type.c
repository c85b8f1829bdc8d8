#include "agent/option_type.h"

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
#include "models/formats/number.h"

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
enum err option_fail_at(struct option_reader *r, enum err e, struct place at, const char *format, ...) {
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

enum err option_no_memory(struct option_reader *r) {
  snprintf(r->why, MAX_CONFIG_WHY_BYTES, "%s: %s", r->file, err_sentence(ERR_NO_MEMORY));
  return ERR_NO_MEMORY;
}

/* About an item of the option's list rather than the whole. */
static enum err fail_item(struct option_reader *r, const struct option *o, enum err e, const struct tree *item,
                          const char *sentence) {
  return option_fail_at(r, e, item->place, "%s%s: %s", option_prefix(o), o->path, sentence);
}

/* ---- scalar types ------------------------------------------------------------------------------------------------- */

/* The value must be one text that is not empty. */
enum err option_need_text(struct option_reader *r, const struct option *o, const struct tree *value) {
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

/* Of sites: none, a number, or auto. */
static enum err read_groups(struct option_reader *r, const struct option *o, const struct tree *value, void *base) {
  struct cluster_settings *c = field_of(o, base);
  bool is_auto = strcmp(value->text, "auto") == 0;
  c->is_on = strcmp(value->text, "none") != 0;
  c->groups.n = 0;
  if (!c->is_on || is_auto)
    return ERR_OK;
  char why[MAX_REASON_BYTES];
  double number;
  enum err e = scalar_number(value->text, o->min, o->max, &number, why);
  if (e == ERR_OK && number == (double)(uint32_t)number)
    c->groups.n = (uint32_t)number;
  else
    return option_fail(r, o, e == ERR_OK ? ERR_RANGE : e, NULL,
                       "\"%.60s\" is no number of groups; write none, auto, or 1 to %g", value->text, o->max);
  return ERR_OK;
}

static void write_groups(const struct option *o, const void *base, FILE *out) {
  const struct cluster_settings *c = const_field_of(o, base);
  if (c->is_on && c->groups.n > 0)
    fprintf(out, "%" PRIu32, c->groups.n);
  else
    fputs(c->is_on ? "auto" : "none", out);
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

/* false, true */
static enum err read_flag(struct option_reader *r, const struct option *o, const struct tree *value, void *base) {
  char why[MAX_REASON_BYTES];
  size_t index;
  enum err e = scalar_word(value->text, o->words, &index, why);
  if (e)
    return option_fail(r, o, e, NULL, "%s", why);
  *(bool *)field_of(o, base) = index == 1;
  return ERR_OK;
}

static void write_flag(const struct option *o, const void *base, FILE *out) {
  fputs(o->words[*(const bool *)const_field_of(o, base)], out);
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
    return option_no_memory(r);
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
  char text[SHAPE_TEXT_BYTES];
  (void)o;
  if (c->channels == 0)
    return;
  scalar_shape_write((const uint32_t[]){c->height, c->width, c->channels}, text);
  fputs(text, out);
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

/* A word, and an amount behind it exactly where `examples`, by the word's index, has one: "dirichlet 0.3". The amount is
 * borrowed from the value, and "" where there is none. */
static enum err read_word_and_amount(struct option_reader *r, const struct option *o, const struct tree *value,
                                     const char *const *examples, size_t *out_index, const char **out_amount) {
  char why[MAX_REASON_BYTES], word[MAX_NAME_BYTES];
  size_t n_word = strcspn(value->text, " "), index;
  const char *amount = value->text + n_word + strspn(value->text + n_word, " ");
  snprintf(word, sizeof word, "%.*s", (int)(n_word < sizeof word ? n_word : sizeof word - 1), value->text);
  enum err e = scalar_word(word, o->words, &index, why);
  if (e)
    return option_fail(r, o, e, NULL, "%s", why);
  if (examples[index] && !amount[0])
    return option_fail(r, o, ERR_SYNTAX, NULL, "%s needs a number; write as in %s %s", word, word, examples[index]);
  if (!examples[index] && amount[0])
    return option_fail(r, o, ERR_SYNTAX, NULL, "%s takes no number", word);
  *out_index = index;
  *out_amount = amount;
  return ERR_OK;
}

/* "iid", "dirichlet 0.3", "shards 2", "none". */
static enum err read_split_rule(struct option_reader *r, const struct option *o, const struct tree *value, void *base) {
  static const char *const examples[] = {[SPLIT_DIRICHLET] = "0.3", [SPLIT_SHARDS] = "2"};
  struct split *split = &((struct contract *)base)->split;
  char why[MAX_REASON_BYTES];
  const char *amount = "";
  size_t index = 0;
  uint64_t shards = 0;
  enum err e = read_word_and_amount(r, o, value, examples, &index, &amount);
  if (e)
    return e;
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

/* "topk 0.01", "q8" */
static enum err read_codec(struct option_reader *r, const struct option *o, const struct tree *value, void *base) {
  static const char *const examples[N_CODECS] = {[CODEC_TOPK] = "0.01"};
  char why[MAX_REASON_BYTES];
  const char *amount = "";
  size_t index = 0;
  double fraction = 0;
  enum err e = read_word_and_amount(r, o, value, examples, &index, &amount);
  if (e)
    return e;
  if (index == CODEC_TOPK &&
      (e = scalar_number(amount, CODEC_MIN_FRACTION, CODEC_MAX_FRACTION, &fraction, why)) != ERR_OK)
    return option_fail(r, o, e, NULL, "%s", why);
  ((struct contract *)base)->codec = (struct codec){(enum codec_kind)index, fraction};
  return ERR_OK;
}

static void write_codec(const struct option *o, const void *base, FILE *out) {
  struct codec codec = ((const struct contract *)base)->codec;
  fputs(o->words[codec.kind], out);
  if (codec.kind == CODEC_TOPK) {
    fputc(' ', out);
    write_number(codec.fraction, out);
  }
}

/* "regular 3", "ring" */
static enum err read_topology(struct option_reader *r, const struct option *o, const struct tree *value, void *base) {
  static const char *const examples[N_GRAPH_RULES] = {[GRAPH_REGULAR] = "4", [GRAPH_RANDOM] = "2"};
  char why[MAX_REASON_BYTES];
  const char *amount = "";
  size_t index = 0;
  uint64_t k = 0;
  enum err e = read_word_and_amount(r, o, value, examples, &index, &amount);
  if (e)
    return e;
  if (graph_rule_has_number((enum graph_rule)index) && (e = scalar_integer(amount, 1, MAX_PEERS, &k, why)) != ERR_OK)
    return option_fail(r, o, e, NULL, "%s", why);
  ((struct job_config *)base)->topology = (struct job_topology){.rule = (enum graph_rule)index, .k = (uint32_t)k};
  return ERR_OK;
}

static void write_topology(const struct option *o, const void *base, FILE *out) {
  char text[MAX_TOPOLOGY_TEXT];
  (void)o;
  job_topology_write(&((const struct job_config *)base)->topology, text);
  fputs(text, out);
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
    return option_no_memory(r);
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

/* "refused", "mean", "number -1" */
static enum err read_missing_text(const char *text, struct missing *out_missing, char why[MAX_REASON_BYTES]) {
  static const char number[] = "number ";
  static const char *const words[] = {[MISSING_REFUSED] = "refused", [MISSING_MEAN] = "mean", NULL};
  size_t word;
  if (strncmp(text, number, sizeof number - 1) == 0) {
    out_missing->rule = MISSING_NUMBER;
    return scalar_number(text + sizeof number - 1, -1e30, 1e30, &out_missing->number, why);
  }
  if (scalar_word(text, words, &word, why)) {
    snprintf(why, MAX_REASON_BYTES, "\"%.40s\" is no way to treat missing values; write refused, mean or number 0",
             text);
    return ERR_SYNTAX;
  }
  *out_missing = (struct missing){.rule = word == MISSING_MEAN ? MISSING_MEAN : MISSING_REFUSED};
  return ERR_OK;
}

static void write_missing_text(const struct missing *m, FILE *out) {
  if (m->rule == MISSING_NUMBER) {
    fputs("number ", out);
    write_number(m->number, out);
    return;
  }
  fputs(m->rule == MISSING_MEAN ? "mean" : "refused", out);
}

static enum err read_missing(struct option_reader *r, const struct option *o, const struct tree *value, void *base) {
  char why[MAX_REASON_BYTES];
  enum err e = read_missing_text(value->text, field_of(o, base), why);
  return e ? option_fail(r, o, e, NULL, "%s", why) : ERR_OK;
}

static void write_missing(const struct option *o, const void *base, FILE *out) {
  write_missing_text(const_field_of(o, base), out);
}

/* What a map of a feature says; NULL where it says nothing. */
struct feature_parts {
  const struct tree *name, *unit, *range, *missing, *categories;
};

static enum err read_feature_parts(struct option_reader *r, const struct option *o, const struct tree *item,
                                   struct feature_parts *out) {
  const struct {
    const char *key;
    enum tree_kind kind;
    const struct tree **to;
  } parts[] = {{"name", TREE_TEXT, &out->name},
               {"unit", TREE_TEXT, &out->unit},
               {"range", TREE_TEXT, &out->range},
               {"missing", TREE_TEXT, &out->missing},
               {"categories", TREE_LIST, &out->categories}};
  for (const struct tree *child = item->first; child; child = child->next) {
    size_t i = 0, n = sizeof parts / sizeof *parts;
    while (i < n && strcmp(child->key, parts[i].key) != 0)
      i++;
    if (i == n || *parts[i].to || child->kind != parts[i].kind)
      return option_fail_at(
          r, ERR_SYNTAX, child->key_place,
          "%s: a feature has one `name`, at most one `unit`, `range` and `missing`, or a list of "
          "`categories`; write { name: temp_C, unit: C, range: -40..85 } or { name: line, categories: "
          "[ a, b ] }",
          o->path);
    *parts[i].to = child;
  }
  return ERR_OK;
}

static enum err read_categories(struct option_reader *r, const struct option *o, const struct tree *list,
                                struct contract *c) {
  enum err e = ERR_OK;
  for (const struct tree *item = list->first; item && !e; item = item->next) {
    if (item->kind != TREE_TEXT || item->text[0] == '\0')
      return fail_item(r, o, ERR_SYNTAX, item, "not a category; write one word or quoted text");
    e = contract_add_category(c, item->text);
    if (e)
      return fail_item(r, o, e, item,
                       e == ERR_LIMIT ? "more than 4096 categories, or longer than 63 bytes" : err_sentence(e));
  }
  if (!e && count_children(list) < 2)
    return fail_item(r, o, ERR_RANGE, list, "a feature has two categories or more; write as in [ a, b, other ]");
  return e;
}

/* `temp_C`, `{ name: temp_C, unit: "°C", range: -40..85, missing: mean }` or `{ name: line, categories: [ a, b ] }`. */
static enum err read_feature(struct option_reader *r, const struct option *o, const struct tree *item, void *base) {
  struct feature_parts parts = {.name = item->kind == TREE_TEXT ? item : NULL};
  enum err e = item->kind == TREE_MAP ? read_feature_parts(r, o, item, &parts) : ERR_OK;
  if (e)
    return e;
  if (!parts.name || !parts.name->text[0])
    return fail_item(r, o, ERR_SYNTAX, item, "not a feature; write its name or { name: temp_C, unit: C }");
  struct contract *c = base;
  char why[MAX_REASON_BYTES];
  e = contract_add_feature(c, parts.name->text, parts.unit ? parts.unit->text : NULL);
  if (e)
    return fail_item(r, o, e, item, e == ERR_LIMIT ? name_limit : err_sentence(e));
  struct feature *added = &c->features[c->n_features - 1];
  e = parts.range ? scalar_range(parts.range->text, &added->range_lo, &added->range_hi, why) : ERR_OK;
  if (e)
    return fail_item(r, o, e, parts.range, why);
  e = parts.missing ? read_missing_text(parts.missing->text, &added->missing, why) : ERR_OK;
  if (e)
    return fail_item(r, o, e, parts.missing, why);
  return parts.categories ? read_categories(r, o, parts.categories, c) : ERR_OK;
}

static enum err read_features(struct option_reader *r, const struct option *o, const struct tree *value, void *base) {
  enum err e = need_list(r, o, value, MAX_CSV_COLUMNS);
  for (const struct tree *item = value->first; item && !e; item = item->next)
    e = read_feature(r, o, item, base);
  return e;
}

static void write_own(const struct feature *f, FILE *out) {
  if (f->missing.rule != MISSING_INHERITED) {
    fputs(" missing: ", out);
    write_missing_text(&f->missing, out);
  }
  for (size_t k = 0; k < f->n_categories; k++) {
    fputs(k == 0 ? " [" : "", out);
    write_item(f->categories[k].text, k == 0, out);
  }
  fputs(f->n_categories > 0 ? "]" : "", out);
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
    write_own(&c->features[i], out);
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
      return option_fail_at(r, to ? ERR_EXISTS : ERR_SYNTAX, child->key_place,
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

/* One group of continual.tasks; which classes there are is not known yet. */
static enum err read_group_of_classes(struct option_reader *r, const struct option *o, const struct tree *group,
                                      uint32_t task, struct job_config *job) {
  if (group->kind != TREE_LIST || !group->first)
    return fail_item(r, o, ERR_SYNTAX, group, "not a task; write the names of its classes, as in [ shirt, coat ]");
  struct listed_class *grown = realloc(job->listed, (job->n_listed + count_children(group)) * sizeof *grown);
  if (!grown)
    return option_no_memory(r);
  job->listed = grown;
  for (const struct tree *item = group->first; item; item = item->next) {
    if (item->kind != TREE_TEXT || item->text[0] == '\0' || strlen(item->text) >= MAX_NAME_BYTES)
      return fail_item(r, o, ERR_SYNTAX, item, "not a class name; write one of `classes`");
    struct listed_class *listed = &job->listed[job->n_listed++];
    *listed = (struct listed_class){.task = task, .place = item->place};
    snprintf(listed->name, sizeof listed->name, "%s", item->text);
  }
  return ERR_OK;
}

/* [ [ shirt, coat ], [ boot, bag ] ] */
static enum err read_tasks(struct option_reader *r, const struct option *o, const struct tree *value, void *base) {
  if (value->kind != TREE_LIST)
    return option_fail(r, o, ERR_SYNTAX, NULL, "not a list; write groups of classes, as in [ [ a, b ], [ c, d ] ]");
  size_t n = count_children(value);
  if (n < 2 || n > MAX_TASKS)
    return option_fail(r, o, ERR_RANGE, NULL, "%zu tasks; write 2 to %d", n, MAX_TASKS);
  uint32_t task = 0;
  enum err e = ERR_OK;
  for (const struct tree *group = value->first; group && !e; group = group->next)
    e = read_group_of_classes(r, o, group, task++, base);
  return e;
}

static void write_tasks(const struct option *o, const void *base, FILE *out) {
  const struct job_config *job = base;
  (void)o;
  for (size_t i = 0; i < job->n_listed; i++) {
    bool is_first = i == 0 || job->listed[i].task != job->listed[i - 1].task;
    fputs(i == 0 ? "[[" : is_first ? "], [" : "", out);
    write_item(job->listed[i].name, is_first, out);
  }
  fputs(job->n_listed > 0 ? "]]" : "", out);
}

/* A number, or that of the part. */
static enum err read_offset(struct option_reader *r, const struct option *o, const struct tree *value, void *base) {
  struct site_job_config *job = base;
  job->is_offset_by_part = strcmp(value->text, "part") == 0;
  return job->is_offset_by_part ? ERR_OK : read_u32(r, o, value, base);
}

static void write_offset(const struct option *o, const void *base, FILE *out) {
  const struct site_job_config *job = base;
  if (job->is_offset_by_part)
    fputs("part", out);
  else
    write_u32(o, base, out);
}

/* "third", or a whole number. */
static const char third_word[] = "third";

static enum err read_byzantine(struct option_reader *r, const struct option *o, const struct tree *value, void *base) {
  char why[MAX_REASON_BYTES];
  uint64_t number;
  uint32_t *out = field_of(o, base);
  *out = RULE_A_THIRD;
  if (strcmp(value->text, third_word) == 0)
    return ERR_OK;
  enum err e = scalar_integer(value->text, (uint64_t)o->min, (uint64_t)o->max, &number, why);
  if (e)
    return option_fail(r, o, e, NULL, "%s, or third", why);
  *out = (uint32_t)number;
  return ERR_OK;
}

static void write_byzantine(const struct option *o, const void *base, FILE *out) {
  const uint32_t *number = const_field_of(o, base);
  if (*number == RULE_A_THIRD)
    fputs(third_word, out);
  else
    fprintf(out, "%" PRIu32, *number);
}

/* A word, or a number for each class. */
static enum err read_class_weights(struct option_reader *r, const struct option *o, const struct tree *value,
                                   void *base) {
  struct class_weights *weights = field_of(o, base);
  char why[MAX_REASON_BYTES];
  size_t word;
  if (value->kind == TREE_MAP)
    return option_fail(r, o, ERR_SYNTAX, NULL, "a map where a list is expected; write none, balanced or [ 1, 2.5 ]");
  if (value->kind == TREE_TEXT) {
    enum err e = scalar_word(value->text, o->words, &word, why);
    if (e)
      return option_fail(r, o, e, NULL, "%s", why);
    weights->rule = (enum class_weighting)word;
    return ERR_OK;
  }
  enum err e = need_list(r, o, value, MAX_CLASSES);
  if (e)
    return e;
  weights->rule = CLASS_WEIGHTS_GIVEN;
  weights->values = calloc(count_children(value) + 1, sizeof *weights->values);
  if (!weights->values)
    return option_no_memory(r);
  for (const struct tree *item = value->first; item; item = item->next) {
    double weight;
    if (item->kind != TREE_TEXT)
      return fail_item(r, o, ERR_SYNTAX, item, "not a number; write as in [ 1, 2.5 ]");
    e = scalar_number(item->text, 0, 1e6, &weight, why);
    if (e)
      return fail_item(r, o, e, item, why);
    weights->values[weights->n++] = (float)weight;
  }
  return ERR_OK;
}

static enum err read_layers(struct option_reader *r, const struct option *o, const struct tree *value, void *base) {
  struct layer_names *layers = field_of(o, base);
  const struct tree *item = value->kind == TREE_TEXT ? value : value->first; /* one layer needs no list */
  enum err e = value->kind == TREE_TEXT ? ERR_OK : need_list(r, o, value, MAX_PERSONAL_LAYERS);
  for (; item && !e; item = item->next) {
    size_t n = item->kind == TREE_TEXT ? strlen(item->text) : 0;
    if (n == 0 || n >= sizeof *layers->list)
      return fail_item(r, o, ERR_SYNTAX, item, "not the name of a layer; write as in [ dense2 ] or [ batchnorm ]");
    memcpy(layers->list[layers->n++], item->text, n + 1);
    if (value->kind == TREE_TEXT)
      break;
  }
  return e;
}

static void write_layers(const struct option *o, const void *base, FILE *out) {
  const struct layer_names *layers = const_field_of(o, base);
  fputc('[', out);
  for (size_t i = 0; i < layers->n; i++)
    write_item(layers->list[i], i == 0, out);
  fputc(']', out);
}

static void write_class_weights(const struct option *o, const void *base, FILE *out) {
  const struct class_weights *weights = const_field_of(o, base);
  if (weights->rule != CLASS_WEIGHTS_GIVEN) {
    fputs(o->words[weights->rule], out);
    return;
  }
  fputc('[', out);
  for (size_t i = 0; i < weights->n; i++) {
    fputs(i ? ", " : "", out);
    write_number((double)weights->values[i], out);
  }
  fputc(']', out);
}

static enum err read_keys(struct option_reader *r, const struct option *o, const struct tree *value, void *base) {
  struct config *c = base;
  enum err e = need_list(r, o, value, MAX_PEERS);
  size_t n = e ? 0 : count_children(value);
  if (n == 0)
    return e;
  c->accept_keys = calloc(n, sizeof *c->accept_keys);
  if (!c->accept_keys)
    return option_no_memory(r);
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

/* ---- the types ---------------------------------------------------------------------------------------------------- */

const struct option_type type_u32 = {"a whole number", false, read_u32, write_u32};
const struct option_type type_steps = {"a whole number or auto", false, read_steps, write_steps};
const struct option_type type_groups = {"a number of groups, auto or none", false, read_groups, write_groups};
const struct option_type type_u64 = {"a whole number", false, read_u64, write_u64};
const struct option_type type_number = {"a number", false, read_f64, write_f64};
const struct option_type type_word = {"a word", false, read_word, write_word};
const struct option_type type_flag = {"false or true", false, read_flag, write_flag};
const struct option_type type_only_word = {"a word", false, read_only_word, write_only_word};
const struct option_type type_label = {"a label", false, read_label, write_text};
const struct option_type type_name = {"a name", false, read_name, write_text};
const struct option_type type_path = {"a path", false, read_path, write_text};
const struct option_type type_data_path = {"a path", false, read_data_path, write_pointed_text};
const struct option_type type_arch = {"layers", false, read_arch, write_pointed_text};
const struct option_type type_address = {"an address", false, read_address, write_text};
const struct option_type type_key = {"a public key", false, read_key, write_key};
const struct option_type type_shape = {"a shape", false, read_shape, write_shape};
const struct option_type type_range = {"a range", false, read_range, write_range};
const struct option_type type_split_rule = {"a split", false, read_split_rule, write_split_rule};
const struct option_type type_codec = {"an encoding", false, read_codec, write_codec};
const struct option_type type_maps = {"a list of maps", true, read_maps, write_nothing};
const struct option_type type_listen = {"a list of addresses", true, read_listen, write_listen};
const struct option_type type_classes = {"a list of names", true, read_classes, write_classes};
const struct option_type type_features = {"a list of names", true, read_features, write_features};
const struct option_type type_missing = {"a word, or number and a number", false, read_missing, write_missing};
const struct option_type type_keys = {"a list of public keys", true, read_keys, write_keys};
const struct option_type type_init_from = {"a job and its version", false, read_init_from, write_init_from};
const struct option_type type_topology = {"a topology", false, read_topology, write_topology};
const struct option_type type_scale = {"a scaling", true, read_scale, write_scale};
const struct option_type type_layers = {"a list of layers", true, read_layers, write_layers};
const struct option_type type_byzantine = {"third or a whole number", false, read_byzantine, write_byzantine};
const struct option_type type_class_weights = {"a word or a list of numbers", true, read_class_weights,
                                               write_class_weights};
const struct option_type type_tasks = {"a list of lists of classes", true, read_tasks, write_tasks};
const struct option_type type_offset = {"a whole number or part", false, read_offset, write_offset};
