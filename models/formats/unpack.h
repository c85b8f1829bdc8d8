/* A gzip file as the plain one that it holds, for who reads it many times. */
#ifndef MODELS_FORMATS_UNPACK_H
#define MODELS_FORMATS_UNPACK_H

#include "base/err.h"

/* Makes `to`, which must not exist. A file that is no gzip is copied. ERR_NOT_FOUND, ERR_PERMISSION, ERR_EXISTS, ERR_NO_SPACE, ERR_IO;
 * ERR_CORRUPT: the gzip is; after an error nothing is left. */
MUST_USE enum err unpack(const char *from, const char *to);

#endif
