/* Files that appear whole or not at all. */
#ifndef MODELS_FORMATS_NEW_FILE_H
#define MODELS_FORMATS_NEW_FILE_H

#include "base/err.h"

/* Has `write` make the file under another name beside it, where it must find nothing (O_EXCL: whoever may write in that folder
 * could have put a link there), syncs it and gives it its name. ERR_EXISTS: there is one already; those of write; ERR_LIMIT:
 * the path's length; ERR_NO_SPACE, ERR_PERMISSION, ERR_IO. After an error nothing is left. */
MUST_USE enum err new_file_write(const char *path, enum err (*write)(const void *context, const char *path),
                                 const void *context);

#endif
