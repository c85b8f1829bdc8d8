/* Models as other programs lay them out: how a tensor of ours stands in a file of theirs, and which belongs to which.
 *
 * Ours have the outputs first and channels last (models/net/layer.h). PyTorch has channels first, so that a dense layer
 * which follows an image reads it as [C][H][W]; Keras has the outputs last:
 *
 *                  ours                 torch               keras
 *   dense          [out][in]            [out][in]           [in][out]
 *   after an image [out][H·W·C]         [out][C·H·W]        [H·W·C][out]
 *   conv           [out][kh][kw][in]    [out][in][kh][kw]   [kh][kw][in][out]
 *   conv1d         [out][1][k][in]      [out][in][k]        [k][in][out]
 *   depthwise      [c][kh][kw][1]       [c][1][kh][kw]      [kh][kw][c][1]
 *   batchnorm      weight, bias,        the same            gamma, beta,
 *                  running_mean, …_var                      moving_mean, moving_variance
 *   gru            [3·H][in], [3·H][H] the same            kernel [in][3·H], recurrent_kernel [H][3·H],
 *                  two biases [3·H]                        one bias [2][3·H]
 *
 * The gates of a gru are r, z, n here and in PyTorch, z, r, n in Keras, whose layer is ours with `reset_after`, as it is by
 * default since 2.0; without that it has a bias [3·H], and another formula.
 * Tensors are matched by a map that people give, else by equal names, else layer by layer: the file's tensors with a common
 * stem (`features.0`) are a layer, in the order of the file where it keeps one (npz), else by their names with numbers taken
 * as numbers; each layer of ours takes the first one left whose shapes fit. Pure but for the file; one thread at a time. */
#ifndef MODELS_EXCHANGE_FOREIGN_H
#define MODELS_EXCHANGE_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "models/formats/tensor_file.h"
#include "models/schema.h"

enum layout { LAYOUT_TORCH, LAYOUT_KERAS, LAYOUT_STARLING, N_LAYOUTS };

/* "torch", "keras", "starling", NULL: by enum layout. */
extern const char *const layout_names[N_LAYOUTS + 1];

/* What the file says in its metadata (`layout`, or `format` as Hugging Face writes it), else what its names look like. */
enum layout layout_guess(const struct tensor_file *f);

/* A tensor of ours in a layout: seen as [size…], its axes turned by `axis`, it has the foreign shape. */
struct foreign_place {
  uint32_t rank;
  uint64_t size[ARRAY_MAX_RANK];
  uint32_t axis[ARRAY_MAX_RANK];
  uint64_t n_values;
  uint64_t n_gate; /* its first two gates change places, each of so many values in a row of theirs; 0: none do */
  uint32_t part;   /* > 0: values number part · n_values and on of the tensor there that the one before begins */
  uint32_t foreign_rank;
  uint64_t foreign_size[ARRAY_MAX_RANK]; /* of all parts */
  char name[TENSOR_NAME_BYTES];          /* as the other program would call it */
};

/* Of tensor i of a schema that has an architecture. */
void foreign_place(const struct schema *s, size_t i, enum layout layout, struct foreign_place *out_place);

/* Turns values of ours [n_values] into the foreign order, and back. */
void foreign_write(const struct foreign_place *p, const float *own, float *out_foreign);
void foreign_read(const struct foreign_place *p, const float *foreign, float *out_own);

enum match_state {
  MATCH_TAKEN,
  MATCH_MISSING, /* ours, and nothing in the file is it */
  MATCH_SHAPE,   /* ours and theirs by name, but the shapes differ */
  MATCH_EXTRA,   /* theirs, and nothing of ours is it */
  MATCH_SKIPPED, /* theirs, and no part of a model: a counter of batches */
  N_MATCH_STATES
};

/* "matched", "missing", "shape", "extra", "skipped". Static storage. */
const char *match_state_name(enum match_state state);

struct match_row {
  enum match_state state;
  size_t own, theirs; /* of the schema, of the file; SIZE_MAX: none */
};

/* Zero-initialise. First ours in the schema's order, then what is left of theirs in the file's. */
struct match {
  enum layout layout;
  struct match_row *rows;
  size_t n;
  size_t count[N_MATCH_STATES];
};
void match_done(struct match *m);

/* A line of a map: a tensor of ours and its name in the file. */
struct map_line {
  char own[MAX_NAME_BYTES];
  char theirs[TENSOR_NAME_BYTES];
};

enum { MAX_MAP_BYTES = 256 * 1024 };

/* The text of a map: `OURS THEIRS` a line, blank lines and those with # left out. The caller frees. ERR_SYNTAX with a
 * sentence that has the line's number; ERR_LIMIT; ERR_NO_MEMORY. */
MUST_USE enum err map_read(const char *text, size_t n_bytes, struct map_line **out_lines, size_t *out_n,
                           char why[MAX_REASON_BYTES]);

/* ERR_NOT_FOUND: a line of the map names a tensor that is not there; ERR_EXISTS: one twice; ERR_NO_MEMORY. */
MUST_USE enum err match_make(const struct schema *s, const struct tensor_file *f, enum layout layout,
                             const struct map_line *map, size_t n_map, struct match *out_match,
                             char why[MAX_REASON_BYTES]);

/* Reads the matched tensors into the model x [P]; the others of x stay. After an error x may be half-way. Errors of
 * tensor_file_read; ERR_RANGE: a running variance below 0. */
MUST_USE enum err match_read(const struct match *m, const struct schema *s, struct tensor_file *f, float *x,
                             struct data_place *why);

#endif
