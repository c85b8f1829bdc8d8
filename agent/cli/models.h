/* Kept models for the verbs that read or change them: which one is meant, and what there is. */
#ifndef AGENT_CLI_MODELS_H
#define AGENT_CLI_MODELS_H

#include "agent/cli/cli.h"
#include "store/store.h"

enum { MODELS_MAX = 2048 /* kept ones that are looked at */ };

enum model_pick { MODEL_LATEST, MODEL_SERVING, MODEL_ROUND };

struct model_choice {
  enum model_pick pick;
  struct round_label label; /* MODEL_ROUND */
};

/* "latest", "serving", "418" or "418+2". ERR_SYNTAX with a sentence. */
MUST_USE enum err model_choice_read(const char *text, struct model_choice *out_choice, char why[MAX_REASON_BYTES]);

/* The value of a verb's --model; NULL leaves what is chosen without one. False: it was answered with EXIT_USAGE. */
bool model_flag_read(struct call *call, const char *text, struct model_choice *choice);

/* "418" or "418+2". */
MUST_USE enum err model_label_read(const char *text, struct round_label *out_label, char why[MAX_REASON_BYTES]);

/* The round whose model is meant. ERR_NOT_FOUND, with a sentence that lists what is kept; other errors of the store. */
MUST_USE enum err model_find(struct store *s, const struct config *c, const struct site_job_config *site_job,
                             const struct model_choice *choice, struct store_round *out_round,
                             char why[MAX_CONFIG_WHY_BYTES]);

#endif
