/* Which version of a job serves: one word a name that outlasts the process. */
#include "tests/unit/store/fixture.h"
#include "tests/unit/suite.h"

START_TEST(the_word_is_kept_by_name) {
  struct fixture f = fixture_new();
  struct store *s = fixture_open(&f);
  uint32_t version = 99;
  bool changed = true;
  ck_assert_int_eq(store_serving_job(s, "inspection", &version), ERR_OK);
  ck_assert_uint_eq(version, 0);
  ck_assert_int_eq(store_serve_job(s, "inspection", 2, 1000, &changed), ERR_OK);
  ck_assert(changed);
  ck_assert_int_eq(store_serve_job(s, "drift", 7, 1000, &changed), ERR_OK);
  ck_assert_int_eq(store_serve_job(s, "inspection", 2, 2000, &changed), ERR_OK);
  ck_assert(!changed);
  store_close(s);
  s = fixture_open(&f);
  ck_assert_int_eq(store_serving_job(s, "inspection", &version), ERR_OK);
  ck_assert_uint_eq(version, 2);
  ck_assert_int_eq(store_serve_job(s, "inspection", 1, 3000, &changed), ERR_OK);
  ck_assert(changed);
  ck_assert_int_eq(store_serving_job(s, "inspection", &version), ERR_OK);
  ck_assert_uint_eq(version, 1);
  store_close(s);
  fixture_free(&f);
}
END_TEST

int main(void) {
  return SUITE_RUN("store/serving_job", the_word_is_kept_by_name);
}
