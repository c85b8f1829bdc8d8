#include "agent/host.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/suite.h"

/* A host made of files below a folder. */
static char root[64];

static void make_root(void) {
  snprintf(root, sizeof root, "/tmp/starling-host-XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(root));
}

static void remove_root(void) {
  char command[128];
  snprintf(command, sizeof command, "rm -r %s", root);
  ck_assert_int_eq(system(command), 0); // NOLINT(cert-env33-c): our own folder
}

/* Writes a file and the folders that it lies in. */
static void put(const char *path, const char *text) {
  char full[512];
  snprintf(full, sizeof full, "%s%s", root, path);
  for (char *slash = strchr(full + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    mkdir(full, 0700);
    *slash = '/';
  }
  FILE *f = fopen(full, "w");
  ck_assert_ptr_nonnull(f);
  ck_assert_int_ge(fputs(text, f), 0);
  ck_assert_int_eq(fclose(f), 0);
}

static double quota(void) {
  return host_look(root).quota;
}

#define V2_MOUNT "41 31 0:38 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n"
#define V1_MOUNT(top) "32 31 0:29 " top " /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"

START_TEST(no_control_group_no_quota) {
  make_root();
  ck_assert_double_eq(quota(), 0);
  put("/proc/self/mountinfo", V2_MOUNT);
  put("/proc/self/cgroup", "0::/a\n");
  ck_assert_double_eq(quota(), 0);
  put("/sys/fs/cgroup/a/cpu.max", "max 100000\n");
  ck_assert_double_eq(quota(), 0);
  remove_root();
}
END_TEST

START_TEST(version_2_counts_up_to_the_top) {
  make_root();
  put("/proc/self/mountinfo", "22 1 8:1 / / rw - ext4 /dev/root rw\n" V2_MOUNT);
  put("/proc/self/cgroup", "1:name=systemd:/x\n0::/a/b\n");
  put("/sys/fs/cgroup/a/b/cpu.max", "150000 100000\n");
  ck_assert_double_eq_tol(quota(), 1.5, 1e-9);
  put("/sys/fs/cgroup/a/cpu.max", "40000 100000\n");
  ck_assert_double_eq_tol(quota(), 0.4, 1e-9);
  put("/sys/fs/cgroup/a/b/cpu.max", "10000 100000\n");
  ck_assert_double_eq_tol(quota(), 0.1, 1e-9);
  remove_root();
}
END_TEST

START_TEST(a_container_sees_its_group_as_the_top) {
  make_root();
  put("/proc/self/mountinfo", V2_MOUNT);
  put("/proc/self/cgroup", "0::/\n");
  put("/sys/fs/cgroup/cpu.max", "100000 100000\n");
  struct host h = host_look(root);
  ck_assert_double_eq_tol(h.quota, 1, 1e-9);
  ck_assert_uint_eq(host_threads(&h), 1);
  remove_root();
}
END_TEST

START_TEST(version_1_has_two_files) {
  make_root();
  put("/proc/self/mountinfo", V1_MOUNT("/"));
  put("/proc/self/cgroup", "4:memory:/x\n2:cpu,cpuacct:/docker/abc\n0::/\n");
  put("/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "-1\n");
  put("/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000\n");
  ck_assert_double_eq(quota(), 0);
  put("/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "250000\n");
  ck_assert_double_eq_tol(quota(), 2.5, 1e-9);
  put("/proc/self/mountinfo", V1_MOUNT("/docker/abc")); /* bound from the host: the group is the mounted folder */
  ck_assert_double_eq(quota(), 0);
  put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "50000\n");
  put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  ck_assert_double_eq_tol(quota(), 0.5, 1e-9);
  put("/proc/self/cgroup", "2:cpu,cpuacct:/docker/abcd\n"); /* beside it, not below */
  ck_assert_double_eq_tol(quota(), 0.5, 1e-9);
  put("/proc/self/cgroup", "5:cpuset:/docker/abc\n");
  ck_assert_double_eq(quota(), 0); /* cpuset is not cpu */
  remove_root();
}
END_TEST

START_TEST(nonsense_counts_as_not_there) {
  static const char *const odd[] = {"",           "\n",           "x y\n",          "-5 100000\n", "100000\n",
                                    "100000 0\n", "nan 100000\n", "1e400 100000\n", "100000 -1\n"};
  make_root();
  put("/proc/self/mountinfo", "\n - \n1 2 3\n" V2_MOUNT);
  put("/proc/self/cgroup", "\n:\n::\n0:\n0::/a\n");
  for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
    put("/sys/fs/cgroup/a/cpu.max", odd[i]);
    ck_assert_msg(quota() == 0, "case %zu", i);
  }
  put("/sys/fs/cgroup/a/cpu.max", "20000 100000\n");
  ck_assert_double_eq_tol(quota(), 0.2, 1e-9);
  put("/proc/self/cgroup", "0::/../../a\n");
  ck_assert_double_eq(quota(), 0);
  remove_root();
}
END_TEST

START_TEST(threads_are_whole_processors) {
  static const struct {
    uint32_t processors;
    double quota;
    uint32_t threads;
  } cases[] = {{1, 0, 1}, {8, 0, 8}, {8, 0.4, 1}, {8, 1.99, 1}, {8, 2, 2}, {2, 16, 2}, {4096, 0, MAX_HOST_THREADS}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct host h = {.n_processors = cases[i].processors, .quota = cases[i].quota};
    ck_assert_msg(host_threads(&h) == cases[i].threads, "case %zu", i);
  }
}
END_TEST

START_TEST(the_affinity_counts) {
  cpu_set_t before, one;
  ck_assert_int_eq(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  for (size_t i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
    if (CPU_ISSET(i, &before))
      CPU_SET(i, &one);
  struct host h = host_look("");
  ck_assert_uint_eq(h.n_processors, (uint32_t)CPU_COUNT(&before));
  ck_assert_int_eq(sched_setaffinity(0, sizeof one, &one), 0);
  h = host_look("");
  ck_assert_uint_eq(h.n_processors, 1);
  ck_assert_uint_eq(host_threads(&h), 1);
}
END_TEST

START_TEST(machines_are_told_apart) {
  char a[FINGERPRINT_BYTES], b[FINGERPRINT_BYTES];
  make_root();
  put("/proc/cpuinfo", "processor\t: 0\ncpu family\t: 25\nmodel\t\t: 1\nmodel name\t: AMD EPYC 7763\nstepping\t: 2\n");
  put("/sys/devices/system/cpu/cpu0/cache/index0/level", "1\n");
  put("/sys/devices/system/cpu/cpu0/cache/index0/type", "Data\n");
  put("/sys/devices/system/cpu/cpu0/cache/index0/size", "32K\n");
  put("/sys/devices/system/cpu/cpu0/cache/index1/level", "1\n");
  put("/sys/devices/system/cpu/cpu0/cache/index1/type", "Instruction\n");
  put("/sys/devices/system/cpu/cpu0/cache/index1/size", "32K\n");
  put("/sys/devices/system/cpu/cpu0/cache/index2/level", "2\n");
  put("/sys/devices/system/cpu/cpu0/cache/index2/type", "Unified\n");
  put("/sys/devices/system/cpu/cpu0/cache/index2/size", "512K\n");
  struct host h = host_look(root), other = h;
  ck_assert_str_eq(h.cpu, "AMD EPYC 7763-25-1-2");
  ck_assert_str_eq(h.caches, "L1 32K, L2 512K");
  ck_assert_str_ne(h.blas, "");
  host_machine(&h, a);
  other.quota = 0.4;
  host_machine(&other, b);
  ck_assert_str_eq(a, b);
  ck_assert_double_eq_tol(host_processors(&other), 0.4, 1e-9);
  snprintf(other.blas, sizeof other.blas, "HASWELL?");
  host_machine(&other, b);
  ck_assert_str_ne(a, b);
  put("/proc/cpuinfo", "CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n");
  ck_assert_str_eq(host_look(root).cpu, "0x41 0xd0c");
  remove_root();
}
END_TEST

int main(void) {
  return SUITE_RUN("agent/host", no_control_group_no_quota, version_2_counts_up_to_the_top,
                   a_container_sees_its_group_as_the_top, version_1_has_two_files, nonsense_counts_as_not_there,
                   threads_are_whole_processors, the_affinity_counts, machines_are_told_apart);
}
