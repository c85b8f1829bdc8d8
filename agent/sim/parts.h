/* What the sources of the simulator share. */
#ifndef AGENT_SIM_PARTS_H
#define AGENT_SIM_PARTS_H

#include "agent/sim/sim.h"
#include "gossip/link.h"

#define SIM_NO_WIRE UINT64_MAX

static const size_t SIM_JOB = 0;
static const double SIM_PULL = 0.25; /* of a training, towards the goal */

/* An event of the agent as it lives now. */
void sim_put(struct sim_agent *a, uint64_t at_us, struct sim_event e);

/* One more word of the story. */
void sim_trace(struct sim *s, uint64_t word);

/* wires.c */
extern const struct link_calls sim_link_calls;
void sim_arrive(struct sim_agent *a, const struct sim_event *e); /* SIM_FRAME, SIM_DIAL, SIM_GONE */
void sim_close_wires(struct sim *s, size_t a, size_t b);         /* b SIZE_MAX: all of a */
void sim_heartbeat_missed(struct sim *s, size_t a, size_t b);

/* sim.c: by the simulation's fidelity */
const struct seals *sim_seals(const struct sim *s);
void sim_sign(struct manifest *m, const struct sim_agent *a);

/* sim.c: the direction of a pair, until the next call. */
struct sim_link_to *sim_link_to(struct sim *s, size_t from, size_t to);
const struct sim_link *sim_link_of(const struct sim *s, const struct sim_link_to *l);

/* ports.c */
extern const struct gossip_events sim_gossip_events;
extern const struct round_ports sim_round_ports;
void sim_note(struct sim_agent *a, const char *name, size_t peer, const char *text);

/* grouping.c: nothing happens where sites are not grouped */
void sim_group_start(struct sim_agent *a);
void sim_group_end(struct sim_agent *a);
void sim_group_on_result(struct sim_agent *a, const struct trainer_result *r);
void sim_group_on_epoch(struct sim_agent *a, uint64_t boot_epoch);
void sim_group_on_session(struct sim_agent *a, size_t peer, bool is_there);
bool sim_group_wants(struct sim_agent *a, size_t peer, const struct signed_sketch *s);
void sim_group_on_sketch(struct sim_agent *a, size_t peer, const struct signed_sketch *s, const uint8_t *bytes);
uint64_t sim_group_turn(struct sim_agent *a); /* when it is due again */

/* What is held of n bytes of an update that was said to have them. */
size_t sim_held(const struct sim *s, uint64_t n);

/* sim.c */
void sim_do_train(struct sim_agent *a, struct trainer_job *job);

double sim_goal(const struct sim_agent *a, size_t i);

/* disk.c */
bool sim_label_is_after(struct round_label a, struct round_label b);
void sim_do_write(struct sim_agent *a, struct scribe_job *job);
void sim_durable_copy(struct sim_durable *to, const struct sim_durable *from);
void sim_durable_clear(struct sim_durable *d);
struct position sim_merged_find(const struct sim_durable *d, size_t agent);
struct buffer sim_buffer(const void *bytes, size_t n);
void sim_digest(const void *bytes, size_t n, struct digest *out_root);

#endif
