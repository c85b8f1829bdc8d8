#include "gossip/members.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/bytes.h"
#include "base/must.h"
#include "crypto/digest.h"

enum { CREDIT_MS = 1000, DOUBTED_BY = 2 };

const char *member_state_name(enum member_state s) {
  static const char *const names[N_MEMBER_STATES] = {"absent", "alive", "suspect", "dead", "left"};
  MUST(s < N_MEMBER_STATES);
  return names[s];
}

/* ---- the seal -------------------------------------------------------------------------------------------------------- */

static void real_sign_statement(void *context, struct statement *s) {
  statement_sign(s, context);
}

static void real_sign_accusation(void *context, struct accusation *a) {
  accusation_sign(a, context);
}

static enum err real_verify_statement(void *context, const struct statement *s) {
  (void)context;
  return statement_verify(s);
}

static enum err real_verify_accusation(void *context, const struct accusation *a) {
  (void)context;
  return accusation_verify(a);
}

struct members_seal members_seal_of(const struct identity *id) {
  return (struct members_seal){(void *)(uintptr_t)id, real_sign_statement, real_sign_accusation, real_verify_statement,
                               real_verify_accusation};
}

/* ---- rows ------------------------------------------------------------------------------------------------------------ */

/* Where the key stands or would. */
static size_t place_of(const struct members *m, const struct identity_key *key) {
  size_t low = 0, high = m->n;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (identity_key_compare(&m->rows[middle].key, key) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static struct member *row_find(const struct members *m, const struct identity_key *key) {
  size_t at = place_of(m, key);
  return at < m->n && identity_key_equal(&m->rows[at].key, key) ? &m->rows[at] : NULL;
}

const struct member *members_find(const struct members *m, const struct identity_key *key) {
  return row_find(m, key);
}

bool members_address(const struct member *row, size_t k, char out_address[MAX_ADDRESS_BYTES]) {
  struct statement s;
  if (!row || row->n_statement == 0 || statement_read(row->statement, row->n_statement, &s) != ERR_OK)
    return false;
  const char *at = s.addresses;
  size_t n = 0;
  while (statement_next_address(&at, out_address))
    n++;
  if (n == 0)
    return false;
  at = s.addresses;
  for (k %= n; statement_next_address(&at, out_address) && k > 0;)
    k--;
  return true;
}

static bool is_own(const struct members *m, const struct member *row) {
  return identity_key_equal(&row->key, &m->config.key);
}

static size_t count_accusers(const struct member *row) {
  size_t n = 0;
  for (size_t i = 0; i < row->n_accusers; i++)
    n += row->accusers[i].is_current;
  return n;
}

static uint8_t doubt_of(const struct member *row) {
  size_t n = count_accusers(row);
  return (uint8_t)(n < DOUBTED_BY ? n : DOUBTED_BY);
}

/* The hash of the table is the sum of its rows' without carry, so that a row can leave it and come back. */
static void hash_toggle(struct members *m, const struct member *row) {
  if (row->incarnation.boot_epoch == 0)
    return;
  uint8_t words[32 + 8 + 4 + 4];
  struct writer w;
  writer_init(&w, words, sizeof words);
  writer_bytes(&w, row->key.bytes, sizeof row->key.bytes);
  writer_u64(&w, row->incarnation.boot_epoch);
  writer_u32(&w, row->incarnation.refutation);
  writer_u32(&w, doubt_of(row));
  struct digest d = digest_of(&digest_blake2b, words, w.n_bytes);
  for (size_t i = 0; i < MEMBERS_HASH_BYTES; i++)
    m->hash[i] ^= d.bytes[i];
}

static void row_free(struct member *row) {
  free(row->statement);
  free(row->accusers);
}

static void row_remove(struct members *m, struct member *row) {
  hash_toggle(m, row);
  row_free(row);
  size_t at = (size_t)(row - m->rows);
  memmove(row, row + 1, (--m->n - at) * sizeof *row);
}

/* Who is gone for longest, no peer, and so makes room, of all or of those whom one peer introduced; NULL: nobody. */
static struct member *find_gone(const struct members *m, uint32_t introducer) {
  struct member *oldest = NULL;
  for (size_t i = 0; i < m->n; i++) {
    struct member *row = &m->rows[i];
    bool is_gone = row->state == MEMBER_DEAD || row->state == MEMBER_LEFT;
    bool is_in_question =
        introducer == MEMBER_NOBODY ? !row->is_peer && !is_own(m, row) : row->introducer == introducer;
    if (is_gone && is_in_question && (!oldest || row->since_ms < oldest->since_ms))
      oldest = row;
  }
  return oldest;
}

static bool is_full(const struct members *m) {
  return m->n >= m->config.max;
}

static enum err row_add(struct members *m, const struct identity_key *key, uint32_t introducer, uint64_t now_ms,
                        struct member **out_row) {
  struct member *rows = array_grown(m->rows, &m->capacity, m->n, sizeof *rows, MAX_MEMBERS);
  if (!rows)
    return ERR_NO_MEMORY;
  m->rows = rows;
  size_t at = place_of(m, key);
  memmove(m->rows + at + 1, m->rows + at, (m->n++ - at) * sizeof *m->rows);
  m->rows[at] = (struct member){.key = *key,
                                .state = MEMBER_ABSENT,
                                .credit = STATEMENT_BURST,
                                .from = MEMBER_NOBODY,
                                .introducer = introducer,
                                .since_ms = now_ms,
                                .stated_ms = now_ms,
                                .dead_at_ms = MEMBERS_NEVER};
  *out_row = &m->rows[at];
  return ERR_OK;
}

/* Whether the peer may tell of somebody new, and who goes for it: one of its own if it has told of enough. NULL: there is room. */
static enum err may_introduce(const struct members *m, uint32_t from, struct member **out_gone) {
  size_t n_introduced = 0;
  MUST(m->rows != NULL); /* oneself is in it */
  for (size_t i = 0; i < m->n; i++)
    n_introduced += m->rows[i].introducer == from;
  bool is_share_used = n_introduced >= MAX_INTRODUCED, needs_room = is_share_used || is_full(m);
  *out_gone = needs_room ? find_gone(m, is_share_used ? from : MEMBER_NOBODY) : NULL;
  return needs_room && !*out_gone ? ERR_BUDGET : ERR_OK;
}

/* ---- the state of a row ------------------------------------------------------------------------------------------------ */

uint64_t members_suspicion_ms(const struct members *m) {
  uint64_t doublings = 0;
  for (size_t n = m->n; n > 0; n /= 2)
    doublings++;
  const uint64_t least = (uint64_t)10 * SUSPECT_MIN_BEATS;
  uint64_t tenths = SUSPECT_TENTHS * doublings;
  return m->config.beat_ms * (tenths > least ? tenths : least) / 10;
}

static void state_set(struct member *row, enum member_state state, uint64_t now_ms) {
  if (row->state != state)
    row->since_ms = now_ms;
  row->state = state;
}

static void state_judge(struct members *m, struct member *row, uint64_t now_ms) {
  bool is_doubted = row->is_missed || count_accusers(row) >= DOUBTED_BY;
  bool is_gone = row->leaves || row->is_here || row->incarnation.boot_epoch == 0;
  if (is_gone || !is_doubted)
    row->dead_at_ms = MEMBERS_NEVER;
  else if (row->dead_at_ms == MEMBERS_NEVER)
    row->dead_at_ms = now_ms + members_suspicion_ms(m);
  if (row->is_here || is_own(m, row))
    state_set(row, MEMBER_ALIVE, now_ms);
  else if (row->leaves)
    state_set(row, MEMBER_LEFT, now_ms);
  else if (row->incarnation.boot_epoch == 0)
    state_set(row, MEMBER_ABSENT, now_ms);
  else if (row->dead_at_ms <= now_ms)
    state_set(row, MEMBER_DEAD, now_ms);
  else
    state_set(row, is_doubted || count_accusers(row) > 0 ? MEMBER_SUSPECT : MEMBER_ALIVE, now_ms);
}

/* ---- statements ---------------------------------------------------------------------------------------------------------- */

static enum err row_state(struct members *m, struct member *row, const struct statement *s, uint32_t from,
                          uint64_t now_ms) {
  uint8_t bytes[STATEMENT_MAX_BYTES];
  size_t n = statement_write(s, bytes);
  uint8_t *copy = realloc(row->statement, n);
  if (!copy)
    return ERR_NO_MEMORY;
  memcpy(copy, bytes, n);
  hash_toggle(m, row);
  row->statement = copy;
  row->n_statement = (uint16_t)n;
  row->incarnation = s->incarnation;
  row->leaves = s->leaves;
  row->is_missed = false;
  row->from = from;
  row->change = ++m->change;
  for (size_t i = 0; i < row->n_accusers; i++)
    row->accusers[i].is_current = false;
  hash_toggle(m, row);
  state_judge(m, row, now_ms);
  return ERR_OK;
}

/* Nobody makes all the others talk about it more often than that. */
static bool has_credit(struct member *row, uint64_t now_ms) {
  uint64_t earned = (now_ms - row->stated_ms) / CREDIT_MS;
  row->stated_ms += earned * CREDIT_MS;
  row->credit = (uint8_t)(earned >= (uint64_t)(STATEMENT_BURST - row->credit) ? STATEMENT_BURST : row->credit + earned);
  return row->credit > 0;
}

enum err members_take_statement(struct members *m, uint32_t from, const void *bytes, size_t n, uint64_t now_ms) {
  struct statement s;
  if (statement_read(bytes, n, &s) != ERR_OK)
    return ERR_MESSAGE;
  if (memcmp(&s.swarm, &m->config.swarm, sizeof s.swarm) != 0)
    return ERR_SWARM;
  struct member *row = row_find(m, &s.key);
  if (row && (incarnation_compare(&s.incarnation, &row->incarnation) <= 0 || !has_credit(row, now_ms)))
    return ERR_OK;
  struct member *gone = NULL;
  enum err e = row ? ERR_OK : may_introduce(m, from, &gone);
  if (e != ERR_OK)
    return e;
  e = m->config.seal.verify_statement(m->config.seal.context, &s);
  if (e != ERR_OK)
    return e;
  if (row && is_own(m, row))
    return ERR_CLONE;
  if (gone)
    row_remove(m, gone);
  if (!row)
    e = row_add(m, &s.key, from, now_ms, &row);
  if (e != ERR_OK)
    return e;
  row->credit--;
  return row_state(m, row, &s, from, now_ms);
}

static enum err state_own(struct members *m, uint64_t now_ms) {
  m->config.seal.sign_statement(m->config.seal.context, &m->own);
  return row_state(m, row_find(m, &m->config.key), &m->own, MEMBER_NOBODY, now_ms);
}

/* Without memory the statement before stands. */
static void state_own_again(struct members *m, uint64_t now_ms) {
  (void)!state_own(m, now_ms);
}

void members_restart(struct members *m, uint64_t boot_epoch, uint64_t now_ms) {
  m->own.incarnation = (struct incarnation){boot_epoch, 0};
  state_own_again(m, now_ms);
}

void members_leave(struct members *m, uint64_t now_ms) {
  m->own.incarnation.refutation++;
  m->own.leaves = true;
  state_own_again(m, now_ms);
}

/* ---- accusations ----------------------------------------------------------------------------------------------------------- */

/* Where an accusation that counts is put; NULL: no memory. */
static struct member_accuser *accuser_place(struct member *row, const struct identity_key *key, uint64_t now_ms) {
  struct member_accuser *old = NULL;
  for (size_t i = 0; i < row->n_accusers; i++) {
    struct member_accuser *a = &row->accusers[i];
    if (identity_key_equal(&a->key, key))
      return a;
    if (!a->is_current && (!old || a->at_ms < old->at_ms))
      old = a;
  }
  if (row->n_accusers == MAX_ACCUSERS)
    return old;
  struct member_accuser *grown = realloc(row->accusers, (row->n_accusers + 1u) * sizeof *grown);
  if (!grown)
    return NULL;
  row->accusers = grown;
  grown[row->n_accusers] = (struct member_accuser){.at_ms = now_ms};
  return &grown[row->n_accusers++];
}

static void row_accuse(struct members *m, struct member *row, const struct accusation *a, uint32_t from,
                       uint64_t now_ms) {
  struct member_accuser *place = accuser_place(row, &a->accuser, now_ms);
  if (!place)
    return;
  hash_toggle(m, row);
  *place = (struct member_accuser){
      .key = a->accuser, .at_ms = now_ms, .is_current = true, .change = ++m->change, .from = from};
  accusation_write(a, place->bytes);
  hash_toggle(m, row);
  state_judge(m, row, now_ms);
}

/* Whether an accusation would change anything: what would not is not worth a signature. */
static bool is_open_to(const struct members *m, const struct member *row, const struct accusation *a, uint64_t now_ms) {
  if (!row || row->leaves || incarnation_compare(&row->incarnation, &a->incarnation) != 0)
    return false;
  if (is_own(m, row))
    return !m->is_refuting;
  for (size_t i = 0; i < row->n_accusers; i++)
    if (identity_key_equal(&row->accusers[i].key, &a->accuser))
      return !row->accusers[i].is_current && now_ms - row->accusers[i].at_ms >= ACCUSE_AGAIN_MS;
  return count_accusers(row) < MAX_ACCUSERS;
}

enum err members_take_accusation(struct members *m, uint32_t from, const void *bytes, size_t n, uint64_t now_ms) {
  struct accusation a;
  if (accusation_read(bytes, n, &a) != ERR_OK)
    return ERR_MESSAGE;
  if (memcmp(&a.swarm, &m->config.swarm, sizeof a.swarm) != 0)
    return ERR_SWARM;
  struct member *row = row_find(m, &a.accused);
  if (!is_open_to(m, row, &a, now_ms) || !row_find(m, &a.accuser) || identity_key_equal(&a.accuser, &m->config.key))
    return ERR_OK;
  enum err e = m->config.seal.verify_accusation(m->config.seal.context, &a);
  if (e != ERR_OK)
    return e;
  if (is_own(m, row))
    m->is_refuting = true;
  else
    row_accuse(m, row, &a, from, now_ms);
  return ERR_OK;
}

void members_miss(struct members *m, size_t peer, bool is_told, uint64_t now_ms) {
  struct member *row = row_find(m, &m->peers[peer]);
  if (!row || row->is_here || row->leaves || row->incarnation.boot_epoch == 0)
    return;
  row->is_missed = true;
  struct accusation a = {
      .swarm = m->config.swarm, .accuser = m->config.key, .accused = row->key, .incarnation = row->incarnation};
  if (is_told && is_open_to(m, row, &a, now_ms)) {
    m->config.seal.sign_accusation(m->config.seal.context, &a);
    row_accuse(m, row, &a, MEMBER_NOBODY, now_ms);
  }
  state_judge(m, row, now_ms);
}

/* ---- sessions, time ---------------------------------------------------------------------------------------------------------- */

void members_session(struct members *m, size_t peer, bool is_up, uint64_t now_ms) {
  struct member *row = row_find(m, &m->peers[peer]);
  if (!row)
    return;
  row->is_here = is_up;
  row->is_missed &= !is_up;
  state_judge(m, row, now_ms);
}

static void refute(struct members *m, uint64_t now_ms) {
  m->is_refuting = false;
  m->refute_at_ms = now_ms + REFUTE_EVERY_MS;
  m->own.incarnation.refutation++;
  state_own_again(m, now_ms);
}

uint64_t members_tick(struct members *m, uint64_t now_ms) {
  uint64_t due_ms = MEMBERS_NEVER;
  if (m->is_refuting && m->refute_at_ms <= now_ms)
    refute(m, now_ms);
  if (m->is_refuting)
    due_ms = m->refute_at_ms;
  for (size_t i = 0; i < m->n; i++) {
    struct member *row = &m->rows[i];
    if (row->dead_at_ms <= now_ms && row->state != MEMBER_DEAD)
      state_judge(m, row, now_ms);
    if (row->state == MEMBER_SUSPECT && row->dead_at_ms < due_ms)
      due_ms = row->dead_at_ms;
  }
  return due_ms;
}

/* ---- what travels -------------------------------------------------------------------------------------------------------------- */

static struct news statement_news(const struct member *row) {
  return (struct news){NEWS_STATEMENT, row->statement, row->n_statement};
}

static struct news accusation_news(const struct member_accuser *a) {
  return (struct news){NEWS_ACCUSATION, a->bytes, ACCUSATION_BYTES};
}

struct change {
  uint64_t number;
  struct news item;
};

/* The first changes after `told` that are not of peer `to`, ascending. */
struct changes {
  uint64_t told;
  uint32_t to;
  struct change *items;
  size_t n, capacity;
};

static void change_take(struct changes *c, uint64_t number, uint32_t from, struct news item) {
  bool is_full = c->n == c->capacity;
  if (number <= c->told || from == c->to || (is_full && number > c->items[c->n - 1].number))
    return;
  size_t at = is_full ? c->n - 1 : c->n++;
  for (; at > 0 && c->items[at - 1].number > number; at--)
    c->items[at] = c->items[at - 1];
  c->items[at] = (struct change){number, item};
}

size_t members_news(const struct members *m, uint32_t to, uint64_t *told, struct news *out_items, size_t capacity) {
  struct change items[MAX_NEWS];
  struct changes c = {.told = *told, .to = to, .items = items, .capacity = capacity};
  MUST(capacity > 0 && capacity <= MAX_NEWS);
  for (size_t i = 0; i < m->n; i++) {
    const struct member *row = &m->rows[i];
    change_take(&c, row->change, row->from, statement_news(row));
    for (size_t k = 0; k < row->n_accusers; k++)
      if (row->accusers[k].is_current)
        change_take(&c, row->accusers[k].change, row->accusers[k].from, accusation_news(&row->accusers[k]));
  }
  for (size_t i = 0; i < c.n; i++)
    out_items[i] = items[i].item;
  *told = c.n == capacity ? items[c.n - 1].number : m->change;
  return c.n;
}

struct listed listed_read(const uint8_t bytes[LISTED_BYTES]) {
  struct listed l = {0};
  struct cursor c;
  cursor_init(&c, bytes, LISTED_BYTES);
  cursor_bytes(&c, l.key.bytes, sizeof l.key.bytes);
  l.incarnation.boot_epoch = cursor_u64(&c);
  l.incarnation.refutation = cursor_u32(&c);
  l.n_accusers = cursor_u8(&c);
  return l;
}

static void listed_write(const struct member *row, uint8_t out_bytes[LISTED_BYTES]) {
  struct writer w;
  writer_init(&w, out_bytes, LISTED_BYTES);
  writer_bytes(&w, row->key.bytes, sizeof row->key.bytes);
  writer_u64(&w, row->incarnation.boot_epoch);
  writer_u32(&w, row->incarnation.refutation);
  writer_u8(&w, doubt_of(row));
}

size_t members_list(const struct members *m, uint8_t out_rows[][LISTED_BYTES], size_t capacity) {
  size_t n = 0;
  for (size_t i = 0; i < m->n && n < capacity; i++)
    if (m->rows[i].incarnation.boot_epoch > 0)
      listed_write(&m->rows[i], out_rows[n++]);
  return n;
}

/* Items that do not fit are only noted. */
struct lacking {
  struct news *items;
  size_t n, capacity;
  bool is_more;
};

static void lacking_put(struct lacking *l, struct news item) {
  if (l->n < l->capacity)
    l->items[l->n++] = item;
  else
    l->is_more = true;
}

/* They know nothing or less of it. */
static void lacking_row(struct lacking *l, const struct member *row, const struct listed *theirs) {
  int order = theirs ? incarnation_compare(&theirs->incarnation, &row->incarnation) : -1;
  if (order < 0)
    lacking_put(l, statement_news(row));
  if (order > 0 || (order == 0 && theirs->n_accusers >= doubt_of(row)))
    return;
  for (size_t i = 0; i < row->n_accusers; i++)
    if (row->accusers[i].is_current)
      lacking_put(l, accusation_news(&row->accusers[i]));
}

static bool is_ahead(const struct member *row, const struct listed *theirs) {
  int order = row ? incarnation_compare(&theirs->incarnation, &row->incarnation) : 1;
  return order > 0 || (order == 0 && theirs->n_accusers > doubt_of(row));
}

/* Two ascending lists side by side. */
size_t members_lacking(const struct members *m, const uint8_t rows[][LISTED_BYTES], size_t n_rows,
                       struct news *out_items, size_t capacity, bool *out_is_more, bool *out_is_behind) {
  struct lacking l = {.items = out_items, .capacity = capacity};
  size_t at = 0;
  *out_is_behind = false;
  for (size_t i = 0; i < m->n || at < n_rows;) {
    const struct member *row = i < m->n ? &m->rows[i] : NULL;
    struct listed theirs = {0};
    int order = -1;
    if (at < n_rows) {
      theirs = listed_read(rows[at]);
      order = row ? identity_key_compare(&row->key, &theirs.key) : 1;
    }
    if (row && order <= 0 && row->incarnation.boot_epoch > 0)
      lacking_row(&l, row, order == 0 ? &theirs : NULL);
    if (order >= 0)
      *out_is_behind |= is_ahead(order == 0 ? row : NULL, &theirs);
    i += order <= 0;
    at += order >= 0;
  }
  *out_is_more = l.is_more;
  return l.n;
}

/* ---- life ------------------------------------------------------------------------------------------------------------------------ */

static enum err add_known(struct members *m, const struct identity_key *key, bool is_peer, uint64_t now_ms) {
  struct member *row;
  enum err e = row_add(m, key, MEMBER_NOBODY, now_ms, &row);
  if (e == ERR_OK)
    row->is_peer = is_peer;
  return e;
}

enum err members_init(struct members *m, const struct members_config *config, uint64_t now_ms) {
  *m = (struct members){.config = *config};
  m->config.name = m->config.addresses = NULL;
  m->config.peers = NULL;
  m->peers = malloc((config->n_peers + 1) * sizeof *m->peers);
  if (!m->peers)
    return ERR_NO_MEMORY;
  if (config->n_peers > 0)
    memcpy(m->peers, config->peers, config->n_peers * sizeof *m->peers);
  m->own =
      (struct statement){.swarm = config->swarm, .key = config->key, .incarnation = {.boot_epoch = config->boot_epoch}};
  MUST(strlen(config->name) < sizeof m->own.name && strlen(config->addresses) < sizeof m->own.addresses);
  memcpy(m->own.name, config->name, strlen(config->name));
  memcpy(m->own.addresses, config->addresses, strlen(config->addresses));
  enum err e = add_known(m, &config->key, false, now_ms);
  for (size_t i = 0; e == ERR_OK && i < config->n_peers; i++)
    e = add_known(m, &config->peers[i], true, now_ms);
  return e == ERR_OK ? state_own(m, now_ms) : e;
}

void members_done(struct members *m) {
  for (size_t i = 0; i < m->n; i++)
    row_free(&m->rows[i]);
  free(m->rows);
  free(m->peers);
  *m = (struct members){0};
}
