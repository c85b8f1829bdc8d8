/* A scenario file. What is read can be written, and what is written is read as the same; small ones make a swarm. */
#include "agent/sim/scenario.h"

#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "crypto/random.h"
#include "tests/fuzz/fuzz.h"

enum { MAX_MADE_AGENTS = 20, MAX_MADE_KIB = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct scenario *c, *again;
  char why[MAX_CONFIG_WHY_BYTES] = "";
  if (scenario_read("it", (const char *)data, size, &c, why) != ERR_OK) {
    MUST(why[0] != 0);
    return 0;
  }
  char *text = scenario_text(c);
  if (strlen(text) <= MAX_SCENARIO_BYTES) { /* "- a: 1" is longer as we write it */
    MUST(scenario_read("it", text, strlen(text), &again, why) == ERR_OK);
    char *second = scenario_text(again);
    MUST(strcmp(text, second) == 0);
    free(second);
    scenario_free(again);
  }
  if (c->n_agents <= MAX_MADE_AGENTS && c->model_kib <= MAX_MADE_KIB) {
    MUST(random_open() == ERR_OK);
    sim_free(scenario_sim(c));
  }
  free(text);
  scenario_free(c);
  return 0;
}
