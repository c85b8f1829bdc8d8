#include "agent/cli/answer.h"

#include <stdarg.h>
#include <string.h>

#include "agent/round_json.h"
#include "agent/text.h"
#include "base/must.h"

void text_print(const char *text, FILE *out) {
  for (const char *at = text; *at;) {
    size_t n = text_character_bytes(at);
    if (n == 0)
      fprintf(out, "\\x%02x", (unsigned char)*at++);
    else
      at += fwrite(at, 1, n, out);
  }
}

static void dump(json_t *envelope) {
  char *text = envelope ? json_dumps(envelope, JSON_COMPACT) : NULL;
  puts(text ? text
            : "{\"schema\":1,\"ok\":false,\"error\":{\"code\":\"no-memory\",\"message\":\"not enough "
              "memory\",\"hint\":\"\"},\"warnings\":[]}");
  fflush(stdout);
  free(text);
  json_decref(envelope);
}

static void print_warnings(const struct call *call) {
  size_t i;
  json_t *warning;
  json_array_foreach(call->warnings, i, warning) {
    fputs("starling: warning: ", stderr);
    text_print(json_string_value(warning), stderr);
    fputc('\n', stderr);
  }
}

void answer_warnings(struct call *call) {
  print_warnings(call);
  json_array_clear(call->warnings);
}

int answer(struct call *call, json_t *data, void (*view)(const struct call *call, const json_t *data, FILE *out)) {
  if (!data)
    return answer_error(call, EXIT_INTERNAL, err_name(ERR_NO_MEMORY), NULL, "%s", err_sentence(ERR_NO_MEMORY));
  if (call->format == FORMAT_JSON) {
    dump(json_pack("{s:i, s:b, s:o, s:O}", "schema", 1, "ok", 1, "data", data, "warnings", call->warnings));
    return EXIT_DONE;
  }
  print_warnings(call);
  view(call, data, stdout);
  fflush(stdout);
  json_decref(data);
  return EXIT_DONE;
}

int answer_change(struct call *call, json_t *data, bool changed,
                  void (*view)(const struct call *call, const json_t *data, FILE *out)) {
  MUST(call->verb->kind == VERB_CHANGES);
  json_object_set_new(data, "changed", json_boolean(changed));
  json_object_set_new(data, "check", json_boolean(call->checks));
  return answer(call, data, view);
}

int answer_error(struct call *call, int code, const char *name, const char *hint, const char *format, ...) {
  char message[MAX_CONFIG_WHY_BYTES];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  if (call->format == FORMAT_JSON) {
    char *clean = NULL; /* JSON holds UTF-8 only */
    size_t n;
    FILE *out = open_memstream(&clean, &n);
    if (out) {
      text_print(message, out);
      fclose(out);
    }
    dump(json_pack("{s:i, s:b, s:{s:s, s:s, s:s}, s:O}", "schema", 1, "ok", 0, "error", "code", name, "message",
                   clean ? clean : "", "hint", hint ? hint : "", "warnings", call->warnings));
    free(clean);
    return code;
  }
  print_warnings(call);
  fputs("starling: ", stderr);
  text_print(message, stderr);
  fprintf(stderr, "%s%s\n", hint ? "; " : "", hint ? hint : "");
  return code;
}

void answer_warn(struct call *call, const char *format, ...) {
  char text[2 * MAX_REASON_BYTES];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  json_array_append_new(call->warnings, json_text(text));
}

void view_state_change(const struct call *call, const json_t *data, const char *what, const char *state, FILE *out) {
  bool changed = json_is_true(json_object_get(data, "changed"));
  if (call->format == FORMAT_TSV)
    fprintf(out, "%s\t%s\n", what, changed ? "yes" : "no");
  else if (changed)
    fprintf(out, "%s %s %s\n", what, call->checks ? "would be" : "is", state);
  else
    fprintf(out, "%s is %s already; nothing changed\n", what, state);
}
