#include "base/host.h"

#include <arpa/inet.h>
#include <string.h>

bool host_is_number(const char *host, size_t n) {
  char text[INET6_ADDRSTRLEN];
  struct in6_addr number;
  bool is_bracketed = n > 2 && host[0] == '[' && host[n - 1] == ']';
  if (is_bracketed)
    host++, n -= 2;
  if (n >= sizeof text)
    return false;
  memcpy(text, host, n);
  text[n] = '\0';
  return inet_pton(is_bracketed ? AF_INET6 : AF_INET, text, &number) == 1;
}
