#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/sim/scenario_keys.h"
#include "base/must.h"
#include "models/formats/number.h"

static bool is_written(const struct scenario_key *k, const void *field, const void *otherwise) {
  static const size_t bytes[SCENARIO_LIST + 1] = {[SCENARIO_WHOLE] = sizeof(uint64_t),
                                                  [SCENARIO_REAL] = sizeof(double),
                                                  [SCENARIO_WORD] = sizeof(unsigned),
                                                  [SCENARIO_FLAG] = sizeof(bool),
                                                  [SCENARIO_AGENTS] = sizeof(struct agent_range)};
  return !k->fallback || memcmp(field, otherwise, bytes[k->form]) != 0;
}

static void write_agents(const struct agent_range *r, FILE *out) {
  if (r->first == r->last)
    fprintf(out, "%" PRIu64, r->first);
  else
    fprintf(out, "%" PRIu64 "..%" PRIu64, r->first, r->last);
}

static void write_scalar(const struct scenario_key *k, const void *field, FILE *out) {
  char number[NUMBER_TEXT_BYTES];
  switch (k->form) {
  case SCENARIO_WHOLE:
    fprintf(out, "%" PRIu64, *(const uint64_t *)field);
    break;
  case SCENARIO_REAL:
    number_write(*(const double *)field, number);
    fputs(number, out);
    break;
  case SCENARIO_AGENTS:
    write_agents(field, out);
    break;
  case SCENARIO_FLAG:
    fputs(k->words[*(const bool *)field], out);
    break;
  default:
    fputs(k->words[*(const unsigned *)field], out);
    break;
  }
}

/* "{ a: 1, b: 2 }" of the scalars that are not as in `otherwise`; whether there was one, with `to` NULL only that. */
static bool write_flow(enum scenario_group group, const char *base, const char *otherwise, FILE *to) {
  bool is_first = true;
  for (size_t i = 0; i < n_scenario_keys; i++) {
    const struct scenario_key *k = &scenario_keys[i];
    if (!scenario_key_is_in(k, group))
      continue;
    size_t at = scenario_key_offset(k, group);
    if (!is_written(k, base + at, otherwise + at))
      continue;
    if (to) {
      fprintf(to, "%s%s: ", is_first ? "{ " : ", ", k->name);
      write_scalar(k, base + at, to);
    }
    is_first = false;
  }
  if (to && !is_first)
    fputs(" }", to);
  return !is_first;
}

static void write_list(const struct scenario *c, const struct scenario_key *k, FILE *out) {
  size_t n;
  const char *items;
  memcpy(&items, (const char *)c + k->offset, sizeof items);
  memcpy(&n, (const char *)c + k->offset + sizeof items, sizeof n);
  if (n > 0)
    fprintf(out, "%s:\n", k->name);
  for (size_t i = 0; i < n; i++) {
    char otherwise[sizeof(struct scenario_hosts) + sizeof(struct scenario_links) + sizeof(struct scenario_event)] = {0};
    scenario_item_begin(c, k->inner, otherwise);
    fputs("  - ", out);
    write_flow(k->inner, items + i * scenario_groups[k->inner].item_bytes, otherwise, out);
    fputc('\n', out);
  }
}

char *scenario_text(const struct scenario *c) {
  struct scenario plain = {0};
  char *text = NULL;
  size_t n_text;
  FILE *out = open_memstream(&text, &n_text);
  MUST(out != NULL);
  scenario_defaults(IN_TOP, &plain);
  for (size_t i = 0; i < n_scenario_keys; i++) {
    const struct scenario_key *k = &scenario_keys[i];
    const char *field = (const char *)c + k->offset, *otherwise = (const char *)&plain + k->offset;
    if (k->group != IN_TOP)
      continue;
    if (k->form == SCENARIO_LIST) {
      write_list(c, k, out);
    } else if (k->form == SCENARIO_SECTION && write_flow(k->inner, field, otherwise, NULL)) {
      fprintf(out, "%s: ", k->name);
      write_flow(k->inner, field, otherwise, out);
      fputc('\n', out);
    } else if (k->form != SCENARIO_SECTION && is_written(k, field, otherwise)) {
      fprintf(out, "%s: ", k->name);
      write_scalar(k, field, out);
      fputc('\n', out);
    }
  }
  MUST(fclose(out) == 0 && text != NULL);
  return text;
}

static void *copy_of(const void *items, size_t n, size_t size) {
  void *copy = calloc(n + 1, size);
  MUST(copy != NULL);
  if (n > 0)
    memcpy(copy, items, n * size);
  return copy;
}

struct scenario *scenario_copy(const struct scenario *c) {
  struct scenario *copy = copy_of(c, 1, sizeof *c);
  copy->hosts = copy_of(c->hosts, c->n_hosts, sizeof *c->hosts);
  copy->links = copy_of(c->links, c->n_links, sizeof *c->links);
  copy->events = copy_of(c->events, c->n_events, sizeof *c->events);
  return copy;
}
