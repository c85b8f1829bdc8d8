#include "models/formats/tensor_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/fd.h"
#include "base/must.h"
#include "models/formats/archive.h"
#include "models/formats/new_file.h"
#include "models/formats/npy.h"
#include "models/formats/safetensors.h"

struct tensor_file {
  const struct format *format;
  char path[MAX_PATH_BYTES];
  struct safetensors_head head; /* of an archive the tensors alone */
  int fd;                       /* safetensors; −1 */
  struct archive *zip;
};

struct format {
  const char *ending;
  enum err (*open)(struct tensor_file *f, struct data_place *why);
  enum err (*begin)(struct tensor_file *f, size_t i, struct data_place *why);
  enum err (*next)(struct tensor_file *f, uint8_t *out, size_t n, struct data_place *why);
  enum err (*end)(struct tensor_file *f, struct data_place *why);
  enum err (*write)(const char *path, const struct tensor_out *tensors, size_t n, const struct tensor_note *notes,
                    size_t n_notes);
};

static struct data_place *place(const struct tensor_file *f, struct data_place *why) {
  memcpy(why->path, f->path, sizeof why->path);
  return why;
}

static enum err no_memory(const struct tensor_file *f, struct data_place *why) {
  return data_fault(place(f, why), ERR_NO_MEMORY, "%s", err_sentence(ERR_NO_MEMORY));
}

/* ---- safetensors ---- */

static enum err short_read(const struct tensor_file *f, enum err e, struct data_place *why) {
  if (e != ERR_OK)
    return data_fault(place(f, why), e, "reading failed: %s", err_sentence(e));
  return data_fault(place(f, why), ERR_TRUNCATED, "it ends before its declared end; fetch the file again");
}

static enum err safetensors_next(struct tensor_file *f, uint8_t *out, size_t n, struct data_place *why) {
  size_t got = 0;
  enum err e = fd_read_full(f->fd, out, n, &got);
  return e == ERR_OK && got == n ? ERR_OK : short_read(f, e, why);
}

static enum err read_head(struct tensor_file *f, uint64_t n_head, uint64_t n_data, struct data_place *why) {
  char reason[MAX_REASON_BYTES];
  char *text = malloc((size_t)n_head + 1);
  if (text == NULL)
    return no_memory(f, why);
  enum err e = safetensors_next(f, (uint8_t *)text, (size_t)n_head, why);
  if (e == ERR_OK && (e = safetensors_head_read(text, (size_t)n_head, n_data, &f->head, reason)) != ERR_OK)
    e = data_fault(place(f, why), e, "%s", reason);
  for (size_t i = 0; e == ERR_OK && i < f->head.n; i++)
    f->head.tensors[i].offset += SAFETENSORS_LEAD_BYTES + n_head;
  free(text);
  return e;
}

static enum err safetensors_open(struct tensor_file *f, struct data_place *why) {
  uint64_t n_bytes;
  uint8_t lead[SAFETENSORS_LEAD_BYTES];
  struct cursor c;
  enum err e = data_open(f->path, why, &f->fd, &n_bytes);
  if (e == ERR_OK)
    e = safetensors_next(f, lead, sizeof lead, why);
  if (e != ERR_OK)
    return e;
  cursor_init(&c, lead, sizeof lead);
  uint64_t n_head = cursor_u64(&c);
  if (n_head > SAFETENSORS_MAX_HEAD_BYTES)
    return data_fault(why, ERR_LIMIT, "its head has %" PRIu64 " bytes, at most %d are read; is it a safetensors file?",
                      n_head, SAFETENSORS_MAX_HEAD_BYTES);
  if (n_head > n_bytes - sizeof lead)
    return data_fault(why, ERR_TRUNCATED, "its head has %" PRIu64 " bytes, the file %" PRIu64 "; fetch it again",
                      n_head, n_bytes);
  return read_head(f, n_head, n_bytes - sizeof lead - n_head, why);
}

static enum err safetensors_begin(struct tensor_file *f, size_t i, struct data_place *why) {
  off_t offset = (off_t)f->head.tensors[i].offset;
  return lseek(f->fd, offset, SEEK_SET) == offset ? ERR_OK : short_read(f, ERR_IO, why);
}

static enum err safetensors_end(struct tensor_file *f, struct data_place *why) {
  (void)f;
  (void)why;
  return ERR_OK;
}

static enum err write_floats(int fd, const float *values, uint64_t n) {
  enum { AT_ONCE = 16384 };
  uint8_t bytes[4 * AT_ONCE];
  enum err e = ERR_OK;
  for (uint64_t done = 0; e == ERR_OK && done < n;) {
    size_t now = (size_t)(n - done < AT_ONCE ? n - done : AT_ONCE);
    struct writer w;
    writer_init(&w, bytes, sizeof bytes);
    for (size_t i = 0; i < now; i++)
      writer_f32(&w, values[done + i]);
    e = fd_write_all(fd, bytes, 4 * now);
    done += now;
  }
  return e;
}

static uint64_t count_values(const struct tensor_out *t) {
  uint64_t n = 1;
  for (uint32_t i = 0; i < t->rank; i++)
    n *= t->size[i]; /* of a schema: ≤ MAX_PARAMETERS */
  return n;
}

static enum err safetensors_write(const char *path, const struct tensor_out *tensors, size_t n,
                                  const struct tensor_note *notes, size_t n_notes) {
  uint8_t lead[SAFETENSORS_LEAD_BYTES];
  struct writer w;
  char *head = safetensors_head_write(tensors, n, notes, n_notes);
  if (head == NULL)
    return ERR_NO_MEMORY;
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  enum err e = fd < 0 ? err_from_errno(errno) : ERR_OK;
  writer_init(&w, lead, sizeof lead);
  writer_u64(&w, strlen(head));
  if (e == ERR_OK)
    e = fd_write_all(fd, lead, sizeof lead);
  if (e == ERR_OK)
    e = fd_write_all(fd, head, strlen(head));
  for (size_t i = 0; e == ERR_OK && i < n; i++)
    e = write_floats(fd, tensors[i].values, count_values(&tensors[i]));
  if (fd >= 0 && close(fd) != 0 && e == ERR_OK)
    e = err_from_errno(errno);
  free(head);
  return e;
}

/* ---- archives ---- */

static enum err add_member(struct tensor_file *f, size_t i, struct data_place *why) {
  const struct archive_member *m = archive_member(f->zip, i);
  struct stored_tensor *t = &f->head.tensors[f->head.n];
  memcpy(t->name, m->name, m->n_name);
  enum err e = archive_enter(f->zip, i, why);
  if (e == ERR_OK)
    e = npy_head_enter(f->zip, m, &t->array, place(f, why));
  if (e == ERR_OK)
    f->head.n++;
  return e;
}

_Static_assert((int)ARCHIVE_NAME_BYTES <= (int)TENSOR_NAME_BYTES, "a member's name is a tensor's");

static enum err npz_open(struct tensor_file *f, struct data_place *why) {
  enum err e = archive_open(f->path, &f->zip, why);
  if (e != ERR_OK)
    return e;
  f->head.tensors = calloc(archive_members(f->zip), sizeof *f->head.tensors);
  if (f->head.tensors == NULL)
    return no_memory(f, why);
  for (size_t i = 0; e == ERR_OK && i < archive_members(f->zip); i++)
    e = add_member(f, i, why);
  return e;
}

static enum err npz_begin(struct tensor_file *f, size_t i, struct data_place *why) {
  struct array again;
  enum err e = archive_enter(f->zip, i, why);
  return e == ERR_OK ? npy_head_enter(f->zip, archive_member(f->zip, i), &again, place(f, why)) : e;
}

static enum err npz_next(struct tensor_file *f, uint8_t *out, size_t n, struct data_place *why) {
  return archive_read(f->zip, out, n, why);
}

static enum err npz_end(struct tensor_file *f, struct data_place *why) {
  return archive_leave(f->zip, why);
}

/* A member's bytes: the head and the values. */
static enum err make_member(const struct tensor_out *t, uint8_t **out_bytes, size_t *out_n) {
  struct array a = {.type = ARRAY_F32, .rank = t->rank};
  uint8_t head[NPY_MAX_HEAD_BYTES];
  uint64_t n = count_values(t);
  struct writer w;
  memcpy(a.size, t->size, sizeof a.size);
  size_t n_head = npy_head_write(&a, head), n_bytes = n_head + 4 * (size_t)n;
  uint8_t *bytes = malloc(n_bytes);
  if (bytes == NULL)
    return ERR_NO_MEMORY;
  writer_init(&w, bytes, n_bytes);
  writer_bytes(&w, head, n_head);
  for (uint64_t i = 0; i < n; i++)
    writer_f32(&w, t->values[i]);
  *out_bytes = bytes;
  *out_n = n_bytes;
  return writer_end(&w);
}

static enum err npz_write(const char *path, const struct tensor_out *tensors, size_t n, const struct tensor_note *notes,
                          size_t n_notes) {
  struct archive_writer *w = NULL;
  char name[TENSOR_NAME_BYTES + 8];
  uint8_t **members = calloc(n + 1, sizeof *members);
  (void)notes;
  (void)n_notes;
  enum err e = members == NULL ? ERR_NO_MEMORY : archive_create(path, &w);
  for (size_t i = 0; e == ERR_OK && i < n; i++) {
    size_t n_bytes = 0;
    snprintf(name, sizeof name, "%s.npy", tensors[i].name);
    if ((e = make_member(&tensors[i], &members[i], &n_bytes)) == ERR_OK)
      e = archive_add(w, name, members[i], n_bytes);
  }
  enum err end = w != NULL ? archive_finish(w) : e;
  for (size_t i = 0; members != NULL && i < n; i++)
    free(members[i]);
  free(members);
  return e == ERR_OK ? end : e;
}

/* ---- the table ---- */

static const struct format formats[N_TENSOR_FORMATS] = {
    [TENSORS_SAFETENSORS] = {".safetensors", safetensors_open, safetensors_begin, safetensors_next, safetensors_end,
                             safetensors_write},
    [TENSORS_NPZ] = {".npz", npz_open, npz_begin, npz_next, npz_end, npz_write}};

static const char torch_recipe[] =
    "convert it where it comes from:\n"
    "  import torch, numpy; s = torch.load(FILE, map_location='cpu', weights_only=True)\n"
    "  numpy.savez('model.npz', **{k: v.numpy() for k, v in s.items()})";
static const char keras_recipe[] = "convert it where it comes from:\n"
                                   "  import keras, numpy; m = keras.models.load_model(FILE)\n"
                                   "  numpy.savez('model.npz', **{w.path: w.numpy() for w in m.weights})";

static const struct recipe {
  const char *ending, *what, *text;
} recipes[] = {{".pt", "PyTorch", torch_recipe},  {".pth", "PyTorch", torch_recipe}, {".ckpt", "PyTorch", torch_recipe},
               {".bin", "PyTorch", torch_recipe}, {".pkl", "Python", torch_recipe},  {".h5", "Keras", keras_recipe},
               {".hdf5", "Keras", keras_recipe},  {".keras", "Keras", keras_recipe}};

static bool ends_in(const char *path, const char *ending) {
  size_t n = strlen(path), n_ending = strlen(ending);
  return n >= n_ending && strcasecmp(path + n - n_ending, ending) == 0;
}

static const struct format *format_of(const char *path) {
  for (size_t i = 0; i < N_TENSOR_FORMATS; i++)
    if (ends_in(path, formats[i].ending))
      return &formats[i];
  return NULL;
}

static const struct recipe *recipe_of(const char *path) {
  for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++)
    if (ends_in(path, recipes[i].ending))
      return &recipes[i];
  return NULL;
}

const char *tensor_file_recipe(const char *path) {
  const struct recipe *r = recipe_of(path);
  return r != NULL ? r->text : NULL;
}

static enum err refuse_format(const char *path, struct data_place *why) {
  const struct recipe *r = recipe_of(path);
  if (r != NULL)
    return data_fault(why, ERR_UNSUPPORTED, "a file of %s's own, which can hold programs, is never opened", r->what);
  return data_fault(why, ERR_UNSUPPORTED, "its name says no format that is read; name a .safetensors or .npz file");
}

enum err tensor_file_open(const char *path, struct tensor_file **out_file, struct data_place *why) {
  const struct format *format = format_of(path);
  enum err e = data_place_init(why, path);
  if (e == ERR_OK && format == NULL)
    e = refuse_format(path, why);
  if (e != ERR_OK)
    return e;
  struct tensor_file *f = calloc(1, sizeof *f);
  if (f == NULL)
    return data_fault(why, ERR_NO_MEMORY, "%s", err_sentence(ERR_NO_MEMORY));
  *f = (struct tensor_file){.format = format, .fd = -1};
  memcpy(f->path, why->path, sizeof f->path);
  if ((e = format->open(f, why)) != ERR_OK) {
    tensor_file_close(f);
    return e;
  }
  *out_file = f;
  return ERR_OK;
}

void tensor_file_close(struct tensor_file *f) {
  if (f == NULL)
    return;
  safetensors_head_done(&f->head);
  archive_close(f->zip);
  if (f->fd >= 0)
    close(f->fd);
  free(f);
}

size_t tensor_file_n(const struct tensor_file *f) {
  return f->head.n;
}

const struct stored_tensor *tensor_file_tensor(const struct tensor_file *f, size_t i) {
  MUST(i < f->head.n);
  return &f->head.tensors[i];
}

bool tensor_file_keeps_order(const struct tensor_file *f) {
  return f->zip != NULL;
}

const char *tensor_file_note(const struct tensor_file *f, const char *key) {
  for (size_t i = 0; i < f->head.n_notes; i++)
    if (strcmp(f->head.notes[i].key, key) == 0)
      return f->head.notes[i].text;
  return NULL;
}

/* ---- values ---- */

static enum err read_values(struct tensor_file *f, const struct stored_tensor *t, float *out, struct data_place *why) {
  enum { AT_ONCE = 65536 };
  uint8_t bytes[AT_ONCE];
  size_t n_bytes = array_type_bytes(t->array.type), n_most = AT_ONCE / n_bytes;
  for (uint64_t done = 0, n = t->array.n_values; done < n;) {
    size_t now = (size_t)(n - done < n_most ? n - done : n_most);
    enum err e = f->format->next(f, bytes, now * n_bytes, why);
    if (e != ERR_OK)
      return e;
    array_floats(&t->array, bytes, now, out + done);
    for (size_t i = 0; i < now; i++)
      if (!isfinite(out[done + i]))
        return data_fault(place(f, why), ERR_NON_FINITE,
                          "value %" PRIu64 " of tensor %.64s is NaN, infinite or too large; save a healthy model",
                          done + i, t->name);
    done += now;
  }
  return f->format->end(f, why);
}

/* An array in Fortran order is the one with its indices reversed in C order. */
static enum err turn(const struct tensor_file *f, const struct array *a, float *values, struct data_place *why) {
  uint64_t size[ARRAY_MAX_RANK];
  uint32_t axis[ARRAY_MAX_RANK];
  float *read = malloc((size_t)a->n_values * sizeof *read);
  if (read == NULL)
    return no_memory(f, why);
  memcpy(read, values, (size_t)a->n_values * sizeof *read);
  for (uint32_t i = 0; i < a->rank; i++) {
    size[i] = a->size[a->rank - 1 - i];
    axis[i] = a->rank - 1 - i;
  }
  array_permute(read, a->rank, size, axis, values);
  free(read);
  return ERR_OK;
}

enum err tensor_file_read(struct tensor_file *f, size_t i, float *out_values, struct data_place *why) {
  const struct stored_tensor *t = tensor_file_tensor(f, i);
  MUST(t->array.n_values <= MAX_PARAMETERS);
  enum err e = f->format->begin(f, i, why);
  if (e == ERR_OK)
    e = read_values(f, t, out_values, why);
  return e == ERR_OK && t->array.is_fortran && t->array.rank > 1 ? turn(f, &t->array, out_values, why) : e;
}

/* ---- writing ---- */

struct writing {
  enum tensor_format format;
  const struct tensor_out *tensors;
  size_t n;
  const struct tensor_note *notes;
  size_t n_notes;
};

static enum err write_format(const void *context, const char *path) {
  const struct writing *w = context;
  return formats[w->format].write(path, w->tensors, w->n, w->notes, w->n_notes);
}

enum err tensor_file_write(const char *path, enum tensor_format format, const struct tensor_out *tensors, size_t n,
                           const struct tensor_note *notes, size_t n_notes) {
  const struct writing w = {format, tensors, n, notes, n_notes};
  MUST((size_t)format < N_TENSOR_FORMATS);
  return new_file_write(path, write_format, &w);
}
