#include "agent/core/mass.h"

#include <stdlib.h>
#include <string.h>

#include "base/must.h"

enum {
  HEAD_BYTES = 5 * 8,                  /* account, mu, sent, written off, number of edges */
  EDGE_BYTES = 32 + 8 + 3 * 8 + 2 * 8, /* key, has a base u64, told, taken, sum, place */
};

_Static_assert(MASS_BYTES_MOST == HEAD_BYTES + MAX_PEERS * EDGE_BYTES, "its length");

/* By so much two numbers may differ that are the same but for rounding: of what a sum grew by, and of it all. */
#define ROUNDING_OF_GROWTH 1e-9
#define ROUNDING_OF_SUM 1e-14

enum err mass_open(size_t n, size_t n_agents, struct mass *out_mass) {
  struct mass m = {.mu = 1, .sent = 1, .n_agents = n_agents, .n_edges = n, .edges = calloc(n + 1, sizeof *m.edges)};
  if (!m.edges)
    return ERR_NO_MEMORY;
  *out_mass = m;
  return ERR_OK;
}

void mass_done(struct mass *m) {
  free(m->edges);
  *m = (struct mass){0};
}

/* ---- giving */

struct push mass_push(struct mass *m, const bool *is_told) {
  size_t n = 0;
  for (size_t i = 0; i < m->n_edges; i++) {
    m->edges[i].told_before = m->edges[i].told;
    n += is_told[i];
  }
  m->before.is_known = true;
  m->before.sent = m->sent;
  m->before.push = (struct push){.mass = m->mu, .rest = m->mu};
  double part = m->mu / (double)(n + 1);
  if (n == 0 || part < MASS_LEAST)
    return m->before.push;
  m->sent += part;
  part = m->sent - m->before.sent; /* as whoever takes it reckons */
  for (size_t i = 0; i < m->n_edges; i++) {
    if (!is_told[i])
      continue;
    m->edges[i].told += part;
    m->mu -= m->edges[i].told - m->edges[i].told_before;
  }
  m->before.push = (struct push){.mass = m->before.push.mass, .amount = part, .rest = m->mu, .n_told = n};
  return m->before.push;
}

struct push mass_take_back(struct mass *m) {
  MUST(m->before.is_known);
  for (size_t i = 0; i < m->n_edges; i++)
    m->edges[i].told = m->edges[i].told_before;
  m->mu = m->before.push.mass;
  m->sent = m->before.sent;
  m->before.is_known = false;
  return m->before.push;
}

double mass_rate(const struct mass *m) {
  return 1 / m->mu < MASS_RATE_MOST ? 1 / m->mu : MASS_RATE_MOST;
}

/* ---- taking */

static bool is_mass(double x) {
  return __builtin_isfinite(x) && x >= 0;
}

static bool is_newer(const struct mass_edge *e, const struct mass_claim *c) {
  return c->account != e->account ? c->account > e->account : c->sequence > e->sequence;
}

static double rounding(double grown, double sum) {
  return ROUNDING_OF_GROWTH * grown + ROUNDING_OF_SUM * sum;
}

static enum err judge_increase(const struct mass *m, const struct mass_edge *e, const struct mass_claim *c) {
  double grown = c->sum - e->sum, told = c->told - e->taken;
  double most = (double)(c->sequence - e->sequence) * (double)m->n_agents / 2;
  bool may_be = grown >= 0 && grown <= most && told >= 0 && told <= grown + rounding(grown, c->sum);
  return may_be ? ERR_OK : ERR_MASS;
}

enum err mass_take(struct mass *m, size_t edge, const struct mass_claim *claim, struct mass_taken *out_taken) {
  struct mass_edge *e = &m->edges[edge];
  if (!is_mass(claim->sum) || !is_mass(claim->told) || claim->sum == 0)
    return ERR_MASS;
  *out_taken = (struct mass_taken){.what = MASS_NOTHING};
  if (e->has_base && !is_newer(e, claim))
    return ERR_OK;
  out_taken->what = e->has_base && claim->account == e->account ? MASS_INCREASE : MASS_BASE;
  if (out_taken->what == MASS_INCREASE) {
    enum err err = judge_increase(m, e, claim);
    if (err != ERR_OK)
      return err;
    double grown = claim->sum - e->sum, told = claim->told - e->taken;
    bool is_all = told > 0 && told >= grown - rounding(grown, claim->sum);
    out_taken->share = is_all ? 1 : grown > 0 ? told / grown : 0;
    m->mu += told;
  }
  e->has_base = true;
  e->taken = claim->told;
  e->sum = claim->sum;
  e->account = claim->account;
  e->sequence = claim->sequence;
  return ERR_OK;
}

void mass_begin_anew(struct mass *m, uint64_t account) {
  m->account = account;
  m->written_off += m->mu;
  m->mu = 1;
  m->before.is_known = false;
  for (size_t i = 0; i < m->n_edges; i++) {
    m->edges[i].told = m->edges[i].told_before = 0;
    m->edges[i].has_base = false;
  }
}

/* ---- the tail of a sum */

size_t mass_tail_bytes(const struct mass *m) {
  size_t n = 0;
  for (size_t i = 0; i < m->n_edges; i++)
    n += m->edges[i].told > 0;
  return MASS_ACCOUNT_BYTES + n * MASS_TOLD_BYTES;
}

void mass_tail_write(const struct mass *m, uint8_t *out_bytes) {
  struct writer w;
  writer_init(&w, out_bytes, mass_tail_bytes(m));
  writer_u64(&w, m->account);
  for (size_t i = 0; i < m->n_edges; i++) {
    if (m->edges[i].told == 0)
      continue;
    writer_bytes(&w, m->edges[i].peer.bytes, sizeof m->edges[i].peer.bytes);
    writer_f64(&w, m->edges[i].told);
  }
  MUST(writer_end(&w) == ERR_OK);
}

enum err mass_tail_read(const uint8_t *bytes, size_t n_bytes, const struct identity_key *own, uint64_t *out_account,
                        double *out_told) {
  struct cursor c;
  struct identity_key last = {{0}};
  double told_us = 0;
  size_t n = n_bytes / MASS_TOLD_BYTES;
  if (n_bytes % MASS_TOLD_BYTES != MASS_ACCOUNT_BYTES || n > MAX_PEERS)
    return ERR_ENCODING;
  cursor_init(&c, bytes, n_bytes);
  uint64_t account = cursor_u64(&c);
  if (account == 0)
    return ERR_ENCODING;
  for (size_t i = 0; i < n; i++) {
    struct identity_key key;
    cursor_bytes(&c, key.bytes, sizeof key.bytes);
    double told = cursor_f64(&c);
    if (!is_mass(told) || told == 0 || (i > 0 && identity_key_compare(&key, &last) <= 0))
      return ERR_ENCODING;
    if (identity_key_equal(&key, own))
      told_us = told;
    last = key;
  }
  *out_account = account;
  *out_told = told_us;
  return ERR_OK;
}

/* ---- snapshots */

size_t mass_bytes(const struct mass *m) {
  return HEAD_BYTES + m->n_edges * EDGE_BYTES;
}

void mass_write(const struct mass *m, uint8_t *out_bytes) {
  struct writer w;
  writer_init(&w, out_bytes, mass_bytes(m));
  writer_u64(&w, m->account);
  writer_f64(&w, m->mu);
  writer_f64(&w, m->sent);
  writer_f64(&w, m->written_off);
  writer_u64(&w, m->n_edges);
  for (size_t i = 0; i < m->n_edges; i++) {
    const struct mass_edge *e = &m->edges[i];
    writer_bytes(&w, e->peer.bytes, sizeof e->peer.bytes);
    writer_u64(&w, e->has_base);
    writer_f64(&w, e->told);
    writer_f64(&w, e->taken);
    writer_f64(&w, e->sum);
    writer_u64(&w, e->account);
    writer_u64(&w, e->sequence);
  }
  MUST(writer_end(&w) == ERR_OK);
}

static enum err edge_read(struct cursor *c, struct mass_edge *out) {
  cursor_bytes(c, out->peer.bytes, sizeof out->peer.bytes);
  uint64_t has_base = cursor_u64(c);
  out->has_base = has_base == 1;
  out->told = cursor_f64(c);
  out->taken = cursor_f64(c);
  out->sum = cursor_f64(c);
  out->account = cursor_u64(c);
  out->sequence = cursor_u64(c);
  return has_base <= 1 && is_mass(out->told) && is_mass(out->taken) && is_mass(out->sum) ? ERR_OK : ERR_CORRUPT;
}

static struct mass_edge *edge_find(const struct mass *m, const struct identity_key *peer) {
  for (size_t i = 0; i < m->n_edges; i++)
    if (identity_key_equal(&m->edges[i].peer, peer))
      return &m->edges[i];
  return NULL;
}

/* NULL: only whether it can be read. */
static enum err edges_read(struct cursor c, uint64_t n, struct mass *m) {
  for (uint64_t i = 0; i < n; i++) {
    struct mass_edge stored = {0}, *own;
    enum err e = edge_read(&c, &stored);
    if (e != ERR_OK)
      return e;
    if (m && (own = edge_find(m, &stored.peer)) != NULL)
      *own = stored;
  }
  return ERR_OK;
}

enum err mass_read(struct mass *m, const uint8_t *bytes, size_t n_bytes) {
  struct cursor c;
  cursor_init(&c, bytes, n_bytes);
  uint64_t account = cursor_u64(&c);
  double mu = cursor_f64(&c), sent = cursor_f64(&c), written_off = cursor_f64(&c);
  uint64_t n = cursor_u64(&c);
  if (c.failed)
    return ERR_TRUNCATED;
  if (!(mu >= MASS_LEAST / 2) || !is_mass(mu) || !is_mass(sent) || sent == 0 || !is_mass(written_off) || n > MAX_PEERS)
    return ERR_CORRUPT;
  if (c.left != n * EDGE_BYTES)
    return c.left < n * EDGE_BYTES ? ERR_TRUNCATED : ERR_TRAILING;
  enum err e = edges_read(c, n, NULL);
  if (e != ERR_OK)
    return e;
  for (size_t i = 0; i < m->n_edges; i++)
    m->edges[i] = (struct mass_edge){.peer = m->edges[i].peer};
  m->account = account;
  m->mu = mu;
  m->sent = sent;
  m->written_off = written_off;
  m->before.is_known = false;
  return edges_read(c, n, m);
}

/* Behind the head; how many there are. */
static struct cursor edges_of(const uint8_t *bytes, size_t n_bytes, uint64_t *out_n) {
  struct cursor c;
  cursor_init(&c, bytes, n_bytes);
  (void)cursor_view(&c, HEAD_BYTES - 8);
  *out_n = cursor_u64(&c);
  return c;
}

size_t mass_measure(const uint8_t *bytes, size_t n_bytes) {
  uint64_t n;
  struct cursor c = edges_of(bytes, n_bytes, &n);
  return !c.failed && n <= MAX_PEERS && c.left >= n * EDGE_BYTES ? HEAD_BYTES + (size_t)n * EDGE_BYTES : 0;
}

/* The next edge of those that are read. */
static bool edge_next(struct cursor *c, struct identity_key *out_peer) {
  struct mass_edge e;
  MUST(edge_read(c, &e) == ERR_OK);
  *out_peer = e.peer;
  return e.has_base;
}

size_t mass_sums(const uint8_t *bytes, size_t n_bytes) {
  struct identity_key key;
  uint64_t n;
  size_t n_sums = 0;
  struct cursor c = edges_of(bytes, n_bytes, &n);
  for (uint64_t i = 0; i < n; i++)
    n_sums += edge_next(&c, &key);
  return n_sums;
}

size_t mass_sum_of(const uint8_t *bytes, size_t n_bytes, const struct identity_key *peer) {
  struct identity_key key;
  uint64_t n;
  size_t rank = 0;
  struct cursor c = edges_of(bytes, n_bytes, &n);
  for (uint64_t i = 0; i < n; i++) {
    bool has_sum = edge_next(&c, &key);
    if (identity_key_equal(&key, peer))
      return has_sum ? rank : SIZE_MAX;
    rank += has_sum;
  }
  return SIZE_MAX;
}
