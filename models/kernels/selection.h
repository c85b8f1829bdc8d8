/* The selection: which way of computing each operation takes, and how a batch is split. A value: it is measured
 * (models/tuning), kept for the host, and given to net_open, which copies out of it what it needs.
 *
 * An operation is known by a text, its key: the layer's canonical text, the extent of its input and the samples of a batch,
 * "conv 5x5x8 pad 1 of 28x28x1 batch 32". Nothing that is learnt is in it, so layers that are alike share an entry.
 *
 * A batch of n samples is split in `lanes` of ⌈n / lanes⌉ consecutive samples, and each lane goes through its samples
 * `block` at a time, from the first layer to the last; what lanes add up is added in their order. So the bits of a result
 * depend on lanes, block and kernels, and never on `threads`.
 *
 * Looking up allocates nothing. Any thread may read one that nobody writes. */
#ifndef MODELS_KERNELS_SELECTION_H
#define MODELS_KERNELS_SELECTION_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { MAX_SELECTION = 128, MAX_SELECTION_KEY_BYTES = 128, MAX_KERNEL_NAME_BYTES = 24, MAX_LANES = 64 };

struct selection_entry {
  char key[MAX_SELECTION_KEY_BYTES];
  char kernel[MAX_KERNEL_NAME_BYTES]; /* the kernel's name in its layer type */
};

struct selection {
  uint32_t lanes;   /* 1 … MAX_LANES; 0 counts as 1 */
  uint32_t threads; /* 1 … lanes; 0 counts as 1 */
  uint32_t block;   /* samples; 0: all of a lane's at once */
  size_t n;
  struct selection_entry entries[MAX_SELECTION];
};

/* The key of an operation. A layer's text that is too long for it is cut: such a key still finds itself. */
void selection_key(const char *layer_text, uint32_t height, uint32_t width, uint32_t channels, uint32_t batch,
                   char out_key[MAX_SELECTION_KEY_BYTES]);

/* The name of the kernel for a key; NULL when there is no entry or no selection. */
const char *selection_find(const struct selection *s, const char *key);

/* Adds the entry, or changes it. ERR_LIMIT: there is no room, or one of the two texts is too long; s is unchanged. */
MUST_USE enum err selection_put(struct selection *s, const char *key, const char *kernel);

#endif
