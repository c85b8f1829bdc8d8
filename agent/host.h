/* The host as the trainer sees it: what decides which kernels are fast, and how many threads may work at once.
 *
 * A quota of a control group (v2: cpu.max, v1: cpu.cfs_quota_us over cpu.cfs_period_us) counts from the group of this
 * process up to what is mounted, the smallest wins; so does the affinity mask. What cannot be read counts as not there.
 * All is read below `root`, "" for this host, so that other hosts can be tried from a folder. Any thread. */
#ifndef AGENT_HOST_H
#define AGENT_HOST_H

#include <stdbool.h>
#include <stdint.h>

enum { HOST_TEXT_BYTES = 96, MAX_HOST_THREADS = 64, FINGERPRINT_BYTES = 512 };

struct host {
  char cpu[HOST_TEXT_BYTES];      /* "AMD EPYC 7763-25-1-2": model name, family, model, stepping */
  char features[HOST_TEXT_BYTES]; /* that kernels are chosen by: "avx2 f16c avx512" */
  char caches[HOST_TEXT_BYTES];   /* of data: "L1 32K, L2 512K" */
  char blas[HOST_TEXT_BYTES];     /* the kernels that OpenBLAS has chosen: "SKYLAKEX" */
  uint32_t n_processors;          /* that this process may run on */
  double quota;                   /* processors' worth of time; 0: no limit */
};

struct host host_look(const char *root);

/* Processors' worth of time: of the quota, or all that it may run on. */
double host_processors(const struct host *h);

/* Threads that may work at once: whole processors of the above, 1 … MAX_HOST_THREADS. */
uint32_t host_threads(const struct host *h);

/* The machine in a line: its processor, and how it is used. With the processors' worth of time it is the fingerprint by
 * which measurements are kept. */
void host_machine(const struct host *h, char out_text[FINGERPRINT_BYTES]);

/* Whether two fingerprints are of hosts on which the same measurements hold. */
bool fingerprint_equal(const char *machine, double processors, const char *other_machine, double other_processors);

#endif
