/* The CSV reader: rows that it gives out keep to the contract, faults have a sentence. Whatever it refuses or reads, the
 * profile and the check of the same file end, and what the reader takes has no finding that is an error but few samples. */
#include "models/formats/csv_reader.h"

#include <math.h>

#include "base/must.h"
#include "crypto/digest.h"
#include "models/data/check.h"
#include "models/data/proposal.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/parts.h"

static enum err check_row(void *context, const struct sample *s) {
  const struct contract *c = context;
  MUST((s->targets != NULL) == (c->task == TASK_MULTILABEL));
  for (size_t i = 0; s->targets != NULL && i < c->n_classes; i++)
    MUST(s->targets[i] == 0 || s->targets[i] == 1);
  MUST(s->label < c->n_classes);
  for (size_t i = 0; i < contract_n_inputs(c); i++)
    MUST(isfinite(s->floats[i]));
  for (size_t i = 0; i < c->n_features; i++) {
    float n_set = 0;
    for (size_t k = 0; k < c->features[i].n_categories; k++)
      n_set += s->floats[c->features[i].input + k];
    MUST(c->features[i].n_categories == 0 || n_set == 1);
  }
  return ERR_OK;
}

static struct contract *two_columns(void) {
  struct contract *c = contract_new();
  MUST(c != NULL);
  MUST(contract_add_class(c, "a") == ERR_OK && contract_add_class(c, "b") == ERR_OK);
  MUST(contract_add_feature(c, "x", NULL) == ERR_OK && contract_add_feature(c, "y", NULL) == ERR_OK);
  snprintf(c->label, sizeof c->label, "3");
  return c;
}

/* The same columns with categories and a number for blanks. */
static struct contract *typed_columns(void) {
  struct contract *c = two_columns();
  MUST(contract_add_category(c, "p") == ERR_OK && contract_add_category(c, CATEGORY_OTHER) == ERR_OK);
  MUST(contract_add_category(c, CATEGORY_MISSING) == ERR_OK);
  c->features[0].missing = (struct missing){MISSING_NUMBER, -1};
  return c;
}

/* Several classes a row: named in one field, or where there is no label marked in a column each. */
static struct contract *class_sets(const char *label) {
  struct contract *c = two_columns();
  c->task = TASK_MULTILABEL;
  c->loss = LOSS_BINARY_CROSS_ENTROPY;
  snprintf(c->label, sizeof c->label, "%s", label);
  return c;
}

static void profile(const char *path, const struct contract *c, enum err read) {
  struct profile *p = NULL;
  struct findings found = {0};
  struct data_place why = {0};
  enum err e = profile_read(&(struct data_file){path, NULL},
                            &(struct profile_options){.contract = c, .fn = &digest_blake2b}, &p, &why);
  MUST(read != ERR_OK || e == ERR_OK);
  if (e == ERR_OK) {
    MUST(check_training(p, c, &found) == ERR_OK);
    for (size_t i = 0; i < found.n; i++)
      MUST(read != ERR_OK || !found.items[i].is_error || found.items[i].code == FINDING_FEW_SAMPLES);
  }
  findings_done(&found);
  profile_free(p);
}

static void read_by(struct contract *c, const char *path) {
  size_t n_ignored;
  struct data_place why = {0};
  enum err e = csv_read(path, c, &(struct sample_sink){check_row, c, NULL}, &n_ignored, &why);
  MUST((e == ERR_OK) == (why.sentence[0] == '\0'));
  profile(path, c, e);
  contract_free(c);
}

/* Without a contract: what is proposed is one, or there is a reason. */
static void propose(const char *path) {
  struct profile *p = NULL;
  struct contract *c = NULL;
  struct data_place why = {0};
  char reason[MAX_REASON_BYTES];
  if (profile_read(&(struct data_file){path, NULL}, &(struct profile_options){0}, &p, &why) == ERR_OK &&
      contract_propose(p, NULL, &c, reason) == ERR_OK)
    MUST(contract_check(c, reason) == ERR_OK);
  contract_free(c);
  profile_free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct memory_file f = memory_file_new(data, size);
  read_by(two_columns(), f.path);
  read_by(typed_columns(), f.path);
  read_by(class_sets("kinds"), f.path);
  read_by(class_sets(""), f.path);
  propose(f.path);
  memory_file_free(&f);
  return 0;
}
