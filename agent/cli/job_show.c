/* starling job show: what a job file says, what follows from it, and who stands for it. */
#include <stdlib.h>
#include <string.h>

#include "agent/cli/answer.h"
#include "agent/cli/catalogue.h"
#include "agent/cli/table.h"
#include "agent/cli/verbs.h"
#include "agent/key.h"
#include "agent/text.h"
#include "crypto/key_text.h"

static const char *const role_names[] = {
    [ROLE_SHARED] = "shared", [ROLE_PERSONAL] = "personal", [ROLE_STATISTIC] = "statistic"};

static json_t *tensor_rows(const struct schema *schema) {
  json_t *rows = json_array();
  for (size_t i = 0; i < schema_tensors(schema); i++) {
    const struct tensor *t = schema_tensor(schema, i);
    json_t *shape = json_array();
    for (uint32_t k = 0; k < t->rank; k++)
      json_array_append_new(shape, json_integer(t->shape[k]));
    json_array_append_new(rows, json_pack("{s:s, s:o, s:I, s:s}", "tensor", t->name, "shape", shape, "parameters",
                                          (json_int_t)t->n_values, "role", role_names[t->role]));
  }
  return rows;
}

static json_t *contract_lines(const struct contract *contract) {
  char *text = calloc(1, MAX_SCHEMA_TEXT_BYTES);
  json_t *lines = json_array();
  size_t n = 0;
  if (text && contract_text(contract, text, MAX_SCHEMA_TEXT_BYTES, &n) == ERR_OK)
    for (const char *at = text; *at;) {
      size_t n_line = strcspn(at, "\n");
      json_array_append_new(lines, json_stringn(at, n_line));
      at += n_line + (at[n_line] == '\n');
    }
  free(text);
  return lines;
}

/* Name and key of who signed it: this site for its own file. */
static void name_signer(struct call *call, const struct config *c, const struct known_job *k, json_t *o) {
  struct identity_key key;
  char text[KEY_TEXT_BYTES] = "", why[MAX_CONFIG_WHY_BYTES];
  const char *name = c->name;
  struct identity *own = NULL;
  memcpy(key.bytes, k->row.proposer, sizeof key.bytes);
  if (k->is_configured && key_open(c, &own, why) == ERR_OK)
    key = *identity_public(own);
  else if (k->is_configured)
    answer_warn(call, "%s", why);
  if (!k->is_configured || own)
    key_text_write(&key, text);
  for (size_t i = 0; i < c->n_peers; i++)
    if (identity_key_equal(&key, &c->peers[i].key))
      name = c->peers[i].name;
  identity_free(own);
  json_object_set_new(o, "signed_by", json_string(name));
  json_object_set_new(o, "proposer", json_string(text));
}

static json_t *describe(struct call *call, const struct config *c, const struct known_job *k) {
  const struct job_config *job = &k->job->job;
  struct schema *schema;
  char reason[MAX_REASON_BYTES];
  if (schema_from_arch(job->arch, job->contract, &schema, reason))
    return NULL; /* the loader has made the same one */
  size_t n = schema_parameters(schema), n_shared = schema_shared(schema);
  json_t *o =
      json_pack("{s:s, s:I, s:s, s:s, s:s, s:I, s:I, s:I, s:o, s:o}", "job", job->name, "version",
                (json_int_t)job->version, "run_label", job->run_label, "state", catalogue_state(k), "model", job->arch,
                "parameters", (json_int_t)n, "update_bytes", (json_int_t)codec_bound(job->contract->codec, n_shared),
                "full_bytes", (json_int_t)codec_full_bytes(n_shared), "tensors", tensor_rows(schema), "contract",
                contract_lines(job->contract));
  schema_free(schema);
  if (!o)
    return NULL;
  json_object_set_new(o, "text", json_stringn(job->text, job->n_text));
  name_signer(call, c, k, o);
  return o;
}

static void print_lines(const json_t *lines, FILE *out) {
  const json_t *line;
  size_t i;
  json_array_foreach(lines, i, line) {
    fputs("  ", out);
    text_print(json_string_value(line), out);
    fputc('\n', out);
  }
}

/* The file as it stands, its lines kept. */
static void print_text(const char *text, FILE *out) {
  for (const char *at = text; at && *at;) {
    size_t n = strcspn(at, "\n");
    char *line = text_copy(at, n);
    fputs("  ", out);
    text_print(line ? line : "", out);
    fputc('\n', out);
    free(line);
    at += n + (at[n] == '\n');
  }
}

static void view(const struct call *call, const json_t *data, FILE *out) {
  static const struct column columns[] = {{"TENSOR", "tensor", FORM_TEXT},
                                          {"SHAPE", "shape", FORM_TEXT},
                                          {"PARAMETERS", "parameters", FORM_COUNT},
                                          {"ROLE", "role", FORM_TEXT}};
  bool is_tsv = call->format == FORMAT_TSV;
  if (!is_tsv) {
    value_print(json_object_get(data, "job"), FORM_TEXT, out);
    fputc('@', out);
    value_print(json_object_get(data, "version"), FORM_COUNT, out);
    fputs(", ", out);
    value_print(json_object_get(data, "state"), FORM_TEXT, out);
    fputs(", signed by ", out);
    value_print(json_object_get(data, "signed_by"), FORM_TEXT, out);
    fputs("\n\n", out);
    print_text(json_string_value(json_object_get(data, "text")), out);
    fputc('\n', out);
  }
  table_print(columns, sizeof columns / sizeof *columns, json_object_get(data, "tensors"), is_tsv, out);
  if (is_tsv)
    return;
  fputc('\n', out);
  value_print(json_object_get(data, "parameters"), FORM_COUNT, out);
  fputs(" parameters; an update has ", out);
  value_print(json_object_get(data, "update_bytes"), FORM_BYTES, out);
  fputs(" on the wire, a full copy ", out);
  value_print(json_object_get(data, "full_bytes"), FORM_BYTES, out);
  fputs("\n\ncontract\n", out);
  print_lines(json_object_get(data, "contract"), out);
}

int verb_job_show(struct call *call) {
  char why[MAX_CONFIG_WHY_BYTES] = "";
  struct config *c;
  struct catalogue catalogue;
  const struct known_job *k = NULL;
  if (!call_load_config(call, &c))
    return EXIT_USAGE;
  enum err e = catalogue_open(&catalogue, c, why);
  if (e == ERR_OK)
    e = catalogue_find(&catalogue, call->n_arguments ? call->arguments[0] : NULL, &k, why);
  int code = e ? answer_error(call, e == ERR_NOT_FOUND ? EXIT_FAILED : EXIT_USAGE, err_name(e), NULL, "%s", why)
               : answer(call, describe(call, c, k), view);
  catalogue_close(&catalogue);
  config_free(c);
  return code;
}
