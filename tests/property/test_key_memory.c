/* Keys that are over are nowhere in the process: everything secret that handshakes and sessions derive is noted while two
 * agents renew, end and begin sessions, and then looked for in all writable memory (/proc/self/mem).
 *
 * To know the secrets the test compiles noise.c itself and stands between it and libsodium: it notes ephemeral keys,
 * results of scalar multiplications and every output of HMAC, which are the chaining keys, the handshake's keys and the
 * transport keys. The notes are masked, so they are not what is looked for. A control finds the keys that are still in use. */
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "base/must.h"
#include "crypto/aead.h"
#include "crypto/bulk.h"
#include "crypto/identity.h"
#include "tests/property/hostile.h"
#include "tests/size.h"
#include "tests/unit/suite.h"

enum { MAX_SECRETS = 4096, SECRET_BYTES = 32, PREFIX_BITS = 1 << 16, PART_BYTES = 1 << 20 };

/* ---- the notes ---- */

static struct {
  size_t n;
  uint8_t masked[MAX_SECRETS][SECRET_BYTES];
  uint8_t masks[MAX_SECRETS][SECRET_BYTES];
} notes;

static void note(const uint8_t secret[SECRET_BYTES]) {
  ck_assert_uint_lt(notes.n, MAX_SECRETS);
  randombytes_buf(notes.masks[notes.n], SECRET_BYTES);
  for (size_t i = 0; i < SECRET_BYTES; i++)
    notes.masked[notes.n][i] = secret[i] ^ notes.masks[notes.n][i];
  notes.n++;
}

static int noted_scalarmult(unsigned char *q, const unsigned char *n, const unsigned char *p) {
  int rc = crypto_scalarmult(q, n, p);
  note(q);
  return rc;
}

static int noted_hmac_final(crypto_auth_hmacsha512_state *state, unsigned char *out) {
  int rc = crypto_auth_hmacsha512_final(state, out);
  note(out);
  note(out + SECRET_BYTES);
  return rc;
}

static void noted_pair_new(struct x25519_pair *pair) {
  x25519_pair_new(pair);
  note(pair->secret);
}

#define crypto_scalarmult noted_scalarmult
#define crypto_auth_hmacsha512_final noted_hmac_final
#define x25519_pair_new noted_pair_new
#include "crypto/noise.c" // NOLINT(bugprone-suspicious-include): see above
#undef crypto_scalarmult
#undef crypto_auth_hmacsha512_final
#undef x25519_pair_new

/* ---- the search ---- */

struct search {
  uint8_t prefixes[PREFIX_BITS / 8]; /* the first two bytes of those looked for */
  bool is_found[MAX_SECRETS];
  size_t n_found, n_bytes;
};

static bool is_at(const uint8_t *memory, size_t k) {
  for (size_t i = 0; i < SECRET_BYTES; i++)
    if ((memory[i] ^ notes.masks[k][i]) != notes.masked[k][i])
      return false;
  return true;
}

static void search_part(struct search *s, const uint8_t *part, size_t n) {
  for (size_t at = 0; at + SECRET_BYTES <= n; at++) {
    unsigned prefix = part[at] | (unsigned)part[at + 1] << 8;
    if (!(s->prefixes[prefix / 8] >> prefix % 8 & 1))
      continue;
    for (size_t k = 0; k < notes.n; k++)
      if (!s->is_found[k] && is_at(part + at, k)) {
        s->is_found[k] = true;
        s->n_found++;
      }
  }
}

/* One writable mapping; parts overlap, so that nothing lies across. What was read is wiped. */
static void search_mapping(struct search *s, int memory, uint64_t from, uint64_t to, uint8_t *part) {
  for (uint64_t at = from; at < to;) {
    uint64_t n = to - at < PART_BYTES ? to - at : PART_BYTES;
    ssize_t got = pread(memory, part, n, (off_t)at);
    if (got > 0)
      search_part(s, part, (size_t)got);
    sodium_memzero(part, PART_BYTES);
    s->n_bytes += got > 0 ? (uint64_t)got : 0;
    at += n == PART_BYTES ? n - SECRET_BYTES : n;
  }
}

static bool lies_in(const void *at, uint64_t from, uint64_t to) {
  return (uintptr_t)at >= from && (uintptr_t)at < to;
}

static struct search *search_memory(void) {
  struct search *s = calloc(1, sizeof *s);
  uint8_t *part = mmap(NULL, PART_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (size_t k = 0; k < notes.n; k++) {
    unsigned prefix =
        (unsigned)(notes.masked[k][0] ^ notes.masks[k][0]) | (unsigned)(notes.masked[k][1] ^ notes.masks[k][1]) << 8;
    s->prefixes[prefix / 8] |= (uint8_t)(1u << prefix % 8);
  }
  int memory = open("/proc/self/mem", O_RDONLY);
  FILE *maps = fopen("/proc/self/maps", "r");
  ck_assert(memory >= 0 && maps && part != MAP_FAILED);
  char line[512];
  while (fgets(line, sizeof line, maps)) { /* from-to rw-p … */
    char *end;
    uint64_t from = strtoull(line, &end, 16), to = strtoull(end + 1, &end, 16);
    if (end[2] == 'w' && !lies_in(part, from, to))
      search_mapping(s, memory, from, to, part);
  }
  fclose(maps);
  close(memory);
  munmap(part, PART_BYTES);
  return s;
}

/* ---- what is in use ---- */

static bool is_key(const struct session *s, size_t k) {
  return is_at(s->keys[0].send, k) || is_at(s->keys[0].receive, k);
}

static bool is_in_use(const struct world *w, size_t k) {
  for (size_t i = 0; i < w->n_agents; i++)
    for (size_t p = 0; w->agents[i].node && p < w->agents[i].node->n_peers; p++) {
      const struct peer *peer = &w->agents[i].node->peers[p];
      ck_assert_ptr_null(peer->noise); /* no handshake is in flight */
      for (size_t j = 0; j < N_SLOTS; j++)
        if (peer->slots[j] && is_key(peer->slots[j]->session, k))
          return true;
    }
  return false;
}

/* Nothing is found but keys in use, and those all are; how many. */
static size_t check_memory(const struct world *w) {
  struct search *s = search_memory();
  size_t n_in_use = 0, n_left = 0;
  ck_assert_uint_gt(s->n_bytes, 1 << 20);
  for (size_t k = 0; k < notes.n; k++) {
    bool in_use = is_in_use(w, k);
    n_in_use += in_use;
    n_left += s->is_found[k] && !in_use;
    ck_assert_msg(!in_use || s->is_found[k], "a key that is in use is not found: the search does not work");
  }
  ck_assert_msg(n_left == 0, "%zu of %zu secrets that are over are still in memory", n_left, notes.n);
  free(s);
  return n_in_use;
}

START_TEST(no_key_that_is_over_is_in_memory) {
  struct world *w = met_new();
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  world_run(w, 1000);
  ck_assert_uint_gt(check_memory(w), 0); /* the control: send and receive keys of the live session */
  for (int i = 0; i < 5; i++) {
    agent_publish(a, 300000, (uint64_t)i + 1);
    b->fetches = true;
    gossip_offer(a->node, 0, 0, a->published_bytes);
    world_run(w, SESSION_REKEY_MS + PREVIOUS_KEEP_MS + 1000);
    check_memory(w);
  }
  ck_assert_uint_eq(heard_by(b, a)->n_payload, 5);
  ck_assert_uint_ge(w->n_by_type[MESSAGE_HANDSHAKE_1], 5);

  peer_kick(b->node, &b->node->peers[0], ERR_QUARANTINED); /* an end and a new beginning */
  world_run(w, 20000);
  ck_assert(info_of(a, b).has_session);
  ck_assert_uint_gt(check_memory(w), 0);

  agent_stop(a, ERR_STOPPED); /* all sessions are over */
  world_run(w, 1000);
  ck_assert_uint_eq(check_memory(w), 0);
  ck_assert_uint_gt(notes.n, 100);
  world_free(w);
}
END_TEST

/* ---- the same with a stack of its own for every poll, so that nothing covers what a handshake has left there ---- */

enum { FRESH_BYTES = 128 << 10, MAX_FRESH = 512 };

static uint8_t *stacks;
static size_t n_stacks;

static void stacks_new(void) {
  stacks = mmap(NULL, (size_t)FRESH_BYTES * MAX_FRESH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ck_assert(stacks != MAP_FAILED);
  n_stacks = 0;
}

static void on_fresh_stack(void (*call)(void)) {
  static ucontext_t here, there;
  ck_assert_uint_lt(n_stacks, MAX_FRESH);
  ck_assert_int_eq(getcontext(&there), 0);
  there.uc_stack = (stack_t){.ss_sp = stacks + n_stacks++ * FRESH_BYTES, .ss_size = FRESH_BYTES};
  there.uc_link = &here;
  makecontext(&there, call, 0);
  ck_assert_int_eq(swapcontext(&here, &there), 0);
}

static struct agent *polled;

static void poll_once(void) {
  link_poll(polled->node, NULL, 0, 0);
}

static void poll_fresh(struct agent *a) {
  polled = a;
  on_fresh_stack(poll_once);
}

static void run_fresh(struct world *w, uint64_t ms) {
  for (uint64_t end_ms = w->now_ms + ms; w->now_ms < end_ms; w->now_ms += w->latency_ms)
    for (size_t i = 0; i < w->n_agents; i++)
      poll_fresh(&w->agents[i]);
}

START_TEST(no_key_is_left_on_a_stack) {
  struct catch none = {0};
  stacks_new();
  struct world *w = strangers_new(&none);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  run_fresh(w, 100);
  const struct session *first = live_of(a, b)->session;
  ck_assert_ptr_nonnull(first);
  ck_assert_uint_gt(check_memory(w), 0);
  world_run(w, SESSION_REKEY_MS - 200);
  ck_assert_ptr_eq(live_of(a, b)->session, first);
  run_fresh(w, 300);
  ck_assert_ptr_ne(live_of(a, b)->session, first);
  ck_assert_uint_eq(heard_by(a, b)->n_down, 0);
  check_memory(w);
  agent_stop(a, ERR_STOPPED);
  agent_stop(b, ERR_STOPPED);
  ck_assert_uint_eq(check_memory(w), 0);
  world_free(w);
  munmap(stacks, (size_t)FRESH_BYTES * MAX_FRESH);
}
END_TEST

/* ---- and for every function that handles keys ---- */

static struct {
  struct identity *initiator, *responder;
  struct noise *of_initiator, *of_responder;
  struct session *session;
  uint8_t first[HANDSHAKE_1_BYTES], second[HANDSHAKE_2_BYTES];
  struct session_keys keys;
  enum err e;
} meeting;

static void write_first(void) {
  struct offer offer = {.version_min = 1, .version_max = 1, .session_index = 1};
  meeting.e = handshake_1_write(identity_x25519(meeting.initiator), identity_x25519(meeting.responder)->public_key,
                                &offer, &meeting.of_initiator, meeting.first);
}

static void read_first(void) {
  struct offer offer;
  meeting.e = handshake_1_read(identity_x25519(meeting.responder), meeting.first, &meeting.of_responder, &offer);
}

static void write_second(void) {
  struct answer answer = {.version = 1, .own = {.version_min = 1, .version_max = 1, .session_index = 2}};
  meeting.e = handshake_2_write(meeting.of_responder, 1, &answer, meeting.second);
}

static void read_second(void) {
  struct frame_head head;
  struct answer answer;
  meeting.e = frame_head_read(meeting.second, sizeof meeting.second, &head);
  if (meeting.e == ERR_OK)
    meeting.e = handshake_2_read(meeting.of_initiator, &head, meeting.second, sizeof meeting.second, &answer);
}

static void split_initiator(void) {
  noise_split(meeting.of_initiator, &meeting.keys);
}

static void split_responder(void) {
  noise_split(meeting.of_responder, &meeting.keys);
}

static void begin_session(void) {
  meeting.e = session_new(&meeting.keys, &(struct session_ends){.own_index = 1, .peer_index = 1}, 1, &meeting.session);
}

/* A session with itself: what it seals cannot be opened, but opening has used the key. */
static void use_session_for(size_t n_plain) {
  static uint8_t frame[2 * BULK_MIN_BYTES];
  struct frame_head head = {.session_index = 1, .n_plain = (uint32_t)n_plain};
  meeting.e = session_seal(meeting.session, 2, MESSAGE_DONE, frame, n_plain);
  if (meeting.e == ERR_OK && session_open_frame(meeting.session, 2, &head, frame) != ERR_SEAL)
    meeting.e = ERR_SEAL;
}

static void use_session(void) {
  use_session_for(64);
}

static void use_session_in_bulk(void) {
  use_session_for(BULK_MIN_BYTES);
}

static void end_session(void) {
  session_free(meeting.session);
}

START_TEST(no_function_leaves_a_key_on_its_stack) {
  static void (*const calls[])(void) = {write_first,         read_first,      write_second,  read_second,
                                        split_responder,     split_initiator, begin_session, use_session,
                                        use_session_in_bulk, end_session};
  struct world nobody = {0};
  ck_assert_int_eq(random_open(), ERR_OK);
  meeting.initiator = identity_numbered(1);
  meeting.responder = identity_numbered(2);
  stacks_new();
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    on_fresh_stack(calls[i]);
    ck_assert_int_eq(meeting.e, ERR_OK);
  }
  noise_free(meeting.of_initiator);
  noise_free(meeting.of_responder);
  session_keys_wipe(&meeting.keys);
  ck_assert_uint_gt(notes.n, 40);
  ck_assert_uint_eq(check_memory(&nobody), 0);
  identity_free(meeting.initiator);
  identity_free(meeting.responder);
}
END_TEST

int main(void) {
  if (size_is_small()) {
    puts("sanitisers and valgrind keep copies of memory of their own");
    return 77; /* skipped */
  }
  return SUITE_RUN_WITHIN("key_memory", SUITE_LIMIT_S, no_key_that_is_over_is_in_memory, no_key_is_left_on_a_stack,
                          no_function_leaves_a_key_on_its_stack);
}
