/* Prints the word of each kind of layer that an architecture can have, a line each. */
#include <stdio.h>

#include "models/net/layer.h"

int main(void) {
  for (size_t i = 0; layer_type_at(i) != NULL; i++)
    puts(layer_type_at(i)->word);
  return 0;
}
