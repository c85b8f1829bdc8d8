#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/clock.h"
#include "agent/round_json.h"
#include "agent/run/parts.h"
#include "agent/text.h"
#include "crypto/key_text.h"
#include "crypto/statement.h"
#include "models/merging/rule.h"

static json_t *text_of_key(const struct identity_key *key) {
  char text[KEY_TEXT_BYTES];
  key_text_write(key, text);
  return json_string(text);
}

static double seconds_since(uint64_t then_ms, uint64_t now_ms) {
  return then_ms == 0 || then_ms > now_ms ? -1 : (double)(now_ms - then_ms) / 1000;
}

/* Negative: there is no such time. */
static double seconds_until(uint64_t then_ms, uint64_t now_ms) {
  if (then_ms == 0)
    return -1;
  return then_ms > now_ms ? (double)(then_ms - now_ms) / 1000 : 0;
}

/* A number, or null where negative means unknown. */
static json_t *known(double value) {
  return value < 0 ? json_null() : json_real(value);
}

static json_t *counted_drops(const uint64_t drops[N_DROPS]) {
  json_t *refused = json_object();
  for (int i = 0; i < N_DROPS; i++)
    if (drops[i] > 0)
      json_object_set_new(refused, err_name((enum err)(ERR_FIRST_DROP + i)), json_integer((json_int_t)drops[i]));
  return refused;
}

/* One word for a peer: the link's reason first, then why it is not waited for. */
static enum err state_of(const struct gossip_peer_info *info, const struct round_peer_view *view) {
  if (!info->has_session && view->standing == ERR_ABSENT && info->reason == ERR_NO_SESSION)
    return ERR_ABSENT;
  return info->reason != ERR_OK ? info->reason : view->standing;
}

/* What the peer tells beside its place: a sentence, or null. What is not UTF-8 is not JSON either: it is shown escaped. */
static json_t *notice_json(const struct wire_notice *n) {
  char text[MAX_REASON_BYTES], escaped[4 * MAX_REASON_BYTES];
  if (n->kind == NOTICE_NONE)
    return json_null();
  notice_text(n, text);
  text_escape(text, escaped, sizeof escaped);
  return json_string(escaped);
}

static json_t *count_members(const struct agent *a) {
  size_t counts[N_MEMBER_STATES];
  json_t *o = json_object();
  gossip_count_members(a->gossip, counts);
  for (enum member_state s = 0; s < N_MEMBER_STATES; s++)
    json_object_set_new(o, member_state_name(s), json_integer((json_int_t)counts[s]));
  return o;
}

static void incarnation_add(json_t *row, const struct gossip_member *m) {
  bool is_known = m->boot_epoch > 0;
  json_object_set_new(row, "boot_epoch", is_known ? json_integer((json_int_t)m->boot_epoch) : json_null());
  json_object_set_new(row, "refutation", is_known ? json_integer(m->refutation) : json_null());
}

static json_t *member_row(const struct agent *a, const struct gossip_member *m, uint64_t now_ms) {
  const char *name = m->name;
  for (size_t i = 0; i < a->config->n_peers && m->is_peer; i++)
    if (identity_key_equal(&a->peers[i].key, &m->key))
      name = a->peers[i].name;
  json_t *row = json_object(), *addresses = json_array();
  char address[MAX_ADDRESS_BYTES];
  for (const char *at = m->addresses; statement_next_address(&at, address);)
    json_array_append_new(addresses, json_string(address));
  json_object_set_new(row, "name", json_string(m->is_self ? a->config->name : name));
  json_object_set_new(row, "key", text_of_key(&m->key));
  json_object_set_new(row, "role", json_string(m->is_self ? "self" : m->is_peer ? "peer" : "member"));
  json_object_set_new(row, "state", json_string(member_state_name(m->state)));
  json_object_set_new(row, "since_s", known(seconds_since(m->since_ms, now_ms)));
  incarnation_add(row, m);
  json_object_set_new(row, "addresses", addresses);
  return row;
}

json_t *status_members_json(const struct agent *a, size_t first, size_t n, uint64_t now_ms) {
  json_t *o = json_object(), *rows = json_array();
  struct gossip_member m;
  for (size_t i = first; i < gossip_n_members(a->gossip) && n-- > 0; i++) {
    gossip_member(a->gossip, i, &m);
    json_array_append_new(rows, member_row(a, &m, now_ms));
  }
  json_object_set_new(o, "members", rows);
  json_object_set_new(o, "counts", count_members(a));
  return o;
}

/* Groups are numbered from 1, as people count. */
static void group_add(json_t *row, const struct agent_job *j, size_t i) {
  size_t group;
  double cosine;
  bool is_placed = j->cluster && cluster_peer_view(j->cluster, i, &group, &cosine);
  json_object_set_new(row, "group", is_placed ? json_integer((json_int_t)group + 1) : json_null());
  json_object_set_new(row, "cosine", is_placed ? json_real(cosine) : json_null());
}

/* Of this site; null where sites are not grouped. */
static json_t *cluster_json(const struct agent_job *j) {
  struct cluster_view v;
  if (!j->cluster)
    return json_null();
  cluster_view(j->cluster, &v);
  return json_pack("{s:o, s:I, s:I, s:I, s:f, s:I}", "group",
                   v.has_own ? json_integer((json_int_t)v.group + 1) : json_null(), "groups", (json_int_t)v.n_groups,
                   "members", (json_int_t)v.n_members, "known", (json_int_t)v.n_known, "silhouette", v.silhouette,
                   "serial", (json_int_t)v.serial);
}

/* Of push-sum: the account, null without it; and what a peer was given in all and has given. */
static json_t *mass_json(const struct agent_job *j) {
  const struct mass_figures *m = &j->mass;
  return m->is_on ? json_pack("{s:f, s:f}", "held", m->held, "written_off", m->written_off) : json_null();
}

static void mass_add(json_t *row, const struct agent_job *j, size_t i) {
  const struct mass_figures *m = &j->mass;
  json_object_set_new(row, "told", m->is_on ? json_real(m->peers[i].told) : json_null());
  json_object_set_new(row, "taken", m->is_on ? json_real(m->peers[i].taken) : json_null());
}

static json_t *peer_row(const struct agent_job *j, size_t i, uint64_t now_ms) {
  const struct agent *a = j->agent;
  struct gossip_peer_info info;
  struct round_peer_view view;
  gossip_peer_info(a->gossip, i, &info);
  round_peer_view(j->round, i, &view);
  enum err state = state_of(&info, &view);
  const char *sentence = info.sentence[0] || state == ERR_OK ? info.sentence : err_sentence(state);
  json_t *row = json_object();
  json_object_set_new(row, "name", json_string(a->peers[i].name));
  json_object_set_new(row, "key", text_of_key(&a->peers[i].key));
  json_object_set_new(row, "state", json_string(state == ERR_OK ? "alive" : err_name(state)));
  json_object_set_new(row, "sentence", json_string(sentence));
  json_object_set_new(row, "notice", view.has_state ? notice_json(&view.notice) : json_null());
  json_object_set_new(row, "address", json_string(a->peers[i].address));
  json_object_set_new(row, "since_s", known(seconds_since(info.since_ms, now_ms)));
  json_object_set_new(row, "last_heard_s", known(seconds_since(info.last_heard_ms, now_ms)));
  json_object_set_new(row, "round", view.has_state ? json_integer((json_int_t)view.state.round) : json_null());
  json_object_set_new(row, "phase", view.has_state ? json_string(phase_name(view.state.phase)) : json_null());
  json_object_set_new(row, "lag", json_integer(view.last_lag));
  json_object_set_new(row, "weight", json_real(view.last_weight));
  json_object_set_new(row, "share", json_real(view.last_share));
  json_object_set_new(row, "distance", json_real(view.last_distance));
  json_object_set_new(row, "fate", json_string(view.last_weight > 0 ? fate_name(view.last_fate) : ""));
  group_add(row, j, i);
  mass_add(row, j, i);
  json_object_set_new(row, "sent_bytes", json_integer((json_int_t)info.sent_bytes));
  json_object_set_new(row, "received_bytes", json_integer((json_int_t)info.received_bytes));
  json_object_set_new(row, "refused", counted_drops(info.drops));
  json_object_set_new(row, "rtt_ms", known(info.rtt_ms));
  json_object_set_new(row, "via", info.via == SIZE_MAX ? json_null() : json_string(a->peers[info.via].name));
  json_object_set_new(row, "relayed_bytes", json_integer((json_int_t)info.relayed_bytes));
  struct gossip_member member = {.state = MEMBER_ABSENT};
  (void)gossip_find_member(a->gossip, &a->peers[i].key, &member);
  json_object_set_new(row, "member", json_string(member_state_name(member.state)));
  incarnation_add(row, &member);
  return row;
}

static json_t *peer_rows(const struct agent_job *j, uint64_t now_ms) {
  json_t *rows = json_array();
  for (size_t i = 0; i < j->agent->config->n_peers; i++)
    json_array_append_new(rows, peer_row(j, i, now_ms));
  return rows;
}

static json_t *stranger_rows(struct agent *a, uint64_t now_ms) {
  struct gossip_stranger strangers[MAX_GATE_TOTAL];
  size_t n = gossip_strangers(a->gossip, strangers, MAX_GATE_TOTAL);
  json_t *rows = json_array();
  for (size_t i = 0; i < n; i++) {
    json_t *row = json_object();
    json_object_set_new(row, "address", json_string(strangers[i].address));
    json_object_set_new(row, "unknown_key", json_integer((json_int_t)strangers[i].n_unknown_key));
    json_object_set_new(row, "handshake", json_integer((json_int_t)strangers[i].n_handshake));
    json_object_set_new(row, "gate", json_integer((json_int_t)strangers[i].n_gate));
    json_object_set_new(row, "last_s", known(seconds_since(strangers[i].last_ms, now_ms)));
    json_array_append_new(rows, row);
  }
  return rows;
}

static void others_add(json_t *o, struct agent *a, uint64_t now_ms) {
  uint64_t drops[N_DROPS];
  gossip_stranger_drops(a->gossip, drops);
  json_object_set_new(o, "members", count_members(a));
  json_object_set_new(o, "strangers", stranger_rows(a, now_ms));
  json_object_set_new(o, "strangers_refused", counted_drops(drops));
}

static json_t *waited_for(const struct agent_job *j) {
  json_t *names = json_array();
  for (size_t i = 0; i < j->agent->config->n_peers; i++) {
    struct round_peer_view view;
    round_peer_view(j->round, i, &view);
    if (view.is_waited_for)
      json_array_append_new(names, json_string(j->agent->peers[i].name));
  }
  return names;
}

static size_t count_followed(const struct agent_job *j) {
  size_t n = 0;
  for (size_t i = 0; i < j->agent->config->n_peers; i++)
    n += round_follows(j->round, i);
  return n;
}

/* The first line of `status`: one word, and why. */
struct verdict {
  const char *word;
  char why[MAX_CONFIG_WHY_BYTES];
};

/* Of those whom the topology puts beside us. */
static size_t count_alive(const struct agent_job *j) {
  const struct agent *a = j->agent;
  size_t n = 0;
  for (size_t i = 0; i < a->config->n_peers; i++) {
    if (!round_follows(j->round, i))
      continue;
    struct gossip_peer_info info;
    struct round_peer_view peer;
    gossip_peer_info(a->gossip, i, &info);
    round_peer_view(j->round, i, &peer);
    n += state_of(&info, &peer) == ERR_OK || peer.standing == ERR_FINISHED;
  }
  return n;
}

/* "gathering round 12: waits for mec-03, closes in 8 s" */
static void write_phase(const struct agent_job *j, const struct round_view *view, char *out, size_t capacity) {
  uint64_t now_ms = clock_ms();
  size_t n = 0;
  int n_head = snprintf(out, capacity, "%s round %" PRIu64, phase_name(view->phase), view->in_work.round);
  if (view->phase != PHASE_GATHERING || n_head < 0)
    return;
  n = (size_t)n_head;
  for (size_t i = 0, n_names = 0; i < j->agent->config->n_peers && n < capacity; i++) {
    struct round_peer_view peer;
    round_peer_view(j->round, i, &peer);
    if (peer.is_waited_for)
      n += (size_t)snprintf(out + n, capacity - n, "%s%s", n_names++ ? ", " : ": waits for ", j->agent->peers[i].name);
  }
  uint64_t left_ms = view->closes_at_ms > now_ms ? view->closes_at_ms - now_ms : 0;
  if (n < capacity)
    snprintf(out + n, capacity - n, ", closes in %" PRIu64 " s", (left_ms + 999) / 1000);
}

/* Why the disk makes an agent less than well; false: it does not. */
static bool write_disk(const struct agent *a, char *out, size_t capacity) {
  static const char *const measures[] = {
      [DISK_LOW] = "older models are let go", [DISK_TIGHT] = "it trains and publishes no update"};
  const struct disk *d = &a->disk;
  if (d->state == DISK_OK)
    return false;
  snprintf(out, capacity,
           "%s: disk %s, room for %" PRIu64 " more rounds%s: %s; it goes on by itself when there is more",
           a->config->state_dir, disk_state_name(d->state), disk_rounds_left(d),
           disk_free_bytes(d) < d->room.free_bytes ? " under store.max_mib" : "", measures[d->state]);
  return true;
}

/* What keeps the whole agent from working. */
static struct verdict verdict_of_fault(const struct agent *a) {
  struct verdict v = {.word = "HALTED"};
  snprintf(v.why, sizeof v.why, "%s", a->sentence);
  return v;
}

static void judge(const struct agent_job *j, struct verdict *v) {
  const struct agent *a = j->agent;
  struct round_view view;
  char names[MAX_REASON_BYTES];
  *v = verdict_of_fault(a);
  if (a->sentence[0])
    return;
  round_view(j->round, &view);
  size_t n_alive = count_alive(j), n_peers = count_followed(j);
  if (view.is_halted) {
    bool is_cap = view.halted_reason == ERR_NO_SPACE && disk_free_bytes(&a->disk) < a->disk.room.free_bytes;
    snprintf(v->why, sizeof v->why, "%s: %s; room for %" PRIu64 " more rounds; it goes on by itself when that is over",
             a->config->state_dir, is_cap ? "store.max_mib is reached" : err_sentence(view.halted_reason),
             disk_rounds_left(&a->disk));
  } else if (view.phase == PHASE_PAUSED) {
    snprintf(v->why, sizeof v->why, "training failed three times in a row: see the log, then restart");
  } else if (view.phase == PHASE_FINISHED) {
    v->word = "FINISHED";
    snprintf(v->why, sizeof v->why, "round %" PRIu64 " is committed", view.committed.round);
  } else if (view.phase == PHASE_ALONE) {
    v->word = "ALONE";
    snprintf(v->why, sizeof v->why, "%" PRIu64 " local rounds done, waiting for a peer; nothing is lost",
             view.rounds_alone);
  } else if (pooling_waits(j, names, sizeof names)) {
    v->word = "WAITING";
    snprintf(
        v->why, sizeof v->why,
        "meeting; pooled scaling lacks the statistics of %s; who never comes is taken out of one site's peers, and "
        "that site restarted: the others take its numbers",
        names);
  } else if (view.phase == PHASE_MEETING || view.phase == PHASE_LOADING) {
    v->word = "WAITING";
    snprintf(v->why, sizeof v->why, "%s; %zu of %zu peers are here", phase_name(view.phase), n_alive, n_peers);
  } else if (write_disk(a, v->why, sizeof v->why)) {
    v->word = "DEGRADED";
  } else {
    bool are_all_here = n_alive == n_peers;
    v->word = are_all_here ? "OK" : "DEGRADED";
    size_t n = 0;
    if (!are_all_here)
      n = (size_t)snprintf(v->why, sizeof v->why, "%zu of %zu peers take part; ", n_alive, n_peers);
    write_phase(j, &view, v->why + n, sizeof v->why - n);
  }
}

static json_t *shadow_object(const struct agent_job *j) {
  static const char *const modes[] = {[SHADOW_AUTO] = "auto", [SHADOW_ON] = "on", [SHADOW_OFF] = "off"};
  const struct shadow_figures *f = &j->shadow;
  json_t *o = json_object();
  json_object_set_new(o, "mode", json_string(modes[j->config->shadow]));
  json_object_set_new(o, "on", json_boolean(f->is_on));
  json_object_set_new(o, "headline", f->is_on ? json_number(f->headline) : json_null());
  json_object_set_new(o, "seconds", f->n_trainings > 0 ? json_real(f->seconds) : json_null());
  json_object_set_new(o, "share", f->n_trainings > 0 ? json_real(f->share) : json_null());
  json_object_set_new(o, "memory_bytes", json_integer(f->is_on ? (json_int_t)f->memory_bytes : 0));
  return o;
}

/* Null for a job without tasks, and before the first training. */
static json_t *continual_object(const struct agent_job *j) {
  const struct continual_figures *f = &j->continual;
  if (!f->is_on)
    return json_null();
  json_t *o = json_object(), *names = json_array();
  const struct contract *contract = j->config->job.contract;
  for (size_t i = 0; i < contract->n_classes; i++)
    if (j->config->job.continual.tasks.task_of[i] == f->task)
      json_array_append_new(names, json_string(contract->classes[i].text));
  json_object_set_new(o, "task", json_integer(f->task + 1));
  json_object_set_new(o, "tasks", json_integer(f->n_tasks));
  json_object_set_new(o, "position", json_integer(f->position + 1));
  json_object_set_new(o, "done", json_integer(f->n_done));
  json_object_set_new(o, "kept", json_integer((json_int_t)f->n_replay));
  json_object_set_new(o, "samples", json_integer((json_int_t)f->n_samples));
  json_object_set_new(o, "arrived", json_integer((json_int_t)f->n_arrived));
  json_object_set_new(o, "drift", json_string(f->found));
  json_object_set_new(o, "classes", names);
  return o;
}

/* What a site makes of the swarm's model for itself. */
static json_t *personal_object(const struct agent_job *j) {
  size_t n_personal = schema_parameters(j->schema) - schema_shared(j->schema);
  json_t *o = json_object();
  json_object_set_new(o, "method", json_string(personal_type(j->config->job.train.personal.method)->word));
  json_object_set_new(o, "parameters", json_integer((json_int_t)n_personal));
  return o;
}

static json_t *job_object(const struct agent_job *j, uint64_t now_ms) {
  const struct job_config *job = &j->config->job;
  struct round_view v;
  uint32_t done, total;
  round_view(j->round, &v);
  trainer_progress(j->trainer, &done, &total);
  double closes_s = seconds_until(v.closes_at_ms, now_ms), starts_s = seconds_until(v.starts_at_ms, now_ms);
  json_t *o = json_object();
  json_object_set_new(o, "name", json_string(job->name));
  json_object_set_new(o, "version", json_integer(job->version));
  json_object_set_new(o, "parameters", json_integer((json_int_t)schema_parameters(j->schema)));
  json_object_set_new(o, "personal", personal_object(j));
  json_object_set_new(o, "count", json_integer((json_int_t)job->count));
  json_object_set_new(o, "phase", json_string(phase_name(v.phase)));
  json_object_set_new(o, "round", json_integer((json_int_t)v.committed.round));
  json_object_set_new(o, "sub", json_integer(v.committed.sub));
  json_object_set_new(o, "round_in_work", json_integer((json_int_t)v.in_work.round));
  json_object_set_new(o, "sub_in_work", json_integer(v.in_work.sub));
  json_object_set_new(o, "progress", json_integer(done));
  json_object_set_new(o, "progress_total", json_integer(total));
  json_object_set_new(o, "steps", json_integer(v.steps));
  json_object_set_new(o, "cluster", cluster_json(j));
  json_object_set_new(o, "closes_in_s", known(closes_s));
  json_object_set_new(o, "next_round_in_s", known(starts_s));
  json_object_set_new(o, "waiting_for", waited_for(j));
  json_object_set_new(o, "train_loss", v.has_loss ? json_number(v.train_loss) : json_null());
  json_object_set_new(o, "samples", json_integer(v.n_samples));
  json_object_set_new(o, "test_samples", json_integer(v.n_test));
  json_object_set_new(o, "samples_bytes", json_integer((json_int_t)v.samples_bytes));
  json_object_set_new(o, "streamed_bytes", json_integer((json_int_t)v.streamed_bytes));
  json_object_set_new(o, "metric", json_string(metric_name(contract_metric(job->contract))));
  json_object_set_new(o, "local", v.metrics.has_local ? json_number(v.metrics.local_headline) : json_null());
  json_object_set_new(o, "global", v.metrics.has_global ? json_number(v.metrics.global_headline) : json_null());
  json_object_set_new(o, "local_note", json_text(j->local_note));
  json_object_set_new(o, "global_note", json_text(j->global_note));
  json_object_set_new(o, "shadow", shadow_object(j));
  json_object_set_new(o, "continual", continual_object(j));
  json_object_set_new(o, "mass", mass_json(j));
  json_object_set_new(o, "merged", json_integer(v.n_merged));
  json_object_set_new(o, "expected", json_integer(v.n_expected));
  return o;
}

/* FNV-1a. */
uint64_t status_change(const struct agent_job *j) {
  const uint64_t basis = 0xcbf29ce484222325u, prime = 0x100000001b3u;
  struct verdict v;
  struct round_view view;
  judge(j, &v);
  round_view(j->round, &view);
  uint64_t mark = basis, values[] = {(uint64_t)v.word[0] << 8 | (uint64_t)v.word[1], view.phase, view.committed.round,
                                     view.committed.sub};
  for (size_t i = 0; i < sizeof values / sizeof *values; i++)
    mark = (mark ^ values[i]) * prime;
  for (size_t i = 0; i < j->agent->config->n_peers; i++) {
    struct gossip_peer_info info;
    struct round_peer_view peer;
    gossip_peer_info(j->agent->gossip, i, &info);
    round_peer_view(j->round, i, &peer);
    mark = (mark ^ (uint64_t)state_of(&info, &peer)) * prime;
  }
  return mark >> 11; /* a number that every reader of JSON holds exactly */
}

json_t *status_json(const struct agent_job *j, uint64_t now_ms) {
  struct agent *a = j->agent;
  struct verdict v;
  judge(j, &v);
  json_t *o = json_object();
  json_object_set_new(o, "name", json_string(a->config->name));
  json_object_set_new(o, "key", text_of_key(identity_public(a->identity)));
  json_object_set_new(o, "swarm", json_string(a->config->swarm));
  json_object_set_new(o, "version", json_string(STARLING_VERSION));
  json_object_set_new(o, "pid", json_integer(getpid()));
  json_object_set_new(o, "uptime_s", known(seconds_since(a->started_ms, now_ms)));
  json_object_set_new(o, "boot_epoch", json_integer((json_int_t)a->boot_epoch));
  json_t *listen = json_array();
  for (size_t i = 0; i < a->config->n_listen; i++)
    json_array_append_new(listen, json_string(a->config->listen[i]));
  json_object_set_new(o, "listen", listen);
  json_object_set_new(o, "word", json_string(v.word));
  json_object_set_new(o, "why", json_text(v.why));
  json_object_set_new(o, "change", json_integer((json_int_t)status_change(j)));
  json_object_set_new(o, "sent_bytes", json_integer((json_int_t)gossip_sent_bytes(a->gossip)));
  json_object_set_new(o, "received_bytes", json_integer((json_int_t)gossip_received_bytes(a->gossip)));
  json_object_set_new(o, "relayed_bytes", json_integer((json_int_t)gossip_relayed_bytes(a->gossip)));
  json_object_set_new(o, "disk",
                      json_pack("{s:s, s:I, s:I, s:I}", "state", disk_state_name(disk_state(&a->disk)), "free_bytes",
                                (json_int_t)disk_free_bytes(&a->disk), "used_bytes",
                                (json_int_t)a->disk.room.used_bytes, "rounds_left",
                                (json_int_t)disk_rounds_left(&a->disk)));
  json_object_set_new(o, "job", job_object(j, now_ms));
  json_object_set_new(o, "jobs", jobs_rows(a));
  json_object_set_new(o, "peers", peer_rows(j, now_ms));
  others_add(o, a, now_ms);
  return o;
}

json_t *status_peers_json(const struct agent_job *j, uint64_t now_ms) {
  json_t *o = json_object();
  json_object_set_new(o, "peers", peer_rows(j, now_ms));
  others_add(o, j->agent, now_ms);
  return o;
}

json_t *status_health_json(const struct agent *a) {
  struct verdict v = {.word = "WAITING", .why = "no job runs; `starling job accept` starts one"};
  bool is_healthy = !a->sentence[0];
  if (!is_healthy)
    v = verdict_of_fault(a);
  for (size_t i = 0; i < a->n_jobs && is_healthy; i++) {
    if (a->jobs[i]->is_stopped)
      continue;
    judge(a->jobs[i], &v);
    is_healthy = strcmp(v.word, "HALTED") != 0;
  }
  json_t *o = json_object();
  json_object_set_new(o, "healthy", json_boolean(is_healthy));
  json_object_set_new(o, "word", json_string(v.word));
  json_object_set_new(o, "why", json_text(v.why));
  return o;
}
