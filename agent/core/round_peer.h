/* A peer as the round machine sees it: is it waited for, was it heard, what does its copy weigh. Pure. */
#ifndef AGENT_CORE_ROUND_PEER_H
#define AGENT_CORE_ROUND_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/core/inbox.h"
#include "base/err.h"
#include "gossip/gossip.h"
#include "store/store.h"

enum {
  ABSENT_AFTER = 2,     /* rounds missed without a session */
  SLOW_AFTER = 3,       /* gathers missed in a row with one */
  QUARANTINE_AFTER = 3, /* broken payloads in a row */
};

/* Of struct wire_state, what is looked at; its notice is kept apart. */
struct peer_state {
  bool follows, finished;
  enum phase phase;
  uint64_t round, round_in_work;
};

/* Of a place on its chain, what a merge weighs. */
struct copy_place {
  struct chain_mark mark;
  uint64_t round;
  uint32_t samples;
  uint16_t degree;
};

struct round_peer {
  struct inbox inbox;

  /* by the topology */
  bool is_followed; /* in some round we take its updates */
  bool is_follower; /* in some round it takes ours */
  bool is_one_way;  /* it need not: an edge of push-sum */
  bool is_chosen;   /* in the round in work we take its update; for a jump everybody is whom we follow */

  bool has_session;
  bool has_hello; /* in this session, for this job, with equal schema and contract */
  bool has_state; /* since the last HELLO */
  bool is_absent, is_slow, is_quarantined;
  bool has_news;               /* a HELLO or an update came since the last gather ended */
  bool must_prove;             /* it claimed a round and had no update to show for it: see round_peer_vouched */
  bool has_offered;            /* an update came since the jump in work began */
  bool is_slow_to_download;    /* its full copy did not come at a bearable speed in that jump */
  bool is_heard;               /* in the gather that runs or ran last */
  bool has_open_sample;        /* it was missing, and is sampled with its true lateness when it comes */
  bool is_placed;              /* its affinity is known */
  enum err link_reason;        /* why there is no session; ERR_OK while one stands */
  enum err job_reason;         /* why the job is refused: stands until a HELLO says otherwise */
  uint32_t epoch_steps;        /* as it said last; 0: never */
  struct peer_state state;     /* as it said last */
  uint64_t round_told;         /* that it has committed, by its last HELLO or STATE */
  double affinity;             /* its weight is multiplied by; 0: it is of another group */
  struct wire_notice *noticed; /* own: what its last STATE told, sessions and all; NULL: nothing */
  uint32_t missed_without_session, missed_with_session; /* in a row */

  struct chain_mark seen;   /* held when the last gather ended */
  struct chain_mark merged; /* newest place of its chain that a merge used */
  struct copy_place next;   /* of its copy, once the links that the merge in work took are applied */
  uint64_t taken_sequence;  /* of ours, by its DONE */
  bool has_base;            /* it has taken one in this session: what is given to it from now on is taken */
  uint64_t lost_at_ms;      /* when its last session ended */
  uint64_t signed_round;    /* highest round of an update that it has signed */

  /* the gather that runs or ran last */
  int64_t arrival_ms; /* after our payload was durable; −1 = not heard */
  uint64_t open_sample, open_round, open_clock_ms;

  /* the last merge */
  double last_weight, last_share, last_distance;
  uint8_t last_fate; /* enum fate (models/merging/rule.h) */
  enum err last_reason;
  uint32_t last_lag;
};

/* ERR_OK: it is waited for. Else why not: the reason of its refusal, ERR_QUARANTINED, ERR_GROUP, ERR_NOT_FOLLOWING, ERR_PAUSED,
 * ERR_FINISHED, ERR_ABSENT, ERR_SLOW. */
enum err round_peer_standing(const struct round_peer *p);

/* Nothing is to be had of it, for a reason that time does not heal: of its link or job, or the topology. Which, else ERR_OK. */
enum err round_peer_refusal(const struct round_peer *p);

/* The same without the topology: whom we do not follow may follow us. */
enum err round_peer_refused(const struct round_peer *p);

/* Its update for the label is here, it said that there is none, or its STATE says that it went past and nothing of it is
 * left to fetch (so that equal timing never changes bits). Sub-rounds of two agents have nothing to do with each other:
 * within one number whatever is newer than the last gather counts. */
bool round_peer_has_spoken(const struct round_peer *p, struct round_label label);

/* The committed round that it vouches for: what its STATE says; if it must prove it, no more than it has signed. */
uint64_t round_peer_vouched(const struct round_peer *p, bool must_prove);

/* It knows a model that can be fetched from it now. */
bool round_peer_is_source(const struct round_peer *p);

/* It is of another group of sites (agent/core/cluster.h). */
bool round_peer_is_elsewhere(const struct round_peer *p);

/* The reason shown for a round that did not merge anything new of it. */
enum err round_peer_missing_reason(const struct round_peer *p);

/* May its next copy be used at all, and is the sample count that stands with it believable? */
enum err round_peer_copy_check(const struct round_peer *p);

/* Its next copy holds an update that no merge has used. */
bool round_peer_has_advanced(const struct round_peer *p);

/* Counts a gather that ended. Returns the change of standing it caused: ERR_ABSENT, ERR_SLOW or ERR_OK. */
enum err round_peer_gather_ended(struct round_peer *p, bool was_awaited);

#endif
