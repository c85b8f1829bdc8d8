#include "models/data/dataset.h"

#include <math.h>
#include <stdlib.h>

#include "base/rng.h"
#include "tests/unit/models/data_kit.h"
#include "tests/unit/suite.h"

/* n rows; row i has force i, temp 2i, class i mod 3. */
static struct kit_file table_of(size_t n) {
  static const char *const classes[] = {"ok", "scratch", "dent"};
  struct kit_file f = kit_text("force_N,temp_C,note,verdict\n");
  for (size_t i = 0; i < n; i++)
    dprintf(f.fd, "%zu,%zu,n,%s\n", i, 2 * i, classes[i % 3]);
  return f;
}

/* n images of 2 x 2; image i is { i, i / 256, 7, 255 }, class i mod n_classes. */
struct idx_pair {
  struct kit_file images, labels;
};

static struct idx_pair images_of(uint32_t n, uint32_t n_labels, uint32_t n_classes) {
  uint8_t *bytes = malloc(16 + 4 * (size_t)n + n_labels);
  ck_assert_ptr_nonnull(bytes);
  struct idx_pair p;
  size_t at = kit_idx_head(bytes, 8, 3, (uint32_t[]){n, 2, 2});
  for (uint32_t i = 0; i < n; i++) {
    bytes[at++] = (uint8_t)i;
    bytes[at++] = (uint8_t)(i >> 8);
    bytes[at++] = 7;
    bytes[at++] = 255;
  }
  p.images = kit_gzip(bytes, at);
  at = kit_idx_head(bytes, 8, 1, (uint32_t[]){n_labels});
  for (uint32_t i = 0; i < n_labels; i++)
    bytes[at++] = (uint8_t)(i % n_classes);
  p.labels = kit_file(bytes, at);
  free(bytes);
  return p;
}

static struct data_file pair_file(const struct idx_pair *p) {
  return (struct data_file){p->images.path, p->labels.path};
}

static void pair_close(struct idx_pair *p) {
  kit_file_close(&p->images);
  kit_file_close(&p->labels);
}

static struct splits open_ok(const struct data_source *source, const struct contract *c) {
  struct splits o = {0};
  struct data_place why = {0};
  kit_check(c);
  enum err e = dataset_open(source, c, &kit_digest, &o, &why);
  ck_assert_msg(e == ERR_OK, "%s: %s", why.path, why.sentence);
  ck_assert_ptr_nonnull(o.train);
  return o;
}

static void refused(const struct data_source *source, const struct contract *c, enum err expected, const char *path,
                    const char *says) {
  struct splits o = {0};
  struct data_place why = {0};
  enum err e = dataset_open(source, c, &kit_digest, &o, &why);
  ck_assert_msg(e == expected, "%s: %s", err_name(e), why.sentence);
  ck_assert_str_eq(why.path, path);
  ck_assert_msg(strstr(why.sentence, says) != NULL, "%s", why.sentence);
  ck_assert(o.train == NULL && o.test == NULL);
}

START_TEST(a_table_is_gathered_as_it_stands) {
  struct contract *c = kit_table();
  struct kit_file f = table_of(7);
  struct splits o = open_ok(&(struct data_source){.train = {f.path, NULL}}, c);
  ck_assert_uint_eq(o.train->n, 7);
  ck_assert_uint_eq(o.train->n_inputs, 2);
  ck_assert_uint_eq(o.train->n_ignored_columns, 1);
  ck_assert_uint_eq(o.train->class_counts[0], 3);
  ck_assert_uint_eq(o.train->class_counts[2], 2);
  ck_assert_ptr_null(o.test);
  float x[3][2];
  uint16_t labels[3];
  static const uint32_t index[] = {5, 0, 5};
  ck_assert_int_eq(dataset_gather(o.train, index, 3, x[0]), ERR_OK);
  dataset_gather_labels(o.train, index, 3, labels);
  ck_assert(x[0][0] == 5 && x[0][1] == 10 && x[1][0] == 0 && x[1][1] == 0 && x[2][1] == 10);
  ck_assert(labels[0] == 2 && labels[1] == 0 && labels[2] == 2);
  splits_close(&o);
  kit_file_close(&f);
  contract_free(c);
}
END_TEST

START_TEST(fixed_scaling_is_the_contracts) {
  struct contract *c = kit_table();
  struct kit_file f = table_of(7);
  ck_assert_int_eq(scale_init(&c->scale, SCALE_FIXED, 2), ERR_OK);
  c->scale.mean[0] = 1;
  c->scale.sd[0] = 2;
  c->scale.mean[1] = 10;
  c->scale.sd[1] = 4;
  struct splits o = open_ok(&(struct data_source){.train = {f.path, NULL}}, c);
  float x[2];
  ck_assert_int_eq(dataset_gather(o.train, (const uint32_t[]){6}, 1, x), ERR_OK);
  ck_assert(x[0] == 2.5f && x[1] == 0.5f);
  splits_close(&o);
  kit_file_close(&f);
  contract_free(c);
}
END_TEST

START_TEST(local_scaling_is_measured_once_then_saved) {
  struct contract *c = kit_table();
  struct kit_file f = table_of(7), test = table_of(3);
  c->scale.rule = SCALE_LOCAL;
  struct data_source source = {.train = {f.path, NULL}, .test = {test.path, NULL}};
  struct splits o = open_ok(&source, c);
  ck_assert_uint_eq(o.train->scale.n, 2);
  ck_assert_double_eq_tol(o.train->scale.mean[1], 6, 1e-12);
  ck_assert_double_eq_tol(o.train->scale.sd[0], 2, 1e-12); /* of 0 … 6 */
  ck_assert_uint_eq(o.test->n, 3);
  float x[2];
  ck_assert_int_eq(dataset_gather(o.test, (const uint32_t[]){2}, 1, x), ERR_OK); /* by the training set's numbers */
  ck_assert_float_eq_tol(x[0], -0.5f, 1e-6f);
  struct scale saved;
  ck_assert_int_eq(scale_init(&saved, SCALE_LOCAL, 2), ERR_OK);
  saved.mean[0] = 100;
  source.saved = &saved;
  struct splits restarted = open_ok(&source, c);
  ck_assert_int_eq(dataset_gather(restarted.train, (const uint32_t[]){2}, 1, x), ERR_OK);
  ck_assert(x[0] == -98 && x[1] == 4);
  scale_done(&saved);
  ck_assert_int_eq(scale_init(&saved, SCALE_LOCAL, 3), ERR_OK);
  refused(&source, c, ERR_RANGE, f.path, "3 pairs for 2 inputs");
  scale_done(&saved);
  splits_close(&o);
  splits_close(&restarted);
  kit_file_close(&f);
  kit_file_close(&test);
  contract_free(c);
}
END_TEST

START_TEST(bytes_map_to_the_range) {
  struct contract *c = kit_image(2, 2, 10);
  struct idx_pair p = images_of(20, 20, 10);
  struct splits o = open_ok(&(struct data_source){.train = pair_file(&p)}, c);
  float x[4];
  ck_assert_ptr_nonnull(o.train->bytes);
  ck_assert_ptr_null(o.train->floats);
  ck_assert_int_eq(dataset_gather(o.train, (const uint32_t[]){17}, 1, x), ERR_OK);
  ck_assert(x[0] == (float)(17.0 / 255) && x[1] == 0 && x[2] == (float)(7.0 / 255) && x[3] == 1);
  splits_close(&o);

  c->range_lo = -1;
  c->range_hi = 1;
  ck_assert_int_eq(scale_init(&c->scale, SCALE_FIXED, 1), ERR_OK);
  c->scale.mean[0] = 0.5;
  c->scale.sd[0] = 0.25;
  o = open_ok(&(struct data_source){.train = pair_file(&p)}, c);
  ck_assert_int_eq(dataset_gather(o.train, (const uint32_t[]){0}, 1, x), ERR_OK);
  ck_assert_float_eq_tol(x[0], -6, 1e-5f);
  ck_assert_float_eq_tol(x[3], 2, 1e-5f);
  splits_close(&o);
  pair_close(&p);
  contract_free(c);
}
END_TEST

START_TEST(images_are_measured_as_one_quantity) {
  struct contract *c = kit_image(2, 2, 10);
  struct idx_pair p = images_of(20, 20, 10);
  c->scale.rule = SCALE_LOCAL;
  struct splits o = open_ok(&(struct data_source){.train = pair_file(&p)}, c);
  ck_assert_uint_eq(o.train->scale.n, 1);
  ck_assert_double_eq_tol(o.train->scale.mean[0], (9.5 + 0 + 7 + 255) / 4 / 255, 1e-12);
  splits_close(&o);
  pair_close(&p);
  contract_free(c);
}
END_TEST

/* [n][T][C] is a series of T steps where the contract has one, and images of one channel else. */
START_TEST(series_are_images_of_one_row) {
  struct contract *c = kit_image(1, 2, 10);
  struct idx_pair p = images_of(20, 20, 10);
  float x[4];
  c->channels = 2;
  struct splits o = open_ok(&(struct data_source){.train = pair_file(&p)}, c);
  ck_assert_int_eq(dataset_gather(o.train, (const uint32_t[]){17}, 1, x), ERR_OK);
  ck_assert(x[0] == (float)(17.0 / 255) && x[1] == 0 && x[2] == (float)(7.0 / 255) && x[3] == 1);
  splits_close(&o);
  c->width = 4;
  c->channels = 1;
  refused(&(struct data_source){.train = pair_file(&p)}, c, ERR_RANGE, p.images.path,
          "its images are 1 x 2 x 2, the contract's 1 x 4 x 1");
  pair_close(&p);
  contract_free(c);
}
END_TEST

START_TEST(idx_pairs_that_do_not_fit_are_refused) {
  struct contract *c = kit_image(2, 2, 10), *other = kit_image(28, 28, 10), *table = kit_table();
  struct idx_pair good = images_of(20, 20, 10), fewer = images_of(20, 19, 10), outside = images_of(20, 20, 11);
  struct data_source source = {.train = pair_file(&fewer)};
  refused(&source, c, ERR_CORRUPT, fewer.labels.path, "19 labels for 20 images");
  source.train = pair_file(&outside);
  refused(&source, c, ERR_RANGE, outside.labels.path, "label 10 at byte 18 is outside the contract's 10 classes");
  source.train = (struct data_file){good.labels.path, good.images.path};
  refused(&source, c, ERR_RANGE, good.labels.path, "swapped?");
  source.train = (struct data_file){good.images.path, good.images.path};
  refused(&source, c, ERR_RANGE, good.images.path, "labels have 1");
  source.train = pair_file(&good);
  refused(&source, other, ERR_RANGE, good.images.path, "its images are 2 x 2 x 1, the contract's 28 x 28 x 1");
  refused(&source, table, ERR_RANGE, good.images.path, "IDX files are images");
  source.train.labels = "/nowhere/labels";
  refused(&source, c, ERR_NOT_FOUND, "/nowhere/labels", "does not exist");
  source.train = pair_file(&good);
  source.test = pair_file(&fewer);
  refused(&source, c, ERR_CORRUPT, fewer.labels.path, "19 labels");
  pair_close(&good);
  pair_close(&fewer);
  pair_close(&outside);
  contract_free(c);
  contract_free(other);
  contract_free(table);
}
END_TEST

START_TEST(csv_faults_pass_through) {
  struct contract *c = kit_table();
  struct kit_file f = kit_text("force_N,temp_C,verdict\n1,2,ok\n1,2\n");
  struct data_source source = {.train = {f.path, NULL}};
  refused(&source, c, ERR_SYNTAX, f.path, "the row has 2 fields");
  c->split = (struct split){.rule = SPLIT_IID, .n_parts = 2};
  source.part = 1;
  refused(&source, c, ERR_SYNTAX, f.path, "the row has 2 fields");
  kit_file_close(&f);
  contract_free(c);
}
END_TEST

START_TEST(parts_cover_the_set_once) {
  struct contract *c = kit_image(2, 2, 10);
  struct idx_pair p = images_of(1000, 1000, 10);
  static const struct split rules[] = {
      {.rule = SPLIT_IID, .n_parts = 4, .seed = 2},
      {.rule = SPLIT_DIRICHLET, .alpha = 0.5, .n_parts = 4, .seed = 2},
      {.rule = SPLIT_SHARDS, .shards = 2, .n_parts = 4, .seed = 2},
  };
  for (size_t r = 0; r < sizeof rules / sizeof rules[0]; r++) {
    uint8_t seen[1000] = {0};
    c->split = rules[r];
    c->holdout = 0.25;
    for (uint32_t part = 1; part <= 4; part++) {
      struct splits o = open_ok(&(struct data_source){.train = pair_file(&p), .part = part}, c);
      const struct dataset *sets[] = {o.train, o.test};
      for (size_t s = 0; s < 2; s++)
        for (size_t i = 0; i < sets[s]->n; i++) {
          size_t image = sets[s]->bytes[4 * i] + 256u * sets[s]->bytes[4 * i + 1];
          ck_assert_uint_eq(sets[s]->labels[i], image % 10);
          seen[image]++;
        }
      splits_close(&o);
    }
    for (size_t i = 0; i < 1000; i++)
      ck_assert_uint_eq(seen[i], 1);
  }
  pair_close(&p);
  contract_free(c);
}
END_TEST

START_TEST(parts_must_be_asked_for_rightly) {
  struct contract *c = kit_table();
  struct kit_file f = table_of(90);
  struct data_source source = {.train = {f.path, NULL}, .part = 1};
  refused(&source, c, ERR_RANGE, f.path, "no `split`");
  c->split = (struct split){.rule = SPLIT_IID, .n_parts = 3};
  source.part = 0;
  refused(&source, c, ERR_RANGE, f.path, "part is 0, it must be 1 to 3");
  source.part = 4;
  refused(&source, c, ERR_RANGE, f.path, "part is 4");
  source.part = 3;
  struct splits o = open_ok(&source, c);
  ck_assert_uint_eq(o.train->n, 30);
  splits_close(&o);
  c->split = (struct split){.rule = SPLIT_DIRICHLET, .alpha = 1, .n_parts = 3};
  refused(&source, c, ERR_RANGE, f.path, "90 samples cannot be split into 3 parts by dirichlet");
  kit_file_close(&f);
  contract_free(c);
}
END_TEST

/* Sides of rows by their force, 0 … n − 1: 1 train, 2 test. */
static void sides(const struct splits *o, uint8_t *out_side) {
  for (size_t i = 0; i < o->train->n; i++)
    out_side[(size_t)o->train->floats[2 * i]] = 1;
  for (size_t i = 0; i < o->test->n; i++)
    out_side[(size_t)o->test->floats[2 * i]] = 2;
}

START_TEST(the_holdout_stays_while_data_grows) {
  struct contract *c = kit_table();
  struct kit_file small = table_of(1000), large = table_of(3000);
  uint8_t before[3000] = {0}, after[3000] = {0};
  c->holdout = 0.25;
  struct splits o = open_ok(&(struct data_source){.train = {small.path, NULL}}, c);
  ck_assert_uint_eq(o.train->n + o.test->n, 1000);
  ck_assert(o.test->n > 200 && o.test->n < 300); /* 250, sd 13.7 */
  sides(&o, before);
  splits_close(&o);
  o = open_ok(&(struct data_source){.train = {large.path, NULL}}, c);
  ck_assert(o.test->n > 660 && o.test->n < 840); /* 750, sd 23.7 */
  sides(&o, after);
  ck_assert_mem_eq(before, after, 1000);
  splits_close(&o);
  kit_file_close(&small);
  kit_file_close(&large);
  contract_free(c);
}
END_TEST

START_TEST(copies_of_a_sample_are_on_one_side) {
  struct contract *c = kit_table();
  struct kit_file f = kit_text("force_N,temp_C,verdict\n");
  for (int i = 0; i < 300; i++)
    dprintf(f.fd, "%d.0,1e0,%s\n", i % 30, i % 2 ? "ok" : "dent");
  c->holdout = 0.4;
  struct splits o = open_ok(&(struct data_source){.train = {f.path, NULL}}, c);
  ck_assert_uint_eq(o.train->n % 10, 0);
  ck_assert_uint_gt(o.test->n, 0);
  splits_close(&o);
  kit_file_close(&f);

  f = kit_text("force_N,temp_C,verdict\n");
  for (int i = 0; i < 5; i++)
    dprintf(f.fd, "3,4,ok\n");
  struct data_source source = {.train = {f.path, NULL}};
  struct splits five = {0};
  struct data_place why;
  enum err e = dataset_open(&source, c, &kit_digest, &five, &why);
  ck_assert(e == ERR_OK || e == ERR_RANGE); /* all five together on either side */
  if (e == ERR_OK)
    ck_assert(five.train->n == 5 && five.test == NULL);
  else
    ck_assert_ptr_nonnull(strstr(why.sentence, "no sample is left to train on"));
  splits_close(&five);
  kit_file_close(&f);
  contract_free(c);
}
END_TEST

static enum err stop_at_third(void *context, size_t done, size_t total) {
  size_t *n_looks = context;
  ck_assert_uint_eq(total, 0);
  return ++*n_looks < 3 ? ERR_OK : done < 1000 ? ERR_STOPPED : ERR_LIMIT;
}

START_TEST(the_hook_ends_the_reading) {
  struct contract *c = kit_table();
  const struct scale no_scale = {0};
  struct kit_file f = kit_text("force_N,temp_C,verdict\n");
  for (int i = 0; i < 2000; i++)
    dprintf(f.fd, "3,4,ok\n");
  for (int split = 0; split < 2; split++) {
    size_t n_looks = 0;
    const struct work_hook hook = {stop_at_third, &n_looks};
    const struct data_source source = {.train = {f.path, NULL}, .part = (uint32_t)split, .hook = &hook};
    struct splits data = {0};
    struct dataset *test = NULL;
    struct data_place why;
    c->split = split ? (struct split){.rule = SPLIT_IID, .n_parts = 2} : (struct split){.rule = SPLIT_NONE};
    ck_assert_int_eq(dataset_open(&source, c, &kit_digest, &data, &why), ERR_STOPPED);
    ck_assert_uint_eq(n_looks, 3);
    ck_assert_ptr_null(data.train);
    n_looks = 0;
    ck_assert_int_eq(dataset_open_test(&source.train, c, &no_scale, &hook, NULL, &test, &why), ERR_STOPPED);
    ck_assert_ptr_null(test);
  }
  kit_file_close(&f);
  contract_free(c);
}
END_TEST

START_TEST(regression_keeps_targets) {
  struct contract *c = contract_new();
  c->task = TASK_REGRESS;
  c->loss = LOSS_MEAN_SQUARED_ERROR;
  c->holdout = c->validation = 0;
  c->split = (struct split){.rule = SPLIT_IID, .n_parts = 2};
  snprintf(c->label, sizeof c->label, "y");
  ck_assert_int_eq(contract_add_feature(c, "x", NULL), ERR_OK);
  struct kit_file f = kit_text("y,x\n");
  for (int i = 0; i < 100; i++)
    dprintf(f.fd, "%d,%d.5\n", -i, i);
  struct splits o = open_ok(&(struct data_source){.train = {f.path, NULL}, .part = 2}, c);
  ck_assert_uint_eq(o.train->n, 50);
  ck_assert_ptr_null(o.train->labels);
  for (uint32_t i = 0; i < 50; i++) {
    float x, y;
    ck_assert_int_eq(dataset_gather(o.train, &i, 1, &x), ERR_OK);
    dataset_gather_targets(o.train, &i, 1, &y);
    ck_assert(x == 0.5f - y);
  }
  splits_close(&o);
  kit_file_close(&f);
  contract_free(c);
}
END_TEST

START_TEST(sets_are_targets_of_each_class) {
  struct contract *c = kit_table();
  c->task = TASK_MULTILABEL;
  c->loss = LOSS_BINARY_CROSS_ENTROPY;
  struct kit_file f = kit_text("force_N,temp_C,verdict\n1,2,ok;dent\n3,4,\n5,6,dent\n");
  struct splits o = open_ok(&(struct data_source){.train = {f.path, NULL}}, c);
  float targets[2][3];
  ck_assert(o.train->n == 3 && o.train->n_targets == 3 && o.train->labels == NULL);
  dataset_gather_targets(o.train, (const uint32_t[]){2, 0}, 2, targets[0]);
  ck_assert(targets[0][0] == 0 && targets[0][1] == 0 && targets[0][2] == 1);
  ck_assert(targets[1][0] == 1 && targets[1][1] == 0 && targets[1][2] == 1);
  ck_assert(o.train->class_counts[0] == 1 && o.train->class_counts[1] == 0 && o.train->class_counts[2] == 2);
  splits_close(&o);
  kit_file_close(&f);
  contract_free(c);
}
END_TEST

/* Anomalies are judged on, in the split where they are, and never trained on. */
START_TEST(anomalies_are_not_trained_on) {
  struct contract *c = kit_table();
  struct kit_file f = table_of(300);
  c->holdout = 0.3;
  c->validation = 0.2;
  struct splits whole = open_ok(&(struct data_source){.train = {f.path, NULL}}, c);
  c->task = TASK_RECONSTRUCT;
  c->loss = LOSS_MEAN_SQUARED_ERROR;
  struct splits o = open_ok(&(struct data_source){.train = {f.path, NULL}}, c);
  ck_assert_uint_eq(o.train->n, whole.train->class_counts[0]);
  ck_assert_uint_eq(o.train->n_anomalies, whole.train->n - o.train->n);
  ck_assert_uint_eq(o.test->n, whole.test->n);
  ck_assert_uint_eq(o.validation->n, whole.validation->n);
  ck_assert_mem_eq(o.test->labels, whole.test->labels, o.test->n * sizeof *o.test->labels);
  for (size_t i = 0; i < o.train->n; i++)
    ck_assert_uint_eq(o.train->labels[i], 0);
  splits_close(&o);
  splits_close(&whole);
  kit_file_close(&f);
  f = kit_text("force_N,temp_C,verdict\n1,2,dent\n3,4,dent\n");
  c->holdout = c->validation = 0;
  refused(&(struct data_source){.train = {f.path, NULL}}, c, ERR_RANGE, f.path, "no sample of class \"ok\" is left");
  kit_file_close(&f);
  contract_free(c);
}
END_TEST

START_TEST(images_can_be_reconstructed_without_classes) {
  struct contract *c = kit_image(2, 2, 3);
  struct idx_pair p = images_of(30, 30, 3);
  c->task = TASK_RECONSTRUCT;
  c->loss = LOSS_MEAN_SQUARED_ERROR;
  struct splits o = open_ok(&(struct data_source){.train = pair_file(&p)}, c);
  ck_assert(o.train->n == 10 && o.train->n_anomalies == 20);
  splits_close(&o);
  c->n_classes = 0;
  o = open_ok(&(struct data_source){.train = pair_file(&p)}, c);
  ck_assert(o.train->n == 30 && o.train->labels == NULL && o.train->targets == NULL);
  splits_close(&o);
  pair_close(&p);
  contract_free(c);
}
END_TEST

/* ---- Fashion-MNIST ---- */

static struct contract *fashion(void) {
  struct contract *c = kit_image(28, 28, 10);
  c->holdout = 0.25;
  c->split = (struct split){.rule = SPLIT_DIRICHLET, .alpha = 0.3, .n_parts = 5, .seed = 1};
  ck_assert_int_eq(scale_init(&c->scale, SCALE_FIXED, 1), ERR_OK);
  c->scale.mean[0] = 0.2860;
  c->scale.sd[0] = 0.3530;
  return c;
}

static const struct data_file fashion_train = {FASHION "train-images-idx3-ubyte.gz",
                                               FASHION "train-labels-idx1-ubyte.gz"};
static const struct data_file fashion_test = {FASHION "t10k-images-idx3-ubyte.gz", FASHION "t10k-labels-idx1-ubyte.gz"};

/* An iid fifth, 9.4 MB, and the test set, 7.8 MB, where all of the training set is 47 MB. */
static void load_a_fifth(void) {
  struct contract *c = fashion();
  c->split.rule = SPLIT_IID;
  struct splits o = open_ok(&(struct data_source){.train = fashion_train, .part = 3}, c);
  struct dataset *global = NULL;
  struct data_place why;
  ck_assert_uint_eq(o.train->n + o.test->n, 12000);
  ck_assert(o.test->n > 2800 && o.test->n < 3200);
  ck_assert_int_eq(dataset_open_test(&fashion_test, c, &o.train->scale, NULL, NULL, &global, &why), ERR_OK);
  ck_assert_uint_eq(global->n, 10000);
  for (size_t k = 0; k < 10; k++)
    ck_assert_uint_eq(global->class_counts[k], 1000);
  double sum = 0, squares = 0;
  for (uint32_t i = 0; i < global->n; i += 10) {
    static float x[784];
    ck_assert_int_eq(dataset_gather(global, &i, 1, x), ERR_OK);
    for (size_t k = 0; k < 784; k++) {
      sum += (double)x[k];
      squares += (double)x[k] * (double)x[k];
    }
  }
  ck_assert_double_eq_tol(sum / (1000 * 784), 0, 0.02);
  ck_assert_double_eq_tol(squares / (1000 * 784), 1, 0.03);
  dataset_close(global);
  splits_close(&o);
  contract_free(c);
}

static bool fashion_is_here(const char *test) {
  if (access(fashion_train.path, R_OK) == 0)
    return true;
  fprintf(stderr, "SKIPPED %s: no %s (package dataset-fashion-mnist)\n", test, FASHION);
  return false;
}

START_TEST(a_fifth_of_fashion_mnist_costs_a_fifth) {
  if (fashion_is_here("a_fifth_of_fashion_mnist_costs_a_fifth"))
    kit_in_little_memory(40 << 20, load_a_fifth);
}
END_TEST

START_TEST(fashion_mnist_by_dirichlet) {
  if (!fashion_is_here("fashion_mnist_by_dirichlet"))
    return;
  struct contract *c = fashion();
  struct splits o = open_ok(&(struct data_source){.train = fashion_train, .part = 1}, c);
  ck_assert_uint_ge(o.train->n + o.test->n, SPLIT_MIN_SAMPLES);
  ck_assert_double_eq_tol((double)o.test->n / (double)(o.train->n + o.test->n), 0.25, 0.03);
  ck_assert_uint_eq(o.train->scale.n, 1);
  splits_close(&o);
  contract_free(c);
}
END_TEST

START_TEST(categories_are_not_scaled) {
  struct contract *c = kit_table();
  struct kit_file f = kit_text("force_N,temp_C,line,verdict\n1,10,a,ok\n3,30,b,dent\n5,50,b,ok\n");
  ck_assert_int_eq(contract_add_feature(c, "line", NULL), ERR_OK);
  ck_assert_int_eq(contract_add_category(c, "a"), ERR_OK);
  ck_assert_int_eq(contract_add_category(c, "b"), ERR_OK);
  c->scale.rule = SCALE_LOCAL;
  struct splits o = open_ok(&(struct data_source){.train = {f.path, NULL}}, c);
  float x[3][4];
  ck_assert(o.train->n_inputs == 4 && o.train->scale.n == 2);
  ck_assert(o.train->scale.mean[0] == 3 && o.train->scale.mean[1] == 30);
  ck_assert_int_eq(dataset_gather(o.train, (const uint32_t[]){0, 1, 2}, 3, x[0]), ERR_OK);
  ck_assert(x[1][0] == 0 && x[1][1] == 0 && x[0][0] < 0 && x[2][1] > 0);
  ck_assert(x[0][2] == 1 && x[0][3] == 0 && x[1][2] == 0 && x[1][3] == 1 && x[2][3] == 1);
  struct scale one = {0}, three = {0};
  ck_assert_int_eq(scale_init(&one, SCALE_FIXED, 1), ERR_OK);
  ck_assert_int_eq(scale_init(&three, SCALE_FIXED, 3), ERR_OK);
  one.mean[0] = 1;
  ck_assert_int_eq(dataset_rescale(o.train, c, &one), ERR_OK);
  ck_assert_int_eq(dataset_gather(o.train, (const uint32_t[]){0}, 1, x[0]), ERR_OK);
  ck_assert(x[0][0] == 0 && x[0][1] == 9 && x[0][2] == 1 && x[0][3] == 0);
  ck_assert_int_eq(dataset_rescale(o.train, c, &three), ERR_RANGE);
  scale_done(&one);
  scale_done(&three);
  splits_close(&o);
  kit_file_close(&f);
  contract_free(c);
}
END_TEST

/* ---- more than memory may take ---- */

enum { SIDE = 28, N_WIDE = 3000 };

/* n images of 28 x 28 of noise, ten classes, without building them in memory. */
static struct idx_pair wide_images(uint32_t n) {
  uint8_t row[SIDE * SIDE], head[16];
  struct idx_pair p = {kit_file(head, kit_idx_head(head, 8, 3, (uint32_t[]){n, SIDE, SIDE})),
                       kit_file(head, kit_idx_head(head, 8, 1, (uint32_t[]){n}))};
  struct rng rng;
  rng_init(&rng, 7);
  for (uint32_t i = 0; i < n; i++) {
    for (size_t k = 0; k < sizeof row; k++)
      row[k] = (uint8_t)rng_below(&rng, 256);
    ck_assert_int_eq(write(p.images.fd, row, sizeof row), (ssize_t)sizeof row);
    ck_assert_int_eq(write(p.labels.fd, &(uint8_t){(uint8_t)(i % 10)}, 1), 1);
  }
  return p;
}

static void assert_same_set(const struct dataset *a, const struct dataset *b) {
  enum { AT_ONCE = 61 };
  uint32_t index[AT_ONCE];
  struct rng rng;
  rng_init(&rng, 3);
  ck_assert_uint_eq(a->n, b->n);
  ck_assert_uint_eq(a->scale.n, b->scale.n);
  ck_assert_mem_eq(a->labels, b->labels, a->n * sizeof *a->labels);
  ck_assert_mem_eq(a->class_counts, b->class_counts, a->n_classes * sizeof *a->class_counts);
  ck_assert_mem_eq(a->shift, b->shift, a->n_inputs * sizeof *a->shift);
  float *x = malloc(AT_ONCE * a->n_inputs * sizeof *x), *y = malloc(AT_ONCE * a->n_inputs * sizeof *y);
  ck_assert(x != NULL && y != NULL);
  for (uint32_t i = 0; i < a->n; i++) {
    ck_assert_int_eq(dataset_gather(a, &i, 1, x), ERR_OK);
    ck_assert_int_eq(dataset_gather(b, &i, 1, y), ERR_OK);
    ck_assert_mem_eq(x, y, a->n_inputs * sizeof *x);
  }
  for (int pass = 0; pass < 20; pass++) {
    for (size_t i = 0; i < AT_ONCE; i++) /* single ones, and runs longer than the buffer */
      index[i] = pass % 2 == 0 || i == 0 ? (uint32_t)rng_below(&rng, a->n) : (uint32_t)((index[i - 1] + 1) % a->n);
    dataset_expect(b, index, AT_ONCE);
    ck_assert_int_eq(dataset_gather(a, index, AT_ONCE, x), ERR_OK);
    ck_assert_int_eq(dataset_gather(b, index, AT_ONCE, y), ERR_OK);
    ck_assert_mem_eq(x, y, AT_ONCE * a->n_inputs * sizeof *x);
  }
  free(x);
  free(y);
}

static struct data_memory memory_of(uint64_t max_bytes) {
  return (struct data_memory){.max_bytes = max_bytes, .folder = "/tmp", .disk_max_bytes = UINT64_MAX};
}

START_TEST(streamed_samples_have_the_same_bits) {
  struct contract *c = kit_image(SIDE, SIDE, 10);
  struct idx_pair p = wide_images(N_WIDE), test = wide_images(800);
  struct data_source source = {.train = pair_file(&p), .test = pair_file(&test)};
  c->scale.rule = SCALE_LOCAL;
  c->validation = 0.1;
  struct splits whole = open_ok(&source, c);
  static const uint64_t caps[] = {1600 << 10, 900 << 10};
  for (size_t i = 0; i < 2; i++) {
    struct data_memory memory = memory_of(caps[i]);
    source.memory = &memory;
    struct splits o = open_ok(&source, c);
    ck_assert_uint_le(memory.used_bytes, caps[i]);
    ck_assert_ptr_nonnull(o.train->scratch);
    ck_assert(memory.disk_bytes >= o.train->n * o.train->n_inputs && o.train->bytes == NULL);
    ck_assert((o.test->scratch != NULL) == (i == 1)); /* the largest leave memory first */
    assert_same_set(whole.train, o.train);
    assert_same_set(whole.validation, o.validation);
    assert_same_set(whole.test, o.test);
    splits_close(&o);
  }
  splits_close(&whole);
  pair_close(&p);
  pair_close(&test);
  contract_free(c);
}
END_TEST

START_TEST(streamed_tables_have_the_same_bits) {
  struct contract *c = kit_table();
  struct kit_file f = table_of(60000);
  struct data_memory memory = memory_of(700 << 10);
  struct data_source source = {.train = {f.path, NULL}};
  struct splits whole = open_ok(&source, c);
  source.memory = &memory;
  struct splits o = open_ok(&source, c);
  ck_assert_uint_le(memory.used_bytes, 700 << 10);
  ck_assert_ptr_nonnull(o.train->scratch);
  assert_same_set(whole.train, o.train);
  splits_close(&whole);
  splits_close(&o);
  kit_file_close(&f);
  contract_free(c);
}
END_TEST

START_TEST(disks_bound_what_is_streamed) {
  struct contract *c = kit_image(SIDE, SIDE, 10);
  struct idx_pair p = wide_images(N_WIDE);
  struct data_memory memory = memory_of(1 << 20), labels = memory_of(1 << 10), nowhere = memory_of(1 << 20);
  struct data_source source = {.train = pair_file(&p), .memory = &memory};
  memory.disk_max_bytes = 1 << 20;
  nowhere.folder = "/nowhere";
  kit_check(c);
  refused(&source, c, ERR_NO_SPACE, source.train.path, "raise the one or make room there");
  source.memory = &labels; /* not even what stays in memory fits */
  refused(&source, c, ERR_NO_SPACE, source.train.path, "data.memory_max_mib");
  source.memory = &nowhere;
  refused(&source, c, ERR_NOT_FOUND, source.train.path, "cannot be kept in /nowhere: it does not exist");
  pair_close(&p);
  contract_free(c);
}
END_TEST

START_TEST(files_may_change_once_they_are_read_scratch_may_not) {
  struct contract *c = kit_image(SIDE, SIDE, 10);
  struct idx_pair p = wide_images(N_WIDE);
  struct data_memory memory = memory_of(1 << 20);
  struct data_source source = {.train = pair_file(&p), .memory = &memory};
  struct splits o = open_ok(&source, c);
  float x[SIDE * SIDE];
  ck_assert_int_eq(ftruncate(p.images.fd, 0), 0);
  ck_assert_int_eq(dataset_gather(o.train, (const uint32_t[]){(uint32_t)o.train->n - 1}, 1, x), ERR_OK);
  ck_assert_uint_eq(kit_cut_scratch(), 1);
  ck_assert_int_eq(dataset_gather(o.train, (const uint32_t[]){(uint32_t)o.train->n - 1}, 1, x), ERR_IO);
  splits_close(&o);
  pair_close(&p);
  contract_free(c);
}
END_TEST

static void stream_in_little_memory(void) {
  enum { N = 30000, CAP = 4 << 20 };
  struct contract *c = kit_image(SIDE, SIDE, 10);
  struct idx_pair p = wide_images(N); /* 23.5 MB */
  struct data_memory memory = memory_of(CAP);
  struct splits o = open_ok(&(struct data_source){.train = pair_file(&p), .memory = &memory}, c);
  ck_assert_uint_le(memory.used_bytes, CAP);
  ck_assert_int_eq(dataset_read_ahead(o.train, &memory), ERR_OK);
  ck_assert_ptr_nonnull(o.train->ahead);
  ck_assert(memory.used_bytes <= CAP && memory.used_bytes > CAP - (64 << 10)); /* all of it */
  splits_close(&o);
  pair_close(&p);
  contract_free(c);
}

START_TEST(streaming_keeps_to_its_memory) {
  kit_in_little_memory(12 << 20, stream_in_little_memory);
}
END_TEST

int main(void) {
  return SUITE_RUN(
      "models/dataset", a_table_is_gathered_as_it_stands, fixed_scaling_is_the_contracts,
      local_scaling_is_measured_once_then_saved, bytes_map_to_the_range, images_are_measured_as_one_quantity,
      series_are_images_of_one_row, idx_pairs_that_do_not_fit_are_refused, csv_faults_pass_through,
      parts_cover_the_set_once, parts_must_be_asked_for_rightly, the_holdout_stays_while_data_grows,
      copies_of_a_sample_are_on_one_side, the_hook_ends_the_reading, regression_keeps_targets,
      sets_are_targets_of_each_class, anomalies_are_not_trained_on, images_can_be_reconstructed_without_classes,
      categories_are_not_scaled, streamed_samples_have_the_same_bits, streamed_tables_have_the_same_bits,
      disks_bound_what_is_streamed, files_may_change_once_they_are_read_scratch_may_not, streaming_keeps_to_its_memory,
      a_fifth_of_fashion_mnist_costs_a_fifth, fashion_mnist_by_dirichlet);
}
