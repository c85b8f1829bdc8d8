#include "crypto/names.h"
#include "crypto/random.h"
#include "tests/unit/crypto/vectors.h"
#include "tests/unit/suite.h"

START_TEST(golden) {
  struct swarm_id swarm = swarm_id("k3vz-7qd2");
  struct digest job = job_id(&swarm, "inspection", 1, "");
  struct digest labelled = job_id(&swarm, "inspection", 2, "night");
  assert_golden("swarm_id", swarm.bytes, sizeof swarm.bytes);
  assert_golden("job_id", job.bytes, sizeof job.bytes);
  assert_golden("job_id_labelled", labelled.bytes, sizeof labelled.bytes);
}
END_TEST

START_TEST(every_part_counts_and_none_runs_into_the_next) {
  struct swarm_id a = swarm_id("a"), b = swarm_id("b");
  ck_assert_mem_ne(a.bytes, b.bytes, sizeof a.bytes);
  struct digest job = job_id(&a, "ab", 1, "c");
  struct digest others[] = {job_id(&b, "ab", 1, "c"), job_id(&a, "ac", 1, "c"), job_id(&a, "ab", 2, "c"),
                            job_id(&a, "ab", 1, "d"), job_id(&a, "abc", 1, ""), job_id(&a, "a", 1, "bc")};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    ck_assert(!digest_equal(&job, &others[i]));
}
END_TEST

int main(void) {
  if (random_open() != ERR_OK)
    return 1;
  return SUITE_RUN("crypto/names", golden, every_part_counts_and_none_runs_into_the_next);
}
