/* server/storage/sql_store_none.c - sql_store.h in a build without SQLite.
 *
 * The opening fails with a sentence, so that no store exists and no other function here is called
 * but sql_store_close(); they exist to be linked.
 */
#ifndef QUIRE_SQLITE
#include "server/storage/sql_store.h"

#include "core/base/err.h"

#include <stdio.h>

int sql_store_open(struct sql_store *s, const struct sql_store_form *form, const char *path,
                   char *err, size_t err_len)
{
    *s = (struct sql_store){.form = form};
    snprintf(err, err_len, "'%.200s' (%s) cannot be opened: this build has no SQLite", path,
             form->setting);
    return ERR_UNSUPPORTED;
}

void sql_store_close(struct sql_store *s)
{
    (void)s;
}

int sql_store_run(struct sql_store *s, uint32_t which, struct api_error *e, const char *types, ...)
{
    (void)types;
    return sql_store_next(s, which, e);
}

int sql_store_next(struct sql_store *s, uint32_t which, struct api_error *e)
{
    (void)which;
    return sql_store_begin(s, e);
}

void sql_store_reset(struct sql_store *s, uint32_t which)
{
    (void)s, (void)which;
}

int64_t sql_store_n_changed(const struct sql_store *s)
{
    (void)s;
    return 0;
}

int64_t sql_store_int(const struct sql_store *s, uint32_t which, int column)
{
    (void)s, (void)which, (void)column;
    return 0;
}

const char *sql_store_text(const struct sql_store *s, uint32_t which, int column)
{
    (void)s, (void)which, (void)column;
    return "";
}

void sql_store_add(const struct sql_store *s, uint32_t which, int column, struct buf *out)
{
    (void)s, (void)which, (void)column, (void)out;
}

int sql_store_list(struct sql_store *s, uint32_t which, int rc, uint32_t limit, struct buf *out,
                   struct api_error *e)
{
    (void)which, (void)rc, (void)limit, (void)out;
    return sql_store_begin(s, e);
}

int sql_store_begin(struct sql_store *s, struct api_error *e)
{
    api_error_set(e, 503, NULL, s->form->setting, "this build has no SQLite");
    return ERR_UNSUPPORTED;
}

int sql_store_end(struct sql_store *s, int rc, struct api_error *e)
{
    (void)rc;
    return sql_store_begin(s, e);
}
#endif
