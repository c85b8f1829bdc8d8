/* Each attack on a small swarm: the plain mean is lost to the scaled ones, what is robust is not to any. */
#include <check.h>
#include <stdio.h>

#include "tests/property/bad_swarm.h"
#include "tests/size.h"
#include "tests/unit/models/toy.h"
#include "tests/unit/suite.h"

enum { N = 12, N_BAD = 3, N_INPUTS = 12, N_CLASSES = 3, SAMPLES = 120, TESTS = 400 };

struct fixture {
  struct contract contract;
  struct schema *schema;
  struct dataset train[N], test;
  struct bad_swarm s;
};

static void fixture_init(struct fixture *f, enum merge_rule rule, double norm_bound, enum attack attack) {
  f->contract = toy_classes(N_INPUTS, N_CLASSES);
  f->schema = toy_schema("dense 12, relu, dense classes", &f->contract);
  f->test = toy_clouds(1, TESTS, N_INPUTS, N_CLASSES);
  f->s =
      (struct bad_swarm){.schema = f->schema,
                         .test = &f->test,
                         .row_inputs = 4,
                         .n = N,
                         .n_bad = attack == ATTACK_NONE ? 0 : N_BAD,
                         .attack = attack,
                         .rule = {.rule = rule, .byzantine = RULE_A_THIRD, .max_share = 0.5, .norm_bound = norm_bound},
                         .rounds = (uint32_t)least_or(2, 40),
                         .steps = 5,
                         .batch = 16,
                         .learning_rate = 0.05,
                         .momentum = 0.9,
                         .seed = 3};
  for (size_t i = 0; i < N; i++) {
    f->train[i] = toy_clouds(10 + i, SAMPLES, N_INPUTS, N_CLASSES);
    f->s.train[i] = &f->train[i];
  }
  bad_swarm_full(&f->s);
}

static struct bad_swarm_result run(enum merge_rule rule, double norm_bound, enum attack attack) {
  struct fixture f;
  struct bad_swarm_result r;
  fixture_init(&f, rule, norm_bound, attack);
  bad_swarm_run(&f.s, &r);
  for (size_t i = 0; i < N; i++)
    toy_dataset_done(&f.train[i]);
  toy_dataset_done(&f.test);
  schema_free(f.schema);
  return r;
}

/* A third of the classes is chance. */
START_TEST(the_plain_mean_is_lost_to_scaled_attacks) {
  struct bad_swarm_result clean = run(RULE_MEAN, 1e6, ATTACK_NONE);
  ck_assert_double_gt(clean.worst, size_is("least") ? 0 : 0.95);
  if (!size_is("least"))
    ck_assert_double_lt(run(RULE_MEAN, 1e6, ATTACK_SIGN_FLIP).mean, 0.6);
}
END_TEST

START_TEST(no_attack_takes_what_is_robust) {
  static const enum merge_rule rules[] = {RULE_ROBUST, RULE_MULTI_KRUM, RULE_NNM};
  for (size_t k = 0; k < sizeof rules / sizeof *rules; k++) {
    double clean = run(rules[k], 0, ATTACK_NONE).mean;
    for (enum attack a = ATTACK_SIGN_FLIP; a < N_ATTACKS && !size_is("least"); a++) {
      struct bad_swarm_result r = run(rules[k], 0, a);
      ck_assert_msg(r.worst > clean - 0.06, "%s falls from %.3f to %.3f under %s", merge_rule_name(rules[k]), clean,
                    r.worst, attack_name(a));
    }
  }
}
END_TEST

/* What is far off is left out, and who is good is not; in the end steps are small, and so are reversed ones. */
START_TEST(scaled_attackers_are_left_out) {
  struct bad_swarm_result r = run(RULE_ROBUST, 0, ATTACK_SIGN_FLIP);
  ck_assert_uint_gt(r.n_bad, 0);
  ck_assert_uint_lt(3 * r.n_bad_kept, r.n_bad);
  ck_assert_uint_lt(8 * r.n_good_left_out, r.n_good);
}
END_TEST

START_TEST(clip_holds_where_peers_are_few) {
  double clean = run(RULE_CLIP, 0, ATTACK_NONE).mean;
  for (enum attack a = ATTACK_SIGN_FLIP; a < N_ATTACKS && !size_is("least"); a++) {
    struct bad_swarm_result r = run(RULE_CLIP, 0, a);
    ck_assert_msg(r.mean > clean - 0.1, "clip falls from %.3f to %.3f under %s", clean, r.mean, attack_name(a));
  }
}
END_TEST

START_TEST(words_name_attacks) {
  for (enum attack a = 0; a < N_ATTACKS; a++) {
    enum attack found;
    ck_assert_int_eq(attack_find(attack_name(a), &found), ERR_OK);
    ck_assert_int_eq(found, a);
  }
  ck_assert_int_eq(attack_find("mean", &(enum attack){0}), ERR_NOT_FOUND);
}
END_TEST

START_TEST(a_swarm_repeats_bit_for_bit) {
  struct bad_swarm_result a = run(RULE_ROBUST, 0, ATTACK_GAUSSIAN), b = run(RULE_ROBUST, 0, ATTACK_GAUSSIAN);
  ck_assert(a.mean == b.mean && a.of_mean == b.of_mean && a.n_bad_kept == b.n_bad_kept);
}
END_TEST

int main(void) {
  return SUITE_RUN_WITHIN("byzantine", SUITE_LIMIT_S, the_plain_mean_is_lost_to_scaled_attacks,
                          no_attack_takes_what_is_robust, scaled_attackers_are_left_out, clip_holds_where_peers_are_few,
                          words_name_attacks, a_swarm_repeats_bit_for_bit);
}
