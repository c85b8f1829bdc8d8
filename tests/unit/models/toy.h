/* Small contracts, schemas and data sets for the tests of the learning side. */
#ifndef TESTS_UNIT_MODELS_TOY_H
#define TESTS_UNIT_MODELS_TOY_H

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "models/contract.h"
#include "models/data/dataset.h"
#include "models/schema.h"
#include "tests/unit/models/data_kit.h"

static inline struct contract toy_classes(size_t n_inputs, size_t n_classes) {
  return (struct contract){
      .task = TASK_CLASSIFY, .loss = LOSS_CROSS_ENTROPY, .n_classes = n_classes, .n_features = n_inputs};
}

static inline struct contract toy_regression(size_t n_inputs) {
  return (struct contract){.task = TASK_REGRESS, .loss = LOSS_MEAN_SQUARED_ERROR, .n_features = n_inputs};
}

/* An image, or a series where the height is 1; raw values, and tokens, are 0 … most. */
static inline struct contract toy_image(uint32_t height, uint32_t width, uint32_t channels, size_t n_classes,
                                        double most) {
  return (struct contract){.task = TASK_CLASSIFY,
                           .loss = LOSS_CROSS_ENTROPY,
                           .n_classes = n_classes,
                           .height = height,
                           .width = width,
                           .channels = channels,
                           .range_hi = most};
}

static inline struct schema *toy_schema(const char *arch, const struct contract *contract) {
  struct schema *s = NULL;
  char why[MAX_REASON_BYTES] = "";
  enum err e = schema_from_arch(arch, contract, &s, why);
  ck_assert_msg(e == ERR_OK, "%s: %s", arch, why);
  return s;
}

/* A standard normal number (Box & Muller 1958). */
static inline double toy_normal(struct rng *rng) {
  double u = 1 - rng_unit(rng), v = rng_unit(rng);
  return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

static inline struct dataset toy_dataset(enum task task, size_t n, size_t n_inputs, size_t n_classes) {
  struct dataset d = {.task = task, .n = n, .n_inputs = n_inputs, .n_classes = n_classes};
  d.n_targets = task == TASK_REGRESS ? 1 : task == TASK_MULTILABEL ? n_classes : 0;
  d.floats = calloc(n * n_inputs, sizeof *d.floats);
  d.labels = d.n_targets == 0 ? calloc(n, sizeof *d.labels) : NULL;
  d.targets = d.n_targets > 0 ? calloc(n * d.n_targets, sizeof *d.targets) : NULL;
  d.class_counts = calloc(n_classes + 1, sizeof *d.class_counts);
  d.shift = calloc(n_inputs, sizeof *d.shift);
  d.gain = calloc(n_inputs, sizeof *d.gain);
  ck_assert(d.floats && (d.labels || d.targets) && d.shift && d.gain);
  for (size_t i = 0; i < n_inputs; i++)
    d.gain[i] = 1;
  return d;
}

/* Gaussian clouds, one a class, around corners that do not depend on the seed. */
static inline struct dataset toy_clouds(uint64_t seed, size_t n, size_t n_inputs, size_t n_classes) {
  struct dataset d = toy_dataset(TASK_CLASSIFY, n, n_inputs, n_classes);
  struct rng rng;
  rng_init(&rng, seed);
  for (size_t i = 0; i < n; i++) {
    d.labels[i] = (uint16_t)rng_below(&rng, n_classes);
    for (size_t k = 0; k < n_inputs; k++) {
      double corner = k % n_classes == d.labels[i] ? 2 : -1;
      d.floats[i * n_inputs + k] = (float)(corner + toy_normal(&rng));
    }
  }
  return d;
}

/* y = Σ x_k (−1)^k + noise. */
static inline struct dataset toy_plane(uint64_t seed, size_t n, size_t n_inputs) {
  struct dataset d = toy_dataset(TASK_REGRESS, n, n_inputs, 0);
  struct rng rng;
  rng_init(&rng, seed);
  for (size_t i = 0; i < n; i++) {
    double y = 0.1 * toy_normal(&rng);
    for (size_t k = 0; k < n_inputs; k++) {
      double x = toy_normal(&rng);
      d.floats[i * n_inputs + k] = (float)x;
      y += k % 2 ? -x : x;
    }
    d.targets[i] = (float)y;
  }
  return d;
}

static inline void toy_dataset_done(struct dataset *d) {
  free(d->floats);
  free(d->labels);
  free(d->targets);
  free(d->class_counts);
  free(d->shift);
  free(d->gain);
}

#endif
