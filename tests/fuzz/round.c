/* The round machine and the protocol below it: three whole agents in virtual time to whom an input's events happen, one of
 * which lies about its state, its history and its updates. What must always hold (agent/sim/invariants.h) holds for the two
 * honest ones.
 *
 * An event is an operation and its argument, a byte each; a lie takes the bytes that it is made of as well. */
#include <stdlib.h>
#include <string.h>

#include "agent/sim/sim.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/parts.h"

enum {
  N_AGENTS = 3,
  LIAR = N_AGENTS - 1,
  MAX_EVENTS = 32,
  AFTER_MS = 8 * 1000, /* what is under way comes to its end */
};

/* ---- what the liar says: masks over the truth ---- */

static struct {
  uint8_t state[sizeof(struct wire_state)];
  uint64_t round, sequence, boot_epoch, n_payload;
  uint32_t sub, samples;
} lies;

static bool has_false_places; /* its publications are not where its manifests say */

static void lie_in_state(struct wire_state *state) {
  struct wire_state truth = *state;
  uint64_t *const numbers[] = {&state->round, &state->round_in_work, &state->newest.boot_epoch,
                               &state->newest.sequence};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    *numbers[i] ^= lies.state[i];
  state->phase = (enum phase)((state->phase + lies.state[4]) % N_PHASES);
  state->follows = truth.follows ^ (lies.state[5] & 1);
  state->finished = truth.finished ^ (lies.state[5] >> 1 & 1);
  state->degree ^= lies.state[6];
  state->sub ^= lies.state[7];
  state->epoch_steps ^= lies.state[8];
}

static void lie_in_hello(struct hello_job *hello, size_t to) {
  (void)to;
  hello->round ^= lies.state[9];
  hello->sub ^= lies.state[10];
  hello->newest.sequence ^= lies.state[11];
  hello->newest.boot_epoch ^= lies.state[12];
}

static void lie_in_manifest(struct manifest *m) {
  m->round ^= lies.round;
  m->sub ^= (uint16_t)lies.sub;
  m->sequence ^= lies.sequence;
  m->boot_epoch ^= lies.boot_epoch;
  m->n_payload ^= lies.n_payload;
  m->samples ^= lies.samples;
}

static void lie_about_manifest(struct cursor *c) {
  has_false_places = true;
  lies.round = cursor_u8(c);
  lies.sub = cursor_u8(c);
  lies.sequence = cursor_u8(c);
  lies.boot_epoch = cursor_u8(c);
  lies.n_payload = cursor_u8(c);
  lies.samples = cursor_u8(c);
}

/* ---- what happens ---- */

static void run(struct sim *s, uint8_t arg, struct cursor *c) {
  (void)c;
  sim_run(s, 20 * (uint64_t)arg);
}

static void kill_or_start(struct sim *s, uint8_t arg, struct cursor *c) {
  (void)c;
  size_t which = arg % N_AGENTS;
  if (s->agents[which]->is_alive)
    sim_kill(s, which);
  else
    sim_start(s, which);
}

static void wipe(struct sim *s, uint8_t arg, struct cursor *c) {
  (void)c;
  size_t which = arg % N_AGENTS;
  if (!s->agents[which]->is_alive)
    sim_restore(s, which, NULL);
}

static void stand_still(struct sim *s, uint8_t arg, struct cursor *c) {
  (void)c;
  sim_pause(s, arg % N_AGENTS, 100 * (uint64_t)(arg / N_AGENTS));
}

static void between(struct sim *s, uint8_t arg, void (*act)(struct sim *s, size_t a, size_t b)) {
  size_t a = arg % N_AGENTS, b = (a + 1 + arg / N_AGENTS % (N_AGENTS - 1)) % N_AGENTS;
  act(s, a, b);
}

static void part(struct sim *s, uint8_t arg, struct cursor *c) {
  (void)c;
  between(s, arg, sim_part);
}

static void mute(struct sim *s, uint8_t arg, struct cursor *c) {
  (void)c;
  between(s, arg, sim_mute);
}

static void heal(struct sim *s, uint8_t arg, struct cursor *c) {
  (void)c;
  between(s, arg, sim_heal);
}

static void lossy(struct sim *s, uint8_t arg, struct cursor *c) {
  size_t from = arg % N_AGENTS;
  struct sim_link *l = sim_link(s, from, (from + 1 + arg / N_AGENTS % (N_AGENTS - 1)) % N_AGENTS);
  l->delay_us = 1000 * (uint64_t)cursor_u8(c);
  l->loss = cursor_u8(c) / 1024.0;
  l->duplicate = l->reorder = cursor_u8(c) / 1024.0;
}

static void break_disk(struct sim *s, uint8_t arg, struct cursor *c) {
  (void)c;
  static const enum err answers[] = {ERR_OK, ERR_NO_SPACE, ERR_READ_ONLY};
  struct sim_host *h = &s->agents[arg % N_AGENTS]->host;
  h->disk = answers[arg / N_AGENTS % 3];
  h->writing_ms = (uint64_t)40 * (arg / (3 * N_AGENTS));
}

static void fail(struct sim *s, uint8_t arg, struct cursor *c) {
  (void)c;
  struct sim_agent *a = s->agents[arg % N_AGENTS];
  a->fail_trainings = arg >> 2 & 3;
  a->corrupt = arg >> 4 & 3;
  a->merge_is_not_finite = arg >> 6 & 1;
}

static void lie(struct sim *s, uint8_t arg, struct cursor *c) {
  struct sim_agent *liar = s->agents[LIAR];
  liar->lie = arg & 1 ? lie_in_state : NULL;
  liar->lie_in_hello = arg & 2 ? lie_in_hello : NULL;
  liar->lie_in_manifest = arg & 4 ? lie_in_manifest : NULL;
  for (size_t i = 0; arg & 3 && i < 13 && c->left > 0; i++)
    lies.state[i] = cursor_u8(c);
  if (arg & 4)
    lie_about_manifest(c);
}

static void (*const operations[])(struct sim *s, uint8_t arg, struct cursor *c) = {
    run, run, run, kill_or_start, wipe, stand_still, part, mute, heal, lossy, break_disk, fail, lie};

/* ---- what must hold ---- */

static void on_broken(void *context, const struct sim_agent *a, enum sim_invariant i) {
  (void)context;
  if (a->number == LIAR || (i == SIM_INVARIANT_COPY && has_false_places))
    return;
  fprintf(stderr, "agent %zu at %llu ms: not true that %s\n", a->number, (unsigned long long)a->sim->now_ms,
          sim_invariant_sentence(i));
  abort();
}

static struct sim *swarm_new(void) {
  struct sim *s = sim_new_as(SIM_PROTOCOL, N_AGENTS, 4, 1);
  s->watch.broken = on_broken;
  s->config.deadline_max_ms = 4000;
  s->config.meet_ms = 2000;
  for (size_t i = 0; i < N_AGENTS; i++) {
    struct sim_agent *a = s->agents[i];
    for (size_t k = 0; k < N_AGENTS; k++)
      if (k != i)
        sim_learn(s, i, k);
    a->host.training_ms = 1000;
  }
  sim_start_all(s);
  return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  memset(&lies, 0, sizeof lies);
  has_false_places = false;
  MUST(random_open() == ERR_OK);
  struct sim *s = swarm_new();
  struct cursor c;
  cursor_init(&c, data, size);
  for (size_t i = 0; i < MAX_EVENTS && c.left >= 2; i++) {
    uint8_t operation = cursor_u8(&c), arg = cursor_u8(&c);
    operations[operation % (sizeof operations / sizeof *operations)](s, arg, &c);
  }
  sim_run(s, AFTER_MS);
  sim_free(s);
  return 0;
}
