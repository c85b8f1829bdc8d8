#include "agent/cli/cli.h"
#include "agent/cli/table.h"
#include "models/net/layer.h"
#include "tests/unit/agent/cli_capture.h"
#include "tests/unit/agent/site_folder.h"
#include "tests/unit/suite.h"

static struct cli_capture c;

static const char *text_at(const json_t *object, const char *path) {
  const char *text = json_string_value(json_at(object, path));
  ck_assert_msg(text != NULL, "no text at %s", path);
  return text;
}

static const struct {
  const char *argv[6];
  const char *phrase;
} misuses[] = {
    {{"statu"}, "no such verb: statu; did you mean `starling status`?"},
    {{"peer"}, "`peer` goes on with one of: list, members, graph, add"},
    {{"peer", "ad"}, "no such verb: peer ad; did you mean `starling peer add`?"},
    {{"frobnicate"}, "see `starling help`"},
    {{"status", "--wach"}, "no such option: --wach; see `starling help status`"},
    {{"status", "now"}, "one argument too many: now"},
    {{"peer", "add", "a"}, "an argument is missing; write starling peer add NAME KEY [ADDRESS]"},
    {{"rounds", "list", "-n"}, "-n needs a value: N"},
    {{"rounds", "list", "-n", "0"}, "--last: \"0\" is out of range; write 1 to 1000"},
    {{"rounds", "show", "4-2"}, "ROUND: \"4-2\" is not a whole number"},
    {{"rounds", "show", "4+0"}, "ROUND: \"0\" is out of range"},
    {{"rounds", "wait", "0"}, "ROUND: \"0\" is out of range"},
    {{"rounds", "wait", "1", "--timeout", "5s"}, "--timeout: \"5s\" is not a number"},
    {{"eval", "--set", "mine"}, "--set: \"mine\" is not known here; write local, validation or global"},
    {{"--format", "xml", "status"}, "--format: \"xml\" is not known here; write table, json or tsv"},
    {{"status", "-C"}, "-C needs a value: FILE"},
    {{"-C", "/nonexistent.yaml", "status"}, "/nonexistent.yaml: it does not exist"},
    {{"help", "frob"}, "no such verb: frob"},
    {{"models", "import", "caf\xe9.npz"}, "an argument is no UTF-8: caf\\xe9.npz; rename the file"},
};

START_TEST(misuse_is_one_line_and_exit_4) {
  cli_capture_run(&c, misuses[_i].argv);
  ck_assert_int_eq(c.code, EXIT_USAGE);
  ck_assert_msg(strstr(c.err, misuses[_i].phrase) != NULL, "%s", c.err);
  ck_assert_ptr_eq(strchr(c.err, '\n'), c.err + strlen(c.err) - 1);
  ck_assert_str_eq(c.out, "");
}
END_TEST

START_TEST(an_error_in_json_is_on_standard_output) {
  CLI(&c, "--format", "json", "-C", "/nonexistent.yaml", "config", "check");
  ck_assert_int_eq(c.code, EXIT_USAGE);
  ck_assert_str_eq(c.err, "");
  json_t *object = cli_capture_json(&c);
  ck_assert(json_is_false(json_object_get(object, "ok")));
  ck_assert_str_eq(text_at(object, "error.code"), "not-found");
  ck_assert_ptr_nonnull(strstr(text_at(object, "error.message"), "/nonexistent.yaml"));
  json_decref(object);
}
END_TEST

START_TEST(an_answer_that_is_not_written_is_a_failure) {
  static const char *const environment[] = {NULL}, *const argv[] = {"starling", "config", "keys", NULL};
  ck_assert_int_eq(random_open(), ERR_OK);
  fflush(stdout);
  int old = dup(STDOUT_FILENO), full = open("/dev/full", O_WRONLY | O_CLOEXEC);
  ck_assert(old >= 0 && full >= 0 && dup2(full, STDOUT_FILENO) >= 0);
  int code = cli_main(3, argv, environment);
  dup2(old, STDOUT_FILENO);
  clearerr(stdout);
  close(old);
  close(full);
  ck_assert_int_eq(code, EXIT_FAILED);
}
END_TEST

START_TEST(help_knows_every_verb) {
  CLI(&c, "help");
  ck_assert_int_eq(c.code, EXIT_DONE);
  ck_assert_ptr_nonnull(strstr(c.out, "peer add NAME KEY [ADDRESS]"));
  ck_assert_ptr_null(strstr(c.out, "--timeout SECONDS"));
  CLI(&c, "help", "all");
  ck_assert_ptr_nonnull(strstr(c.out, "--timeout SECONDS"));
  CLI(&c, "help", "rounds", "wait");
  ck_assert_ptr_nonnull(strstr(c.out, "--timeout SECONDS"));
  ck_assert_ptr_null(strstr(c.out, "peer add"));
  CLI(&c, "help", "layers");
  ck_assert_int_eq(c.code, EXIT_DONE);
  for (size_t i = 0; layer_type_at(i); i++) {
    const struct layer_type *type = layer_type_at(i);
    const char *usage = type->usage ? type->usage : type->word;
    ck_assert_msg(type->sentence && strncmp(usage, type->word, strlen(type->word)) == 0, "%s", type->word);
    ck_assert_msg(strstr(c.out, usage) != NULL, "%s", usage);
  }
  CLI(&c, "version");
  ck_assert(c.out[0] >= '0' && c.out[0] <= '9' && strchr(c.out, '.'));
  cli_capture_run(&c, (const char *const[]){NULL});
  ck_assert_int_eq(c.code, EXIT_USAGE);
}
END_TEST

/* `starling init` in a folder that is made, with data that exist. */
static struct site_folder make_site(void) {
  struct site_folder f = site_folder_new("", "");
  ck_assert(unlink(f.site) == 0);
  CLI(&c, "init", f.path, "--name", "mec-07", "--swarm", "k3vz-7qd2");
  ck_assert_msg(c.code == EXIT_DONE, "%s", c.err);
  site_folder_write(&f, "parts.csv", "");
  return f;
}

/* Points the site file that init wrote to data that exist. */
static void point_to_data(const struct site_folder *f) {
  char text[4096], edited[4096];
  FILE *in = fopen(f->site, "r");
  text[fread(text, 1, sizeof text - 1, in)] = '\0';
  fclose(in);
  char *at = strstr(text, "/data/parts.csv");
  ck_assert_ptr_nonnull(at);
  snprintf(edited, sizeof edited, "%.*sparts.csv%s", (int)(at - text), text, at + strlen("/data/parts.csv"));
  site_folder_write(f, "site.yaml", edited);
}

START_TEST(init_makes_a_site_that_checks) {
  struct site_folder f = make_site();
  struct stat st;
  char path[256];
  snprintf(path, sizeof path, "%s/agent.key", f.path);
  ck_assert_int_eq(stat(path, &st), 0);
  ck_assert_uint_eq(st.st_mode & 0777, 0600);

  CLI(&c, "-C", f.site, "config", "check");
  ck_assert_int_eq(c.code, EXIT_USAGE);
  ck_assert_ptr_nonnull(strstr(c.err, "jobs[].data.train: /data/parts.csv: it does not exist; correct the path"));

  point_to_data(&f);
  CLI(&c, "config", "check", "--format=json", "-C", f.site);
  ck_assert_msg(c.code == EXIT_DONE, "%s", c.out);
  json_t *object = cli_capture_json(&c);
  ck_assert_int_eq(json_integer_value(json_at(object, "data.parameters")), 3 * 64 + 64 + 64 * 3 + 3);
  json_decref(object);

  CLI(&c, "init", f.path, "--format", "json");
  ck_assert_msg(c.code == EXIT_DONE, "%s", c.out);
  ck_assert_ptr_nonnull(strstr(c.out, "\"changed\":false"));
  CLI(&c, "init", f.path, "--name", "another");
  ck_assert_int_eq(c.code, EXIT_FAILED);
  ck_assert_ptr_nonnull(strstr(c.err, "site.yaml: it exists already, with another name"));
  site_folder_free(&f);
}
END_TEST

START_TEST(init_makes_a_swarm_of_its_own) {
  struct site_folder f = site_folder_new("", "");
  char path[128];
  snprintf(path, sizeof path, "%s/new", f.path);
  CLI(&c, "init", path, "--format", "json");
  ck_assert_int_eq(c.code, EXIT_DONE);
  json_t *object = cli_capture_json(&c);
  const char *swarm = text_at(object, "data.swarm");
  ck_assert_uint_eq(strlen(swarm), 9);
  ck_assert_int_eq(swarm[4], '-');
  json_decref(object);
  CLI(&c, "init", path, "--name", "a b");
  ck_assert_int_eq(c.code, EXIT_USAGE);
  site_folder_free(&f);
}
END_TEST

START_TEST(a_key_is_made_once_and_shown) {
  struct site_folder f = site_folder_new(GOOD_SITE, GOOD_JOB);
  char shown[KEY_TEXT_BYTES + 1], pass[128];
  CLI(&c, "-C", f.site, "key", "show");
  ck_assert_int_eq(c.code, EXIT_USAGE);
  ck_assert_ptr_nonnull(strstr(c.err, "`starling key new` makes one"));
  site_folder_write(&f, "pass", "correct horse\n");
  snprintf(pass, sizeof pass, "%s/pass", f.path);
  CLI(&c, "-C", f.site, "key", "new", "--passphrase-file", pass);
  ck_assert_msg(c.code == EXIT_DONE, "%s", c.err);
  ck_assert_uint_eq(strlen(c.out), KEY_TEXT_BYTES);
  memcpy(shown, c.out, sizeof shown);
  CLI(&c, "-C", f.site, "key", "new");
  ck_assert_int_eq(c.code, EXIT_FAILED);
  ck_assert_ptr_nonnull(strstr(c.err, "a new key is a new identity"));
  CLI(&c, "-C", f.site, "key", "show", "--passphrase-file", pass);
  ck_assert_str_eq(c.out, shown);
  CLI(&c, "-C", f.site, "key", "show", "--passphrase-file", pass, "--format", "json");
  json_t *object = cli_capture_json(&c);
  ck_assert_mem_eq(text_at(object, "data.key"), shown, KEY_TEXT_BYTES - 1);
  ck_assert_uint_eq(strlen(text_at(object, "data.short")), 9);
  json_decref(object);
  site_folder_write(&f, "pass", "wrong\n");
  CLI(&c, "-C", f.site, "key", "show", "--passphrase-file", pass);
  ck_assert_int_eq(c.code, EXIT_USAGE);
  ck_assert_ptr_nonnull(strstr(c.err, "passphrase is wrong"));
  site_folder_free(&f);
}
END_TEST

START_TEST(a_day_is_known_from_every_s_before_the_first_round) {
  struct site_folder f = make_site();
  point_to_data(&f);
  FILE *site = fopen(f.site, "a");
  ck_assert_ptr_nonnull(site);
  ck_assert(fputs("    round: { every_s: 60 }\n", site) >= 0 && fclose(site) == 0);
  CLI(&c, "-C", f.site, "config", "check", "--format", "json");
  json_t *object = cli_capture_json(&c);
  double written = json_number_value(json_at(object, "data.written_bytes"));
  ck_assert_msg(c.code == EXIT_DONE && written > 0, "%s", c.out);
  ck_assert_double_eq_tol(json_number_value(json_at(object, "data.written_day_bytes")), 1440 * written, 0.5);
  json_decref(object);
  site_folder_free(&f);
}
END_TEST

START_TEST(config_show_has_values_and_origins) {
  struct site_folder f = site_folder_new(GOOD_SITE, GOOD_JOB);
  CLI(&c, "-C", f.site, "config", "show", "--format", "tsv");
  ck_assert_int_eq(c.code, EXIT_DONE);
  ck_assert_ptr_nonnull(strstr(c.out, "store.keep_last\tlocal\tdefault\t3\n"));
  ck_assert_ptr_nonnull(strstr(c.out, "classes\tmust agree\t"));
  ck_assert_ptr_nonnull(strstr(c.out, "a.job.yaml:4\t[ok, bad]\n"));
  site_folder_free(&f);
}
END_TEST

START_TEST(config_keys_explains) {
  CLI(&c, "config", "keys", "keep_last", "--format", "json");
  json_t *object = cli_capture_json(&c);
  const json_t *rows = json_at(object, "data.keys");
  ck_assert_uint_eq(json_array_size(rows), 1);
  const json_t *row = json_array_get(rows, 0);
  ck_assert_str_eq(text_at(row, "default"), "3");
  ck_assert_str_eq(text_at(row, "range"), "1 to 1000");
  ck_assert_str_eq(text_at(row, "scope"), "local");
  json_decref(object);
  CLI(&c, "config", "keys", "zebra");
  ck_assert_int_eq(c.code, EXIT_FAILED);
  CLI(&c, "config", "keys", "--format", "tsv");
  size_t lines = 0;
  for (const char *at = c.out; (at = strchr(at, '\n')); at++)
    lines++;
  ck_assert_uint_eq(lines, n_options);
}
END_TEST

START_TEST(a_peer_is_added_once) {
  struct site_folder f = make_site();
  struct identity_key key = test_key(1), other = test_key(2);
  char text[KEY_TEXT_BYTES], other_text[KEY_TEXT_BYTES], own[KEY_TEXT_BYTES + 1], path[256];
  struct stat st;
  point_to_data(&f);
  key_text_write(&key, text);
  key_text_write(&other, other_text);
  CLI(&c, "-C", f.site, "peer", "add", "mec-03", text, "tcp://10.0.0.3:7411", "--format", "json");
  ck_assert_msg(c.code == EXIT_DONE, "%s", c.out);
  json_t *object = cli_capture_json(&c);
  ck_assert(json_is_true(json_at(object, "data.changed")));
  json_decref(object);
  snprintf(path, sizeof path, "%s/conf.d/mec-03.yaml", f.path);
  ck_assert_int_eq(stat(path, &st), 0);
  ck_assert_uint_eq(st.st_mode & 0777, 0644);

  CLI(&c, "-C", f.site, "peer", "add", "mec-03", text, "tcp://10.0.0.3:7411", "--format", "json");
  object = cli_capture_json(&c);
  ck_assert(json_is_false(json_at(object, "data.changed")));
  json_decref(object);

  CLI(&c, "-C", f.site, "config", "show");
  ck_assert_ptr_nonnull(strstr(c.out, "peers[mec-03].address"));
  CLI(&c, "-C", f.site, "peer", "add", "mec-04", text);
  ck_assert_int_eq(c.code, EXIT_FAILED);
  ck_assert_ptr_nonnull(strstr(c.err, "has the same key"));
  CLI(&c, "-C", f.site, "peer", "add", "mec-03", other_text);
  ck_assert_int_eq(c.code, EXIT_FAILED);
  ck_assert_ptr_nonnull(strstr(c.err, "has the same name"));
  CLI(&c, "-C", f.site, "key", "show");
  snprintf(own, sizeof own, "%.*s", KEY_TEXT_BYTES - 1, c.out);
  CLI(&c, "-C", f.site, "peer", "add", "me", own);
  ck_assert_int_eq(c.code, EXIT_USAGE);
  ck_assert_ptr_nonnull(strstr(c.err, "this agent's own key"));
  text[0] = text[0] == 'A' ? 'B' : 'A';
  CLI(&c, "-C", f.site, "peer", "add", "x", text);
  ck_assert_int_eq(c.code, EXIT_USAGE);
  ck_assert_ptr_nonnull(strstr(c.err, "KEY: the key is mistyped"));
  CLI(&c, "-C", f.site, "peer", "add", "../x", other_text);
  ck_assert_int_eq(c.code, EXIT_USAGE);
  CLI(&c, "-C", f.site, "peer", "add", "x", other_text, "10.0.0.4");
  ck_assert_int_eq(c.code, EXIT_USAGE);
  ck_assert_ptr_nonnull(strstr(c.err, "ADDRESS: "));
  site_folder_free(&f);
}
END_TEST

START_TEST(without_an_agent_the_exit_code_is_2) {
  struct site_folder f = site_folder_new(GOOD_SITE, GOOD_JOB);
  static const char *const verbs[][2] = {{"status", NULL}, {"health", NULL}, {"eval", NULL}};
  for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
    CLI(&c, "-C", f.site, verbs[i][0]);
    ck_assert_int_eq(c.code, EXIT_UNREACHABLE);
  }
  CLI(&c, "-C", f.site, "peer", "list");
  ck_assert_int_eq(c.code, EXIT_UNREACHABLE);
  ck_assert_ptr_nonnull(strstr(c.err, "no agent runs there; start it with `starling run`"));
  CLI(&c, "-C", f.site, "rounds", "list");
  ck_assert_int_eq(c.code, EXIT_UNREACHABLE);
  ck_assert_ptr_nonnull(strstr(c.err, ": no agent has run there yet; start one with `starling run`"));
  CLI(&c, "-C", f.site, "events");
  ck_assert_int_eq(c.code, EXIT_UNREACHABLE);
  ck_assert_str_eq(c.out, ""); /* no heading without an answer */
  CLI(&c, "-C", f.site, "rounds", "wait", "1", "--timeout", "0.2");
  ck_assert_int_eq(c.code, EXIT_UNREACHABLE);
  site_folder_free(&f);
}
END_TEST

int main(void) {
  TCase *tcase = tcase_create("agent/cli");
  tcase_add_loop_test(tcase, misuse_is_one_line_and_exit_4, 0, sizeof misuses / sizeof *misuses);
  tcase_add_test(tcase, an_error_in_json_is_on_standard_output);
  tcase_add_test(tcase, an_answer_that_is_not_written_is_a_failure);
  tcase_add_test(tcase, help_knows_every_verb);
  tcase_add_test(tcase, init_makes_a_site_that_checks);
  tcase_add_test(tcase, init_makes_a_swarm_of_its_own);
  tcase_add_test(tcase, a_key_is_made_once_and_shown);
  tcase_add_test(tcase, a_day_is_known_from_every_s_before_the_first_round);
  tcase_add_test(tcase, config_show_has_values_and_origins);
  tcase_add_test(tcase, config_keys_explains);
  tcase_add_test(tcase, a_peer_is_added_once);
  tcase_add_test(tcase, without_an_agent_the_exit_code_is_2);
  return suite_run_case("agent/cli", tcase);
}
