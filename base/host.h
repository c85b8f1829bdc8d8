/* The host in an address: is it a number, so that nobody has to be asked for it? */
#ifndef BASE_HOST_H
#define BASE_HOST_H

#include <stdbool.h>
#include <stddef.h>

/* The first n bytes are an IPv4 number, or an IPv6 one in brackets. */
bool host_is_number(const char *host, size_t n);

#endif
