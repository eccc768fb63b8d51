/* server/batches/batch_store_mend.c - repairs batch_store.h after its database was damaged.
 *
 * It runs once, at the opening, after sqlite_file.h has copied the rows that can be read. In this
 * order: files that batches name get a row again if their bytes exist; rows without bytes are
 * deleted; bytes without a row are logged and left alone.
 */
#include "server/batches/batch_store_impl.h"

#include "core/base/err.h"
#include "core/base/log.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Return the size of the file, or -1: it does not exist. */
static int64_t bytes_of(const struct batch_store *s, const char *id)
{
    char path[BATCH_STORE_PATH];
    struct stat st;

    batch_store_path(s, id, path);
    return strchr(id, '/') == NULL && lstat(path, &st) == 0 && S_ISREG(st.st_mode)
               ? (int64_t)st.st_size
               : -1;
}

static void name_lost(struct batch_store *s, const char *id, const char *reason)
{
    char quoted[200];

    log_error("batches", "event=file_lost id=%s reason=%s", log_quote(quoted, sizeof(quoted), id),
              reason);
    s->n_lost++;
}

/* ---- rows ---- */

/* Give a file that a batch names its row again. */
static int restore_row(struct batch_store *s, const char *id, struct api_error *e)
{
    const int64_t bytes = bytes_of(s, id), created = sql_store_int(&s->sql, SQL_UNKNOWN_FILES, 4);
    char quoted[200];
    int rc;

    if (bytes < 0)
        return 0; /* the file was deleted, or its batch will report that it is missing */
    rc = sql_store_run(&s->sql, SQL_ADD_FILE, e, "ttttiii", id,
                       sql_store_text(&s->sql, SQL_UNKNOWN_FILES, 1),
                       sql_store_text(&s->sql, SQL_UNKNOWN_FILES, 2),
                       sql_store_text(&s->sql, SQL_UNKNOWN_FILES, 3), bytes, created,
                       created + (int64_t)s->max_days * BATCH_STORE_DAY_S);
    if (rc == 0)
        log_warn("batches", "event=file_restored id=%s", log_quote(quoted, sizeof(quoted), id));
    return rc;
}

static int drop_empty(struct batch_store *s, const char *id, struct api_error *e)
{
    if (bytes_of(s, id) >= 0)
        return 0;
    name_lost(s, id, "\"its bytes are gone\"");
    return sql_store_run(&s->sql, SQL_DROP_FILE, e, "t", id);
}

/* Call act() for each file that a statement lists. */
static int each(struct batch_store *s, enum batch_statement which,
                int (*act)(struct batch_store *s, const char *id, struct api_error *e),
                struct api_error *e)
{
    int rc = sql_store_run(&s->sql, which, e, "");

    while (rc == 1) {
        rc = act(s, sql_store_text(&s->sql, which, 0), e);
        if (rc == 0)
            rc = sql_store_next(&s->sql, which, e);
    }
    sql_store_reset(&s->sql, which);
    return rc;
}

/* ---- the folder ---- */

static bool is_known_file(struct batch_store *s, const char *id)
{
    struct api_error ignored = {0};
    const int rc = sql_store_run(&s->sql, SQL_IS_KNOWN, &ignored, "t", id);

    sql_store_reset(&s->sql, SQL_IS_KNOWN);
    return rc != 0;
}

/* Log the bytes without a row; they are not removed, because their owner may need them. */
static void name_unknown(struct batch_store *s)
{
    DIR *dir = opendir(s->folder);
    const struct dirent *it;

    while (dir != NULL && (it = readdir(dir)) != NULL)
        if (strncmp(it->d_name, "file-", 5) == 0 && strchr(it->d_name, '.') == NULL &&
            !is_known_file(s, it->d_name))
            name_lost(s, it->d_name, "\"no row of the database has it\"");
    if (dir != NULL)
        closedir(dir);
}

int batch_store_mend(struct batch_store *s, struct api_error *e)
{
    int rc = each(s, SQL_UNKNOWN_FILES, restore_row, e);

    if (rc == 0)
        rc = each(s, SQL_ALL_FILES, drop_empty, e);
    if (rc == 0)
        name_unknown(s);
    return rc;
}
