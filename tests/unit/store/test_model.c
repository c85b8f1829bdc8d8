/* Which models are kept and served, and going back to one; job files and events. */
#include "tests/unit/store/fixture.h"
#include "tests/unit/suite.h"

static enum err commit_with(struct store *s, uint64_t round, double validation, bool with_shadow) {
  struct round_label label = {.round = round};
  struct round_bytes b = round_bytes(label);
  uint8_t shadow[500];
  round_fill(shadow, sizeof shadow, label, 6);
  struct store_commitment c = commitment(&b, label);
  c.metrics = (struct store_metrics){.has_validation = validation >= 0,
                                     .validation_loss = 1 - validation,
                                     .validation_headline = validation,
                                     .has_local = true,
                                     .local_loss = 0.5,
                                     .local_headline = 0.25 * (double)round,
                                     .local_balanced = 0.75};
  if (with_shadow) {
    c.shadow = shadow;
    c.n_shadow = sizeof shadow;
    c.shadow_headline = 0.5;
    c.shadow_seconds = 1.25;
  }
  return store_commit(s, &c);
}

/* Rounds 1 … n with these figures of the validation split; negative: not measured. */
static void run_with(struct store *s, const double *validation, uint64_t n) {
  for (uint64_t r = 1; r <= n; r++) {
    ck_assert_int_eq(round_publish(s, r, r), ERR_OK);
    ck_assert_int_eq(commit_with(s, r, validation[r - 1], true), ERR_OK);
  }
}

/* "9 8 7 3" */
static const char *kept(struct store *s) {
  static char text[256];
  struct store_model models[32];
  size_t n = 0, at = 0;
  ck_assert_int_eq(store_models(s, &job_one, models, 32, &n), ERR_OK);
  text[0] = '\0';
  for (size_t i = 0; i < n; i++) {
    at += (size_t)snprintf(text + at, sizeof text - at, "%s%llu", i ? " " : "",
                           (unsigned long long)models[i].label.round);
    if (models[i].label.sub > 0)
      at += (size_t)snprintf(text + at, sizeof text - at, "+%u", models[i].label.sub);
  }
  return text;
}

static size_t count_files(const struct fixture *f) {
  char command[256], line[32] = "";
  snprintf(command, sizeof command, "ls %s/files | wc -l", f->state);
  FILE *out = popen(command, "r"); // NOLINT(cert-env33-c): our own folder
  ck_assert_ptr_nonnull(fgets(line, sizeof line, out));
  pclose(out);
  return strtoul(line, NULL, 10);
}

static bool changed_by(enum err e, const bool *changed) {
  ck_assert_int_eq(e, ERR_OK);
  return *changed;
}

#define CHANGED(call) changed_by(call, &changed)

static struct round_label at(uint64_t round) {
  return (struct round_label){.round = round};
}

/* Means over three: 3 .2, 4 .5, 5 .8, 6 .8, 7 .5, 8 .2, … */
static const double hill[12] = {0.1, 0.2, 0.3, 1.0, 1.1, 0.3, 0.1, 0.2, 0.1, 0.0, 0.0, 0.0};

START_TEST(the_newest_the_best_and_the_pinned_stay) {
  struct fixture f = fixture_new();
  struct store *s = fixture_open(&f);
  bool changed;
  run_with(s, hill, 4);
  ck_assert(CHANGED(store_pin(s, &job_one, at(2), "before", 7, &changed)));
  ck_assert(!CHANGED(store_pin(s, &job_one, at(2), "before", 8, &changed)));
  ck_assert(CHANGED(store_pin(s, &job_one, at(2), "before the sensor", 9, &changed)));
  for (uint64_t r = 5; r <= 12; r++) {
    ck_assert_int_eq(round_publish(s, r, r), ERR_OK);
    ck_assert_int_eq(commit_with(s, r, hill[r - 1], true), ERR_OK);
  }
  ck_assert_str_eq(kept(s), "12 11 10 6 5 2"); /* 5: (.3 + 1.0 + 1.1) / 3 = 6: (1.0 + 1.1 + .3) / 3 */
  struct store_model models[8];
  size_t n;
  ck_assert_int_eq(store_models(s, &job_one, models, 8, &n), ERR_OK);
  ck_assert(models[5].pinned && models[5].pinned_unix_s == 9 && !models[0].pinned);
  ck_assert_str_eq(models[5].note, "before the sensor");
  ck_assert_double_eq_tol(models[3].mean, 0.8, 1e-12);
  ck_assert(__builtin_isnan(models[5].mean)); /* the second has no third */
  store_close(s);
  s = fixture_open(&f); /* and after a restart */
  ck_assert_str_eq(kept(s), "12 11 10 6 5 2");
  size_t n_files = count_files(&f);
  ck_assert(CHANGED(store_unpin(s, &job_one, at(2), &changed)));
  ck_assert(!CHANGED(store_unpin(s, &job_one, at(2), &changed)));
  ck_assert_str_eq(kept(s), "12 11 10 6 5");
  ck_assert_uint_eq(count_files(&f), n_files - 3); /* its model, half and shadow, at once */
  ck_assert_int_eq(store_pin(s, &job_one, at(2), "", 7, &changed), ERR_NOT_FOUND);
  store_close(s);
  fixture_free(&f);
}
END_TEST

START_TEST(a_shadow_is_kept_as_long_as_its_model) {
  struct fixture f = fixture_new();
  struct store *s = fixture_open(&f);
  struct store_round r;
  size_t n;
  uint8_t *bytes;
  run_with(s, (double[]){-1, -1, -1, -1}, 4);
  ck_assert_int_eq(store_round_find(s, &job_one, at(4), &r, NULL, 0, &n), ERR_OK);
  ck_assert(!digest_is_zero(&r.shadow) && r.shadow_headline == 0.5 && r.shadow_seconds == 1.25);
  ck_assert(r.metrics.local_balanced == 0.75 && !r.metrics.has_validation);
  ck_assert_int_eq(store_file_load(s, &r.shadow, 500, &bytes, &n), ERR_OK);
  free(bytes);
  struct store_resume resume = resume_at(s);
  ck_assert(digest_equal(&resume.shadow, &r.shadow));
  ck_assert_int_eq(store_round_find(s, &job_one, at(1), &r, NULL, 0, &n), ERR_OK);
  ck_assert(digest_is_zero(&r.model) && digest_is_zero(&r.shadow) && r.shadow_headline == 0.5);
  store_close(s);
  fixture_free(&f);
}
END_TEST

START_TEST(what_is_served) {
  struct fixture f = fixture_new();
  struct store *s = fixture_open(&f);
  struct store_serving v;
  bool changed;
  ck_assert_int_eq(store_serving(s, &job_one, SERVE_BEST, &v), ERR_NOT_FOUND);
  run_with(s, hill, 2);
  ck_assert_int_eq(store_serving(s, &job_one, SERVE_BEST, &v), ERR_OK);
  ck_assert(v.asked == SERVE_BEST && v.mode == SERVE_LATEST && v.label.round == 2); /* two figures are too few */
  ck_assert_int_eq(store_serving(s, &job_one, SERVE_PINNED, &v), ERR_OK);
  ck_assert(v.mode == SERVE_LATEST && v.label.round == 2); /* nothing is pinned */
  for (uint64_t r = 3; r <= 9; r++) {
    ck_assert_int_eq(round_publish(s, r, r), ERR_OK);
    ck_assert_int_eq(commit_with(s, r, hill[r - 1], false), ERR_OK);
  }
  ck_assert_int_eq(store_serving(s, &job_one, SERVE_BEST, &v), ERR_OK);
  ck_assert(v.mode == SERVE_BEST && v.label.round == 6 && !v.by_command); /* of equal ones the newer */
  ck_assert_int_eq(store_serving(s, &job_one, SERVE_LATEST, &v), ERR_OK);
  ck_assert_uint_eq(v.label.round, 9);
  ck_assert_int_eq(store_serve(s, &job_one, SERVE_PINNED, at(1), 7, &changed), ERR_NOT_FOUND);
  ck_assert(CHANGED(store_serve(s, &job_one, SERVE_PINNED, at(7), 7, &changed)));
  ck_assert(!CHANGED(store_serve(s, &job_one, SERVE_PINNED, at(7), 8, &changed)));
  for (uint64_t r = 10; r <= 12; r++)
    ck_assert(round_publish(s, r, r) == ERR_OK && commit_with(s, r, 0, false) == ERR_OK);
  ck_assert_int_eq(store_serving(s, &job_one, SERVE_BEST, &v), ERR_OK);
  ck_assert(v.by_command && v.mode == SERVE_PINNED && v.label.round == 7); /* kept for that alone */
  ck_assert_str_eq(kept(s), "12 11 10 7 6 5");
  ck_assert(CHANGED(store_serve(s, &job_one, SERVE_LATEST, at(7), 9, &changed)));
  ck_assert_str_eq(kept(s), "12 11 10 6 5");
  ck_assert(CHANGED(store_pin(s, &job_one, at(5), "", 7, &changed)));
  ck_assert(CHANGED(store_serve(s, &job_one, SERVE_BEST, at(0), 9, &changed)));
  store_close(s);
  fixture_free(&f);
}
END_TEST

START_TEST(going_back_is_one_more_commitment) {
  struct fixture f = fixture_new();
  struct store *s = fixture_open(&f);
  struct store_roll_back done, last;
  struct store_round old, new, newest;
  size_t n;
  bool changed;
  char note[STORE_NOTE_BYTES + 1];
  memset(note, 'x', sizeof note - 1);
  note[sizeof note - 1] = '\0';
  run_with(s, hill, 6);
  ck_assert_int_eq(store_roll_back_last(s, &job_one, &last), ERR_NOT_FOUND);
  ck_assert_int_eq(store_roll_back(s, &job_one, at(1), "", 7, &done, &changed), ERR_NOT_FOUND);
  ck_assert_int_eq(store_roll_back(s, &job_one, at(4), note, 7, &done, &changed), ERR_LIMIT);
  ck_assert(!CHANGED(store_roll_back(s, &job_one, at(6), "", 7, &done, &changed))); /* it is there */
  ck_assert_int_eq(store_round_find(s, &job_one, at(4), &old, NULL, 0, &n), ERR_OK);
  ck_assert(CHANGED(store_roll_back(s, &job_one, at(4), "bad sensor", 7, &done, &changed)));
  ck_assert(done.label.round == 6 && done.label.sub == 1 && done.to.round == 4);
  ck_assert(!CHANGED(store_roll_back(s, &job_one, at(4), "again", 8, &done, &changed)));
  ck_assert_str_eq(done.note, "bad sensor");
  ck_assert_int_eq(store_round_find(s, &job_one, done.label, &new, NULL, 0, &n), ERR_OK);
  ck_assert(new.outcome == ROUND_ROLLED_BACK &&digest_equal(&new.model, &old.model));
  ck_assert_int_eq(store_round_find(s, &job_one, at(6), &newest, NULL, 0, &n), ERR_OK);
  ck_assert(digest_equal(&new.shadow, &newest.shadow) && new.metrics.local_headline == old.metrics.local_headline);
  store_close(s);
  s = fixture_open(&f);
  struct store_resume resume = resume_at(s);
  ck_assert(resume.at == RESUME_COMMITTED && resume.committed.round == 6 && resume.committed.sub == 1);
  ck_assert(digest_is_zero(&resume.chain) && digest_equal(&resume.model, &old.model) && resume.sequence == 6);
  struct round_bytes b = round_bytes(at(4));
  struct digest half = digest_bytes(b.half, sizeof b.half);
  ck_assert(digest_equal(&resume.half, &half)); /* momentum and all are of then */
  ck_assert_uint_eq(resume.n_short, 0);
  ck_assert(resume.has_roll_back && resume.roll_back.to.round == 4 && resume.roll_back.label.sub == 1);
  rounds_run(s, 7, 12); /* round 4 is no longer among the newest; its files are while 6+1 is */
  ck_assert_uint_eq(resume_at(s).committed.round, 12);
  resume = resume_at(s);
  ck_assert(!digest_is_zero(&resume.chain));
  struct store_event_row rows[8];
  ck_assert_int_eq(store_events(s, 0, rows, 8, &n), ERR_OK);
  ck_assert_uint_eq(n, 1);
  ck_assert_str_eq(rows[0].name, "model-rolled-back");
  ck_assert_str_eq(rows[0].text, "the model of round 4 goes on as 6+1: bad sensor");
  store_close(s);
  fixture_free(&f);
}
END_TEST

/* Between publication and commitment, without an agent: the publication is left behind. */
START_TEST(going_back_from_an_open_round) {
  struct fixture f = fixture_new();
  struct store *s = fixture_open(&f);
  struct store_roll_back done;
  bool changed;
  run_with(s, hill, 4);
  ck_assert_int_eq(round_publish(s, 5, 5), ERR_OK);
  ck_assert(CHANGED(store_roll_back(s, &job_one, at(3), "", 7, &done, &changed)));
  store_close(s);
  s = fixture_open(&f);
  struct store_resume resume = resume_at(s);
  ck_assert(resume.at == RESUME_COMMITTED && resume.committed.round == 4 && resume.committed.sub == 1);
  struct store_round r;
  size_t n;
  ck_assert_int_eq(store_round_find(s, &job_one, at(5), &r, NULL, 0, &n), ERR_OK);
  ck_assert(!r.committed && r.interrupted);
  ck_assert_int_eq(round_publish(s, 5, 6), ERR_OK); /* the label again, in a new epoch */
  ck_assert_int_eq(round_commit(s, 5), ERR_OK);
  store_close(s);
  fixture_free(&f);
}
END_TEST

static uint64_t trainings(struct store *s, struct round_label label) {
  uint64_t n = UINT64_MAX;
  ck_assert_int_eq(store_trainings(s, &job_one, label, &n), ERR_OK);
  return n;
}

/* What a roll-back took out counts no more, a jump of the sequence never, a failed training not at all. */
START_TEST(a_model_knows_its_trainings) {
  struct fixture f = fixture_new();
  struct store *s = fixture_open(&f);
  struct store_roll_back done;
  uint64_t n;
  bool changed;
  run_with(s, hill, 6);
  ck_assert_uint_eq(trainings(s, at(6)), 6);
  ck_assert(CHANGED(store_roll_back(s, &job_one, at(4), "", 7, &done, &changed)));
  ck_assert_uint_eq(trainings(s, done.label), 4);
  rounds_run(s, 7, 8);
  ck_assert_uint_eq(trainings(s, at(8)), 6);
  ck_assert(CHANGED(store_roll_back(s, &job_one, at(6), "", 8, &done, &changed))); /* to what the first one took out */
  ck_assert_uint_eq(trainings(s, done.label), 6);
  ck_assert_uint_eq(trainings(s, at(8)), 6);
  ck_assert_int_eq(round_publish(s, 9, 900), ERR_OK);
  ck_assert_int_eq(round_commit(s, 9), ERR_OK);
  ck_assert_uint_eq(trainings(s, at(9)), 7);
  struct round_bytes b = round_bytes(at(10));
  struct store_publication p = publication(s, &b, at(10), 901);
  p.n_samples = 0;
  ck_assert_int_eq(store_publish(s, &p), ERR_OK);
  ck_assert_int_eq(round_commit(s, 10), ERR_OK);
  ck_assert_uint_eq(trainings(s, at(10)), 7);
  ck_assert_int_eq(store_trainings(s, &job_one, at(11), &n), ERR_NOT_FOUND);
  store_close(s);
  fixture_free(&f);
}
END_TEST

START_TEST(a_damaged_model_is_not_gone_back_to) {
  struct fixture f = fixture_new();
  struct store *s = fixture_open(&f);
  struct store_roll_back done;
  bool changed;
  run_with(s, hill, 4);
  struct round_bytes b = round_bytes(at(3));
  struct digest model = digest_bytes(b.model, sizeof b.model);
  file_damage(&f, &model);
  ck_assert_int_eq(store_roll_back(s, &job_one, at(3), "", 7, &done, &changed), ERR_CORRUPT);
  ck_assert_uint_eq(resume_at(s).committed.sub, 0);
  store_close(s);
  fixture_free(&f);
}
END_TEST

START_TEST(a_reader_sees_all_and_changes_nothing) {
  struct fixture f = fixture_new();
  struct store *s = fixture_open(&f), *reader = NULL;
  struct store_roll_back done;
  uint8_t identity[32];
  bool changed = false;
  run_with(s, hill, 4);
  ck_assert_int_eq(store_open_read_only(f.state, &lanes, &reader, f.why), ERR_OK);
  ck_assert_str_eq(kept(reader), "4 3 2");
  ck_assert_int_eq(store_pin(reader, &job_one, at(3), "", 7, &changed), ERR_READ_ONLY);
  ck_assert_int_eq(store_serve(reader, &job_one, SERVE_BEST, at(0), 7, &changed), ERR_READ_ONLY);
  ck_assert_int_eq(store_roll_back(reader, &job_one, at(3), "", 7, &done, &changed), ERR_READ_ONLY);
  ck_assert_int_eq(store_identity(reader, identity), ERR_OK);
  ck_assert(identity[0] == 7 && identity[31] == 7);
  store_close(reader);
  store_close(s);
  fixture_free(&f);
}
END_TEST

START_TEST(events_are_read_in_order_and_from_where_one_was) {
  struct fixture f = fixture_new();
  struct store *s = fixture_open(&f);
  struct store_event_row rows[8];
  char text[16];
  size_t n;
  uint64_t last;
  ck_assert_int_eq(store_event_last(s, &last), ERR_OK);
  ck_assert_uint_eq(last, 0);
  for (int i = 0; i < 10005; i++) {
    snprintf(text, sizeof text, "%d", i);
    ck_assert_int_eq(store_event(s, i, "X", "mec-03", text), ERR_OK);
  }
  ck_assert_int_eq(store_events(s, 0, rows, 8, &n), ERR_OK);
  ck_assert(n == 8 && rows[0].id == 6 && rows[7].id == 13); /* a ring of 10 000 */
  ck_assert_str_eq(rows[0].text, "5");
  ck_assert_str_eq(rows[0].peer, "mec-03");
  ck_assert_int_eq(store_events(s, 10003, rows, 8, &n), ERR_OK);
  ck_assert(n == 2 && rows[1].id == 10005 && rows[1].at_unix_s == 10004);
  ck_assert_int_eq(store_events(s, UINT64_MAX, rows, 8, &n), ERR_OK);
  ck_assert_uint_eq(n, 0);
  ck_assert_int_eq(store_event_last(s, &last), ERR_OK);
  ck_assert_uint_eq(last, 10005);
  store_close(s);
  fixture_free(&f);
}
END_TEST

/* `text` is not written, only kept as the member is. */
static struct store_job_file job_file(uint8_t digest, char *text) { // NOLINT(readability-non-const-parameter)
  struct store_job_file file = {
      .digest = {{digest}}, .version = digest, .proposer = {1}, .signature = {2}, .at_unix_s = 7, .text = text};
  snprintf(file.name, sizeof file.name, "inspection");
  return file;
}

START_TEST(job_files_are_bounded_and_keep_their_state) {
  struct fixture f = fixture_new();
  struct store *s = fixture_open(&f);
  struct store_job_file back[STORE_MAX_JOB_FILES];
  bool changed;
  size_t n;
  char *huge = calloc(1, STORE_JOB_TEXT_MAX_BYTES + 2);
  memset(huge, 'x', STORE_JOB_TEXT_MAX_BYTES + 1);
  struct store_job_file file = job_file(1, huge);
  ck_assert_int_eq(store_job_file_put(s, &file, &changed), ERR_LIMIT);
  huge[STORE_JOB_TEXT_MAX_BYTES] = '\0';
  ck_assert(CHANGED(store_job_file_put(s, &file, &changed)));
  ck_assert(CHANGED(store_job_file_set_state(s, &file.digest, JOB_FILE_ACCEPTED, &changed)));
  ck_assert(!CHANGED(store_job_file_set_state(s, &file.digest, JOB_FILE_ACCEPTED, &changed)));
  ck_assert(!CHANGED(store_job_file_put(s, &file, &changed))); /* the state stays */
  file.version = 9;
  ck_assert_int_eq(store_job_file_put(s, &file, &changed), ERR_EXISTS);
  for (unsigned i = 2; i <= STORE_MAX_JOB_FILES; i++) {
    file = job_file((uint8_t)i, "job: inspection\n");
    ck_assert(CHANGED(store_job_file_put(s, &file, &changed)));
  }
  file = job_file(STORE_MAX_JOB_FILES + 1, "one too many");
  ck_assert_int_eq(store_job_file_put(s, &file, &changed), ERR_LIMIT);
  ck_assert_int_eq(store_job_file_set_state(s, &file.digest, JOB_FILE_STOPPED, &changed), ERR_NOT_FOUND);
  ck_assert_int_eq(store_job_file_list(s, back, STORE_MAX_JOB_FILES, &n), ERR_OK);
  ck_assert_uint_eq(n, STORE_MAX_JOB_FILES);
  ck_assert(back[0].state == JOB_FILE_ACCEPTED && back[0].version == 1 && strcmp(back[0].text, huge) == 0);
  ck_assert(back[1].state == JOB_FILE_PROPOSED && back[1].signature[0] == 2 && back[1].at_unix_s == 7);
  store_job_files_free(back, n);
  free(huge);
  store_close(s);
  fixture_free(&f);
}
END_TEST

int main(void) {
  return SUITE_RUN("model", the_newest_the_best_and_the_pinned_stay, a_shadow_is_kept_as_long_as_its_model,
                   what_is_served, going_back_is_one_more_commitment, going_back_from_an_open_round,
                   a_model_knows_its_trainings, a_damaged_model_is_not_gone_back_to,
                   a_reader_sees_all_and_changes_nothing, events_are_read_in_order_and_from_where_one_was,
                   job_files_are_bounded_and_keep_their_state);
}
