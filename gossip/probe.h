/* Is a peer still there? One question for each peer, asked again and again.
 *
 * Every session carries a beat a second, so hearing is the direct probe, and costs nothing more. Only when a peer was not heard for
 * PROBE_SILENT_BEATS are questions sent: one to the peer itself, and to PROBE_HELPERS other peers whether they hear it, up to
 * PROBE_TRIES times, half a beat apart. If anybody says yes, it is there, though we do not hear it: we ask more and more
 * rarely. If not, it is *missed*: the caller tells (members_miss).
 *
 * Who misses and hears nobody else suspects itself first: each probe that nobody answers raises `health` (0 is well), and all
 * patience is multiplied by health + 1 (Lifeguard: Dadgar, Phillips, Currey 2018). Who was missed and proved to be there is not
 * missed again for PROBE_PEACE_MS, then twice that, …: one deaf pair of agents makes no storm.
 *
 * Only who was heard in this life can be missed. Pure: time is an argument; the loop thread. */
#ifndef GOSSIP_PROBE_H
#define GOSSIP_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  PROBE_SILENT_BEATS_X2 = 5, /* two and a half */
  PROBE_TRIES = 3,
  PROBE_HELPERS = 3,
  PROBE_MAX_HEALTH = 8,
  PROBE_PEACE_MS = 75 * 1000,
  PROBE_MAX_PEACE_MS = 20 * 60 * 1000,
  PROBE_MAX_REST_BEATS = 32, /* between two questions about a peer that others hear */
  PROBE_SETTLED_BEATS = 60,  /* heard for so long: there is peace again */
};

#define PROBE_NEVER UINT64_MAX

/* How well this agent itself seems to be. */
struct probe_self {
  unsigned health;    /* 0 … PROBE_MAX_HEALTH */
  uint64_t better_ms; /* when it was last lowered: once a beat in which somebody was heard */
};

/* One peer. Zero: it was not heard yet. */
struct probe {
  bool is_heard, is_missed; /* heard: once; missed: and not heard since */
  bool is_answered;         /* somebody said anything to the questions since it was heard */
  uint8_t n_tries, n_rests;
  uint8_t n_asked;                            /* … and who was asked: */
  uint8_t asked[PROBE_TRIES * PROBE_HELPERS]; /* peers; again where they were twice */
  uint64_t heard_ms, good_since_ms;
  uint64_t next_ms; /* of the next step */
  uint64_t peace_until_ms, peace_ms;
};

enum probe_step {
  PROBE_WAIT,
  PROBE_ASK,  /* send the questions */
  PROBE_MISS, /* it is missed */
};

/* A frame of the peer came. `beat_ms` is how often one should. */
void probe_heard(struct probe *p, struct probe_self *self, uint64_t beat_ms, uint64_t now_ms);

/* An answer of peer `from` to a question about it; whether that one hears it. Only who was asked counts. */
void probe_answer(struct probe *p, size_t from, bool is_there, uint64_t beat_ms, uint64_t now_ms);

/* It has spoken itself, over others: a newer incarnation. */
void probe_spoke(struct probe *p, uint64_t beat_ms, uint64_t now_ms);

/* It has said farewell: nobody misses it until it is heard again. */
void probe_left(struct probe *p);

/* This process stood still for so long and has not read what came meanwhile. */
void probe_slept(struct probe *p, uint64_t for_ms);

/* What is due. After PROBE_ASK say whom of the others, at most PROBE_HELPERS, was asked. */
enum probe_step probe_tick(struct probe *p, struct probe_self *self, uint64_t beat_ms, uint64_t now_ms);
void probe_asked(struct probe *p, size_t helper);

/* When probe_tick has something to do; PROBE_NEVER. */
uint64_t probe_due_ms(const struct probe *p);

#endif
