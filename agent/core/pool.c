#include "agent/core/pool.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/must.h"

struct pool_peer {
  bool is_live, has_stats, has_said; /* has_said: since it is live */
  bool is_frozen;
  struct scale_stats stats;
  struct scale frozen;
};

struct pool {
  size_t n_peers, n_before, n;
  struct pool_peer *peers;
  bool has_own, is_frozen;
  struct scale_stats own;
  struct scale frozen;
  uint8_t *words; /* [n · POOL_PAIR_BYTES] */
};

enum err pool_new(size_t n_peers, size_t n_before, size_t n, struct pool **out_pool) {
  MUST(n_before <= n_peers && n >= 1 && n <= MAX_POOL_PAIRS);
  struct pool *p = calloc(1, sizeof *p);
  if (!p)
    return ERR_NO_MEMORY;
  *p = (struct pool){.n_peers = n_peers, .n_before = n_before, .n = n};
  p->peers = calloc(n_peers + 1, sizeof *p->peers);
  p->words = malloc(n * POOL_PAIR_BYTES);
  if (!p->peers || !p->words) {
    pool_free(p);
    return ERR_NO_MEMORY;
  }
  *out_pool = p;
  return ERR_OK;
}

void pool_free(struct pool *p) {
  if (!p)
    return;
  for (size_t i = 0; p->peers && i < p->n_peers; i++) {
    scale_stats_done(&p->peers[i].stats);
    scale_done(&p->peers[i].frozen);
  }
  scale_stats_done(&p->own);
  scale_done(&p->frozen);
  free(p->peers);
  free(p->words);
  free(p);
}

enum err pool_set_own(struct pool *p, const struct scale_stats *own) {
  struct scale_stats copy;
  MUST(own->n == p->n && own->count > 0);
  if (scale_stats_init(&copy, own->n) != ERR_OK)
    return ERR_NO_MEMORY;
  scale_stats_merge(&copy, own);
  scale_stats_done(&p->own);
  p->own = copy;
  p->has_own = true;
  return ERR_OK;
}

enum err pool_set_frozen(struct pool *p, const struct scale *scale) {
  struct scale copy;
  MUST(scale->n == p->n);
  enum err e = scale_copy(scale, &copy);
  if (e != ERR_OK)
    return e;
  scale_done(&p->frozen);
  p->frozen = copy;
  p->is_frozen = true;
  return ERR_OK;
}

/* ---- what peers say ----------------------------------------------------------------------------------------------- */

static bool is_finite(double x) {
  return x >= -DBL_MAX && x <= DBL_MAX;
}

/* What samples, which are floats, can give; so that no merge overflows a double. */
static bool is_possible(double mean, double spread) {
  return mean >= -(double)FLT_MAX && mean <= (double)FLT_MAX && spread >= 0 &&
         spread <= (double)FLT_MAX * (double)FLT_MAX * MAX_SAMPLES;
}

/* Both arrays of the words into these, each [n]. */
static enum err words_read(const struct wire_pool *words, double *mean, double *spread) {
  struct cursor c;
  cursor_init(&c, words->bytes, (size_t)words->n * POOL_PAIR_BYTES);
  for (size_t i = 0; i < words->n; i++)
    mean[i] = cursor_f64(&c);
  for (size_t i = 0; i < words->n; i++)
    spread[i] = cursor_f64(&c);
  for (size_t i = 0; i < words->n; i++) {
    if (!is_finite(mean[i]) || !is_finite(spread[i]))
      return ERR_NON_FINITE;
    if (!is_possible(mean[i], spread[i]) || (words->is_frozen && spread[i] <= 0))
      return ERR_MESSAGE;
  }
  return ERR_OK;
}

static enum err read_frozen(struct pool *p, struct pool_peer *peer, const struct wire_pool *words) {
  struct scale scale;
  enum err e = scale_init(&scale, SCALE_POOLED, p->n);
  if (e != ERR_OK)
    return e;
  e = words_read(words, scale.mean, scale.sd);
  if (e != ERR_OK) {
    scale_done(&scale);
    return e;
  }
  scale_done(&peer->frozen);
  peer->frozen = scale;
  peer->is_frozen = true;
  return ERR_OK;
}

static enum err read_stats(struct pool *p, struct pool_peer *peer, const struct wire_pool *words) {
  struct scale_stats stats;
  enum err e = scale_stats_init(&stats, p->n);
  if (e != ERR_OK)
    return e;
  e = words_read(words, stats.mean, stats.m2);
  if (e != ERR_OK) {
    scale_stats_done(&stats);
    return e;
  }
  stats.count = words->count;
  scale_stats_done(&peer->stats);
  peer->stats = stats;
  peer->has_stats = true;
  return ERR_OK;
}

enum err pool_on_words(struct pool *p, size_t peer, const struct wire_pool *words) {
  MUST(peer < p->n_peers);
  if (words->n != p->n)
    return ERR_MESSAGE;
  if (words->count > MAX_SAMPLES)
    return ERR_ABSURD_SAMPLES;
  struct pool_peer *from = &p->peers[peer];
  enum err e = words->is_frozen ? read_frozen(p, from, words) : read_stats(p, from, words);
  from->has_said = from->has_said || e == ERR_OK;
  return e;
}

void pool_set_live(struct pool *p, size_t peer, bool is_live) {
  MUST(peer < p->n_peers);
  struct pool_peer *of = &p->peers[peer];
  of->is_live = is_live;
  of->has_said = of->is_frozen = false;
}

/* ---- closing ------------------------------------------------------------------------------------------------------ */

static bool scales_equal(const struct scale *a, const struct scale *b) {
  return a->n == b->n && memcmp(a->mean, b->mean, a->n * sizeof *a->mean) == 0 &&
         memcmp(a->sd, b->sd, a->n * sizeof *a->sd) == 0;
}

/* The numbers that every live peer which has frozen some says; NULL: none has, they differ, or one has not spoken yet. */
static const struct scale *agreed(const struct pool *p) {
  const struct scale *one = NULL;
  for (size_t i = 0; i < p->n_peers; i++) {
    const struct pool_peer *peer = &p->peers[i];
    if (peer->is_live && !peer->has_said)
      return NULL;
    if (!peer->is_live || !peer->is_frozen)
      continue;
    if (one && !scales_equal(one, &peer->frozen))
      return NULL;
    one = &peer->frozen;
  }
  return one;
}

static bool is_complete(const struct pool *p) {
  for (size_t i = 0; i < p->n_peers; i++)
    if (!p->peers[i].has_stats)
      return false;
  return p->has_own;
}

/* In the order of the keys, ourselves where our key stands. */
static enum err merge_all(const struct pool *p, struct scale *out_scale) {
  struct scale_stats all;
  enum err e = scale_stats_init(&all, p->n);
  if (e != ERR_OK)
    return e;
  for (size_t i = 0; i <= p->n_peers; i++) {
    if (i == p->n_before)
      scale_stats_merge(&all, &p->own);
    if (i < p->n_peers)
      scale_stats_merge(&all, &p->peers[i].stats);
  }
  e = scale_stats_end(&all, SCALE_POOLED, out_scale);
  scale_stats_done(&all);
  return e;
}

bool pool_close(struct pool *p, const struct scale **out_scale) {
  const struct scale *theirs = agreed(p);
  if (p->is_frozen || !p->has_own)
    return false;
  enum err e = theirs ? scale_copy(theirs, &p->frozen) : is_complete(p) ? merge_all(p, &p->frozen) : ERR_NOT_FOUND;
  if (e != ERR_OK)
    return false; /* without memory: at the next event */
  p->is_frozen = true;
  *out_scale = &p->frozen;
  return true;
}

bool pool_differs(const struct pool *p, size_t peer) {
  const struct pool_peer *of = &p->peers[peer];
  return p->is_frozen && of->is_frozen && !scales_equal(&p->frozen, &of->frozen);
}

bool pool_lacks(const struct pool *p, size_t peer) {
  return !p->is_frozen && !p->peers[peer].has_stats;
}

bool pool_words(struct pool *p, struct wire_pool *out_words) {
  struct writer w;
  const double *mean = p->is_frozen ? p->frozen.mean : p->own.mean, *spread = p->is_frozen ? p->frozen.sd : p->own.m2;
  if (!p->is_frozen && !p->has_own)
    return false;
  writer_init(&w, p->words, p->n * POOL_PAIR_BYTES);
  for (size_t i = 0; i < p->n; i++)
    writer_f64(&w, mean[i]);
  for (size_t i = 0; i < p->n; i++)
    writer_f64(&w, spread[i]);
  MUST(writer_end(&w) == ERR_OK);
  *out_words = (struct wire_pool){
      .is_frozen = p->is_frozen, .count = p->is_frozen ? 0 : p->own.count, .n = (uint16_t)p->n, .bytes = p->words};
  return true;
}
