#include "agent/site_job.h"

#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "agent/core/disk.h"
#include "agent/core/mass.h"
#include "agent/stream.h"
#include "base/bytes.h"
#include "crypto/digest.h"

struct learner_config site_job_learner(const struct site_job_config *s, const struct schema *schema) {
  struct learner_config config = {.schema = schema,
                                  .train = s->job.train,
                                  .codec = s->job.contract->codec,
                                  .statistics = s->job.statistics,
                                  .continual = &s->job.continual,
                                  .rule = s->rule,
                                  .train_seed = s->train_seed,
                                  .part = s->part};
  config.rule.max_share = s->max_share;
  config.kappa = s->weights == WEIGHTS_SIMILARITY ? s->kappa : 0;
  schema_hash(schema, &digest_blake2b, &config.schema_hash);
  return config;
}

struct round_config site_job_rounds(const struct site_job_config *s, size_t n_peers) {
  static const uint8_t encodings[N_CODECS] = {[CODEC_F32] = ENCODING_F32,
                                              [CODEC_F16] = ENCODING_F16,
                                              [CODEC_Q8] = ENCODING_Q8,
                                              [CODEC_Q4] = ENCODING_Q4,
                                              [CODEC_TOPK] = ENCODING_TOPK};
  return (struct round_config){
      .encoding = encodings[s->job.contract->codec.kind],
      .count = s->job.count,
      .min_peers = s->min_peers,
      .alone_rounds = s->alone_rounds,
      .staleness_max = s->staleness_max,
      .by_samples = s->weights == WEIGHTS_SAMPLES,
      .max_share = s->max_share,
      .deadline_min_ms = (uint64_t)(s->deadline_min_s * 1000),
      .deadline_max_ms = (uint64_t)(s->deadline_max_s * 1000),
      .meet_ms = n_peers > 0 ? (uint64_t)(s->meet_s * 1000) : 0,
      .linger_ms = (uint64_t)(s->linger_s * 1000),
      .every_ms = (uint64_t)(s->every_s * 1000),
      .topology = s->job.topology,
      .is_push_sum = job_is_push_sum(&s->job),
      .is_steps_auto = s->job.is_steps_auto,
      .is_pooled = s->job.contract->scale.rule == SCALE_POOLED,
      .is_clustered = s->job.cluster.is_on,
  };
}

size_t site_job_agents(const struct site_job_config *s, size_t n_peers) {
  return s->job.topology.rule == GRAPH_PEERS ? MAX_PEERS + 1 : n_peers + 1;
}

size_t site_job_update_bound(const struct site_job_config *s, size_t n_shared) {
  return job_is_push_sum(&s->job) ? codec_full_bytes(n_shared) + MASS_TAIL_BYTES_MOST
                                  : codec_bound(s->job.contract->codec, n_shared);
}

size_t site_job_full_bound(const struct site_job_config *s, size_t n_shared) {
  return job_is_push_sum(&s->job) ? site_job_update_bound(s, n_shared) : codec_full_bytes(n_shared);
}

size_t site_job_payload_bound(const struct site_job_config *s, size_t n_shared) {
  return job_is_push_sum(&s->job) ? site_job_update_bound(s, n_shared)
                                  : codec_payload_bound(s->job.contract->codec, n_shared);
}

size_t site_job_half_arrays(const struct site_job_config *s, size_t n_peers) {
  size_t n_sums = job_is_push_sum(&s->job) ? job_topology_follows(&s->job.topology, n_peers + 1) : 0;
  return learner_half_arrays(&s->job.train, s->rule.rule) + n_sums;
}

struct digest site_job_first_weights(const struct site_job_config *s, const struct digest *job,
                                     const struct digest *schema) {
  static const char tag[] = "starling/v1/init";
  struct digest_state state;
  struct digest seed;
  uint8_t number[8];
  struct writer w;
  writer_init(&w, number, sizeof number);
  writer_u64(&w, s->job.contract->init_seed);
  digest_blake2b.init(&state);
  digest_blake2b.add(&state, tag, sizeof tag);
  digest_blake2b.add(&state, job->bytes, DIGEST_BYTES);
  digest_blake2b.add(&state, schema->bytes, DIGEST_BYTES);
  digest_blake2b.add(&state, number, sizeof number);
  digest_blake2b.end(&state, &seed);
  return seed;
}

struct data_memory site_job_memory(const struct site_job_config *s, const struct schema *schema, size_t n_peers,
                                   const char *state_dir) {
  enum { LADDER_ROUNDS = 3 };
  struct data_memory m = {.max_bytes = (uint64_t)s->memory_max_mib << 20, .folder = state_dir};
  struct statvfs disk;
  uint64_t publish, commit;
  size_t n = schema_parameters(schema);
  disk_forecast(site_job_update_bound(s, schema_shared(schema)), codec_full_bytes(n), site_job_half_arrays(s, n_peers),
                &publish, &commit);
  uint64_t kept = DISK_RESERVE_BYTES + LADDER_ROUNDS * (publish + commit);
  uint64_t free_bytes = statvfs(state_dir, &disk) == 0 ? (uint64_t)disk.f_bavail * disk.f_frsize : 0;
  m.disk_max_bytes = free_bytes > kept ? free_bytes - kept : 0;
  return m;
}

static enum err open_data_of(const struct site_job_config *s, const char *train_path, const struct scale *saved,
                             bool with_global, const struct work_hook *hook, struct data_memory *memory,
                             struct splits *out_splits, struct dataset **out_global, struct data_place *out_why) {
  const struct data_source source = {.train = {train_path, s->train_labels},
                                     .test = {s->test_path, s->test_labels},
                                     .part = s->part,
                                     .saved = saved->n > 0 ? saved : NULL,
                                     .hook = hook,
                                     .memory = memory};
  const struct data_file global = {s->global_test_path, s->global_test_labels};
  enum err e = dataset_open(&source, s->job.contract, &digest_blake2b, out_splits, out_why);
  if (e == ERR_OK && with_global && global.path != NULL)
    e = dataset_open_test(&global, s->job.contract, &out_splits->train->scale, hook, memory, out_global, out_why);
  return e;
}

enum err site_job_open_data(const struct site_job_config *s, const struct scale *saved, bool with_global,
                            const struct work_hook *hook, struct data_memory *memory, struct splits *out_splits,
                            struct dataset **out_global, struct data_place *out_why) {
  if (!s->watch)
    return open_data_of(s, s->train_path, saved, with_global, hook, memory, out_splits, out_global, out_why);
  struct stream_look look = {0};
  char path[STREAM_PATH_BYTES];
  int fd = -1;
  enum err e = stream_look(s->train_path, &look, out_why);
  if (e == ERR_OK)
    e = stream_open(s->train_path, &look, &fd, path, out_why);
  if (e == ERR_OK)
    e = open_data_of(s, path, saved, with_global, hook, memory, out_splits, out_global, out_why);
  if (e != ERR_OK && fd >= 0 && strcmp(out_why->path, path) == 0)
    snprintf(out_why->path, sizeof out_why->path, "%s", s->train_path); /* its lines, one file behind the other */
  stream_look_done(&look);
  if (fd >= 0)
    close(fd);
  return e;
}

const struct site_job_config *site_job_newest(const struct config *c, const char *name) {
  const struct site_job_config *found = NULL;
  for (size_t i = 0; i < c->n_jobs; i++)
    if (strcmp(c->jobs[i].job.name, name) == 0 && (!found || c->jobs[i].job.version > found->job.version))
      found = &c->jobs[i];
  return found;
}
