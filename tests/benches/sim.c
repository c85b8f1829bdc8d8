/* What the simulator costs at protocol fidelity: one line `name value` each.
 *
 *   bench_sim AGENTS DEGREE SECONDS   a random swarm of that many agents that train, publish and merge
 *   bench_sim AGENTS DEGREE 0         the same between rounds: they have met and beat, nothing is fetched
 *
 * Time is of the process, not of the clock on the wall; memory is what is allocated, with the allocator's own share. */
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "agent/sim/sim.h"
#include "base/must.h"
#include "crypto/random.h"

enum { DIMS = 4, PAYLOAD_BYTES = 400 * 1024, IDLE_S = 20, MS_PER_S = 1000, TRAINING_MS = 30000, HOUR_MS = 3600000 };

static double cpu_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* A ring, and others until each has about `degree` peers. */
static struct sim *swarm_new(size_t n, size_t degree, uint64_t training_ms) {
  struct sim *s = sim_new_protocol(n, DIMS, PAYLOAD_BYTES, 1);
  for (size_t i = 0; i < n; i++)
    sim_meet(s, i, (i + 1) % n);
  for (size_t i = 0; i < n; i++)
    for (size_t k = 2; k < degree; k += 2)
      sim_meet(s, i, (size_t)rng_below(&s->rng, n));
  for (size_t i = 0; i < n; i++)
    s->agents[i]->host.training_ms = training_ms;
  return s;
}

static double inbox_bytes_of(const struct sim *s) {
  double n = 0;
  for (size_t i = 0; i < s->n_agents; i++)
    n += (double)(s->agents[i]->n_peers * sizeof(struct inbox));
  return n;
}

static double peers_of(const struct sim *s) {
  double n = 0;
  for (size_t i = 0; i < s->n_agents; i++)
    n += (double)s->agents[i]->n_peers;
  return n;
}

int main(int argc, char **argv) {
  MUST(argc == 4 && random_open() == ERR_OK);
  size_t n = strtoul(argv[1], NULL, 10), degree = strtoul(argv[2], NULL, 10);
  uint64_t seconds = strtoul(argv[3], NULL, 10);
  mallopt(M_MMAP_THRESHOLD, 1 << 30); /* so that all is counted in one place */
  size_t before = mallinfo2().uordblks;
  double start_s = cpu_s();
  struct sim *s = swarm_new(n, degree, seconds > 0 ? TRAINING_MS : HOUR_MS);
  sim_start_all(s);
  sim_run(s, (seconds > 0 ? seconds : IDLE_S) * MS_PER_S);
  double took_s = cpu_s() - start_s, held = (double)(mallinfo2().uordblks - before);
  printf("events %" PRIu64 "\nevents_per_s %.0f\n", s->n_events, (double)s->n_events / took_s);
  printf("agent_kib %.3f\n", (held - inbox_bytes_of(s)) / (double)n / 1024);
  printf("peers %.3f\nrounds %" PRIu64 "\nbroken %" PRIu64 "\n", peers_of(s) / (double)n,
         s->agents[0]->durable.committed.round, s->n_broken);
  printf("trace %016" PRIx64 "\n", s->trace);
  sim_free(s);
  return 0;
}
