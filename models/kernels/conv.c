#include "models/kernels/conv.h"

static const struct conv_kernel *const kernels[] = {
    &conv_im2col_batch, &conv_im2col,        &conv_winograd,      &conv_matmul,      &conv_direct,        &conv_series,
#if defined __x86_64__
    &conv_direct_avx2,  &conv_direct_avx512, &conv_paired_avx512, &conv_series_avx2, &conv_series_avx512,
#endif
};

const struct conv_kernel *const *conv_kernels(size_t *out_n) {
  *out_n = sizeof kernels / sizeof kernels[0];
  return kernels;
}
