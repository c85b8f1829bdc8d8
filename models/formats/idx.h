/* IDX files (LeCun's MNIST format), plain or gzip: 0 0 type rank, then `rank` big-endian sizes, then the items.
 *
 * Only unsigned bytes (type 8). The sizes are compared with what the file can hold before anything is allocated: a plain
 * file must have exactly the declared length, a gzip file at most 1032 times its own (deflate's bound). Items are read one
 * by one into the caller's memory. One thread at a time. */
#ifndef MODELS_FORMATS_IDX_H
#define MODELS_FORMATS_IDX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "models/formats/data_file.h"

enum { IDX_MAX_RANK = 4 };

struct idx_shape {
  uint32_t rank;
  uint32_t size[IDX_MAX_RANK]; /* size[0] is the number of items */
};

struct idx_file;

/* Opens and reads the head. ERR_SYNTAX (magic), ERR_UNSUPPORTED (type, rank), ERR_RANGE (a size is 0), ERR_LIMIT
 * (above MAX_SAMPLES, MAX_FEATURES), ERR_TRUNCATED, ERR_TRAILING, ERR_CORRUPT (gzip), and those of data_open. */
MUST_USE enum err idx_open(const char *path, struct idx_file **out_file, struct data_place *why);
void idx_close(struct idx_file *f);

const struct idx_shape *idx_shape(const struct idx_file *f);

/* An item of rank 3 or 4 as height, width, channels: [n][H][W] is an image of one channel, but [n][T][C] a series of T steps
 * (an image of height 1) where images of one row are wanted and these have several. */
void idx_item_extents(const struct idx_shape *s, bool one_row_wanted, uint32_t out_extents[3]);

/* Makes `why` be about this file, and returns it: images and labels are read in turn. */
struct data_place *idx_place(const struct idx_file *f, struct data_place *why);

/* Bytes of one item: the product of size[1] … ; 1 for labels. At most MAX_FEATURES. */
size_t idx_item_bytes(const struct idx_file *f);

/* Where the next item begins, in the file without compression. */
uint64_t idx_offset(const struct idx_file *f);

/* Reads the next item: out [idx_item_bytes]. ERR_TRUNCATED, ERR_CORRUPT, ERR_IO; `why` as from idx_open. */
MUST_USE enum err idx_next(struct idx_file *f, uint8_t *out_item, struct data_place *why);

/* After the last item: nothing may follow. ERR_TRAILING, ERR_CORRUPT (a gzip checksum), ERR_IO. */
MUST_USE enum err idx_end(struct idx_file *f, struct data_place *why);

#endif
