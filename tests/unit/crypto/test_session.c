#include "crypto/bulk.h"
#include "crypto/random.h"
#include "crypto/session.h"
#include "tests/unit/crypto/vectors.h"
#include "tests/unit/suite.h"

enum { START_MS = 1000, MAX_PLAIN = 1100 };

/* Two ends with each other's keys, and one frame. */
struct link {
  struct session *a, *b;
  uint8_t frame[FRAME_HEAD_BYTES + MAX_PLAIN + FRAME_TAG_BYTES];
  size_t n_frame;
};

static void link_open(struct link *l) {
  struct session_keys a, b;
  memset(&a, 0, sizeof a);
  memset(&b, 0, sizeof b);
  struct session_ends a_ends = {.own_index = 0x0a0a0a0a, .peer_index = 0xa1b2c3d4, .is_initiator = true};
  struct session_ends b_ends = {.own_index = 0xa1b2c3d4, .peer_index = 0x0a0a0a0a};
  memset(a.send, 0x99, sizeof a.send);
  memset(a.receive, 0x88, sizeof a.receive);
  memcpy(b.send, a.receive, sizeof b.send);
  memcpy(b.receive, a.send, sizeof b.receive);
  memset(l, 0, sizeof *l);
  ck_assert_int_eq(session_new(&a, &a_ends, START_MS, &l->a), ERR_OK);
  ck_assert_int_eq(session_new(&b, &b_ends, START_MS, &l->b), ERR_OK);
}

static void link_close(struct link *l) {
  session_free(l->a);
  session_free(l->b);
}

static enum err link_seal(struct link *l, struct session *from, uint64_t now_ms, uint8_t type, const char *text) {
  size_t n = strlen(text);
  memcpy(l->frame + FRAME_HEAD_BYTES, text, n);
  enum err e = session_seal(from, now_ms, type, l->frame, n);
  if (e == ERR_OK)
    l->n_frame = frame_bytes(n);
  return e;
}

static enum err link_open_frame(struct link *l, struct session *to, uint64_t now_ms) {
  struct frame_head head;
  ck_assert_int_eq(frame_head_read(l->frame, l->n_frame, &head), ERR_OK);
  return session_open_frame(to, now_ms, &head, l->frame);
}

START_TEST(golden) {
  struct link l;
  link_open(&l);
  ck_assert_int_eq(link_seal(&l, l.a, START_MS, 7, ""), ERR_OK);
  assert_golden("frame_0", l.frame, l.n_frame);
  ck_assert_int_eq(link_seal(&l, l.a, START_MS, 8, "eight updates and a swarm"), ERR_OK);
  assert_golden("frame_1", l.frame, l.n_frame);
  link_close(&l);
}
END_TEST

/* Long ones go through libcrypto, as bulk.h says; every byte is either side's. */
START_TEST(frames_of_every_length_pass) {
  static const size_t lengths[] = {0, 1, BULK_MIN_BYTES - 1, BULK_MIN_BYTES, 30001, MAX_FRAME_PLAIN_BYTES};
  static uint8_t frame[FRAME_HEAD_BYTES + MAX_FRAME_PLAIN_BYTES + FRAME_TAG_BYTES], plain[MAX_FRAME_PLAIN_BYTES];
  struct link l;
  link_open(&l);
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    size_t n = lengths[i];
    struct frame_head head;
    memset(plain, (int)i + 1, n);
    memcpy(frame + FRAME_HEAD_BYTES, plain, n);
    ck_assert_int_eq(session_seal(l.a, START_MS, 1, frame, n), ERR_OK);
    ck_assert(n == 0 || memcmp(frame + FRAME_HEAD_BYTES, plain, n) != 0);
    ck_assert_int_eq(frame_head_read(frame, frame_bytes(n), &head), ERR_OK);
    ck_assert_int_eq(session_open_frame(l.b, START_MS, &head, frame), ERR_OK);
    ck_assert_mem_eq(frame + FRAME_HEAD_BYTES, plain, n);
  }
  ck_assert_ptr_nonnull(l.a->bulk);
  ck_assert_ptr_nonnull(l.b->bulk);
  link_close(&l);
}
END_TEST

START_TEST(both_directions_pass) {
  struct link l;
  link_open(&l);
  for (int i = 0; i < 5; i++) {
    ck_assert_int_eq(link_seal(&l, l.a, START_MS, 1, "there"), ERR_OK);
    ck_assert_int_eq(link_open_frame(&l, l.b, START_MS), ERR_OK);
    ck_assert_mem_eq(l.frame + FRAME_HEAD_BYTES, "there", 5);
    ck_assert_int_eq(link_seal(&l, l.b, START_MS, 1, "and back"), ERR_OK);
    ck_assert_int_eq(link_open_frame(&l, l.a, START_MS), ERR_OK);
    ck_assert_mem_eq(l.frame + FRAME_HEAD_BYTES, "and back", 8);
  }
  ck_assert_uint_eq(l.a->n_frames, 10);
  ck_assert_uint_eq(l.b->n_frames, 10);
  ck_assert_uint_eq(l.a->n_bytes, 65);
  link_close(&l);
}
END_TEST

START_TEST(a_frame_opens_once_and_never_after_a_later_one) {
  struct link l, old;
  link_open(&l);
  ck_assert_int_eq(link_seal(&l, l.a, START_MS, 1, "first"), ERR_OK);
  old = l;
  ck_assert_int_eq(link_seal(&l, l.a, START_MS, 1, "second"), ERR_OK);
  ck_assert_int_eq(link_seal(&l, l.a, START_MS, 1, "third"), ERR_OK);
  struct link third = l;
  ck_assert_int_eq(link_open_frame(&l, l.b, START_MS), ERR_OK); /* a gap is allowed */
  ck_assert_int_eq(link_open_frame(&third, l.b, START_MS), ERR_REPLAY);
  ck_assert_int_eq(link_open_frame(&old, l.b, START_MS), ERR_REPLAY);
  link_close(&l);
}
END_TEST

START_TEST(the_last_counter_is_never_accepted) {
  struct link l;
  link_open(&l);
  l.a->next_send = UINT64_MAX - 1;
  ck_assert_int_eq(link_seal(&l, l.a, START_MS, 1, "x"), ERR_OK);
  ck_assert_int_eq(link_open_frame(&l, l.b, START_MS), ERR_OK);
  ck_assert_int_eq(link_seal(&l, l.a, START_MS, 1, "x"), ERR_OK);
  ck_assert_int_eq(link_open_frame(&l, l.b, START_MS), ERR_REPLAY);
  link_close(&l);
}
END_TEST

/* Every bit of a frame of 1 140 bytes, 9 120 in all: the head is judged first, the rest by the seal. */
START_TEST(no_bit_of_a_frame_may_flip) {
  struct link l;
  link_open(&l);
  uint8_t sealed[sizeof l.frame];
  l.n_frame = sizeof l.frame;
  random_bytes(l.frame, sizeof l.frame);
  l.a->next_send = 1000;
  ck_assert_int_eq(session_seal(l.a, START_MS, 1, l.frame, MAX_PLAIN), ERR_OK);
  memcpy(sealed, l.frame, sizeof sealed);
  for (size_t bit = 0; bit / 8 < sizeof sealed; bit++) {
    struct frame_head head;
    memcpy(l.frame, sealed, sizeof sealed);
    l.frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
    enum err e = frame_head_read(l.frame, sizeof l.frame, &head);
    if (e == ERR_OK && head.session_index == l.b->ends.own_index)
      e = session_open_frame(l.b, START_MS, &head, l.frame);
    else if (e == ERR_OK)
      e = ERR_NO_SESSION; /* no session has this index */
    bool in_index = bit / 8 >= 8 && bit / 8 < 12;
    bool in_head_rules = bit / 8 < 8 && bit / 8 != 4;
    bool in_length = bit / 8 >= 12 && bit / 8 < 16;
    enum err expected = in_index ? ERR_NO_SESSION : in_head_rules || in_length ? ERR_FRAME : ERR_SEAL;
    ck_assert_msg(e == expected, "bit %zu: %s", bit, err_name(e));
  }
  memcpy(l.frame, sealed, sizeof sealed);
  ck_assert_int_eq(link_open_frame(&l, l.b, START_MS), ERR_OK); /* forgeries changed nothing */
  link_close(&l);
}
END_TEST

START_TEST(ones_own_frame_does_not_come_back) {
  struct link l;
  link_open(&l);
  l.a->ends.own_index = l.a->ends.peer_index;
  ck_assert_int_eq(link_seal(&l, l.a, START_MS, 1, "mirror"), ERR_OK);
  ck_assert_int_eq(link_open_frame(&l, l.a, START_MS), ERR_SEAL);
  link_close(&l);
}
END_TEST

START_TEST(a_rekey_is_wanted_after_120_s) {
  struct link l;
  link_open(&l);
  ck_assert(!session_wants_rekey(l.a, START_MS));
  ck_assert(!session_wants_rekey(l.a, START_MS + 119999));
  ck_assert(session_wants_rekey(l.a, START_MS + 120000));
  ck_assert(session_wants_rekey(l.a, START_MS - 1)); /* a clock that ran backwards */
  link_close(&l);
}
END_TEST

START_TEST(a_rekey_is_wanted_after_2_to_the_20_frames) {
  struct link l;
  link_open(&l);
  l.a->n_frames = (1 << 20) - 1;
  ck_assert(!session_wants_rekey(l.a, START_MS));
  ck_assert_int_eq(link_seal(&l, l.a, START_MS, 1, ""), ERR_OK);
  ck_assert(session_wants_rekey(l.a, START_MS));
  link_close(&l);
}
END_TEST

START_TEST(a_rekey_is_wanted_after_a_gibibyte) {
  struct link l;
  link_open(&l);
  l.b->n_bytes = (1 << 30) - 1;
  ck_assert(!session_wants_rekey(l.b, START_MS));
  ck_assert_int_eq(link_seal(&l, l.a, START_MS, 1, "x"), ERR_OK);
  ck_assert_int_eq(link_open_frame(&l, l.b, START_MS), ERR_OK);
  ck_assert(session_wants_rekey(l.b, START_MS));
  link_close(&l);
}
END_TEST

START_TEST(keys_are_dead_after_180_s) {
  struct link l;
  link_open(&l);
  ck_assert_int_eq(link_seal(&l, l.a, START_MS + 179999, 1, "x"), ERR_OK);
  ck_assert_int_eq(link_open_frame(&l, l.b, START_MS + 180000), ERR_KEY_EXPIRED);
  ck_assert_int_eq(link_open_frame(&l, l.b, START_MS + 179999), ERR_OK);
  uint8_t before[sizeof l.frame];
  memcpy(before, l.frame, sizeof before);
  ck_assert_int_eq(session_seal(l.a, START_MS + 180000, 1, l.frame, 1), ERR_KEY_EXPIRED);
  ck_assert_mem_eq(l.frame, before, sizeof before);
  ck_assert(session_is_expired(l.a, START_MS + 180000));
  ck_assert(session_is_expired(l.a, START_MS - 1));
  ck_assert(!session_is_expired(l.a, START_MS + 179999));
  link_close(&l);
}
END_TEST

START_TEST(keys_are_dead_after_2_to_the_24_frames) {
  struct link l;
  link_open(&l);
  l.a->n_frames = l.b->n_frames = (1 << 24) - 1;
  ck_assert_int_eq(link_seal(&l, l.a, START_MS, 1, "x"), ERR_OK);
  struct link last = l;
  ck_assert_int_eq(link_seal(&l, l.a, START_MS, 1, "x"), ERR_KEY_EXPIRED);
  ck_assert_int_eq(link_open_frame(&l, l.b, START_MS), ERR_SEAL); /* the plaintext was laid over the last frame */
  ck_assert_int_eq(link_open_frame(&last, l.b, START_MS), ERR_OK);
  ck_assert_int_eq(link_open_frame(&last, l.b, START_MS), ERR_KEY_EXPIRED);
  link_close(&l);
}
END_TEST

int main(void) {
  if (random_open() != ERR_OK)
    return 1;
  return SUITE_RUN("crypto/session", golden, frames_of_every_length_pass, both_directions_pass,
                   a_frame_opens_once_and_never_after_a_later_one, the_last_counter_is_never_accepted,
                   no_bit_of_a_frame_may_flip, ones_own_frame_does_not_come_back, a_rekey_is_wanted_after_120_s,
                   a_rekey_is_wanted_after_2_to_the_20_frames, a_rekey_is_wanted_after_a_gibibyte,
                   keys_are_dead_after_180_s, keys_are_dead_after_2_to_the_24_frames);
}
