#include "agent/core/inbox.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/must.h"

int position_compare(const struct position *a, const struct position *b) {
  if (a->boot_epoch != b->boot_epoch)
    return a->boot_epoch < b->boot_epoch ? -1 : 1;
  return (a->sequence > b->sequence) - (a->sequence < b->sequence);
}

struct chain_place link_place(const struct manifest *m) {
  bool is_link = m->kind == MANIFEST_DIFFERENCE;
  struct digest chain = is_link ? chain_next(&m->chain, &m->payload_root) : m->chain;
  return (struct chain_place){.position = {m->boot_epoch, m->sequence, chain},
                              .round = m->round,
                              .sub = m->sub,
                              .samples = m->samples,
                              .degree = m->degree};
}

void inbox_init(struct inbox *in, size_t peer, size_t link_bytes, size_t full_bytes) {
  *in = (struct inbox){.peer = peer, .link_bytes = link_bytes, .full_bytes = full_bytes, .needs_full = true};
}

static void queue_end(struct inbox *in) {
  free(in->queue);
  in->queue = NULL;
  in->n_queue = in->queue_capacity = 0;
}

static void payloads_free(struct inbox *in) {
  for (size_t i = 0; i < in->n_queue; i++)
    free(in->queue[i].payload);
  in->n_queue = 0;
}

static void queue_clear(struct inbox *in) {
  payloads_free(in);
  queue_end(in);
}

static void offers_clear(struct inbox *in) {
  free(in->offers);
  in->offers = NULL;
  in->n_offers = in->offer_capacity = 0;
}

void inbox_done(struct inbox *in) {
  queue_clear(in);
  offers_clear(in);
  free(in->remembered);
}

void inbox_newest(struct inbox *in, const struct position *newest) {
  if (position_compare(newest, &in->newest) > 0)
    in->newest = *newest;
}

bool inbox_has_copy(const struct inbox *in) {
  return in->held.position.sequence > 0 && !in->needs_full;
}

bool inbox_is_current(const struct inbox *in) {
  bool is_silent = in->newest.sequence == 0;
  return is_silent || (inbox_has_copy(in) && position_compare(&in->held.position, &in->newest) >= 0);
}

/* ---- manifests ---------------------------------------------------------------------------------------------------- */

/* Where the next one is remembered: behind the others, then in place of the oldest. NULL: no memory. */
static struct remembered *remembered_place(struct inbox *in) {
  if (in->n_remembered == N_REMEMBERED)
    return &in->remembered[in->next_forgotten++ % N_REMEMBERED];
  struct remembered *all =
      array_grown(in->remembered, &in->remembered_capacity, in->n_remembered, sizeof *all, N_REMEMBERED);
  if (!all)
    return NULL;
  in->remembered = all;
  return &all[in->n_remembered++];
}

static enum err remember(struct inbox *in, const struct manifest *m) {
  for (size_t i = 0; i < in->n_remembered; i++) {
    const struct remembered *r = &in->remembered[i];
    if (r->boot_epoch == m->boot_epoch && r->sequence == m->sequence && r->kind == m->kind)
      return digest_equal(&r->root, &m->payload_root) ? ERR_OK : ERR_EQUIVOCATION;
  }
  struct remembered *place = remembered_place(in);
  if (!place)
    return ERR_NO_MEMORY;
  *place = (struct remembered){m->boot_epoch, m->sequence, m->kind, m->payload_root};
  return ERR_OK;
}

static void offer_drop(struct inbox *in, size_t n) {
  if (n == 0)
    return;
  in->n_offers -= n;
  if (in->n_offers == 0)
    offers_clear(in);
  else
    memmove(in->offers, in->offers + n, in->n_offers * sizeof *in->offers);
}

/* Keeps an offer in order. A full copy makes everything up to it needless; when the list is full the far end is forgotten:
 * it can be asked for again. */
static enum err offer_put(struct inbox *in, const struct manifest *m) {
  size_t at = 0;
  while (at < in->n_offers && manifest_compare_position(&in->offers[at], m) < 0)
    at++;
  bool is_known = at < in->n_offers && manifest_compare_position(&in->offers[at], m) == 0;
  if (m->kind == MANIFEST_FULL) {
    offer_drop(in, at + is_known);
    at = 0;
  } else if (is_known || at == KEEP_PAYLOADS) {
    return ERR_OK;
  }
  if (in->n_offers == KEEP_PAYLOADS)
    in->n_offers--;
  struct manifest *offers = array_grown(in->offers, &in->offer_capacity, in->n_offers, sizeof *offers, KEEP_PAYLOADS);
  if (!offers)
    return ERR_NO_MEMORY;
  in->offers = offers;
  memmove(in->offers + at + 1, in->offers + at, (in->n_offers - at) * sizeof *in->offers);
  in->offers[at] = *m;
  in->n_offers++;
  return ERR_OK;
}

static bool is_next(const struct inbox *in, const struct manifest *m) {
  return !in->needs_full && m->kind != MANIFEST_FULL && m->kind != MANIFEST_SUM &&
         m->sequence == in->held.position.sequence + 1;
}

/* The peer has published nothing yet: there is no copy to get before. */
static bool has_no_chain(const struct manifest *m) {
  return digest_is_zero(&m->chain);
}

static void take_none(struct inbox *in, const struct manifest *m) {
  in->held.position.boot_epoch = m->boot_epoch;
  in->held.position.sequence = m->sequence;
  in->none_round = m->round;
}

/* Above what is held: every link, and a full copy that starts a chain. Where a full copy is needed, any at or above it,
 * seen from the last payload: kinds none that followed moved the sequence but not the copy. */
static bool is_wanted(const struct inbox *in, const struct manifest *m) {
  struct chain_place place = link_place(m);
  int order = position_compare(&place.position, &in->held.position);
  if (m->kind == MANIFEST_SUM)
    return order > 0 || (in->needs_full && order == 0);
  if (m->kind != MANIFEST_FULL)
    return order > 0;
  if (in->needs_full)
    return order >= 0 || digest_equal(&m->chain, &in->held.position.chain);
  struct digest start = chain_start(&m->payload_root);
  return order > 0 && digest_equal(&m->chain, &start);
}

static bool continues(const struct inbox *in, const struct manifest *m) {
  return m->kind == MANIFEST_SUM ? is_wanted(in, m)
                                 : is_next(in, m) && digest_equal(&m->chain, &in->held.position.chain);
}

/* Drops offers that are no longer wanted and takes those that need no payload; what then stands first is next. */
static void offers_settle(struct inbox *in) {
  while (in->n_offers > 0) {
    const struct manifest *m = &in->offers[0];
    if (m->kind == MANIFEST_NONE && (continues(in, m) || has_no_chain(m)))
      take_none(in, m);
    else if (is_wanted(in, m))
      return;
    offer_drop(in, 1);
  }
}

enum err inbox_manifest(struct inbox *in, const struct manifest *m) {
  if (m->kind != MANIFEST_NONE && (m->kind == MANIFEST_SUM) != in->takes_sums)
    return ERR_ENCODING;
  enum err e = remember(in, m);
  if (e != ERR_OK)
    return e;
  struct chain_place place = link_place(m);
  inbox_newest(in, &place.position);
  int order = position_compare(&place.position, &in->held.position);
  if (m->kind != MANIFEST_FULL && order < 0)
    return ERR_REPLAY;
  if (!is_wanted(in, m))
    return ERR_OK;
  in->not_before_ms = 0; /* if something was asked, this is the answer */
  if (is_next(in, m) && !continues(in, m)) {
    in->needs_full = true;
    return ERR_CHAIN;
  }
  return offer_put(in, m);
}

/* ---- payloads ----------------------------------------------------------------------------------------------------- */

static void drop_oldest(struct inbox *in) {
  free(in->queue[0].payload);
  memmove(in->queue, in->queue + 1, --in->n_queue * sizeof *in->queue);
}

void inbox_payload(struct inbox *in, const struct manifest *m, uint8_t *payload) {
  in->is_fetching = false;
  in->not_before_ms = 0;
  bool is_full = m->kind == MANIFEST_FULL;
  if (is_full ? !is_wanted(in, m) : !continues(in, m)) { /* the chain moved on meanwhile */
    free(payload);
    return;
  }
  if (m->kind == MANIFEST_SUM && in->n_queue == KEEP_PAYLOADS)
    drop_oldest(in); /* what it grew by is in this one */
  if (is_full)
    payloads_free(in); /* its place stays: what was held is not lost without another in its stead */
  MUST(in->n_queue < KEEP_PAYLOADS);
  struct link_in *queue = array_grown(in->queue, &in->queue_capacity, in->n_queue, sizeof *queue, KEEP_PAYLOADS);
  if (!queue) {
    free(payload);
    return;
  }
  in->queue = queue;
  in->queue[in->n_queue++] = (struct link_in){.manifest = *m, .payload = payload};
  in->held = link_place(m);
  in->needs_full = false;
}

void inbox_failed(struct inbox *in, enum err reason, uint64_t now_ms) {
  in->is_fetching = false;
  in->not_before_ms = now_ms + RETRY_MS;
  if (reason == ERR_GONE) {
    in->needs_full = true;
    offers_clear(in);
  }
}

void inbox_disconnected(struct inbox *in) {
  in->is_fetching = false;
  in->not_before_ms = 0;
  offers_clear(in);
}

void inbox_want_full(struct inbox *in) {
  in->needs_full = true;
}

uint64_t inbox_bytes(const struct inbox *in) {
  uint64_t n = in->is_fetching ? in->fetching_bytes : 0;
  for (size_t i = 0; i < in->n_queue; i++)
    n += in->queue[i].manifest.n_payload;
  return n;
}

/* A full copy, or a sum where one is needed, takes the place of what waits: where there is no room for both, what waits goes
 * first. Bytes that are free then. */
static uint64_t give_up_queue(struct inbox *in, uint64_t wanted) {
  uint64_t n_bytes = inbox_bytes(in); /* nothing is being fetched */
  if (n_bytes < wanted)
    return 0;
  queue_clear(in);
  in->needs_full = true; /* what was held does not go on */
  return n_bytes;
}

static void fetch_offer(struct inbox *in, const struct inbox_ports *ports, void *context, uint64_t now_ms,
                        uint64_t room_bytes) {
  struct manifest *m = &in->offers[0];
  bool replaces = m->kind == MANIFEST_FULL || (m->kind == MANIFEST_SUM && in->needs_full);
  if (replaces && m->n_payload > room_bytes)
    room_bytes += give_up_queue(in, m->n_payload - room_bytes);
  if (m->n_payload > room_bytes || ports->fetch(context, in->peer, m) != ERR_OK) {
    in->not_before_ms = now_ms + RETRY_MS;
    return;
  }
  in->fetching_bytes = m->n_payload;
  in->is_fetching = true;
  offer_drop(in, 1);
}

static void ask(struct inbox *in, const struct inbox_ports *ports, void *context, uint64_t now_ms) {
  uint64_t held = in->held.position.sequence;
  uint64_t n = in->newest.sequence > held ? in->newest.sequence - held : 0;
  if (n == 0 || n > KEEP_PAYLOADS || n * in->link_bytes > in->full_bytes)
    in->needs_full = true;
  if (in->needs_full)
    ports->ask(context, in->peer, MANIFEST_FULL, 0, 1);
  else
    ports->ask(context, in->peer, MANIFEST_DIFFERENCE, held + 1, (size_t)n);
  in->not_before_ms = now_ms + ANSWER_MS;
}

void inbox_pump(struct inbox *in, const struct inbox_ports *ports, void *context, uint64_t now_ms,
                uint64_t room_bytes) {
  if (in->is_fetching || now_ms < in->not_before_ms)
    return;
  offers_settle(in);
  bool is_full = in->n_offers > 0 && in->offers[0].kind == MANIFEST_FULL;
  if (in->n_queue == KEEP_PAYLOADS && !in->needs_full && !is_full)
    return; /* until a merge takes some */
  if (is_full || (in->n_offers > 0 && continues(in, &in->offers[0])))
    fetch_offer(in, ports, context, now_ms, room_bytes);
  else if (!inbox_is_current(in))
    ask(in, ports, context, now_ms);
}

uint64_t inbox_due_ms(const struct inbox *in, uint64_t now_ms) {
  if (in->is_fetching)
    return UINT64_MAX;
  return now_ms < in->not_before_ms ? in->not_before_ms : now_ms + PUMP_MS;
}

/* ---- merging ------------------------------------------------------------------------------------------------------ */

struct link_in *inbox_take(struct inbox *in, uint64_t round, size_t *out_n) {
  size_t n = 0;
  while (n < in->n_queue && (in->queue[n].manifest.kind == MANIFEST_FULL || in->queue[n].manifest.round <= round))
    n++;
  *out_n = n;
  if (n == 0)
    return NULL;
  struct link_in *links = calloc(n, sizeof *links);
  MUST(links != NULL);
  memcpy(links, in->queue, n * sizeof *links);
  in->n_queue -= n;
  if (in->n_queue == 0)
    queue_end(in);
  else
    memmove(in->queue, in->queue + n, in->n_queue * sizeof *in->queue);
  return links;
}

void inbox_applied(struct inbox *in, const struct chain_place *place, size_t n_applied, enum err reason) {
  if (n_applied > 0) {
    in->copy = *place;
    in->n_broken = 0;
  }
  if (reason == ERR_OK)
    return;
  in->n_broken++;
  in->needs_full = true;
  offers_clear(in);
  queue_clear(in);
  in->held = in->copy;
}
