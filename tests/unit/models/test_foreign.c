#include "models/exchange/foreign.h"

#include <math.h>
#include <unistd.h>

#include "models/floats.h"
#include "models/net/net.h"
#include "tests/unit/models/toy.h"
#include "tests/unit/suite.h"

enum { N_INPUTS = 4, N_CLASSES = 3, MAX_VALUES = 4096 };

static struct contract contract;
static char path[64];
static float numbers[MAX_VALUES]; /* 1, 2, 3 … */

static void setup(void) {
  contract = toy_classes(N_INPUTS, N_CLASSES);
  for (size_t i = 0; i < MAX_VALUES; i++)
    numbers[i] = (float)(i + 1);
}

static void teardown(void) {
  unlink(path);
}

/* A file of these tensors, whose values are 1, 2, 3 … */
static struct tensor_file *file_of(const struct tensor_out *tensors, size_t n, const char *ending,
                                   const struct tensor_note *notes, size_t n_notes) {
  struct tensor_out filled[16];
  struct tensor_file *f = NULL;
  struct data_place why = {0};
  for (size_t i = 0; i < n; i++) {
    filled[i] = tensors[i];
    filled[i].values = tensors[i].values != NULL ? tensors[i].values : numbers;
  }
  snprintf(path, sizeof path, "/tmp/test_foreign_%d%s", (int)getpid(), ending);
  unlink(path);
  enum tensor_format format = strcmp(ending, ".npz") == 0 ? TENSORS_NPZ : TENSORS_SAFETENSORS;
  ck_assert_int_eq(tensor_file_write(path, format, filled, n, notes, n_notes), ERR_OK);
  ck_assert_msg(tensor_file_open(path, &f, &why) == ERR_OK, "%s", why.sentence);
  return f;
}

static struct match match_of(const struct schema *s, const struct tensor_file *f, const struct map_line *map,
                             size_t n_map) {
  struct match m = {0};
  char why[MAX_REASON_BYTES] = "";
  ck_assert_msg(match_make(s, f, layout_guess(f), map, n_map, &m, why) == ERR_OK, "%s", why);
  return m;
}

static const char *theirs_of(const struct match *m, const struct schema *s, const struct tensor_file *f,
                             const char *own) {
  for (size_t i = 0; i < m->n; i++)
    if (m->rows[i].own != SIZE_MAX && strcmp(schema_tensor(s, m->rows[i].own)->name, own) == 0)
      return m->rows[i].theirs == SIZE_MAX ? "" : tensor_file_tensor(f, m->rows[i].theirs)->name;
  ck_abort_msg("no row of %s", own);
  return NULL;
}

START_TEST(layers_are_matched_in_the_order_of_their_numbers) {
  struct schema *s = toy_schema("dense 5, relu, dense 5 as mid, relu, dense classes", &contract);
  struct tensor_file *f = file_of((const struct tensor_out[]){{"net.10.bias", 1, {5}, NULL},
                                                              {"net.10.weight", 2, {5, 5}, NULL},
                                                              {"net.2.bias", 1, {5}, NULL},
                                                              {"net.2.weight", 2, {5, 4}, NULL},
                                                              {"net.20.bias", 1, {3}, NULL},
                                                              {"net.20.weight", 2, {3, 5}, NULL},
                                                              {"net.3.num_batches_tracked", 0, {0}, NULL}},
                                  7, ".safetensors", NULL, 0);
  struct match m = match_of(s, f, NULL, 0);
  ck_assert_int_eq(m.layout, LAYOUT_TORCH);
  ck_assert_uint_eq(m.count[MATCH_TAKEN], 6);
  ck_assert_uint_eq(m.count[MATCH_SKIPPED], 1);
  ck_assert_uint_eq(m.n, 7);
  ck_assert_str_eq(theirs_of(&m, s, f, "dense1.weight"), "net.2.weight");
  ck_assert_str_eq(theirs_of(&m, s, f, "mid.bias"), "net.10.bias");
  ck_assert_str_eq(theirs_of(&m, s, f, "dense3.weight"), "net.20.weight");
  match_done(&m);
  tensor_file_close(f);
  schema_free(s);
}
END_TEST

START_TEST(what_does_not_fit_is_told) {
  struct schema *s = toy_schema("dense 5, relu, dense classes", &contract);
  struct tensor_file *f = file_of((const struct tensor_out[]){{"dense1.weight", 2, {5, 9}, NULL},
                                                              {"dense1.bias", 1, {5}, NULL},
                                                              {"head.weight", 2, {7, 5}, NULL}},
                                  3, ".npz", NULL, 0);
  struct match m = match_of(s, f, NULL, 0);
  ck_assert_uint_eq(m.count[MATCH_TAKEN], 1);
  ck_assert_uint_eq(m.count[MATCH_SHAPE], 1);
  ck_assert_uint_eq(m.count[MATCH_MISSING], 2);
  ck_assert_uint_eq(m.count[MATCH_EXTRA], 1);
  match_done(&m);
  tensor_file_close(f);
  schema_free(s);
}
END_TEST

START_TEST(a_map_comes_first) {
  struct schema *s = toy_schema("dense 4, relu, dense 4 as mid, relu, dense classes", &contract);
  struct tensor_file *f = file_of((const struct tensor_out[]){{"a.weight", 2, {4, 4}, NULL},
                                                              {"a.bias", 1, {4}, NULL},
                                                              {"b.weight", 2, {4, 4}, NULL},
                                                              {"b.bias", 1, {4}, NULL}},
                                  4, ".safetensors", NULL, 0);
  static const char text[] = "# the two are swapped\n\n dense1.weight\tb.weight \r\ndense1.bias b.bias";
  struct map_line *map = NULL;
  size_t n_map = 0;
  char why[MAX_REASON_BYTES];
  ck_assert_int_eq(map_read(text, strlen(text), &map, &n_map, why), ERR_OK);
  ck_assert_uint_eq(n_map, 2);
  struct match m = match_of(s, f, map, n_map);
  ck_assert_str_eq(theirs_of(&m, s, f, "dense1.bias"), "b.bias");
  ck_assert_str_eq(theirs_of(&m, s, f, "mid.weight"), "a.weight");
  match_done(&m);
  snprintf(map[1].theirs, sizeof map[1].theirs, "c.bias");
  ck_assert_int_eq(match_make(s, f, LAYOUT_TORCH, map, 2, &m, why), ERR_NOT_FOUND);
  ck_assert_ptr_nonnull(strstr(why, "c.bias, which the file does not have"));
  map[1] = map[0];
  ck_assert_int_eq(match_make(s, f, LAYOUT_TORCH, map, 2, &m, why), ERR_EXISTS);
  free(map);
  ck_assert_int_eq(map_read("one\n", 4, &map, &n_map, why), ERR_SYNTAX);
  ck_assert_ptr_nonnull(strstr(why, "line 1"));
  ck_assert_int_eq(map_read("a b c\n", 6, &map, &n_map, why), ERR_SYNTAX);
  static const char beyond_ascii[] = "dense1.weight couche_d\xc3\xa9 \n";
  ck_assert_int_eq(map_read(beyond_ascii, sizeof beyond_ascii - 1, &map, &n_map, why), ERR_OK);
  ck_assert_str_eq(map[0].theirs, "couche_d\xc3\xa9");
  free(map);
  tensor_file_close(f);
  schema_free(s);
}
END_TEST

START_TEST(keras_has_the_outputs_last) {
  struct schema *s = toy_schema("dense 2, relu, dense classes", &contract);
  struct tensor_file *f = file_of((const struct tensor_out[]){{"sequential/dense/kernel", 2, {4, 2}, NULL},
                                                              {"sequential/dense/bias", 1, {2}, NULL},
                                                              {"sequential/dense_1/kernel", 2, {2, 3}, NULL},
                                                              {"sequential/dense_1/bias", 1, {3}, NULL}},
                                  4, ".npz", NULL, 0);
  struct match m = match_of(s, f, NULL, 0);
  struct data_place why = {0};
  float x[2 * 4 + 2 + 3 * 2 + 3];
  ck_assert_int_eq(m.layout, LAYOUT_KERAS);
  ck_assert_uint_eq(m.count[MATCH_TAKEN], 4);
  ck_assert_int_eq(match_read(&m, s, f, x, &why), ERR_OK);
  for (size_t o = 0; o < 2; o++)
    for (size_t i = 0; i < 4; i++)
      ck_assert_float_eq(x[4 * o + i], (float)(2 * i + o + 1));
  match_done(&m);
  tensor_file_close(f);
  schema_free(s);
}
END_TEST

/* A gru as Keras computes it with reset_after, from its own tensors: kernel [C][3H], recurrent [H][3H], bias [2][3H], gates z, r, h; its
 * last state. From its documentation, after Cho et al. 2014:
 *   z = σ(x·K_z + b_z + h·R_z + c_z), r alike, ĥ = tanh(x·K_h + b_h + r·(h·R_h + c_h)), h ← z·h + (1 − z)·ĥ */
static void keras_gru(size_t n_steps, size_t n_in, size_t n, const float *kernel, const float *recurrent,
                      const float *bias, const float *x, double *out_h) {
  double sums[2][3 * 8], after[8];
  for (size_t j = 0; j < n; j++)
    out_h[j] = 0;
  for (size_t t = 0; t < n_steps; t++) {
    for (size_t j = 0; j < 3 * n; j++) {
      sums[0][j] = (double)bias[j];
      sums[1][j] = (double)bias[3 * n + j];
      for (size_t i = 0; i < n_in; i++)
        sums[0][j] += (double)x[t * n_in + i] * (double)kernel[i * 3 * n + j];
      for (size_t i = 0; i < n; i++)
        sums[1][j] += out_h[i] * (double)recurrent[i * 3 * n + j];
    }
    for (size_t j = 0; j < n; j++) {
      double z = 1 / (1 + exp(-sums[0][j] - sums[1][j])), r = 1 / (1 + exp(-sums[0][n + j] - sums[1][n + j]));
      after[j] = z * out_h[j] + (1 - z) * tanh(sums[0][2 * n + j] + r * sums[1][2 * n + j]);
    }
    memcpy(out_h, after, n * sizeof *after);
  }
}

static struct contract series_of(uint32_t n_steps, uint32_t n_in, size_t n_classes) {
  struct contract c = contract;
  c.n_features = 0;
  c.height = 1;
  c.width = n_steps;
  c.channels = n_in;
  c.n_classes = n_classes;
  return c;
}

/* The state of our gru, which the dense layer of ones and zeros behind it gives back. */
static void own_gru(const struct schema *s, const float *w, const float *x, size_t n_x, size_t n, float *out_h) {
  const struct net_config config = {.max_batch = 1, .batch = 1, .cpu = cpu_detect()};
  struct net *net = NULL;
  float loaded[MAX_VALUES];
  ck_assert_int_eq(net_open(schema_arch(s), &config, &net), ERR_OK);
  ck_assert(net_floats(net) <= MAX_VALUES);
  memcpy(loaded, w, schema_parameters(s) * sizeof *w);
  net_load(net, loaded);
  memcpy(net_input(net), x, n_x * sizeof *x);
  memcpy(out_h, net_forward(net, loaded, 1), n * sizeof *out_h);
  net_free(net);
}

/* One step with one state. By hand: z = σ(ln 3) = 0.75, r = σ(0) = 0.5, ĥ = tanh(1 + 0.5 · 2) = 0.9640276, and from 0 the
 * state is 0.25 · 0.9640276. */
START_TEST(a_gru_of_keras_says_what_it_says_there) {
  static const float kernel[] = {0, 0, 1}, recurrent[] = {0, 0, 0}, bias[] = {1.0986123F, 0, 0, 0, 0, 2};
  static const float eye[] = {1, 0}, none[] = {0, 0}, x[] = {1};
  struct contract c = series_of(1, 1, 2);
  struct schema *s = toy_schema("gru 1, dense classes", &c);
  struct tensor_file *f = file_of((const struct tensor_out[]){{"gru/gru_cell/kernel", 2, {1, 3}, kernel},
                                                              {"gru/gru_cell/recurrent_kernel", 2, {1, 3}, recurrent},
                                                              {"gru/gru_cell/bias", 2, {2, 3}, bias},
                                                              {"dense/kernel", 2, {1, 2}, eye},
                                                              {"dense/bias", 1, {2}, none}},
                                  5, ".npz", NULL, 0);
  struct match m = match_of(s, f, NULL, 0);
  struct data_place why = {0};
  float w[MAX_VALUES], h[2];
  double there;
  ck_assert_int_eq(m.layout, LAYOUT_KERAS);
  ck_assert(m.count[MATCH_TAKEN] == 6 && m.count[MATCH_EXTRA] == 0 && m.n == 6);
  ck_assert_str_eq(theirs_of(&m, s, f, "gru1.bias_hh_l0"), "gru/gru_cell/bias");
  ck_assert_int_eq(match_read(&m, s, f, w, &why), ERR_OK);
  own_gru(s, w, x, 1, 2, h);
  ck_assert_float_eq_tol(h[0], 0.2410069F, 1e-6F);
  keras_gru(1, 1, 1, kernel, recurrent, bias, x, &there);
  ck_assert_double_eq_tol(there, 0.2410069, 1e-6);
  match_done(&m);
  tensor_file_close(f);
  schema_free(s);
}
END_TEST

/* Two layers over five steps, by names and in the order of the file, and by a map; and back. */
START_TEST(grus_of_keras_are_turned_both_ways) {
  enum { STEPS = 5, N_IN = 3, N = 4, N_GATES = 3 * N, N_KERNEL = N_IN * N_GATES, N_RECURRENT = N * N_GATES };
  enum { N_BIAS = 2 * N_GATES, N_X = STEPS * N_IN };
  static float kernel[N_KERNEL], recurrent[N_RECURRENT], bias[N_BIAS], head[N * N], none[N], x[N_X];
  struct rng rng;
  rng_init(&rng, 8);
  float *const drawn[] = {kernel, recurrent, bias, x};
  const size_t n_drawn[] = {N_KERNEL, N_RECURRENT, N_BIAS, N_X};
  for (size_t i = 0; i < 4; i++)
    floats_draw(drawn[i], n_drawn[i], 1, &rng);
  for (size_t i = 0; i < N; i++)
    head[i * N + i] = 1;
  struct contract c = series_of(STEPS, N_IN, N);
  struct schema *s = toy_schema("gru 4 as cell, dense classes as head", &c);
  static const char *const names[][5] = {
      {"cell/kernel", "cell/recurrent_kernel", "cell/bias", "head/kernel", "head/bias"},
      {"a/rnn/kernel:0", "a/rnn/recurrent_kernel:0", "a/rnn/bias:0", "a/z/kernel:0", "a/z/bias:0"}};
  double there[N];
  keras_gru(STEPS, N_IN, N, kernel, recurrent, bias, x, there);
  for (size_t k = 0; k < 2; k++) {
    const struct tensor_out tensors[] = {{names[k][0], 2, {N_IN, N_GATES}, kernel},
                                         {names[k][1], 2, {N, N_GATES}, recurrent},
                                         {names[k][2], 2, {2, N_GATES}, bias},
                                         {names[k][3], 2, {N, N}, head},
                                         {names[k][4], 1, {N}, none}};
    struct tensor_file *f = file_of(tensors, 5, ".safetensors", NULL, 0);
    struct map_line map = {"cell.bias_ih_l0", ""};
    snprintf(map.theirs, sizeof map.theirs, "%s", names[k][2]);
    for (size_t n_map = 0; n_map < 2; n_map++) {
      struct match m = match_of(s, f, &map, n_map);
      struct data_place why = {0};
      float w[MAX_VALUES], h[N], back[N_RECURRENT];
      ck_assert_uint_eq(m.count[MATCH_TAKEN], 6);
      ck_assert_int_eq(match_read(&m, s, f, w, &why), ERR_OK);
      own_gru(s, w, x, N_X, N, h);
      for (size_t j = 0; j < N; j++)
        ck_assert_double_eq_tol((double)h[j], there[j], 1e-5);
      for (size_t i = 0; i < 4; i++) { /* kernels, and the two halves of the bias */
        struct foreign_place p;
        foreign_place(s, i, LAYOUT_KERAS, &p);
        foreign_write(&p, w + schema_tensor(s, i)->offset, back);
        ck_assert_str_eq(p.name, names[0][i < 3 ? i : 2]);
        ck_assert_uint_eq(p.part, i == 3);
        ck_assert(p.foreign_rank == 2 && p.foreign_size[1] == N_GATES &&
                  p.foreign_size[0] == (i == 0   ? N_IN
                                        : i == 1 ? N
                                                 : 2));
        ck_assert_mem_eq(back, tensors[i < 3 ? i : 2].values + p.part * p.n_values, p.n_values * sizeof *back);
      }
      match_done(&m);
    }
    tensor_file_close(f);
  }
  schema_free(s);
}
END_TEST

/* Without reset_after it is another layer. */
START_TEST(a_gru_without_reset_after_does_not_fit) {
  struct contract c = series_of(2, 1, 2);
  struct schema *s = toy_schema("gru 2, dense classes", &c);
  struct tensor_file *f = file_of((const struct tensor_out[]){{"gru1/kernel", 2, {1, 6}, NULL},
                                                              {"gru1/recurrent_kernel", 2, {2, 6}, NULL},
                                                              {"gru1/bias", 1, {6}, NULL},
                                                              {"dense1/kernel", 2, {2, 2}, NULL},
                                                              {"dense1/bias", 1, {2}, NULL}},
                                  5, ".npz", NULL, 0);
  struct match m = match_of(s, f, NULL, 0);
  ck_assert(m.count[MATCH_TAKEN] == 4 && m.count[MATCH_SHAPE] == 2);
  match_done(&m);
  tensor_file_close(f);
  schema_free(s);
}
END_TEST

/* out [c][h][w] of in [h][w][c]. */
static size_t plane_index(const struct contract *c, size_t h, size_t w, size_t k) {
  return (k * c->height + h) * c->width + w;
}

START_TEST(after_an_image_torch_has_channels_first) {
  struct contract image = contract;
  image.n_features = 0;
  image.height = 2;
  image.width = 3;
  image.channels = 4;
  struct schema *s = toy_schema("dense 5, relu, dense classes", &image);
  struct foreign_place p;
  float torch[5 * 24], back[5 * 24];
  foreign_place(s, 0, LAYOUT_TORCH, &p);
  ck_assert_uint_eq(p.foreign_rank, 2);
  ck_assert_uint_eq(p.foreign_size[1], 24);
  foreign_write(&p, numbers, torch);
  for (size_t o = 0; o < 5; o++)
    for (size_t at = 0; at < 24; at++) {
      size_t h = at / 12, w = at / 4 % 3, k = at % 4;
      ck_assert_float_eq(torch[24 * o + plane_index(&image, h, w, k)], numbers[24 * o + at]);
    }
  foreign_read(&p, torch, back);
  ck_assert_mem_eq(back, numbers, sizeof back);
  foreign_place(s, 2, LAYOUT_TORCH, &p); /* the second layer reads no image */
  foreign_write(&p, numbers, torch);
  ck_assert_mem_eq(torch, numbers, 15 * sizeof *torch);
  schema_free(s);
}
END_TEST

/* Where [o][h][w][i] of a convolution stands in the other program's order. */
static size_t torch_index(const uint32_t *n, size_t o, size_t h, size_t w, size_t i) {
  return ((o * n[3] + i) * n[1] + h) * n[2] + w;
}

static size_t keras_index(const uint32_t *n, size_t o, size_t h, size_t w, size_t i) {
  return ((h * n[2] + w) * n[3] + i) * n[0] + o;
}

static size_t keras_depthwise_index(const uint32_t *n, size_t o, size_t h, size_t w, size_t i) {
  return ((h * n[2] + w) * n[0] + o) * n[3] + i;
}

START_TEST(kernels_are_turned) {
  static const struct {
    const char *word;
    uint32_t height;
    enum layout layout;
    uint32_t rank;
    uint64_t size[4];
    size_t (*index)(const uint32_t *n, size_t o, size_t h, size_t w, size_t i);
    const char *name;
  } cases[] = {
      {"conv 3x2x5", 6, LAYOUT_TORCH, 4, {5, 4, 3, 2}, torch_index, "conv1.weight"},
      {"conv 3x2x5", 6, LAYOUT_KERAS, 4, {3, 2, 4, 5}, keras_index, "conv1/kernel"},
      {"conv1d 3x5", 1, LAYOUT_TORCH, 3, {5, 4, 3}, torch_index, "conv1.weight"},
      {"conv1d 3x5", 1, LAYOUT_KERAS, 3, {3, 4, 5}, keras_index, "conv1/kernel"},
      {"depthwise 3x2", 6, LAYOUT_TORCH, 4, {4, 1, 3, 2}, torch_index, "depthwise1.weight"},
      {"depthwise 3x2", 6, LAYOUT_KERAS, 4, {3, 2, 4, 1}, keras_depthwise_index, "depthwise1/depthwise_kernel"},
  };
  struct contract image = contract;
  image.n_features = 0;
  image.width = 6;
  image.channels = 4;
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    char arch[64];
    struct foreign_place p;
    float there[128];
    image.height = cases[c].height;
    snprintf(arch, sizeof arch, "%s, relu, dense classes", cases[c].word);
    struct schema *s = toy_schema(arch, &image);
    const uint32_t *n = schema_tensor(s, 0)->shape;
    foreign_place(s, 0, cases[c].layout, &p);
    ck_assert_str_eq(p.name, cases[c].name);
    ck_assert_uint_eq(p.foreign_rank, cases[c].rank);
    ck_assert_mem_eq(p.foreign_size, cases[c].size, cases[c].rank * sizeof(uint64_t));
    foreign_write(&p, numbers, there);
    for (size_t at = 0; at < schema_tensor(s, 0)->n_values; at++) {
      size_t i = at % n[3], w = at / n[3] % n[2], h = at / n[3] / n[2] % n[1], o = at / n[3] / n[2] / n[1];
      ck_assert_float_eq(there[cases[c].index(n, o, h, w, i)], numbers[at]);
    }
    schema_free(s);
  }
}
END_TEST

START_TEST(every_layout_goes_there_and_back) {
  struct contract image = contract;
  image.n_features = 0;
  image.height = image.width = 6;
  image.channels = 3;
  struct schema *s = toy_schema("conv 3x3x4, relu, depthwise 2x2, pool 2, dense 5, relu, dense classes", &image);
  for (size_t i = 0; i < schema_tensors(s); i++)
    for (int layout = 0; layout < N_LAYOUTS; layout++) {
      struct foreign_place p;
      float there[512], back[512];
      size_t n = schema_tensor(s, i)->n_values;
      foreign_place(s, i, (enum layout)layout, &p);
      foreign_write(&p, numbers, there);
      foreign_read(&p, there, back);
      ck_assert_mem_eq(back, numbers, n * sizeof *back);
    }
  schema_free(s);
}
END_TEST

START_TEST(the_layout_is_guessed) {
  static const struct tensor_out plain = {"a.weight", 1, {2}, NULL}, keras = {"dense/kernel:0", 1, {2}, NULL};
  static const struct {
    const struct tensor_out *tensor;
    struct tensor_note note;
    enum layout layout;
  } cases[] = {{&plain, {"x", "y"}, LAYOUT_TORCH},
               {&keras, {"x", "y"}, LAYOUT_KERAS},
               {&keras, {"format", "pt"}, LAYOUT_TORCH},
               {&plain, {"format", "tf"}, LAYOUT_KERAS},
               {&plain, {"layout", "starling"}, LAYOUT_STARLING}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct tensor_file *f = file_of(cases[i].tensor, 1, ".safetensors", &cases[i].note, 1);
    ck_assert_int_eq(layout_guess(f), cases[i].layout);
    tensor_file_close(f);
  }
}
END_TEST

int main(void) {
  TCase *tcase = tcase_create("foreign");
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_test(tcase, layers_are_matched_in_the_order_of_their_numbers);
  tcase_add_test(tcase, what_does_not_fit_is_told);
  tcase_add_test(tcase, a_map_comes_first);
  tcase_add_test(tcase, keras_has_the_outputs_last);
  tcase_add_test(tcase, a_gru_of_keras_says_what_it_says_there);
  tcase_add_test(tcase, grus_of_keras_are_turned_both_ways);
  tcase_add_test(tcase, a_gru_without_reset_after_does_not_fit);
  tcase_add_test(tcase, after_an_image_torch_has_channels_first);
  tcase_add_test(tcase, kernels_are_turned);
  tcase_add_test(tcase, every_layout_goes_there_and_back);
  tcase_add_test(tcase, the_layout_is_guessed);
  return suite_run_case("foreign", tcase);
}
