#include "agent/cli/answer.h"
#include "agent/cli/table.h"
#include "tests/unit/suite.h"

#include <stdlib.h>
#include <string.h>

/* What is printed to `out` between begin and end; the caller frees. */
struct printed {
  char *text;
  size_t n;
  FILE *out;
};

static void printed_begin(struct printed *p) {
  p->out = open_memstream(&p->text, &p->n);
  ck_assert_ptr_nonnull(p->out);
}

static void printed_is(struct printed *p, const char *expected) {
  fclose(p->out);
  ck_assert_str_eq(p->text, expected);
  free(p->text);
}

static const struct {
  const char *json;
  enum column_form form;
  const char *text;
} values[] = {
    {"null", FORM_TEXT, "-"},
    {"\"\"", FORM_TEXT, "-"},
    {"[]", FORM_TEXT, "-"},
    {"{}", FORM_TEXT, "-"},
    {"true", FORM_TEXT, "yes"},
    {"[\"a\",\"b\"]", FORM_TEXT, "a, b"},
    {"{\"non-finite\":2}", FORM_TEXT, "non-finite 2"},
    {"0.885", FORM_PERCENT, "88.5"},
    {"0.123456", FORM_LOSS, "0.1235"},
    {"0.885", FORM_SCORE, "0.885"},
    {"999", FORM_BYTES, "999 B"},
    {"1000", FORM_BYTES, "1.0 kB"},
    {"2900000", FORM_BYTES, "2.9 MB"},
    {"123456789", FORM_BYTES, "123 MB"},
    {"0.016", FORM_DURATION, "0.02s"},
    {"59.94", FORM_DURATION, "59.9s"},
    {"190", FORM_DURATION, "3m10s"},
    {"7325", FORM_DURATION, "2h02m"},
    {"1e300", FORM_DURATION, "11574074074d01h"},
    {"90061", FORM_DURATION, "1d01h"},
    {"12", FORM_COUNT, "12"},
    {"\"late\"", FORM_PERCENT, "late"},
};

START_TEST(a_value_is_shown_in_its_unit) {
  json_t *value = json_loads(values[_i].json, JSON_DECODE_ANY, NULL);
  struct printed p;
  printed_begin(&p);
  value_print(value, values[_i].form, p.out);
  printed_is(&p, values[_i].text);
  json_decref(value);
}
END_TEST

static const struct column columns[] = {
    {"PEER", "name", FORM_TEXT}, {"ROUND", "job.round", FORM_COUNT}, {"WHY", "why", FORM_TEXT}};

START_TEST(columns_are_aligned) {
  json_t *rows = json_loads("[{\"name\":\"m\xc3\xa9"
                            "c\",\"job\":{\"round\":7},\"why\":\"late\"},"
                            "{\"name\":\"mec-03\",\"job\":{\"round\":1234567}}]",
                            0, NULL);
  struct printed p;
  printed_begin(&p);
  table_print(columns, 3, rows, false, p.out);
  printed_is(&p, "PEER      ROUND  WHY\n"
                 "m\xc3\xa9"
                 "c           7  late\n"
                 "mec-03  1234567  -\n");
  printed_begin(&p);
  table_print(columns, 3, rows, true, p.out);
  printed_is(&p, "m\xc3\xa9"
                 "c\t7\tlate\nmec-03\t1234567\t-\n");
  json_decref(rows);
}
END_TEST

/* People do not see what is empty in every row; TSV keeps its shape. */
START_TEST(columns_come_where_something_is_in_them) {
  static const struct column some[] = {{"PEER", "name", FORM_TEXT},
                                       {"LAG", "lag", FORM_COUNT | COLUMN_IF_ANY},
                                       {"BYTES", "bytes", FORM_BYTES | COLUMN_IF_ANY},
                                       {"CLIPPED", "clipped", FORM_TEXT | COLUMN_IF_ANY},
                                       {"KEY", "key", FORM_TEXT | COLUMN_IN_TSV},
                                       {"OUTCOME", "outcome|state", FORM_TEXT}};
  json_t *rows =
      json_loads("[{\"name\":\"a\",\"lag\":0,\"bytes\":0,\"clipped\":false,\"key\":\"K\",\"outcome\":\"merged\","
                 "\"state\":\"committed\"},"
                 "{\"name\":\"b\",\"key\":\"L\",\"outcome\":null,\"state\":\"published\"}]",
                 0, NULL);
  struct printed p;
  printed_begin(&p);
  table_print(some, 6, rows, false, p.out);
  printed_is(&p, "PEER  OUTCOME\n"
                 "a     merged\n"
                 "b     published\n");
  json_object_set_new(json_array_get(rows, 1), "lag", json_integer(2));
  printed_begin(&p);
  table_print(some, 6, rows, false, p.out);
  printed_is(&p, "PEER  LAG  OUTCOME\n"
                 "a       0  merged\n"
                 "b       2  published\n");
  printed_begin(&p);
  table_print(some, 6, rows, true, p.out);
  printed_is(&p, "a\t0\t0\tno\tK\tmerged\nb\t2\t-\t-\tL\tpublished\n");
  json_decref(rows);
}
END_TEST

START_TEST(a_text_flows_into_lines) {
  static const struct {
    const char *text;
    size_t indent, width;
    const char *lines;
  } cases[] = {
      {"one two three", 4, 0, "one two three\n"},
      {"aaaaaaaaa bbbbbbbbb ccccccccc d", 2, 22, "aaaaaaaaa bbbbbbbbb\n  ccccccccc d\n"},
      {"aaaaaaaaa bbbbbbbbb\xc3\xa9 c", 2, 22, "aaaaaaaaa bbbbbbbbb\xc3\xa9\n  c\n"},
      {"aaaaaaaaaaaaaaaaaaaaaaaaa b", 2, 10, "aaaaaaaaaaaaaaaaaaaaaaaaa\n  b\n"}, /* a long word stays whole */
      {"", 2, 10, "\n"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct printed p;
    printed_begin(&p);
    text_flow(cases[i].text, cases[i].indent, cases[i].width, p.out);
    printed_is(&p, cases[i].lines);
  }
}
END_TEST

START_TEST(no_rows_are_a_heading) {
  struct printed p;
  printed_begin(&p);
  table_print(columns, 3, NULL, false, p.out);
  printed_is(&p, "PEER  ROUND  WHY\n");
}
END_TEST

START_TEST(control_characters_are_escaped) {
  static const struct {
    const char *raw, *shown;
  } cases[] = {
      {"plain \xc3\xa9 \xe2\x82\xac", "plain \xc3\xa9 \xe2\x82\xac"},
      {"a\x1b[2Jb\n\t\r", "a\\x1b[2Jb\\x0a\\x09\\x0d"},
      {"\x7f\xc2\x9b", "\\x7f\\xc2\\x9b"}, /* DEL and the one-character CSI */
      {"\xff\xc3", "\\xff\\xc3"},          /* malformed */
      {"\xe2\x80\xae", "\\xe2\\x80\\xae"}, // NOLINT(misc-misleading-bidirectional): turns the direction
      {"\xe2\x81\xa6", "\\xe2\\x81\\xa6"}, // NOLINT(misc-misleading-bidirectional): turns the direction
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct printed p;
    printed_begin(&p);
    text_print(cases[i].raw, p.out);
    printed_is(&p, cases[i].shown);
  }
}
END_TEST

START_TEST(paths_reach_into_objects) {
  json_t *object = json_loads("{\"a\":{\"b\":5},\"c\":1}", 0, NULL);
  ck_assert_int_eq(json_integer_value(json_at(object, "a.b")), 5);
  ck_assert_ptr_null(json_at(object, "a.x"));
  ck_assert_ptr_null(json_at(object, "c.x"));
  ck_assert_ptr_null(json_at(NULL, "a"));
  json_decref(object);
}
END_TEST

START_TEST(a_headline_follows_its_metric) {
  json_t *row =
      json_loads("{\"job\":{\"metric\":\"accuracy\",\"local\":0.5},\"metric\":\"AUC\",\"global\":0.5}", 0, NULL);
  ck_assert_int_eq(headline_form(row, "job.local"), FORM_PERCENT);
  ck_assert_int_eq(headline_form(row, "global"), FORM_SCORE);
  json_decref(row);
}
END_TEST

int main(void) {
  TCase *tcase = tcase_create("agent/table");
  tcase_add_loop_test(tcase, a_value_is_shown_in_its_unit, 0, sizeof values / sizeof *values);
  tcase_add_test(tcase, columns_are_aligned);
  tcase_add_test(tcase, columns_come_where_something_is_in_them);
  tcase_add_test(tcase, a_text_flows_into_lines);
  tcase_add_test(tcase, a_headline_follows_its_metric);
  tcase_add_test(tcase, no_rows_are_a_heading);
  tcase_add_test(tcase, control_characters_are_escaped);
  tcase_add_test(tcase, paths_reach_into_objects);
  return suite_run_case("agent/table", tcase);
}
