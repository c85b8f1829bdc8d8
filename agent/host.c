#include "agent/host.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/file.h"
#include "base/limits.h"
#include "models/kernels/cpu.h"
#include "models/net/net.h"

enum { MAX_PROC_BYTES = 1 << 20, MAX_VALUE_BYTES = 256, MAX_CACHES = 8, MAX_GROUP_DEPTH = 64 };

/* ---- files of the kernel ---- */

/* The text of root + path; NULL when it cannot be read. The caller frees. */
static char *read_text(const char *root, const char *path, size_t max_bytes) {
  char full[MAX_PATH_BYTES], *text = NULL;
  size_t n;
  int length = snprintf(full, sizeof full, "%s%s", root, path);
  return length < MAX_PATH_BYTES && file_read(full, max_bytes, &text, &n) == ERR_OK ? text : NULL;
}

/* The first line of a small file; "" when there is none. */
static void read_value(const char *root, const char *path, char *out, size_t capacity) {
  char *text = read_text(root, path, MAX_VALUE_BYTES);
  snprintf(out, capacity, "%.*s", text ? (int)strcspn(text, "\n") : 0, text ? text : "");
  free(text);
}

/* The line behind this one; NULL at the end. */
static const char *next_line(const char *line) {
  const char *end = strchr(line, '\n');
  return end && end[1] ? end + 1 : NULL;
}

/* The value of the first line "name : value" of the text; "" when there is none. */
static void value_of(const char *text, const char *name, char *out, size_t capacity) {
  out[0] = '\0';
  for (const char *line = text; line; line = next_line(line)) {
    if (strncmp(line, name, strlen(name)) != 0)
      continue;
    const char *value = line + strlen(name);
    value += strspn(value, " \t");
    if (*value != ':')
      continue;
    value += 1 + strspn(value + 1, " \t");
    snprintf(out, capacity, "%.*s", (int)strcspn(value, "\n"), value);
    return;
  }
}

/* ---- what it is ---- */

/* Arm says who made the core and which it is; x86 has a name. */
static void look_at_cpu(struct host *h, const char *root) {
  static const char *const names[] = {"model name", "CPU implementer", "CPU part"};
  static const char *const numbers[] = {"cpu family", "model", "stepping"};
  char *text = read_text(root, "/proc/cpuinfo", MAX_PROC_BYTES), value[HOST_TEXT_BYTES];
  size_t n = 0;
  for (size_t i = 0; text && i < sizeof names / sizeof *names + sizeof numbers / sizeof *numbers; i++) {
    bool is_name = i < sizeof names / sizeof *names;
    value_of(text, is_name ? names[i] : numbers[i - sizeof names / sizeof *names], value, sizeof value);
    if (value[0] && n < sizeof h->cpu)
      n += (size_t)snprintf(h->cpu + n, sizeof h->cpu - n, "%s%s", n == 0 ? "" : is_name ? " " : "-", value);
  }
  free(text);
}

static void look_at_features(struct host *h) {
  struct cpu cpu = cpu_detect();
  snprintf(h->features, sizeof h->features, "%s%s%s%s", cpu.avx2 ? "avx2 " : "", cpu.f16c ? "f16c " : "",
           cpu.avx512 ? "avx512 " : "", cpu.neon ? "neon " : "");
  size_t n = strlen(h->features);
  if (n > 0)
    h->features[n - 1] = '\0';
}

static void look_at_caches(struct host *h, const char *root) {
  size_t n = 0;
  for (int i = 0; i < MAX_CACHES; i++) {
    static const char *const files[] = {"level", "type", "size"};
    char path[MAX_VALUE_BYTES], values[3][16];
    for (size_t f = 0; f < 3; f++) {
      snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", i, files[f]);
      read_value(root, path, values[f], sizeof values[f]);
    }
    if (values[2][0] && values[1][0] != 'I' && n < sizeof h->caches)
      n += (size_t)snprintf(h->caches + n, sizeof h->caches - n, "%sL%s %s", n > 0 ? ", " : "", values[0], values[2]);
  }
}

static uint32_t processors_allowed(void) {
  enum { MAX_CPUS = 8192 };
  size_t n_bytes = CPU_ALLOC_SIZE(MAX_CPUS);
  cpu_set_t *set = CPU_ALLOC(MAX_CPUS);
  int n = set && sched_getaffinity(0, n_bytes, set) == 0 ? CPU_COUNT_S(n_bytes, set) : 1;
  CPU_FREE(set);
  return n > 0 ? (uint32_t)n : 1;
}

/* ---- control groups ---- */

/* A hierarchy with the processor in it: where it is mounted, which group stands there, and which is this process's. */
struct hierarchy {
  bool is_v2, has_mount, has_group;
  char mount[MAX_PATH_BYTES], top[MAX_PATH_BYTES], group[MAX_PATH_BYTES];
};

/* Whether a word stands in a list that commas separate; the list ends at a blank. */
static bool has_word(const char *list, const char *word) {
  size_t n = strlen(word);
  for (const char *at = list;; at++) {
    size_t length = strcspn(at, ", \n");
    if (length == n && strncmp(at, word, n) == 0)
      return true;
    at += length;
    if (*at != ',')
      return false;
  }
}

/* "36 25 0:32 TOP MOUNT rw,… [optional…] - TYPE SOURCE OPTIONS" */
static void read_mount(const char *line, struct hierarchy *v1, struct hierarchy *v2) {
  char top[MAX_PATH_BYTES], mount[MAX_PATH_BYTES], type[16], options[MAX_VALUE_BYTES];
  char copy[2 * MAX_PATH_BYTES + 512];
  if (strcspn(line, "\n") >= sizeof copy)
    return;
  snprintf(copy, sizeof copy, "%.*s", (int)strcspn(line, "\n"), line);
  const char *rest = strstr(copy, " - ");
  if (sscanf(copy, "%*d %*d %*s %4095s %4095s", top, mount) != 2 || !rest ||
      sscanf(rest, " - %15s %*s %255s", type, options) != 2)
    return;
  bool is_v2 = strcmp(type, "cgroup2") == 0;
  if (!is_v2 && (strcmp(type, "cgroup") != 0 || !has_word(options, "cpu")))
    return;
  struct hierarchy *h = is_v2 ? v2 : v1;
  h->has_mount = true;
  memcpy(h->mount, mount, sizeof mount);
  memcpy(h->top, top, sizeof top);
}

/* "ID:CONTROLLERS:GROUP"; v2 has the id 0 and no controllers. */
static void read_group(const char *line, struct hierarchy *v1, struct hierarchy *v2) {
  size_t length = strcspn(line, "\n");
  const char *controllers = memchr(line, ':', length);
  const char *group = controllers ? memchr(controllers + 1, ':', (size_t)(line + length - controllers - 1)) : NULL;
  if (!group)
    return;
  bool is_v2 = strncmp(line, "0::", 3) == 0;
  char list[MAX_VALUE_BYTES];
  snprintf(list, sizeof list, "%.*s", (int)(group - controllers - 1), controllers + 1);
  if (!is_v2 && !has_word(list, "cpu"))
    return;
  struct hierarchy *h = is_v2 ? v2 : v1;
  h->has_group = true;
  snprintf(h->group, sizeof h->group, "%.*s", (int)(line + length - group - 1), group + 1);
}

/* Digits up to the end or a blank; 0 for anything else. */
static double number_of(const char *text) {
  size_t n = strspn(text, "0123456789");
  double value = 0;
  if (text[n] != '\0' && text[n] != ' ')
    return 0;
  for (size_t i = 0; i < n; i++)
    value = value * 10 + (text[i] - '0');
  return value < 1e18 ? value : 0;
}

/* Processors' worth of time of one group; 0: it has no limit. */
static double quota_of_group(const struct hierarchy *h, const char *root, const char *folder) {
  char path[2 * MAX_PATH_BYTES + 32], quota[64] = "", period[64] = "";
  snprintf(path, sizeof path, "%s%s", folder, h->is_v2 ? "/cpu.max" : "/cpu.cfs_quota_us");
  read_value(root, path, quota, sizeof quota);
  if (h->is_v2) {
    char *blank = strchr(quota, ' ');
    snprintf(period, sizeof period, "%s", blank ? blank + 1 : "");
  } else {
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
    read_value(root, path, period, sizeof period);
  }
  double of = number_of(period);
  return of > 0 ? number_of(quota) / of : 0;
}

/* The group's path below the one that is mounted; "" when it is that one, or another. */
static const char *below_top(const struct hierarchy *h) {
  size_t n = strcmp(h->top, "/") == 0 ? 0 : strlen(h->top);
  bool is_below = strncmp(h->group, h->top, n) == 0 && h->group[n] == '/';
  return is_below ? h->group + n : "";
}

/* The smallest quota from this process's group up to what is mounted. */
static double quota_of(const struct hierarchy *h, const char *root) {
  char folder[2 * MAX_PATH_BYTES];
  double smallest = 0;
  if (!h->has_mount || !h->has_group || strstr(h->group, ".."))
    return 0;
  size_t n_mount = strlen(h->mount);
  snprintf(folder, sizeof folder, "%s%s", h->mount, below_top(h));
  for (size_t i = 0; i < MAX_GROUP_DEPTH && strlen(folder) >= n_mount; i++) {
    double quota = quota_of_group(h, root, folder);
    if (quota > 0 && (smallest == 0 || quota < smallest))
      smallest = quota;
    char *slash = strrchr(folder, '/');
    if (!slash)
      break;
    *slash = '\0';
  }
  return smallest;
}

static double quota_of_process(const char *root) {
  struct hierarchy v1 = {0}, v2 = {.is_v2 = true};
  char *mounts = read_text(root, "/proc/self/mountinfo", MAX_PROC_BYTES);
  char *groups = read_text(root, "/proc/self/cgroup", MAX_PROC_BYTES);
  for (const char *line = mounts; line; line = next_line(line))
    read_mount(line, &v1, &v2);
  for (const char *line = groups; line; line = next_line(line))
    read_group(line, &v1, &v2);
  free(mounts);
  free(groups);
  double of_v1 = quota_of(&v1, root), of_v2 = quota_of(&v2, root);
  return of_v1 > 0 && (of_v2 == 0 || of_v1 < of_v2) ? of_v1 : of_v2;
}

/* ---- the whole ---- */

struct host host_look(const char *root) {
  struct host h = {.n_processors = processors_allowed()};
  look_at_cpu(&h, root);
  look_at_features(&h);
  look_at_caches(&h, root);
  snprintf(h.blas, sizeof h.blas, "%s", net_blas());
  h.quota = quota_of_process(root);
  return h;
}

double host_processors(const struct host *h) {
  return h->quota > 0 && h->quota < h->n_processors ? h->quota : h->n_processors;
}

uint32_t host_threads(const struct host *h) {
  double whole = host_processors(h) + 1e-9;
  return whole < 1 ? 1 : whole > MAX_HOST_THREADS ? MAX_HOST_THREADS : (uint32_t)whole;
}

void host_machine(const struct host *h, char out_text[FINGERPRINT_BYTES]) {
  snprintf(out_text, FINGERPRINT_BYTES, "%s; %s; %s; OpenBLAS %s; %u processors", h->cpu, h->features, h->caches,
           h->blas, h->n_processors);
}

bool fingerprint_equal(const char *machine, double processors, const char *other_machine, double other_processors) {
  double apart = processors - other_processors;
  return strcmp(machine, other_machine) == 0 && apart < 0.01 && apart > -0.01;
}
