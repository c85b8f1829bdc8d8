/* The table of verbs, and its functions, one file a noun. Each answers and returns the exit code. */
#ifndef AGENT_CLI_VERBS_H
#define AGENT_CLI_VERBS_H

#include "agent/cli/cli.h"

extern const struct verb verbs[];
extern const size_t n_verbs;

/* The flag of every verb that changes something. */
extern const struct flag check_flag;

/* All about one verb, to stdout. */
void help_print(const struct verb *v);

/* There is no such verb: answers with the nearest one; the exit code. */
int call_refuse_verb(struct call *call, const char *words);

int verb_help(struct call *call);
int verb_version(struct call *call);
int verb_init(struct call *call);
int verb_run(struct call *call);
int verb_status(struct call *call);
int verb_events(struct call *call);
int verb_wait(struct call *call);
int verb_trace(struct call *call);
int verb_health(struct call *call);
int verb_demo(struct call *call);
int verb_tune(struct call *call);
int verb_sim(struct call *call);
int verb_experiment(struct call *call);
int verb_data_check(struct call *call);
int verb_data_contract(struct call *call);
int verb_compare(struct call *call);
int verb_eval(struct call *call);
int verb_predict(struct call *call);
int verb_rounds_list(struct call *call);
int verb_rounds_continual(struct call *call);
int verb_rounds_show(struct call *call);
int verb_rounds_wait(struct call *call);
int verb_models_list(struct call *call);
int verb_models_show(struct call *call);
int verb_models_diff(struct call *call);
int verb_models_pin(struct call *call);
int verb_models_unpin(struct call *call);
int verb_models_serve(struct call *call);
int verb_models_rollback(struct call *call);
int verb_models_import(struct call *call);
int verb_export(struct call *call);
int verb_peer_list(struct call *call);
int verb_peer_members(struct call *call);
int verb_peer_graph(struct call *call);
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
