/* server/batches/batch_store_none.c - batch_store.h in a build without SQLite.
 *
 * The opening fails with a sentence, so that there is never a store, and no other function here is
 * called except batch_store_counts(), close and try_open() with NULL; they exist to be linked.
 */
#ifndef QUIRE_SQLITE
#include "server/batches/batch_store.h"

#include "core/base/err.h"

#include <stdio.h>

int batch_store_open(struct batch_store **out, const struct batch_store_options *options, char *err,
                     size_t err_len)
{
    *out = NULL;
    snprintf(err, err_len, "batch_dir '%s' cannot be used: this build has no SQLite",
             options->folder);
    return ERR_UNSUPPORTED;
}

void batch_store_close(struct batch_store **s)
{
    if (s != NULL)
        *s = NULL;
}

void batch_store_try_open(struct batch_store *s)
{
    (void)s;
}

struct batch_store_counts batch_store_counts(const struct batch_store *s)
{
    (void)s;
    return (struct batch_store_counts){0};
}

void batch_store_drop_file(struct batch_store *s, const char *id)
{
    (void)s, (void)id;
}

static int has_none(struct api_error *e)
{
    api_error_set(e, 503, NULL, "batch_dir", "this build has no SQLite");
    return ERR_UNSUPPORTED;
}

int batch_store_begin_file(struct batch_store *s, char id[BATCH_STORE_ID], int *fd,
                           struct api_error *e)
{
    (void)s, (void)id, (void)fd;
    return has_none(e);
}

int batch_store_check_room(struct batch_store *s, uint64_t bytes, struct api_error *e)
{
    (void)s, (void)bytes;
    return has_none(e);
}

int batch_store_take_room(struct batch_store *s, uint64_t bytes, struct api_error *e)
{
    (void)s, (void)bytes;
    return has_none(e);
}

void batch_store_give_room(struct batch_store *s, uint64_t bytes)
{
    (void)s, (void)bytes;
}

int batch_store_end_file(struct batch_store *s, const struct batch_name *name, int fd,
                         const struct batch_upload *upload, struct buf *out, struct api_error *e)
{
    (void)s, (void)name, (void)fd, (void)upload, (void)out;
    return has_none(e);
}

int batch_store_get_file(struct batch_store *s, const struct batch_name *name, struct buf *out,
                         struct api_error *e)
{
    (void)s, (void)name, (void)out;
    return has_none(e);
}

int batch_store_list_files(struct batch_store *s, const char *owner, const struct batch_page *page,
                           struct buf *out, struct api_error *e)
{
    (void)s, (void)owner, (void)page, (void)out;
    return has_none(e);
}

int batch_store_open_file(struct batch_store *s, const struct batch_name *name, int *fd,
                          struct api_error *e)
{
    (void)s, (void)name, (void)fd;
    return has_none(e);
}

int batch_store_delete_file(struct batch_store *s, const struct batch_name *name, struct buf *out,
                            struct api_error *e)
{
    (void)s, (void)name, (void)out;
    return has_none(e);
}

int batch_store_create(struct batch_store *s, const char *owner, const struct batch_start *start,
                       char id[BATCH_STORE_ID], struct buf *out, struct api_error *e)
{
    (void)s, (void)owner, (void)start, (void)id, (void)out;
    return has_none(e);
}

int batch_store_get(struct batch_store *s, const struct batch_name *name, struct buf *out,
                    struct api_error *e)
{
    (void)s, (void)name, (void)out;
    return has_none(e);
}

int batch_store_list(struct batch_store *s, const char *owner, const struct batch_page *page,
                     struct buf *out, struct api_error *e)
{
    (void)s, (void)owner, (void)page, (void)out;
    return has_none(e);
}

int batch_store_cancel(struct batch_store *s, const struct batch_name *name, struct buf *out,
                       struct api_error *e)
{
    (void)s, (void)name, (void)out;
    return has_none(e);
}

int batch_store_find_open(struct batch_store *s, const char *id, int64_t *n,
                          struct batch_record *out, struct api_error *e)
{
    (void)s, (void)id, (void)n, (void)out;
    return has_none(e);
}

int batch_store_set_lines(struct batch_store *s, const char *id, uint32_t n_lines,
                          struct api_error *e)
{
    (void)s, (void)id, (void)n_lines;
    return has_none(e);
}

int batch_store_set_progress(struct batch_store *s, const char *id,
                             const struct batch_progress *progress, struct api_error *e)
{
    (void)s, (void)id, (void)progress;
    return has_none(e);
}

int batch_store_set_ending(struct batch_store *s, const char *id, enum batch_ending ending,
                           struct api_error *e)
{
    (void)s, (void)id, (void)ending;
    return has_none(e);
}

int batch_store_end(struct batch_store *s, const char *id, enum batch_ending ending,
                    const struct batch_progress *progress, const struct buf *errors,
                    struct api_error *e)
{
    (void)s, (void)id, (void)ending, (void)progress, (void)errors;
    return has_none(e);
}

int batch_store_sweep(struct batch_store *s, struct api_error *e)
{
    (void)s;
    return has_none(e);
}
#endif
