#include "gossip/probe.h"

#include "base/must.h"

static uint64_t silent_ms(const struct probe_self *self, uint64_t beat_ms) {
  return beat_ms * PROBE_SILENT_BEATS_X2 / 2 * (self->health + 1);
}

static void worse(struct probe_self *self, uint64_t now_ms) {
  self->health += self->health < PROBE_MAX_HEALTH;
  self->better_ms = now_ms;
}

static void better(struct probe_self *self, uint64_t beat_ms, uint64_t now_ms) {
  if (self->health == 0 || now_ms - self->better_ms < beat_ms)
    return;
  self->health--;
  self->better_ms = now_ms;
}

/* Nothing is asked any more. */
static void forget_questions(struct probe *p) {
  p->n_tries = p->n_asked = 0;
  p->is_answered = false;
}

void probe_heard(struct probe *p, struct probe_self *self, uint64_t beat_ms, uint64_t now_ms) {
  bool was_away = !p->is_heard || p->is_missed || p->n_tries > 0 || p->n_rests > 0;
  better(self, beat_ms, now_ms);
  if (was_away)
    p->good_since_ms = now_ms;
  if (now_ms - p->good_since_ms >= PROBE_SETTLED_BEATS * beat_ms)
    p->peace_ms = 0;
  forget_questions(p);
  p->is_heard = true;
  p->is_missed = false;
  p->n_rests = 0;
  p->heard_ms = now_ms;
  p->next_ms = now_ms + silent_ms(self, beat_ms);
}

/* It is there, though not for us: the next questions come later and later. */
static void rest(struct probe *p, uint64_t beat_ms, uint64_t now_ms) {
  uint64_t rest_ms = beat_ms * PROBE_SILENT_BEATS_X2 / 2 << p->n_rests;
  uint64_t most_ms = PROBE_MAX_REST_BEATS * beat_ms;
  if (rest_ms < most_ms)
    p->n_rests++;
  p->next_ms = now_ms + (rest_ms < most_ms ? rest_ms : most_ms);
  p->is_missed = false;
  forget_questions(p);
}

static bool was_asked(const struct probe *p, size_t peer) {
  for (size_t i = 0; i < p->n_asked; i++)
    if (p->asked[i] == peer)
      return true;
  return false;
}

void probe_answer(struct probe *p, size_t from, bool is_there, uint64_t beat_ms, uint64_t now_ms) {
  if (!was_asked(p, from))
    return;
  p->is_answered = true;
  if (is_there)
    rest(p, beat_ms, now_ms);
}

void probe_spoke(struct probe *p, uint64_t beat_ms, uint64_t now_ms) {
  if (p->is_heard && (p->is_missed || p->n_tries > 0))
    rest(p, beat_ms, now_ms);
}

void probe_left(struct probe *p) {
  forget_questions(p);
  p->is_heard = p->is_missed = false;
}

void probe_slept(struct probe *p, uint64_t for_ms) {
  p->next_ms += for_ms;
}

static enum probe_step miss(struct probe *p, struct probe_self *self, uint64_t now_ms) {
  if (p->n_asked > 0 && !p->is_answered)
    worse(self, now_ms);
  forget_questions(p);
  if (now_ms < p->peace_until_ms) {
    p->next_ms = p->peace_until_ms; /* … and then the questions come first */
    return PROBE_WAIT;
  }
  p->is_missed = true;
  p->peace_ms = p->peace_ms == 0 ? PROBE_PEACE_MS : 2 * p->peace_ms;
  if (p->peace_ms > PROBE_MAX_PEACE_MS)
    p->peace_ms = PROBE_MAX_PEACE_MS;
  p->peace_until_ms = now_ms + p->peace_ms;
  return PROBE_MISS;
}

enum probe_step probe_tick(struct probe *p, struct probe_self *self, uint64_t beat_ms, uint64_t now_ms) {
  if (probe_due_ms(p) > now_ms)
    return PROBE_WAIT;
  if (p->n_tries == PROBE_TRIES)
    return miss(p, self, now_ms);
  p->n_tries++;
  p->next_ms = now_ms + (self->health + 1) * beat_ms / 2;
  return PROBE_ASK;
}

void probe_asked(struct probe *p, size_t helper) {
  MUST(p->n_asked < sizeof p->asked && helper <= UINT8_MAX);
  p->asked[p->n_asked++] = (uint8_t)helper;
}

uint64_t probe_due_ms(const struct probe *p) {
  return p->is_heard && !p->is_missed ? p->next_ms : PROBE_NEVER;
}
