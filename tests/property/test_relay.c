/* Whole agents of which two cannot reach each other: they learn with each other over a third, and one that lies as it relays
 * costs what it relays and nothing else. Every invariant of the simulator holds throughout (flock.h). */
#include <string.h>

#include "agent/sim/parts.h"
#include "base/rng.h"
#include "gossip/node.h"
#include "tests/property/flock.h"
#include "tests/size.h"
#include "tests/unit/suite.h"

enum { N_ROUNDS = 20, N_SEEDS = 12, LIMIT_MS = 600 * 1000 };

static struct sim *begin(size_t n, bool relays) {
  struct sim *f = flock_new(n, 4);
  f->relays = relays;
  sim_part(f, 0, n - 1);
  sim_start_all(f);
  return f;
}

static void run_rounds(struct sim *f, uint64_t n) {
  for (size_t i = 0; i < f->n_agents; i++)
    HOLDS(flock_until_round(f, i, flock_committed(f, i).round + n, LIMIT_MS));
}

static bool is_relayed(const struct sim *f, size_t which, size_t other) {
  struct gossip_peer_info info;
  gossip_peer_info(f->agents[which]->node, sim_peer_index(f->agents[which], other), &info);
  return info.has_session && info.via != SIZE_MAX;
}

START_TEST(a_cut_pair_takes_part_in_every_round) {
  for (size_t n = 3; n <= 5; n++) {
    struct sim *f = begin(n, true);
    run_rounds(f, N_ROUNDS);
    HOLDS(is_relayed(f, 0, n - 1) && is_relayed(f, n - 1, 0));
    for (size_t i = 0; i < n; i++)
      for (size_t k = 0; k < N_ROUNDS; k++)
        HOLDS(flock_told(f, i, k)->n_merged == n - 1);
    sim_heal(f, 0, n - 1);
    sim_run(f, 60000); /* dialled again, and the direct session wins, without a round that lacks anybody */
    HOLDS(!is_relayed(f, 0, n - 1) && !is_relayed(f, n - 1, 0));
    run_rounds(f, N_ROUNDS);
    for (size_t i = 0; i < n; i++)
      for (size_t k = 0; k < flock_story(f->agents[i])->n_told; k++)
        HOLDS(flock_told(f, i, k)->n_merged == n - 1);
    flock_free(f);
  }
}
END_TEST

/* The control. */
START_TEST(without_relays_the_pair_is_missing) {
  struct sim *f = begin(3, false);
  run_rounds(f, N_ROUNDS);
  HOLDS(!is_relayed(f, 0, 2) && !is_relayed(f, 2, 0));
  for (size_t k = 0; k < N_ROUNDS; k++) {
    HOLDS(flock_told(f, 0, k)->n_merged == 1);
    HOLDS(flock_told(f, 2, k)->n_merged == 1);
    HOLDS(flock_told(f, 1, k)->n_merged == 2);
  }
  flock_free(f);
}
END_TEST

START_TEST(a_pair_that_is_cut_in_the_middle_goes_on) {
  struct sim *f = flock_new(4, 4);
  f->relays = true;
  sim_start_all(f);
  run_rounds(f, 5);
  sim_part(f, 1, 2);
  sim_run(f, 30000);
  HOLDS(is_relayed(f, 1, 2) && is_relayed(f, 2, 1));
  run_rounds(f, N_ROUNDS);
  for (size_t i = 0; i < 4; i++)
    for (size_t k = 0; k < N_ROUNDS - 2; k++)
      HOLDS(flock_told(f, i, k)->n_merged == 3);
  flock_free(f);
}
END_TEST

/* ---- lies ---- */

static const struct seals *honest;
static struct seals lying;
static struct rng dice;
static uint8_t kept[MAX_FRAME_PLAIN_BYTES];
static size_t n_kept;
static uint64_t n_lies;

static void swap_with_kept(uint8_t *plain, size_t n) {
  for (size_t i = 0; i < n; i++) {
    uint8_t byte = plain[i];
    plain[i] = kept[i];
    kept[i] = byte;
  }
}

/* What it carries: with a bit flipped, as it was carried before, in another order, or never. */
static enum err seal_lies(struct session *s, uint64_t now_ms, uint8_t type, uint8_t *frame, size_t n_plain) {
  uint8_t *plain = frame + FRAME_HEAD_BYTES;
  uint64_t what = type == MESSAGE_RELAY ? rng_below(&dice, 12) : 12;
  n_lies += what < 4;
  if (what == 0)
    plain[RELAY_HEAD_BYTES + rng_below(&dice, n_plain - RELAY_HEAD_BYTES)] ^= (uint8_t)(1 << rng_below(&dice, 8));
  if (what == 1 && n_kept == n_plain)
    memcpy(plain, kept, n_plain);
  if (what == 2 && n_kept == n_plain)
    swap_with_kept(plain, n_plain);
  if (what == 3)
    memset(plain + RELAY_HEAD_BYTES, 0, n_plain - RELAY_HEAD_BYTES);
  if (what == 4) {
    memcpy(kept, plain, n_plain);
    n_kept = n_plain;
  }
  return honest->seal(s, now_ms, type, frame, n_plain);
}

static void assert_not_guilty(const struct sim *f, size_t which, size_t about) {
  static const enum err crimes[] = {ERR_FRAME,     ERR_MAC,    ERR_HANDSHAKE, ERR_SEAL,         ERR_REPLAY, ERR_MESSAGE,
                                    ERR_SIGNATURE, ERR_ORIGIN, ERR_CLONE,     ERR_EQUIVOCATION, ERR_ROOT,   ERR_BACKLOG,
                                    ERR_CHAIN,     ERR_LENGTH, ERR_ENCODING,  ERR_NON_FINITE};
  for (size_t i = 0; i < sizeof crimes / sizeof *crimes; i++)
    if (flock_dropped(f, which, about, crimes[i]) != 0)
      ck_abort_msg("%s of %zu at %zu", err_name(crimes[i]), about, which);
  HOLDS(flock_standing(f, which, about) != ERR_QUARANTINED);
}

/* Of the last N_ROUNDS, in how many the agent merged somebody. */
static size_t n_merging(const struct sim *f, size_t which) {
  size_t n = 0;
  for (size_t k = 0; k < N_ROUNDS; k++)
    n += flock_told(f, which, k)->n_merged > 0;
  return n;
}

START_TEST(a_relay_that_lies_costs_what_it_relays) {
  for (uint64_t seed = 1; seed <= least_or(1, N_SEEDS); seed++) {
    struct sim *f = begin(3, true);
    rng_init(&dice, seed);
    n_kept = 0;
    n_lies = 0;
    honest = f->agents[1]->node->seals;
    lying = *honest;
    lying.seal = seal_lies;
    f->agents[1]->node->seals = &lying;
    run_rounds(f, N_ROUNDS);
    HOLDS(n_lies > 20);
    for (size_t i = 0; i < 3; i++)
      HOLDS(n_merging(f, i) >= N_ROUNDS - 2); /* what it says itself is heard */
    assert_not_guilty(f, 0, 2);
    assert_not_guilty(f, 2, 0);
    f->agents[1]->node->seals = honest;
    sim_run(f, 180000);
    run_rounds(f, 5);
    for (size_t i = 0; i < 3; i++)
      HOLDS(flock_told(f, i, 0)->n_merged == 2);
    flock_free(f);
  }
}
END_TEST

int main(void) {
  return SUITE_RUN_WITHIN("relay", 120, a_cut_pair_takes_part_in_every_round, without_relays_the_pair_is_missing,
                          a_pair_that_is_cut_in_the_middle_goes_on, a_relay_that_lies_costs_what_it_relays);
}
