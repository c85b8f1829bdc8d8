#include <stdio.h>
#include <stdlib.h>

#include "base/rng.h"
#include "crypto/frame.h"
#include "gossip/message.h"
#include "tests/unit/suite.h"

/* One example of every message. Its bytes are in tests/golden/gossip_messages.hex, by name. */
enum { MAX_PLAIN = MAX_FRAME_PLAIN_BYTES };

static struct digest filled(uint8_t first) {
  struct digest d;
  for (size_t i = 0; i < DIGEST_BYTES; i++)
    d.bytes[i] = (uint8_t)(first + i);
  return d;
}

static uint8_t manifest_bytes[MANIFEST_BYTES], siblings[2 * DIGEST_BYTES];

static struct message example_hello(void) {
  struct message m = {.type = MESSAGE_HELLO, .hello = {.n_jobs = 2}};
  m.hello.jobs[0] = (struct hello_entry){.job = filled(0x10),
                                         .file = filled(0x20),
                                         .schema = filled(0x30),
                                         .contract = filled(0x40),
                                         .words = {.round = 0x0102030405060708,
                                                   .sub = 0x0a0b0c0d,
                                                   .newest = {0x1112131415161718, 0x2122232425262728, filled(0x50)},
                                                   .has_proof = true}};
  memset(m.hello.jobs[0].words.proof, 0xee, MANIFEST_BYTES);
  m.hello.jobs[1].job = filled(0x60);
  return m;
}

static struct message example_state(void) {
  return (struct message){.type = MESSAGE_STATE,
                          .state = {.job = filled(1),
                                    .words = {.follows = true,
                                              .degree = 0x0203,
                                              .phase = PHASE_GATHERING,
                                              .round = 418,
                                              .sub = 2,
                                              .round_in_work = 419,
                                              .sub_in_work = 1,
                                              .newest = {7, 9, filled(3)},
                                              .progress = 5,
                                              .progress_total = 60,
                                              .epoch_steps = 0x0E0F1011}}};
}

static struct message example_state_notice(void) {
  struct message m = example_state();
  m.state.words.notice = (struct wire_notice){.kind = NOTICE_ROLLED_BACK, .round = 380, .sub = 3, .text = "bad sensör"};
  return m;
}

static struct message example_ask(void) {
  return (struct message){.type = MESSAGE_ASK,
                          .ask = {.job = filled(1), .kind = MANIFEST_DIFFERENCE, .first = 0x99, .n = 8}};
}

static struct message example_manifest(void) {
  memset(manifest_bytes, 0xab, sizeof manifest_bytes);
  return (struct message){.type = MESSAGE_MANIFEST, .manifest = manifest_bytes};
}

static struct message example_not_yet(void) {
  return (struct message){.type = MESSAGE_NOT_YET, .not_yet = {.job = filled(1), .kind = MANIFEST_FULL}};
}

static struct message example_refused_ask(void) {
  return (struct message){.type = MESSAGE_REFUSED,
                          .refused = {.job = filled(1), .reason = ERR_GONE, .kind = MANIFEST_DIFFERENCE, .first = 3}};
}

static struct message example_refused_get(void) {
  return (struct message){.type = MESSAGE_REFUSED,
                          .refused = {.job = filled(1), .is_get = true, .reason = ERR_GONE, .root = filled(9)}};
}

static struct message example_get(void) {
  return (struct message){
      .type = MESSAGE_GET,
      .get = {.job = filled(1), .root = filled(2), .n_payload = 5 * CHUNK_BYTES + 1, .first = 2, .count = 4}};
}

static struct message example_chunk(void) {
  memset(siblings, 0x77, sizeof siblings);
  struct message m = {
      .type = MESSAGE_CHUNK,
      .chunk = {
          .index = 65535, .n_siblings = 2, .siblings = siblings, .data = (const uint8_t *)"seven\nb", .n_data = 7}};
  memset(m.chunk.root_prefix, 0x55, sizeof m.chunk.root_prefix);
  return m;
}

static struct message example_schema(void) {
  return (struct message){.type = MESSAGE_SCHEMA,
                          .schema = {.job = filled(1),
                                     .schema = "model: x\n",
                                     .n_schema = 9,
                                     .contract = "class 1: \"\xc3\xb6\"\n",
                                     .n_contract = 14}};
}

static struct message example_done(void) {
  return (struct message){.type = MESSAGE_DONE, .done = {.job = filled(1), .sequence = 12, .outcome = ERR_NON_FINITE}};
}

static struct message example_bye(void) {
  return (struct message){.type = MESSAGE_BYE, .bye = ERR_STOPPED};
}

static struct message example_beat(void) {
  return (struct message){.type = MESSAGE_BEAT, .beat_s = 25};
}

static struct message example_ask_job(void) {
  return (struct message){.type = MESSAGE_ASK_JOB, .ask_job = {filled(0x70)}};
}

static struct message example_job_file(void) {
  static const char object[] = "\x01"
                               "a signed object, read by whoever knows its form";
  return (struct message){.type = MESSAGE_JOB_FILE, .job_file = {(const uint8_t *)object, sizeof object - 1}};
}

static struct message example_pool(void) {
  static const uint8_t pair[POOL_PAIR_BYTES] = {
      [5] = 0x80, [6] = 0x35, [7] = 0x40, [13] = 0x10, [14] = 0x58, [15] = 0x40};
  return (struct message){.type = MESSAGE_POOL, .pool = {filled(1), {.count = 418, .n = 1, .bytes = pair}}};
}

static struct message example_pool_frozen(void) {
  static const uint8_t pairs[2 * POOL_PAIR_BYTES] = {
      [5] = 0x80, [6] = 0x35, [7] = 0x40, [14] = 0xf0, [15] = 0xbf, [22] = 0x10, [23] = 0x40, [30] = 0xf0, [31] = 0x3f};
  return (struct message){.type = MESSAGE_POOL, .pool = {filled(1), {.is_frozen = true, .n = 2, .bytes = pairs}}};
}

static struct identity_key key_filled(uint8_t first) {
  struct identity_key key;
  memcpy(key.bytes, filled(first).bytes, sizeof key.bytes);
  return key;
}

static struct message example_news(void) {
  return (struct message){.type = MESSAGE_NEWS,
                          .news = {.n = 2,
                                   .items = {{NEWS_STATEMENT, (const uint8_t *)"alive", 5},
                                             {NEWS_ACCUSATION, (const uint8_t *)"accused", 7}}}};
}

static struct message example_sync(void) {
  struct message m = {.type = MESSAGE_SYNC};
  for (size_t i = 0; i < MEMBERS_HASH_BYTES; i++)
    m.sync.hash[i] = (uint8_t)i;
  return m;
}

static struct message example_list(void) {
  static uint8_t rows[2][LISTED_BYTES];
  struct writer w;
  writer_init(&w, rows, sizeof rows);
  writer_bytes(&w, filled(0x10).bytes, DIGEST_BYTES);
  writer_u64(&w, 7);
  writer_u32(&w, 0);
  writer_u8(&w, 0);
  writer_bytes(&w, filled(0x20).bytes, DIGEST_BYTES);
  writer_u64(&w, 0x0102030405060708);
  writer_u32(&w, 9);
  writer_u8(&w, 2);
  return (struct message){.type = MESSAGE_LIST,
                          .list = {.wants_list = true, .n = 2, .rows = (const uint8_t(*)[LISTED_BYTES])rows}};
}

static struct message example_list_empty(void) {
  return (struct message){.type = MESSAGE_LIST};
}

static struct message example_seek(void) {
  return (struct message){.type = MESSAGE_SEEK, .seek = {key_filled(0x30)}};
}

static struct message example_found(void) {
  return (struct message){.type = MESSAGE_FOUND, .found = {key_filled(0x30), true}};
}

static struct message example_relay(void) {
  static uint8_t frame[FRAME_HEAD_BYTES + FRAME_TAG_BYTES];
  for (size_t i = 0; i < sizeof frame; i++)
    frame[i] = (uint8_t)(0xa0 + i);
  return (struct message){.type = MESSAGE_RELAY, .relay = {key_filled(0x30), RELAY_FROM, frame, sizeof frame}};
}

static struct message example_not_relayed(void) {
  return (struct message){.type = MESSAGE_NOT_RELAYED, .not_relayed = {key_filled(0x30), ERR_BACKLOG}};
}

static struct message example_sketch(void) {
  static uint8_t bytes[SIGNED_SKETCH_BYTES];
  memset(bytes, 0x5c, sizeof bytes);
  return (struct message){.type = MESSAGE_SKETCH, .sketch = bytes};
}

static const struct {
  const char *name;
  struct message (*make)(void);
} examples[] = {
    {"hello", example_hello},
    {"state", example_state},
    {"state-notice", example_state_notice},
    {"ask", example_ask},
    {"manifest", example_manifest},
    {"not-yet", example_not_yet},
    {"refused-ask", example_refused_ask},
    {"refused-get", example_refused_get},
    {"get", example_get},
    {"chunk", example_chunk},
    {"schema", example_schema},
    {"done", example_done},
    {"bye", example_bye},
    {"beat", example_beat},
    {"ask-job", example_ask_job},
    {"pool", example_pool},
    {"pool-frozen", example_pool_frozen},
    {"job-file", example_job_file},
    {"news", example_news},
    {"sync", example_sync},
    {"list", example_list},
    {"list-empty", example_list_empty},
    {"seek", example_seek},
    {"found", example_found},
    {"relay", example_relay},
    {"not-relayed", example_not_relayed},
    {"sketch", example_sketch},
};

enum { N_EXAMPLES = sizeof examples / sizeof *examples };

static uint8_t plain[MAX_PLAIN], again[MAX_PLAIN];

static size_t write_to(uint8_t *bytes, const struct message *m) {
  struct writer w;
  writer_init(&w, bytes, MAX_PLAIN);
  message_write(m, &w);
  ck_assert_int_eq(writer_end(&w), ERR_OK);
  return w.n_bytes;
}

/* The line "name hex" of the golden file. */
static void golden_find(const char *name, char out_hex[2 * 4096]) {
  char line[3 * 4096], found[64];
  FILE *file = fopen("tests/golden/gossip_messages.hex", "r");
  ck_assert_msg(file != NULL, "run it from the root of the source");
  out_hex[0] = '\0';
  while (!out_hex[0] && fgets(line, sizeof line, file))
    if (sscanf(line, "%63s %8191s", found, out_hex) != 2 || strcmp(found, name) != 0)
      out_hex[0] = '\0';
  fclose(file);
  ck_assert_msg(out_hex[0], "no golden bytes of %s", name);
}

START_TEST(bytes_are_the_golden_ones) {
  char expected[2 * 4096], hex[2 * 4096];
  for (size_t i = 0; i < N_EXAMPLES; i++) {
    struct message m = examples[i].make();
    size_t n = write_to(plain, &m);
    for (size_t k = 0; k < n; k++)
      snprintf(hex + 2 * k, 3, "%02x", plain[k]);
    golden_find(examples[i].name, expected);
    ck_assert_msg(strcmp(hex, expected) == 0, "%s\n%s", examples[i].name, hex);
  }
}
END_TEST

START_TEST(what_is_read_and_written_again_is_the_same) {
  for (size_t i = 0; i < N_EXAMPLES; i++) {
    struct message m = examples[i].make(), back;
    size_t n = write_to(plain, &m);
    ck_assert_int_eq(message_read((uint8_t)m.type, plain, n, &back), ERR_OK);
    ck_assert_int_eq(back.type, m.type);
    ck_assert_uint_eq(write_to(again, &back), n);
    ck_assert_mem_eq(again, plain, n);
  }
}
END_TEST

/* A chunk's data, a job file and a relayed frame take what is there; every other message ends where it ends. */
START_TEST(a_message_cut_anywhere_is_refused) {
  for (size_t i = 0; i < N_EXAMPLES; i++) {
    struct message m = examples[i].make(), back = {0};
    size_t n = write_to(plain, &m), least = n - 1;
    if (m.type == MESSAGE_CHUNK)
      least = n - m.chunk.n_data;
    if (m.type == MESSAGE_JOB_FILE)
      least = 0;
    for (size_t k = 0; k <= least; k++)
      ck_assert_msg(message_read((uint8_t)m.type, plain, k, &back) == ERR_MESSAGE, "%s at %zu", examples[i].name, k);
    ck_assert_int_eq(back.type, 0);
  }
}
END_TEST

START_TEST(a_byte_too_many_is_refused) {
  for (size_t i = 0; i < N_EXAMPLES; i++) {
    struct message m = examples[i].make(), back;
    if (m.type == MESSAGE_CHUNK || m.type == MESSAGE_JOB_FILE || m.type == MESSAGE_RELAY)
      continue;
    size_t n = write_to(plain, &m);
    plain[n] = 0;
    ck_assert_int_eq(message_read((uint8_t)m.type, plain, n + 1, &back), ERR_MESSAGE);
  }
}
END_TEST

START_TEST(an_unknown_type_is_a_bad_frame) {
  static const uint8_t types[] = {0, 1, 2, 3, 15, MESSAGE_END, 255};
  struct message back;
  for (size_t i = 0; i < sizeof types; i++)
    ck_assert_int_eq(message_read(types[i], plain, 0, &back), ERR_FRAME);
}
END_TEST

/* One byte of an example changed to a value that has no meaning there. */
static const struct {
  const char *name;
  size_t at;
  uint8_t value;
} wrong[] = {
    {"hello", 0, MAX_JOBS_IN_HELLO + 1}, /* too many jobs */
    {"hello", 0, 1},                     /* one job, bytes of two */
    {"hello", 1 + 4 * 32 + 12 + 48, 2},  /* has_proof */
    {"state", 32, 8},                    /* unknown flag */
    {"state", 32, 5},                    /* a notice that is missing */
    {"state-notice", 32, 1},             /* a notice that is not announced */
    {"state-notice", 120, 0},            /* kind */
    {"state-notice", 120, N_NOTICES},    /* kind */
    {"state-notice", 133, 161},          /* text above the bound */
    {"state-notice", 133, 3},            /* text longer than it says */
    {"state-notice", 134, '\n'},         /* a control byte */
    {"state-notice", 135, 0},            /* one that would end the text */
    {"state-notice", 136, 0x7f},         /* another one */
    {"state", 33, N_PHASES},             /* phase */
    {"ask", 32, MANIFEST_NONE},          /* kind */
    {"ask", 32, MANIFEST_SUM},           /* kind */
    {"ask", 32, MANIFEST_FULL},          /* full with a sequence */
    {"ask", 41, 0},                      /* none wanted */
    {"ask", 41, MAX_ASK + 1},            /* too many */
    {"not-yet", 33, 1},                  /* full with a sequence */
    {"refused-ask", 32, 2},              /* neither ask nor get */
    {"refused-ask", 33, 0},              /* no reason */
    {"refused-ask", 43, 1},              /* a root that is not used */
    {"refused-get", 34, 1},              /* a kind that is not used */
    {"refused-get", 35, 1},              /* a sequence that is not used */
    {"get", 64 + 7, 1},                  /* a length above the wire's */
    {"get", 72, 6},                      /* first outside */
    {"get", 76, 5},                      /* count outside */
    {"get", 76, 0},                      /* nothing */
    {"chunk", 18, 1},                    /* index above the wire's */
    {"chunk", 20, MAX_SIBLINGS + 1},     /* siblings */
    {"schema", 33, 0x41},                /* text above the wire's */
    {"schema", 34, 0x1b},                /* a control byte */
    {"schema", 34, 0x7f},                /* another one */
    {"bye", 0, 0},                       /* no reason */
    {"beat", 0, 0},                      /* no pace */
    {"beat", 0, MAX_BEAT_S + 1},
    {"news", 0, 0},
    {"news", 0, MAX_NEWS + 1},
    {"news", 1, 3}, /* no such kind */
    {"news", 2, 0}, /* an empty item */
    {"news", 3, 255},
    {"list", 0, 2},                /* wants_list */
    {"list", 3 + LISTED_BYTES, 0}, /* not ascending */
    {"list", 3 + 32, 0},           /* epoch 0 */
    {"list", 3 + 32 + 8 + 4, 3},   /* accusers */
    {"list", 2, MAX_MEMBERS >> 8}, /* longer than it is */
    {"found", 32, 2},
    {"relay", 32, 2},       /* neither to nor from */
    {"not-relayed", 32, 0}, /* no reason */
};

START_TEST(values_without_meaning_are_refused) {
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    for (size_t k = 0; k < N_EXAMPLES; k++) {
      if (strcmp(examples[k].name, wrong[i].name) != 0)
        continue;
      struct message m = examples[k].make(), back;
      size_t n = write_to(plain, &m);
      ck_assert_uint_ne(plain[wrong[i].at], wrong[i].value);
      plain[wrong[i].at] = wrong[i].value;
      ck_assert_msg(message_read((uint8_t)m.type, plain, n, &back) == ERR_MESSAGE, "%s at %zu", wrong[i].name,
                    wrong[i].at);
    }
}
END_TEST

START_TEST(a_job_stands_once_in_hello) {
  struct message m = example_hello(), back;
  m.hello.jobs[1].job = m.hello.jobs[0].job;
  size_t n = write_to(plain, &m);
  ck_assert_int_eq(message_read(MESSAGE_HELLO, plain, n, &back), ERR_MESSAGE);
}
END_TEST

START_TEST(a_chunk_is_never_longer_than_a_chunk) {
  struct message m = example_chunk(), back;
  static uint8_t data[CHUNK_BYTES];
  m.chunk.data = data;
  m.chunk.n_data = CHUNK_BYTES;
  size_t n = write_to(plain, &m);
  ck_assert_uint_le(n, MAX_FRAME_PLAIN_BYTES);
  ck_assert_int_eq(message_read(MESSAGE_CHUNK, plain, n, &back), ERR_OK);
  ck_assert_int_eq(message_read(MESSAGE_CHUNK, plain, n + 1, &back), ERR_MESSAGE);
}
END_TEST

/* The longest frame that is relayed has room for a chunk with all its siblings. */
START_TEST(a_relayed_frame_has_bounds) {
  static uint8_t frame[MAX_RELAYED_BYTES + 1];
  struct message m = {.type = MESSAGE_RELAY, .relay = {.frame = frame, .n_frame = MAX_RELAYED_BYTES}}, back;
  ck_assert_uint_ge(MAX_RELAYED_BYTES, frame_bytes(CHUNK_HEAD_BYTES + MAX_SIBLINGS * DIGEST_BYTES + CHUNK_BYTES));
  size_t n = write_to(plain, &m);
  ck_assert_uint_eq(n, MAX_FRAME_PLAIN_BYTES);
  ck_assert_int_eq(message_read(MESSAGE_RELAY, plain, n, &back), ERR_OK);
  static uint8_t longer[MAX_FRAME_PLAIN_BYTES + 1];
  ck_assert_int_eq(message_read(MESSAGE_RELAY, longer, sizeof longer, &back), ERR_MESSAGE);
  size_t least = RELAY_HEAD_BYTES + FRAME_HEAD_BYTES + FRAME_TAG_BYTES;
  ck_assert_int_eq(message_read(MESSAGE_RELAY, plain, least, &back), ERR_OK);
  ck_assert_int_eq(message_read(MESSAGE_RELAY, plain, least - 1, &back), ERR_MESSAGE);
}
END_TEST

START_TEST(a_job_file_is_never_longer_than_one) {
  static uint8_t object[JOB_FILE_MAX_BYTES + 1];
  struct message m = {.type = MESSAGE_JOB_FILE, .job_file = {object, JOB_FILE_MAX_BYTES}}, back;
  size_t n = write_to(plain, &m);
  ck_assert_uint_le(n, MAX_CONTROL_BYTES);
  ck_assert_int_eq(message_read(MESSAGE_JOB_FILE, plain, n, &back), ERR_OK);
  ck_assert_int_eq(message_read(MESSAGE_JOB_FILE, object, sizeof object, &back), ERR_MESSAGE);
}
END_TEST

START_TEST(reasons_keep_their_meaning) {
  ck_assert_int_eq(reason_from_code(reason_code(ERR_OK)), ERR_OK);
  ck_assert_int_eq(reason_from_code(reason_code(ERR_STOPPED)), ERR_STOPPED);
  for (int e = ERR_FIRST_DROP; e < ERR_COUNT; e++)
    ck_assert_int_eq(reason_from_code(reason_code((enum err)e)), e);
  ck_assert_int_eq(reason_from_code(254), ERR_REFUSED); /* of a newer version */
  ck_assert_int_eq(reason_code(ERR_NO_SESSION), 1);
  ck_assert_int_eq(reason_code(ERR_GONE), 21); /* numbers on the wire never change */
  ck_assert_int_eq(reason_code(ERR_CLONE), 44);
}
END_TEST

static const struct offer an_offer = {1, 3, {9, 8, 7}, 0x01020304, 0x1112131415161718};

START_TEST(an_offer_is_read_back) {
  uint8_t bytes[OFFER_BYTES];
  struct offer back;
  offer_write(&an_offer, bytes);
  ck_assert_int_eq(offer_read(bytes, sizeof bytes, &back), ERR_OK);
  ck_assert_int_eq(memcmp(&back, &an_offer, sizeof back), 0);
  for (size_t n = 0; n < sizeof bytes; n++)
    ck_assert_int_eq(offer_read(bytes, n, &back), ERR_MESSAGE);
}
END_TEST

START_TEST(an_offer_without_sense_is_refused) {
  uint8_t bytes[OFFER_BYTES];
  struct offer o = an_offer, back;
  o.session_index = 0;
  offer_write(&o, bytes);
  ck_assert_int_eq(offer_read(bytes, sizeof bytes, &back), ERR_MESSAGE);
  o = an_offer;
  o.version_min = 0;
  offer_write(&o, bytes);
  ck_assert_int_eq(offer_read(bytes, sizeof bytes, &back), ERR_MESSAGE);
  o.version_min = 4;
  offer_write(&o, bytes);
  ck_assert_int_eq(offer_read(bytes, sizeof bytes, &back), ERR_MESSAGE);
}
END_TEST

static enum err answer_again(struct answer a) {
  uint8_t bytes[ANSWER_BYTES];
  struct answer back;
  answer_write(&a, bytes);
  return answer_read(bytes, sizeof bytes, &back);
}

START_TEST(an_answer_is_a_session_or_a_reason) {
  struct answer yes = {ERR_OK, 2, an_offer}, no = {ERR_SWARM, 0, an_offer};
  no.own.session_index = 0;
  ck_assert_int_eq(answer_again(yes), ERR_OK);
  ck_assert_int_eq(answer_again(no), ERR_OK);
  no.verdict = ERR_VERSION;
  ck_assert_int_eq(answer_again(no), ERR_OK);
  no.verdict = ERR_GONE;
  ck_assert_int_eq(answer_again(no), ERR_MESSAGE);
  no.verdict = ERR_SWARM;
  no.own.session_index = 5;
  ck_assert_int_eq(answer_again(no), ERR_MESSAGE);
  yes.version = 4;
  ck_assert_int_eq(answer_again(yes), ERR_MESSAGE);
  yes.version = 2;
  yes.own.session_index = 0;
  ck_assert_int_eq(answer_again(yes), ERR_MESSAGE);
}
END_TEST

/* Reads a mutant in memory of exactly its size, so that a sanitizer sees a read past its end. False: what was read is not
 * canonical. (Assertions are slow: one at the end.) */
static bool mutant_is_fine(enum message_type type, const uint8_t *bytes, size_t n, unsigned *n_read) {
  uint8_t *exact = malloc(n + 1);
  struct message m;
  struct writer w;
  memcpy(exact, bytes, n);
  enum err e = message_read((uint8_t)type, exact, n, &m);
  bool is_fine = e == ERR_MESSAGE;
  if (e == ERR_OK) {
    bool has_reason =
        type == MESSAGE_REFUSED || type == MESSAGE_DONE || type == MESSAGE_BYE || type == MESSAGE_NOT_RELAYED;
    writer_init(&w, again, sizeof again);
    message_write(&m, &w);
    is_fine = w.n_bytes == n && (has_reason || memcmp(again, exact, n) == 0); /* a newer reason becomes ERR_REFUSED */
    ++*n_read;
  }
  free(exact);
  return is_fine;
}

START_TEST(mutants_are_refused_or_canonical) {
  static uint8_t mutant[MAX_PLAIN + 8];
  struct rng r;
  unsigned n_read = 0, n_wrong = 0;
  rng_init(&r, 1);
  for (size_t i = 0; i < N_EXAMPLES; i++) {
    struct message m = examples[i].make();
    size_t n = write_to(plain, &m);
    for (int k = 0; k < 20000; k++) {
      memcpy(mutant, plain, n);
      for (uint64_t changes = 1 + rng_below(&r, 3); changes > 0; changes--)
        mutant[rng_below(&r, n)] = (uint8_t)rng_u64(&r);
      size_t cut = rng_below(&r, 4) == 0 ? (size_t)rng_below(&r, n + 8) : n;
      n_wrong += !mutant_is_fine(m.type, mutant, cut, &n_read);
    }
  }
  ck_assert_uint_eq(n_wrong, 0);
  ck_assert_uint_gt(n_read, 10000); /* else the mutants are too wild to test anything */
}
END_TEST

START_TEST(every_phase_has_a_name) {
  for (enum phase p = 0; p < N_PHASES; p++)
    ck_assert_uint_gt(strlen(phase_name(p)), 3);
  ck_assert_str_eq(phase_name(PHASE_TRAINING), "training");
  ck_assert_str_eq(phase_name(PHASE_FINISHED), "finished");
}
END_TEST

int main(void) {
  return SUITE_RUN("message", bytes_are_the_golden_ones, what_is_read_and_written_again_is_the_same,
                   a_message_cut_anywhere_is_refused, a_byte_too_many_is_refused, an_unknown_type_is_a_bad_frame,
                   values_without_meaning_are_refused, a_job_stands_once_in_hello, a_chunk_is_never_longer_than_a_chunk,
                   a_relayed_frame_has_bounds, a_job_file_is_never_longer_than_one, reasons_keep_their_meaning,
                   an_offer_is_read_back, an_offer_without_sense_is_refused, an_answer_is_a_session_or_a_reason,
                   mutants_are_refused_or_canonical, every_phase_has_a_name);
}
