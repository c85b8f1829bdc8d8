#include "models/formats/npy.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/fd.h"

static const char magic[] = "\x93NUMPY";
enum { MAGIC_BYTES = 6, ALIGNMENT = 64 };

/* ---- the dict literal ---- */

struct literal {
  const char *at, *end;
  char *why;
};

__attribute__((format(printf, 3, 4))) static enum err refuse(struct literal *l, enum err e, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(l->why, MAX_REASON_BYTES, format, args);
  va_end(args);
  return e;
}

static void skip_blanks(struct literal *l) {
  while (l->at < l->end && (*l->at == ' ' || *l->at == '\n' || *l->at == '\t'))
    l->at++;
}

/* Takes the character if it comes next. */
static bool take(struct literal *l, char c) {
  skip_blanks(l);
  if (l->at == l->end || *l->at != c)
    return false;
  l->at++;
  return true;
}

static bool take_word(struct literal *l, const char *word) {
  size_t n = strlen(word);
  skip_blanks(l);
  if ((size_t)(l->end - l->at) < n || memcmp(l->at, word, n) != 0)
    return false;
  l->at += n;
  return true;
}

static enum err malformed(struct literal *l) {
  return refuse(l, ERR_SYNTAX, "its head is no dict of descr, fortran_order and shape; write it by numpy.save");
}

/* A quoted text without escapes. */
static enum err take_text(struct literal *l, char *out, size_t capacity) {
  skip_blanks(l);
  if (l->at == l->end || (*l->at != '\'' && *l->at != '"'))
    return malformed(l);
  char quote = *l->at++;
  const char *end = memchr(l->at, quote, (size_t)(l->end - l->at));
  if (end == NULL || (size_t)(end - l->at) >= capacity || memchr(l->at, '\\', (size_t)(end - l->at)) != NULL ||
      memchr(l->at, '\0', (size_t)(end - l->at)) != NULL)
    return malformed(l);
  memcpy(out, l->at, (size_t)(end - l->at));
  out[end - l->at] = '\0';
  l->at = end + 1;
  return ERR_OK;
}

static enum err take_size(struct literal *l, uint64_t *out) {
  uint64_t n = 0;
  skip_blanks(l);
  if (l->at == l->end || *l->at < '0' || *l->at > '9')
    return refuse(l, ERR_SYNTAX, "its shape is no list of sizes; write it by numpy.save");
  for (; l->at < l->end && *l->at >= '0' && *l->at <= '9'; l->at++)
    if (__builtin_mul_overflow(n, 10U, &n) || __builtin_add_overflow(n, (uint64_t)(*l->at - '0'), &n))
      return refuse(l, ERR_LIMIT, "a size in its shape overflows");
  if (l->at < l->end && *l->at == 'L') /* Python 2 */
    l->at++;
  *out = n;
  return ERR_OK;
}

static const struct descr {
  const char *text;
  enum array_type type;
} descrs[] = {{"b1", ARRAY_BOOL}, {"u1", ARRAY_U8},  {"i1", ARRAY_I8},  {"u2", ARRAY_U16},
              {"i2", ARRAY_I16},  {"u4", ARRAY_U32}, {"i4", ARRAY_I32}, {"u8", ARRAY_U64},
              {"i8", ARRAY_I64},  {"f2", ARRAY_F16}, {"f4", ARRAY_F32}, {"f8", ARRAY_F64}};

enum { N_DESCRS = sizeof descrs / sizeof *descrs };

static enum err take_descr(struct literal *l, struct array *a) {
  char text[16] = "";
  if (take(l, '['))
    return refuse(l, ERR_UNSUPPORTED, "its values are records; save each field as an array of its own");
  enum err e = take_text(l, text, sizeof text);
  if (e != ERR_OK)
    return e;
  if (strcmp(text, "O") == 0 || strcmp(text, "|O") == 0)
    return refuse(l, ERR_UNSUPPORTED,
                  "its values are Python objects, which are never read; save numbers: x.astype('float32')");
  size_t i = 0;
  bool has_order = text[0] != '\0' && strchr("<>|=", text[0]) != NULL;
  while (i < N_DESCRS && strcmp(text + has_order, descrs[i].text) != 0)
    i++;
  bool is_one_byte = i < N_DESCRS && array_type_bytes(descrs[i].type) == 1;
  if (i == N_DESCRS || (!is_one_byte && text[0] != '<' && text[0] != '>'))
    return refuse(l, ERR_UNSUPPORTED,
                  "its values have the type '%.12s'; save bool, integers or floats: x.astype('float32')", text);
  a->type = descrs[i].type;
  a->is_big_endian = text[0] == '>';
  return ERR_OK;
}

static enum err take_order(struct literal *l, struct array *a) {
  a->is_fortran = take_word(l, "True");
  return a->is_fortran || take_word(l, "False") ? ERR_OK : malformed(l);
}

static enum err take_shape(struct literal *l, struct array *a) {
  bool has_comma = true;
  if (!take(l, '('))
    return malformed(l);
  while (!take(l, ')')) {
    if (!has_comma)
      return malformed(l);
    if (a->rank == ARRAY_MAX_RANK)
      return refuse(l, ERR_UNSUPPORTED, "it has more than %d dimensions", ARRAY_MAX_RANK);
    enum err e = take_size(l, &a->size[a->rank]);
    if (e != ERR_OK)
      return e;
    a->rank++;
    has_comma = take(l, ',');
  }
  return a->rank == 1 && !has_comma ? malformed(l) : ERR_OK; /* (3) is a number, (3,) a shape */
}

static const struct key {
  const char *name;
  enum err (*take)(struct literal *l, struct array *a);
} keys[] = {{"descr", take_descr}, {"fortran_order", take_order}, {"shape", take_shape}};

enum { N_KEYS = sizeof keys / sizeof *keys };

static enum err take_pair(struct literal *l, struct array *a, bool *seen) {
  char name[16] = "";
  enum err e = take_text(l, name, sizeof name);
  size_t i = 0;
  while (e == ERR_OK && i < N_KEYS && strcmp(keys[i].name, name) != 0)
    i++;
  if (e != ERR_OK || i == N_KEYS || seen[i] || !take(l, ':'))
    return malformed(l);
  seen[i] = true;
  return keys[i].take(l, a);
}

enum err npy_head_read(const char *head, size_t n, struct array *out_array, char why[MAX_REASON_BYTES]) {
  struct literal l = {.at = head, .end = head + n};
  struct array a = {0};
  bool seen[N_KEYS] = {false}, has_comma = true;
  l.why = why;
  if (!take(&l, '{'))
    return malformed(&l);
  while (!take(&l, '}')) {
    enum err e = has_comma ? take_pair(&l, &a, seen) : malformed(&l);
    if (e != ERR_OK)
      return e;
    has_comma = take(&l, ',');
  }
  skip_blanks(&l);
  for (size_t i = 0; i < N_KEYS; i++)
    if (!seen[i])
      return malformed(&l);
  if (l.at != l.end)
    return malformed(&l);
  if (array_measure(&a) != ERR_OK)
    return refuse(&l, ERR_LIMIT, "its shape has more values than can be counted");
  *out_array = a;
  return ERR_OK;
}

size_t npy_head_write(const struct array *a, uint8_t *out_bytes) {
  char text[NPY_MAX_HEAD_BYTES / 2];
  const char *descr = "f4";
  for (size_t i = 0; i < N_DESCRS; i++)
    if (descrs[i].type == a->type)
      descr = descrs[i].text;
  int n = snprintf(text, sizeof text, "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
                   array_type_bytes(a->type) == 1 ? '|' : '<', descr);
  for (uint32_t i = 0; i < a->rank; i++)
    n += snprintf(text + n, sizeof text - (size_t)n, "%s%" PRIu64 "%s", i > 0 ? " " : "", a->size[i],
                  a->rank == 1 || i + 1 < a->rank ? "," : "");
  n += snprintf(text + n, sizeof text - (size_t)n, "), }");
  size_t lead = MAGIC_BYTES + 4, whole = (lead + (size_t)n + 1 + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  memcpy(out_bytes, magic, MAGIC_BYTES);
  out_bytes[6] = 1;
  out_bytes[7] = 0;
  out_bytes[8] = (uint8_t)((whole - lead) & 0xff);
  out_bytes[9] = (uint8_t)((whole - lead) >> 8);
  memcpy(out_bytes + lead, text, (size_t)n);
  memset(out_bytes + lead + n, ' ', whole - lead - (size_t)n);
  out_bytes[whole - 1] = '\n';
  return whole;
}

/* ---- files ---- */

struct npy_file {
  int fd; /* −1: a member of the archive */
  struct archive *zip;
  char path[MAX_PATH_BYTES];
  struct array array;
  uint64_t offset; /* bytes read */
};

/* Where ".npz" or ".npz:" ends in the path; NULL: nowhere. */
static const char *archive_end(const char *path) {
  const char *found = NULL;
  for (const char *at = path; *at != '\0'; at++)
    if (strncasecmp(at, ".npz", 4) == 0 && (at[4] == '\0' || at[4] == ':'))
      found = at + 4;
  return found;
}

bool npy_is_archive(const char *path) {
  return archive_end(path) != NULL;
}

bool npy_archive_part(const char *path, char out_archive[MAX_PATH_BYTES]) {
  const char *end = archive_end(path);
  if (end == NULL)
    return false;
  memcpy(out_archive, path, (size_t)(end - path));
  out_archive[end - path] = '\0';
  return true;
}

struct data_place *npy_place(const struct npy_file *f, struct data_place *why) {
  memcpy(why->path, f->path, sizeof why->path);
  return why;
}

static enum err next_bytes(struct npy_file *f, void *out, size_t n, struct data_place *why) {
  size_t got = n;
  enum err e = f->zip != NULL ? archive_read(f->zip, out, n, why) : fd_read_full(f->fd, out, n, &got);
  f->offset += got;
  if (f->zip != NULL || (e == ERR_OK && got == n))
    return e;
  if (e != ERR_OK)
    return data_fault(npy_place(f, why), e, "reading failed after byte %" PRIu64, f->offset);
  return data_fault(npy_place(f, why), ERR_TRUNCATED,
                    "it ends at byte %" PRIu64 ", before its declared end; fetch the file again", f->offset);
}

static enum err read_head(struct npy_file *f, struct data_place *why) {
  uint8_t lead[NPY_LEAD_BYTES];
  char head[NPY_MAX_HEAD_BYTES];
  enum err e = next_bytes(f, lead, NPY_LEAD_BYTES - 2, why);
  if (e != ERR_OK)
    return e;
  if (memcmp(lead, magic, MAGIC_BYTES) != 0)
    return data_fault(npy_place(f, why), ERR_SYNTAX, "it does not begin as a NumPy array; write it by numpy.save");
  if (lead[6] < 1 || lead[6] > 3 || lead[7] != 0)
    return data_fault(npy_place(f, why), ERR_TOO_NEW, "it is of version %u.%u; 1.0 to 3.0 are read", lead[6], lead[7]);
  size_t n = (size_t)lead[8] | (size_t)lead[9] << 8;
  if (lead[6] > 1) {
    if ((e = next_bytes(f, lead + 10, 2, why)) != ERR_OK)
      return e;
    n |= (size_t)lead[10] << 16 | (size_t)lead[11] << 24;
  }
  if (n > sizeof head)
    return data_fault(npy_place(f, why), ERR_LIMIT, "its head has %zu bytes, at most %d are read", n,
                      NPY_MAX_HEAD_BYTES);
  if ((e = next_bytes(f, head, n, why)) != ERR_OK)
    return e;
  char reason[MAX_REASON_BYTES];
  e = npy_head_read(head, n, &f->array, reason);
  return e == ERR_OK ? e : data_fault(npy_place(f, why), e, "%s", reason);
}

/* Has the file, which may be an archive's member, the length that the shape says? */
static enum err check_length(const struct npy_file *f, uint64_t n_bytes, struct data_place *why) {
  char shape[ARRAY_SHAPE_TEXT_BYTES];
  uint64_t has = n_bytes - f->offset;
  array_shape_text(&f->array, shape);
  if (n_bytes < f->offset || has < f->array.n_bytes)
    return data_fault(npy_place(f, why), ERR_TRUNCATED,
                      "its shape %.120s needs %" PRIu64 " bytes, it has %" PRIu64 "; fetch the file again", shape,
                      f->array.n_bytes, n_bytes < f->offset ? 0 : has);
  if (has > f->array.n_bytes)
    return data_fault(npy_place(f, why), ERR_TRAILING,
                      "%" PRIu64 " bytes follow the %" PRIu64 " of its shape %.120s; fetch the file again",
                      has - f->array.n_bytes, f->array.n_bytes, shape);
  return ERR_OK;
}

enum err npy_head_enter(struct archive *z, const struct archive_member *m, struct array *out_array,
                        struct data_place *why) {
  struct npy_file f = {.fd = -1, .zip = z};
  memcpy(f.path, why->path, sizeof f.path);
  enum err e = read_head(&f, why);
  if (e == ERR_OK)
    e = check_length(&f, m->n_bytes, why);
  if (e == ERR_OK)
    *out_array = f.array;
  return e;
}

/* "it has no array \"x\"; it has x_train, y_train: write FILE.npz:x_train" */
static enum err say_members(const struct archive *z, const char *name, struct data_place *why) {
  char names[MAX_REASON_BYTES / 2] = "", first[32] = "";
  size_t n = 0;
  for (size_t i = 0; i < archive_members(z) && n < sizeof names - 40; i++) {
    const struct archive_member *m = archive_member(z, i);
    int n_name = m->n_name < sizeof first ? (int)m->n_name : (int)sizeof first - 1;
    n += (size_t)snprintf(names + n, sizeof names - n, "%s%.*s", i > 0 ? ", " : "", n_name, m->name);
    if (i == 0)
      snprintf(first, sizeof first, "%.*s", n_name, m->name);
  }
  return data_fault(why, ERR_NOT_FOUND, "it has no array %.40s, but %s; name one as in data.npz:%s", name, names,
                    first);
}

static enum err find_member(const struct archive *z, const char *name, size_t *out_i, struct data_place *why) {
  size_t n = strlen(name);
  for (size_t i = 0; i < archive_members(z); i++) {
    const struct archive_member *m = archive_member(z, i);
    if (strcmp(m->name, name) == 0 || (n == m->n_name && memcmp(m->name, name, n) == 0)) {
      *out_i = i;
      return ERR_OK;
    }
  }
  return say_members(z, name, why);
}

static enum err open_member(struct npy_file *f, const char *path, const char *otherwise, uint64_t *out_n_bytes,
                            struct data_place *why) {
  char archive[MAX_PATH_BYTES];
  const char *end = archive_end(path), *name = *end == ':' ? end + 1 : otherwise;
  size_t i = 0;
  (void)npy_archive_part(path, archive);
  enum err e = archive_open(archive, &f->zip, why);
  if (e == ERR_OK)
    e = find_member(f->zip, name, &i, why);
  if (e == ERR_OK)
    e = archive_enter(f->zip, i, why);
  if (e == ERR_OK)
    *out_n_bytes = archive_member(f->zip, i)->n_bytes;
  return e;
}

enum err npy_open(const char *path, const char *otherwise, struct npy_file **out_file, struct data_place *why) {
  uint64_t n_bytes = 0;
  enum err e = data_place_init(why, path);
  if (e != ERR_OK)
    return e;
  struct npy_file *f = calloc(1, sizeof *f);
  if (f == NULL)
    return data_fault(why, ERR_NO_MEMORY, "%s", err_sentence(ERR_NO_MEMORY));
  f->fd = -1;
  memcpy(f->path, why->path, sizeof f->path);
  e = npy_is_archive(path) ? open_member(f, path, otherwise, &n_bytes, why) : data_open(path, why, &f->fd, &n_bytes);
  if (e == ERR_OK)
    e = read_head(f, why);
  if (e == ERR_OK)
    e = check_length(f, n_bytes, why);
  if (e != ERR_OK) {
    npy_close(f);
    return e;
  }
  *out_file = f;
  return ERR_OK;
}

void npy_close(struct npy_file *f) {
  if (f == NULL)
    return;
  archive_close(f->zip);
  if (f->fd >= 0)
    close(f->fd);
  free(f);
}

const struct array *npy_array(const struct npy_file *f) {
  return &f->array;
}

enum err npy_read(struct npy_file *f, uint8_t *out_bytes, size_t n, struct data_place *why) {
  return next_bytes(f, out_bytes, n, why);
}

enum err npy_end(struct npy_file *f, struct data_place *why) {
  uint8_t extra;
  size_t got = 0;
  if (f->zip != NULL)
    return archive_leave(f->zip, why);
  enum err e = fd_read_full(f->fd, &extra, 1, &got);
  if (e != ERR_OK)
    return data_fault(npy_place(f, why), e, "reading failed after byte %" PRIu64, f->offset);
  return got == 0 ? ERR_OK : data_fault(npy_place(f, why), ERR_TRAILING, "it grew while it was read; try again");
}
