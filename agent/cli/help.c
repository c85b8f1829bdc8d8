/* starling help, starling version. */
#include <stdio.h>
#include <string.h>

#include "agent/cli/answer.h"
#include "agent/cli/table.h"
#include "agent/cli/verbs.h"
#include "models/net/layer.h"

static const char exit_words[] =
    "\nEvery verb also takes --format table|json|tsv and -C FILE, the site file (default: $STARLING_CONFIG,\n"
    "./site.yaml, /etc/starling/site.yaml). A ROUND is 418, or 418+2 for two local rounds after it.\n"
    "Exit codes: 0 done, 1 failed, 2 no agent reachable or not allowed, 3 time-out,\n"
    "4 arguments, configuration or data, 5 internal.\n";

/* Two columns: how it is written, and a sentence, on a line of its own where the first is too wide. */
static void print_help(const char *usage, size_t indent, const char *sentence, FILE *out) {
  enum { SENTENCE_AT = 33, LINE = 100 };
  size_t width = indent + text_width(usage, SIZE_MAX);
  bool fits = width < SENTENCE_AT;
  fprintf(out, "%*s%s%s%*s", (int)indent, "", usage, fits ? "" : "\n", (int)(SENTENCE_AT - (fits ? width : 0)), "");
  text_flow(sentence, SENTENCE_AT, LINE, out);
}

static void print_flag(const struct flag *f, FILE *out) {
  char usage[MAX_REASON_BYTES];
  snprintf(usage, sizeof usage, "%s%s%s%s%s%s%s", f->brief ? f->brief : "", f->brief ? ", " : "", f->name,
           f->value ? " " : "", f->value_is_optional ? "[" : "", f->value ? f->value : "",
           f->value_is_optional ? "]" : "");
  print_help(usage, 4, f->sentence, out);
}

static void print_verb(const struct verb *v, bool in_full, FILE *out) {
  char usage[MAX_REASON_BYTES];
  snprintf(usage, sizeof usage, "%s%s%s", v->words, v->arguments[0] ? " " : "", v->arguments);
  print_help(usage, 2, v->summary, out);
  for (size_t i = 0; in_full && i < MAX_FLAGS && v->flags[i].name; i++)
    print_flag(&v->flags[i], out);
  if (in_full && v->kind == VERB_CHANGES)
    print_flag(&check_flag, out);
}

void help_print(const struct verb *v) {
  print_verb(v, true, stdout);
  fputs(exit_words, stdout);
}

/* Whether the verb is one that `help WORDS…` asks for: all of them, its first word, or both. */
static bool is_asked_for(const struct verb *v, const struct call *call) {
  char words[2 * MAX_NAME_BYTES];
  if (call->n_arguments == 0 || strcmp(call->arguments[0], "all") == 0)
    return true;
  snprintf(words, sizeof words, "%.60s%s%.60s", call->arguments[0], call->n_arguments > 1 ? " " : "",
           call->n_arguments > 1 ? call->arguments[1] : "");
  size_t n = strlen(words);
  return strncmp(v->words, words, n) == 0 && (v->words[n] == '\0' || v->words[n] == ' ');
}

/* What may stand in a job's `model`. */
static int help_layers(void) {
  fputs("model: layers from the inputs to the outputs, with commas between; `as NAME` behind one names its tensors,\n"
        "`softmax` is short for `dense classes`. The last layer has as many outputs as the task has.\n"
        "As in  model: conv 3x3x16 pad 1, batchnorm, relu, pool 2, dense 64 as features, relu, dense classes\n\n",
        stdout);
  for (size_t i = 0; layer_type_at(i); i++) {
    const struct layer_type *type = layer_type_at(i);
    print_help(type->usage ? type->usage : type->word, 2, type->sentence, stdout);
  }
  return EXIT_DONE;
}

int verb_help(struct call *call) {
  if (call->n_arguments == 1 && strcmp(call->arguments[0], "layers") == 0)
    return help_layers();
  bool in_full = call->n_arguments > 0;
  size_t n = 0;
  for (size_t i = 0; i < n_verbs; i++)
    n += is_asked_for(&verbs[i], call);
  if (n == 0)
    return call_refuse_verb(call, call->arguments[0]);
  puts("starling: many sites learn one model together, without a server and without their data leaving them\n");
  for (size_t i = 0; i < n_verbs; i++)
    if (is_asked_for(&verbs[i], call))
      print_verb(&verbs[i], in_full, stdout);
  fputs(exit_words, stdout);
  return EXIT_DONE;
}

static void view_version(const struct call *call, const json_t *data, FILE *out) {
  (void)call;
  fprintf(out, "%s\n", json_string_value(json_object_get(data, "version")));
}

int verb_version(struct call *call) {
  return answer(call, json_pack("{s:s}", "version", STARLING_VERSION), view_version);
}
