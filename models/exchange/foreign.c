#include "models/exchange/foreign.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "models/merging/statistic.h"
#include "models/net/arch.h"

const char *const layout_names[N_LAYOUTS + 1] = {
    [LAYOUT_TORCH] = "torch", [LAYOUT_KERAS] = "keras", [LAYOUT_STARLING] = "starling", [N_LAYOUTS] = NULL};

static enum err no_memory(char *why) {
  snprintf(why, MAX_REASON_BYTES, "%s", err_sentence(ERR_NO_MEMORY));
  return ERR_NO_MEMORY;
}

/* ---- where a tensor's values stand ---- */

/* Tensors of one rank and one kind of layer, turned: each axis of theirs is an axis of ours. */
static const struct turn {
  const char *word; /* of the layer; NULL: any */
  enum layout layout;
  uint32_t rank; /* of ours */
  uint32_t axis[MAX_RANK];
} turns[] = {
    {"depthwise", LAYOUT_KERAS, 4, {1, 2, 0, 3}},
    {"dense", LAYOUT_KERAS, 2, {1, 0}},
    {NULL, LAYOUT_TORCH, 4, {0, 3, 1, 2}},
    {NULL, LAYOUT_KERAS, 4, {1, 2, 3, 0}},
};

/* Tensors of a gru in Keras: [3][H] or [3][H][values], with the gates' axes before the last or alone. */
enum { N_GATES = 3, N_GRU_BIASES = 2 };

/* What Keras calls the parts of a layer. */
static const struct keras_part {
  const char *word, *own, *keras; /* word NULL: of any layer */
} keras_parts[] = {{"batchnorm", "weight", "gamma"},
                   {"batchnorm", "bias", "beta"},
                   {"layernorm", "weight", "gamma"},
                   {"layernorm", "bias", "beta"},
                   {"groupnorm", "weight", "gamma"},
                   {"groupnorm", "bias", "beta"},
                   {"embed", "weight", "embeddings"},
                   {"depthwise", "weight", "depthwise_kernel"},
                   {NULL, "running_mean", "moving_mean"},
                   {NULL, "running_var", "moving_variance"},
                   {NULL, "weight", "kernel"},
                   {"gru", "weight_ih_l0", "kernel"},
                   {"gru", "weight_hh_l0", "recurrent_kernel"},
                   {NULL, "bias", "bias"},
                   {"gru", "bias_ih_l0", "bias"},
                   {"gru", "bias_hh_l0", "bias"}};

enum { N_TURNS = sizeof turns / sizeof *turns, N_KERAS_PARTS = sizeof keras_parts / sizeof *keras_parts };

/* The layer that the tensor is of; every tensor of an architecture has one. */
static const struct layer *layer_of(const struct schema *s, size_t i) {
  const struct arch *a = schema_arch(s);
  const struct tensor *t = schema_tensor(s, i);
  for (size_t k = 0; k < a->n_layers; k++) {
    size_t n = strlen(a->layers[k].name);
    if (n > 0 && strncmp(t->name, a->layers[k].name, n) == 0 && t->name[n] == '.')
      return &a->layers[k];
  }
  MUST(false);
  return NULL;
}

static bool word_is(const char *word, const struct layer *l) {
  return word == NULL || strcmp(word, l->type->word) == 0;
}

static void name_place(const struct layer *l, const struct tensor *t, enum layout layout, char out[TENSOR_NAME_BYTES]) {
  const char *part = t->name + strlen(l->name) + 1;
  snprintf(out, TENSOR_NAME_BYTES, "%s", t->name);
  for (size_t i = 0; layout == LAYOUT_KERAS && i < N_KERAS_PARTS; i++)
    if (word_is(keras_parts[i].word, l) && strcmp(keras_parts[i].own, part) == 0) {
      part = keras_parts[i].keras;
      break;
    }
  if (layout == LAYOUT_KERAS)
    snprintf(out, TENSOR_NAME_BYTES, "%s/%s", l->name, part);
}

/* A dense layer that reads [H][W][C] values, which PyTorch has as [C][H][W]. */
static bool reads_image(const struct layer *l, const struct tensor *t, enum layout layout) {
  return layout == LAYOUT_TORCH && t->rank == 2 && word_is("dense", l) && l->in.channels > 1 &&
         (uint64_t)l->in.height * l->in.width > 1;
}

static void place_image(const struct layer *l, const struct tensor *t, struct foreign_place *p) {
  const uint64_t size[] = {t->shape[0], l->in.height, l->in.width, l->in.channels};
  const uint32_t axis[] = {0, 3, 1, 2};
  p->rank = 4;
  memcpy(p->size, size, sizeof size);
  memcpy(p->axis, axis, sizeof axis);
  p->foreign_rank = 2;
  p->foreign_size[0] = t->shape[0];
  p->foreign_size[1] = t->shape[1];
}

/* Gates apart, so that they are an axis of their own; both biases are one tensor there. */
static void place_gates(const struct layer *l, const struct tensor *t, struct foreign_place *p) {
  const uint64_t states = t->shape[0] / N_GATES;
  const bool is_bias = t->rank == 1;
  const uint64_t size[] = {N_GATES, states, is_bias ? 1 : t->shape[1]};
  const uint32_t axis[] = {2, 0, 1};
  p->rank = 3;
  memcpy(p->size, size, sizeof size);
  memcpy(p->axis, axis, sizeof axis);
  p->n_gate = states;
  p->part = strcmp(t->name + strlen(l->name), ".bias_hh_l0") == 0;
  p->foreign_rank = 2;
  p->foreign_size[0] = is_bias ? N_GRU_BIASES : t->shape[1];
  p->foreign_size[1] = t->shape[0];
}

/* A convolution over a series has one spatial axis there and an extent of 1 here. */
static void drop_height(struct foreign_place *p) {
  p->foreign_rank = 0;
  for (uint32_t i = 0; i < p->rank; i++)
    if (p->axis[i] != 1)
      p->foreign_size[p->foreign_rank++] = p->size[p->axis[i]];
}

void foreign_place(const struct schema *s, size_t i, enum layout layout, struct foreign_place *out_place) {
  const struct tensor *t = schema_tensor(s, i);
  const struct layer *l = layer_of(s, i);
  struct foreign_place p = {.rank = t->rank, .foreign_rank = t->rank, .n_values = t->n_values};
  const struct turn *turn = NULL;
  for (size_t k = 0; k < N_TURNS && turn == NULL; k++)
    if (turns[k].layout == layout && turns[k].rank == t->rank && word_is(turns[k].word, l))
      turn = &turns[k];
  for (uint32_t k = 0; k < t->rank; k++)
    p.size[k] = t->shape[k];
  for (uint32_t k = 0; k < t->rank; k++) {
    p.axis[k] = turn != NULL ? turn->axis[k] : k;
    p.foreign_size[k] = p.size[p.axis[k]];
  }
  if (reads_image(l, t, layout))
    place_image(l, t, &p);
  else if (layout == LAYOUT_KERAS && word_is("gru", l))
    place_gates(l, t, &p);
  else if (layout != LAYOUT_STARLING && t->rank == 4 && word_is("conv1d", l))
    drop_height(&p);
  name_place(l, t, layout, p.name);
  *out_place = p;
}

/* z, r, n of r, z, n, and back: in rows of three gates of n values. */
static void swap_gates(float *x, uint64_t n_values, uint64_t n) {
  for (float *end = x + n_values; n > 0 && x < end; x += N_GATES * n)
    for (uint64_t i = 0; i < n; i++) {
      float first = x[i];
      x[i] = x[n + i];
      x[n + i] = first;
    }
}

void foreign_write(const struct foreign_place *p, const float *own, float *out_foreign) {
  array_permute(own, p->rank, p->size, p->axis, out_foreign);
  swap_gates(out_foreign, p->n_values, p->n_gate);
}

void foreign_read(const struct foreign_place *p, const float *foreign, float *out_own) {
  uint64_t size[ARRAY_MAX_RANK];
  uint32_t axis[ARRAY_MAX_RANK];
  for (uint32_t i = 0; i < p->rank; i++) {
    size[i] = p->size[p->axis[i]];
    axis[p->axis[i]] = i;
  }
  array_permute(foreign, p->rank, size, axis, out_own);
  if (p->n_gate > 0) /* the gates come first: one row */
    swap_gates(out_own, p->n_values, p->n_values / N_GATES);
}

/* ---- names ---- */

/* "model/conv2d_1/kernel:0" is the stem "model/conv2d_1" and the part "weight". */
struct foreign_name {
  char stem[TENSOR_NAME_BYTES];
  char part[TENSOR_NAME_BYTES]; /* ours where there is such a one */
};

static void name_split(const char *name, struct foreign_name *out) {
  const char *dot = strrchr(name, '.'), *slash = strrchr(name, '/');
  const char *cut = slash == NULL || (dot != NULL && dot > slash) ? dot : slash;
  const char *part = cut == NULL ? name : cut + 1;
  snprintf(out->stem, sizeof out->stem, "%.*s", cut == NULL ? 0 : (int)(cut - name), name);
  snprintf(out->part, sizeof out->part, "%.*s", (int)strcspn(part, ":"), part);
  for (size_t i = 0; i < N_KERAS_PARTS; i++)
    if (strcmp(out->part, keras_parts[i].keras) == 0) {
      snprintf(out->part, sizeof out->part, "%s", keras_parts[i].own);
      return;
    }
}

static bool is_counter(const char *part) {
  return strcmp(part, "num_batches_tracked") == 0 || strcmp(part, "seed_generator_state") == 0;
}

/* Texts with their numbers taken as numbers: features.2 before features.10. */
static int compare_naturally(const char *a, const char *b) {
  for (; *a != '\0' && *b != '\0'; a++, b++) {
    if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
      a += strspn(a, "0");
      b += strspn(b, "0");
      size_t n_a = strspn(a, "0123456789"), n_b = strspn(b, "0123456789");
      int order = n_a != n_b ? (n_a < n_b ? -1 : 1) : memcmp(a, b, n_a);
      if (order != 0)
        return order;
      a += n_a;
      b += n_b;
    }
    if (*a != *b || *a == '\0')
      break;
  }
  return (unsigned char)*a - (unsigned char)*b;
}

enum layout layout_guess(const struct tensor_file *f) {
  const char *said = tensor_file_note(f, "layout"), *format = tensor_file_note(f, "format");
  for (size_t i = 0; said != NULL && i < N_LAYOUTS; i++)
    if (strcmp(said, layout_names[i]) == 0)
      return (enum layout)i;
  if (format != NULL && strcmp(format, "pt") == 0)
    return LAYOUT_TORCH;
  if (format != NULL && (strcmp(format, "tf") == 0 || strcmp(format, "keras") == 0))
    return LAYOUT_KERAS;
  for (size_t i = 0; i < tensor_file_n(f); i++) {
    const char *name = tensor_file_tensor(f, i)->name;
    for (size_t k = 0; k < N_KERAS_PARTS; k++) /* a bias is PyTorch's, too */
      if (strcmp(keras_parts[k].keras, "bias") != 0 && strstr(name, keras_parts[k].keras) != NULL)
        return LAYOUT_KERAS;
  }
  return LAYOUT_TORCH;
}

/* ---- the map ---- */

static bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

/* Control characters too, but no byte of a name in UTF-8. */
static bool is_space(char c) {
  return (unsigned char)c <= ' ';
}

static enum err map_line(const char *line, size_t n, size_t number, struct map_line *out, char *why) {
  size_t n_own = 0, at, end;
  while (n_own < n && !is_blank(line[n_own]))
    n_own++;
  for (at = n_own; at < n && is_blank(line[at]);)
    at++;
  for (end = at; end < n && !is_space(line[end]);)
    end++;
  size_t n_theirs = end - at;
  while (end < n && is_space(line[end]))
    end++;
  if (n_theirs == 0 || end != n || n_own >= MAX_NAME_BYTES || n_theirs >= TENSOR_NAME_BYTES ||
      memchr(line, '\0', n) != NULL) {
    snprintf(why, MAX_REASON_BYTES, "line %zu is no pair of names; write `dense1.weight features.0.weight`", number);
    return ERR_SYNTAX;
  }
  memcpy(out->own, line, n_own);
  memcpy(out->theirs, line + at, n_theirs);
  return ERR_OK;
}

enum err map_read(const char *text, size_t n_bytes, struct map_line **out_lines, size_t *out_n,
                  char why[MAX_REASON_BYTES]) {
  size_t n = 0, number = 0;
  enum err e = ERR_OK;
  struct map_line *lines = calloc(MAX_TENSORS, sizeof *lines);
  if (lines == NULL)
    return no_memory(why);
  for (const char *at = text, *end = text + n_bytes; e == ERR_OK && at < end;) {
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    const char *next = stop != NULL ? stop + 1 : end;
    size_t n_line = (size_t)((stop != NULL ? stop : end) - at);
    number++;
    while (n_line > 0 && is_blank(*at)) {
      at++;
      n_line--;
    }
    n_line -= n_line > 0 && at[n_line - 1] == '\r';
    bool is_empty = n_line == 0 || *at == '#';
    if (!is_empty && n == MAX_TENSORS) {
      snprintf(why, MAX_REASON_BYTES, "it has more than %d lines", MAX_TENSORS);
      e = ERR_LIMIT;
    } else if (!is_empty) {
      e = map_line(at, n_line, number, &lines[n++], why);
    }
    at = next;
  }
  if (e != ERR_OK) {
    free(lines);
    return e;
  }
  *out_lines = lines;
  *out_n = n;
  return ERR_OK;
}

/* ---- which belongs to which ---- */

static const char *const state_names[] = {[MATCH_TAKEN] = "matched",
                                          [MATCH_MISSING] = "missing",
                                          [MATCH_SHAPE] = "shape",
                                          [MATCH_EXTRA] = "extra",
                                          [MATCH_SKIPPED] = "skipped"};

const char *match_state_name(enum match_state state) {
  return state_names[state];
}

void match_done(struct match *m) {
  free(m->rows);
  *m = (struct match){0};
}

/* A group of the file's tensors with one stem. */
struct group {
  const char *stem;
  size_t first; /* tensor */
  bool is_used;
};

struct matching {
  const struct schema *schema;
  const struct tensor_file *file;
  size_t n_own, n_theirs, n_groups;
  struct foreign_place *places;   /* [n_own] */
  struct foreign_name *own_names; /* [n_own] of the places */
  struct foreign_name *names;     /* [n_theirs] */
  size_t *theirs;                 /* [n_own] what it was matched to; SIZE_MAX: nothing */
  bool *is_misfit;                /* [n_own] by name, not by shape */
  bool *is_used;                  /* [n_theirs] */
  struct group *groups;
};

static void matching_done(struct matching *m) {
  free(m->places);
  free(m->own_names);
  free(m->names);
  free(m->theirs);
  free(m->is_misfit);
  free(m->is_used);
  free(m->groups);
}

static enum err matching_init(struct matching *m, const struct schema *s, const struct tensor_file *f,
                              enum layout layout) {
  *m = (struct matching){.schema = s, .file = f, .n_own = schema_tensors(s), .n_theirs = tensor_file_n(f)};
  m->places = calloc(m->n_own, sizeof *m->places);
  m->own_names = calloc(m->n_own, sizeof *m->own_names);
  m->names = calloc(m->n_theirs, sizeof *m->names);
  m->theirs = calloc(m->n_own, sizeof *m->theirs);
  m->is_misfit = calloc(m->n_own, sizeof *m->is_misfit);
  m->is_used = calloc(m->n_theirs, sizeof *m->is_used);
  m->groups = calloc(m->n_theirs, sizeof *m->groups);
  if (!m->places || !m->own_names || !m->names || !m->theirs || !m->is_misfit || !m->is_used || !m->groups)
    return ERR_NO_MEMORY;
  for (size_t i = 0; i < m->n_own; i++) {
    foreign_place(s, i, layout, &m->places[i]);
    name_split(m->places[i].name, &m->own_names[i]);
    m->theirs[i] = SIZE_MAX;
  }
  for (size_t k = 0; k < m->n_theirs; k++)
    name_split(tensor_file_tensor(f, k)->name, &m->names[k]);
  return ERR_OK;
}

static bool fits(const struct matching *m, size_t own, size_t theirs) {
  const struct foreign_place *p = &m->places[own];
  const struct array *a = &tensor_file_tensor(m->file, theirs)->array;
  return a->rank == p->foreign_rank && memcmp(a->size, p->foreign_size, a->rank * sizeof *a->size) == 0;
}

static void pair(struct matching *m, size_t own, size_t theirs) {
  m->theirs[own] = theirs;
  m->is_misfit[own] = !fits(m, own, theirs);
  m->is_used[theirs] = true;
}

static size_t find_own(const struct matching *m, const char *name) {
  for (size_t i = 0; i < m->n_own; i++)
    if (strcmp(schema_tensor(m->schema, i)->name, name) == 0)
      return i;
  return SIZE_MAX;
}

static size_t find_theirs(const struct matching *m, const char *name) {
  for (size_t k = 0; k < m->n_theirs; k++)
    if (strcmp(tensor_file_tensor(m->file, k)->name, name) == 0)
      return k;
  return SIZE_MAX;
}

static enum err follow_map(struct matching *m, const struct map_line *map, size_t n_map, char *why) {
  for (size_t i = 0; i < n_map; i++) {
    size_t own = find_own(m, map[i].own), theirs = find_theirs(m, map[i].theirs);
    if (own == SIZE_MAX || theirs == SIZE_MAX) {
      snprintf(why, MAX_REASON_BYTES, "the map names %.80s, which the %s does not have",
               own == SIZE_MAX ? map[i].own : map[i].theirs, own == SIZE_MAX ? "model" : "file");
      return ERR_NOT_FOUND;
    }
    if (m->theirs[own] != SIZE_MAX || m->is_used[theirs]) {
      snprintf(why, MAX_REASON_BYTES, "the map names %.80s twice",
               m->theirs[own] != SIZE_MAX ? map[i].own : map[i].theirs);
      return ERR_EXISTS;
    }
    pair(m, own, theirs);
  }
  return ERR_OK;
}

/* Parts of one tensor go where the first does, before or after the others are matched. */
static void follow_parts(struct matching *m) {
  for (size_t i = 1; i < m->n_own; i++)
    if (m->places[i].part > 0 && m->theirs[i] == SIZE_MAX && m->theirs[i - 1] != SIZE_MAX)
      pair(m, i, m->theirs[i - 1]);
}

static void match_names(struct matching *m) {
  for (size_t i = 0; i < m->n_own; i++) {
    size_t theirs = find_theirs(m, m->places[i].name);
    if (theirs == SIZE_MAX)
      theirs = find_theirs(m, schema_tensor(m->schema, i)->name);
    if (m->theirs[i] == SIZE_MAX && theirs != SIZE_MAX && !m->is_used[theirs])
      pair(m, i, theirs);
  }
}

static int compare_groups(const void *a, const void *b) {
  return compare_naturally(((const struct group *)a)->stem, ((const struct group *)b)->stem);
}

static void make_groups(struct matching *m) {
  for (size_t k = 0; k < m->n_theirs; k++) {
    size_t g = 0;
    while (g < m->n_groups && strcmp(m->groups[g].stem, m->names[k].stem) != 0)
      g++;
    if (g == m->n_groups && !m->is_used[k] && !is_counter(m->names[k].part))
      m->groups[m->n_groups++] = (struct group){.stem = m->names[k].stem, .first = k};
  }
  if (!tensor_file_keeps_order(m->file))
    qsort(m->groups, m->n_groups, sizeof *m->groups, compare_groups);
}

/* The tensor of the group that is this part; SIZE_MAX: none. */
static size_t part_of(const struct matching *m, const struct group *g, const char *part) {
  for (size_t k = 0; k < m->n_theirs; k++)
    if (!m->is_used[k] && strcmp(m->names[k].stem, g->stem) == 0 && strcmp(m->names[k].part, part) == 0)
      return k;
  return SIZE_MAX;
}

static const char *own_part(const struct matching *m, size_t own) {
  return m->own_names[own].part;
}

/* Do the shapes of the group fit those of the layer's tensors [first, end), of which at least the first is there? */
static bool group_fits(const struct matching *m, const struct group *g, size_t first, size_t end) {
  for (size_t i = first; i < end; i++) {
    size_t k = part_of(m, g, own_part(m, i));
    if ((k == SIZE_MAX && i == first) || (k != SIZE_MAX && !fits(m, i, k)))
      return false;
  }
  return true;
}

/* Tensors of one layer follow each other in the schema: [first, …). */
static size_t layer_end(const struct matching *m, size_t first) {
  const struct layer *l = layer_of(m->schema, first);
  size_t end = first + 1;
  while (end < m->n_own && layer_of(m->schema, end) == l)
    end++;
  return end;
}

static void match_layers(struct matching *m) {
  make_groups(m);
  for (size_t first = 0, end; first < m->n_own; first = end) {
    end = layer_end(m, first);
    if (m->theirs[first] != SIZE_MAX)
      continue;
    size_t g = 0;
    while (g < m->n_groups && (m->groups[g].is_used || !group_fits(m, &m->groups[g], first, end)))
      g++;
    for (size_t i = first; g < m->n_groups && i < end; i++) {
      size_t k = part_of(m, &m->groups[g], own_part(m, i));
      if (k != SIZE_MAX && m->theirs[i] == SIZE_MAX)
        pair(m, i, k);
      m->groups[g].is_used = true;
    }
  }
}

static void add_row(struct match *out, enum match_state state, size_t own, size_t theirs) {
  out->rows[out->n++] = (struct match_row){state, own, theirs};
  out->count[state]++;
}

static enum err tell(const struct matching *m, enum layout layout, struct match *out_match) {
  struct match out = {.layout = layout, .rows = calloc(m->n_own + m->n_theirs + 1, sizeof *out.rows)};
  if (out.rows == NULL)
    return ERR_NO_MEMORY;
  for (size_t i = 0; i < m->n_own; i++)
    add_row(&out,
            m->theirs[i] == SIZE_MAX ? MATCH_MISSING
            : m->is_misfit[i]        ? MATCH_SHAPE
                                     : MATCH_TAKEN,
            i, m->theirs[i]);
  for (size_t k = 0; k < m->n_theirs; k++)
    if (!m->is_used[k])
      add_row(&out, is_counter(m->names[k].part) ? MATCH_SKIPPED : MATCH_EXTRA, SIZE_MAX, k);
  *out_match = out;
  return ERR_OK;
}

enum err match_make(const struct schema *s, const struct tensor_file *f, enum layout layout, const struct map_line *map,
                    size_t n_map, struct match *out_match, char why[MAX_REASON_BYTES]) {
  struct matching m;
  MUST(schema_arch(s) != NULL);
  enum err e = matching_init(&m, s, f, layout);
  if (e == ERR_OK)
    e = follow_map(&m, map, n_map, why);
  if (e == ERR_OK) {
    match_names(&m);
    match_layers(&m);
    follow_parts(&m);
    e = tell(&m, layout, out_match);
  }
  if (e == ERR_NO_MEMORY)
    e = no_memory(why);
  matching_done(&m);
  return e;
}

/* ---- values ---- */

static enum err read_tensor(const struct match *m, const struct match_row *row, const struct schema *s,
                            struct tensor_file *f, float *foreign, float *x, struct data_place *why) {
  const struct tensor *t = schema_tensor(s, row->own);
  struct foreign_place p;
  foreign_place(s, row->own, m->layout, &p);
  enum err e = tensor_file_read(f, row->theirs, foreign, why);
  if (e != ERR_OK)
    return e;
  foreign_read(&p, foreign + p.part * p.n_values, x + t->offset);
  size_t n_variances = statistic_is_variance(t) ? t->n_values : 0;
  for (size_t i = 0; i < n_variances; i++)
    if (x[t->offset + i] < 0)
      return data_fault(why, ERR_RANGE, "a variance in tensor %.64s is below 0; save a healthy model",
                        tensor_file_tensor(f, row->theirs)->name);
  return ERR_OK;
}

enum err match_read(const struct match *m, const struct schema *s, struct tensor_file *f, float *x,
                    struct data_place *why) {
  size_t most = 1;
  for (size_t i = 0; i < m->n; i++)
    if (m->rows[i].state == MATCH_TAKEN && tensor_file_tensor(f, m->rows[i].theirs)->array.n_values > most)
      most = (size_t)tensor_file_tensor(f, m->rows[i].theirs)->array.n_values; /* as many as ours have, which fit */
  float *foreign = malloc(most * sizeof *foreign);
  enum err e = foreign == NULL ? data_fault(why, ERR_NO_MEMORY, "%s", err_sentence(ERR_NO_MEMORY)) : ERR_OK;
  for (size_t i = 0; e == ERR_OK && i < m->n; i++)
    if (m->rows[i].state == MATCH_TAKEN)
      e = read_tensor(m, &m->rows[i], s, f, foreign, x, why);
  free(foreign);
  return e;
}
