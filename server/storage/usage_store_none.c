/* server/storage/usage_store_none.c - usage_store.h in a build without SQLite.
 *
 * The opening fails with a sentence, so that there is never a store, and no other function here is
 * called; they exist to be linked.
 */
#ifndef QUIRE_SQLITE
#include "server/storage/usage_store.h"

#include "core/base/err.h"

#include <stdio.h>

int usage_store_open(struct usage_store **out, const char *path, char *err, size_t err_len)
{
    *out = NULL;
    snprintf(err, err_len, "'%s' cannot be opened: this build has no SQLite", path);
    return ERR_UNSUPPORTED;
}

void usage_store_close(struct usage_store **s)
{
    if (s != NULL)
        *s = NULL;
}

uint64_t usage_store_n_lost(const struct usage_store *s)
{
    (void)s;
    return 0;
}

int usage_store_load(struct usage_store *s, struct usage_ledger *l, char *err, size_t err_len)
{
    (void)s;
    (void)l;
    snprintf(err, err_len, "this build has no SQLite");
    return ERR_UNSUPPORTED;
}

int usage_store_save(struct usage_store *s, const struct usage_saved *rows, uint32_t n, char *err,
                     size_t err_len)
{
    (void)s;
    (void)rows;
    (void)n;
    snprintf(err, err_len, "this build has no SQLite");
    return ERR_UNSUPPORTED;
}
#endif
