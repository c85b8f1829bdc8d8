/* A recorded story of the simulator. */
#include "agent/sim/trace.h"

#include "base/must.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/parts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
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
  return 0;
}
