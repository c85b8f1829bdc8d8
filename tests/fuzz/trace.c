/* A recorded story of the simulator, or what a deployed agent recorded: then its round machine is told all of it. */
#include "agent/sim/trace.h"

#include <string.h>

#include "agent/core/replay.h"
#include "base/must.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/parts.h"

static void replay_agent(const uint8_t *bytes, size_t n_bytes) {
  struct replay *r;
  bool has = true;
  if (replay_new(bytes, n_bytes, &r) != ERR_OK)
    return;
  while (has && replay_next(r, &has) == ERR_OK)
    MUST(!replay_event(r)->differs || replay_event(r)->now[0] != '\0');
  replay_free(r);
}

static void read_story(const uint8_t *data, size_t size) {
  struct trace_reader *r;
  struct scenario *c;
  char why[MAX_CONFIG_WHY_BYTES] = "";
  struct memory_file f = memory_file_new(data, size);
  if (trace_open(f.path, &r, &c, why) == ERR_OK) {
    struct trace_record record = {0};
    uint64_t last_us = 0;
    for (bool has = true; has && trace_next(r, &record, &has) == ERR_OK;) {
      MUST(!has || (record.at_us >= last_us && record.agent < c->n_agents && record.kind < N_SIM_EVENT_KINDS));
      last_us = record.at_us;
    }
    trace_reader_free(r);
    scenario_free(c);
  } else {
    MUST(why[0] != 0);
  }
  memory_file_free(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size >= N_RECORD_MAGIC && memcmp(data, RECORD_MAGIC, N_RECORD_MAGIC) == 0)
    replay_agent(data + N_RECORD_MAGIC, size - N_RECORD_MAGIC);
  else
    read_story(data, size);
  return 0;
}
