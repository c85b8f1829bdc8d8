#include "crypto/bulk.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdlib.h>

#include "base/library.h"
#include "base/must.h"

#define LIBCRYPTO_FUNCTIONS(X)                                                                                         \
  X(OPENSSL_init_crypto)                                                                                               \
  X(EVP_CIPHER_fetch)                                                                                                  \
  X(EVP_CIPHER_free)                                                                                                   \
  X(EVP_CIPHER_CTX_new)                                                                                                \
  X(EVP_CIPHER_CTX_free)                                                                                               \
  X(EVP_CIPHER_CTX_ctrl)                                                                                               \
  X(EVP_CipherInit_ex)                                                                                                 \
  X(EVP_CipherUpdate)                                                                                                  \
  X(EVP_CipherFinal_ex)

struct libcrypto {
#define X(name) __typeof__ (&(name))(name);
  LIBCRYPTO_FUNCTIONS(X)
#undef X
};

struct bulk {
  struct libcrypto l;
  EVP_CIPHER_CTX *context;
};

static bool libcrypto_load(struct libcrypto *out) {
#define X(name) #name,
  static const char *const names[] = {LIBCRYPTO_FUNCTIONS(X)};
#undef X
  return library_load("libcrypto.so.3", sizeof names / sizeof *names, names, out);
}

/* No configuration file: it could name code to load. */
static bool context_open(struct bulk *b) {
  if (!b->l.OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, NULL))
    return false;
  EVP_CIPHER *cipher = b->l.EVP_CIPHER_fetch(NULL, "ChaCha20-Poly1305", NULL);
  b->context = b->l.EVP_CIPHER_CTX_new();
  bool is_open = cipher && b->context && b->l.EVP_CipherInit_ex(b->context, cipher, NULL, NULL, NULL, 1);
  b->l.EVP_CIPHER_free(cipher); /* the context has its own reference */
  return is_open;
}

struct bulk *bulk_new(void) {
  struct bulk *b = calloc(1, sizeof *b);
  if (!b || !libcrypto_load(&b->l)) {
    free(b);
    return NULL;
  }
  if (context_open(b))
    return b;
  bulk_free(b);
  return NULL;
}

void bulk_free(struct bulk *b) {
  if (b)
    b->l.EVP_CIPHER_CTX_free(b->context);
  free(b);
}

static bool key_set(struct bulk *b, const uint8_t key[AEAD_KEY_BYTES], uint64_t counter, bool is_seal) {
  uint8_t nonce[AEAD_NONCE_BYTES];
  aead_nonce_write(counter, nonce);
  return b->l.EVP_CipherInit_ex(b->context, NULL, NULL, key, nonce, is_seal);
}

static void key_wipe(struct bulk *b) {
  static const uint8_t nothing[AEAD_KEY_BYTES];
  (void)key_set(b, nothing, 0, true); /* it cannot fail where the call before did not */
}

static bool update(struct bulk *b, const void *ad, size_t n_ad, uint8_t *message, size_t n) {
  int n_done;
  return b->l.EVP_CipherUpdate(b->context, NULL, &n_done, ad, (int)n_ad) &&
         b->l.EVP_CipherUpdate(b->context, message, &n_done, message, (int)n);
}

static bool tag_move(struct bulk *b, int what, uint8_t tag[AEAD_TAG_BYTES]) {
  return b->l.EVP_CIPHER_CTX_ctrl(b->context, what, AEAD_TAG_BYTES, tag);
}

bool bulk_seal(struct bulk *b, const uint8_t key[AEAD_KEY_BYTES], uint64_t counter, const void *ad, size_t n_ad,
               uint8_t *message, size_t n) {
  if (!key_set(b, key, counter, true))
    return false;
  int n_done;
  MUST(update(b, ad, n_ad, message, n) && b->l.EVP_CipherFinal_ex(b->context, message + n, &n_done) &&
       tag_move(b, EVP_CTRL_AEAD_GET_TAG, message + n));
  key_wipe(b);
  return true;
}

enum err bulk_open(struct bulk *b, const uint8_t key[AEAD_KEY_BYTES], uint64_t counter, const void *ad, size_t n_ad,
                   uint8_t *message, size_t n) {
  if (!key_set(b, key, counter, false))
    return ERR_NO_MEMORY;
  int n_done;
  bool is_authentic = tag_move(b, EVP_CTRL_AEAD_SET_TAG, message + n) && update(b, ad, n_ad, message, n) &&
                      b->l.EVP_CipherFinal_ex(b->context, message + n, &n_done);
  key_wipe(b);
  return is_authentic ? ERR_OK : ERR_SEAL;
}
