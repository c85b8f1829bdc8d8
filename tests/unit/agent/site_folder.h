/* A temporary folder with a site file and a job file, for tests of the configuration and the command line. */
#ifndef TESTS_UNIT_AGENT_SITE_FOLDER_H
#define TESTS_UNIT_AGENT_SITE_FOLDER_H

#include <check.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crypto/identity.h"
#include "crypto/key_text.h"
#include "crypto/random.h"

#define GOOD_HEAD "swarm: k3vz-7qd2\nname: mec-07\n"
#define GOOD_JOBS "jobs:\n  - job: a.job.yaml\n    data: { train: parts.csv }\n"
#define GOOD_SITE GOOD_HEAD GOOD_JOBS
#define GOOD_JOB                                                                                                       \
  "job: inspection\ntask: classify\nlabel: verdict\nclasses: [ ok, bad ]\nfeatures: [ a, b ]\nmodel: dense classes\n"

struct site_folder {
  char path[64];
  char site[80];
};

/* The public key of test identity n, 1 … 9. */
static inline struct identity_key test_key(int n) {
  uint8_t seed[IDENTITY_SEED_BYTES] = {(uint8_t)n};
  struct identity *id;
  ck_assert_int_eq(random_open(), ERR_OK);
  ck_assert_int_eq(identity_from_seed(seed, &id), ERR_OK);
  struct identity_key key = *identity_public(id);
  identity_free(id);
  return key;
}

/* Writes a file into the folder; "@1" … "@9" in the text become public keys. */
static inline void site_folder_write(const struct site_folder *f, const char *name, const char *text) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", f->path, name);
  FILE *out = fopen(path, "w");
  ck_assert_ptr_nonnull(out);
  for (; *text; text++) {
    char key_text[KEY_TEXT_BYTES];
    if (text[0] != '@' || text[1] < '1' || text[1] > '9') {
      fputc(*text, out);
      continue;
    }
    struct identity_key key = test_key(*++text - '0');
    key_text_write(&key, key_text);
    fputs(key_text, out);
  }
  ck_assert_int_eq(fclose(out), 0);
}

static inline void site_folder_make(const struct site_folder *f, const char *name) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", f->path, name);
  ck_assert_int_eq(mkdir(path, 0755), 0);
}

static inline struct site_folder site_folder_new(const char *site, const char *job) {
  struct site_folder f;
  snprintf(f.path, sizeof f.path, "/tmp/starling-test-XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(f.path));
  snprintf(f.site, sizeof f.site, "%s/site.yaml", f.path);
  site_folder_write(&f, "site.yaml", site);
  site_folder_write(&f, "a.job.yaml", job);
  return f;
}

static inline int site_folder_remove_one(const char *path, const struct stat *st, int kind, struct FTW *at) {
  (void)st, (void)kind, (void)at;
  return remove(path);
}

static inline void site_folder_free(const struct site_folder *f) {
  nftw(f->path, site_folder_remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

#endif
