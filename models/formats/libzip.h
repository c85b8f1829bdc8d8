/* libzip, loaded when the first archive is opened: it brings a TLS library and three more compressors, 1.6 MB of memory that an
 * agent without archives does not spend. */
#ifndef MODELS_FORMATS_LIBZIP_H
#define MODELS_FORMATS_LIBZIP_H

#include <stdbool.h>
#include <zip.h>

#define LIBZIP_FUNCTIONS(X)                                                                                            \
  X(close)                                                                                                             \
  X(discard)                                                                                                           \
  X(error_code_system)                                                                                                 \
  X(error_code_zip)                                                                                                    \
  X(error_fini)                                                                                                        \
  X(error_init_with_code)                                                                                              \
  X(fclose)                                                                                                            \
  X(fdopen)                                                                                                            \
  X(file_add)                                                                                                          \
  X(file_get_error)                                                                                                    \
  X(file_set_dostime)                                                                                                  \
  X(fopen_index)                                                                                                       \
  X(fread)                                                                                                             \
  X(get_error)                                                                                                         \
  X(get_num_entries)                                                                                                   \
  X(open)                                                                                                              \
  X(set_file_compression)                                                                                              \
  X(source_buffer)                                                                                                     \
  X(source_free)                                                                                                       \
  X(stat_index)

/* zip_NAME of the library as NAME. */
struct libzip {
#define X(name) __typeof__ (&zip_##name)(name);
  LIBZIP_FUNCTIONS(X)
#undef X
};

/* false: it is not installed. It stays loaded until the program ends. Any thread. */
bool libzip_load(struct libzip *out);

#endif
