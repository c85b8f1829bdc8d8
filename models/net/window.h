/* What convolutions and pools have in common: a window that moves over an image or a series. */
#ifndef MODELS_NET_WINDOW_H
#define MODELS_NET_WINDOW_H

#include "models/net/layer.h"

/* The words "stride S" and "pad P" of a layer: what they take, and their readers; see layer_type.words. */
#define WINDOW_STRIDE "a number of 1 to 1024"
#define WINDOW_PAD "a number of 0 to 1023"
MUST_USE enum err window_read_stride(struct layer *l, const char *text, const struct contract *contract);
MUST_USE enum err window_read_pad(struct layer *l, const char *text, const struct contract *contract);

/* "5x5": height and width, each at most MAX_KERNEL_SIDE; "5x5x8": channels that come out, too. ERR_RANGE. */
MUST_USE enum err window_read_sides(struct layer *l, const char *text, const struct contract *contract);
MUST_USE enum err window_read_sides_channels(struct layer *l, const char *text, const struct contract *contract);

/* out [(in + 2·pad − side) / stride + 1, both ways, rounded down][channels]. ERR_RANGE: the window is larger than the padded
 * input, or can see nothing but padding; ERR_LIMIT. */
MUST_USE enum err window_shape(struct layer *l, uint32_t channels, char why[MAX_REASON_BYTES]);

/* " stride 2 pad 1": what is not the default, behind a layer's text of n bytes; the new length. */
int window_text(const struct layer *l, int n, uint32_t default_stride, char *out_text, size_t capacity);

/* Values of a window over one channel. */
size_t window_area(const struct layer *l);

/* The part of the window at (y, x) of the output that lies on the input, and where it begins there. */
struct window_part {
  uint32_t top, bottom, left, right; /* rows top … bottom − 1 and columns left … right − 1 of the window */
  ptrdiff_t y, x;                    /* of the window's first row and column in the input; negative in the padding */
};
struct window_part window_at(const struct layer *l, uint32_t y, uint32_t x);

#endif
