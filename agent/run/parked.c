#include "agent/run/parked.h"

#include <string.h>

/* Taken out before it is answered: the answer may park it again, until then. */
static void answer_at(struct agent *a, struct parking *p, size_t i, uint64_t until_ms) {
  struct parked parked = p->places[i];
  memmove(&p->places[i], &p->places[i + 1], (--p->n - i) * sizeof p->places[0]);
  parked.kind->answer(a, parked.client, parked.request, until_ms);
  json_decref(parked.request);
}

void parking_put(struct agent *a, struct parking *p, const struct parked *parked) {
  if (p->n == MAX_PARKED)
    answer_at(a, p, 0, 0); /* for good, else it would drive out the next one, and so on in a circle */
  p->places[p->n] = *parked;
  p->places[p->n++].request = json_deep_copy(parked->request);
}

void parking_turn(struct agent *a, struct parking *p, uint64_t now_ms) {
  for (size_t i = 0, n = p->n; n > 0; n--) {
    const struct parked *parked = &p->places[i];
    if (now_ms >= parked->until_ms || parked->kind->mark(a, parked->request) != parked->seen)
      answer_at(a, p, i, parked->until_ms);
    else
      i++;
  }
}

uint64_t parking_due_ms(const struct parking *p) {
  uint64_t due = UINT64_MAX;
  for (size_t i = 0; i < p->n; i++)
    due = p->places[i].until_ms < due ? p->places[i].until_ms : due;
  return due;
}

void parking_done(struct parking *p) {
  while (p->n > 0)
    json_decref(p->places[--p->n].request);
}
