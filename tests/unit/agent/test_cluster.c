#include "agent/core/cluster.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "tests/unit/suite.h"

enum { SITES = 5, STRANGERS = 80, PATIENCE_MS = 30000 };

/* Sites in the order of their keys; each has the others as its peers, and what one sends arrives when it is carried. */
struct site {
  struct swarm *swarm;
  size_t number;
  struct gossip_peer_config peers[SITES - 1];
  struct cluster *cluster;
  double affinity[SITES];
  size_t n_affinities, n_moved, n_alone, n_sent;
  bool is_full; /* nothing can be sent */
  struct word {
    size_t to;
    uint8_t bytes[SIGNED_SKETCH_BYTES];
  } words[256];
  size_t n_words;
};

struct swarm {
  struct site sites[SITES];
  bool is_apart[SITES][SITES];
  uint64_t now_ms;
};

static struct identity_key key_of(size_t number) {
  struct identity_key k = {{(uint8_t)(number + 1)}};
  return k;
}

static size_t peer_of(size_t at, size_t of) {
  return of < at ? of : of - 1;
}

static size_t site_of(size_t at, size_t peer) {
  return peer < at ? peer : peer + 1;
}

static void sign(void *context, struct signed_sketch *s) {
  s->origin = key_of(((const struct site *)context)->number);
}

static enum err send(void *context, size_t peer, const uint8_t *bytes) {
  struct site *t = context;
  size_t to = site_of(t->number, peer);
  if (t->is_full)
    return ERR_BACKLOG;
  t->n_sent++;
  if (t->swarm->is_apart[t->number][to])
    return ERR_OK;
  ck_assert_uint_lt(t->n_words, sizeof t->words / sizeof *t->words);
  t->words[t->n_words].to = to;
  memcpy(t->words[t->n_words++].bytes, bytes, SIGNED_SKETCH_BYTES);
  return ERR_OK;
}

static void set_affinity(void *context, size_t peer, double affinity) {
  struct site *t = context;
  t->affinity[site_of(t->number, peer)] = affinity;
  t->n_affinities++;
}

static void moved(void *context, bool is_alone, const char *text) {
  ((struct site *)context)->n_moved++;
  ((struct site *)context)->n_alone += is_alone;
  ck_assert_ptr_nonnull(strstr(text, "group"));
}

static const struct cluster_ports ports = {sign, send, set_affinity, moved};

static struct cluster *cluster_made(struct site *t, uint64_t boot_epoch) {
  struct cluster *c;
  const struct cluster_config config = {.wish = {2, 8},
                                        .own = key_of(t->number),
                                        .peers = t->peers,
                                        .n_peers = SITES - 1,
                                        .boot_epoch = boot_epoch,
                                        .patience_ms = PATIENCE_MS,
                                        .context = t};
  ck_assert_int_eq(cluster_new(&config, &ports, &c), ERR_OK);
  return c;
}

static struct swarm *swarm_new(void) {
  struct swarm *w = calloc(1, sizeof *w);
  ck_assert_ptr_nonnull(w);
  for (size_t i = 0; i < SITES; i++) {
    struct site *t = &w->sites[i];
    *t = (struct site){.swarm = w, .number = i};
    for (size_t k = 0; k + 1 < SITES; k++)
      t->peers[k] = (struct gossip_peer_config){.key = key_of(site_of(i, k)), .name = "peer"};
    for (size_t k = 0; k < SITES; k++)
      t->affinity[k] = -1;
    t->cluster = cluster_made(t, 1);
  }
  return w;
}

static void swarm_free(struct swarm *w) {
  for (size_t i = 0; i < SITES; i++)
    cluster_free(w->sites[i].cluster);
  free(w);
}

/* One of two directions, and a little of the site's own. */
static struct sketch direction(size_t which, uint64_t site) {
  struct sketch s = {{0}};
  struct rng rng;
  rng_init(&rng, site + 1);
  for (size_t i = 0; i < SKETCH_CELLS; i++)
    s.cells[i] = (int16_t)((i % 2 == which ? 20000 : 0) + (int)rng_below(&rng, 5000));
  s.cells[which] = SKETCH_MOST;
  return s;
}

static void own(struct swarm *w, size_t site, size_t which) {
  struct sketch s = direction(which, site);
  cluster_on_own(w->sites[site].cluster, &s);
}

/* Until nobody has anything to say. */
static void carry_all(struct swarm *w) {
  bool is_quiet = false;
  for (; !is_quiet; w->now_ms += CLUSTER_PAUSE_MS) {
    is_quiet = true;
    for (size_t i = 0; i < SITES; i++)
      is_quiet = cluster_turn(w->sites[i].cluster, w->now_ms) == UINT64_MAX && is_quiet;
    for (size_t i = 0; i < SITES; i++)
      for (size_t k = 0; k < w->sites[i].n_words; k++) {
        struct word *word = &w->sites[i].words[k];
        struct signed_sketch s;
        is_quiet = false;
        ck_assert_int_eq(signed_sketch_read(word->bytes, SIGNED_SKETCH_BYTES, &s), ERR_OK);
        ck_assert_int_eq(cluster_on_sketch(w->sites[word->to].cluster, peer_of(word->to, i), &s, word->bytes), ERR_OK);
      }
    for (size_t i = 0; i < SITES; i++)
      w->sites[i].n_words = 0;
  }
}

static void meet_all(struct swarm *w) {
  for (size_t i = 0; i < SITES; i++)
    for (size_t k = 0; k + 1 < SITES; k++)
      if (!w->is_apart[i][site_of(i, k)])
        cluster_on_hello(w->sites[i].cluster, k);
}

static const size_t hidden[SITES] = {0, 1, 0, 1, 1};

static void assert_groups(struct swarm *w, const size_t *expected) {
  for (size_t i = 0; i < SITES; i++) {
    struct cluster_view v;
    cluster_view(w->sites[i].cluster, &v);
    ck_assert_uint_eq(v.n_groups, 2);
    ck_assert_uint_eq(v.n_known, SITES);
    for (size_t k = 0; k < SITES; k++)
      if (k != i)
        ck_assert_msg(w->sites[i].affinity[k] == (expected[i] == expected[k]), "%zu sees %zu with %g", i, k,
                      w->sites[i].affinity[k]);
  }
}

/* All have met and told; those before `first` have no sketch of their own. */
static struct swarm *settled_as(const size_t *groups, size_t first) {
  struct swarm *w = swarm_new();
  for (size_t i = first; i < SITES; i++)
    own(w, i, groups[i]);
  meet_all(w);
  carry_all(w);
  return w;
}

static struct swarm *settled(void) {
  return settled_as(hidden, 0);
}

START_TEST(all_find_the_same_groups) {
  struct swarm *w = settled();
  assert_groups(w, hidden);
  for (size_t i = 0; i < SITES; i++) {
    struct cluster_view v;
    cluster_view(w->sites[i].cluster, &v);
    ck_assert_uint_eq(v.n_members, hidden[i] == 0 ? 2 : 3);
    ck_assert_uint_eq(v.group, hidden[i]);
    ck_assert_uint_ge(w->sites[i].n_moved, 1);
  }
  swarm_free(w);
}
END_TEST

START_TEST(without_an_own_sketch_nobody_is_placed) {
  struct swarm *w = settled_as(hidden, 1);
  ck_assert_uint_eq(w->sites[0].n_affinities, 0);
  ck_assert_uint_eq(w->sites[0].n_moved, 0);
  ck_assert(w->sites[1].affinity[0] == 0); /* of another group, after a while */
  own(w, 0, 0);
  carry_all(w);
  assert_groups(w, hidden);
  swarm_free(w);
}
END_TEST

/* Along a line 0 - 1 - 2 - 3 - 4. */
START_TEST(sketches_travel_over_others) {
  struct swarm *w = swarm_new();
  for (size_t i = 0; i < SITES; i++) {
    own(w, i, hidden[i]);
    for (size_t k = 0; k < SITES; k++)
      w->is_apart[i][k] = k > i + 1 || i > k + 1;
  }
  meet_all(w);
  carry_all(w);
  assert_groups(w, hidden);
  swarm_free(w);
}
END_TEST

START_TEST(who_has_other_data_is_placed_anew) {
  struct swarm *w = settled();
  static const size_t after[SITES] = {0, 1, 1, 0, 1};
  own(w, 2, 1);
  own(w, 3, 0);
  carry_all(w);
  assert_groups(w, after);
  struct cluster_view v;
  cluster_view(w->sites[2].cluster, &v);
  ck_assert_uint_eq(v.serial, 2);
  swarm_free(w);
}
END_TEST

START_TEST(a_level_is_said_once_a_session) {
  struct swarm *w = settled();
  size_t before = w->sites[0].n_sent;
  carry_all(w);
  ck_assert_uint_eq(w->sites[0].n_sent, before);
  cluster_on_gone(w->sites[0].cluster, 1);
  cluster_on_hello(w->sites[0].cluster, 1);
  carry_all(w);
  ck_assert_uint_eq(w->sites[0].n_sent, before + SITES - 1); /* all but the peer's own */
  swarm_free(w);
}
END_TEST

START_TEST(an_older_sketch_changes_nothing) {
  struct swarm *w = settled();
  struct signed_sketch s = {.origin = key_of(1), .boot_epoch = 1, .serial = 1};
  struct sketch other = direction(0, 9);
  uint8_t bytes[SIGNED_SKETCH_BYTES];
  own(w, 1, 1); /* serial 2 */
  carry_all(w);
  memcpy(s.cells, &other, sizeof s.cells);
  signed_sketch_write(&s, bytes);
  ck_assert_int_eq(cluster_on_sketch(w->sites[0].cluster, 0, &s, bytes), ERR_OK);
  carry_all(w);
  assert_groups(w, hidden);
  s.boot_epoch = 2; /* a later life */
  signed_sketch_write(&s, bytes);
  ck_assert_int_eq(cluster_on_sketch(w->sites[0].cluster, 0, &s, bytes), ERR_OK);
  carry_all(w);
  ck_assert(w->sites[0].affinity[1] == 1);
  swarm_free(w);
}
END_TEST

START_TEST(nobody_says_our_own) {
  struct swarm *w = settled();
  struct signed_sketch s = {.origin = key_of(0), .boot_epoch = 99, .serial = 1};
  struct sketch other = direction(1, 9);
  uint8_t bytes[SIGNED_SKETCH_BYTES];
  memcpy(s.cells, &other, sizeof s.cells);
  signed_sketch_write(&s, bytes);
  ck_assert_int_eq(cluster_on_sketch(w->sites[0].cluster, 0, &s, bytes), ERR_OK);
  carry_all(w);
  ck_assert(w->sites[0].affinity[2] == 1);
  swarm_free(w);
}
END_TEST

START_TEST(cells_that_no_sketch_has_are_refused) {
  struct swarm *w = settled();
  struct signed_sketch s = {.origin = key_of(1), .boot_epoch = 7, .serial = 1, .cells = {0, 0x80}}; /* −32768 */
  uint8_t bytes[SIGNED_SKETCH_BYTES];
  signed_sketch_write(&s, bytes);
  ck_assert_int_eq(cluster_on_sketch(w->sites[0].cluster, 0, &s, bytes), ERR_ENCODING);
  s.cells[1] = 0;
  ck_assert_int_eq(cluster_on_sketch(w->sites[0].cluster, 0, &s, bytes), ERR_ENCODING);
  carry_all(w);
  assert_groups(w, hidden);
  swarm_free(w);
}
END_TEST

static struct signed_sketch said_by(struct identity_key origin, uint64_t boot_epoch, uint32_t serial, size_t which) {
  struct signed_sketch s = {.origin = origin, .boot_epoch = boot_epoch, .serial = serial};
  struct sketch direct = direction(which, 9);
  memcpy(s.cells, &direct, sizeof s.cells);
  return s;
}

static void hear(struct swarm *w, size_t at, size_t from, const struct signed_sketch *s) {
  uint8_t bytes[SIGNED_SKETCH_BYTES];
  signed_sketch_write(s, bytes);
  ck_assert_int_eq(cluster_on_sketch(w->sites[at].cluster, peer_of(at, from), s, bytes), ERR_OK);
}

/* Keys cost nothing: whoever invents some divides nobody. */
START_TEST(strangers_are_not_grouped) {
  struct swarm *w = settled();
  size_t before = w->sites[0].n_sent;
  for (size_t i = 0; i < STRANGERS; i++) {
    struct signed_sketch s = said_by(key_of(100 + i), 1, 1, i % 2);
    ck_assert(!cluster_wants(w->sites[0].cluster, 2, &s));
    hear(w, 0, 3, &s);
  }
  carry_all(w);
  assert_groups(w, hidden);
  ck_assert_uint_eq(w->sites[0].n_sent, before);
  swarm_free(w);
}
END_TEST

START_TEST(copies_are_not_wanted_and_newer_ones_are) {
  struct swarm *w = settled();
  struct signed_sketch s = said_by(key_of(1), 1, 1, 1);
  ck_assert(!cluster_wants(w->sites[0].cluster, 2, &s));
  s.serial = 2;
  ck_assert(cluster_wants(w->sites[0].cluster, 2, &s));
  hear(w, 0, 3, &s);
  ck_assert(!cluster_wants(w->sites[0].cluster, 2, &s)); /* nor one that waits */
  s.origin = key_of(0);
  ck_assert(!cluster_wants(w->sites[0].cluster, 2, &s));
  swarm_free(w);
}
END_TEST

/* One origin that goes to and fro. */
START_TEST(who_changes_all_the_time_moves_nobody_all_the_time) {
  enum { N = 1600, FOR_MS = 60000 };
  struct swarm *w = settled();
  struct site *t = &w->sites[0];
  size_t moved_before = t->n_moved, sent_before = t->n_sent, placed_before = t->n_affinities;
  w->now_ms += MOVED_MS;
  for (uint32_t i = 1; i <= N; i++) {
    struct signed_sketch s = said_by(key_of(2), 9, i, i / 40 % 2);
    hear(w, 0, 2, &s);
    cluster_turn(t->cluster, w->now_ms + i * FOR_MS / N);
    t->n_words = 0;
  }
  ck_assert_uint_le(t->n_moved - moved_before, FOR_MS / MOVED_MS + 1);
  ck_assert_uint_le(t->n_affinities - placed_before, FOR_MS / SKETCH_EVERY_MS + SKETCH_BURST);
  ck_assert_uint_le(t->n_sent - sent_before, (size_t)(FOR_MS / SKETCH_EVERY_MS + SKETCH_BURST) * (SITES - 1));
  ck_assert_uint_gt(t->n_sent, sent_before);
  w->now_ms += FOR_MS;
  carry_all(w);
  struct signed_sketch last = said_by(key_of(2), 9, N, 0);
  ck_assert(!cluster_wants(t->cluster, 3, &last)); /* the newest counts at last */
  ck_assert(t->affinity[2] == (N / 40 % 2 == 0));
  swarm_free(w);
}
END_TEST

/* Three sites change to and fro, three times each. */
START_TEST(groups_are_found_and_told_now_and_then) {
  _Static_assert(REGROUP_BURST == 8 && SKETCH_BURST == 3, "the ninth is too much, and no site's own");
  struct swarm *w = settled();
  struct site *t = &w->sites[0];
  uint64_t start_ms = w->now_ms + (uint64_t)10 * SKETCH_EVERY_MS;
  size_t before = t->n_moved;
  for (size_t i = 0; i < 9; i++) {
    size_t who = 1 + i % 3, to = (hidden[who] + 1 + i / 3) % 2;
    struct signed_sketch s = said_by(key_of(who), 9, (uint32_t)i + 1, to);
    s.cells[100] = (uint8_t)i;
    hear(w, 0, who, &s);
    cluster_turn(t->cluster, start_ms + i * REGROUP_SPACE_MS);
    t->n_words = 0;
    ck_assert(t->affinity[who] == (i < 8 ? to == 0 : to == 1));
  }
  ck_assert_uint_eq(t->n_moved, before + 1);
  ck_assert_uint_le(cluster_turn(t->cluster, start_ms + (uint64_t)8 * REGROUP_SPACE_MS), start_ms + REGROUP_MS);
  cluster_turn(t->cluster, start_ms + REGROUP_MS);
  ck_assert(t->affinity[3] == 1);
  ck_assert_uint_eq(t->n_moved, before + 1);
  cluster_turn(t->cluster, start_ms + MOVED_MS);
  ck_assert_uint_eq(t->n_moved, before + 2);
  swarm_free(w);
}
END_TEST

/* Other numbers of the same groups are no news. */
START_TEST(a_group_with_another_number_is_the_same_group) {
  static const size_t at_first[SITES] = {1, 0, 1, 0, 0};
  struct swarm *w = settled_as(at_first, 1);
  size_t before = w->sites[1].n_moved;
  ck_assert_uint_ge(before, 1);
  own(w, 0, at_first[0]); /* the first key: now the others' group is number 1 */
  carry_all(w);
  struct cluster_view v;
  cluster_view(w->sites[1].cluster, &v);
  ck_assert_uint_eq(v.group, 1);
  ck_assert_uint_eq(w->sites[1].n_moved, before);
  swarm_free(w);
}
END_TEST

START_TEST(who_is_left_alone_is_told_so) {
  static const size_t alone[SITES] = {0, 1, 1, 1, 1};
  struct swarm *w = settled_as(alone, 0);
  ck_assert_uint_eq(w->sites[0].n_alone, 1);
  ck_assert_uint_eq(w->sites[1].n_alone, 0);
  swarm_free(w);
}
END_TEST

START_TEST(who_withholds_its_sketch_is_elsewhere_after_a_while) {
  struct swarm *w = swarm_new();
  for (size_t i = 0; i + 1 < SITES; i++)
    own(w, i, hidden[i]);
  meet_all(w);
  cluster_turn(w->sites[0].cluster, 0);
  cluster_turn(w->sites[0].cluster, PATIENCE_MS - 1);
  ck_assert(w->sites[0].affinity[4] < 0);
  carry_all(w);
  ck_assert_uint_ge(w->now_ms, PATIENCE_MS);
  ck_assert(w->sites[0].affinity[4] == 0 && w->sites[1].affinity[4] == 0);
  own(w, 4, hidden[4]); /* at last */
  carry_all(w);
  assert_groups(w, hidden);
  swarm_free(w);
}
END_TEST

/* Nobody is known: it may be our network. */
START_TEST(who_is_away_is_awaited_where_nobody_is_known) {
  struct swarm *w = swarm_new();
  struct site *t = &w->sites[0];
  own(w, 0, 0);
  ck_assert_uint_eq(cluster_turn(t->cluster, 0), UINT64_MAX);
  cluster_turn(t->cluster, (uint64_t)10 * PATIENCE_MS);
  ck_assert_uint_eq(t->n_affinities, 0);
  struct signed_sketch s = said_by(key_of(1), 1, 1, 1);
  hear(w, 0, 1, &s);
  cluster_turn(t->cluster, (uint64_t)20 * PATIENCE_MS);
  cluster_turn(t->cluster, (uint64_t)21 * PATIENCE_MS);
  ck_assert(t->affinity[1] == 1); /* two are one group */
  for (size_t k = 2; k < SITES; k++)
    ck_assert(t->affinity[k] == 0);
  swarm_free(w);
}
END_TEST

START_TEST(without_a_sketch_for_good_nobody_is_with_us) {
  struct swarm *w = settled();
  struct cluster *lost = cluster_made(&w->sites[0], 2);
  w->sites[0].n_affinities = 0;
  cluster_on_no_own(lost);
  cluster_turn(lost, w->now_ms);
  ck_assert_uint_eq(w->sites[0].n_affinities, SITES - 1);
  for (size_t k = 1; k < SITES; k++)
    ck_assert(w->sites[0].affinity[k] == 0);
  struct sketch s = direction(0, 0);
  cluster_on_own(lost, &s);
  struct signed_sketch other = said_by(key_of(2), 1, 1, 0);
  uint8_t bytes[SIGNED_SKETCH_BYTES];
  signed_sketch_write(&other, bytes);
  ck_assert_int_eq(cluster_on_sketch(lost, 1, &other, bytes), ERR_OK);
  cluster_turn(lost, w->now_ms + REGROUP_MS);
  ck_assert(w->sites[0].affinity[2] == 1);
  cluster_free(lost);
  swarm_free(w);
}
END_TEST

START_TEST(what_cannot_be_sent_is_said_later) {
  struct swarm *w = swarm_new();
  for (size_t i = 0; i < SITES; i++)
    own(w, i, hidden[i]);
  meet_all(w);
  w->sites[0].is_full = true;
  for (size_t i = 0; i < 8; i++)
    ck_assert_uint_ne(cluster_turn(w->sites[0].cluster, w->now_ms + i * CLUSTER_PAUSE_MS), UINT64_MAX);
  ck_assert_uint_eq(w->sites[0].n_sent, 0);
  w->now_ms += (uint64_t)8 * CLUSTER_PAUSE_MS;
  w->sites[0].is_full = false;
  carry_all(w);
  assert_groups(w, hidden);
  swarm_free(w);
}
END_TEST

START_TEST(a_new_epoch_says_it_anew) {
  struct swarm *w = settled();
  struct cluster_view v;
  cluster_on_epoch(w->sites[0].cluster, 5);
  size_t before = w->sites[0].n_sent;
  carry_all(w);
  ck_assert_uint_eq(w->sites[0].n_sent, before + SITES - 1);
  cluster_view(w->sites[0].cluster, &v);
  ck_assert_uint_eq(v.serial, 1);
  assert_groups(w, hidden);
  swarm_free(w);
}
END_TEST

int main(void) {
  return SUITE_RUN("cluster", all_find_the_same_groups, without_an_own_sketch_nobody_is_placed,
                   sketches_travel_over_others, who_has_other_data_is_placed_anew, a_level_is_said_once_a_session,
                   an_older_sketch_changes_nothing, nobody_says_our_own, cells_that_no_sketch_has_are_refused,
                   strangers_are_not_grouped, a_new_epoch_says_it_anew, copies_are_not_wanted_and_newer_ones_are,
                   groups_are_found_and_told_now_and_then, who_changes_all_the_time_moves_nobody_all_the_time,
                   a_group_with_another_number_is_the_same_group, who_is_left_alone_is_told_so,
                   who_withholds_its_sketch_is_elsewhere_after_a_while, who_is_away_is_awaited_where_nobody_is_known,
                   without_a_sketch_for_good_nobody_is_with_us, what_cannot_be_sent_is_said_later);
}
