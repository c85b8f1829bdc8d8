/* How long work looks up now and then, to tell how far it is and to be ended. */
#ifndef MODELS_WORK_HOOK_H
#define MODELS_WORK_HOOK_H

#include <stddef.h>

#include "base/err.h"

/* Called between batches of samples; anything but ERR_OK ends the work with that error (and the model in between). `total`
 * is 0 where it is not known yet. */
struct work_hook {
  enum err (*between_batches)(void *context, size_t done, size_t total);
  void *context;
};

#endif
