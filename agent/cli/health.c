/* starling health: for probes of orchestrators. */
#include "agent/cli/answer.h"
#include "agent/cli/ask.h"
#include "agent/cli/table.h"
#include "agent/cli/verbs.h"

static void view(const struct call *call, const json_t *data, FILE *out) {
  value_print(json_object_get(data, "word"), FORM_TEXT, out);
  fputs(call->format == FORMAT_TSV ? "\t" : ": ", out);
  value_print(json_object_get(data, "why"), FORM_TEXT, out);
  fputc('\n', out);
}

int verb_health(struct call *call) {
  struct config *c;
  int code;
  if (!call_load_config(call, &c))
    return EXIT_USAGE;
  json_t *data = agent_need(call, c, json_pack("{s:s}", "ask", "health"), &code);
  config_free(c);
  if (!data)
    return code;
  bool healthy = json_is_true(json_object_get(data, "healthy"));
  code = answer(call, data, view);
  return code ? code : healthy ? EXIT_DONE : EXIT_FAILED;
}
