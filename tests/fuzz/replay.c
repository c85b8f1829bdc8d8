/* Feeds a fuzz target the files named, those of folders that are named, and seeded mutants of each, fewer when
 * STARLING_TEST_SIZE is small or least. Each file is named first, so that a crash says where. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "base/rng.h"
#include "tests/fuzz/fuzz.h"
#include "tests/size.h"

enum { MAX_BYTES = 64 * 1024, MUTANTS = 500, MUTANTS_SMALL = 100, MUTANTS_LEAST = 20, MAX_CHANGES = 4 };

struct input {
  uint8_t bytes[MAX_BYTES];
  size_t n;
};

static void change_byte(struct input *in, struct rng *r) {
  if (in->n > 0)
    in->bytes[rng_below(r, in->n)] = (uint8_t)rng_u64(r);
}

static void flip_bit(struct input *in, struct rng *r) {
  if (in->n > 0)
    in->bytes[rng_below(r, in->n)] ^= (uint8_t)(1u << rng_below(r, 8));
}

static void cut(struct input *in, struct rng *r) {
  in->n = (size_t)rng_below(r, in->n + 1);
}

/* Copies a piece over another place; what is pushed past the end grows the input. */
static void copy_piece(struct input *in, struct rng *r) {
  if (in->n == 0)
    return;
  size_t from = (size_t)rng_below(r, in->n), n = 1 + (size_t)rng_below(r, in->n - from);
  size_t to = (size_t)rng_below(r, in->n + 1);
  if (to + n > MAX_BYTES)
    return;
  memmove(in->bytes + to, in->bytes + from, n);
  if (to + n > in->n)
    in->n = to + n;
}

static void insert_special(struct input *in, struct rng *r) {
  static const char specials[] = "\0\",\n\r\xff-.e;";
  if (in->n == MAX_BYTES)
    return;
  size_t at = (size_t)rng_below(r, in->n + 1);
  memmove(in->bytes + at + 1, in->bytes + at, in->n - at);
  in->bytes[at] = (uint8_t)specials[rng_below(r, sizeof specials - 1)];
  in->n++;
}

static void mutate(struct input *in, struct rng *r) {
  static void (*const changes[])(struct input *, struct rng *) = {change_byte, flip_bit, cut, copy_piece,
                                                                  insert_special};
  for (uint64_t i = 1 + rng_below(r, MAX_CHANGES); i > 0; i--)
    changes[rng_below(r, sizeof changes / sizeof changes[0])](in, r);
}

static void feed_file(const char *path, uint64_t n_mutants) {
  static struct input whole, mutant;
  printf("%s\n", path);
  fflush(stdout);
  FILE *f = fopen(path, "rb");
  MUST(f != NULL);
  whole.n = fread(whole.bytes, 1, sizeof whole.bytes, f);
  fclose(f);
  LLVMFuzzerTestOneInput(whole.bytes, whole.n);
  for (uint64_t seed = 0; seed < n_mutants; seed++) {
    struct rng r;
    rng_init(&r, seed);
    mutant = whole;
    mutate(&mutant, &r);
    LLVMFuzzerTestOneInput(mutant.bytes, mutant.n);
  }
}

static int is_seen(const struct dirent *entry) {
  return entry->d_name[0] != '.';
}

/* A file, or all that a folder has, which must be something. */
static void feed(const char *path, uint64_t n_mutants) {
  struct dirent **entries = NULL;
  int n = scandir(path, &entries, is_seen, alphasort);
  if (n < 0) {
    feed_file(path, n_mutants);
    return;
  }
  MUST(n > 0);
  for (int i = 0; i < n; i++) {
    char file[4096];
    MUST(snprintf(file, sizeof file, "%s/%s", path, entries[i]->d_name) < (int)sizeof file);
    feed_file(file, n_mutants);
    free(entries[i]);
  }
  free(entries);
}

int main(int argc, char **argv) {
  uint64_t n_mutants = least_or(MUTANTS_LEAST, sized(MUTANTS_SMALL, MUTANTS, MUTANTS));
  for (int i = 1; i < argc; i++)
    feed(argv[i], n_mutants);
  return argc > 1 ? 0 : 2;
}
