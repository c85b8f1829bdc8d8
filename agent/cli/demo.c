#include "agent/cli/demo.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/cli/answer.h"
#include "agent/cli/ask.h"
#include "agent/cli/table.h"
#include "agent/cli/verbs.h"
#include "agent/clock.h"
#include "agent/run/signals.h"
#include "agent/scalar.h"
#include "crypto/digest.h"

enum { FLAG_FOLDER, FLAG_ROUNDS, FLAG_SEED };
enum { LOOK_MS = 300, ALONE_AT_ONCE = 2 };

struct demo {
  struct call *call;
  struct demo_options options;
  struct demo_site sites[DEMO_SITES];
  struct demo_view view;
  double started_s;
  int signal_fd, folder_fd;
  char why[MAX_CONFIG_WHY_BYTES];
};

/* ---- processes ---------------------------------------------------------------------------------------------------- */

/* In the child: dies with us, logs to a file, becomes an agent. */
__attribute__((noreturn)) static void become_agent(const struct demo_site *site, const char *config) {
  char config_path[MAX_PATH_BYTES + 32], log_path[MAX_PATH_BYTES + 32];
  sigset_t none;
  snprintf(config_path, sizeof config_path, "%s/%s.yaml", site->folder, config);
  snprintf(log_path, sizeof log_path, "%s/%s.log", site->folder, config);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  int log = open(log_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (log >= 0) {
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
  }
  execl("/proc/self/exe", "starling", "-C", config_path, "run", (char *)NULL);
  _exit(EXIT_INTERNAL);
}

static enum err start_site(struct demo *d, struct demo_site *site, const char *config) {
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0)
    become_agent(site, config);
  if (pid < 0) {
    snprintf(d->why, sizeof d->why, "no process could be started for %s", site->name);
    return ERR_NO_MEMORY;
  }
  site->pid = pid;
  return ERR_OK;
}

/* The last line of a log before "stopped": there the agent says why it ended. */
static void read_last_line(const char *path, char out_line[MAX_REASON_BYTES]) {
  char line[MAX_REASON_BYTES];
  FILE *log = fopen(path, "re");
  out_line[0] = '\0';
  while (log && fgets(line, sizeof line, log)) {
    line[strcspn(line, "\n")] = '\0';
    if (line[0] && !strstr(line, " info stopped "))
      memcpy(out_line, line, sizeof line);
  }
  if (log)
    fclose(log);
}

/* Whether the agent has ended for good. One that somebody killed is started again: it resumes at its last committed
 * round. One that ends by itself before its time fails the demo and says why in its log. */
static enum err look_after_site(struct demo *d, struct demo_site *site, const char *config, bool *out_ended) {
  int status;
  *out_ended = false;
  if (site->pid == 0 || waitpid(site->pid, &status, WNOHANG) != site->pid)
    return ERR_OK;
  site->pid = 0;
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
    demo_view_note(&d->view, site, "was killed; starts again from its last committed round");
    site->sent_before += (uint64_t)json_integer_value(json_at(site->status, "sent_bytes"));
    json_decref(site->status);
    site->status = NULL;
    return start_site(d, site, config);
  }
  *out_ended = true;
  if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_DONE)
    return ERR_OK;
  char log_path[MAX_PATH_BYTES + 32], line[MAX_REASON_BYTES];
  snprintf(log_path, sizeof log_path, "%s/%s.log", site->folder, config);
  read_last_line(log_path, line);
  snprintf(d->why, sizeof d->why, "%s ended before its time; %s ends with: %s", site->name, log_path, line);
  return ERR_IO;
}

/* One that somebody has stopped (SIGSTOP) ends too. */
static void end_process(pid_t pid) {
  kill(pid, SIGTERM);
  kill(pid, SIGCONT);
}

static void stop_sites(struct demo *d) {
  for (size_t i = 0; i < DEMO_SITES; i++)
    if (d->sites[i].pid > 0)
      end_process(d->sites[i].pid);
  for (size_t i = 0; i < DEMO_SITES; i++) {
    if (d->sites[i].pid > 0)
      waitpid(d->sites[i].pid, NULL, 0);
    d->sites[i].pid = 0;
  }
}

/* Waits a moment; ERR_STOPPED when somebody wants us to end. */
static enum err wait_a_moment(struct demo *d) {
  struct pollfd p = {.fd = d->signal_fd, .events = POLLIN};
  if (poll(&p, 1, LOOK_MS) <= 0)
    return ERR_OK;
  snprintf(d->why, sizeof d->why, "stopped");
  return ERR_STOPPED;
}

/* ---- together ----------------------------------------------------------------------------------------------------- */

static void look_at(struct demo *d, struct demo_site *site) {
  char state_dir[MAX_PATH_BYTES + 16], why[MAX_CONFIG_WHY_BYTES];
  json_t *status = NULL;
  snprintf(state_dir, sizeof state_dir, "%s/state", site->folder);
  if (agent_ask(d->call, state_dir, json_pack("{s:s}", "ask", "status"), &status, why) != ERR_OK)
    return;
  json_decref(site->status);
  site->status = status;
}

static bool is_finished(const struct demo_site *site) {
  const char *phase = site->status ? json_string_value(json_at(site->status, "job.phase")) : NULL;
  return phase && strcmp(phase, "finished") == 0;
}

/* Whether its state directory cannot be written, as on a full disk: nothing goes on until somebody makes room. */
static bool is_halted(const struct demo_site *site) {
  const char *word = site->status ? json_string_value(json_at(site->status, "word")) : NULL;
  return word && strcmp(word, "HALTED") == 0;
}

static enum err look_at_all(struct demo *d, bool *out_all_finished) {
  *out_all_finished = true;
  for (size_t i = 0; i < DEMO_SITES; i++) {
    bool has_ended;
    enum err e = look_after_site(d, &d->sites[i], "site", &has_ended);
    if (e == ERR_OK && has_ended) {
      snprintf(d->why, sizeof d->why, "%s was stopped", d->sites[i].name);
      e = ERR_STOPPED;
    }
    if (e != ERR_OK)
      return e;
    look_at(d, &d->sites[i]);
    *out_all_finished = *out_all_finished && is_finished(&d->sites[i]);
    if (is_halted(&d->sites[i])) {
      snprintf(d->why, sizeof d->why, "%s is halted: %s", d->sites[i].name,
               json_string_value(json_at(d->sites[i].status, "why")));
      return ERR_IO;
    }
  }
  return ERR_OK;
}

/* What only a running agent knows. */
static void keep_figures(struct demo_site *site) {
  site->sent_bytes = site->sent_before + (uint64_t)json_integer_value(json_at(site->status, "sent_bytes"));
  site->n_test = (uint32_t)json_integer_value(json_at(site->status, "job.test_samples"));
}

static enum err learn_together(struct demo *d) {
  enum err e = ERR_OK;
  for (size_t i = 0; e == ERR_OK && i < DEMO_SITES; i++)
    e = start_site(d, &d->sites[i], "site");
  for (bool all_finished = false; e == ERR_OK && !all_finished;) {
    e = wait_a_moment(d);
    if (e == ERR_OK)
      e = look_at_all(d, &all_finished);
    if (e == ERR_OK)
      demo_view_show(&d->view, d->sites, clock_s() - d->started_s);
  }
  for (size_t i = 0; i < DEMO_SITES; i++)
    keep_figures(&d->sites[i]);
  stop_sites(d);
  return e;
}

/* ---- alone -------------------------------------------------------------------------------------------------------- */

static enum err learn_alone(struct demo *d) {
  enum err e = ERR_OK;
  size_t n_started = 0, n_ended = 0;
  while (e == ERR_OK && n_ended < DEMO_SITES) {
    while (e == ERR_OK && n_started < DEMO_SITES && n_started - n_ended < ALONE_AT_ONCE)
      e = start_site(d, &d->sites[n_started++], "alone");
    if (e == ERR_OK)
      e = wait_a_moment(d);
    for (size_t i = 0; e == ERR_OK && i < DEMO_SITES; i++) {
      bool has_ended;
      e = look_after_site(d, &d->sites[i], "alone", &has_ended);
      if (e == ERR_OK && has_ended)
        demo_view_note(&d->view, &d->sites[i], "is ready");
      n_ended += has_ended;
    }
  }
  stop_sites(d);
  return e;
}

/* ---- result ------------------------------------------------------------------------------------------------------- */

static enum err read_last_round(struct demo *d, const struct demo_site *site, const char *state,
                                struct store_metrics *out_metrics) {
  char path[MAX_PATH_BYTES + 16], reason[MAX_REASON_BYTES] = "";
  snprintf(path, sizeof path, "%s/%s", site->folder, state);
  struct store *store = NULL;
  struct digest job;
  struct store_round last = {0};
  size_t n = 0;
  enum err e = store_open_read_only(path, &digest_tree, &store, reason);
  if (e == ERR_OK)
    e = store_jobs(store, &job, 1, &n);
  if (e == ERR_OK && n == 1)
    e = store_rounds(store, &job, 0, &last, 1, &n);
  if (e == ERR_OK && n == 1)
    *out_metrics = last.metrics;
  else
    snprintf(d->why, sizeof d->why, "%s: %s", path, reason[0] ? reason : "no round is committed");
  store_close(store);
  return e == ERR_OK && n != 1 ? ERR_NOT_FOUND : e;
}

static enum err read_results(struct demo *d) {
  enum err e = ERR_OK;
  for (size_t i = 0; e == ERR_OK && i < DEMO_SITES; i++) {
    struct demo_site *site = &d->sites[i];
    e = read_last_round(d, site, "state", &site->swarm);
    if (e == ERR_OK)
      e = read_last_round(d, site, "alone-state", &site->alone);
  }
  return e;
}

static enum err run(struct demo *d) {
  printf("[1/3] keys and configs for %d sites in %s\n", DEMO_SITES, d->options.folder);
  enum err e = demo_folder_open(d->options.folder, &d->folder_fd, d->why);
  if (e == ERR_OK)
    e = demo_write_sites(&d->options, d->sites, d->why);
  if (e != ERR_OK)
    return e;
  printf("[2/3] %d agents on 127.0.0.1, ports %u to %u, learn together, with no server\n", DEMO_SITES, d->sites[0].port,
         d->sites[DEMO_SITES - 1].port);
  d->started_s = clock_s();
  e = learn_together(d);
  double seconds = clock_s() - d->started_s;
  if (e != ERR_OK)
    return e;
  printf("[3/3] the same agents, each alone\n");
  e = learn_alone(d);
  if (e == ERR_OK)
    e = read_results(d);
  if (e == ERR_OK)
    demo_view_result(&d->options, d->sites, seconds);
  return e;
}

static enum err take_options(const struct call *call, struct demo_options *options, char why[MAX_CONFIG_WHY_BYTES]) {
  const char *rounds = call->flags[FLAG_ROUNDS], *seed = call->flags[FLAG_SEED];
  char reason[MAX_REASON_BYTES];
  enum err e = rounds ? scalar_integer(rounds, 1, UINT32_MAX, &options->rounds, reason) : ERR_OK;
  if (e != ERR_OK) {
    snprintf(why, MAX_CONFIG_WHY_BYTES, "--rounds: %s", reason);
    return e;
  }
  e = seed ? scalar_integer(seed, 0, UINT32_MAX, &options->seed, reason) : ERR_OK;
  if (e != ERR_OK)
    snprintf(why, MAX_CONFIG_WHY_BYTES, "--seed: %s", reason);
  return e;
}

int verb_demo(struct call *call) {
  struct demo *d = calloc(1, sizeof *d);
  if (!d)
    return answer_error(call, EXIT_INTERNAL, err_name(ERR_NO_MEMORY), NULL, "%s", err_sentence(ERR_NO_MEMORY));
  d->call = call;
  d->signal_fd = d->folder_fd = -1;
  d->view.is_terminal = isatty(STDOUT_FILENO);
  const char *folder = call->flags[FLAG_FOLDER];
  d->options = (struct demo_options){.folder = folder ? folder : "starling-demo", .rounds = 20, .seed = 1};
  enum err e = take_options(call, &d->options, d->why);
  bool is_usage = e != ERR_OK;
  if (e == ERR_OK)
    e = signals_open(&d->signal_fd);
  if (e == ERR_OK)
    e = run(d);
  stop_sites(d);
  for (size_t i = 0; i < DEMO_SITES; i++)
    json_decref(d->sites[i].status);
  if (d->signal_fd >= 0)
    close(d->signal_fd);
  if (d->folder_fd >= 0)
    close(d->folder_fd);
  int code = e == ERR_OK ? EXIT_DONE
                         : answer_error(call, is_usage ? EXIT_USAGE : EXIT_FAILED, err_name(e), NULL, "%s",
                                        d->why[0] ? d->why : err_sentence(e));
  free(d);
  return code;
}
