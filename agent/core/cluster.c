#include "agent/core/cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/limits.h"
#include "base/must.h"
#include "models/merging/mixing.h"

_Static_assert(SKETCH_CELL_BYTES == sizeof(struct sketch), "cells of two bytes");

enum { OWN = MAX_PEERS, NOBODY = MAX_PEERS + 1, N_TOLD_WORDS = MAX_PEERS / 64 };

/* One origin's newest sketch. */
struct entry {
  struct identity_key origin;
  size_t who;           /* index of the peer that it is, OWN, or NOBODY … */
  size_t introduced_by; /* … whose sketch this peer brought first */
  struct sketch sketch;
  uint64_t boot_epoch;
  uint32_t serial;
  uint8_t bytes[SIGNED_SKETCH_BYTES];
  uint64_t told[N_TOLD_WORDS]; /* peers that have said or heard it in the session that stands */
  size_t group;
};

struct cluster {
  struct cluster_config config;
  const struct cluster_ports *ports;
  struct entry **entries; /* ascending by origin */
  size_t n, capacity, n_foreign;
  struct entry *own; /* NULL: not known yet; as of each peer: */
  struct peer {
    struct entry *entry;
    bool is_live, is_placed;
    double affinity;
    size_t n_foreign; /* that it introduced */
  } * peers;          /* [n_peers] */
  struct groups groups;
  bool is_changed; /* since they were found */
  bool has_news;   /* somebody may not have been told of something */
  uint64_t tell_at_ms;
  bool has_place;
  struct cluster_view placed; /* as was told last */
};

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

static enum err entry_put(struct cluster *c, const struct identity_key *origin, size_t by, struct entry **out_entry) {
  bool is_there;
  size_t at = place_of(c, origin, &is_there), who = who_is(c, origin);
  if (is_there) {
    *out_entry = c->entries[at];
    return ERR_OK;
  }
  if (who == NOBODY && (c->n_foreign == MAX_FOREIGN || c->peers[by].n_foreign == MAX_FOREIGN_OF))
    return ERR_BUDGET;
  struct entry **entries = array_grown(c->entries, &c->capacity, c->n, sizeof(struct entry *), MAX_GROUPED);
  if (!entries)
    return ERR_NO_MEMORY;
  c->entries = entries;
  struct entry *e = calloc(1, sizeof *e);
  if (!e)
    return ERR_NO_MEMORY;
  *e = (struct entry){.origin = *origin, .who = who, .introduced_by = by};
  memmove(&entries[at + 1], &entries[at], (c->n++ - at) * sizeof(struct entry *));
  entries[at] = e;
  if (who == OWN)
    c->own = e;
  else if (who != NOBODY)
    c->peers[who].entry = e;
  else
    c->n_foreign++, c->peers[by].n_foreign++;
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

static void entry_fill(struct cluster *c, struct entry *e, const struct sketch *sketch, const struct signed_sketch *s,
                       const uint8_t *bytes) {
  e->sketch = *sketch;
  e->boot_epoch = s->boot_epoch;
  e->serial = s->serial;
  memcpy(e->bytes, bytes, sizeof e->bytes);
  memset(e->told, 0, sizeof e->told);
  c->is_changed = c->has_news = true;
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
  MUST(entry_put(c, &c->config.own, 0, &e) ==
       ERR_OK); /* without memory for it the process ends, and a restart costs nothing */
  cells_write(own, s.cells);
  c->ports->sign(c->config.context, &s);
  signed_sketch_write(&s, bytes);
  entry_fill(c, e, &copy, &s, bytes);
}

void cluster_on_own(struct cluster *c, const struct sketch *own) {
  say_own(c, own, c->own ? c->own->serial + 1 : 1);
}

void cluster_on_epoch(struct cluster *c, uint64_t boot_epoch) {
  c->config.boot_epoch = boot_epoch;
  if (c->own)
    say_own(c, &c->own->sketch, c->own->serial);
}

void cluster_on_hello(struct cluster *c, size_t peer) {
  c->peers[peer].is_live = c->has_news = true;
  for (size_t i = 0; i < c->n; i++)
    set_told(c->entries[i], peer, false);
}

void cluster_on_gone(struct cluster *c, size_t peer) {
  c->peers[peer].is_live = false;
}

static bool is_newer(const struct signed_sketch *s, const struct entry *e) {
  return s->boot_epoch != e->boot_epoch ? s->boot_epoch > e->boot_epoch : s->serial > e->serial;
}

enum err cluster_on_sketch(struct cluster *c, size_t peer, const struct signed_sketch *s, const uint8_t *bytes) {
  struct sketch sketch;
  struct entry *e;
  if (identity_key_equal(&s->origin, &c->config.own))
    return ERR_OK; /* an earlier life's: the next one of this life is newer */
  enum err error = cells_read(s->cells, &sketch);
  if (error == ERR_OK)
    error = entry_put(c, &s->origin, peer, &e);
  if (error != ERR_OK)
    return error;
  if (is_newer(s, e))
    entry_fill(c, e, &sketch, s, bytes);
  if (s->boot_epoch == e->boot_epoch && s->serial == e->serial)
    set_told(e, peer, true);
  return ERR_OK;
}

/* ---- groups ------------------------------------------------------------------------------------------------------- */

static double affinity_to(const struct cluster *c, const struct entry *e) {
  if (e->group != c->own->group)
    return 0;
  return mixing_affinity(c->config.kappa, sketch_cosine(&c->own->sketch, &e->sketch));
}

static void place_peers(struct cluster *c) {
  for (size_t i = 0; i < c->config.n_peers; i++) {
    struct peer *p = &c->peers[i];
    if (!p->entry)
      continue;
    double affinity = affinity_to(c, p->entry);
    bool is_news = !p->is_placed || affinity < p->affinity || affinity > p->affinity;
    p->is_placed = true;
    p->affinity = affinity;
    if (is_news)
      c->ports->affinity(c->config.context, i, affinity);
  }
}

static void tell_place(struct cluster *c) {
  struct cluster_view v;
  char text[MAX_REASON_BYTES];
  cluster_view(c, &v);
  bool is_same =
      c->has_place && v.group == c->placed.group && v.n_groups == c->placed.n_groups && v.serial == c->placed.serial;
  c->has_place = true;
  c->placed = v;
  if (is_same)
    return;
  snprintf(text, sizeof text, "group %zu of %zu, with %zu of the %zu sites that are known", v.group + 1, v.n_groups,
           v.n_members, v.n_known);
  c->ports->moved(c->config.context, text);
}

static void find_groups(struct cluster *c) {
  const struct sketch *sketches[MAX_GROUPED];
  for (size_t i = 0; i < c->n; i++)
    sketches[i] = &c->entries[i]->sketch;
  if (groups_find(sketches, c->n, &c->config.wish, &c->config.seed, &c->groups) != ERR_OK)
    return; /* again at the next change; until then it is as it was */
  for (size_t i = 0; i < c->n; i++)
    c->entries[i]->group = c->groups.of[i];
  place_peers(c);
  tell_place(c);
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
    set_told(e, peer, true);
    c->ports->send(c->config.context, peer, e->bytes);
  }
  return true;
}

uint64_t cluster_turn(struct cluster *c, uint64_t now_ms) {
  if (c->is_changed && c->own)
    find_groups(c);
  c->is_changed = false;
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

/* ---- showing ------------------------------------------------------------------------------------------------------ */

void cluster_view(const struct cluster *c, struct cluster_view *out_view) {
  *out_view = (struct cluster_view){.has_own = c->own != NULL, .n_known = c->n};
  if (!c->own)
    return;
  out_view->group = c->own->group;
  out_view->n_groups = c->groups.n_groups;
  out_view->silhouette = c->groups.silhouette;
  out_view->serial = c->own->serial;
  for (size_t i = 0; i < c->n; i++)
    out_view->n_members += c->entries[i]->group == c->own->group;
}

bool cluster_peer_view(const struct cluster *c, size_t peer, size_t *out_group, double *out_cosine) {
  const struct entry *e = c->peers[peer].entry;
  if (!e || !c->own)
    return false;
  *out_group = e->group;
  *out_cosine = sketch_cosine(&c->own->sketch, &e->sketch);
  return true;
}
