#include "agent/run/shadow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/clock.h"
#include "agent/run/snapshot.h"
#include "base/bytes.h"
#include "base/must.h"
#include "models/floats.h"

/* ---- what it costs ------------------------------------------------------------------------------------------------ */

void shadow_cost_put(struct shadow_cost *c, double shadow_s, double round_s) {
  c->shares[c->next] = round_s > 0 ? shadow_s / round_s : 1;
  c->next = (c->next + 1) % SHADOW_WINDOW;
  c->n += c->n < SHADOW_WINDOW;
}

double shadow_cost_share(const struct shadow_cost *c) {
  double sorted[SHADOW_WINDOW];
  memcpy(sorted, c->shares, sizeof sorted);
  return doubles_median(sorted, c->n);
}

/* ---- opening ------------------------------------------------------------------------------------------------------ */

static void end(struct shadow *s) {
  learner_free(s->learner);
  s->learner = NULL;
  s->owes = false;
  s->figures = (struct shadow_figures){0};
}

void shadow_close(struct shadow *s) {
  end(s);
  *s = (struct shadow){0};
}

enum err shadow_split(const struct buffer *stored, struct buffer *out_half, uint64_t *out_n_trainings,
                      uint64_t *out_n_steps) {
  if (stored->n_bytes < SHADOW_TRAILER_BYTES)
    return ERR_CORRUPT;
  struct cursor c;
  size_t n_half = stored->n_bytes - SHADOW_TRAILER_BYTES;
  cursor_init(&c, stored->bytes + n_half, SHADOW_TRAILER_BYTES);
  *out_n_trainings = cursor_u64(&c);
  *out_n_steps = cursor_u64(&c);
  struct buffer sealed;
  *out_half = snapshot_unsealed(&(struct buffer){stored->bytes, n_half}, &sealed);
  return cursor_end(&c);
}

static enum err restore(struct shadow *s, const struct buffer *stored) {
  struct buffer half, sealed;
  enum err e = shadow_split(stored, &half, &s->figures.n_trainings, &s->figures.n_steps);
  if (e != ERR_OK || (e = learner_half_read(s->learner, half.bytes, half.n_bytes)) != ERR_OK)
    return e;
  (void)snapshot_unsealed(&(struct buffer){stored->bytes, stored->n_bytes - SHADOW_TRAILER_BYTES}, &sealed);
  return snapshot_unseal(s->at_rest, &sealed, s->learner);
}

static bool is_wanted(const struct shadow_start *start) {
  switch (start->mode) {
  case SHADOW_ON:
    return true;
  case SHADOW_AUTO:
    return start->learner->n_copies > 0 && (start->is_first || start->stored->n_bytes > 0);
  case SHADOW_OFF:
    break;
  }
  return false;
}

static enum err take_first(struct shadow *s, const struct learner *first) {
  size_t n = learner_model_bytes(first);
  uint8_t *bytes = malloc(n);
  if (bytes == NULL)
    return ERR_NO_MEMORY;
  learner_model_write(first, bytes);
  enum err e = learner_model_read(s->learner, bytes, n);
  free(bytes);
  return e;
}

enum err shadow_open(struct shadow *s, const struct shadow_start *start) {
  *s = (struct shadow){.mode = start->mode, .metric = start->metric, .at_rest = start->at_rest};
  if (!is_wanted(start))
    return ERR_OK;
  struct learner_config config = *start->learner;
  config.n_copies = 0;
  size_t memory_bytes = 0;
  enum err e = learner_memory(&config, &memory_bytes);
  if (e == ERR_OK)
    e = learner_open(&config, &s->learner);
  if (e == ERR_OK)
    e = learner_attach(s->learner, start->train, start->tests);
  if (e == ERR_OK && start->is_first && start->first != NULL)
    e = take_first(s, start->first);
  if (e != ERR_OK) {
    end(s);
    return e;
  }
  enum err stored = start->stored->n_bytes > 0 ? restore(s, start->stored) : ERR_OK;
  s->figures.is_on = true;
  s->figures.memory_bytes = memory_bytes;
  s->figures.headline = __builtin_nan("");
  if (stored != ERR_OK) {
    snprintf(s->note, sizeof s->note, "the stored model trained alone: %s; there is none from now on",
             err_sentence(stored));
    end(s);
  }
  return ERR_OK;
}

void shadow_reattach(struct shadow *s, const struct dataset *train, const struct dataset *const *tests) {
  enum err e = s->learner != NULL ? learner_reattach(s->learner, train, tests) : ERR_OK;
  if (e == ERR_OK)
    return;
  snprintf(s->note, sizeof s->note, "the model trained alone is given up: the new samples: %s", err_sentence(e));
  end(s);
}

/* ---- rounds ------------------------------------------------------------------------------------------------------- */

void shadow_round(struct shadow *s, double now_s) {
  if (s->learner == NULL)
    return;
  if (s->round_started_s > 0 && s->figures.seconds > 0)
    shadow_cost_put(&s->cost, s->figures.seconds + s->written_s + s->stored_s, now_s - s->round_started_s);
  s->round_started_s = now_s;
  s->figures.share = shadow_cost_share(&s->cost);
  if (s->mode != SHADOW_AUTO || s->cost.n < SHADOW_DECIDE || s->figures.share < SHADOW_MAX_SHARE)
    return;
  snprintf(s->note, sizeof s->note,
           "the model trained alone is given up: its training and storing take %.0f %% of a round (more than %.0f %%); "
           "to keep one, "
           "write alone: { shadow: on }",
           100 * s->figures.share, 100 * SHADOW_MAX_SHARE);
  end(s);
}

void shadow_stored(struct shadow *s, double seconds) {
  s->stored_s = seconds;
}

void shadow_owe(struct shadow *s, struct round_label label, double rate_scale, uint32_t steps) {
  if (s->learner == NULL)
    return;
  MUST(!s->owes);
  s->owes = true;
  s->owed = label;
  s->owed_rate_scale = rate_scale;
  s->owed_steps = steps;
}

static enum err evaluate(struct shadow *s, const struct work_hook *hook) {
  struct metrics m;
  enum err e = learner_evaluate(s->learner, TEST_LOCAL, hook, &m);
  s->figures.headline = __builtin_nan("");
  if (e == ERR_NOT_FOUND)
    return ERR_OK;
  if (e != ERR_OK)
    return e;
  s->figures.headline = metrics_headline(&m, s->metric);
  metrics_done(&m);
  return ERR_OK;
}

void shadow_pay(struct shadow *s, const struct work_hook *hook) {
  if (!s->owes)
    return;
  struct train_report report;
  double start = clock_s();
  learner_set_steps(s->learner, s->owed_steps);
  enum err e = learner_train(s->learner, s->owed.round, s->owed.sub, s->owed_rate_scale, hook, &report);
  if (e == ERR_OK)
    e = evaluate(s, hook);
  s->owes = false;
  if (e != ERR_OK) {
    snprintf(s->note, sizeof s->note, "the model trained alone is given up: its training failed: %s", err_sentence(e));
    end(s);
    return;
  }
  s->figures.seconds = clock_s() - start;
  s->figures.n_trainings++;
  s->figures.n_steps += report.local_steps;
}

enum err shadow_write(struct shadow *s, struct buffer *out) {
  *out = (struct buffer){0};
  if (s->learner == NULL)
    return ERR_OK;
  MUST(!s->owes);
  double start = clock_s();
  struct writer w;
  struct buffer half = {malloc(learner_half_bytes(s->learner)), learner_half_bytes(s->learner)};
  if (half.bytes == NULL)
    return ERR_NO_MEMORY;
  learner_half_write(s->learner, half.bytes);
  enum err e = snapshot_seal(s->at_rest, s->learner, &half);
  uint8_t *bytes = e == ERR_OK ? realloc(half.bytes, half.n_bytes + SHADOW_TRAILER_BYTES) : NULL;
  if (bytes == NULL) {
    free(half.bytes);
    return ERR_NO_MEMORY;
  }
  writer_init(&w, bytes + half.n_bytes, SHADOW_TRAILER_BYTES);
  writer_u64(&w, s->figures.n_trainings);
  writer_u64(&w, s->figures.n_steps);
  MUST(writer_end(&w) == ERR_OK);
  s->written_s = clock_s() - start;
  *out = (struct buffer){bytes, half.n_bytes + SHADOW_TRAILER_BYTES};
  return ERR_OK;
}
