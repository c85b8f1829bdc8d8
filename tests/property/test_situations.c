#include "tests/property/flock.h"
#include "tests/unit/suite.h"

static void assert_all_gathers_complete(const struct flock *f, uint64_t count) {
  for (size_t i = 0; i < f->n_agents; i++) {
    const struct flock_agent *a = &f->agents[i];
    ck_assert_uint_eq(a->n_story, count);
    for (size_t r = 0; r < count; r++) {
      HOLDS(a->story[r].label.round == r + 1 && a->story[r].label.sub == 0);
      HOLDS(a->story[r].outcome == ROUND_MERGED && a->story[r].n_merged == a->n_peers);
      for (size_t k = 0; k < a->n_peers; k++)
        HOLDS(a->story[r].lags[a->peers[k]] == 0);
    }
  }
}

START_TEST(five_agents_do_sixty_rounds) {
  struct flock *f = flock_new(5, 4);
  for (size_t i = 0; i < 5; i++)
    f->agents[i].config.count = 60;
  flock_start_all(f);
  flock_run(f, 120000);
  assert_all_gathers_complete(f, 60);
  flock_free(f);
}
END_TEST

int main(void) {
  return SUITE_RUN("situations", five_agents_do_sixty_rounds);
}
