/* The simulator itself: one seed is one story, what is done to hosts and links has its effect, and what must hold is
 * looked at. What agents do in it: tests/property. */
#include <check.h>
#include <string.h>

#include "agent/sim/plain.h"
#include "agent/sim/sim.h"
#include "crypto/random.h"
#include "gossip/node.h"
#include "tests/size.h"
#include "tests/unit/suite.h"

enum { MINUTE_MS = 60000 };

static const uint64_t MS = 1000;

/* n agents in a ring that have trained for a minute. */
static struct sim *ring_new_as(enum sim_fidelity fidelity, size_t n, uint64_t seed) {
  struct sim *s = sim_new_as(fidelity, n, 4, seed);
  for (size_t i = 0; i < n; i++) {
    sim_learn(s, i, (i + 1) % n);
    if (n > 2)
      sim_learn(s, i, (i + n - 1) % n);
    s->config.deadline_max_ms = 5000;
    s->config.meet_ms = 5000;
  }
  return s;
}

static struct sim *ring_new(size_t n, uint64_t seed) {
  return ring_new_as(SIM_SEALED, n, seed);
}

static uint64_t round_of(const struct sim *s, size_t which) {
  return s->agents[which]->durable.committed.round;
}

/* Twelve agents, or seven, in trouble for two minutes; the hash of their story. */
static uint64_t troubled_trace(enum sim_fidelity fidelity, uint64_t seed) {
  struct sim *s = ring_new_as(fidelity, least_or(7, 12), seed);
  s->default_link.jitter_us = 30 * MS;
  s->default_link.loss = 0.01;
  s->default_link.reorder = s->default_link.duplicate = 0.02;
  s->default_link.bytes_per_s = 100000;
  sim_start_all(s);
  sim_run(s, MINUTE_MS);
  sim_kill(s, 3);
  sim_part(s, 5, 6);
  sim_run(s, MINUTE_MS / 2);
  sim_start(s, 3);
  sim_heal(s, 5, 6);
  sim_run(s, MINUTE_MS / 2);
  ck_assert_uint_eq(s->n_broken, 0);
  ck_assert_uint_ge(round_of(s, 0), 20);
  uint64_t trace = s->trace;
  sim_free(s);
  return trace;
}

START_TEST(one_seed_is_one_story) {
  uint64_t first = troubled_trace(SIM_SEALED, 1);
  ck_assert_uint_eq(troubled_trace(SIM_SEALED, 1), first);
  ck_assert_uint_ne(troubled_trace(SIM_SEALED, 2), first);
}
END_TEST

START_TEST(without_ciphers_the_story_is_the_same) {
  ck_assert_uint_eq(troubled_trace(SIM_PROTOCOL, 1), troubled_trace(SIM_SEALED, 1));
}
END_TEST

/* The hash of three minutes, or one, of a ring over slow links. */
static uint64_t slow_trace(struct sim *s, size_t held_bytes) {
  for (size_t i = 0; i < s->n_agents; i++) {
    sim_learn(s, i, (i + 1) % s->n_agents);
    sim_learn(s, i, (i + s->n_agents - 1) % s->n_agents);
  }
  s->default_link.bytes_per_s = 200000;
  sim_start_all(s);
  const uint64_t minutes = least_or(1, 3);
  sim_run(s, minutes * MINUTE_MS);
  ck_assert_uint_eq(s->n_broken, 0);
  ck_assert_uint_ge(round_of(s, 0), 7 * minutes - 1);
  const struct sim_durable *d = &s->agents[0]->durable;
  ck_assert_uint_eq(d->kept[d->n_kept - 1].payload.n_bytes, held_bytes);
  uint64_t trace = s->trace;
  sim_free(s);
  return trace;
}

/* A model of three chunks, all of whose numbers are held, or four. */
START_TEST(a_payload_that_is_only_said_has_the_story_of_a_real_one) {
  enum { N = 5, DIMS = 3 * CHUNK_BYTES / 8 - 100, HELD = 4 };
  uint64_t real = slow_trace(sim_new_as(SIM_PROTOCOL, N, DIMS, 1), DIMS * sizeof(double));
  ck_assert_uint_eq(slow_trace(sim_new_protocol(N, HELD, DIMS * sizeof(double), 1), HELD * sizeof(double)), real);
}
END_TEST

/* ---- what has no cipher is taken by nobody who has one ---- */

static uint64_t stranger_drops(const struct sim_agent *a, enum err reason) {
  uint64_t drops[N_DROPS];
  gossip_stranger_drops(a->node, drops);
  return drops[err_drop_index(reason)];
}

static void hear(struct sim_agent *a, uint64_t conn, uint8_t *frame, size_t n) {
  struct link_sink sink = node_sink(a->node);
  sink.on_frame(sink.context, conn, "somewhere", frame, n);
}

/* Also with the mac that whoever knows our public key can make. */
START_TEST(a_handshake_without_ciphers_is_refused) {
  struct sim *s = ring_new(2, 1);
  sim_start_all(s);
  struct sim_agent *a = s->agents[0], *b = s->agents[1];
  const uint8_t *responder = identity_x25519(a->identity)->public_key;
  struct offer offer = {.version_min = 1, .version_max = 1, .swarm = {7}, .session_index = 256, .boot_epoch = 1};
  struct node_self self = {.key = b->key};
  struct noise *noise;
  uint8_t frame[HANDSHAKE_1_BYTES];
  ck_assert(plain_seals.write_1(&self, responder, &offer, &noise, frame) == ERR_OK);
  plain_seals.noise_free(noise);
  hear(a, CONN_ACCEPTED | 77, frame, sizeof frame);
  ck_assert_uint_eq(stranger_drops(a, ERR_MAC), 1);
  mac1_compute(responder, frame, sizeof frame - MAC1_BYTES, frame + sizeof frame - MAC1_BYTES);
  hear(a, CONN_ACCEPTED | 77, frame, sizeof frame);
  ck_assert_uint_eq(stranger_drops(a, ERR_HANDSHAKE), 1);
  for (size_t i = 0; i < N_SLOTS; i++)
    ck_assert(!a->node->peers[0].slots[i]);
  sim_free(s);
}
END_TEST

START_TEST(a_frame_without_cipher_is_refused_in_a_real_session) {
  struct sim *s = ring_new(2, 1);
  sim_start_all(s);
  sim_run(s, 500);
  struct sim_agent *a = s->agents[0], *b = s->agents[1];
  struct peer *p = &a->node->peers[0];
  struct session forged = *b->node->peers[0].slots[SLOT_LIVE]->session;
  uint8_t frame[FRAME_HEAD_BYTES + 1 + FRAME_TAG_BYTES] = {[FRAME_HEAD_BYTES] = 1};
  ck_assert(plain_seals.seal(&forged, s->now_ms, MESSAGE_BEAT, frame, 1) == ERR_OK);
  hear(a, p->slots[SLOT_LIVE]->conn, frame, sizeof frame);
  ck_assert_uint_eq(p->info.drops[err_drop_index(ERR_SEAL)], 1);
  sim_free(s);
}
END_TEST

START_TEST(a_hash_is_no_signature) {
  struct manifest m = {.kind = MANIFEST_NONE, .mu = 1, .sequence = 1};
  struct identity_key key = plain_key(4), other = plain_key(5);
  plain_sign(&m, &key);
  ck_assert(plain_seals.verify_manifest(&m) == ERR_OK);
  ck_assert(seals_noise.verify_manifest(&m) == ERR_SIGNATURE);
  m.origin = other;
  ck_assert(plain_seals.verify_manifest(&m) == ERR_SIGNATURE);
}
END_TEST

START_TEST(there_are_as_many_agents_as_one_likes) {
  struct sim *s = ring_new(least_or(30, 300), 1);
  sim_start_all(s);
  sim_run(s, 10000);
  for (size_t i = 0; i < s->n_agents; i++)
    ck_assert_uint_ge(round_of(s, i), 5);
  ck_assert_uint_eq(s->n_broken, 0);
  sim_free(s);
}
END_TEST

START_TEST(a_slow_host_sets_the_pace_of_its_neighbours) {
  struct sim *s = ring_new(2, 1);
  s->agents[1]->host.speed = 0.25;
  sim_start_all(s);
  sim_run(s, MINUTE_MS);
  ck_assert_uint_ge(round_of(s, 0), 13); /* 4 s each */
  ck_assert_uint_le(round_of(s, 0), 15);
  sim_free(s);
}
END_TEST

START_TEST(a_paused_host_does_nothing_and_goes_on) {
  struct sim *s = ring_new(2, 1);
  sim_start_all(s);
  sim_run(s, MINUTE_MS);
  sim_pause(s, 1, 20000);
  uint64_t round = round_of(s, 1);
  sim_run(s, 19000);
  ck_assert_uint_eq(round_of(s, 1), round);
  sim_run(s, MINUTE_MS);
  ck_assert_uint_ge(round_of(s, 1), round + 40);
  ck_assert_uint_eq(s->n_broken, 0);
  sim_free(s);
}
END_TEST

START_TEST(an_empty_disk_starts_over) {
  struct sim *s = ring_new(3, 1);
  sim_start_all(s);
  sim_run(s, MINUTE_MS);
  uint64_t round = round_of(s, 0);
  sim_kill(s, 0);
  sim_restore(s, 0, NULL);
  ck_assert_uint_eq(round_of(s, 0), 0);
  sim_start(s, 0);
  sim_run(s, 10000);
  ck_assert_uint_ge(round_of(s, 0), round); /* it adopts what its peers have */
  sim_free(s);
}
END_TEST

/* A beat goes every second: what forgets earlier ends each connection again and again. */
START_TEST(a_way_that_forgets_idle_connections_costs_them) {
  uint64_t n_dialled[2];
  for (size_t forgets = 0; forgets < 2; forgets++) {
    struct sim *s = ring_new(2, 1);
    s->default_link.nat_idle_us = forgets ? 500 * MS : 0;
    for (size_t i = 0; i < 2; i++)
      s->agents[i]->host.training_ms = 20000;
    sim_start_all(s);
    sim_run(s, (uint64_t)5 * MINUTE_MS);
    n_dialled[forgets] = s->wires[0].generation;
    ck_assert_uint_ge(round_of(s, 0), 5);
    ck_assert_uint_eq(s->n_broken, 0);
    sim_free(s);
  }
  ck_assert_uint_le(n_dialled[0], 3);
  ck_assert_uint_ge(n_dialled[1], 20);
}
END_TEST

/* ---- what must hold ---- */

static void collect(void *context, const struct sim_agent *a, enum sim_invariant i) {
  (void)a;
  *(uint64_t *)context |= UINT64_C(1) << i;
}

/* ---- what must hold: each invariant is broken once, by a machine that errs or by a false observation ---- */

static struct round_ports right, wrong; /* the ports of the agent that errs */

static void lengthen_gather(struct sim_agent *a) {
  a->machine->deadline.max_ms = a->machine->deadline_ms = 1000000;
}

static void gather_on(struct sim_agent *a) {
  a->machine->clock_ms += 1000;
}

static void overfill_queue(struct sim_agent *a) {
  struct inbox *in = &a->machine->peers[0].inbox;
  size_t n = in->n_offers;
  in->n_offers = KEEP_PAYLOADS + 1;
  sim_check(a, false);
  in->n_offers = n;
}

static void shrink_cap(struct sim_agent *a) {
  sim_own_config(a)->payload_max_bytes = 0; /* too late for the machine */
}

static void never_rest(void *context, struct link_fd *extra, size_t n_extra, int64_t timeout_ms) {
  (void)extra;
  (void)n_extra;
  (void)timeout_ms;
  ((struct sim_agent *)context)->is_touched = true;
}

static void never_settle(struct sim_agent *a) {
  static struct link_calls restless;
  restless = *a->node->link.calls;
  restless.wait = never_rest;
  a->node->link.calls = &restless;
}

static uint64_t a_minute_ago(void *context) {
  return ((struct sim_agent *)context)->sim->now_ms - MINUTE_MS;
}

/* Its node lives in the past: what is due stays due. */
static void look_back(struct sim_agent *a) {
  a->node->config.now_ms = a_minute_ago;
  a->node->config.now_context = a;
}

static void forget_round(struct sim_agent *a) {
  a->durable.committed.round += 1000;
}

static void forget_sequence(struct sim_agent *a) {
  a->machine->last_sequence = 0;
}

static void take_other_epoch(struct sim_agent *a) {
  a->machine->self.boot_epoch++;
}

static void write_wrong(void *context, struct scribe_job *job) {
  struct sim_agent *a = context;
  struct store_commitment *c = &job->commitment;
  if (job->kind == SCRIBE_COMMIT && a->fail_with == ERR_RANGE)
    c->outcome = ROUND_JUMPED;
  if (job->kind == SCRIBE_COMMIT && a->fail_with == ERR_LENGTH)
    c->n_contributions--;
  if (job->kind == SCRIBE_COMMIT && a->fail_with == ERR_REFUSED)
    a->peers[1].mixed += 0.1;
  right.write(context, job);
}

/* fail_with says how: nothing else reads it when no training fails. */
static void write_wrongly(struct sim_agent *a, enum err how) {
  a->fail_with = how;
  wrong.write = write_wrong;
}

static void jump_without_snapshot(struct sim_agent *a) {
  write_wrongly(a, ERR_RANGE);
}

static void leave_out_a_row(struct sim_agent *a) {
  write_wrongly(a, ERR_LENGTH);
}

static void mix_other_weight(struct sim_agent *a) {
  write_wrongly(a, ERR_REFUSED);
}

static void merge_disordered(void *context, struct trainer_job *job) {
  if (job->kind == JOB_MERGE) {
    struct merge_peer first = job->peers[0];
    job->peers[0] = job->peers[1];
    job->peers[1] = first;
  }
  right.train(context, job);
}

static void disorder_merges(struct sim_agent *a) {
  (void)a;
  wrong.train = merge_disordered;
}

static void merge_too_much(void *context, struct trainer_job *job) {
  if (job->kind == JOB_MERGE)
    job->peers[0].weight = 2;
  right.train(context, job);
}

static void weigh_too_much(struct sim_agent *a) {
  (void)a;
  wrong.train = merge_too_much;
}

static void spoil_copy(struct sim_agent *a) {
  a->peers[0].copy[1] += 1;
}

static void make_mass(struct sim_agent *a) {
  a->mass.mu += 1e-3;
}

static void count_a_fault(struct sim_agent *a) {
  right.count(a, 0, ERR_NO_MEMORY);
}

static void offer_nothing(struct sim_agent *a) {
  static const uint8_t zeros[MANIFEST_BYTES];
  right.offer(a, zeros);
}

static void lose_job(void *context, struct trainer_job *job) {
  (void)context;
  trainer_job_free(job);
}

static void lose_jobs(struct sim_agent *a) {
  (void)a;
  wrong.train = lose_job;
}

static void go_back(struct sim_agent *a) {
  a->machine->committed = (struct round_label){0};
}

static void say_too_much(struct sim_agent *a) {
  a->machine->committed.round += 5;
}

static void merge_again(struct sim_agent *a) {
  a->peers[0].applied_sequence = UINT64_MAX;
}

static void blame(struct sim_agent *a) {
  right.count(a, 0, ERR_EQUIVOCATION);
}

static void drift_apart(struct sim_agent *a) {
  double far = 100;
  memcpy(a->durable.model.bytes, &far, sizeof far);
  sim_check_together(a->sim);
}

START_TEST(what_must_hold_is_looked_at) {
  static void (*const spoil[N_SIM_INVARIANTS])(struct sim_agent *) = {
      [SIM_INVARIANT_GATHER_LENGTH] = lengthen_gather, [SIM_INVARIANT_GATHER_ENDS] = gather_on,
      [SIM_INVARIANT_QUEUES] = overfill_queue,         [SIM_INVARIANT_MEMORY] = shrink_cap,
      [SIM_INVARIANT_SETTLES] = never_settle,          [SIM_INVARIANT_LOOKS_AHEAD] = look_back,
      [SIM_INVARIANT_LABELS_RISE] = forget_round,      [SIM_INVARIANT_ONE_PAYLOAD] = forget_sequence,
      [SIM_INVARIANT_OWN_EPOCH] = take_other_epoch,    [SIM_INVARIANT_WHOLE_SNAPSHOT] = jump_without_snapshot,
      [SIM_INVARIANT_ALL_PEERS] = leave_out_a_row,     [SIM_INVARIANT_KEY_ORDER] = disorder_merges,
      [SIM_INVARIANT_WEIGHTS] = weigh_too_much,        [SIM_INVARIANT_COPY] = spoil_copy,
      [SIM_INVARIANT_DROP_REASON] = count_a_fault,     [SIM_INVARIANT_OWN_MANIFEST] = offer_nothing,
      [SIM_INVARIANT_ROUND_ENDS] = lose_jobs,          [SIM_INVARIANT_NO_ROUND_LOST] = go_back,
      [SIM_INVARIANT_SAID_IS_DURABLE] = say_too_much,  [SIM_INVARIANT_ONCE] = merge_again,
      [SIM_INVARIANT_REFUSED] = mix_other_weight,      [SIM_INVARIANT_NOT_BLAMED] = blame,
      [SIM_INVARIANT_CONVERGES] = drift_apart,         [SIM_INVARIANT_MASS] = make_mass,
  };
  struct sim *s = ring_new(3, 1);
  uint64_t broken = 0;
  if (_i == SIM_INVARIANT_MASS)
    sim_push_sum(s);
  s->watch = (struct sim_watch){.context = &broken, .broken = collect};
  sim_start_all(s);
  sim_run(s, MINUTE_MS);
  while (s->agents[0]->machine->phase != PHASE_GATHERING)
    sim_run(s, 1);
  ck_assert_uint_eq(broken, 0);
  sim_check_all(s);
  sim_check_together(s);
  ck_assert_uint_eq(broken, 0);
  ck_assert(spoil[_i] != NULL);
  right = wrong = *s->agents[0]->machine->ports;
  s->agents[0]->machine->ports = &wrong;
  s->agents[0]->started_from = s->agents[0]->durable.committed; /* as after a restart */
  spoil[_i](s->agents[0]);
  for (uint64_t end_ms = s->now_ms + MINUTE_MS; !(broken & UINT64_C(1) << _i) && s->now_ms < end_ms;)
    sim_run(s, 100);
  ck_assert_msg(broken & UINT64_C(1) << _i, "%s is not looked at", sim_invariant_name((enum sim_invariant)_i));
  ck_assert_uint_gt(s->n_broken, 0);
  ck_assert_uint_eq(s->first_broken.agent, 0);
  sim_free(s);
}
END_TEST

int main(void) {
  if (random_open() != ERR_OK)
    return 1;
  TCase *tcase = tcase_create("sim");
  tcase_add_test(tcase, one_seed_is_one_story);
  tcase_add_test(tcase, without_ciphers_the_story_is_the_same);
  tcase_add_test(tcase, a_payload_that_is_only_said_has_the_story_of_a_real_one);
  tcase_add_test(tcase, a_handshake_without_ciphers_is_refused);
  tcase_add_test(tcase, a_frame_without_cipher_is_refused_in_a_real_session);
  tcase_add_test(tcase, a_hash_is_no_signature);
  tcase_add_test(tcase, there_are_as_many_agents_as_one_likes);
  tcase_add_test(tcase, a_slow_host_sets_the_pace_of_its_neighbours);
  tcase_add_test(tcase, a_paused_host_does_nothing_and_goes_on);
  tcase_add_test(tcase, an_empty_disk_starts_over);
  tcase_add_test(tcase, a_way_that_forgets_idle_connections_costs_them);
  tcase_add_loop_test(tcase, what_must_hold_is_looked_at, 0, N_SIM_INVARIANTS);
  return suite_run_case("sim", tcase);
}
