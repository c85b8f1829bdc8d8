#include "models/net/window.h"

#include <inttypes.h>
#include <stdio.h>

enum err window_read_stride(struct layer *l, const char *text, const struct contract *contract) {
  (void)contract;
  return layer_read_count(text, 1, MAX_KERNEL_SIDE, &l->window.stride);
}

enum err window_read_pad(struct layer *l, const char *text, const struct contract *contract) {
  (void)contract;
  enum err e = layer_read_count(text, 0, MAX_KERNEL_SIDE - 1, &l->window.pad_width);
  l->window.pad_height = l->window.pad_width;
  return e;
}

enum err window_read_sides(struct layer *l, const char *text, const struct contract *contract) {
  uint32_t sides[2];
  (void)contract;
  if (layer_read_counts(text, 2, MAX_KERNEL_SIDE, sides))
    return ERR_RANGE;
  l->window.height = sides[0];
  l->window.width = sides[1];
  return ERR_OK;
}

enum err window_read_sides_channels(struct layer *l, const char *text, const struct contract *contract) {
  uint32_t counts[3];
  (void)contract;
  if (layer_read_counts(text, 3, MAX_PARAMETERS, counts) || counts[0] > MAX_KERNEL_SIDE || counts[1] > MAX_KERNEL_SIDE)
    return ERR_RANGE;
  l->window.height = counts[0];
  l->window.width = counts[1];
  l->out.channels = counts[2];
  return ERR_OK;
}

enum err window_shape(struct layer *l, uint32_t channels, char why[MAX_REASON_BYTES]) {
  struct window *w = &l->window;
  const uint64_t height = l->in.height + 2 * (uint64_t)w->pad_height, width = l->in.width + 2 * (uint64_t)w->pad_width;
  if (w->stride == 0)
    w->stride = 1;
  if (w->height > height || w->width > width) {
    snprintf(why, MAX_REASON_BYTES,
             "a window of %" PRIu32 "x%" PRIu32 " is larger than what comes in, %" PRIu32 "x%" PRIu32 "x%" PRIu32
             ", even with its padding; make it smaller",
             w->height, w->width, l->in.height, l->in.width, l->in.channels);
    return ERR_RANGE;
  }
  if ((w->pad_height > 0 && w->pad_height >= w->height) || (w->pad_width > 0 && w->pad_width >= w->width)) {
    snprintf(why, MAX_REASON_BYTES,
             "with pad %" PRIu32 " a window of %" PRIu32 "x%" PRIu32 " sees only padding; make the pad smaller",
             w->pad_width, w->height, w->width);
    return ERR_RANGE;
  }
  const uint32_t rows = (uint32_t)((height - w->height) / w->stride),
                 columns = (uint32_t)((width - w->width) / w->stride);
  return layer_set_out(l, (struct extent){rows + 1, columns + 1, channels}, why);
}

int window_text(const struct layer *l, int n, uint32_t default_stride, char *out_text, size_t capacity) {
  if (l->window.stride != default_stride)
    n += snprintf(out_text + n, capacity - (size_t)n, " stride %" PRIu32, l->window.stride);
  if (l->window.pad_width > 0)
    n += snprintf(out_text + n, capacity - (size_t)n, " pad %" PRIu32, l->window.pad_width);
  return n;
}

size_t window_area(const struct layer *l) {
  return (size_t)l->window.height * l->window.width;
}

/* The first place and the one after the last, of `side` ones from `at` on, that lie in 0 … n − 1. */
static void clip(ptrdiff_t at, uint32_t side, uint32_t n, uint32_t *out_first, uint32_t *out_end) {
  ptrdiff_t end = (ptrdiff_t)n - at;
  *out_first = at < 0 ? (uint32_t)-at : 0;
  *out_end = end < (ptrdiff_t)side ? (uint32_t)end : side;
}

struct window_part window_at(const struct layer *l, uint32_t y, uint32_t x) {
  const struct window *w = &l->window;
  struct window_part part = {.y = (ptrdiff_t)y * w->stride - w->pad_height,
                             .x = (ptrdiff_t)x * w->stride - w->pad_width};
  clip(part.y, w->height, l->in.height, &part.top, &part.bottom);
  clip(part.x, w->width, l->in.width, &part.left, &part.right);
  return part;
}
