/* Sketches on the wire: what is handed on, and what is refused and whom it counts against. */
#include "gossip/outbox.h"
#include "tests/unit/gossip/world.h"

static uint8_t bytes[SIGNED_SKETCH_BYTES];

static struct world *pair_new(uint16_t version_of_b) {
  struct world *w = world_new(2, false);
  only_called_by(&w->agents[1], &w->agents[0]);
  w->agents[1].config.version_min = 1;
  w->agents[1].config.version_max = version_of_b;
  world_start(w);
  world_run(w, 100);
  ck_assert(info_of(&w->agents[0], &w->agents[1]).has_session);
  return w;
}

static struct signed_sketch sketch_of(const struct agent *signer) {
  struct signed_sketch s = {.swarm = {{7}},
                            .job = signer->job.job,
                            .schema = signer->job.schema,
                            .contract = signer->job.contract,
                            .boot_epoch = 1,
                            .serial = 5};
  signed_sketch_sign(&s, signer->identity);
  return s;
}

static void tell(struct world *w, struct agent *from, struct agent *to, const struct signed_sketch *s) {
  signed_sketch_write(s, bytes);
  (void)!gossip_send_sketch(from->node, peer_of(from, to), 0, bytes);
  world_run(w, 100);
}

/* A copy over a third costs no check of its signature, and counts nothing. */
START_TEST(what_is_known_is_not_verified) {
  struct world *w = pair_new(GOSSIP_VERSION);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  struct signed_sketch s = sketch_of(b);
  tell(w, b, a, &s);
  s.signature.bytes[3] ^= 1;
  tell(w, b, a, &s);
  ck_assert_uint_eq(heard_by(a, b)->n_sketch, 1);
  ck_assert_uint_eq(info_of(a, b).drops[err_drop_index(ERR_SIGNATURE)], 0);
  s.serial++;
  tell(w, b, a, &s);
  ck_assert_uint_eq(info_of(a, b).drops[err_drop_index(ERR_SIGNATURE)], 1);
  world_free(w);
}
END_TEST

/* A quarter of what may wait is sketches'; whoever wants to say more says it later, and it arrives. */
START_TEST(sketches_leave_room_for_the_rest) {
  struct world *w = pair_new(GOSSIP_VERSION);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  struct signed_sketch s = sketch_of(b);
  size_t n_taken = 0;
  enum err e;
  signed_sketch_write(&s, bytes);
  while ((e = gossip_send_sketch(b->node, peer_of(b, a), 0, bytes)) == ERR_OK)
    ck_assert_uint_lt(++n_taken * SIGNED_SKETCH_BYTES, MAX_OUTBOX_BYTES / 2);
  ck_assert_int_eq(e, ERR_BACKLOG);
  ck_assert_uint_ge(n_taken * SIGNED_SKETCH_BYTES, MAX_OUTBOX_BYTES / 4);
  world_run(w, 1000);
  ck_assert_int_eq(gossip_send_sketch(b->node, peer_of(b, a), 0, bytes), ERR_OK);
  for (int i = 0; i < N_DROPS; i++)
    ck_assert_uint_eq(info_of(b, a).drops[i], 0);
  world_free(w);
}
END_TEST

START_TEST(a_sketch_is_handed_on_whoever_signed_it) {
  struct world *w = pair_new(GOSSIP_VERSION);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  struct signed_sketch own = sketch_of(b), others = sketch_of(a);
  others.serial = 6;
  signed_sketch_sign(&others, a->identity);
  tell(w, b, a, &own);
  ck_assert_uint_eq(heard_by(a, b)->n_sketch, 1);
  ck_assert_uint_eq(heard_by(a, b)->sketch_serial, 5);
  tell(w, b, a, &others);
  ck_assert_uint_eq(heard_by(a, b)->n_sketch, 2);
  world_free(w);
}
END_TEST

static void forge(struct signed_sketch *s) {
  s->signature.bytes[3] ^= 1;
}

static void other_swarm(struct signed_sketch *s) {
  s->swarm.bytes[0] ^= 1;
}

static void other_job(struct signed_sketch *s) {
  s->job.bytes[0] ^= 1;
}

static void other_schema(struct signed_sketch *s) {
  s->schema.bytes[0] ^= 1;
}

static void other_contract(struct signed_sketch *s) {
  s->contract.bytes[0] ^= 1;
}

static void other_cell(struct signed_sketch *s) {
  s->cells[100] ^= 1;
}

START_TEST(what_is_of_something_else_or_not_signed_is_refused) {
  static const struct {
    void (*spoil)(struct signed_sketch *s);
    enum err expected;
  } cases[] = {{forge, ERR_SIGNATURE},     {other_swarm, ERR_SWARM},       {other_job, ERR_JOB},
               {other_schema, ERR_SCHEMA}, {other_contract, ERR_CONTRACT}, {other_cell, ERR_SIGNATURE}};
  struct world *w = pair_new(GOSSIP_VERSION);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct signed_sketch s = sketch_of(b);
    uint64_t before = info_of(a, b).drops[err_drop_index(cases[i].expected)];
    cases[i].spoil(&s);
    tell(w, b, a, &s);
    ck_assert_uint_eq(info_of(a, b).drops[err_drop_index(cases[i].expected)], before + 1);
  }
  ck_assert_uint_eq(heard_by(a, b)->n_sketch, 0);
  ck_assert(info_of(a, b).has_session);
  world_free(w);
}
END_TEST

START_TEST(a_peer_that_knows_no_sketches_is_told_none) {
  struct world *w = pair_new(SKETCH_VERSION - 1);
  struct agent *a = &w->agents[0], *b = &w->agents[1];
  struct signed_sketch s = sketch_of(a);
  tell(w, a, b, &s);
  ck_assert_uint_eq(w->n_by_type[MESSAGE_SKETCH], 0);
  for (int i = 0; i < N_DROPS; i++)
    ck_assert_uint_eq(info_of(b, a).drops[i], 0);
  world_free(w);
}
END_TEST

int main(void) {
  return SUITE_RUN("sketches", a_sketch_is_handed_on_whoever_signed_it,
                   what_is_of_something_else_or_not_signed_is_refused, a_peer_that_knows_no_sketches_is_told_none,
                   what_is_known_is_not_verified, sketches_leave_room_for_the_rest);
}
