#include "agent/run/sums.h"

#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "models/learner_sums.h"

static size_t copy_of(const struct sums *s, size_t peer) {
  return s->copy_of ? s->copy_of[peer] : peer;
}

/* ---- the ledger: the account and the sums that it speaks of */

static size_t ledger_bytes(const void *context) {
  return mass_bytes(&((const struct sums *)context)->mass);
}

static void ledger_write(const void *context, uint8_t *out_bytes) {
  mass_write(&((const struct sums *)context)->mass, out_bytes);
}

static size_t ledger_copies(const void *context, size_t *out_copies) {
  const struct sums *s = context;
  size_t n = 0;
  for (size_t i = 0; i < s->mass.n_edges; i++)
    if (s->mass.edges[i].has_base)
      out_copies[n++] = copy_of(s, i);
  return n;
}

static bool ledger_fits(const void *context, const uint8_t *bytes, size_t n_bytes, size_t n_copies) {
  struct mass probe = {0};
  (void)context;
  return mass_measure(bytes, n_bytes) == n_bytes && mass_read(&probe, bytes, n_bytes) == ERR_OK &&
         mass_sums(bytes, n_bytes) == n_copies;
}

/* A peer that is not followed any more keeps its account, and has no copy to go on from. */
static void ledger_take(void *context, const uint8_t *bytes, size_t n_bytes, size_t *out_stands) {
  struct sums *s = context;
  MUST(mass_read(&s->mass, bytes, n_bytes) == ERR_OK);
  for (size_t i = 0; i < s->n_copies; i++)
    out_stands[i] = SIZE_MAX;
  for (size_t i = 0; i < s->mass.n_edges; i++) {
    struct mass_edge *e = &s->mass.edges[i];
    if (copy_of(s, i) < s->n_copies)
      out_stands[copy_of(s, i)] = mass_sum_of(bytes, n_bytes, &e->peer);
    else
      e->has_base = false;
  }
}

/* ---- */

enum err sums_open(const struct sums_roster *roster, size_t n_copies, struct sums *s) {
  *s = (struct sums){.own = roster->own, .copy_of = roster->copy_of, .n_copies = n_copies};
  enum err e = mass_open(roster->n_peers, roster->n_agents, &s->mass);
  if (e != ERR_OK)
    return e;
  for (size_t i = 0; i < roster->n_peers; i++)
    s->mass.edges[i].peer = roster->peers[i].key;
  s->ledger = (struct learner_ledger){.context = s,
                                      .most_bytes = MASS_BYTES_MOST,
                                      .bytes = ledger_bytes,
                                      .write = ledger_write,
                                      .copies = ledger_copies,
                                      .fits = ledger_fits,
                                      .take = ledger_take};
  s->is_on = true;
  return ERR_OK;
}

void sums_done(struct sums *s) {
  free(s->gathered);
  mass_done(&s->mass);
  *s = (struct sums){0};
}

/* ---- giving */

void sums_begin(struct sums *s, const struct trainer_job *job) {
  if (job->begins_anew)
    mass_begin_anew(&s->mass, job->account);
  if (s->mass.account == 0)
    s->mass.account = job->account;
}

/* The account has given; the learner's arrays and the tail follow. */
static enum err write_payload(struct sums *s, struct learner *l, const struct push *p, struct buffer *out_payload) {
  size_t n_sum = learner_copy_bytes(l), n_tail = mass_tail_bytes(&s->mass);
  struct buffer b = {malloc(n_sum + n_tail), n_sum + n_tail};
  if (!b.bytes)
    return ERR_NO_MEMORY;
  enum err e = learner_push(l, p, b.bytes);
  if (e != ERR_OK) {
    free(b.bytes);
    return e;
  }
  mass_tail_write(&s->mass, b.bytes + n_sum);
  *out_payload = b;
  return ERR_OK;
}

enum err sums_push(struct sums *s, struct learner *l, const struct trainer_job *job, struct buffer *out_payload) {
  static const bool nobody[MAX_PEERS];
  const struct push p = mass_push(&s->mass, job->told ? job->told : nobody);
  enum err e = write_payload(s, l, &p, out_payload);
  if (e != ERR_OK)
    sums_take_back(s);
  return e;
}

void sums_take_back(struct sums *s) {
  (void)mass_take_back(&s->mass);
}

void sums_push_back(struct sums *s, struct learner *l) {
  const struct push p = mass_take_back(&s->mass);
  learner_push_back(l, &p);
}

/* ---- taking */

enum err sums_gather_begin(struct sums *s, struct learner *l) {
  MUST(!s->gathered);
  s->gathered = learner_gather_begin(l, s->mass.mu);
  return s->gathered ? ERR_OK : ERR_NO_MEMORY;
}

/* Its values are judged before the account is changed. */
static enum err judge(const struct sums *s, const struct learner *l, const struct link_in *link,
                      struct mass_claim *out_claim) {
  size_t n_sum = learner_copy_bytes(l), n_payload = (size_t)link->manifest.n_payload;
  if (n_payload < n_sum)
    return ERR_LENGTH;
  *out_claim = (struct mass_claim){.sum = link->manifest.mu, .sequence = link->manifest.sequence};
  enum err e = mass_tail_read(link->payload + n_sum, n_payload - n_sum, &s->own, &out_claim->account, &out_claim->told);
  return e == ERR_OK ? codec_check_values(link->payload, n_sum / sizeof(float)) : e;
}

enum err sums_gather(struct sums *s, struct learner *l, size_t peer, const struct link_in *link) {
  struct mass_claim claim;
  struct mass_taken taken;
  MUST(copy_of(s, peer) < s->n_copies);
  enum err e = judge(s, l, link, &claim);
  if (e == ERR_OK)
    e = mass_take(&s->mass, peer, &claim, &taken);
  if (e != ERR_OK || taken.what == MASS_NOTHING)
    return e;
  return learner_gather(l, copy_of(s, peer), taken.share, link->payload, learner_copy_bytes(l), s->gathered);
}

enum err sums_gather_end(struct sums *s, struct learner *l) {
  double *u = s->gathered;
  s->gathered = NULL;
  return learner_gather_end(l, s->mass.mu, u);
}

enum err sums_adopt(const struct sums *s, struct learner *l, const size_t *peers, size_t n_peers) {
  size_t copies[MAX_PEERS], n = 0;
  double masses[MAX_PEERS];
  MUST(n_peers <= MAX_PEERS);
  for (size_t i = 0; i < n_peers; i++) {
    const struct mass_edge *e = &s->mass.edges[peers[i]];
    if (!e->has_base)
      continue;
    copies[n] = copy_of(s, peers[i]);
    masses[n++] = e->sum;
  }
  return n > 0 ? learner_adopt_sums(l, copies, masses, n) : ERR_NOT_FOUND;
}

struct mass_figures sums_figures(const struct sums *s) {
  const struct mass *m = &s->mass;
  if (!s->is_on)
    return (struct mass_figures){0};
  struct mass_figures f = {
      .is_on = true, .held = m->mu, .written_off = m->written_off, .peers = calloc(m->n_edges + 1, sizeof *f.peers)};
  MUST(f.peers);
  for (size_t i = 0; i < m->n_edges; i++)
    f.peers[i] = (struct mass_given){m->edges[i].told, m->edges[i].taken};
  return f;
}
