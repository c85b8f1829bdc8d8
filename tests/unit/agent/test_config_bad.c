/* Malformed configurations: each names its error, its place and what to write instead. */
#include "agent/config.h"
#include "tests/unit/agent/site_folder.h"
#include "tests/unit/suite.h"

/* NULL: the good one of site_folder.h. */
#define ONE_PEER GOOD_HEAD "peers:\n  - { name: b, key: @2 }\n" GOOD_JOBS
#define THREE_PEERS                                                                                                    \
  GOOD_HEAD "peers:\n  - { name: b, key: @2 }\n  - { name: a, key: @1 }\n  - { name: c, key: @3 }\n" GOOD_JOBS

static const struct {
  const char *site, *job;
  enum err e;
  const char *place, *phrase;
} cases[] = {
    /* not YAML, or not the YAML that is read here */
    {"", NULL, ERR_SYNTAX, "site.yaml:1:1: ", "empty"},
    {"# only a comment\n", NULL, ERR_SYNTAX, "site.yaml:1:1: ", "empty"},
    {"hello\n", NULL, ERR_SYNTAX, "site.yaml:1:1: ", "write lines of the form KEY: VALUE"},
    {"- a\n- b\n", NULL, ERR_SYNTAX, "site.yaml:1:1: ", "write lines of the form KEY: VALUE"},
    {"swarm: s\nlog:\n\tlevel: info\n", NULL, ERR_SYNTAX, "site.yaml:3:1: ", "a tab; write spaces"},
    {"swarm: s\nname: caf\xe9\n", NULL, ERR_SYNTAX, "site.yaml:2:10: ", "save the file as UTF-8"},
    {"swarm: s\nname: \xed\xa0\x80\n", NULL, ERR_SYNTAX, "site.yaml:2:7: ", "save the file as UTF-8"},
    {"name: \xc3\xa9\x07\n", NULL, ERR_SYNTAX, "site.yaml:1:8: ", "a control character; remove it"},
    {"name: \"a\\x01b\"\n", NULL, ERR_SYNTAX, "site.yaml:1:7: ", "write it in one line"},
    {"name: &n mec-07\n", NULL, ERR_SYNTAX, "site.yaml:1:7: ", "an anchor"},
    {"swarm: s\nname: *s\n", NULL, ERR_SYNTAX, "site.yaml:2:7: ", "an alias; write the value out"},
    {"name: !!str mec-07\n", NULL, ERR_SYNTAX, "site.yaml:1:7: ", "a tag"},
    {GOOD_SITE "---\nname: other\n", NULL, ERR_SYNTAX, "site.yaml:6:1: ", "a second document"},
    {"name: a: b\n", NULL, ERR_SYNTAX, "site.yaml:1:8: ", "quote the value"},
    {"swarm: s\nname mec-07\njobs: []\n", NULL, ERR_SYNTAX, "site.yaml:2:1: ", "a key without ':'"},
    {"swarm: s\npeers: [ a, b\n", NULL, ERR_SYNTAX, "site.yaml:2:8: ", "write ']'"},
    {"swarm: s\nname: \"mec-07\n", NULL, ERR_SYNTAX, "site.yaml:2:7: ", "the quotes that begin here"},
    {"? [ a ]\n: b\n", NULL, ERR_SYNTAX, "site.yaml:1:3: ", "a list or map as key"},
    {"listen: [[[[[[[[[[[[[[[[\n", NULL, ERR_LIMIT, "site.yaml:1:20: ", "nested too deeply"},

    /* keys */
    {"swarm: s\nnam: mec-07\n", NULL, ERR_SYNTAX, "site.yaml:2:1: ", "unknown key \"nam\"; did you mean name?"},
    {GOOD_HEAD "log: { levl: info }\n", NULL, ERR_SYNTAX, "site.yaml:3:8: ", "did you mean log.level?"},
    {GOOD_HEAD "keep_last: 3\n", NULL, ERR_SYNTAX, "site.yaml:3:1: ", "did you mean store.keep_last?"},
    {GOOD_HEAD "model: dense 4\n", NULL, ERR_SYNTAX, "site.yaml:3:1: ", "did you mean model of the job file?"},
    {GOOD_HEAD "banana_split: 3\n", NULL, ERR_SYNTAX, "site.yaml:3:1: ", "`starling config keys` lists"},
    {"swarm: s\nswarm: t\n", NULL, ERR_EXISTS, "site.yaml:2:1: ", "stands in line 1 already; remove one"},
    {GOOD_HEAD "log: { level: info, level: info }\n", NULL, ERR_EXISTS, "site.yaml:3:21: ", "log.level"},
    {"name: mec-07\n" GOOD_JOBS, NULL, ERR_SYNTAX, "site.yaml:1:1: ", "swarm: is missing; write swarm: a label"},
    {GOOD_HEAD, NULL, ERR_SYNTAX, "site.yaml:1:1: ", "jobs: is missing"},
    {GOOD_HEAD "log: info\n", NULL, ERR_SYNTAX, "site.yaml:3:6: ", "write log: { KEY: VALUE }"},
    {"swarm: s\nname:\n" GOOD_JOBS, NULL, ERR_SYNTAX, "site.yaml:2:6: ", "no value; write a label"},
    {"swarm: s\nname: [ a ]\n" GOOD_JOBS, NULL, ERR_SYNTAX, "site.yaml:2:7: ", "a list where one value is expected"},

    /* values */
    {"swarm: s\nname: mec 07\n", NULL, ERR_SYNTAX, "site.yaml:2:7: ", "write letters, digits"},
    {GOOD_HEAD "payload_max_mib: 5s\n", NULL, ERR_SYNTAX, "site.yaml:3:18: ", "write 5, units stand in the key's name"},
    {GOOD_HEAD "payload_max_mib: 010\n", NULL, ERR_SYNTAX, "site.yaml:3:18: ", "begins with 0"},
    {GOOD_HEAD "payload_max_mib: 0\n", NULL, ERR_RANGE, "site.yaml:3:18: ", "write 1 to 65536"},
    {GOOD_HEAD "store: { keep_last: -1 }\n", NULL, ERR_SYNTAX, "site.yaml:3:21: ", "digits only"},
    {GOOD_HEAD "log: { level: maybe }\n", NULL, ERR_SYNTAX, "site.yaml:3:15: ", "error, warning, info or debug"},
    {GOOD_SITE "    round: { deadline_min_s: \"0,5\" }\n", NULL, ERR_SYNTAX,
     "site.yaml:6:30: ", "jobs[].round.deadline_min_s: \"0,5\" is not a number; write 0.5"},
    {GOOD_SITE "    round: { deadline_min_s: nan }\n", NULL, ERR_SYNTAX, "site.yaml:6:30: ", "not a number"},
    {GOOD_SITE "    round: { deadline_min_s: 1e999 }\n", NULL, ERR_RANGE, "site.yaml:6:30: ", "write 0.01 to 86400"},
    {GOOD_SITE "    round: { deadline_min_s: 200 }\n", NULL, ERR_RANGE,
     "site.yaml:6:30: ", "200 is above round.deadline_max_s, which is 120"},
    {GOOD_SITE "    merge: medial\n", NULL, ERR_SYNTAX, "site.yaml:6:12: ", "jobs[].merge.rule: \"medial\""},
    {GOOD_SITE "    merge: { rule: trimmed, byzantine: few }\n", NULL, ERR_SYNTAX, "site.yaml:6:40: ", "or third"},
    {GOOD_SITE "    merge: { byzantine: 1 }\n", NULL, ERR_RANGE, "site.yaml:6:25: ", "mean counts no bad ones"},
    {GOOD_SITE "    merge: { rule: clip, bucketing: 2 }\n", NULL, ERR_RANGE,
     "site.yaml:6:37: ", "is of no use with clip"},
    {THREE_PEERS "    merge: { rule: trimmed, byzantine: 2 }\n", NULL, ERR_RANGE,
     "site.yaml:10:40: ", "with 2 bad ones trimmed needs at least 5 models, and there are 4 with this agent's own"},
    {THREE_PEERS "    merge: { rule: median, byzantine: 1, bucketing: 2 }\n", NULL, ERR_RANGE,
     "site.yaml:10:39: ", "with 1 bad ones median needs at least 3 buckets of models, and there are 2"},
    {THREE_PEERS "    merge: { rule: multi-krum, byzantine: 1 }\n", NULL, ERR_RANGE,
     "site.yaml:10:43: ", "with 1 bad ones multi-krum needs at least 5 models, and there are 4"},
    {GOOD_SITE "    merge: trust\n",
     "job: inspection\ntask: classify\nlabel: verdict\nclasses: [ ok, bad ]\nfeatures: [ a, b ]\n"
     "model: dense 4, relu, dense classes\npersonal: { layers: [ dense2 ] }\n",
     ERR_RANGE, "site.yaml:6:12: ", "personal.layers of the job keep some here"},
    {ONE_PEER "    merge: krum\n", NULL, ERR_RANGE,
     "site.yaml:8:12: ", "jobs[].merge.rule: krum needs at least 3 models"},
    {GOOD_SITE "    merge: { weights: equal }\n", NULL, ERR_SYNTAX,
     "site.yaml:6:23: ", "metropolis, samples or similarity"},
    {GOOD_SITE "    merge: { weights: similarity, kappa: -1 }\n", NULL, ERR_RANGE,
     "site.yaml:6:42: ", "write 0.01 to 100"},
    {GOOD_SITE "    merge: { weights: samples, kappa: 2 }\n", NULL, ERR_RANGE,
     "site.yaml:6:39: ", "jobs[].merge.kappa: is of merge.weights: similarity"},
    {GOOD_SITE "    merge: { weights: similarity, rule: median }\n", NULL, ERR_RANGE,
     "site.yaml:6:23: ", "similarity is of no use with merge.rule median; write mean or clip"},

    /* addresses and peers */
    {GOOD_HEAD "listen: [ \"tcp://*:*\" ]\n", NULL, ERR_SYNTAX, "site.yaml:3:11: ", "no numeric port"},
    {GOOD_HEAD "listen: [ \"tcp://*:7411\" ]\n", NULL, ERR_SYNTAX, "site.yaml:3:11: ", "write tcp://[::]:7411"},
    {GOOD_HEAD "listen: [ \"tcp://[::]:0\" ]\n", NULL, ERR_RANGE, "site.yaml:3:11: ", "write 1 to 65535"},
    {GOOD_HEAD "listen: [ \"tcp://[::]:65536\" ]\n", NULL, ERR_RANGE, "site.yaml:3:11: ", "write 1 to 65535"},
    {GOOD_HEAD "listen:\n  - \"tcp://[::]:7411x\"\n", NULL, ERR_SYNTAX, "site.yaml:4:5: ", "no numeric port"},
    {GOOD_HEAD "listen: [ tcp://1.2.3.4:5, tcp://1.2.3.4:5 ]\n", NULL, ERR_EXISTS, "site.yaml:3:28: ", "twice"},
    {GOOD_HEAD "peers: mec-03\n", NULL, ERR_SYNTAX, "site.yaml:3:8: ", "not a list"},
    {GOOD_HEAD "peers: [ mec-03 ]\n", NULL, ERR_SYNTAX, "site.yaml:3:10: ", "an entry without keys"},
    {GOOD_SITE "peers:\n  - name: a\n", NULL, ERR_SYNTAX, "site.yaml:7:5: ", "peers[].key: is missing"},
    {GOOD_SITE "peers:\n  - name: a\n    key: GHW8-AR2K\n", NULL, ERR_SYNTAX, "site.yaml:8:10: ", "starling key show"},
    {GOOD_SITE "peers:\n  - { name: a, key: @1, address: \"10.0.0.3:7411\" }\n", NULL, ERR_SYNTAX,
     "site.yaml:7:101: ", "write tcp://HOST:PORT"},
    {GOOD_SITE "peers:\n  - { name: a, key: @1, adress: \"tcp://a:1\" }\n", NULL, ERR_SYNTAX,
     "site.yaml:7:92: ", "did you mean peers[].address?"},
    {GOOD_SITE "peers:\n  - { name: a, key: @1 }\n  - { name: b, key: @1 }\n", NULL, ERR_EXISTS,
     "site.yaml:8: ", "b has the same key as a in "},
    {GOOD_SITE "peers:\n  - { name: a, key: @1 }\n  - { name: a, key: @2 }\n", NULL, ERR_EXISTS,
     "site.yaml:8: ", "a has the same name as a in "},
    {GOOD_SITE "follow_max: 1\npeers:\n  - { name: a, key: @1 }\n  - { name: b, key: @2 }\n", NULL, ERR_LIMIT,
     "site.yaml:6:13: ", "follow_max: 2 peers are configured, but at most 1 may be followed"},
    {GOOD_SITE "peers:\n  - { name: a, key: @1 }\n  - { name: b, key: @2 }\n", GOOD_JOB "topology: regular 3\n",
     ERR_RANGE,
     "a.job.yaml:7:11: ", "topology: regular 3 needs more than 3 agents and there are 3; write at most regular 2"},
    {GOOD_SITE "peers:\n  - { name: a, key: @1 }\n  - { name: b, key: @2 }\n", GOOD_JOB "topology: regular 1\n",
     ERR_RANGE, "a.job.yaml:7:11: ", "write regular 2 or more"},
    {GOOD_SITE "follow_max: 1\npeers:\n  - { name: a, key: @1 }\n  - { name: b, key: @2 }\n",
     GOOD_JOB "topology: random 1\n", ERR_LIMIT,
     "a.job.yaml:7:11: ", "topology: random 1 takes updates of 2 peers, but follow_max of the site file is 1"},
    {NULL, GOOD_JOB "topology: regular\n", ERR_SYNTAX, "a.job.yaml:7:11: ", "topology"},
    {NULL, GOOD_JOB "topology: regular 0\n", ERR_RANGE, "a.job.yaml:7:11: ", "topology"},
    {NULL, GOOD_JOB "topology: regular two\n", ERR_SYNTAX, "a.job.yaml:7:11: ", "topology"},
    {NULL, GOOD_JOB "average: push\n", ERR_SYNTAX, "a.job.yaml:7:10: average: ", "neighbours or push-sum"},
    {NULL, GOOD_JOB "average: push-sum\ncodec: q8\n", ERR_RANGE, "a.job.yaml:8:8: codec: ", "write f32"},
    {NULL, GOOD_JOB "average: push-sum\nmerge: { statistics: pooled }\n", ERR_RANGE,
     "a.job.yaml:8:22: merge.statistics: ", "write mean"},
    {NULL, GOOD_JOB "average: push-sum\ncluster: { groups: auto }\n", ERR_RANGE,
     "a.job.yaml:8:20: cluster.groups: ", "write groups: none or average: neighbours"},
    {THREE_PEERS "    merge: median\n", GOOD_JOB "average: push-sum\n", ERR_RANGE, "site.yaml:10:12: ",
     "median chooses among models, and average: push-sum of the job gives parts of sums; write mean"},
    {ONE_PEER "    merge: { weights: samples }\n", GOOD_JOB "average: push-sum\n", ERR_RANGE,
     "site.yaml:8:23: ", "jobs[].merge.weights: is of no use with average: push-sum"},
    {ONE_PEER "    merge: { max_share: 0.4 }\n", GOOD_JOB "average: push-sum\n", ERR_RANGE,
     "site.yaml:8:25: ", "jobs[].merge.max_share: is of no use with average: push-sum"},
    {NULL, GOOD_JOB "topology: star\n", ERR_SYNTAX, "a.job.yaml:7:11: ", "topology"},
    {NULL, GOOD_JOB "topology: ring 3\n", ERR_SYNTAX, "a.job.yaml:7:11: ", "topology"},
    {NULL, GOOD_JOB "train: { steps: auto, epochs: 2 }\n", ERR_EXISTS,
     "a.job.yaml:7:17: ", "train.epochs is given too"},
    {NULL, GOOD_JOB "train: { steps: automatic }\n", ERR_SYNTAX, "a.job.yaml:7:17: ", "train.steps"},
    {GOOD_SITE "    round: { min_peers: 300 }\n", NULL, ERR_RANGE, "site.yaml:6:25: ", "write 0 to 256"},

    /* jobs */
    {GOOD_HEAD "jobs: []\n", NULL, ERR_SYNTAX, "site.yaml:3:7: ", "no job; write at least one"},
    {GOOD_SITE "  - job: b.job.yaml\n    data: { train: x }\n", NULL, ERR_NOT_FOUND,
     "site.yaml:6:10: ", "b.job.yaml does not exist"},
    {GOOD_SITE "  - job: ./a.job.yaml\n    data: { train: x }\n", NULL, ERR_EXISTS,
     "site.yaml:6:10: ", "inspection@1 stands here twice"},
    {GOOD_SITE "  - job: a.job.yaml\n", NULL, ERR_SYNTAX, "site.yaml:6:5: ", "jobs[].data.train: is missing"},
    {GOOD_HEAD "jobs: [ {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {} ]\n", NULL, ERR_LIMIT,
     "site.yaml:3:7: ", "17 jobs; an agent runs at most 16"},
    {GOOD_HEAD "jobs:\n  - job: none.job.yaml\n    data: { train: x }\n", NULL, ERR_NOT_FOUND,
     "site.yaml:4:10: ", "none.job.yaml does not exist; fetch it with `starling job pull`"},
    {GOOD_HEAD "jobs:\n  - job: .\n    data: { train: x }\n", NULL, ERR_IO, "/.: ", "not a regular file"},
    {GOOD_HEAD "jobs:\n  - job: a.job.yaml\n", NULL, ERR_SYNTAX, "site.yaml:4:5: ", "jobs[].data.train: is missing"},
    {GOOD_HEAD "jobs:\n  - job: a.job.yaml\n    data: { train: x, test_labels: y }\n", NULL, ERR_SYNTAX,
     "site.yaml:5:36: ", "data.test is missing"},
    {GOOD_HEAD "jobs:\n  - job: a.job.yaml\n    data: { train: x, part: 1 }\n", NULL, ERR_SYNTAX,
     "site.yaml:5:29: ", "the job splits nothing; remove the line"},
    {NULL, GOOD_JOB "split: { rule: iid, n: 5 }\n", ERR_SYNTAX, "site.yaml:4:5: ", "write 1 to 5"},
    {GOOD_HEAD "jobs:\n  - job: a.job.yaml\n    data: { train: x, part: 6 }\n", GOOD_JOB "split: { rule: iid, n: 5 }\n",
     ERR_RANGE, "site.yaml:5:29: ", "6 is out of range; write 1 to 5"},
    {GOOD_HEAD "listen: { a: b }\n" GOOD_JOBS, NULL, ERR_SYNTAX, "site.yaml:3:", "write ["},
    {GOOD_HEAD "listen: [ [ a ] ]\n" GOOD_JOBS, NULL, ERR_SYNTAX, "site.yaml:3:", "not an address"},
    {GOOD_HEAD "listen: [ a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a ]\n" GOOD_JOBS, NULL, ERR_LIMIT,
     "site.yaml:3:", "17 addresses; write at most 16"},
    {NULL, GOOD_JOB "split: shards\n", ERR_SYNTAX, "a.job.yaml:7:8: ", "write as in shards 2"},
    {NULL, GOOD_JOB "split: shards 0\n", ERR_RANGE, "a.job.yaml:7:8: ", "write 1 to"},
    {NULL, GOOD_JOB "split: iid 2\n", ERR_SYNTAX, "a.job.yaml:7:8: ", "iid takes no number"},
    {NULL, GOOD_JOB "scale: { mean: { a: 1 }, sd: 2 }\n", ERR_SYNTAX, "a.job.yaml:7:", "needs both"},
    {NULL, GOOD_JOB "scale: { mean: [ ], sd: [ ] }\n", ERR_RANGE, "a.job.yaml:7:", "differ in length"},
    {NULL, GOOD_JOB "scale: { mean: [ [ 1 ], 2 ], sd: [ 1, 2 ] }\n", ERR_SYNTAX, "a.job.yaml:7:", "not a number"},
    {NULL, GOOD_JOB "scale: { mean: 1, mean: 2, sd: 1 }\n", ERR_EXISTS, "a.job.yaml:7:", "one `mean`"},
    {NULL, GOOD_JOB "init: { from: inspection }\n", ERR_SYNTAX, "a.job.yaml:7:", "the version is missing"},
    {NULL, GOOD_JOB "codec: topk\n", ERR_SYNTAX, "a.job.yaml:7:8: ", "write as in topk 0.01"},
    {NULL, GOOD_JOB "codec: q8 0.1\n", ERR_SYNTAX, "a.job.yaml:7:8: ", "q8 takes no number"},
    {NULL, GOOD_JOB "codec: topk 0.5\n", ERR_RANGE, "a.job.yaml:7:8: ", "0.25"},
    {NULL, GOOD_JOB "codec: q9\n", ERR_SYNTAX, "a.job.yaml:7:8: ", "f32, f16, q8, q4 or topk"},
    {NULL, GOOD_JOB "split: dirichlet\n", ERR_SYNTAX, "a.job.yaml:7:8: ", "write as in dirichlet 0.3"},
    {NULL, GOOD_JOB "split: { rule: iid 3, n: 5 }\n", ERR_SYNTAX, "a.job.yaml:7:16: ", "iid takes no number"},
    {NULL, GOOD_JOB "split: { rule: stripes, n: 5 }\n", ERR_SYNTAX,
     "a.job.yaml:7:16: ", "none, iid, dirichlet, shards or groups"},
    {NULL, GOOD_JOB "split: { rule: shards 2 }\n", ERR_SYNTAX, "a.job.yaml:7:16: ", "split.n is missing"},
    {NULL, GOOD_JOB "split: { n: 5 }\n", ERR_SYNTAX, "a.job.yaml:7:13: ", "there is no split.rule"},
    {NULL, GOOD_JOB "train: { steps: 5, epochs: 1 }\n", ERR_EXISTS, "a.job.yaml:7:17: ", "remove one"},
    {NULL, GOOD_JOB "train: { schedule: cosine }\n", ERR_SYNTAX, "a.job.yaml:7:20: ", "write count: N"},
    {NULL, GOOD_JOB "train: { optimizer: adma }\n", ERR_SYNTAX, "a.job.yaml:7:21: ", "adam"},
    {NULL, GOOD_JOB "train: { optimizer: adam, momentum: 0.9 }\n", ERR_RANGE,
     "a.job.yaml:7:37: ", "is of sgd; remove the line"},
    {NULL, GOOD_JOB "train: { optimizer: adam, nesterov: true }\n", ERR_RANGE, "a.job.yaml:7:37: ", "is of sgd"},
    {NULL, GOOD_JOB "train: { beta1: 0.9 }\n", ERR_RANGE, "a.job.yaml:7:17: ", "is of adam and adamw"},
    {NULL, GOOD_JOB "train: { beta2: 0.9 }\n", ERR_RANGE, "a.job.yaml:7:17: ", "is of adam and adamw"},
    {NULL, GOOD_JOB "train: { epsilon: 1e-8 }\n", ERR_RANGE, "a.job.yaml:7:19: ", "is of adam and adamw"},
    {NULL, GOOD_JOB "train: { nesterov: true, momentum: 0 }\n", ERR_RANGE,
     "a.job.yaml:7:20: ", "needs a momentum above 0"},
    {NULL, GOOD_JOB "train: { nesterov: yes }\n", ERR_SYNTAX, "a.job.yaml:7:20: ", "train.nesterov"},
    {NULL, GOOD_JOB "train: { optimizer: adam, beta2: 1 }\n", ERR_RANGE, "a.job.yaml:7:34: ", "out of range"},
    {NULL, GOOD_JOB "train: { clip_norm: -1 }\n", ERR_RANGE, "a.job.yaml:7:21: ", "train.clip_norm"},
    {NULL, GOOD_JOB "cluster: { groups: 17 }\n", ERR_RANGE,
     "a.job.yaml:7:20: cluster.groups: ", "write none, auto, or 1 to 16"},
    {NULL, GOOD_JOB "cluster: { groups: 2.5 }\n", ERR_RANGE, "a.job.yaml:7:20: cluster.groups: ", "1 to 16"},
    {NULL, GOOD_JOB "cluster: { groups: some }\n", ERR_SYNTAX, "a.job.yaml:7:20: cluster.groups: ", "1 to 16"},
    {NULL, GOOD_JOB "cluster: { kappa: 2 }\n", ERR_RANGE, "a.job.yaml:7:19: cluster.kappa: ", "write cluster.groups"},
    {NULL, GOOD_JOB "cluster: { groups: 2, max: 3 }\n", ERR_RANGE,
     "a.job.yaml:7:28: cluster.max: ", "is of groups: auto"},
    {NULL, GOOD_JOB "cluster: { groups: 2 }\ntopology: ring\n", ERR_RANGE,
     "a.job.yaml:7:20: cluster.groups: ", "remove the line topology or write groups: none"},
    {GOOD_SITE "peers:\n  - { name: a, key: @1 }\n  - { name: b, key: @2 }\n", GOOD_JOB "cluster: { groups: 4 }\n",
     ERR_RANGE, "a.job.yaml:7:20: cluster.groups: ", "4 groups are more than the 3 agents that this one knows"},
    {NULL, GOOD_JOB "cluster: { groups: auto, kappa: -1 }\n", ERR_RANGE, "a.job.yaml:7:33: ", "out of range"},
    {NULL, GOOD_JOB "train: { label_smoothing: 1 }\n", ERR_RANGE, "a.job.yaml:7:27: ", "out of range"},
    {NULL, GOOD_JOB "train: { huber_delta: 1 }\n", ERR_RANGE, "a.job.yaml:7:23: ", "is of the loss huber"},
    {GOOD_HEAD "jobs:\n  - job: a.job.yaml\n    data: { train: p.npy, train_labels: y.npy, watch: true }\n", NULL,
     ERR_RANGE, "site.yaml:5:55: ", "is for CSV"},
    /* tasks */
    {NULL, GOOD_JOB "continual:\n  tasks: [ [ ok ], [ bad ] ]\n  rounds: 3\n  boundaries: detected\n", ERR_EXISTS,
     "a.job.yaml:9:11: ", "remove one of them"},
    {NULL, GOOD_JOB "continual:\n  tasks: [ [ ok ], [ bad ] ]\n  rounds: 3\n  false_alarm: 0.01\n", ERR_RANGE,
     "a.job.yaml:10:16: ", "boundaries: detected"},
    {GOOD_HEAD "jobs:\n  - job: a.job.yaml\n    data: { train: p.csv, arrive: 5 }\n", NULL, ERR_SYNTAX,
     "site.yaml:5:35: ", "remove the line"},
    {NULL, GOOD_JOB "continual:\n  tasks: [ [ ok ], [ bda ] ]\n  rounds: 3\n", ERR_RANGE,
     "a.job.yaml:8:22: ", "there is no class \"bda\""},
    {NULL, GOOD_JOB "continual:\n  tasks: [ [ ok ], [ bad, ok ] ]\n  rounds: 3\n", ERR_EXISTS,
     "a.job.yaml:8:27: ", "in a task already"},
    {NULL, GOOD_JOB "continual:\n  tasks: [ [ ok, bad ] ]\n  rounds: 3\n", ERR_RANGE,
     "a.job.yaml:8:10: ", "write 2 to 64"},
    {NULL, GOOD_JOB "continual:\n  tasks: [ ok, bad ]\n  rounds: 3\n", ERR_SYNTAX, "a.job.yaml:8:12: ", "not a task"},
    {NULL, GOOD_JOB "continual:\n  tasks: all\n  rounds: 3\n", ERR_SYNTAX, "a.job.yaml:8:10: ", "not a list"},
    {NULL, GOOD_JOB "continual:\n  tasks: [ [ ok ], [ bad ] ]\n", ERR_SYNTAX,
     "a.job.yaml:1:1: ", "continual.rounds: is missing"},
    {NULL, GOOD_JOB "continual:\n  replay: 5\n", ERR_SYNTAX, "a.job.yaml:8:11: ", "continual.tasks is missing"},
    {NULL, GOOD_JOB "continual:\n  tasks: [ [ ok ], [ bad ] ]\n  rounds: 3\n  ewc: -1\n", ERR_RANGE,
     "a.job.yaml:10:8: ", "write 0 to"},
    {NULL, GOOD_JOB "continual:\n  tasks: [ [ ok ], [ bad ] ]\n  rounds: 3\n  ewc_samples: 100\n", ERR_RANGE,
     "a.job.yaml:10:16: ", "write 500 to"},
    {NULL, GOOD_JOB "continual:\n  tasks: [ [ ok ], [ bad ] ]\n  rounds: 3\n  replay_use: a-gem\n", ERR_RANGE,
     "a.job.yaml:10:15: ", "a-gem needs samples"},
    {NULL, GOOD_JOB "continual:\n  tasks: [ [ ok ], [ bad ] ]\n  rounds: 3\n  replay: 5\n  lwf: true\n", ERR_EXISTS,
     "a.job.yaml:11:8: ", "remove one of them"},
    {NULL, GOOD_JOB "continual:\n  tasks: [ [ ok ], [ bad ] ]\n  rounds: 3\n  kind: class\n", ERR_SYNTAX,
     "a.job.yaml:10:9: ", "class-incremental"},
    {NULL, GOOD_JOB "continual:\n  tasks: [ [ ok ], [ bad ] ]\n  rounds: 3\ntrain: { label_smoothing: 0.1 }\n",
     ERR_RANGE, "a.job.yaml:10:27: ", "continual.tasks"},
    {NULL,
     GOOD_JOB "continual:\n  kind: domain-incremental\n  tasks: [ [ ok ], [ bad ] ]\n  rounds: 3\n"
              "train: { class_weights: balanced }\n",
     ERR_RANGE, "a.job.yaml:11:25: ", "places in a group"},
    {GOOD_SITE "    continual: { offset: 1 }\n", NULL, ERR_SYNTAX,
     "site.yaml:6:26: ", "the job has no continual.tasks"},
    {GOOD_SITE "    continual: { offset: part }\n", GOOD_JOB "continual:\n  tasks: [ [ ok ], [ bad ] ]\n  rounds: 3\n",
     ERR_SYNTAX, "site.yaml:6:26: ", "there is no part"},
    {NULL, GOOD_JOB "train: { class_weights: [ 1 ] }\n", ERR_RANGE, "a.job.yaml:7:25: ", "1 numbers for 2 classes"},
    {NULL, GOOD_JOB "train: { class_weights: [ 0, 0 ] }\n", ERR_RANGE, "a.job.yaml:7:25: ", "nothing would be learnt"},
    {NULL, GOOD_JOB "train: { class_weights: [ 1, x ] }\n", ERR_SYNTAX, "a.job.yaml:7:30: ", "train.class_weights"},
    {NULL, GOOD_JOB "train: { class_weights: balance }\n", ERR_SYNTAX, "a.job.yaml:7:25: ", "balanced"},
    {NULL, GOOD_JOB "train: { class_weights: { a: 1 } }\n", ERR_SYNTAX,
     "a.job.yaml:7:25: ", "a map where a list is expected"},
    {NULL, GOOD_JOB "train: { proximal: -0.1 }\n", ERR_RANGE, "a.job.yaml:7:20: ", "train.proximal"},
    {NULL, GOOD_JOB "personal: { layers: [ dense2 ] }\n", ERR_NOT_FOUND,
     "a.job.yaml:7:21: ", "personal.layers: no layer of the model is called 'dense2', did you mean 'dense1'?"},
    {NULL, GOOD_JOB "personal: { method: ditto, lambda: -1 }\n", ERR_RANGE, "a.job.yaml:7:36: ", "personal.lambda"},
    {NULL, GOOD_JOB "personal: { method: finetun }\n", ERR_SYNTAX, "a.job.yaml:7:21: ", "finetune"},
    {NULL, GOOD_JOB "personal: { lambda: 1 }\n", ERR_RANGE, "a.job.yaml:7:21: ", "is of the method ditto"},
    {NULL, GOOD_JOB "personal: { head_epochs: 1 }\n", ERR_RANGE, "a.job.yaml:7:26: ", "is of the method partial"},
    {NULL, GOOD_JOB "personal: { method: partial }\n", ERR_RANGE,
     "a.job.yaml:7:21: ", "needs the layers that stay here"},
    {NULL, GOOD_JOB "personal: { method: ditto, layers: [ dense1 ] }\n", ERR_RANGE,
     "a.job.yaml:7:36: ", "is of the method partial"},
    {NULL, GOOD_JOB "personal: { method: interpolate }\nvalidation: 0\n", ERR_RANGE,
     "a.job.yaml:7:21: ", "write validation: 0.1"},
    {NULL, GOOD_JOB "train: { control_variates: true }\n", ERR_RANGE, "a.job.yaml:7:28: ", "write momentum: 0"},
    {NULL, GOOD_JOB "personal: { layers: dense }\n", ERR_RANGE, "a.job.yaml:7:21: ", "nothing is shared"},
    {NULL, GOOD_JOB "personal: { layers: [ { a: 1 } ] }\n", ERR_SYNTAX, "a.job.yaml:7:23: ", "not the name of a layer"},
    {NULL, GOOD_JOB "train: { learning_rate: 0 }\n", ERR_RANGE, "a.job.yaml:7:25: ", "out of range"},
    {NULL, GOOD_JOB "scale: { mean: [ 1, 2 ], sd: [ 1 ] }\n", ERR_RANGE, "a.job.yaml:7:8: ", "differ in length"},
    {NULL, GOOD_JOB "scale: { mean: 1 }\n", ERR_SYNTAX, "a.job.yaml:7:8: ", "needs both"},
    {NULL, GOOD_JOB "scale: { mean: 1, sd: 0 }\n", ERR_RANGE, "a.job.yaml:7:23: ", "out of range"},
    {NULL, GOOD_JOB "scale: { mean: 1, sd: 1, var: 2 }\n", ERR_SYNTAX, "a.job.yaml:7:26: ", "one `mean` and one `sd`"},
    {NULL, GOOD_JOB "scale: { mean: 1, mean: 2 }\n", ERR_EXISTS, "a.job.yaml:7:19: ", "one `mean` and one `sd`"},
    {NULL, GOOD_JOB "scale: shared\n", ERR_SYNTAX, "a.job.yaml:7:8: ", "write none, { mean"},
    {NULL, GOOD_JOB "range: 255..0\n", ERR_RANGE, "a.job.yaml:7:8: ", "write the smaller number first"},
    {NULL, GOOD_JOB "metric: r2\n", ERR_RANGE, "a.job.yaml:7:9: ", "the metric of task classify is not R2"},
    {NULL,
     "job: a\ntask: classify\nlabel: v\nclasses: [ a, b, c ]\nfeatures: [ x ]\nmodel: dense classes\nmetric: auc\n",
     ERR_RANGE, "a.job.yaml:7:9: ", "AUC is of two classes, there are 3"},
    {NULL, GOOD_JOB "loss: mean-squared-error\n", ERR_RANGE,
     "a.job.yaml:7:7: ", "does not fit task: classify; remove the line"},
    {NULL,
     "job: a\ntask: classify\nlabel: v\nclasses: [ a, b ]\nfeatures: [ x ]\nmodel: dense 9000000, dense classes\n",
     ERR_LIMIT, "a.job.yaml:6:8: ",
     "a batch of 32 samples takes more than 1 GiB between its layers; make train.batch or the layers smaller"},
    {NULL, GOOD_JOB "input: 28\n", ERR_SYNTAX, "a.job.yaml:7:8: ", "28x28x1"},
    {NULL, GOOD_JOB "input: 28x28x1\n", ERR_RANGE, "a.job.yaml:2:7: ", ""},
    {NULL, "job: a\nlabel: v\nclasses: [ a, b ]\nfeatures: [ x ]\nmodel: dense classes\n", ERR_SYNTAX,
     "a.job.yaml:1:1: ", "task: is missing"},
    {NULL, "job: a\ntask: classify\nlabel: v\nfeatures: [ x ]\nmodel: dense classes\n", ERR_SYNTAX,
     "a.job.yaml:1:1: ", "classes: is missing"},
    {NULL, "job: a\ntask: classify\nlabel: v\nclasses: [ a, b ]\nmodel: dense classes\n", ERR_SYNTAX,
     "a.job.yaml:1:1: ", "features: is missing"},
    {NULL, "job: a\ntask: classify\nlabel: v\nclasses: [ a, a ]\nfeatures: [ x ]\nmodel: dense classes\n", ERR_EXISTS,
     "a.job.yaml:2:7: ", ""},
    {NULL, "job: a\ntask: classify\nlabel: v\nclasses: [ a, [ b ] ]\nfeatures: [ x ]\nmodel: dense classes\n",
     ERR_SYNTAX, "a.job.yaml:4:15: ", "not a class name"},
    {NULL, "job: a\ntask: classify\nlabel: v\nclasses: [ a, b ]\nfeatures: [ { nme: x } ]\nmodel: dense classes\n",
     ERR_SYNTAX, "a.job.yaml:5:15: ", "write { name: temp_C, unit: C, range: -40..85 }"},
    {NULL,
     "job: a\ntask: classify\nlabel: v\nclasses: [ a, b ]\nfeatures: [ { name: x, categories: [] } ]\nmodel: dense "
     "classes\n",
     ERR_RANGE, "a.job.yaml:5:36: ", "two categories or more"},
    {NULL,
     "job: a\ntask: classify\nlabel: v\nclasses: [ a, b ]\nfeatures: [ { name: x, categories: [ p ] } ]\nmodel: dense "
     "classes\n",
     ERR_RANGE, "a.job.yaml:5:", "two categories or more"},
    {NULL,
     "job: a\ntask: classify\nlabel: v\nclasses: [ a, b ]\nfeatures: [ { name: x, categories: p } ]\nmodel: dense "
     "classes\n",
     ERR_SYNTAX, "a.job.yaml:5:24: ", "a list of `categories`"},
    {NULL,
     "job: a\ntask: classify\nlabel: v\nclasses: [ a, b ]\nfeatures: [ { name: x, missing: median } ]\nmodel: dense "
     "classes\n",
     ERR_SYNTAX, "a.job.yaml:5:33: ", "write refused, mean or number 0"},
    {NULL,
     "job: a\ntask: classify\nlabel: v\nclasses: [ a, b ]\nfeatures: [ x ]\nmissing: number big\nmodel: dense "
     "classes\n",
     ERR_SYNTAX, "a.job.yaml:6:10: ", "missing: "},
    {NULL,
     "job: a\ntask: classify\nlabel: v\nclasses: [ a, b ]\nfeatures: [ x ]\nmissing: mean\nmodel: dense classes\n",
     ERR_RANGE, "a.job.yaml:", "takes the mean of `scale"},
    {NULL, "job: a\ntask: classify\nlabel: v\nclasses: [ a, b ]\nfeatures: [ x ]\nmodel: dnese 4, dense classes\n",
     ERR_SYNTAX, "a.job.yaml:6:8: ", "dense"},
    {NULL,
     "job: a\ntask: classify\nlabel: v\nclasses: [ a, b ]\nfeatures: [ x ]\nmodel: dense 60000, dense 60000, dense "
     "classes\n",
     ERR_LIMIT, "a.job.yaml:6:8: ", "134217728"},
    {GOOD_SITE "payload_max_mib: 1\npeers: [ { name: a, key: @1 } ]\n",
     "job: a\ntask: classify\nlabel: v\nclasses: [ a, b ]\nfeatures: [ x ]\nmodel: dense 1000, dense 1000, dense "
     "classes\n",
     ERR_RANGE, "site.yaml:6:18: ", "whose full copy has 4 MiB"},
    {NULL, GOOD_JOB "name: x\n", ERR_SYNTAX, "a.job.yaml:7:1: ", "unknown key"},
};

START_TEST(a_malformed_config_names_place_and_remedy) {
  struct site_folder f =
      site_folder_new(cases[_i].site ? cases[_i].site : GOOD_SITE, cases[_i].job ? cases[_i].job : GOOD_JOB);
  char why[MAX_CONFIG_WHY_BYTES] = "";
  struct config *c = NULL;
  enum err e = config_load(f.site, NULL, &c, why);
  site_folder_free(&f);
  ck_assert_msg(e == cases[_i].e, "case %d: %s: %s", _i, err_name(e), why);
  ck_assert_msg(strstr(why, cases[_i].place) != NULL, "case %d: place: %s", _i, why);
  ck_assert_msg(strstr(why, cases[_i].phrase) != NULL, "case %d: phrase: %s", _i, why);
  ck_assert_ptr_null(strchr(why, '\n'));
  ck_assert_ptr_null(c);
}
END_TEST

/* Loads a site file of exactly these bytes. */
static enum err load_bytes(const char *bytes, size_t n, char why[MAX_CONFIG_WHY_BYTES]) {
  struct site_folder f = site_folder_new("", GOOD_JOB);
  FILE *out = fopen(f.site, "w");
  ck_assert_ptr_nonnull(out);
  ck_assert_uint_eq(fwrite(bytes, 1, n, out), n);
  fclose(out);
  struct config *c;
  enum err e = config_load(f.site, NULL, &c, why);
  site_folder_free(&f);
  return e;
}

START_TEST(a_nul_byte_is_refused) {
  static const char bytes[] = "swarm: s\nna\0me: x\n";
  char why[MAX_CONFIG_WHY_BYTES];
  ck_assert_int_eq(load_bytes(bytes, sizeof bytes - 1, why), ERR_SYNTAX);
  ck_assert_ptr_nonnull(strstr(why, "site.yaml:2:3: a NUL byte"));
}
END_TEST

START_TEST(floods_are_refused) {
  static char bytes[1 << 20];
  char why[MAX_CONFIG_WHY_BYTES];
  memset(bytes, '[', sizeof bytes);
  ck_assert_int_eq(load_bytes(bytes, sizeof bytes, why), ERR_LIMIT);
  ck_assert_ptr_nonnull(strstr(why, "larger than 256 KiB"));
  ck_assert_int_eq(load_bytes(bytes, MAX_CONFIG_BYTES, why), ERR_LIMIT);
  ck_assert_ptr_nonnull(strstr(why, "site.yaml:1:13: nested too deeply"));
  for (size_t i = 1; i < sizeof bytes; i++)
    bytes[i] = i % 2 ? 'a' : ',';
  ck_assert_int_eq(load_bytes(bytes, MAX_CONFIG_BYTES, why), ERR_LIMIT);
  ck_assert_ptr_nonnull(strstr(why, "too many values"));
}
END_TEST

START_TEST(too_many_names_are_counted_first) {
  static char job[MAX_CONFIG_BYTES];
  int n = snprintf(job, sizeof job, "job: a\ntask: classify\nlabel: v\nclasses: [ x");
  char why[MAX_CONFIG_WHY_BYTES];
  struct config *c;
  for (int i = 0; i < MAX_CLASSES; i++)
    n += snprintf(job + n, sizeof job - (size_t)n, ",x");
  snprintf(job + n, sizeof job - (size_t)n, " ]\n");
  struct site_folder f = site_folder_new(GOOD_SITE, job);
  ck_assert_int_eq(config_load(f.site, NULL, &c, why), ERR_LIMIT);
  ck_assert_ptr_nonnull(strstr(why, "a.job.yaml:4:10: classes: 4097 names; write at most 4096"));
  site_folder_free(&f);
}
END_TEST

START_TEST(a_missing_file_is_named) {
  char why[MAX_CONFIG_WHY_BYTES];
  struct config *c;
  ck_assert_int_eq(config_load("/nonexistent/site.yaml", NULL, &c, why), ERR_NOT_FOUND);
  ck_assert_ptr_nonnull(strstr(why, "/nonexistent/site.yaml: it does not exist; check the path"));
}
END_TEST

START_TEST(a_fifo_does_not_block) {
  struct site_folder f = site_folder_new("", GOOD_JOB);
  char why[MAX_CONFIG_WHY_BYTES];
  struct config *c;
  ck_assert_int_eq(unlink(f.site), 0);
  ck_assert_int_eq(mkfifo(f.site, 0600), 0);
  ck_assert_int_eq(config_load(f.site, NULL, &c, why), ERR_IO);
  ck_assert_ptr_nonnull(strstr(why, "not a regular file"));
  site_folder_free(&f);
}
END_TEST

START_TEST(a_bad_file_of_conf_d_is_named) {
  struct site_folder f = site_folder_new(GOOD_SITE, GOOD_JOB);
  char why[MAX_CONFIG_WHY_BYTES];
  struct config *c;
  site_folder_make(&f, "conf.d");
  site_folder_write(&f, "conf.d/a.yaml", "name: a\nkey: @1\nport: 7\n");
  ck_assert_int_eq(config_load(f.site, NULL, &c, why), ERR_SYNTAX);
  ck_assert_ptr_nonnull(strstr(why, "conf.d/a.yaml:3:1: unknown key \"port\""));
  site_folder_free(&f);
}
END_TEST

int main(void) {
  TCase *tcase = tcase_create("agent/config_bad");
  tcase_add_loop_test(tcase, a_malformed_config_names_place_and_remedy, 0, sizeof cases / sizeof *cases);
  tcase_add_test(tcase, a_nul_byte_is_refused);
  tcase_add_test(tcase, floods_are_refused);
  tcase_add_test(tcase, too_many_names_are_counted_first);
  tcase_add_test(tcase, a_missing_file_is_named);
  tcase_add_test(tcase, a_fifo_does_not_block);
  tcase_add_test(tcase, a_bad_file_of_conf_d_is_named);
  return suite_run_case("agent/config_bad", tcase);
}
