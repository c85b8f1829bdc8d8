#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/cli/demo.h"
#include "crypto/key_file.h"
#include "crypto/key_text.h"

enum { FIRST_PORT = 7411, LAST_PORT = 7999 };

#define DATA "/usr/share/datasets/fashion-mnist"
#define IMAGES DATA "/train-images-idx3-ubyte.gz"

/* A ring and one chord. */
static const bool edges[DEMO_SITES][DEMO_SITES] = {
    {0, 1, 1, 0, 1}, {1, 0, 1, 0, 0}, {1, 1, 0, 1, 0}, {0, 0, 1, 0, 1}, {1, 0, 0, 1, 0},
};

static enum err fail(char why[MAX_CONFIG_WHY_BYTES], const char *path, enum err e) {
  snprintf(why, MAX_CONFIG_WHY_BYTES, "%s: %s", path, err_sentence(e));
  return e;
}

static enum err make_folder(const char *path, char why[MAX_CONFIG_WHY_BYTES]) {
  return mkdir(path, 0755) == 0 || errno == EEXIST ? ERR_OK : fail(why, path, err_from_errno(errno));
}

enum err demo_folder_open(const char *path, int *out_fd, char why[MAX_CONFIG_WHY_BYTES]) {
  enum err e = make_folder(path, why);
  if (e != ERR_OK)
    return e;
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0)
    return fail(why, path, err_from_errno(errno));
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    close(fd);
    snprintf(why, MAX_CONFIG_WHY_BYTES, "%s: another demo runs there; wait for it, or choose --dir", path);
    return ERR_LOCKED;
  }
  *out_fd = fd;
  return ERR_OK;
}

/* Removes a folder that this demo made: files and one level of folders. */
static void remove_folder(const char *path) {
  DIR *dir = opendir(path);
  if (!dir)
    return;
  for (struct dirent *entry; (entry = readdir(dir));) {
    char inside[2 * MAX_PATH_BYTES];
    snprintf(inside, sizeof inside, "%s/%s", path, entry->d_name);
    bool is_folder = entry->d_type == DT_DIR;
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
      continue;
    if (is_folder)
      remove_folder(inside);
    else
      unlink(inside);
  }
  closedir(dir);
  rmdir(path);
}

static enum err keep_or_make_key(struct demo_site *site, char why[MAX_CONFIG_WHY_BYTES]) {
  char path[MAX_PATH_BYTES + 16], reason[MAX_REASON_BYTES];
  snprintf(path, sizeof path, "%s/agent.key", site->folder);
  struct identity *id = NULL;
  enum err e = key_file_open(path, NULL, NULL, &id, reason);
  if (e == ERR_NOT_FOUND) {
    e = identity_new(&id);
    if (e == ERR_OK)
      e = key_file_create(path, id, NULL, reason);
  }
  if (e == ERR_OK)
    site->key = *identity_public(id);
  else
    snprintf(why, MAX_CONFIG_WHY_BYTES, "%s: %s", path, reason);
  identity_free(id);
  return e;
}

static bool is_free(uint16_t port) {
  struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int on = 1;
  bool ok = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
            bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
  if (fd >= 0)
    close(fd);
  return ok;
}

static enum err find_ports(struct demo_site sites[DEMO_SITES], char why[MAX_CONFIG_WHY_BYTES]) {
  uint16_t port = FIRST_PORT;
  for (size_t i = 0; i < DEMO_SITES; i++) {
    while (port <= LAST_PORT && !is_free(port))
      port++;
    if (port > LAST_PORT) {
      snprintf(why, MAX_CONFIG_WHY_BYTES, "127.0.0.1: no free port from %d to %d", FIRST_PORT, LAST_PORT);
      return ERR_BUSY;
    }
    sites[i].port = port++;
  }
  return ERR_OK;
}

static FILE *create(const char *folder, const char *name, char why[MAX_CONFIG_WHY_BYTES]) {
  char path[MAX_PATH_BYTES + 64];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *out = fopen(path, "we");
  if (!out)
    (void)fail(why, path, err_from_errno(errno));
  return out;
}

static enum err finish(FILE *out, const char *what, char why[MAX_CONFIG_WHY_BYTES]) {
  bool failed = ferror(out) != 0;
  failed = fclose(out) != 0 || failed;
  return failed ? fail(why, what, ERR_IO) : ERR_OK;
}

static enum err write_job(const struct demo_options *options, char why[MAX_CONFIG_WHY_BYTES]) {
  FILE *out = create(options->folder, "fashion.job.yaml", why);
  if (!out)
    return ERR_IO;
  fprintf(out,
          "# Equal on all five sites: what is learnt, and what the data means.\n"
          "job: fashion\n"
          "task: classify\n"
          "classes: [ T-shirt, Trouser, Pullover, Dress, Coat, Sandal, Shirt, Sneaker, Bag, Ankle boot ]\n"
          "input: 28x28x1\n"
          "range: 0..1\n"
          "scale: { mean: 0.2860, sd: 0.3530 }\n"
          "holdout: 0.25\n"
          "validation: 0\n"
          "split: { rule: dirichlet 0.3, n: %d, seed: %" PRIu64 " }\n"
          "init_seed: %" PRIu64 "\n"
          "model: dense 128, relu, dense classes\n"
          "train: { epochs: 1, batch: 32, learning_rate: 0.05, momentum: 0 }\n"
          "codec: f16\n"
          "count: %" PRIu64 "\n",
          DEMO_SITES, options->seed, options->seed, options->rounds);
  return finish(out, "fashion.job.yaml", why);
}

static void write_peers(FILE *out, const struct demo_site sites[DEMO_SITES], size_t self) {
  for (size_t i = 0; i < DEMO_SITES; i++) {
    char key[KEY_TEXT_BYTES];
    if (!edges[self][i])
      continue;
    key_text_write(&sites[i].key, key);
    fprintf(out, "  - name: %s\n    key: %s\n    address: tcp://127.0.0.1:%d\n", sites[i].name, key, sites[i].port);
  }
}

/* Two files a site: the swarm's, and the same without peers. */
static enum err write_site(const struct demo_options *options, const struct demo_site sites[DEMO_SITES], size_t self,
                           bool alone, char why[MAX_CONFIG_WHY_BYTES]) {
  const struct demo_site *site = &sites[self];
  FILE *out = create(site->folder, alone ? "alone.yaml" : "site.yaml", why);
  if (!out)
    return ERR_IO;
  fprintf(out, "swarm: demo\nname: %s\nstate_dir: %s\n", site->name, alone ? "alone-state" : "state");
  if (alone) {
    fprintf(out, "listen: []\npeers: []\n");
  } else {
    fprintf(out, "listen: [ \"tcp://127.0.0.1:%d\" ]\npeers:\n", site->port);
    write_peers(out, sites, self);
  }
  fprintf(out,
          "kernels: built-in # five agents that measure at once would measure each other\n"
          "jobs:\n"
          "  - job: ../fashion.job.yaml\n"
          "    data:\n"
          "      train: " IMAGES "\n"
          "      train_labels: " DATA "/train-labels-idx1-ubyte.gz\n"
          "      global_test: " DATA "/t10k-images-idx3-ubyte.gz\n"
          "      global_test_labels: " DATA "/t10k-labels-idx1-ubyte.gz\n"
          "      part: %zu\n"
          "    train: { seed: %" PRIu64 " }\n"
          "    round: { deadline_min_s: 60, meet_s: 120 }\n"
          "    alone: { shadow: off }\n"
          "    when_done: %s\n",
          self + 1, options->seed, alone ? "exit" : "serve");
  return finish(out, site->folder, why);
}

static enum err prepare_site(const struct demo_options *options, struct demo_site *site, size_t number,
                             char why[MAX_CONFIG_WHY_BYTES]) {
  static const char *const states[] = {"state", "alone-state"};
  snprintf(site->name, sizeof site->name, "s%zu", number);
  snprintf(site->folder, sizeof site->folder, "%s/s%zu", options->folder, number);
  enum err e = make_folder(site->folder, why);
  for (size_t i = 0; e == ERR_OK && i < 2; i++) {
    char path[MAX_PATH_BYTES + 16];
    snprintf(path, sizeof path, "%s/%s", site->folder, states[i]);
    remove_folder(path);
  }
  return e == ERR_OK ? keep_or_make_key(site, why) : e;
}

enum err demo_write_sites(const struct demo_options *options, struct demo_site sites[DEMO_SITES],
                          char why[MAX_CONFIG_WHY_BYTES]) {
  if (access(IMAGES, R_OK) != 0) {
    snprintf(why, MAX_CONFIG_WHY_BYTES, "%s: %s; install the Debian package dataset-fashion-mnist", IMAGES,
             err_sentence(err_from_errno(errno)));
    return ERR_NOT_FOUND;
  }
  enum err e = ERR_OK;
  for (size_t i = 0; e == ERR_OK && i < DEMO_SITES; i++)
    e = prepare_site(options, &sites[i], i + 1, why);
  if (e == ERR_OK)
    e = find_ports(sites, why);
  if (e == ERR_OK)
    e = write_job(options, why);
  for (size_t i = 0; e == ERR_OK && i < DEMO_SITES; i++) {
    e = write_site(options, sites, i, false, why);
    if (e == ERR_OK)
      e = write_site(options, sites, i, true, why);
  }
  return e;
}
