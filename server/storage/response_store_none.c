/* server/storage/response_store_none.c - response_store.h in a build without SQLite.
 *
 * The opening fails with a sentence, so that there is never a store, and no other function here is
 * called; they exist to be linked. response_store_counts() returns zeros.
 */
#ifndef QUIRE_SQLITE
#include "server/storage/response_store.h"

#include "core/base/err.h"

#include <stdio.h>

int response_store_open(struct response_store **out, const struct response_store_options *options,
                        char *err, size_t err_len)
{
    *out = NULL;
    snprintf(err, err_len, "'%s' cannot be opened: this build has no SQLite", options->path);
    return ERR_UNSUPPORTED;
}

void response_store_close(struct response_store **s)
{
    if (s != NULL)
        *s = NULL;
}

static int has_none(struct api_error *e)
{
    api_error_set(e, 503, NULL, "responses_db", "this build has no SQLite");
    return ERR_UNSUPPORTED;
}

int response_store_begin(struct response_store *s, const struct response_name *name,
                         const struct response_start *start, struct api_error *e)
{
    (void)s, (void)name, (void)start;
    return has_none(e);
}

int response_store_end(struct response_store *s, const struct response_name *name,
                       const struct buf *body, const struct buf *output, struct api_error *e)
{
    (void)s, (void)name, (void)body, (void)output;
    return has_none(e);
}

int response_store_give_up(struct response_store *s, const struct response_name *name,
                           const char *status, const char *error, struct api_error *e)
{
    (void)s, (void)name, (void)status, (void)error;
    return has_none(e);
}

struct response_counts response_store_counts(const struct response_store *s)
{
    (void)s;
    return (struct response_counts){0};
}

int response_store_get(struct response_store *s, const struct response_name *name, struct buf *out,
                       struct api_error *e)
{
    (void)s, (void)name, (void)out;
    return has_none(e);
}

int response_store_delete(struct response_store *s, const struct response_name *name,
                          struct api_error *e)
{
    (void)s, (void)name;
    return has_none(e);
}

int response_store_cancel(struct response_store *s, const struct response_name *name,
                          struct buf *out, struct api_error *e)
{
    (void)s, (void)name, (void)out;
    return has_none(e);
}

int response_store_items(struct response_store *s, const struct response_name *name,
                         const struct response_page *page, struct buf *out, struct api_error *e)
{
    (void)s, (void)name, (void)page, (void)out;
    return has_none(e);
}

int response_store_history(struct response_store *s, const char *owner,
                           const struct response_wish *wish, struct buf *out, struct api_error *e)
{
    (void)s, (void)owner, (void)wish, (void)out;
    return has_none(e);
}
#endif
