/* How long keys work, in virtual time: no longer than 120 s, 2^20 frames or 1 GiB and what a handshake takes, and when they
 * are over, nothing opens under them. */
#include "tests/property/hostile.h"
#include "tests/size.h"
#include "tests/unit/suite.h"

/* The session under which `from` has sealed the frame. */
static const struct session *session_of_frame(struct agent *from, const struct agent *to, const uint8_t *frame,
                                              size_t n) {
  struct frame_head head;
  ck_assert_int_eq(frame_head_read(frame, n, &head), ERR_OK);
  const struct peer *p = &from->node->peers[peer_of(from, to)];
  for (size_t i = 0; i < N_SLOTS; i++)
    if (p->slots[i] && p->slots[i]->session->ends.peer_index == head.session_index)
      return p->slots[i]->session;
  return NULL;
}

struct ages {
  uint64_t oldest_ms, most_frames;
  size_t n;
};

static unsigned watch_ages(struct world *w, struct agent *from, struct agent *to, const uint8_t *frame, size_t n) {
  struct ages *ages = w->filter_context;
  if (frame_type(frame) == MESSAGE_HANDSHAKE_1 || frame_type(frame) == MESSAGE_HANDSHAKE_2)
    return 1;
  const struct session *s = session_of_frame(from, to, frame, n);
  ck_assert_ptr_nonnull(s);
  uint64_t age_ms = w->now_ms - s->created_ms;
  ages->oldest_ms = age_ms > ages->oldest_ms ? age_ms : ages->oldest_ms;
  ages->most_frames = s->n_frames > ages->most_frames ? s->n_frames : ages->most_frames;
  ages->n++;
  return 1;
}

START_TEST(no_key_works_longer_than_two_minutes) {
  struct world *w = met_new();
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  struct ages ages = {0};
  w->filter = watch_ages;
  w->filter_context = &ages;
  for (size_t i = 0; i < sized(1300, 13000, 130000); i++) { /* something is said all the time */
    gossip_done(a->node, 0, 0, i, ERR_OK);
    gossip_done(b->node, 0, 0, i, ERR_OK);
    world_run(w, 97);
  }
  uint64_t handshake_ms = 4 * w->latency_ms; /* there and back, and the first frame under the new keys */
  ck_assert_uint_le(ages.oldest_ms, SESSION_REKEY_MS + handshake_ms);
  ck_assert_uint_gt(ages.oldest_ms, SESSION_REKEY_MS - 100);
  ck_assert_uint_ge(w->n_by_type[MESSAGE_HANDSHAKE_1], sized(2, 10, 100));
  ck_assert_uint_eq(heard_by(a, b)->n_down + heard_by(b, a)->n_down, 0);
  ck_assert_uint_eq(heard_by(b, a)->n_done, sized(1300, 13000, 130000));
  ck_assert_uint_eq(counted_all(a) + counted_all(b), 0);
  world_free(w);
}
END_TEST

/* Seals n messages that are lost on the way; in the small size the counter is moved to where they would bring it. */
static void seal_many(struct agent *a, const struct agent *b, size_t n, size_t n_plain) {
  static uint8_t frame[MAX_FRAME_BYTES];
  struct session *s = live_of(a, b)->session;
  if (size_is_small()) {
    s->next_send += n;
    s->n_frames += n;
    s->n_bytes += n * n_plain;
    return;
  }
  for (size_t i = 0; i < n; i++)
    ck_assert_int_eq(session_seal(s, world_now(a->world), MESSAGE_DONE, frame, n_plain), ERR_OK);
}

static void check_renewed(struct world *w, const struct session *old) {
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  ck_assert_ptr_eq(live_of(a, b)->session, old);
  world_run(w, 5000 + 10 * w->latency_ms); /* the next STATE at the latest */
  ck_assert_ptr_ne(live_of(a, b)->session, old);
  ck_assert_uint_eq(w->n_by_type[MESSAGE_HANDSHAKE_1], 2);
  ck_assert_uint_eq(heard_by(a, b)->n_down + heard_by(b, a)->n_down, 0);
  gossip_done(a->node, 0, 0, 1, ERR_OK);
  world_run(w, 20);
  ck_assert_uint_eq(heard_by(b, a)->n_done, 1);
  world_free(w);
}

START_TEST(keys_are_renewed_after_a_million_frames) {
  struct world *w = met_new();
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  const struct session *s = live_of(a, b)->session;
  seal_many(a, b, SESSION_REKEY_FRAMES - s->n_frames - 1, 41);
  ck_assert(!session_wants_rekey(s, w->now_ms));
  seal_many(a, b, 1, 41);
  check_renewed(w, s);
}
END_TEST

START_TEST(keys_are_renewed_after_a_gibibyte) {
  struct world *w = met_new();
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  const struct session *s = live_of(a, b)->session;
  seal_many(a, b, SESSION_REKEY_BYTES / CHUNK_BYTES - 1, CHUNK_BYTES);
  ck_assert(!session_wants_rekey(s, w->now_ms));
  seal_many(a, b, 1, CHUNK_BYTES);
  check_renewed(w, s);
}
END_TEST

/* Frames sealed before and kept back: while the old session stands they open, afterwards they are key-expired. */
START_TEST(a_frame_under_keys_that_are_over_is_refused) {
  struct world *w = met_new();
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  uint8_t frames[3][128];
  uint8_t frame[MAX_FRAME_BYTES];
  size_t n = 0;
  uint64_t conn = live_of(b, a)->conn;
  world_run(w, SESSION_REKEY_MS - 1000);
  struct session *s = live_of(a, b)->session;
  uint64_t next = s->next_send;
  s->next_send += 1000; /* above the counters of what is still to be said under these keys */
  for (size_t i = 0; i < 3; i++) {
    n = done_seal(a, b, i, frame);
    memcpy(frames[i], frame, n);
  }
  s->next_send = next;
  world_run(w, 2000);
  ck_assert_ptr_nonnull(b->node->peers[0].slots[SLOT_PREVIOUS]);
  inject(b, conn, frames[0], n);
  ck_assert_uint_eq(heard_by(b, a)->n_done, 1);
  world_run(w, PREVIOUS_KEEP_MS);
  inject(b, conn, frames[1], n);
  world_run(w, SESSION_EXPIRE_MS - SESSION_REKEY_MS);
  inject(b, conn, frames[2], n);
  ck_assert_uint_eq(heard_by(b, a)->n_done, 1);
  ck_assert_uint_eq(counted(b, ERR_KEY_EXPIRED), 2);
  ck_assert_uint_eq(counted_all(b), 2);
  ck_assert(info_of(b, a).has_session);
  world_free(w);
}
END_TEST

/* Where renewal is prevented, keys die of age though their session still stands. */
START_TEST(after_three_minutes_keys_open_and_seal_nothing) {
  struct catch first = {.type = MESSAGE_HANDSHAKE_1, .loses = true};
  struct world *w = met_new();
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  uint8_t frame[MAX_FRAME_BYTES];
  catch_start(w, &first);
  struct session *s = live_of(a, b)->session;
  world_run(w, s->created_ms + SESSION_EXPIRE_MS - 100 - w->now_ms);
  size_t n = done_seal(a, b, 1, frame);
  ck_assert(info_of(b, a).has_session);
  w->now_ms += 200; /* the frame comes before any timer */
  ck_assert_int_eq(session_seal(s, w->now_ms, MESSAGE_DONE, frame + n, 1), ERR_KEY_EXPIRED);
  inject(b, live_of(b, a)->conn, frame, n);
  ck_assert_uint_eq(heard_by(b, a)->n_done, 0);
  ck_assert_uint_eq(counted(b, ERR_KEY_EXPIRED), 1);
  ck_assert_ptr_null(live_of(b, a));
  world_free(w);
}
END_TEST

int main(void) {
  return SUITE_RUN_WITHIN("rekey", SUITE_LIMIT_S, no_key_works_longer_than_two_minutes,
                          keys_are_renewed_after_a_million_frames, keys_are_renewed_after_a_gibibyte,
                          a_frame_under_keys_that_are_over_is_refused, after_three_minutes_keys_open_and_seal_nothing);
}
