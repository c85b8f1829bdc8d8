/* The tables of a database and the way to them: a new database is made from schema.sql, an older one is brought up step
 * by step in one transaction after a backup beside it (state.db.v1.bak), a newer or another program's is refused. */
#ifndef STORE_MIGRATION_H
#define STORE_MIGRATION_H

#include <stddef.h>

#include "base/err.h"
#include "base/limits.h"
#include "store/database.h"

/* The version is the number of steps + 1; steps[i] is the SQL that leads from version i + 1 to i + 2. */
struct schema {
  const char *create;
  const char *const *steps;
  size_t n_steps;
};

extern const struct schema schema_newest;

/* ERR_TOO_NEW, ERR_FOREIGN for another program's database, ERR_CORRUPT, or what writing ran into: the database is then as
 * it was. */
MUST_USE enum err migration_run(struct database *d, const char *path, const struct schema *schema,
                                char out_why[MAX_REASON_BYTES]);

/* For readers: the version must be exactly the newest. ERR_UNSUPPORTED when it is older. */
MUST_USE enum err migration_check(struct database *d, const char *path, const struct schema *schema,
                                  char out_why[MAX_REASON_BYTES]);

#endif
