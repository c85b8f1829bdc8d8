/* Verbs that ask a running agent, against a socket that answers what the test says. */
#include "agent/cli/ask.h"
#include "tests/unit/agent/cli_capture.h"
#include "tests/unit/agent/site_folder.h"
#include "tests/unit/suite.h"

#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

static struct cli_capture c;

/* An agent of one answer. */
struct fake_agent {
  int listener;
  const char *answer; /* NULL: says nothing until the client is gone */
  char request[512];
  pthread_t thread;
};

static void *fake_agent_run(void *context) {
  struct fake_agent *a = context;
  int fd = accept(a->listener, NULL, NULL);
  size_t n = 0;
  while (n + 1 < sizeof a->request && !memchr(a->request, '\n', n)) {
    ssize_t got = recv(fd, a->request + n, sizeof a->request - 1 - n, 0);
    if (got <= 0)
      break;
    n += (size_t)got;
  }
  for (const char *at = a->answer; at && *at;) {
    ssize_t put = send(fd, at, strlen(at), MSG_NOSIGNAL);
    if (put <= 0)
      break;
    at += put;
  }
  char rest;
  if (!a->answer && recv(fd, &rest, 1, 0) < 0)
    perror("recv");
  close(fd);
  return NULL;
}

static void fake_agent_start(struct fake_agent *a, const struct site_folder *f, const char *answer) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  *a = (struct fake_agent){.listener = socket(AF_UNIX, SOCK_STREAM, 0), .answer = answer};
  snprintf(address.sun_path, sizeof address.sun_path, "%s/state/" CONTROL_SOCKET, f->path);
  unlink(address.sun_path);
  ck_assert_int_eq(bind(a->listener, (struct sockaddr *)&address, sizeof address), 0);
  ck_assert_int_eq(listen(a->listener, 1), 0);
  ck_assert_int_eq(pthread_create(&a->thread, NULL, fake_agent_run, a), 0);
}

static void fake_agent_stop(struct fake_agent *a) {
  pthread_join(a->thread, NULL);
  close(a->listener);
}

static struct site_folder make_site(void) {
  struct site_folder f = site_folder_new(GOOD_SITE, GOOD_JOB);
  site_folder_make(&f, "state");
  return f;
}

#define OK(data) "{\"schema\":1,\"ok\":true,\"data\":" data ",\"warnings\":[\"careful\"]}\n"

static const char status[] =
    OK("{\"name\":\"mec-07\",\"word\":\"WAITING\",\"why\":\"gathering\\u001b[2J\",\"uptime_s\":190.5,\"sent_bytes\":"
       "2900000,"
       "\"received_bytes\":120,\"disk\":{\"state\":\"low\",\"rounds_left\":2},\"job\":{\"name\":\"inspection\","
       "\"version\":1,\"parameters\":451,\"count\":20,"
       "\"phase\":\"gathering\","
       "\"round\":6,\"sub\":2,\"round_in_work\":7,\"progress\":3,\"progress_total\":9,\"closes_in_s\":12.5,"
       "\"next_round_in_s\":3,"
       "\"waiting_for\":[\"mec-03\"],\"train_loss\":0.41,\"metric\":\"accuracy\",\"local\":0.885,\"global\":null},"
       "\"peers\":[{\"name\":\"mec-03\",\"state\":\"contract\",\"sentence\":\"class 2 is dent "
       "here\",\"refused\":{\"non-finite\":2}}],"
       "\"strangers\":[]}");

START_TEST(status_is_a_view_of_the_answer) {
  struct site_folder f = make_site();
  struct fake_agent a;
  fake_agent_start(&a, &f, status);
  CLI(&c, "-C", f.site, "status");
  fake_agent_stop(&a);
  ck_assert_int_eq(c.code, EXIT_DONE);
  ck_assert_str_eq(a.request, "{\"ask\":\"status\"}\n");
  static const char *const phrases[] = {"2.9 MB",
                                        "120 B",
                                        "3m10s",
                                        "88.5",
                                        "inspection v1, 451 parameters",
                                        "round 7 of 20",
                                        "batch 3/9",
                                        "waits for mec-03",
                                        "closes in 12.5s",
                                        ", next round at ",
                                        "non-finite 2",
                                        "class 2 is dent here"};
  for (size_t i = 0; i < sizeof phrases / sizeof *phrases; i++)
    ck_assert_msg(strstr(c.out, phrases[i]) != NULL, "%s is not in:\n%s", phrases[i], c.out);
  ck_assert_ptr_null(strchr(c.out, '\x1b')); /* nothing from outside drives the terminal */
  ck_assert_ptr_nonnull(strstr(c.out, "\\x1b[2J"));
  ck_assert_ptr_nonnull(strstr(c.err, "warning: careful"));

  fake_agent_start(&a, &f, status);
  CLI(&c, "-C", f.site, "status", "--format", "tsv");
  fake_agent_stop(&a);
  ck_assert_str_eq(c.out, "mec-07\tWAITING\t6\t2\tgathering\t0.40999999999999998\taccuracy\t0.88500000000000001\t-"
                          "\t2900000\t120\t190.5\tlow\t2\n");

  fake_agent_start(&a, &f, status);
  CLI(&c, "-C", f.site, "status", "--format", "json");
  fake_agent_stop(&a);
  json_t *object = cli_capture_json(&c);
  ck_assert_int_eq(
      json_integer_value(json_object_get(json_object_get(json_object_get(object, "data"), "job"), "round")), 6);
  ck_assert_uint_eq(json_array_size(json_object_get(object, "warnings")), 1);
  json_decref(object);
  site_folder_free(&f);
}
END_TEST

START_TEST(health_is_an_exit_code) {
  struct site_folder f = make_site();
  struct fake_agent a;
  fake_agent_start(&a, &f, OK("{\"healthy\":true,\"word\":\"OK\",\"why\":\"training\"}"));
  CLI(&c, "-C", f.site, "health");
  fake_agent_stop(&a);
  ck_assert_int_eq(c.code, EXIT_DONE);
  ck_assert_str_eq(c.out, "OK: training\n");
  fake_agent_start(&a, &f, OK("{\"healthy\":false,\"word\":\"HALTED\",\"why\":\"disk full\"}"));
  CLI(&c, "-C", f.site, "health");
  fake_agent_stop(&a);
  ck_assert_int_eq(c.code, EXIT_FAILED);
  site_folder_free(&f);
}
END_TEST

START_TEST(rounds_wait_ends_with_the_job) {
  struct site_folder f = make_site();
  struct fake_agent a;
  fake_agent_start(&a, &f, OK("{\"word\":\"FINISHED\",\"job\":{\"round\":5}}"));
  CLI(&c, "-C", f.site, "rounds", "wait", "5");
  fake_agent_stop(&a);
  ck_assert_int_eq(c.code, EXIT_DONE);
  ck_assert_str_eq(c.out, "5\n");
  fake_agent_start(&a, &f, OK("{\"word\":\"FINISHED\",\"job\":{\"round\":5}}"));
  CLI(&c, "-C", f.site, "rounds", "wait", "6");
  fake_agent_stop(&a);
  ck_assert_int_eq(c.code, EXIT_FAILED);
  fake_agent_start(&a, &f, OK("{\"word\":\"OK\",\"job\":{\"round\":5}}"));
  CLI(&c, "-C", f.site, "rounds", "wait", "6", "--timeout", "0");
  fake_agent_stop(&a);
  ck_assert_int_eq(c.code, EXIT_TIMED_OUT);
  site_folder_free(&f);
}
END_TEST

START_TEST(requests_carry_what_is_asked) {
  struct site_folder f = make_site();
  struct fake_agent a;
  fake_agent_start(&a, &f, OK("{\"rounds\":[]}"));
  CLI(&c, "-C", f.site, "rounds", "list", "-n", "7");
  fake_agent_stop(&a);
  ck_assert_str_eq(a.request, "{\"ask\":\"rounds\",\"last\":7}\n");
  fake_agent_start(&a, &f, OK("{\"label\":\"418+2\",\"peers\":[]}"));
  CLI(&c, "-C", f.site, "rounds", "show", "418+2");
  fake_agent_stop(&a);
  ck_assert_str_eq(a.request, "{\"ask\":\"round\",\"round\":418,\"sub\":2}\n");
  ck_assert_int_eq(c.code, EXIT_DONE);
  site_folder_free(&f);
}
END_TEST

START_TEST(a_refusal_is_told) {
  struct site_folder f = make_site();
  struct fake_agent a;
  fake_agent_start(&a, &f,
                   "{\"schema\":1,\"ok\":false,\"error\":{\"message\":\"there is no round 99\"},\"warnings\":[]}\n");
  CLI(&c, "-C", f.site, "rounds", "show", "99");
  fake_agent_stop(&a);
  ck_assert_int_eq(c.code, EXIT_FAILED);
  ck_assert_str_eq(c.err, "starling: there is no round 99\n");
  site_folder_free(&f);
}
END_TEST

static const char *const garbage[] = {"\n",
                                      "[]\n",
                                      "{\n",
                                      "{\"schema\":2,\"ok\":true,\"data\":{}}\n",
                                      "{\"schema\":1,\"ok\":true,\"data\":[]}\n",
                                      "\xff\xfe\n",
                                      "{\"schema\":1}\n"};

START_TEST(garbage_is_an_internal_error) {
  struct site_folder f = make_site();
  struct fake_agent a;
  fake_agent_start(&a, &f, garbage[_i]);
  CLI(&c, "-C", f.site, "status");
  fake_agent_stop(&a);
  ck_assert_int_eq(c.code, EXIT_INTERNAL);
  ck_assert_ptr_nonnull(strstr(c.err, "no answer of this version"));
  site_folder_free(&f);
}
END_TEST

START_TEST(a_flood_is_refused) {
  static char flood[MAX_CONTROL_LINE_BYTES + 100];
  struct site_folder f = make_site();
  struct fake_agent a;
  memset(flood, ' ', sizeof flood - 1);
  fake_agent_start(&a, &f, flood);
  CLI(&c, "-C", f.site, "status");
  fake_agent_stop(&a);
  ck_assert_int_ne(c.code, EXIT_DONE);
  site_folder_free(&f);
}
END_TEST

START_TEST(silence_is_a_time_out) {
  struct site_folder f = make_site();
  struct fake_agent a;
  struct timespec before, after;
  fake_agent_start(&a, &f, NULL);
  clock_gettime(CLOCK_MONOTONIC, &before);
  CLI(&c, "-C", f.site, "status");
  clock_gettime(CLOCK_MONOTONIC, &after);
  fake_agent_stop(&a);
  ck_assert_int_eq(c.code, EXIT_TIMED_OUT);
  ck_assert_int_ge(after.tv_sec - before.tv_sec, 1);
  ck_assert_int_le(after.tv_sec - before.tv_sec, 4);
  site_folder_free(&f);
}
END_TEST

int main(void) {
  TCase *tcase = tcase_create("agent/ask");
  tcase_set_timeout(tcase, 20);
  tcase_add_test(tcase, status_is_a_view_of_the_answer);
  tcase_add_test(tcase, health_is_an_exit_code);
  tcase_add_test(tcase, rounds_wait_ends_with_the_job);
  tcase_add_test(tcase, requests_carry_what_is_asked);
  tcase_add_test(tcase, a_refusal_is_told);
  tcase_add_loop_test(tcase, garbage_is_an_internal_error, 0, sizeof garbage / sizeof *garbage);
  tcase_add_test(tcase, a_flood_is_refused);
  tcase_add_test(tcase, silence_is_a_time_out);
  return suite_run_case("agent/ask", tcase);
}
