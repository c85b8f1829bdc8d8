/* The functions of the verb table, one file a noun. Each answers and returns the exit code. */
#ifndef AGENT_CLI_VERBS_H
#define AGENT_CLI_VERBS_H

#include "agent/cli/cli.h"

int verb_init(struct call *call);
int verb_run(struct call *call);
int verb_status(struct call *call);
int verb_events(struct call *call);
int verb_wait(struct call *call);
int verb_health(struct call *call);
int verb_demo(struct call *call);
int verb_data_check(struct call *call);
int verb_data_contract(struct call *call);
int verb_compare(struct call *call);
int verb_eval(struct call *call);
int verb_rounds_list(struct call *call);
int verb_rounds_show(struct call *call);
int verb_rounds_wait(struct call *call);
int verb_models_list(struct call *call);
int verb_models_show(struct call *call);
int verb_models_diff(struct call *call);
int verb_models_pin(struct call *call);
int verb_models_unpin(struct call *call);
int verb_models_serve(struct call *call);
int verb_models_rollback(struct call *call);
int verb_peer_list(struct call *call);
int verb_peer_add(struct call *call);
int verb_job_show(struct call *call);
int verb_job_pull(struct call *call);
int verb_job_propose(struct call *call);
int verb_job_accept(struct call *call);
int verb_job_stop(struct call *call);
int verb_job_serve(struct call *call);
int verb_job_status(struct call *call);
int verb_key_new(struct call *call);
int verb_key_show(struct call *call);
int verb_config_check(struct call *call);
int verb_config_show(struct call *call);
int verb_config_keys(struct call *call);

#endif
