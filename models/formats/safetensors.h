/* The head of a safetensors file: JSON of {"name": {"dtype", "shape", "data_offsets"}, …, "__metadata__": {text: text}}.
 * Room-internal. The only file of this room that knows jansson: the head is foreign JSON, and floats stay in this room.
 * Source: huggingface/safetensors, README, "Format". Pure. */
#ifndef MODELS_FORMATS_SAFETENSORS_H
#define MODELS_FORMATS_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "models/formats/tensor_file.h"

enum { SAFETENSORS_LEAD_BYTES = 8, SAFETENSORS_MAX_HEAD_BYTES = 4 << 20 };

struct safetensors_head {
  struct stored_tensor *tensors; /* [n] by offset, which is counted from the first value */
  size_t n;
  struct tensor_note *notes; /* [n_notes], texts on the heap */
  size_t n_notes;
};

/* The head [n_bytes] of a file whose values take n_data bytes. Before it is taken apart it is held against what a head can
 * be (depth, number of values), so that JSON cannot take more memory than a few times the head. On failure a sentence:
 * ERR_SYNTAX, ERR_UNSUPPORTED, ERR_LIMIT, ERR_CORRUPT (tensors overlap, leave a gap, have another length than their shape),
 * ERR_TRUNCATED, ERR_TRAILING (values missing or left over), ERR_NO_MEMORY. */
MUST_USE enum err safetensors_head_read(const char *text, size_t n_bytes, uint64_t n_data,
                                        struct safetensors_head *out_head, char why[MAX_REASON_BYTES]);
void safetensors_head_done(struct safetensors_head *h);

/* The head's text, with blanks to a multiple of 8; the caller frees. NULL: no memory. */
char *safetensors_head_write(const struct tensor_out *tensors, size_t n, const struct tensor_note *notes,
                             size_t n_notes);

#endif
