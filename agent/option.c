#include "agent/option.h"

#include <stdlib.h>
#include <string.h>

#include "agent/config.h"
#include "agent/option_type.h"
#include "agent/scalar.h"
#include "base/edit_distance.h"

static const enum option_group base_groups[N_OPTION_BASES] = {
    [IN_SITE] = GROUP_SITE, [IN_PEER] = GROUP_PEER,    [IN_SITE_JOB] = GROUP_SITE_JOB,
    [IN_JOB] = GROUP_JOB,   [IN_CONTRACT] = GROUP_JOB,
};

static const char *const group_prefixes[N_OPTION_GROUPS] = {
    [GROUP_SITE] = "", [GROUP_PEER] = "peers[].", [GROUP_SITE_JOB] = "jobs[].", [GROUP_JOB] = ""};

enum option_group option_group(const struct option *o) {
  return base_groups[o->base];
}

const char *option_prefix(const struct option *o) {
  return group_prefixes[option_group(o)];
}

void option_name(const struct option *o, char out_name[MAX_OPTION_NAME_BYTES]) {
  snprintf(out_name, MAX_OPTION_NAME_BYTES, "%s%s", option_prefix(o), o->path);
}

/* ---- the table ---------------------------------------------------------------------------------------------------- */

static const char *const log_level_words[] = {"error", "warning", "info", "debug", NULL};
static const char *const kernels_words[] = {"measured", "built-in", NULL};
static const char *const flag_words[] = {"false", "true", NULL}; /* bool, enum metered */
static const char *const log_format_words[] = {"text", "json", NULL};
static const char *const merge_rule_words[] = {[RULE_MEAN] = "mean",
                                               [RULE_MEDIAN] = "median",
                                               [RULE_TRIMMED] = "trimmed",
                                               [RULE_KRUM] = "krum",
                                               [RULE_MULTI_KRUM] = "multi-krum",
                                               [RULE_GEOMETRIC_MEDIAN] = "geometric-median",
                                               [RULE_CENTRED_CLIP] = "centred-clip",
                                               [RULE_CLIP] = "clip",
                                               [RULE_NNM] = "nnm",
                                               [RULE_TRUST] = "trust",
                                               [RULE_ROBUST] = "robust",
                                               NULL};
static const char *const weights_words[] = {"metropolis", "samples", "similarity", NULL};
static const char *const serve_words[] = {
    [SERVE_BEST] = "best", [SERVE_LATEST] = "latest", [SERVE_PINNED] = "pinned", NULL};
static const char *const when_done_words[] = {"exit", "serve", NULL};
static const char *const shadow_words[] = {"auto", "on", "off", NULL};
static const char *const task_words[] = {[TASK_CLASSIFY] = "classify",
                                         [TASK_REGRESS] = "regress",
                                         [TASK_MULTILABEL] = "multilabel",
                                         [TASK_RECONSTRUCT] = "reconstruct",
                                         NULL};
/* the first is never written: config.c puts the task's own there */
static const char *const metric_words[] = {
    [METRIC_BY_TASK] = "by-task", [METRIC_ACCURACY] = "accuracy", [METRIC_R2] = "r2",
    [METRIC_AUC] = "auc",         [METRIC_MACRO_F1] = "macro-f1", NULL};
static const char *const loss_words[] = {[LOSS_CROSS_ENTROPY] = "cross-entropy",
                                         [LOSS_MEAN_SQUARED_ERROR] = "mean-squared-error",
                                         [LOSS_HUBER] = "huber",
                                         [LOSS_BINARY_CROSS_ENTROPY] = "binary-cross-entropy",
                                         NULL};
static const char *const personal_words[] = {
    [PERSONAL_NONE] = "none",   [PERSONAL_PARTIAL] = "partial",         [PERSONAL_FINETUNE] = "finetune",
    [PERSONAL_DITTO] = "ditto", [PERSONAL_INTERPOLATE] = "interpolate", NULL};
static const char *const optimiser_words[] = {
    [OPTIMISER_SGD] = "sgd", [OPTIMISER_ADAM] = "adam", [OPTIMISER_ADAMW] = "adamw", NULL};
static const char *const class_weight_words[] = {
    [CLASS_WEIGHTS_NONE] = "none", [CLASS_WEIGHTS_BALANCED] = "balanced", NULL};
static const char *const split_words[] = {"none", "iid", "dirichlet", "shards", "groups", NULL};
static const char *const schedule_words[] = {"constant", "step", "cosine", NULL};
static const char *const activate_words[] = {"compare", NULL};
static const char *const codec_words[] = {"f32", "f16", "q8", "q4", "topk", NULL}; /* enum codec_kind */
static const char *const increment_words[] = {[INCREMENT_CLASS] = "class-incremental",
                                              [INCREMENT_DOMAIN] = "domain-incremental",
                                              [INCREMENT_TASK] = "task-incremental",
                                              NULL};
static const char *const boundaries_words[] = {
    [BOUNDARIES_ROUNDS] = "rounds", [BOUNDARIES_DETECTED] = "detected", NULL};
static const char *const replay_rule_words[] = {[REPLAY_BALANCED] = "balanced", [REPLAY_RESERVOIR] = "reservoir", NULL};
static const char *const replay_use_words[] = {[REPLAY_MIXED] = "mixed", [REPLAY_AGEM] = "a-gem", NULL};
static const char *const ewc_rule_words[] = {[EWC_ONLINE] = "online", [EWC_SEPARATE] = "separate", NULL};
static const char *const topology_words[] = {"peers", "full", "ring", "regular", "exponential", "random", NULL};
const char *const average_words[] = {[AVERAGE_NEIGHBOURS] = "neighbours", [AVERAGE_PUSH_SUM] = "push-sum", NULL};
static const char *const statistic_words[] = {
    [STATISTIC_MEAN] = "mean", [STATISTIC_LOCAL] = "local", [STATISTIC_POOLED] = "pooled", NULL};

#define SITE(field) IN_SITE, offsetof(struct config, field)
#define PEER(field) IN_PEER, offsetof(struct peer_config, field)
#define SITE_JOB(field) IN_SITE_JOB, offsetof(struct site_job_config, field)
#define JOB(field) IN_JOB, offsetof(struct job_config, field)
#define CONTRACT(field) IN_CONTRACT, offsetof(struct contract, field)
#define NO_BOUNDS 0, 0, NULL
#define BOUNDS(min, max) min, max, NULL
#define ONE_OF(words) 0, 0, words

static const double max_seed = 9007199254740992; /* 2^53: exact in JSON and in a double */

const struct option option_table[] = {
    /* path, base and field, type, default, bounds, scope, sentence */
    {"swarm", SITE(swarm), &type_label, NULL, NO_BOUNDS, MUST_AGREE,
     "name of the swarm, equal on all its sites; the first `starling init` makes one"},
    {"name", SITE(name), &type_label, NULL, NO_BOUNDS, LOCAL, "what people call this agent; its key is its identity"},
    {"key_file", SITE(key_file), &type_path, "(agent.key beside this file, or in $CREDENTIALS_DIRECTORY)", NO_BOUNDS,
     LOCAL, "secret key of this agent, made by `starling key new`"},
    {"passphrase_file", SITE(passphrase_file), &type_path, "", NO_BOUNDS, LOCAL,
     "passphrase of the key file; without it a terminal is asked"},
    {"state_dir", SITE(state_dir), &type_path, "state", NO_BOUNDS, LOCAL,
     "folder of rounds and models; local file systems only"},
    {"listen", SITE(listen), &type_listen, "tcp://[::]:7411", NO_BOUNDS, LOCAL,
     "addresses where peers reach this agent; [] only dials"},
    {"advertise", SITE(advertise), &type_address, "", NO_BOUNDS, LOCAL,
     "where this agent says that it is reached, so that a peer finds it after it moved (peers dial numbers, not "
     "names); "
     "without it the addresses of `listen`, as far as they name one interface"},
    {"peers", SITE(peers), &type_maps, "", NO_BOUNDS, LOCAL,
     "the agents to learn with; conf.d/*.yaml beside this file adds one each"},
    {"store.keep_last", SITE(keep_last), &type_u32, "3", BOUNDS(1, 1000), LOCAL,
     "newest committed models kept on disk"},
    {"store.keep_best", SITE(keep_best), &type_u32, "2", BOUNDS(0, 1000), LOCAL,
     "best models kept beside them, by the validation split's headline over three rounds"},
    {"store.max_mib", SITE(store_max_mib), &type_u32, "0", BOUNDS(0, 1 << 30), LOCAL,
     "most that the state directory may take, as if the disk ended there; 0: only the disk itself is the bound"},
    {"accept_jobs", IN_SITE, 0, &type_keys, "", NO_BOUNDS, LOCAL,
     "public keys whose proposed job files are accepted at once; others wait for `starling job accept`"},
    {"payload_max_mib", SITE(payload_max_mib), &type_u32, "64", BOUNDS(1, 65536), LOCAL,
     "memory for updates being received, of all peers together"},
    {"trace_mib", SITE(trace_mib), &type_u32, "0", BOUNDS(0, 64), LOCAL,
     "ring of each job that holds the last of what its rounds were told and did, for `starling trace`; 0: nothing is "
     "recorded"},
    {"follow_max", SITE(follow_max), &type_u32, "12", BOUNDS(1, MAX_PEERS), LOCAL,
     "peers at most: each costs a copy of the model in memory"},
    {"kernels", SITE(kernels), &type_word, "measured", ONE_OF(kernels_words), LOCAL,
     "how training computes: as was measured on this host (a second at the first start), or by the built-in choice, "
     "which depends on the processor alone"},
    {"wire.metered", SITE(metered), &type_word, "false", ONE_OF(flag_words), LOCAL,
     "true where bytes are paid for: 25 s instead of 1 s between two signs of life, and so 100 s until silence is "
     "noticed"},
    {"wire.relay", SITE(relay), &type_word, "true", ONE_OF(flag_words), LOCAL,
     "whether two peers of this agent that cannot reach each other may meet through it: it carries what they say, "
     "encrypted, in bounded memory; with wire.metered it never does"},
    {"log.level", SITE(log_level), &type_word, "info", ONE_OF(log_level_words), LOCAL, "how much is logged"},
    {"log.format", SITE(log_format), &type_word, "text", ONE_OF(log_format_words), LOCAL,
     "key=value lines or JSON lines"},
    {"jobs", SITE(jobs), &type_maps, NULL, NO_BOUNDS, LOCAL,
     "what is learnt; at most 16, no two of one name and version"},

    {"name", PEER(name), &type_label, NULL, NO_BOUNDS, LOCAL, "what people here call the peer"},
    {"key", PEER(key), &type_key, NULL, NO_BOUNDS, LOCAL, "its public key, from `starling key show` there"},
    {"address", PEER(address), &type_address, "", NO_BOUNDS, LOCAL,
     "where it listens; without one it dials this agent"},

    {"job", SITE_JOB(job_path), &type_data_path, NULL, NO_BOUNDS, LOCAL, "the job file, equal on all sites"},
    {"data.train", SITE_JOB(train_path), &type_data_path, NULL, NO_BOUNDS, LOCAL,
     "training samples: CSV, IDX images (also .gz), or NumPy: x.npy, data.npz (arrays x and y), data.npz:ARRAY"},
    {"data.train_labels", SITE_JOB(train_labels), &type_data_path, "", NO_BOUNDS, LOCAL,
     "labels of data.train, for IDX and NumPy: y.npy, data.npz:ARRAY"},
    {"data.test", SITE_JOB(test_path), &type_data_path, "", NO_BOUNDS, LOCAL,
     "local test samples; without them `holdout` of data.train is the test split"},
    {"data.test_labels", SITE_JOB(test_labels), &type_data_path, "", NO_BOUNDS, LOCAL, "labels of data.test"},
    {"data.global_test", SITE_JOB(global_test_path), &type_data_path, "", NO_BOUNDS, LOCAL,
     "a test set that all sites share, to compare them"},
    {"data.global_test_labels", SITE_JOB(global_test_labels), &type_data_path, "", NO_BOUNDS, LOCAL,
     "labels of data.global_test"},
    {"data.part", SITE_JOB(part), &type_u32, "", BOUNDS(1, MAX_PARTS), LOCAL,
     "which part of a public set is this site's; exactly when the job has a `split`"},
    {"data.memory_max_mib", SITE_JOB(memory_max_mib), &type_u32, "4096", BOUNDS(4, 4194304), LOCAL,
     "MiB of memory that the samples may take, with what is read ahead; of more the inputs are streamed from a scratch "
     "file in state_dir, in the same order and with the same result"},
    {"train.seed", SITE_JOB(train_seed), &type_u64, "0", BOUNDS(0, max_seed), LOCAL,
     "seed of the order of samples and dropout"},
    {"data.watch", SITE_JOB(watch), &type_flag, "false", ONE_OF(flag_words), LOCAL,
     "true: data.train is a CSV file that grows, or a folder of CSV files in the order of their names, and is looked "
     "at before each "
     "training; whole lines are taken"},
    {"data.arrive", SITE_JOB(arrive), &type_u32, "0", BOUNDS(0, MAX_SAMPLES), LOCAL,
     "training samples that arrive a round, in the order of the file, for continual.boundaries: detected; 0: all that "
     "are there"},
    {"continual.offset", SITE_JOB(continual_offset), &type_offset, "0", BOUNDS(0, MAX_TASKS - 1), LOCAL,
     "where this site begins in the order of `continual.tasks`: so many tasks later, or `part`: data.part - 1 later; "
     "after the last one "
     "it goes on with the first"},
    {"merge.rule", SITE_JOB(rule.rule), &type_word, "mean", ONE_OF(merge_rule_words), LOCAL,
     "how peers' models are merged, `merge: mean` for short: mean; robust where a third of the peers may be bad (clip "
     "below 6 peers, nnm "
     "from 6 on; it costs about a point of accuracy); clip shortens what is far away and keeps bridges between groups; "
     "median, "
     "trimmed, krum, multi-krum, geometric-median, centred-clip and nnm choose; trust measures by this agent's own "
     "step, "
     "and costs 9 to 17 points where sites' data differ"},
    {"merge.byzantine", SITE_JOB(rule.byzantine), &type_byzantine, "third", BOUNDS(0, MAX_PEERS), LOCAL,
     "how many of the peers may be bad, third: of those heard; krum and multi-krum need 2f+3 models, what trims 2f+1 "
     "(the agent's own is one)"},
    {"merge.bucketing", SITE_JOB(rule.bucket), &type_u32, "1", BOUNDS(1, 8), LOCAL,
     "models that are averaged at random before a rule that chooses; 2 where honest sites differ much"},
    {"merge.norm_bound", SITE_JOB(rule.norm_bound), &type_number, "5", BOUNDS(1, 1e6), LOCAL,
     "a peer's difference is shortened to so many medians of those accepted lately, or so many of this agent's own "
     "steps"},
    {"merge.weights", SITE_JOB(weights), &type_word, "metropolis", ONE_OF(weights_words), LOCAL,
     "a peer's weight by the graph, by its number of samples, or by the graph and how alike its update of the round is "
     "to "
     "this agent's own"},
    {"merge.kappa", SITE_JOB(kappa), &type_number, "5", BOUNDS(0.01, 100), LOCAL,
     "of merge.weights: similarity: a weight times exp(kappa * cosine of the two updates), and all made to sum up to 1 "
     "with "
     "this agent's own; the larger the more like alone"},
    {"merge.max_share", SITE_JOB(max_share), &type_number, "0.5", BOUNDS(0.01, 1), LOCAL,
     "largest weight of one peer, whatever the rule; times the norm bound it is what one peer can move"},
    {"round.min_peers", SITE_JOB(min_peers), &type_u32, "(1; 0 without peers)", BOUNDS(0, MAX_PEERS), LOCAL,
     "peers that must contribute for a round to get its number; never counts this agent"},
    {"round.deadline_min_s", SITE_JOB(deadline_min_s), &type_number, "1", BOUNDS(0.01, 86400), LOCAL,
     "shortest wait for peers' updates"},
    {"round.deadline_max_s", SITE_JOB(deadline_max_s), &type_number, "120", BOUNDS(0.01, 604800), LOCAL,
     "longest wait for peers' updates"},
    {"round.every_s", SITE_JOB(every_s), &type_number, "0", BOUNDS(0, 604800), LOCAL,
     "least time from the start of one training to the next"},
    {"round.alone_rounds", SITE_JOB(alone_rounds), &type_u32, "3", BOUNDS(1, 1000000), LOCAL,
     "rounds without min_peers before this agent stops training and only dials"},
    {"round.meet_s", SITE_JOB(meet_s), &type_number, "(30; 0 without peers)", BOUNDS(0, 86400), LOCAL,
     "how long a new agent waits for its peers before the first round"},
    {"round.linger_s", SITE_JOB(linger_s), &type_number, "(2 * deadline_max_s)", BOUNDS(0, 1209600), LOCAL,
     "how long a finished agent serves peers that are not"},
    {"round.staleness_max", SITE_JOB(staleness_max), &type_u32, "5", BOUNDS(0, 1000), LOCAL,
     "rounds by which a peer's model may lag and still count"},
    {"alone.shadow", SITE_JOB(shadow), &type_word, "auto", ONE_OF(shadow_words), LOCAL,
     "a model trained here alone beside the swarm's, for `compare`; auto while that takes below 10 % of a round"},
    {"serve", SITE_JOB(serve), &type_word, "best", ONE_OF(serve_words), LOCAL,
     "the model that others use: the best on the validation split, the latest, or the newest pinned one; `starling "
     "models "
     "serve` overrides it"},
    {"when_done", SITE_JOB(when_done), &type_word, "exit", ONE_OF(when_done_words), LOCAL,
     "end after the job's last round, or go on serving peers and status"},

    {"job", JOB(name), &type_label, NULL, NO_BOUNDS, MUST_AGREE, "name of the job"},
    {"version", JOB(version), &type_u32, "1", BOUNDS(1, 1000000), MUST_AGREE,
     "version of the job; another one is another job"},
    {"run_label", JOB(run_label), &type_label, "", NO_BOUNDS, MUST_AGREE, "tells runs of one job apart"},
    {"task", CONTRACT(task), &type_word, NULL, ONE_OF(task_words), MUST_AGREE,
     "predict a class, a number, a set of classes (multilabel), or find anomalies by giving the inputs back "
     "(reconstruct)"},
    {"loss", CONTRACT(loss), &type_word,
     "(cross-entropy; mean-squared-error to regress and reconstruct; binary-cross-entropy for multilabel)",
     ONE_OF(loss_words), MUST_AGREE, "what training minimises; huber to regress where some targets are far off"},
    {"metric", CONTRACT(metric), &type_word, "(accuracy; r2 to regress; macro-f1 for multilabel; auc to reconstruct)",
     ONE_OF(metric_words), MUST_AGREE, "the headline in every view; auc for two classes, macro-f1 for rare ones"},
    {"label", CONTRACT(label), &type_name, "", NO_BOUNDS, MUST_AGREE,
     "CSV column of the class or number, by name or counted from 1 (a job learns one number: of several make a job of "
     "each); multilabel: of classes with ';' between them, and without it each class is a column of its name with 0 or "
     "1; NumPy labels are numbers of classes, numbers, or an array [n, classes] of 0 and 1"},
    {"classes", CONTRACT(classes), &type_classes, "", NO_BOUNDS, MUST_AGREE,
     "names of the classes; the order counts; to reconstruct the first is normal, every other an anomaly"},
    {"features", CONTRACT(features), &type_features, "", NO_BOUNDS, MUST_AGREE,
     "CSV columns of the inputs, each a name or { name, unit, range, missing }, or { name, categories } for texts: an "
     "input "
     "each, `other` takes those that are not listed, `missing` empty fields; the order counts"},
    {"missing", CONTRACT(missing), &type_missing, "refused", NO_BOUNDS, MUST_AGREE,
     "empty fields of numbers: refused, mean (that of `scale`), or number 0; a feature's own `missing` comes first"},
    {"input", CONTRACT(height), &type_shape, "", NO_BOUNDS, MUST_AGREE,
     "images: height x width x channels, as in 28x28x1; series: steps x values, as in 128x9"},
    {"range", CONTRACT(range_lo), &type_range, "(0..1 with `input`, else none)", NO_BOUNDS, MUST_AGREE,
     "what raw inputs range over, as in 0..255; bytes of images stand for it from end to end"},
    {"scale", CONTRACT(scale), &type_scale, "none", NO_BOUNDS, MUST_AGREE,
     "standardisation: none, { mean, sd } with the numbers, pooled (of all sites together), or local (each site its "
     "own)"},
    {"holdout", CONTRACT(holdout), &type_number, "0.2", BOUNDS(0, 0.9), MUST_AGREE,
     "fraction of the samples kept as local test where a site names no test file"},
    {"validation", CONTRACT(validation), &type_number, "0.1", BOUNDS(0, 0.9), MUST_AGREE,
     "fraction of the samples kept apart to choose between models, never trained on and never the test; 0 = none"},
    {"holdout_by", CONTRACT(holdout_by), &type_name, "", NO_BOUNDS, MUST_AGREE,
     "CSV column, such as a patient's number, whose rows are all in one split; need not be a feature"},
    {"split.rule", CONTRACT(split), &type_split_rule, "none", ONE_OF(split_words), MUST_AGREE,
     "how a public set is divided: iid, dirichlet ALPHA, shards K, or groups K, each of which has classes of its own"},
    {"split.n", CONTRACT(split.n_parts), &type_u32, "", BOUNDS(1, MAX_PARTS), MUST_AGREE, "into how many parts"},
    {"split.samples", CONTRACT(split.samples), &type_u32, "", BOUNDS(1, MAX_SAMPLES), MUST_AGREE,
     "samples of each part on average: so many of the set, chosen by the seed, are divided; without it all are"},
    {"split.seed", CONTRACT(split.seed), &type_u64, "0", BOUNDS(0, max_seed), MUST_AGREE, "seed of the division"},
    {"init_seed", CONTRACT(init_seed), &type_u64, "0", BOUNDS(0, max_seed), MUST_AGREE, "seed of the first weights"},
    {"init.from", IN_JOB, 0, &type_init_from, "", NO_BOUNDS, MUST_AGREE,
     "start from this site's model of that job and version where names and shapes are equal, as in inspection@1"},
    {"model", JOB(arch), &type_arch, NULL, NO_BOUNDS, MUST_AGREE,
     "layers, as in dense 64, relu, dropout 0.2, dense classes; of images conv 3x3x16 pad 1, batchnorm, relu, pool 2, "
     "dense classes; `starling help layers` explains them all"},
    {"personal.method", JOB(train.personal.method), &type_word, "(none; partial with personal.layers)",
     ONE_OF(personal_words), ANNOUNCED,
     "what a site makes of the swarm's model for itself, which is judged and served there: none; partial (layers that "
     "stay "
     "here); finetune (an epoch more here after each merge); ditto (a model of its own that is pulled to the swarm's); "
     "interpolate (a model of its own mixed with the swarm's as the validation samples say)"},
    {"personal.head_epochs", JOB(train.personal.head_epochs), &type_u32, "0", BOUNDS(0, 1000), ANNOUNCED,
     "partial: FedRep, passes a round in which only the personal layers are trained, before the others alone are; 0: "
     "FedPer, all "
     "together"},
    {"personal.lambda", JOB(train.personal.lambda), &type_number, "0.1", BOUNDS(0, 1000000), ANNOUNCED,
     "ditto: how strongly the own model is pulled to the swarm's"},
    {"personal.layers", JOB(personal_layers), &type_layers, "", NO_BOUNDS, MUST_AGREE,
     "layers that stay here and are never sent, by name or by kind, as in [ dense2 ] or [ batchnorm ]"},
    {"train.epochs", JOB(train.epochs), &type_u32, "1", BOUNDS(1, 10000), ANNOUNCED,
     "passes over the local samples a round"},
    {"train.steps", JOB(train.steps), &type_steps, "", BOUNDS(1, 1000000000), ANNOUNCED,
     "training steps a round, instead of epochs; auto: as many as the swarm's median of one epoch, so that unequal "
     "sites do "
     "equal work"},
    {"train.batch", JOB(train.batch), &type_u32, "32", BOUNDS(1, MAX_BATCH), ANNOUNCED, "samples a step"},
    {"train.optimizer", JOB(train.optimiser.kind), &type_word, "sgd", ONE_OF(optimiser_words), ANNOUNCED,
     "how a gradient becomes a step"},
    {"train.learning_rate", JOB(train.learning_rate), &type_number, "(0.05; 0.001 for adam and adamw)",
     BOUNDS(1e-9, 1000), ANNOUNCED, "size of a step"},
    {"train.momentum", JOB(train.optimiser.momentum), &type_number, "0.9", BOUNDS(0, 0.9999), ANNOUNCED,
     "sgd: share of the last step kept"},
    {"train.nesterov", JOB(train.optimiser.nesterov), &type_flag, "false", ONE_OF(flag_words), ANNOUNCED,
     "sgd: look ahead along the momentum"},
    {"train.beta1", JOB(train.optimiser.beta1), &type_number, "0.9", BOUNDS(0, 0.9999), ANNOUNCED,
     "adam, adamw: share of the mean gradient kept"},
    {"train.beta2", JOB(train.optimiser.beta2), &type_number, "0.999", BOUNDS(0, 0.999999), ANNOUNCED,
     "adam, adamw: share of the mean squared gradient kept"},
    {"train.epsilon", JOB(train.optimiser.epsilon), &type_number, "1e-8", BOUNDS(1e-12, 1), ANNOUNCED,
     "adam, adamw: what is added to its root"},
    {"train.weight_decay", JOB(train.optimiser.weight_decay), &type_number, "0", BOUNDS(0, 1), ANNOUNCED,
     "pull of weights towards 0; adamw: apart from the gradient"},
    {"train.clip_norm", JOB(train.optimiser.clip_norm), &type_number, "0", BOUNDS(0, 1000000), ANNOUNCED,
     "a gradient longer than this is scaled down to it; 0: never"},
    {"train.label_smoothing", JOB(train.label_smoothing), &type_number, "0", BOUNDS(0, 0.99), ANNOUNCED,
     "cross-entropy: share of a sample's answer that is spread over all classes"},
    {"train.huber_delta", JOB(train.huber_delta), &type_number, "1", BOUNDS(1e-6, 1000000), ANNOUNCED,
     "huber: from which error on it counts in proportion, not squared"},
    {"train.class_weights", JOB(train.class_weights), &type_class_weights, "none", ONE_OF(class_weight_words),
     ANNOUNCED,
     "how much a sample of each class counts: none, balanced (rare ones more, by this site's samples), or a number "
     "each"},
    {"train.momentum_reset", JOB(train.momentum_reset), &type_flag, "false", ONE_OF(flag_words), ANNOUNCED,
     "forget momentum, and adam's means, before each round: they point where this site alone would go"},
    {"train.control_variates", JOB(train.control_variates), &type_flag, "false", ONE_OF(flag_words), ANNOUNCED,
     "SCAFFOLD for gossip: local steps are corrected by how far this site's gradient lies from its neighbourhood's; "
     "needs "
     "sgd with momentum: 0"},
    {"train.proximal", JOB(train.proximal), &type_number, "0", BOUNDS(0, 1000000), ANNOUNCED,
     "FedProx: pull of the weights towards the model with which the round began; 0.01 to 1 against drift on skewed "
     "data"},
    {"train.schedule", JOB(train.schedule), &type_word, "constant", ONE_OF(schedule_words), ANNOUNCED,
     "learning rate over the rounds; cosine needs `count`"},
    {"train.step_rounds", JOB(train.step_rounds), &type_u32, "10", BOUNDS(1, 1000000), ANNOUNCED,
     "schedule step: rounds between two steps"},
    {"train.step_factor", JOB(train.step_factor), &type_number, "0.5", BOUNDS(1e-6, 1), ANNOUNCED,
     "schedule step: what the rate is multiplied by"},
    {"merge.statistics", JOB(statistics), &type_word, "pooled", ONE_OF(statistic_words), MUST_AGREE,
     "running means and variances of batchnorm in a merge: pooled (of all samples together), mean (averaged as "
     "weights), or local (each site its own)"},
    {"continual.tasks", IN_JOB, 0, &type_tasks, "", NO_BOUNDS, ANNOUNCED,
     "groups of classes that a site learns one after the other, as in [ [ shirt, coat ], [ boot, bag ] ]; a class in "
     "no group is not "
     "trained on; without it all are learnt at once"},
    {"continual.kind", JOB(continual.tasks.kind), &type_word, "class-incremental", ONE_OF(increment_words), ANNOUNCED,
     "class-incremental: the classes seen so far compete; task-incremental: the task is known with a sample, its "
     "classes compete; "
     "domain-incremental: the model says the place of a class in its group"},
    {"continual.rounds", JOB(continual.rounds), &type_u32, "", BOUNDS(1, 1000000), ANNOUNCED,
     "rounds that a task lasts; the last one lasts as long as the job"},
    {"continual.boundaries", JOB(continual.boundaries), &type_word, "rounds", ONE_OF(boundaries_words), ANNOUNCED,
     "rounds: a task lasts continual.rounds; detected: it ends where new samples of a site are of another kind than "
     "those before, by their "
     "loss, labels or inputs"},
    {"continual.false_alarm", JOB(continual.false_alarm), &type_number, "0.001", BOUNDS(1e-12, 0.5), ANNOUNCED,
     "detected: chance that a round without change ends a task all the same"},
    {"continual.replay", JOB(continual.replay), &type_u32, "0", BOUNDS(0, 1000000), ANNOUNCED,
     "samples a class that are kept of tasks that are over, encrypted in the state directory, and rehearsed"},
    {"continual.replay_rule", JOB(continual.replay_rule), &type_word, "balanced", ONE_OF(replay_rule_words), ANNOUNCED,
     "which: as many of each class, or a reservoir over all that came; either at random"},
    {"continual.replay_use", JOB(continual.replay_use), &type_word, "mixed", ONE_OF(replay_use_words), ANNOUNCED,
     "how: in the loss beside the new samples, or a-gem: a step is projected so that it does not undo them"},
    {"continual.ewc", JOB(continual.ewc), &type_number, "0", BOUNDS(0, 1e12), ANNOUNCED,
     "pull towards the weights that earlier tasks ended with, by their Fisher information; look for it on a "
     "logarithmic grid, 1e2 to "
     "1e10; 0: none"},
    {"continual.ewc_rule", JOB(continual.ewc_rule), &type_word, "online", ONE_OF(ewc_rule_words), ANNOUNCED,
     "online: towards the newest weights, older information fades; separate: towards those of each task"},
    {"continual.ewc_decay", JOB(continual.ewc_decay), &type_number, "0.95", BOUNDS(0, 1), ANNOUNCED,
     "online: what is left of older Fisher information at each new task"},
    {"continual.ewc_samples", JOB(continual.ewc_samples), &type_u32, "1000", BOUNDS(MIN_FISHER_SAMPLES, 1000000),
     ANNOUNCED,
     "samples of a task from which its Fisher information is measured, one at a time; all where there are fewer"},
    {"continual.lwf", JOB(continual.lwf), &type_flag, "false", ONE_OF(flag_words), ANNOUNCED,
     "learning without forgetting: what the model of the task before says of new samples is kept, at temperature 2"},
    {"cluster.groups", JOB(cluster), &type_groups, "none", BOUNDS(1, MAX_GROUPS), MUST_AGREE,
     "sites whose data pull the model in like directions learn together, the others apart: none, how many groups there "
     "are (looked for once more sites are known), or auto; 1 with kappa: by likeness alone; not with a topology but "
     "peers or full"},
    {"cluster.max", JOB(cluster.groups.most), &type_u32, "8", BOUNDS(2, MAX_GROUPS), MUST_AGREE,
     "groups auto: at most so many"},
    {"cluster.steps", JOB(cluster.steps), &type_u32, "50", BOUNDS(1, 10000), MUST_AGREE,
     "training steps from the first weights whose change is a site's direction"},
    {"cluster.kappa", JOB(cluster.kappa), &type_number, "0", BOUNDS(0, 100), MUST_AGREE,
     "within a group a peer's weight is multiplied by exp(kappa (cos - 1)) of the two directions; 0: all count alike"},
    {"cluster.shift", JOB(cluster.shift), &type_number, "0.2", BOUNDS(0.01, 1), MUST_AGREE,
     "a site is placed anew when more than this share of its training samples would have to change class to be "
     "distributed as before, and when its loss leaps"},
    {"topology", JOB(topology), &type_topology, "peers", ONE_OF(topology_words), MUST_AGREE,
     "who averages with whom: peers (all that are configured), full, ring, regular K (K others each), exponential "
     "(those 1, "
     "2, 4 … places away), or random K (others each round, among all); every site makes the same graph of the keys of "
     "all, "
     "so all have to list the same members"},
    {"average", JOB(average), &type_word, "neighbours", ONE_OF(average_words), MUST_AGREE,
     "neighbours: models are mixed with those of peers, by weights of both ends; push-sum: each gives parts of its own "
     "away, along a directed topology, which finds the mean of all over one-way links and losses"},
    {"activate.ready", JOB(activate_ready), &type_u32, "", BOUNDS(1, MAX_PEERS), ANNOUNCED,
     "take over serving from the version before when so many peers have a committed round and it is not worse here"},
    {"activate.by", IN_JOB, 0, &type_only_word, "compare", ONE_OF(activate_words), ANNOUNCED,
     "not worse means: the mean of three rounds' headlines on this site's validation split"},
    {"codec", CONTRACT(codec), &type_codec, "f32", ONE_OF(codec_words), MUST_AGREE,
     "encoding of updates: f16 halves the bytes, q8 takes a quarter and q4 an eighth by rounding at random, topk 0.01 "
     "sends the largest hundredth of the differences; f32 and f16 may mix"},
    {"count", JOB(count), &type_u64, "", BOUNDS(1, 1000000000), ANNOUNCED,
     "number of the last round; without it, for ever"},
};

const size_t n_options = sizeof option_table / sizeof *option_table;
_Static_assert(sizeof option_table / sizeof *option_table <= MAX_OPTIONS, "raise MAX_OPTIONS");
_Static_assert(sizeof(enum task) == sizeof(unsigned), "see read_word");
_Static_assert(sizeof(enum statistic_policy) == sizeof(unsigned), "see read_word");
_Static_assert(sizeof(enum average_rule) == sizeof(unsigned), "see read_word");
_Static_assert(sizeof(enum merge_rule) == sizeof(unsigned), "see read_word");

/* ---- reading by the table ----------------------------------------------------------------------------------------- */

const struct option *option_find(enum option_group group, const char *path) {
  for (size_t i = 0; i < n_options; i++)
    if (option_group(&option_table[i]) == group && strcmp(option_table[i].path, path) == 0)
      return &option_table[i];
  return NULL;
}

/* Whether the path is a map of further keys. */
static bool is_section(enum option_group group, const char *path) {
  size_t n = strlen(path);
  for (size_t i = 0; i < n_options; i++)
    if (option_group(&option_table[i]) == group && strncmp(option_table[i].path, path, n) == 0 &&
        option_table[i].path[n] == '.')
      return true;
  return false;
}

static const char *last_part(const char *path) {
  const char *dot = strrchr(path, '.');
  return dot ? dot + 1 : path;
}

/* The known key that a mistyped one is nearest to, first in its own group; NULL: none is near. */
static const struct option *option_nearest(enum option_group group, const char *path) {
  const struct option *best = NULL;
  size_t best_cost = SIZE_MAX;
  for (size_t i = 0; i < n_options; i++) {
    const struct option *o = &option_table[i];
    const char *known = last_part(o->path), *typed = last_part(path);
    size_t whole = edit_distance(path, o->path), part = edit_distance(typed, known);
    size_t cost = 4 * (whole < part ? whole : part) + (whole < part ? 0 : 1) + (option_group(o) == group ? 0 : 2);
    if ((is_near(path, o->path) || is_near(typed, known)) && cost < best_cost)
      best = o, best_cost = cost;
  }
  return best;
}

static enum err fail_unknown(struct option_reader *r, enum option_group group, const struct tree *child,
                             const char *path) {
  static const char *const homes[N_OPTION_GROUPS] = {
      [GROUP_SITE] = "", [GROUP_PEER] = "", [GROUP_SITE_JOB] = "", [GROUP_JOB] = " of the job file"};
  const struct option *near = option_nearest(group, path);
  if (!near)
    return option_fail_at(r, ERR_SYNTAX, child->key_place,
                          "unknown key \"%.60s\"; `starling config keys` lists the known ones", path);
  return option_fail_at(r, ERR_SYNTAX, child->key_place, "unknown key \"%.60s\"; did you mean %s%s%s?", path,
                        option_prefix(near), near->path, option_group(near) == group ? "" : homes[option_group(near)]);
}

static enum err read_option(struct option_reader *r, const struct option *o, const struct tree *value) {
  if (r->keeps_given && option_is_given(r, o))
    return ERR_OK;
  r->origins[option_index(o)] = (struct option_origin){r->file, value->place};
  enum err e = o->type->is_list ? ERR_OK : option_need_text(r, o, value);
  return e ? e : o->type->read(r, o, value, r->bases[o->base]);
}

static enum err read_section(struct option_reader *r, enum option_group group, const struct tree *map,
                             const char *section);

static enum err read_child(struct option_reader *r, enum option_group group, const struct tree *child,
                           const char *path) {
  const struct option *o = option_find(group, path);
  if (o)
    return read_option(r, o, child);
  if (!is_section(group, path))
    return fail_unknown(r, group, child, path);
  if (child->kind == TREE_MAP)
    return read_section(r, group, child, path);
  char rule[MAX_REASON_BYTES];
  snprintf(rule, sizeof rule, "%s.rule", path);
  o = option_find(group, rule); /* `merge: mean` for `merge: { rule: mean }` */
  if (o && child->kind == TREE_TEXT)
    return read_option(r, o, child);
  return option_fail_at(r, ERR_SYNTAX, child->place, "%s%s: keys are expected here; write %s: { KEY: VALUE }",
                        group_prefixes[group], path, path);
}

static enum err read_section(struct option_reader *r, enum option_group group, const struct tree *map,
                             const char *section) {
  for (const struct tree *child = map->first; child; child = child->next) {
    char path[MAX_REASON_BYTES - 8];
    snprintf(path, sizeof path, "%.100s%s%.100s", section, section[0] ? "." : "", child->key);
    for (const struct tree *earlier = map->first; earlier != child; earlier = earlier->next)
      if (strcmp(earlier->key, child->key) == 0)
        return option_fail_at(r, ERR_EXISTS, child->key_place, "%s%s: the key stands in line %u already; remove one",
                              group_prefixes[group], path, earlier->key_place.line);
    enum err e = read_child(r, group, child, path);
    if (e)
      return e;
  }
  return ERR_OK;
}

enum err option_read_map(struct option_reader *r, enum option_group group, const struct tree *map) {
  if (map->kind != TREE_MAP)
    return option_fail_at(r, ERR_SYNTAX, map->place, "no keys; write lines of the form KEY: VALUE");
  return read_section(r, group, map, "");
}

enum err option_read_defaults(struct option_reader *r, enum option_group group, const struct tree *map) {
  for (const struct option *o = option_table; o < option_table + n_options; o++) {
    if (option_group(o) != group || option_is_given(r, o))
      continue;
    if (!o->fallback)
      return option_fail(r, o, ERR_SYNTAX, map, "is missing; write %s: %s (%s)", o->path, o->type->name, o->sentence);
    if (o->fallback[0] == '\0' || o->fallback[0] == '(')
      continue;
    char text[MAX_REASON_BYTES];
    snprintf(text, sizeof text, "%s", o->fallback);
    enum err e = o->type->read(r, o, &(struct tree){.kind = TREE_TEXT, .text = text}, r->bases[o->base]);
    if (e)
      return e;
  }
  return ERR_OK;
}

enum err option_read_variable(struct option_reader *r, const struct option *o, const char *variable, const char *text) {
  const char *file = r->file;
  char *copy = strdup(text);
  if (!copy)
    return option_no_memory(r);
  r->file = variable;
  enum err e = read_option(r, o, &(struct tree){.kind = TREE_TEXT, .text = copy});
  r->file = file;
  free(copy);
  return e;
}

bool option_is_given(const struct option_reader *r, const struct option *o) {
  return r->origins[option_index(o)].file != NULL;
}

void option_write(const struct option_reader *r, const struct option *o, FILE *out) {
  o->type->write(o, r->bases[o->base], out);
}
