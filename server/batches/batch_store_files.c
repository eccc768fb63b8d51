/* server/batches/batch_store_files.c - the bytes of files, and deletion; see batch_store.h.
 *
 * An upload is written as ID.part and renamed when it is complete and synced, before its row is
 * inserted; a deletion removes the row first. A crash in between leaves bytes without a row, never
 * a row without bytes. Uploads reserve their bytes in an atomic counter, since they have no row
 * yet.
 */
#include "server/batches/batch_store_impl.h"

#include "core/base/err.h"
#include "core/base/log.h"
#include "core/base/replace_file.h"
#include "core/json/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Old files that an upload deletes before it begins, so that its job stays short. */
#define SWEEP_AT_ONCE 4

static int say_io(struct api_error *e, const char *what, int errnum)
{
    char quoted[100];

    log_error("batches", "event=file_failed what=%s reason=%s", what,
              log_quote(quoted, sizeof(quoted), strerror(errnum)));
    api_error_set(e, 503, NULL, "batch_dir", "files cannot be read or written now: %s",
                  strerror(errnum));
    return err_from_errno(errnum);
}

static void part_path(const struct batch_store *s, const char *id, char out[BATCH_STORE_PATH])
{
    snprintf(out, BATCH_STORE_PATH, "%s/%s" BATCH_STORE_PART, s->folder, id);
}

static int check_sum(const struct batch_store *s, uint64_t bytes, struct api_error *e)
{
    if (bytes <= s->max_bytes)
        return 0;
    api_error_set(
        e, 413, NULL, "batch_size",
        "the files would take more space than the setting batch_size allows: delete some");
    return ERR_LIMIT;
}

int batch_store_check_room(struct batch_store *s, uint64_t bytes, struct api_error *e)
{
    return check_sum(s, batch_store_counts(s).bytes + bytes, e);
}

int batch_store_take_room(struct batch_store *s, uint64_t bytes, struct api_error *e)
{
    const int rc = batch_store_check_room(s, bytes, e);

    if (rc == 0)
        atomic_fetch_add_explicit(&s->uploading, bytes, memory_order_relaxed);
    return rc;
}

void batch_store_give_room(struct batch_store *s, uint64_t bytes)
{
    atomic_fetch_sub_explicit(&s->uploading, bytes, memory_order_relaxed);
}

int batch_store_begin_file(struct batch_store *s, char id[BATCH_STORE_ID], int *fd,
                           struct api_error *e)
{
    char path[BATCH_STORE_PATH];

    *fd = -1;
    if (batch_store_sweep(s, SWEEP_AT_ONCE, e) < 0)
        return ERR_IO;
    batch_store_random_id("file-", id);
    part_path(s, id, path);
    *fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    return *fd < 0 ? say_io(e, "upload", errno) : 0;
}

void batch_store_drop_file(struct batch_store *s, const char *id)
{
    char path[BATCH_STORE_PATH];

    part_path(s, id, path);
    unlink(path);
}

/* Give the bytes their name before the database knows of them, so that a row's bytes always
 * exist. */
static int place_file(struct batch_store *s, const char *id, int fd, struct api_error *e)
{
    char from[BATCH_STORE_PATH], to[BATCH_STORE_PATH];

    part_path(s, id, from);
    batch_store_path(s, id, to);
    return replace_file(fd, from, to) == 0 ? 0 : say_io(e, "upload", errno);
}

int batch_store_end_file(struct batch_store *s, const struct batch_name *name, int fd,
                         const struct batch_upload *u, struct buf *out, struct api_error *e)
{
    const int64_t most = batch_store_keep_until(s), wanted = batch_store_now() + u->keep_s;
    char path[BATCH_STORE_PATH];
    int rc = check_sum(s, atomic_load_explicit(&s->bytes, memory_order_relaxed) + u->bytes, e);

    if (rc == 0)
        rc = place_file(s, name->id, fd, e);
    if (rc < 0)
        return rc;
    rc = sql_store_run(&s->sql, SQL_ADD_FILE, e, "ttttiii", name->id, name->owner, u->purpose,
                       u->filename, (int64_t)u->bytes, batch_store_now(),
                       u->keep_s > 0 && wanted < most ? wanted : most);
    if (rc < 0) {
        batch_store_path(s, name->id, path);
        unlink(path);
        return rc;
    }
    batch_store_show_counts(s);
    return batch_store_get_file(s, name, out, e);
}

int batch_store_open_file(struct batch_store *s, const struct batch_name *name, int *fd,
                          struct api_error *e)
{
    char path[BATCH_STORE_PATH];
    int64_t n;
    int rc = batch_store_find(s, SQL_GET_FILE, name, NULL, &n, e);

    *fd = -1;
    if (rc < 0)
        return rc;
    batch_store_path(s, name->id, path);
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    return *fd < 0 ? say_io(e, "content", errno) : 0;
}

static int check_unneeded(struct batch_store *s, const char *id, struct api_error *e)
{
    const int rc = sql_store_run(&s->sql, SQL_IS_NEEDED, e, "t", id);

    sql_store_reset(&s->sql, SQL_IS_NEEDED);
    if (rc <= 0)
        return rc;
    api_error_set(e, 409, NULL, "file_in_use",
                  "the file is the input of a batch that has not ended: cancel that first");
    return ERR_BUSY;
}

int batch_store_delete_file(struct batch_store *s, const struct batch_name *name, struct buf *out,
                            struct api_error *e)
{
    char path[BATCH_STORE_PATH];
    int rc = check_unneeded(s, name->id, e);

    if (rc == 0)
        rc = sql_store_run(&s->sql, SQL_DELETE_FILE, e, "tti", name->id, name->owner,
                           batch_store_now());
    if (rc < 0)
        return rc;
    if (sql_store_n_changed(&s->sql) == 0)
        return batch_store_not_found(e, "file", name->id);
    batch_store_path(s, name->id, path);
    unlink(path);
    batch_store_show_counts(s);
    buf_add_str(out, "{\"id\":");
    json_add_cstring(out, name->id);
    buf_add_str(out, ",\"object\":\"file\",\"deleted\":true}");
    return batch_store_check_out(out, e);
}

/* The row goes before the bytes, so that a row's bytes always exist. */
int batch_store_sweep(struct batch_store *s, uint32_t n_most, struct api_error *e)
{
    char id[BATCH_STORE_ID], path[BATCH_STORE_PATH];
    const int64_t oldest = batch_store_now() - (int64_t)s->max_days * BATCH_STORE_DAY_S;
    int rc = 0;

    for (uint32_t i = 0; i < n_most; i++) {
        rc = sql_store_run(&s->sql, SQL_OLD_FILE, e, "i", batch_store_now());
        if (rc <= 0)
            break;
        snprintf(id, sizeof(id), "%s", sql_store_text(&s->sql, SQL_OLD_FILE, 0));
        sql_store_reset(&s->sql, SQL_OLD_FILE);
        rc = sql_store_run(&s->sql, SQL_DROP_FILE, e, "t", id);
        if (rc < 0)
            break;
        batch_store_path(s, id, path);
        unlink(path);
    }
    if (rc == 0)
        rc = sql_store_run(&s->sql, SQL_DELETE_OLD, e, "i", oldest);
    if (rc == 0)
        rc = sql_store_run(&s->sql, SQL_DELETE_UNUSED, e, "");
    batch_store_show_counts(s);
    return rc;
}
