#include "agent/core/cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/limits.h"
#include "base/must.h"
#include "models/merging/mixing.h"

_Static_assert(SKETCH_CELL_BYTES == sizeof(struct sketch), "cells of two bytes");

#define NO_GROUP SIZE_MAX /* not found yet */

enum { OWN = MAX_PEERS, NOBODY = MAX_PEERS + 1, N_WORDS = MAX_PEERS / 64 };

/* What an origin has said. */
struct word {
  struct sketch sketch;
  uint64_t boot_epoch; /* 0: nothing */
  uint32_t serial;
  size_t by; /* the peer that brought it */
  uint8_t bytes[SIGNED_SKETCH_BYTES];
};

/* Of so many times at once, of which one comes back in a while. Zeros: all are there. */
struct purse {
  size_t n_spent;
  uint64_t since_ms;
};

/* One origin. */
struct entry {
  struct identity_key origin;
  size_t who;             /* index of the peer that it is, or OWN */
  struct word word;       /* that counts; nothing until the next turn */
  struct word waiting;    /* newer, and not taken yet */
  struct purse purse;     /* of words */
  uint64_t told[N_WORDS]; /* peers that have said or heard the word in the session that stands */
  size_t group;
};

struct cluster {
  struct cluster_config config;
  const struct cluster_ports *ports;
  struct entry **entries; /* ascending by origin */
  size_t n, capacity;
  struct entry *own; /* NULL: not known yet; as of each peer: */
  bool has_none;     /* and will not be */
  struct peer {
    struct entry *entry;
    bool is_live, is_placed, is_awaited;
    uint64_t until_ms; /* its sketch is awaited */
    double affinity;
  } * peers; /* [n_peers] */
  struct groups groups;
  bool is_changed; /* since they were found */
  struct purse regroupings;
  uint64_t regroup_at_ms; /* not before */
  bool has_news;          /* somebody may not have been told of something */
  uint64_t tell_at_ms;
  bool has_moved; /* somebody has been told who is with us: */
  uint64_t with_us[N_WORDS];
  bool is_moving; /* it is to be told at: */
  uint64_t moved_at_ms;
};

static uint64_t earlier(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}

static uint64_t later(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}

enum err cluster_new(const struct cluster_config *config, const struct cluster_ports *ports,
                     struct cluster **out_cluster) {
  MUST(config->n_peers <= MAX_PEERS);
  struct cluster *c = calloc(1, sizeof *c);
  if (!c)
    return ERR_NO_MEMORY;
  *c = (struct cluster){.config = *config, .ports = ports};
  c->peers = calloc(config->n_peers + 1, sizeof *c->peers);
  if (!c->peers) {
    free(c);
    return ERR_NO_MEMORY;
  }
  *out_cluster = c;
  return ERR_OK;
}

void cluster_free(struct cluster *c) {
  if (!c)
    return;
  for (size_t i = 0; i < c->n; i++)
    free(c->entries[i]);
  free(c->entries);
  free(c->peers);
  free(c);
}

/* ---- cells -------------------------------------------------------------------------------------------------------- */

static void cells_write(const struct sketch *s, uint8_t out_bytes[SKETCH_CELL_BYTES]) {
  for (size_t i = 0; i < SKETCH_CELLS; i++) {
    uint16_t bits = (uint16_t)s->cells[i];
    out_bytes[2 * i] = (uint8_t)bits;
    out_bytes[2 * i + 1] = (uint8_t)(bits >> 8);
  }
}

static enum err cells_read(const uint8_t bytes[SKETCH_CELL_BYTES], struct sketch *out_sketch) {
  struct sketch s;
  for (size_t i = 0; i < SKETCH_CELLS; i++) {
    int bits = bytes[2 * i] | bytes[2 * i + 1] << 8;
    s.cells[i] = (int16_t)(bits < 0x8000 ? bits : bits - 0x10000);
  }
  if (!sketch_is_canonical(&s))
    return ERR_ENCODING;
  *out_sketch = s;
  return ERR_OK;
}

/* ---- now and then ------------------------------------------------------------------------------------------------- */

/* False: at *out_due_ms. */
static bool purse_take(struct purse *p, size_t burst, uint64_t every_ms, uint64_t now_ms, uint64_t *out_due_ms) {
  uint64_t n_back = now_ms > p->since_ms ? (now_ms - p->since_ms) / every_ms : 0;
  bool is_full = n_back >= p->n_spent;
  p->n_spent = is_full ? 0 : p->n_spent - (size_t)n_back;
  p->since_ms = is_full ? now_ms : p->since_ms + n_back * every_ms;
  *out_due_ms = p->since_ms + every_ms;
  if (p->n_spent == burst)
    return false;
  p->n_spent++;
  return true;
}

/* ---- the table ---------------------------------------------------------------------------------------------------- */

/* Where the origin stands, or would. */
static size_t place_of(const struct cluster *c, const struct identity_key *origin, bool *out_is_there) {
  size_t at = 0;
  while (at < c->n && identity_key_compare(&c->entries[at]->origin, origin) < 0)
    at++;
  *out_is_there = at < c->n && identity_key_equal(&c->entries[at]->origin, origin);
  return at;
}

static size_t who_is(const struct cluster *c, const struct identity_key *origin) {
  if (identity_key_equal(origin, &c->config.own))
    return OWN;
  for (size_t i = 0; i < c->config.n_peers; i++)
    if (identity_key_equal(origin, &c->config.peers[i].key))
      return i;
  return NOBODY;
}

static struct entry *entry_find(const struct cluster *c, const struct identity_key *origin) {
  bool is_there;
  size_t at = place_of(c, origin, &is_there);
  return is_there ? c->entries[at] : NULL;
}

/* `who` it is: OWN or a peer. */
static enum err entry_put(struct cluster *c, const struct identity_key *origin, size_t who, struct entry **out_entry) {
  bool is_there;
  size_t at = place_of(c, origin, &is_there);
  if (is_there) {
    *out_entry = c->entries[at];
    return ERR_OK;
  }
  struct entry **entries = array_grown(c->entries, &c->capacity, c->n, sizeof(struct entry *), MAX_GROUPED);
  if (!entries)
    return ERR_NO_MEMORY;
  c->entries = entries;
  struct entry *e = calloc(1, sizeof *e);
  if (!e)
    return ERR_NO_MEMORY;
  *e = (struct entry){.origin = *origin, .who = who, .group = NO_GROUP};
  memmove(&entries[at + 1], &entries[at], (c->n++ - at) * sizeof(struct entry *));
  entries[at] = e;
  if (who == OWN)
    c->own = e;
  else
    c->peers[who].entry = e;
  *out_entry = e;
  return ERR_OK;
}

static void set_told(struct entry *e, size_t peer, bool is_told) {
  uint64_t bit = UINT64_C(1) << peer % 64;
  e->told[peer / 64] = is_told ? e->told[peer / 64] | bit : e->told[peer / 64] & ~bit;
}

static bool is_told(const struct entry *e, size_t peer) {
  return e->told[peer / 64] >> peer % 64 & 1;
}

static void word_fill(struct word *w, const struct sketch *sketch, const struct signed_sketch *s, const uint8_t *bytes,
                      size_t by) {
  *w = (struct word){.sketch = *sketch, .boot_epoch = s->boot_epoch, .serial = s->serial, .by = by};
  memcpy(w->bytes, bytes, sizeof w->bytes);
}

/* Another word counts; one that says the same again changes no group. */
static void entry_take(struct cluster *c, struct entry *e) {
  bool is_same = e->word.boot_epoch > 0 && memcmp(&e->word.sketch, &e->waiting.sketch, sizeof e->word.sketch) == 0;
  e->word = e->waiting;
  e->waiting = (struct word){0};
  memset(e->told, 0, sizeof e->told);
  if (e->who != OWN)
    set_told(e, e->word.by, true);
  c->is_changed = c->is_changed || !is_same;
  c->has_news = true;
}

/* Positive: s is newer. */
static int compare_to(const struct signed_sketch *s, const struct word *w) {
  const struct signed_sketch held = {.boot_epoch = w->boot_epoch, .serial = w->serial};
  return signed_sketch_compare(s, &held);
}

/* ---- events ------------------------------------------------------------------------------------------------------- */

static void say_own(struct cluster *c, const struct sketch *own, uint32_t serial) {
  struct entry *e;
  struct signed_sketch s = {.swarm = c->config.swarm,
                            .job = c->config.job,
                            .schema = c->config.schema,
                            .contract = c->config.contract,
                            .boot_epoch = c->config.boot_epoch,
                            .serial = serial};
  uint8_t bytes[SIGNED_SKETCH_BYTES];
  struct sketch copy = *own;
  MUST(entry_put(c, &c->config.own, OWN, &e) ==
       ERR_OK); /* without memory for it the process ends, and a restart costs nothing */
  cells_write(own, s.cells);
  c->ports->sign(c->config.context, &s);
  signed_sketch_write(&s, bytes);
  word_fill(&e->waiting, &copy, &s, bytes, 0);
  entry_take(c, e);
}

void cluster_on_own(struct cluster *c, const struct sketch *own) {
  c->has_none = false;
  say_own(c, own, c->own ? c->own->word.serial + 1 : 1);
}

void cluster_on_no_own(struct cluster *c) {
  c->has_none = c->own == NULL;
}

void cluster_on_epoch(struct cluster *c, uint64_t boot_epoch) {
  c->config.boot_epoch = boot_epoch;
  if (c->own)
    say_own(c, &c->own->word.sketch, c->own->word.serial);
}

void cluster_on_hello(struct cluster *c, size_t peer) {
  c->peers[peer].is_live = c->has_news = true;
  c->peers[peer].is_awaited = false; /* from now on */
  for (size_t i = 0; i < c->n; i++)
    set_told(c->entries[i], peer, false);
}

void cluster_on_gone(struct cluster *c, size_t peer) {
  c->peers[peer].is_live = false;
}

bool cluster_wants(struct cluster *c, size_t peer, const struct signed_sketch *s) {
  size_t who = who_is(c, &s->origin);
  if (who == OWN || who == NOBODY) /* own: an earlier life's; the next one of this life is newer */
    return false;
  struct entry *e = entry_find(c, &s->origin);
  if (!e)
    return true;
  if (compare_to(s, &e->word) == 0)
    set_told(e, peer, true);
  return compare_to(s, &e->word) > 0 && compare_to(s, &e->waiting) > 0;
}

enum err cluster_on_sketch(struct cluster *c, size_t peer, const struct signed_sketch *s, const uint8_t *bytes) {
  struct sketch sketch;
  struct entry *e;
  enum err error = cells_read(s->cells, &sketch);
  if (error != ERR_OK || !cluster_wants(c, peer, s))
    return error;
  error = entry_put(c, &s->origin, who_is(c, &s->origin), &e);
  if (error != ERR_OK)
    return error;
  word_fill(&e->waiting, &sketch, s, bytes, peer);
  return ERR_OK;
}

/* What may be taken by now; when there is more. */
static uint64_t take_waiting(struct cluster *c, uint64_t now_ms) {
  uint64_t due_ms = UINT64_MAX, at_ms;
  for (size_t i = 0; i < c->n; i++) {
    struct entry *e = c->entries[i];
    if (e->waiting.boot_epoch == 0)
      continue;
    if (purse_take(&e->purse, SKETCH_BURST, SKETCH_EVERY_MS, now_ms, &at_ms))
      entry_take(c, e);
    else
      due_ms = earlier(due_ms, at_ms);
  }
  return due_ms;
}

/* ---- groups ------------------------------------------------------------------------------------------------------- */

static double affinity_to(const struct cluster *c, const struct entry *e) {
  if (e->group != c->own->group)
    return 0;
  return mixing_affinity(c->config.kappa, sketch_cosine(&c->own->word.sketch, &e->word.sketch));
}

static void place_peer(struct cluster *c, size_t peer, double affinity) {
  struct peer *p = &c->peers[peer];
  bool is_news = !p->is_placed || affinity < p->affinity || affinity > p->affinity;
  p->is_placed = true;
  p->affinity = affinity;
  if (is_news)
    c->ports->affinity(c->config.context, peer, affinity);
}

/* Groups anew; when that is to be done. */
static uint64_t regroup(struct cluster *c, uint64_t now_ms) {
  const struct sketch *sketches[MAX_GROUPED];
  uint64_t at_ms;
  if (!c->is_changed || !c->own)
    return UINT64_MAX;
  if (now_ms < c->regroup_at_ms)
    return c->regroup_at_ms;
  if (c->n > 1 && !purse_take(&c->regroupings, REGROUP_BURST, REGROUP_MS, now_ms, &at_ms))
    return at_ms;
  c->regroup_at_ms = c->n > 1 ? now_ms + REGROUP_SPACE_MS : now_ms;
  for (size_t i = 0; i < c->n; i++)
    sketches[i] = &c->entries[i]->word.sketch;
  if (groups_find(sketches, c->n, &c->config.wish, &c->config.seed, &c->groups) != ERR_OK)
    return c->regroup_at_ms; /* until then it is as it was */
  c->is_changed = false;
  for (size_t i = 0; i < c->n; i++)
    c->entries[i]->group = c->groups.of[i];
  for (size_t i = 0; i < c->config.n_peers; i++)
    if (c->peers[i].entry)
      place_peer(c, i, affinity_to(c, c->peers[i].entry));
  return UINT64_MAX;
}

/* A peer without a sketch is elsewhere once it has had its time; when the next one has. */
static uint64_t place_silent(struct cluster *c, uint64_t now_ms) {
  uint64_t due_ms = UINT64_MAX;
  for (size_t i = 0; (c->own || c->has_none) && i < c->config.n_peers; i++) {
    struct peer *p = &c->peers[i];
    if (p->is_placed)
      continue;
    if (!p->is_awaited)
      p->until_ms = now_ms + later(c->config.patience_ms, PATIENCE_LEAST_MS);
    p->is_awaited = true;
    if (c->has_none)
      place_peer(c, i, 0);
    else if (p->entry || !(p->is_live || c->n > 1))
      continue; /* it will be placed; or, where nobody is known, it may be the network's fault */
    else if (now_ms >= p->until_ms)
      place_peer(c, i, 0);
    else
      due_ms = earlier(due_ms, p->until_ms);
  }
  return due_ms;
}

static void tell_place(struct cluster *c) {
  struct cluster_view v;
  char text[MAX_REASON_BYTES];
  cluster_view(c, &v);
  bool is_alone = v.n_members == 1;
  snprintf(text, sizeof text, "group %zu of %zu, with %zu of the %zu sites that are known%s", v.group + 1, v.n_groups,
           v.n_members, v.n_known, is_alone ? ": none of them is like this one, which learns alone" : "");
  c->ports->moved(c->config.context, is_alone, text);
}

/* Tells who is with us, if they are others than was told; when that is to be done. */
static uint64_t tell_moved(struct cluster *c, uint64_t now_ms) {
  uint64_t with_us[N_WORDS] = {0};
  for (size_t i = 0; i < c->n; i++) {
    const struct entry *e = c->entries[i];
    if (c->own && e->who != OWN && e->group == c->own->group)
      with_us[e->who / 64] |= UINT64_C(1) << e->who % 64;
  }
  if (!c->own || c->n == 1 || (c->has_moved && memcmp(with_us, c->with_us, sizeof with_us) == 0))
    return UINT64_MAX;
  if (!c->has_moved && !c->is_moving)
    c->moved_at_ms = now_ms + REGROUP_MS; /* others' sketches come now */
  c->is_moving = true;
  if (now_ms < c->moved_at_ms)
    return c->moved_at_ms;
  c->has_moved = true;
  memcpy(c->with_us, with_us, sizeof with_us);
  c->moved_at_ms = now_ms + MOVED_MS;
  tell_place(c);
  return UINT64_MAX;
}

/* ---- telling ------------------------------------------------------------------------------------------------------ */

/* False: there is more to tell. */
static bool tell(struct cluster *c, size_t peer) {
  size_t n = 0;
  for (size_t i = 0; i < c->n; i++) {
    struct entry *e = c->entries[i];
    if (is_told(e, peer) || e->who == peer)
      continue;
    if (n++ == CLUSTER_BURST)
      return false;
    enum err error = c->ports->send(c->config.context, peer, e->word.bytes);
    if (error == ERR_BACKLOG || error == ERR_NO_MEMORY)
      return false;
    set_told(e, peer, true); /* or there is no session, and the next one begins anew */
  }
  return true;
}

static uint64_t tell_all(struct cluster *c, uint64_t now_ms) {
  if (!c->has_news)
    return UINT64_MAX;
  if (now_ms < c->tell_at_ms)
    return c->tell_at_ms;
  bool is_all = true;
  for (size_t i = 0; i < c->config.n_peers; i++)
    is_all = (!c->peers[i].is_live || tell(c, i)) && is_all;
  c->has_news = !is_all;
  c->tell_at_ms = now_ms + CLUSTER_PAUSE_MS;
  return is_all ? UINT64_MAX : c->tell_at_ms;
}

uint64_t cluster_turn(struct cluster *c, uint64_t now_ms) {
  uint64_t due_ms = take_waiting(c, now_ms);
  due_ms = earlier(due_ms, regroup(c, now_ms));
  due_ms = earlier(due_ms, place_silent(c, now_ms));
  due_ms = earlier(due_ms, tell_moved(c, now_ms));
  return earlier(due_ms, tell_all(c, now_ms));
}

/* ---- showing ------------------------------------------------------------------------------------------------------ */

void cluster_view(const struct cluster *c, struct cluster_view *out_view) {
  *out_view = (struct cluster_view){.n_known = c->n};
  if (!c->own || c->own->group == NO_GROUP)
    return;
  out_view->has_own = true;
  out_view->group = c->own->group;
  out_view->n_groups = c->groups.n_groups;
  out_view->silhouette = c->groups.silhouette;
  out_view->serial = c->own->word.serial;
  for (size_t i = 0; i < c->n; i++)
    out_view->n_members += c->entries[i]->group == c->own->group;
}

bool cluster_peer_view(const struct cluster *c, size_t peer, size_t *out_group, double *out_cosine) {
  const struct entry *e = c->peers[peer].entry;
  if (!e || !c->own || e->group == NO_GROUP)
    return false;
  *out_group = e->group;
  *out_cosine = sketch_cosine(&c->own->word.sketch, &e->word.sketch);
  return true;
}
