#include "crypto/aead.h"
#include "crypto/noise.h"
#include "crypto/random.h"
#include "tests/unit/crypto/vectors.h"
#include "tests/unit/suite.h"

/* ---- vectors: the public ones where they are present, our own always ---- */

static const char public_vectors[] = "../shared/vectors/noise-25519-chachapoly-sha512.json";
static const char golden_vectors[] = "tests/golden/crypto_noise.json";

enum { MAX_MESSAGES = 8, MAX_MESSAGE_BYTES = 2048 };

struct blob {
  uint8_t bytes[MAX_MESSAGE_BYTES];
  size_t n;
};

struct vector {
  struct blob prologue, init_static, init_ephemeral, resp_static, resp_ephemeral, hash;
  struct blob payloads[MAX_MESSAGES], messages[MAX_MESSAGES];
  size_t n_payloads, n_messages;
};

static void blob_read(const char *hex, struct blob *out) {
  out->n = bytes_from_hex(hex, out->bytes, sizeof out->bytes);
}

static void vector_set(struct vector *x, const char *name, const char *value) {
  const struct {
    const char *name;
    struct blob *blob;
  } fields[] = {{"init_prologue", &x->prologue},          {"init_static", &x->init_static},
                {"init_ephemeral", &x->init_ephemeral},   {"resp_static", &x->resp_static},
                {"resp_ephemeral", &x->resp_ephemeral},   {"handshake_hash", &x->hash},
                {"payload", &x->payloads[x->n_payloads]}, {"ciphertext", &x->messages[x->n_messages]}};
  ck_assert_uint_lt(x->n_payloads, MAX_MESSAGES);
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
    if (strcmp(fields[i].name, name) == 0)
      blob_read(value, fields[i].blob);
  x->n_payloads += strcmp(name, "payload") == 0;
  x->n_messages += strcmp(name, "ciphertext") == 0;
}

static void pair_of(const struct blob *secret, struct x25519_pair *out_pair) {
  ck_assert_uint_eq(secret->n, X25519_BYTES);
  x25519_pair_from_secret(secret->bytes, out_pair);
}

/* Messages after the handshake: initiator and responder in turn, no additional data. */
static void vector_check_transport(const struct vector *x, const struct session_keys *i, const struct session_keys *r) {
  for (size_t m = 2; m < x->n_messages; m++) {
    uint8_t sealed[MAX_MESSAGE_BYTES], opened[MAX_MESSAGE_BYTES];
    const struct blob *payload = &x->payloads[m], *expected = &x->messages[m];
    const struct session_keys *from = m % 2 == 0 ? i : r, *to = m % 2 == 0 ? r : i;
    uint64_t counter = m / 2 - 1;
    ck_assert_uint_eq(expected->n, payload->n + AEAD_TAG_BYTES);
    aead_seal(from->send, counter, NULL, 0, payload->bytes, payload->n, sealed);
    ck_assert_mem_eq(sealed, expected->bytes, expected->n);
    ck_assert_int_eq(aead_open(to->receive, counter, NULL, 0, expected->bytes, expected->n, opened), ERR_OK);
  }
}

static void vector_check(const struct vector *x) {
  struct x25519_pair init_static, init_ephemeral, resp_static, resp_ephemeral;
  struct noise *i = NULL, *r = NULL;
  uint8_t message[MAX_MESSAGE_BYTES], payload[MAX_MESSAGE_BYTES];
  size_t n = 0;
  pair_of(&x->init_static, &init_static);
  pair_of(&x->init_ephemeral, &init_ephemeral);
  pair_of(&x->resp_static, &resp_static);
  pair_of(&x->resp_ephemeral, &resp_ephemeral);
  ck_assert_int_eq(
      noise_new_initiator(x->prologue.bytes, x->prologue.n, &init_static, resp_static.public_key, &init_ephemeral, &i),
      ERR_OK);
  ck_assert_int_eq(noise_new_responder(x->prologue.bytes, x->prologue.n, &resp_static, &resp_ephemeral, &r), ERR_OK);

  const struct blob *in = &x->payloads[0], *out = &x->messages[0];
  ck_assert_uint_eq(out->n, in->n + NOISE_OVERHEAD_1);
  ck_assert_int_eq(noise_write_1(i, in->bytes, in->n, message), ERR_OK);
  ck_assert_mem_eq(message, out->bytes, out->n);
  ck_assert_int_eq(noise_read_1(r, message, out->n, payload, sizeof payload, &n), ERR_OK);
  ck_assert_uint_eq(n, in->n);
  ck_assert_int_eq(memcmp(payload, in->bytes, n), 0);
  ck_assert_mem_eq(noise_peer_static(r), init_static.public_key, X25519_BYTES);

  in = &x->payloads[1];
  out = &x->messages[1];
  ck_assert_uint_eq(out->n, in->n + NOISE_OVERHEAD_2);
  ck_assert_int_eq(noise_write_2(r, in->bytes, in->n, message), ERR_OK);
  ck_assert_mem_eq(message, out->bytes, out->n);
  ck_assert_int_eq(noise_read_2(i, message, out->n, payload, sizeof payload, &n), ERR_OK);
  ck_assert_uint_eq(n, in->n);
  ck_assert_int_eq(memcmp(payload, in->bytes, n), 0);

  struct session_keys init_keys, resp_keys;
  noise_split(i, &init_keys);
  noise_split(r, &resp_keys);
  ck_assert_mem_eq(init_keys.hash, resp_keys.hash, NOISE_HASH_BYTES);
  if (x->hash.n > 0) /* one public source does not give it */
    ck_assert_mem_eq(init_keys.hash, x->hash.bytes, NOISE_HASH_BYTES);
  vector_check_transport(x, &init_keys, &resp_keys);
  noise_free(i);
  noise_free(r);
}

/* Checks the vectors of our protocol in a file, returns their number. */
static size_t vectors_check(struct vectors *v) {
  static struct vector x;
  size_t n_checked = 0;
  bool is_ours = false;
  bool more = true;
  while (more) {
    more = vectors_next(v);
    bool is_name = more && strcmp(v->name, "name") == 0;
    if (is_ours && (is_name || !more)) {
      vector_check(&x);
      n_checked++;
    }
    if (is_name) {
      is_ours = strcmp(v->value, "Noise_IK_25519_ChaChaPoly_SHA512") == 0;
      memset(&x, 0, sizeof x);
    } else if (more && is_ours) {
      vector_set(&x, v->name, v->value);
    }
  }
  return n_checked;
}

START_TEST(equals_the_public_vectors) {
  struct vectors v;
  if (!vectors_open(&v, public_vectors)) {
    printf("SKIPPED equals_the_public_vectors: %s is not there\n", public_vectors);
    return;
  }
  ck_assert_uint_eq(vectors_check(&v), 2);
  vectors_close(&v);
}
END_TEST

START_TEST(equals_the_twin) {
  struct vectors v;
  ck_assert(vectors_open(&v, golden_vectors));
  ck_assert_uint_eq(vectors_check(&v), 5);
  vectors_close(&v);
}
END_TEST

/* ---- behaviour ---- */

static const char prologue[] = "starling/1";

enum { N_PAYLOAD_1 = 100, N_PAYLOAD_2 = 100, N_MESSAGE_1 = N_PAYLOAD_1 + NOISE_OVERHEAD_1 };
enum { N_MESSAGE_2 = N_PAYLOAD_2 + NOISE_OVERHEAD_2 };

/* Both ends of a handshake in work. */
struct ends {
  struct x25519_pair init_static, resp_static;
  struct noise *i, *r;
  uint8_t payload[N_PAYLOAD_1], message_1[N_MESSAGE_1], message_2[N_MESSAGE_2], out[N_MESSAGE_1];
  size_t n;
};

static void ends_open(struct ends *x) {
  memset(x, 0, sizeof *x);
  random_bytes(x->payload, sizeof x->payload);
  x25519_pair_new(&x->init_static);
  x25519_pair_new(&x->resp_static);
  ck_assert_int_eq(
      noise_new_initiator(prologue, sizeof prologue, &x->init_static, x->resp_static.public_key, NULL, &x->i), ERR_OK);
  ck_assert_int_eq(noise_new_responder(prologue, sizeof prologue, &x->resp_static, NULL, &x->r), ERR_OK);
}

static void ends_close(struct ends *x) {
  noise_free(x->i);
  noise_free(x->r);
}

static void pass_message_1(struct ends *x) {
  ck_assert_int_eq(noise_write_1(x->i, x->payload, N_PAYLOAD_1, x->message_1), ERR_OK);
  ck_assert_int_eq(noise_read_1(x->r, x->message_1, N_MESSAGE_1, x->out, sizeof x->out, &x->n), ERR_OK);
  ck_assert_uint_eq(x->n, N_PAYLOAD_1);
  ck_assert_mem_eq(x->out, x->payload, x->n);
}

static void pass_message_2(struct ends *x) {
  ck_assert_int_eq(noise_write_2(x->r, x->payload, N_PAYLOAD_2, x->message_2), ERR_OK);
  ck_assert_int_eq(noise_read_2(x->i, x->message_2, N_MESSAGE_2, x->out, sizeof x->out, &x->n), ERR_OK);
  ck_assert_uint_eq(x->n, N_PAYLOAD_2);
  ck_assert_mem_eq(x->out, x->payload, x->n);
}

START_TEST(both_ends_get_the_same_fresh_keys) {
  struct ends x;
  struct session_keys i, r, again;
  ends_open(&x);
  pass_message_1(&x);
  pass_message_2(&x);
  noise_split(x.i, &i);
  noise_split(x.r, &r);
  ck_assert_mem_eq(i.send, r.receive, NOISE_KEY_BYTES);
  ck_assert_mem_eq(i.receive, r.send, NOISE_KEY_BYTES);
  ck_assert_mem_eq(i.hash, r.hash, NOISE_HASH_BYTES);
  ck_assert_mem_ne(i.send, i.receive, NOISE_KEY_BYTES);
  ends_close(&x);

  ends_open(&x);
  pass_message_1(&x);
  pass_message_2(&x);
  noise_split(x.i, &again);
  ck_assert_mem_ne(again.send, i.send, NOISE_KEY_BYTES);
  ends_close(&x);
  session_keys_wipe(&i);
  ck_assert_uint_eq(i.send[0] | i.receive[31] | i.hash[63], 0);
}
END_TEST

/* Every bit of both messages; the handshake then goes on with the untouched message. */
START_TEST(no_bit_of_message_1_may_flip) {
  struct ends x;
  ends_open(&x);
  ck_assert_int_eq(noise_write_1(x.i, x.payload, N_PAYLOAD_1, x.message_1), ERR_OK);
  for (size_t bit = 0; bit / 8 < N_MESSAGE_1; bit++) {
    x.message_1[bit / 8] ^= (uint8_t)(1u << bit % 8);
    ck_assert_int_eq(noise_read_1(x.r, x.message_1, N_MESSAGE_1, x.out, sizeof x.out, &x.n), ERR_HANDSHAKE);
    x.message_1[bit / 8] ^= (uint8_t)(1u << bit % 8);
  }
  ck_assert_int_eq(noise_read_1(x.r, x.message_1, N_MESSAGE_1, x.out, sizeof x.out, &x.n), ERR_OK);
  pass_message_2(&x);
  ends_close(&x);
}
END_TEST

START_TEST(no_bit_of_message_2_may_flip) {
  struct ends x;
  ends_open(&x);
  pass_message_1(&x);
  ck_assert_int_eq(noise_write_2(x.r, x.payload, N_PAYLOAD_2, x.message_2), ERR_OK);
  for (size_t bit = 0; bit / 8 < N_MESSAGE_2; bit++) {
    x.message_2[bit / 8] ^= (uint8_t)(1u << bit % 8);
    ck_assert_int_eq(noise_read_2(x.i, x.message_2, N_MESSAGE_2, x.out, sizeof x.out, &x.n), ERR_HANDSHAKE);
    x.message_2[bit / 8] ^= (uint8_t)(1u << bit % 8);
  }
  ck_assert_int_eq(noise_read_2(x.i, x.message_2, N_MESSAGE_2, x.out, sizeof x.out, &x.n), ERR_OK);
  ck_assert_int_eq(noise_read_2(x.i, x.message_2, N_MESSAGE_2, x.out, sizeof x.out, &x.n), ERR_HANDSHAKE); /* again */
  ends_close(&x);
}
END_TEST

START_TEST(cut_and_extended_messages_are_refused) {
  struct ends x;
  uint8_t longer[N_MESSAGE_1 + 1] = {0};
  ends_open(&x);
  ck_assert_int_eq(noise_write_1(x.i, x.payload, N_PAYLOAD_1, x.message_1), ERR_OK);
  for (size_t n = 0; n < N_MESSAGE_1; n++)
    ck_assert_int_eq(noise_read_1(x.r, x.message_1, n, x.out, sizeof x.out, &x.n), ERR_HANDSHAKE);
  memcpy(longer, x.message_1, N_MESSAGE_1);
  ck_assert_int_eq(noise_read_1(x.r, longer, sizeof longer, x.out, sizeof x.out, &x.n), ERR_HANDSHAKE);
  ck_assert_int_eq(noise_read_1(x.r, x.message_1, N_MESSAGE_1, x.out, N_PAYLOAD_1 - 1, &x.n), ERR_LIMIT);
  ck_assert_int_eq(noise_read_1(x.r, x.message_1, N_MESSAGE_1, x.out, N_PAYLOAD_1, &x.n), ERR_OK);
  ck_assert_int_eq(noise_write_2(x.r, x.payload, N_PAYLOAD_2, x.message_2), ERR_OK);
  for (size_t n = 0; n < N_MESSAGE_2; n++)
    ck_assert_int_eq(noise_read_2(x.i, x.message_2, n, x.out, sizeof x.out, &x.n), ERR_HANDSHAKE);
  ck_assert_int_eq(noise_read_2(x.i, x.message_2, N_MESSAGE_2, x.out, N_PAYLOAD_2 - 1, &x.n), ERR_LIMIT);
  ck_assert_int_eq(noise_read_2(x.i, x.message_2, N_MESSAGE_2, x.out, N_PAYLOAD_2, &x.n), ERR_OK);
  ends_close(&x);
}
END_TEST

START_TEST(empty_payloads_pass) {
  struct ends x;
  ends_open(&x);
  ck_assert_int_eq(noise_write_1(x.i, NULL, 0, x.message_1), ERR_OK);
  ck_assert_int_eq(noise_read_1(x.r, x.message_1, NOISE_OVERHEAD_1, NULL, 0, &x.n), ERR_OK);
  ck_assert_uint_eq(x.n, 0);
  ck_assert_int_eq(noise_write_2(x.r, NULL, 0, x.message_2), ERR_OK);
  ck_assert_int_eq(noise_read_2(x.i, x.message_2, NOISE_OVERHEAD_2, NULL, 0, &x.n), ERR_OK);
  ck_assert_uint_eq(x.n, 0);
  ends_close(&x);
}
END_TEST

START_TEST(another_responder_cannot_read) {
  struct ends x, y;
  ends_open(&x);
  ends_open(&y);
  ck_assert_int_eq(noise_write_1(x.i, x.payload, N_PAYLOAD_1, x.message_1), ERR_OK);
  ck_assert_int_eq(noise_read_1(y.r, x.message_1, N_MESSAGE_1, y.out, sizeof y.out, &y.n), ERR_HANDSHAKE);
  ends_close(&x);
  ends_close(&y);
}
END_TEST

START_TEST(an_answer_to_another_handshake_is_refused) {
  struct ends x, y;
  ends_open(&x);
  ends_open(&y);
  pass_message_1(&x);
  pass_message_1(&y);
  ck_assert_int_eq(noise_write_2(y.r, y.payload, N_PAYLOAD_2, y.message_2), ERR_OK);
  ck_assert_int_eq(noise_read_2(x.i, y.message_2, N_MESSAGE_2, x.out, sizeof x.out, &x.n), ERR_HANDSHAKE);
  pass_message_2(&x);
  ends_close(&x);
  ends_close(&y);
}
END_TEST

START_TEST(another_prologue_is_refused) {
  struct ends x;
  struct noise *r = NULL;
  ends_open(&x);
  ck_assert_int_eq(noise_new_responder("starling/2", sizeof prologue, &x.resp_static, NULL, &r), ERR_OK);
  ck_assert_int_eq(noise_write_1(x.i, x.payload, N_PAYLOAD_1, x.message_1), ERR_OK);
  ck_assert_int_eq(noise_read_1(r, x.message_1, N_MESSAGE_1, x.out, sizeof x.out, &x.n), ERR_HANDSHAKE);
  noise_free(r);
  ends_close(&x);
}
END_TEST

/* Points whose product with every secret is zero. */
static const char *const low_order[] = {"0000000000000000000000000000000000000000000000000000000000000000",
                                        "0100000000000000000000000000000000000000000000000000000000000000",
                                        "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
                                        "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
                                        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"};

START_TEST(points_of_low_order_are_refused) {
  for (size_t i = 0; i < sizeof low_order / sizeof *low_order; i++) {
    struct ends x;
    struct noise *to_nobody = NULL;
    uint8_t point[X25519_BYTES], mine[N_MESSAGE_1];
    bytes_from_hex(low_order[i], point, sizeof point);
    ends_open(&x);
    ck_assert_int_eq(noise_new_initiator(prologue, sizeof prologue, &x.init_static, point, NULL, &to_nobody), ERR_OK);
    ck_assert_int_eq(noise_write_1(to_nobody, x.payload, N_PAYLOAD_1, mine), ERR_HANDSHAKE);
    noise_free(to_nobody);

    ck_assert_int_eq(noise_write_1(x.i, x.payload, N_PAYLOAD_1, x.message_1), ERR_OK);
    memcpy(x.message_1, point, sizeof point);
    ck_assert_int_eq(noise_read_1(x.r, x.message_1, N_MESSAGE_1, x.out, sizeof x.out, &x.n), ERR_HANDSHAKE);
    ck_assert_int_eq(noise_read_2(x.i, x.message_1, N_MESSAGE_2, x.out, sizeof x.out, &x.n), ERR_HANDSHAKE);
    ends_close(&x);
  }
}
END_TEST

START_TEST(an_ed25519_identity_shakes_hands) {
  struct identity *a = NULL, *b = NULL;
  struct noise *i = NULL, *r = NULL;
  uint8_t message[NOISE_OVERHEAD_1], responder[X25519_BYTES], initiator[X25519_BYTES];
  size_t n = 0;
  ck_assert_int_eq(identity_new(&a), ERR_OK);
  ck_assert_int_eq(identity_new(&b), ERR_OK);
  ck_assert_int_eq(identity_key_x25519(identity_public(b), responder), ERR_OK);
  ck_assert_int_eq(identity_key_x25519(identity_public(a), initiator), ERR_OK);
  ck_assert_int_eq(noise_new_initiator(prologue, sizeof prologue, identity_x25519(a), responder, NULL, &i), ERR_OK);
  ck_assert_int_eq(noise_new_responder(prologue, sizeof prologue, identity_x25519(b), NULL, &r), ERR_OK);
  ck_assert_int_eq(noise_write_1(i, NULL, 0, message), ERR_OK);
  ck_assert_int_eq(noise_read_1(r, message, sizeof message, NULL, 0, &n), ERR_OK);
  ck_assert_mem_eq(noise_peer_static(r), initiator, X25519_BYTES);
  noise_free(i);
  noise_free(r);
  identity_free(a);
  identity_free(b);
}
END_TEST

/* ---- mac1 ---- */

START_TEST(mac1_is_golden_and_no_bit_may_flip) {
  uint8_t secret[X25519_BYTES], bytes[100], mac[MAC1_BYTES];
  struct x25519_pair responder;
  for (unsigned i = 0; i < sizeof secret; i++)
    secret[i] = (uint8_t)(32 + i);
  for (unsigned i = 0; i < sizeof bytes; i++)
    bytes[i] = (uint8_t)(i * 7);
  x25519_pair_from_secret(secret, &responder);
  mac1_compute(responder.public_key, bytes, sizeof bytes, mac);
  assert_golden("mac1", mac, sizeof mac);
  ck_assert_int_eq(mac1_check(responder.public_key, bytes, sizeof bytes, mac), ERR_OK);
  for (size_t bit = 0; bit / 8 < MAC1_BYTES; bit++) {
    mac[bit / 8] ^= (uint8_t)(1u << bit % 8);
    ck_assert_int_eq(mac1_check(responder.public_key, bytes, sizeof bytes, mac), ERR_MAC);
    mac[bit / 8] ^= (uint8_t)(1u << bit % 8);
  }
  ck_assert_int_eq(mac1_check(responder.public_key, bytes, sizeof bytes - 1, mac), ERR_MAC);
  ck_assert_int_eq(mac1_check(secret, bytes, sizeof bytes, mac), ERR_MAC);
}
END_TEST

int main(void) {
  if (random_open() != ERR_OK)
    return 1;
  return SUITE_RUN("crypto/noise", equals_the_public_vectors, equals_the_twin, both_ends_get_the_same_fresh_keys,
                   no_bit_of_message_1_may_flip, no_bit_of_message_2_may_flip, cut_and_extended_messages_are_refused,
                   empty_payloads_pass, another_responder_cannot_read, an_answer_to_another_handshake_is_refused,
                   another_prologue_is_refused, points_of_low_order_are_refused, an_ed25519_identity_shakes_hands,
                   mac1_is_golden_and_no_bit_may_flip);
}
