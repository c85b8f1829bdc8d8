#include "models/formats/csv_reader.h"

#include <stdlib.h>

#include "tests/unit/models/data_kit.h"
#include "tests/unit/suite.h"

enum { MAX_KEPT = 8 };

struct kept {
  size_t n, n_inputs;
  float inputs[MAX_KEPT][8];
  uint16_t labels[MAX_KEPT];
  float targets[MAX_KEPT];
};

static enum err keep(void *context, const struct sample *s) {
  struct kept *k = context;
  ck_assert_ptr_null(s->bytes);
  if (k->n < MAX_KEPT) {
    memcpy(k->inputs[k->n], s->floats, k->n_inputs * sizeof(float));
    k->labels[k->n] = s->label;
    k->targets[k->n] = s->targets ? s->targets[0] : 0;
  }
  k->n++;
  return ERR_OK;
}

static enum err read_text(const void *text, size_t n, const struct contract *c, struct kept *out, size_t *out_ignored,
                          struct data_place *why) {
  struct kit_file f = kit_file(text, n);
  *out = (struct kept){.n_inputs = contract_n_inputs(c)};
  enum err e = csv_read(f.path, c, &(struct sample_sink){keep, out, NULL}, out_ignored, why);
  if (e != ERR_OK)
    ck_assert_str_eq(why->path, f.path);
  kit_file_close(&f);
  return e;
}

static void expect_two_rows(const char *text, size_t n_ignored) {
  struct contract *c = kit_table();
  struct kept k;
  struct data_place why = {0};
  size_t ignored = 99;
  enum err e = read_text(text, strlen(text), c, &k, &ignored, &why);
  ck_assert_msg(e == ERR_OK, "%s: %s", text, why.sentence);
  ck_assert_uint_eq(k.n, 2);
  ck_assert(k.inputs[0][0] == 1.5f && k.inputs[0][1] == -20);
  ck_assert(k.inputs[1][0] == 2 && k.inputs[1][1] == 1e3f);
  ck_assert_uint_eq(k.labels[0], 2);
  ck_assert_uint_eq(k.labels[1], 0);
  ck_assert_uint_eq(ignored, n_ignored);
  contract_free(c);
}

START_TEST(one_table_in_many_writings) {
  static const struct {
    const char *text;
    size_t n_ignored;
  } table[] = {
      {"force_N,temp_C,verdict\n1.5,-20,dent\n2,1e3,ok\n", 0},
      {"force_N,temp_C,verdict\n1.5,-20,dent\n2,1e3,ok", 0},
      {"force_N,temp_C,verdict\r\n1.5,-20,dent\r\n2,1e3,ok\r\n", 0},
      {"\xef\xbb\xbf"
       "force_N,temp_C,verdict\n1.5,-20,dent\n2,1e3,ok\n",
       0},
      {"\xef\xbb\xbf"
       "\"force_N\",\"temp_C\",\"verdict\"\n\"1.5\",\"-20\",\"dent\"\n2,1e3,\"ok\"\n",
       0},
      {"verdict,temp_C,force_N\ndent,-20,1.5\nok,1e3,2\n", 0},
      {"id,temp_C,note,verdict,force_N\n1,-20,\"a, \"\"b\"\"\nc\",dent,1.5\n2,1e3,,ok,2\n", 2},
      {" force_N , temp_C,verdict\n 1.5, -20 ,dent\n2 ,1e3, ok\n", 0},
      {"force_N,temp_C,verdict\n\n1.5,-20,dent\n\n\n2,1e3,ok\n\n", 0},
      {"force_N,temp_C,verdict\r1.5,-20,dent\r2,1e3,ok\r", 0},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
    expect_two_rows(table[i].text, table[i].n_ignored);
}
END_TEST

START_TEST(the_label_may_be_a_column_number) {
  struct contract *c = kit_table();
  struct kept k;
  struct data_place why;
  size_t ignored;
  static const char text[] = "id,class,force_N,temp_C\n1,dent,3,4\n";
  snprintf(c->label, sizeof c->label, "2");
  ck_assert_int_eq(read_text(text, strlen(text), c, &k, &ignored, &why), ERR_OK);
  ck_assert_uint_eq(k.labels[0], 2);
  ck_assert_uint_eq(ignored, 1);
  static const char *const wrong[] = {"0", "5", "1.5", "3"}; /* 3 is a feature */
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    snprintf(c->label, sizeof c->label, "%s", wrong[i]);
    ck_assert_int_eq(read_text(text, strlen(text), c, &k, &ignored, &why), ERR_SYNTAX);
    ck_assert_ptr_nonnull(strstr(why.sentence, "no label column"));
  }
  contract_free(c);
}
END_TEST

START_TEST(regression_reads_targets) {
  struct contract *c = contract_new();
  c->task = TASK_REGRESS;
  c->loss = LOSS_MEAN_SQUARED_ERROR;
  snprintf(c->label, sizeof c->label, "y");
  ck_assert_int_eq(contract_add_feature(c, "x", NULL), ERR_OK);
  kit_check(c);
  struct kept k;
  struct data_place why;
  size_t ignored;
  ck_assert_int_eq(read_text("x,y\n1,-2.5\n", 11, c, &k, &ignored, &why), ERR_OK);
  ck_assert(k.targets[0] == -2.5f);
  ck_assert_int_eq(read_text("x,y\n1,\n", 7, c, &k, &ignored, &why), ERR_SYNTAX);
  ck_assert_uint_eq(why.line, 2);
  ck_assert_uint_eq(why.column, 2);
  contract_free(c);
}
END_TEST

static struct contract *sets(const char *label) {
  struct contract *c = kit_table();
  c->task = TASK_MULTILABEL;
  c->loss = LOSS_BINARY_CROSS_ENTROPY;
  snprintf(c->label, sizeof c->label, "%s", label);
  kit_check(c);
  return c;
}

struct sets_kept {
  size_t n;
  char marks[MAX_KEPT][4]; /* "101" */
};

static enum err keep_set(void *context, const struct sample *s) {
  struct sets_kept *k = context;
  for (size_t c = 0; c < 3; c++)
    k->marks[k->n][c] = s->targets[c] > 0 ? '1' : '0';
  k->n++;
  return ERR_OK;
}

static enum err read_sets(const char *text, const char *label, struct sets_kept *out, struct data_place *why) {
  struct contract *c = sets(label);
  struct kit_file f = kit_text(text);
  size_t ignored;
  *out = (struct sets_kept){0};
  enum err e = csv_read(f.path, c, &(struct sample_sink){keep_set, out, NULL}, &ignored, why);
  kit_file_close(&f);
  contract_free(c);
  return e;
}

START_TEST(sets_of_classes_are_read_in_both_writings) {
  static const struct {
    const char *label, *text;
  } table[] = {
      {"", "force_N,scratch,temp_C,ok,dent\n1,0,2,1,1\n3,1,4,0,0\n5,0,6,0,0\n"},
      {"tags", "force_N,temp_C,tags\n1,2,dent;ok\n3,4,scratch\n5,6,\n"},
      {"tags", "tags,force_N,temp_C\n\"ok ; dent; ok\",1,2\n ;scratch; ,3,4\n\"\",5,6\n"},
  };
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    struct sets_kept k;
    struct data_place why = {0};
    enum err e = read_sets(table[i].text, table[i].label, &k, &why);
    ck_assert_msg(e == ERR_OK, "%zu: %s", i, why.sentence);
    ck_assert_uint_eq(k.n, 3);
    ck_assert_str_eq(k.marks[0], "101");
    ck_assert_str_eq(k.marks[1], "010");
    ck_assert_str_eq(k.marks[2], "000");
  }
}
END_TEST

START_TEST(faults_of_sets_have_line_and_column) {
  static const struct {
    const char *label, *text;
    enum err e;
    uint64_t line, column;
    const char *says;
  } table[] = {
      {"", "force_N,temp_C,ok,scratch\n", ERR_SYNTAX, 1, 0, "no column \"dent\""},
      {"", "force_N,temp_C,ok,scratch,dent\n1,2,1,0,2\n", ERR_RANGE, 2, 5, "class \"dent\" is 2; write 1"},
      {"", "force_N,temp_C,ok,scratch,dent\n1,2,1,,1\n", ERR_SYNTAX, 2, 4, "\"scratch\" is missing"},
      {"", "force_N,temp_C,ok,scratch,dent,ok\n1,2,1,0,1,0\n", ERR_SYNTAX, 1, 6, "stands twice"},
      {"tags", "force_N,temp_C,tags\n1,2,ok\n1,2,ok;bent\n", ERR_RANGE, 3, 3, "class \"bent\" is not in the contract"},
      {"tags", "force_N,temp_C\n1,2\n", ERR_SYNTAX, 1, 0, "no label column \"tags\""},
  };
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    struct sets_kept k;
    struct data_place why = {0};
    ck_assert_int_eq(read_sets(table[i].text, table[i].label, &k, &why), table[i].e);
    ck_assert_msg(strstr(why.sentence, table[i].says) != NULL, "%zu: %s", i, why.sentence);
    ck_assert_uint_eq(why.line, table[i].line);
    ck_assert_uint_eq(why.column, table[i].column);
  }
}
END_TEST

/* What is normal may be unknown of a row, or of a whole file. */
START_TEST(what_is_reconstructed_need_not_be_labelled) {
  struct contract *c = kit_table();
  struct kept k;
  struct data_place why = {0};
  size_t ignored;
  c->task = TASK_RECONSTRUCT;
  c->loss = LOSS_MEAN_SQUARED_ERROR;
  kit_check(c);
  static const char labelled[] = "force_N,temp_C,verdict\n1,2,ok\n3,4,\n5,6,dent\n7,8,NA\n",
                    plain[] = "temp_C,force_N\n1,2\n", wrong[] = "force_N,temp_C,verdict\n1,2,bent\n";
  ck_assert_int_eq(read_text(labelled, strlen(labelled), c, &k, &ignored, &why), ERR_OK);
  ck_assert(k.labels[0] == 0 && k.labels[1] == NO_LABEL && k.labels[2] == 2 && k.labels[3] == NO_LABEL);
  ck_assert_int_eq(read_text(plain, strlen(plain), c, &k, &ignored, &why), ERR_OK);
  ck_assert(k.n == 1 && k.labels[0] == NO_LABEL && k.inputs[0][0] == 2);
  ck_assert_int_eq(read_text(wrong, strlen(wrong), c, &k, &ignored, &why), ERR_RANGE);
  contract_free(c);
}
END_TEST

/* line: a, b, missing, other; force_N a number with a policy; temp_C as the contract says. */
static struct contract *typed_table(void) {
  static const char *const lines[] = {"a", "b", CATEGORY_MISSING, CATEGORY_OTHER};
  struct contract *c = contract_new();
  ck_assert_ptr_nonnull(c);
  snprintf(c->label, sizeof c->label, "y");
  c->task = TASK_REGRESS;
  c->loss = LOSS_MEAN_SQUARED_ERROR;
  ck_assert_int_eq(contract_add_feature(c, "force_N", NULL), ERR_OK);
  ck_assert_int_eq(contract_add_feature(c, "line", NULL), ERR_OK);
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
    ck_assert_int_eq(contract_add_category(c, lines[i]), ERR_OK);
  ck_assert_int_eq(contract_add_feature(c, "temp_C", NULL), ERR_OK);
  ck_assert_int_eq(scale_init(&c->scale, SCALE_FIXED, 2), ERR_OK);
  c->scale.mean[0] = 14;
  c->scale.mean[1] = 21.5;
  c->missing.rule = MISSING_MEAN;
  c->features[0].missing = (struct missing){MISSING_NUMBER, -1};
  return c;
}

START_TEST(categories_are_inputs_and_blanks_are_filled) {
  static const char text[] = "temp_C,line,force_N,y\n1,a,2,0\n,b,,0\nNA,,3,0\n4,\"z\",5,0\n";
  static const float expected[4][6] = {
      {2, 1, 0, 0, 0, 1}, {-1, 0, 1, 0, 0, 21.5f}, {3, 0, 0, 1, 0, 21.5f}, {5, 0, 0, 0, 1, 4}};
  struct contract *c = typed_table();
  struct kept k;
  struct data_place why = {0};
  size_t ignored = 0;
  kit_check(c);
  ck_assert_uint_eq(contract_n_inputs(c), 6);
  ck_assert_msg(read_text(text, strlen(text), c, &k, &ignored, &why) == ERR_OK, "%s", why.sentence);
  for (size_t i = 0; i < 4; i++)
    ck_assert_mem_eq(k.inputs[i], expected[i], sizeof expected[i]);
  contract_free(c);
}
END_TEST

START_TEST(unknown_categories_and_blanks_are_refused) {
  static const struct {
    const char *text, *says;
    enum err e;
    uint64_t column;
  } table[] = {
      {"force_N,line,temp_C,y\n1,c,2,0\n",
       "\"line\" is c, none of its 2 categories; correct it, or list it or \"other\"", ERR_RANGE, 2},
      {"force_N,line,temp_C,y\n1,,2,0\n", "\"line\" is missing; fill it in, or list the category \"missing\"",
       ERR_SYNTAX, 2},
      {"force_N,line,temp_C,y\n1,a,,0\n", "\"temp_C\" is missing; fill it in or leave the row out", ERR_SYNTAX, 3},
  };
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    struct contract *c = typed_table();
    struct kept k;
    struct data_place why = {0};
    size_t ignored = 0;
    c->features[1].n_categories = 2;
    c->features[2].input = 3;
    c->features[2].missing.rule = MISSING_REFUSED; /* comes before the contract's */
    kit_check(c);
    ck_assert_int_eq(read_text(table[i].text, strlen(table[i].text), c, &k, &ignored, &why), table[i].e);
    ck_assert_msg(strstr(why.sentence, table[i].says) != NULL, "%s", why.sentence);
    ck_assert(why.line == 2 && why.column == table[i].column);
    contract_free(c);
  }
}
END_TEST

#define HEAD "force_N,temp_C,verdict\n"

START_TEST(faults_have_line_column_and_remedy) {
  static const struct {
    const char *text;
    enum err e;
    uint64_t line, column;
    const char *says;
  } table[] = {
      {"", ERR_TRUNCATED, 0, 0, "it is empty"},
      {"\n\n", ERR_TRUNCATED, 0, 0, "it is empty"},
      {"\xef\xbb\xbf", ERR_TRUNCATED, 0, 0, "it is empty"},
      {HEAD, ERR_TRUNCATED, 0, 0, "a header and no rows"},
      {"force_N,temp_C,verdict", ERR_TRUNCATED, 0, 0, "a header and no rows"},
      {"force_N,verdict\n1,ok\n", ERR_SYNTAX, 1, 0, "no column \"temp_C\"; add it"},
      {"force_N,temp_C\n1,2\n", ERR_SYNTAX, 1, 0, "no label column \"verdict\""},
      {"force_N;temp_C;verdict\n1;2;ok\n", ERR_SYNTAX, 1, 0, "separated by commas?"},
      {"force_N,temp_C,force_N,verdict\n1,2,3,ok\n", ERR_SYNTAX, 1, 3, "\"force_N\" stands twice"},
      {"verdict,force_N,temp_C,verdict\nok,1,2,ok\n", ERR_SYNTAX, 1, 4, "\"verdict\" stands twice"},
      {HEAD "1,2,ok\n1,2\n", ERR_SYNTAX, 3, 3, "the row has 2 fields, the header 3"},
      {HEAD "1,2,ok\n1,2,ok,3\n", ERR_SYNTAX, 3, 4, "more fields than the header's 3"},
      {HEAD "1,5,2,ok\n", ERR_SYNTAX, 2, 4, "write decimals with a point"},
      {HEAD "1,\"2,5\",ok\n", ERR_SYNTAX, 2, 2, "\"temp_C\" is 2,5; write decimals with a point"},
      {HEAD "1,,ok\n", ERR_SYNTAX, 2, 2, "\"temp_C\" is missing"},
      {HEAD "1,NaN,ok\n", ERR_SYNTAX, 2, 2, "\"temp_C\" is missing"},
      {HEAD "N/A,2,ok\n", ERR_SYNTAX, 2, 1, "\"force_N\" is missing"},
      {HEAD "1,2,\n", ERR_SYNTAX, 2, 3, "\"verdict\" is missing"},
      {HEAD "inf,2,ok\n", ERR_SYNTAX, 2, 1, "\"force_N\" is inf, not a number"},
      {HEAD "0x10,2,ok\n", ERR_SYNTAX, 2, 1, "not a number"},
      {HEAD "1e39,2,ok\n", ERR_RANGE, 2, 1, "too large"},
      {HEAD "1e999,2,ok\n", ERR_RANGE, 2, 1, "too large"},
      {HEAD "1,2,ok\n\n1,2,Ok\n", ERR_RANGE, 4, 3, "class \"Ok\" is not in the contract"},
      {HEAD "1,2,a\x1b[31m\n", ERR_RANGE, 2, 3, "class \"a?[31m\""},
      {HEAD "1,2,\"ok\n1,2,ok\n", ERR_SYNTAX, 2, 3, "inside a quoted field"},
      {HEAD "1,2,ok\n1,2\"2\",ok\n", ERR_SYNTAX, 3, 2, "a quote is out of place"},
      {HEAD "1,2,\"o\"k\n", ERR_SYNTAX, 2, 3, "a quote is out of place"},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    struct contract *c = kit_table();
    struct kept k;
    struct data_place why = {0};
    size_t ignored = 99;
    enum err e = read_text(table[i].text, strlen(table[i].text), c, &k, &ignored, &why);
    ck_assert_msg(e == table[i].e, "%zu %s: %s", i, err_name(e), why.sentence);
    ck_assert_msg(why.line == table[i].line && why.column == table[i].column, "%zu at %d:%d: %s", i, (int)why.line,
                  (int)why.column, why.sentence);
    ck_assert_msg(strstr(why.sentence, table[i].says) != NULL, "%zu: %s", i, why.sentence);
    ck_assert_uint_eq(ignored, 99);
    contract_free(c);
  }
}
END_TEST

START_TEST(values_outside_the_range_are_refused) {
  struct contract *c = kit_table();
  struct kept k;
  struct data_place why;
  size_t ignored;
  char text[MAX_REASON_BYTES + MAX_PATH_BYTES];
  c->range_lo = 0;
  c->range_hi = 1;
  ck_assert_int_eq(read_text(HEAD "0,1,ok\n", strlen(HEAD) + 7, c, &k, &ignored, &why), ERR_OK);
  ck_assert_int_eq(read_text(HEAD "0,255,ok\n", strlen(HEAD) + 9, c, &k, &ignored, &why), ERR_RANGE);
  data_place_text(&why, text, sizeof text);
  ck_assert_ptr_nonnull(strstr(text, ":2:2: \"temp_C\" is 255, the contract allows 0 to 1; check its unit"));
  contract_free(c);
}
END_TEST

START_TEST(nul_bytes_are_refused) {
  struct contract *c = kit_table();
  struct kept k;
  struct data_place why;
  size_t ignored;
  static const char text[] = HEAD "1,2,ok\n1,\0002,ok\n";
  ck_assert_int_eq(read_text(text, sizeof text - 1, c, &k, &ignored, &why), ERR_SYNTAX);
  ck_assert_uint_eq(why.line, 3);
  ck_assert_ptr_nonnull(strstr(why.sentence, "NUL"));
  contract_free(c);
}
END_TEST

/* 64 MiB after one open quote must not be gathered. */
static void an_open_quote_in_a_large_file(void) {
  struct contract *c = kit_table();
  struct kit_file f = kit_text(HEAD "1,2,\"");
  static char block[1 << 16];
  memset(block, 'x', sizeof block);
  for (int i = 0; i < 1024; i++)
    ck_assert_int_eq(write(f.fd, block, sizeof block), (ssize_t)sizeof block);
  struct kept k = {.n_inputs = 2};
  struct data_place why;
  size_t ignored;
  ck_assert_int_eq(csv_read(f.path, c, &(struct sample_sink){keep, &k, NULL}, &ignored, &why), ERR_LIMIT);
  ck_assert_uint_eq(why.line, 2);
  ck_assert_uint_eq(why.column, 3);
  ck_assert_ptr_nonnull(strstr(why.sentence, "longer than 4096 bytes; is its quote closed?"));
  kit_file_close(&f);
  contract_free(c);
}

START_TEST(fields_and_columns_have_a_limit) {
  kit_in_little_memory(4 << 20, an_open_quote_in_a_large_file);
  struct contract *c = kit_table();
  struct kept k;
  struct data_place why;
  size_t ignored;
  size_t n = MAX_CSV_COLUMNS * 2 + 2;
  char *columns = malloc(n);
  ck_assert_ptr_nonnull(columns);
  for (size_t i = 0; i < n; i++)
    columns[i] = i % 2 == 0 ? 'c' : ',';
  ck_assert_int_eq(read_text(columns, n, c, &k, &ignored, &why), ERR_LIMIT);
  ck_assert_uint_eq(why.line, 1);
  ck_assert_uint_eq(why.column, MAX_CSV_COLUMNS + 1);
  memset(columns, 'c', n);
  ck_assert_int_eq(read_text(columns, n, c, &k, &ignored, &why), ERR_LIMIT);
  ck_assert_ptr_nonnull(strstr(why.sentence, "longer than 4096"));
  free(columns);
  contract_free(c);
}
END_TEST

START_TEST(images_have_no_columns) {
  struct contract *c = kit_image(2, 2, 3);
  struct kept k;
  struct data_place why;
  size_t ignored;
  ck_assert_int_eq(read_text(HEAD, strlen(HEAD), c, &k, &ignored, &why), ERR_RANGE);
  ck_assert_ptr_nonnull(strstr(why.sentence, "needs `features`"));
  contract_free(c);
}
END_TEST

static enum err no_room(void *context, const struct sample *s) {
  (void)context, (void)s;
  return ERR_NO_MEMORY;
}

START_TEST(the_sink_ends_the_reading) {
  struct contract *c = kit_table();
  struct kit_file f = kit_text(HEAD "1,2,ok\n1,2,ok\n");
  struct data_place why;
  size_t ignored;
  ck_assert_int_eq(csv_read(f.path, c, &(struct sample_sink){no_room, NULL, NULL}, &ignored, &why), ERR_NO_MEMORY);
  ck_assert_uint_eq(why.line, 2);
  kit_file_close(&f);
  contract_free(c);
}
END_TEST

START_TEST(lines_longer_than_the_buffer) {
  struct contract *c = kit_table();
  enum { NOTE = 3000, N_NOTES = 20 };
  char *text = malloc(2 * N_NOTES * (NOTE + 4) + 200);
  ck_assert_ptr_nonnull(text);
  char *to = text;
  for (int row = 0; row < 2; row++) {
    for (int i = 0; i < N_NOTES; i++) {
      memset(to, 'n', NOTE);
      to += NOTE;
      *to++ = ',';
    }
    to += sprintf(to, "%s", row == 0 ? "force_N,temp_C,verdict\n" : "1,2,scratch\n");
  }
  struct kept k;
  struct data_place why = {0};
  size_t ignored;
  ck_assert_msg(read_text(text, (size_t)(to - text), c, &k, &ignored, &why) == ERR_OK, "%s", why.sentence);
  ck_assert_uint_eq(ignored, N_NOTES);
  ck_assert_uint_eq(k.n, 1);
  ck_assert(k.inputs[0][1] == 2 && k.labels[0] == 1);
  free(text);
  contract_free(c);
}
END_TEST

/* Keeps the groups, separated by blanks. */
static enum err keep_group(void *context, const struct sample *sample) {
  char *groups = context;
  snprintf(groups + strlen(groups), 64 - strlen(groups), "%.*s ", (int)sample->n_group, sample->group);
  return ERR_OK;
}

static enum err read_groups(const char *text, const char *by, char groups[64], size_t *out_n_ignored,
                            struct data_place *why) {
  struct contract *c = kit_table();
  struct kit_file f = kit_text(text);
  groups[0] = '\0';
  snprintf(c->holdout_by, sizeof c->holdout_by, "%s", by);
  enum err e = csv_read(f.path, c, &(struct sample_sink){keep_group, groups, NULL}, out_n_ignored, why);
  kit_file_close(&f);
  contract_free(c);
  return e;
}

START_TEST(a_features_own_range_comes_first) {
  struct contract *c = kit_table();
  struct kit_file f = kit_text("force_N,temp_C,verdict\n200,85,ok\n200,291,ok\n");
  struct data_place why;
  char groups[64] = "";
  size_t n_ignored;
  c->range_hi = 250;
  c->features[1].range_lo = -40;
  c->features[1].range_hi = 85;
  ck_assert_int_eq(csv_read(f.path, c, &(struct sample_sink){keep_group, groups, NULL}, &n_ignored, &why), ERR_RANGE);
  ck_assert(why.line == 3 && why.column == 2);
  ck_assert_ptr_nonnull(strstr(why.sentence, "\"temp_C\" is 291, the contract allows -40 to 85"));
  kit_file_close(&f);
  contract_free(c);
}
END_TEST

START_TEST(the_group_is_the_text_of_its_column) {
  char groups[64];
  struct data_place why;
  size_t n_ignored;
  ck_assert_int_eq(
      read_groups("id,force_N,verdict,temp_C,day\np 1,1,ok,2,3\n\"p,2\",1,ok,2,3\n", "id", groups, &n_ignored, &why),
      ERR_OK);
  ck_assert_str_eq(groups, "p 1 p,2 ");
  ck_assert_uint_eq(n_ignored, 1); /* day */
  ck_assert_int_eq(read_groups("force_N,verdict,temp_C\n1,ok,2.50\n", "temp_C", groups, &n_ignored, &why), ERR_OK);
  ck_assert_str_eq(groups, "2.50 "); /* a feature may be it */
  ck_assert_int_eq(read_groups("force_N,verdict,temp_C\n1,ok,2\n", "id", groups, &n_ignored, &why), ERR_SYNTAX);
  ck_assert_ptr_nonnull(strstr(why.sentence, "no column \"id\", which holdout_by names"));
  ck_assert_int_eq(read_groups("id,force_N,verdict,temp_C\n1,1,ok,2\n,1,ok,2\n", "id", groups, &n_ignored, &why),
                   ERR_SYNTAX);
  ck_assert(why.line == 3 && why.column == 1);
  ck_assert_int_eq(read_groups("id,force_N,id,verdict,temp_C\n1,1,1,ok,2\n", "id", groups, &n_ignored, &why),
                   ERR_SYNTAX);
  ck_assert_ptr_nonnull(strstr(why.sentence, "stands twice"));
}
END_TEST

int main(void) {
  return SUITE_RUN("models/csv", categories_are_inputs_and_blanks_are_filled, unknown_categories_and_blanks_are_refused,
                   one_table_in_many_writings, the_label_may_be_a_column_number, regression_reads_targets,
                   sets_of_classes_are_read_in_both_writings, faults_of_sets_have_line_and_column,
                   what_is_reconstructed_need_not_be_labelled, faults_have_line_column_and_remedy,
                   values_outside_the_range_are_refused, nul_bytes_are_refused, fields_and_columns_have_a_limit,
                   images_have_no_columns, the_sink_ends_the_reading, lines_longer_than_the_buffer,
                   the_group_is_the_text_of_its_column, a_features_own_range_comes_first);
}
