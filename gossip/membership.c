#include "gossip/node.h"

#include <stdlib.h>
#include <string.h>

#include "base/host.h"
#include "base/must.h"
#include "crypto/digest.h"

/* Has a session in which members are spoken of. */
static bool is_partner(const struct peer *p) {
  return p->info.has_session && p->slots[SLOT_LIVE]->version >= MEMBERS_VERSION;
}

static const struct member *row_of(const struct gossip *g, const struct peer *p) {
  return members_find(g->members, &p->config->key);
}

/* The table may have changed: so may its times, and there may be news. */
static void changed(struct gossip *g) {
  g->company->due_ms = 0;
  for (size_t i = 0; i < g->n_peers; i++)
    if (is_partner(&g->peers[i]) && g->company->of[i].told != g->members->change)
      peer_stir(g, &g->peers[i]);
}

static void arm(struct gossip *g, struct peer *p) {
  timer_put(g, p, TIMER_PROBE, probe_due_ms(&companion_of(g, p)->probe)); /* PROBE_NEVER is TIMER_OFF */
}

void membership_heard(struct gossip *g, struct peer *p) {
  if (!membership_is_on(g) || !is_partner(p))
    return;
  probe_heard(&companion_of(g, p)->probe, &g->company->probing, session_beat_ms(g, p), node_now(g));
  arm(g, p);
}

/* ---- sessions ----------------------------------------------------------------------------------------------------------- */

static void send_sync(struct gossip *g, struct peer *p) {
  struct message m = {.type = MESSAGE_SYNC};
  memcpy(m.sync.hash, g->members->hash, sizeof m.sync.hash);
  send_message(g, p, &m);
}

/* ---- one comparison at a time: lists of many members are long, and what else is sent waits for them ----------------------- */

static bool is_comparing(const struct gossip *g, const struct peer *p) {
  return g->company->comparing == peer_index(g, p) && node_now(g) < g->company->compare_until_ms;
}

/* Something of the comparison with the peer came or goes. */
static void compare_go_on(struct gossip *g, const struct peer *p) {
  if (!is_comparing(g, p))
    g->company->compare_begun_ms = node_now(g);
  g->company->comparing = peer_index(g, p);
  g->company->compare_until_ms = node_now(g) + COMPARE_BEATS * session_beat_ms(g, p);
}

static void compare_over(struct gossip *g, const struct peer *p) {
  if (is_comparing(g, p))
    g->company->compare_until_ms = g->company->due_ms = 0;
}

/* The one after the last one that waits; NULL: nobody does. */
static struct peer *compare_next(const struct gossip *g) {
  for (size_t i = 1; i <= g->n_peers; i++) {
    size_t at = (g->company->comparing + i) % g->n_peers;
    if (g->company->of[at].is_compare_due && is_partner(&g->peers[at]))
      return &g->peers[at];
  }
  return NULL;
}

static bool may_compare(const struct gossip *g, const struct peer *p) {
  uint64_t now_ms = node_now(g), most_ms = COMPARE_MAX_BEATS * g->members->config.beat_ms;
  bool is_own_turn = is_comparing(g, p) && (now_ms - g->company->compare_begun_ms < most_ms || !compare_next(g));
  return now_ms >= g->company->compare_until_ms || is_own_turn;
}

static void compare_begin(struct gossip *g) {
  struct peer *p = node_now(g) < g->company->compare_until_ms ? NULL : compare_next(g);
  if (!p)
    return;
  struct companion *c = companion_of(g, p);
  c->is_compare_due = false;
  c->n_sync_pages = MAX_SYNC_PAGES;
  c->listed = (struct digest){0};
  compare_go_on(g, p);
  send_sync(g, p);
}

static void compare_with(struct gossip *g, struct peer *p) {
  companion_of(g, p)->is_compare_due = true;
  compare_begin(g);
}

static void send_news(struct gossip *g, struct peer *p, const struct news *items, size_t n) {
  struct message m = {.type = MESSAGE_NEWS, .news = {.n = n}};
  if (n == 0)
    return;
  memcpy(m.news.items, items, n * sizeof *items);
  send_message(g, p, &m);
}

void membership_up(struct gossip *g, struct peer *p) {
  if (!membership_is_on(g))
    return;
  members_session(g->members, peer_index(g, p), true, node_now(g));
  changed(g);
  if (!is_partner(p))
    return;
  const struct member *own = members_find(g->members, &g->members->config.key);
  struct news item = {NEWS_STATEMENT, own->statement, own->n_statement};
  companion_of(g, p)->told = g->members->change;
  membership_heard(g, p);
  send_news(g, p, &item, 1);
  compare_with(g, p);
}

void membership_down(struct gossip *g, struct peer *p) {
  if (!membership_is_on(g))
    return;
  members_session(g->members, peer_index(g, p), false, node_now(g));
  changed(g);
  if (row_of(g, p)->leaves) {
    probe_left(&companion_of(g, p)->probe);
    arm(g, p);
  }
}

/* ---- probes --------------------------------------------------------------------------------------------------------------- */

static void ask(struct gossip *g, struct peer *to, const struct peer *about) {
  struct message m = {.type = MESSAGE_SEEK, .seek = {about->config->key}};
  send_message(g, to, &m);
}

/* Some partners other than `about`, each as likely (reservoir sampling, Vitter 1985). */
static size_t pick_helpers(struct gossip *g, const struct peer *about, struct peer *out_helpers[PROBE_HELPERS]) {
  size_t n_seen = 0;
  for (size_t i = 0; i < g->n_peers; i++) {
    struct peer *p = &g->peers[i];
    if (p == about || !is_partner(p))
      continue;
    uint64_t place = n_seen < PROBE_HELPERS ? n_seen : rng_below(&g->rng, n_seen + 1);
    if (place < PROBE_HELPERS)
      out_helpers[place] = p;
    n_seen++;
  }
  return n_seen < PROBE_HELPERS ? n_seen : PROBE_HELPERS;
}

static void ask_around(struct gossip *g, struct peer *p) {
  struct peer *helpers[PROBE_HELPERS];
  size_t n = pick_helpers(g, p, helpers);
  for (size_t i = 0; i < n; i++) {
    ask(g, helpers[i], p);
    probe_asked(&companion_of(g, p)->probe, peer_index(g, helpers[i]));
  }
  if (is_partner(p))
    ask(g, p, p);
}

static bool has_other_partner(const struct gossip *g, const struct peer *than) {
  for (size_t i = 0; i < g->n_peers; i++)
    if (&g->peers[i] != than && is_partner(&g->peers[i]))
      return true;
  return false;
}

void membership_probe(struct gossip *g, struct peer *p) {
  uint64_t now_ms = node_now(g);
  if (g->late_ms > AWAY_MS)
    probe_slept(&companion_of(g, p)->probe, g->late_ms + AWAY_GRACE_MS);
  enum probe_step step = probe_tick(&companion_of(g, p)->probe, &g->company->probing, session_beat_ms(g, p), now_ms);
  if (step == PROBE_ASK)
    ask_around(g, p);
  else if (step == PROBE_MISS)
    members_miss(g->members, peer_index(g, p), has_other_partner(g, p), now_ms);
  changed(g);
  arm(g, p);
}

void membership_on_seek(struct gossip *g, struct peer *p, const struct message *m) {
  const struct peer *about = peer_find(g, &m->seek.key);
  uint64_t now_ms = node_now(g);
  bool is_there = identity_key_equal(&m->seek.key, &g->members->config.key);
  if (about && about->info.has_session)
    is_there = now_ms - about->info.last_heard_ms <= session_beat_ms(g, about) * PROBE_SILENT_BEATS_X2 / 2;
  struct message answer = {.type = MESSAGE_FOUND, .found = {m->seek.key, is_there}};
  send_message(g, p, &answer);
}

void membership_on_found(struct gossip *g, struct peer *p, const struct message *m) {
  struct peer *about = peer_find(g, &m->found.key);
  if (!about || about == p) /* its own answer was heard as every frame is */
    return;
  probe_answer(&companion_of(g, about)->probe, peer_index(g, p), m->found.is_there, session_beat_ms(g, about),
               node_now(g));
  arm(g, about);
}

/* ---- news ------------------------------------------------------------------------------------------------------------------- */

static void take_statement(struct gossip *g, struct peer *p, const struct news *item, enum err *out_error) {
  uint64_t change = g->members->change;
  *out_error = members_take_statement(g->members, (uint32_t)peer_index(g, p), item->bytes, item->n, node_now(g));
  if (g->members->change == change)
    return;
  struct statement s; /* was read before */
  MUST(statement_read(item->bytes, item->n, &s) == ERR_OK);
  struct peer *about = peer_find(g, &s.key);
  if (!about)
    return;
  if (s.leaves)
    probe_left(&companion_of(g, about)->probe);
  else
    probe_spoke(&companion_of(g, about)->probe, session_beat_ms(g, about), node_now(g));
  arm(g, about);
}

/* People have to find it: whichever agent ends, its words and rounds were said twice. */
static void note_clone(struct gossip *g, const struct peer *p) {
  notes_put(
      &g->notes, node_now(g), peer_index(g, p), ERR_CLONE,
      "it brings a newer word of our own key: another agent runs with this key, or ours with an old copy of its state "
      "directory; stop one of them, or give it a key of its own");
}

void membership_on_news(struct gossip *g, struct peer *p, const struct message *m) {
  size_t n_bytes = 0;
  for (size_t i = 0; i < m->news.n; i++) {
    const struct news *item = &m->news.items[i];
    enum err e;
    n_bytes += item->n;
    if (item->kind == NEWS_STATEMENT)
      take_statement(g, p, item, &e);
    else
      e = members_take_accusation(g->members, (uint32_t)peer_index(g, p), item->bytes, item->n, node_now(g));
    if (e != ERR_OK)
      peer_count(p, e);
    if (e == ERR_CLONE)
      note_clone(g, p);
  }
  allowance_return(&p->allowance, allowance_news_rest(m->news.n, n_bytes));
  changed(g);
}

bool membership_news(struct gossip *g, const struct peer *p, struct message *out_message, uint64_t *out_told) {
  if (!membership_is_on(g) || !is_partner(p) || companion_of(g, p)->told == g->members->change)
    return false;
  *out_told = companion_of(g, p)->told;
  out_message->type = MESSAGE_NEWS;
  out_message->news.n =
      members_news(g->members, (uint32_t)peer_index(g, p), out_told, out_message->news.items, MAX_NEWS);
  return true;
}

/* ---- comparing tables --------------------------------------------------------------------------------------------------------- */

static void send_list(struct gossip *g, struct peer *p, bool wants_list) {
  uint8_t(*rows)[LISTED_BYTES] = malloc(g->members->n * sizeof *rows);
  if (!rows)
    return; /* the next comparison finds it, too */
  size_t n = members_list(g->members, rows, g->members->n);
  struct message m = {
      .type = MESSAGE_LIST,
      .list = {.wants_list = wants_list, .n = (uint16_t)n, .rows = (const uint8_t(*)[LISTED_BYTES])rows}};
  send_message(g, p, &m);
  free(rows);
}

void membership_on_sync(struct gossip *g, struct peer *p, const struct message *m) {
  if (memcmp(m->sync.hash, g->members->hash, MEMBERS_HASH_BYTES) == 0) {
    compare_over(g, p);
  } else if (g->members->n < LONG_LIST) {
    send_list(g, p, true);
  } else if (may_compare(g, p)) {
    compare_go_on(g, p);
    send_list(g, p, true);
  } else {
    compare_with(g, p); /* when it is its turn */
  }
}

/* It has taken something of the page before: a list that stays as it was would bring the same page for ever. */
static bool has_moved(struct companion *c, const struct message_list *l) {
  struct digest before = c->listed;
  c->listed = digest_of(&digest_blake2b, l->rows, (size_t)l->n * LISTED_BYTES);
  return !digest_equal(&before, &c->listed);
}

void membership_on_list(struct gossip *g, struct peer *p, const struct message *m) {
  struct news items[MAX_NEWS];
  bool is_more, is_behind;
  size_t n = members_lacking(g->members, m->list.rows, m->list.n, items, MAX_NEWS, &is_more, &is_behind);
  bool may = g->members->n < LONG_LIST || may_compare(g, p), lists = may && m->list.wants_list && is_behind;
  send_news(g, p, items, n);
  if (lists)
    send_list(g, p, false);
  bool syncs = may && has_moved(companion_of(g, p), &m->list) && is_more && companion_of(g, p)->n_sync_pages > 0;
  if ((lists || syncs) && may_compare(g, p))
    compare_go_on(g, p);
  else
    compare_over(g, p);
  if (!syncs)
    return;
  companion_of(g, p)->n_sync_pages--;
  send_sync(g, p);
}

/* ---- time ----------------------------------------------------------------------------------------------------------------------- */

/* The first time is anywhere within an interval, so that not all do it at once. */
static void sync_with_one(struct gossip *g) {
  struct peer *helpers[PROBE_HELPERS];
  uint64_t every_ms = SYNC_BEATS * g->members->config.beat_ms;
  bool is_first = g->company->sync_ms == 0;
  g->company->sync_ms = node_now(g) + (is_first ? 1 + rng_below(&g->rng, every_ms) : every_ms);
  if (is_first || pick_helpers(g, NULL, helpers) == 0)
    return;
  compare_with(g, helpers[0]);
}

void membership_tick(struct gossip *g) {
  uint64_t now_ms = node_now(g);
  if (!membership_is_on(g) || now_ms < g->company->due_ms)
    return;
  if (now_ms >= g->company->sync_ms)
    sync_with_one(g);
  compare_begin(g);
  uint64_t due_ms = members_tick(g->members, now_ms);
  changed(g);
  g->company->due_ms = due_ms < g->company->sync_ms ? due_ms : g->company->sync_ms;
  if (compare_next(g) && g->company->compare_until_ms < g->company->due_ms)
    g->company->due_ms = g->company->compare_until_ms;
}

/* ---- life ------------------------------------------------------------------------------------------------------------------------- */

enum err membership_init(struct gossip *g) {
  const struct gossip_config *c = &g->config;
  if (c->max_members == 0)
    return ERR_OK;
  struct identity_key *keys = malloc((g->n_peers + 1) * sizeof *keys);
  if (!keys)
    return ERR_NO_MEMORY;
  for (size_t i = 0; i < g->n_peers; i++)
    keys[i] = g->peers[i].config->key;
  struct members_config config = {.key = g->self.key,
                                  .boot_epoch = c->boot_epoch,
                                  .name = c->name ? c->name : "",
                                  .addresses = c->addresses ? c->addresses : "",
                                  .peers = keys,
                                  .n_peers = g->n_peers,
                                  .max = c->max_members,
                                  .beat_ms = 1000 * (uint64_t)c->beat_s,
                                  .seal = g->seals->members_seal(&g->self)};
  memcpy(config.swarm.bytes, c->swarm, sizeof config.swarm.bytes);
  g->members = calloc(1, sizeof *g->members);
  g->company = calloc(1, sizeof *g->company + g->n_peers * sizeof *g->company->of);
  enum err e = g->members && g->company ? members_init(g->members, &config, node_now(g)) : ERR_NO_MEMORY;
  free(keys);
  return e;
}

void membership_done(struct gossip *g) {
  if (g->members)
    members_done(g->members);
  free(g->members);
  free(g->company);
  g->members = NULL;
}

void membership_leave(struct gossip *g) {
  if (!membership_is_on(g))
    return;
  members_leave(g->members, node_now(g));
  changed(g);
}

void membership_restart(struct gossip *g) {
  if (!membership_is_on(g))
    return;
  members_restart(g->members, g->config.boot_epoch, node_now(g));
  changed(g);
}

/* A name would be resolved in the one thread that carries all connections: who answers no question about its own domain would
 * keep it waiting. */
static bool is_numeric(const char *address) {
  const char *host = address + strlen("tcp://");
  return host_is_number(host, (size_t)(strrchr(host, ':') - host));
}

bool membership_address(const struct gossip *g, const struct peer *p, size_t k, char out_address[MAX_ADDRESS_BYTES]) {
  return membership_is_on(g) && members_address(row_of(g, p), k, out_address) && is_numeric(out_address) &&
         strcmp(out_address, p->config->address) != 0;
}

/* ---- showing ------------------------------------------------------------------------------------------------------------------------ */

size_t gossip_n_members(const struct gossip *g) {
  return membership_is_on(g) ? g->members->n : 0;
}

void gossip_member(const struct gossip *g, size_t i, struct gossip_member *out_member) {
  MUST(i < gossip_n_members(g));
  const struct member *row = &g->members->rows[i];
  struct statement s = {0};
  if (row->n_statement > 0)
    MUST(statement_read(row->statement, row->n_statement, &s) == ERR_OK);
  *out_member = (struct gossip_member){.key = row->key,
                                       .is_self = identity_key_equal(&row->key, &g->members->config.key),
                                       .is_peer = row->is_peer,
                                       .state = row->state,
                                       .since_ms = row->since_ms,
                                       .boot_epoch = row->incarnation.boot_epoch,
                                       .refutation = row->incarnation.refutation};
  memcpy(out_member->name, s.name, sizeof out_member->name);
  memcpy(out_member->addresses, s.addresses, sizeof out_member->addresses);
}

bool gossip_find_member(const struct gossip *g, const struct identity_key *key, struct gossip_member *out_member) {
  const struct member *row = membership_is_on(g) ? members_find(g->members, key) : NULL;
  if (row)
    gossip_member(g, (size_t)(row - g->members->rows), out_member);
  return row != NULL;
}

void gossip_count_members(const struct gossip *g, size_t out_counts[N_MEMBER_STATES]) {
  memset(out_counts, 0, N_MEMBER_STATES * sizeof *out_counts);
  for (size_t i = 0; i < gossip_n_members(g); i++)
    out_counts[g->members->rows[i].state]++;
}
