#include "agent/core/cluster.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "tests/unit/suite.h"

enum { SITES = 5, STRANGERS = 80 };

/* Sites in the order of their keys; each has the others as its peers, and what one sends arrives when it is carried. */
struct site {
  struct swarm *swarm;
  size_t number;
  struct gossip_peer_config peers[SITES - 1];
  struct cluster *cluster;
  double affinity[SITES];
  size_t n_affinities, n_moved, n_sent;
  struct word {
    size_t to;
    uint8_t bytes[SIGNED_SKETCH_BYTES];
  } words[256];
  size_t n_words;
};

struct swarm {
  struct site sites[SITES];
  bool is_apart[SITES][SITES];
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

static void send(void *context, size_t peer, const uint8_t *bytes) {
  struct site *t = context;
  size_t to = site_of(t->number, peer);
  t->n_sent++;
  if (t->swarm->is_apart[t->number][to])
    return;
  ck_assert_uint_lt(t->n_words, sizeof t->words / sizeof *t->words);
  t->words[t->n_words].to = to;
  memcpy(t->words[t->n_words++].bytes, bytes, SIGNED_SKETCH_BYTES);
}

static void set_affinity(void *context, size_t peer, double affinity) {
  struct site *t = context;
  t->affinity[site_of(t->number, peer)] = affinity;
  t->n_affinities++;
}

static void moved(void *context, const char *text) {
  ((struct site *)context)->n_moved++;
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
  for (uint64_t now_ms = 0; !is_quiet; now_ms += CLUSTER_PAUSE_MS) {
    is_quiet = true;
    for (size_t i = 0; i < SITES; i++)
      is_quiet = cluster_turn(w->sites[i].cluster, now_ms) == UINT64_MAX && is_quiet;
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

static struct swarm *settled(void) {
  struct swarm *w = swarm_new();
  for (size_t i = 0; i < SITES; i++)
    own(w, i, hidden[i]);
  meet_all(w);
  carry_all(w);
  return w;
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
  struct swarm *w = swarm_new();
  for (size_t i = 1; i < SITES; i++)
    own(w, i, hidden[i]);
  meet_all(w);
  carry_all(w);
  ck_assert_uint_eq(w->sites[0].n_affinities, 0);
  ck_assert_uint_eq(w->sites[0].n_moved, 0);
  ck_assert(w->sites[1].affinity[0] < 0);
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
  cluster_turn(w->sites[0].cluster, 0);
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
  cluster_turn(w->sites[0].cluster, 0);
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

START_TEST(one_peer_introduces_so_many_strangers) {
  struct swarm *w = settled();
  struct sketch other = direction(1, 9);
  size_t n_taken = 0;
  for (size_t i = 0; i < STRANGERS; i++) {
    struct signed_sketch s = {.origin = key_of(100 + i), .boot_epoch = 1, .serial = 1};
    uint8_t bytes[SIGNED_SKETCH_BYTES];
    memcpy(s.cells, &other, sizeof s.cells);
    signed_sketch_write(&s, bytes);
    enum err e = cluster_on_sketch(w->sites[0].cluster, 2, &s, bytes);
    ck_assert(e == ERR_OK || e == ERR_BUDGET);
    n_taken += e == ERR_OK;
  }
  ck_assert_uint_eq(n_taken, MAX_FOREIGN_OF);
  struct cluster_view v;
  cluster_turn(w->sites[0].cluster, 0);
  cluster_view(w->sites[0].cluster, &v);
  ck_assert_uint_eq(v.n_known, SITES + MAX_FOREIGN_OF);
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
                   one_peer_introduces_so_many_strangers, a_new_epoch_says_it_anew);
}
