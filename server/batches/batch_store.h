/* server/batches/batch_store.h - files and batches of OpenAI's API in a folder: an SQLite database
 * (batches.db), and a file for the bytes of each.
 *
 * The owner is part of the name of a file or batch, so that no owner sees another one's. Only its
 * batch can use a file of answers until the batch has ended; then it is a file like others. Files
 * are deleted when they are too old, and ended batches with them, but never a file that an open
 * batch needs. Changes are on the disk before a call returns.
 *
 * From a damaged database all that can be read is saved (sqlite_file.h), and its rows and the
 * folder are made to agree: a file that a batch names and whose bytes exist gets a row again, a row
 * whose bytes are gone is deleted. Bytes without a row are not removed; the log has their names
 * (event=file_lost).
 *
 * Thread: any, one call at a time; every call may wait for a disk, so the I/O thread calls only
 *         batch_store_counts().
 * Memory: a cache of 4 MiB, the statements, and temporary memory of SQLite.
 * Errors: opening fails with a sentence; calls fill *e: a 400 or 404 for the client's mistakes, a
 *         413 when there is no room, a 503 when the folder cannot be read or written. Nothing has
 *         changed then, and the next call tries again.
 */
#ifndef SERVER_BATCHES_BATCH_STORE_H
#define SERVER_BATCHES_BATCH_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "server/batches/batch_files.h"
#include "server/batches/batch_line.h"
#include "server/http/error.h"

#define BATCH_STORE_ID 40    /* bytes of an id of a file or batch, with the NUL */
#define BATCH_STORE_OWNER 66 /* bytes of a tenant's name */
#define BATCH_STORE_KEY 49   /* bytes of a key's name */
#define BATCH_STORE_PATH 4096
/* Most open batches, in all and of one tenant; a single tenant may have all. */
#define BATCH_STORE_MAX_OPEN 1000
#define BATCH_STORE_MAX_OPEN_OF_OWNER 250

struct batch_store; /* NULL: there are no batches */

struct batch_store_options {
    const char *folder;
    uint64_t max_bytes; /* of all files, including uploads and answers that are still being
                         * written */
    uint32_t max_days;
};

/* ERR_UNSUPPORTED: this build has no SQLite. ERR_BUSY: another process has the folder. ERR_FORMAT:
 * it is another kind of database. A full disk is not a failure: calls are answered with a 503 until
 * batch_store_try_open() finds room. */
int batch_store_open(struct batch_store **out, const struct batch_store_options *options, char *err,
                     size_t err_len);
void batch_store_close(struct batch_store **s);
/* Open the database if it is closed because the disk was full. Called before each other call, on
 * its thread. */
void batch_store_try_open(struct batch_store *s);

struct batch_store_counts {
    uint64_t n_files, bytes; /* bytes: including files that are still being written */
    uint64_t n_lost;         /* files and batches known to be lost from a damaged database */
};
/* The counts as of the last change. From any thread, at any time. */
struct batch_store_counts batch_store_counts(const struct batch_store *s);

struct batch_name {
    const char *owner, *id;
};

struct batch_page {
    uint32_t limit;
    bool is_ascending;
    const char *after, *purpose; /* NULL: none */
};

/* ---- files; answers are OpenAI's objects ---- */

/* Begin an upload: a file with an id, open for writing, that no client sees yet. */
int batch_store_begin_file(struct batch_store *s, char id[BATCH_STORE_ID], int *fd,
                           struct api_error *e);
/* Check that so many more bytes fit. 0, or ERR_* with *e filled. */
int batch_store_check_room(struct batch_store *s, uint64_t bytes, struct api_error *e);
/* Reserve bytes that are written to an upload; they count until batch_store_give_room(), which is
 * called when the file has a row or is dropped. */
int batch_store_take_room(struct batch_store *s, uint64_t bytes, struct api_error *e);
void batch_store_give_room(struct batch_store *s, uint64_t bytes);
struct batch_upload {
    const char *filename, *purpose;
    uint64_t bytes;
    uint32_t keep_s; /* seconds for which the file is kept; 0: the store's default */
};
int batch_store_end_file(struct batch_store *s, const struct batch_name *name, int fd,
                         const struct batch_upload *upload, struct buf *out, struct api_error *e);
void batch_store_drop_file(struct batch_store *s, const char *id);

int batch_store_get_file(struct batch_store *s, const struct batch_name *name, struct buf *out,
                         struct api_error *e);
int batch_store_list_files(struct batch_store *s, const char *owner, const struct batch_page *page,
                           struct buf *out, struct api_error *e);
/* Open a file for reading; it can be read to its end even if it is deleted meanwhile. */
int batch_store_open_file(struct batch_store *s, const struct batch_name *name, int *fd,
                          struct api_error *e);
int batch_store_delete_file(struct batch_store *s, const struct batch_name *name, struct buf *out,
                            struct api_error *e);

/* ---- batches ---- */

struct batch_start {
    const char *key; /* the name of the API key, or "" */
    const char *endpoint, *input, *window;
    const char *metadata; /* JSON, or NULL */
    uint32_t window_s;
};
/* Create a batch; `id` gets its id. A 429 when there are too many. */
int batch_store_create(struct batch_store *s, const char *owner, const struct batch_start *start,
                       char id[BATCH_STORE_ID], struct buf *out, struct api_error *e);
int batch_store_get(struct batch_store *s, const struct batch_name *name, struct buf *out,
                    struct api_error *e);
int batch_store_list(struct batch_store *s, const char *owner, const struct batch_page *page,
                     struct buf *out, struct api_error *e);
/* Cancel a batch; a 409 when it has ended. */
int batch_store_cancel(struct batch_store *s, const struct batch_name *name, struct buf *out,
                       struct api_error *e);

/* ---- for batch_run.c and batch_runner.c ---- */

enum batch_ending { /* how a batch ends */
                    BATCH_ENDS_NOT = 0,
                    BATCH_COMPLETED,
                    BATCH_FAILED,
                    BATCH_EXPIRED,
                    BATCH_CANCELLED,
};

struct batch_record { /* a batch that has not ended */
    char id[BATCH_STORE_ID], owner[BATCH_STORE_OWNER], key[BATCH_STORE_KEY];
    char endpoint[BATCH_LINE_MAX_URL + 1];
    char input[BATCH_STORE_PATH], answers[BATCH_N_KINDS][BATCH_STORE_PATH];
    uint64_t seed;
    int64_t expires_s;
    uint32_t n_lines; /* 0: its input has not been checked */
    uint64_t ends[BATCH_N_KINDS];
    enum batch_ending ending; /* the ending that has begun */
};

/* Find the open batch with that id; id NULL: the first one after row number *n, which is updated.
 * 1: found, 0: none. */
int batch_store_find_open(struct batch_store *s, const char *id, int64_t *n,
                          struct batch_record *out, struct api_error *e);
/* Note that the batch's n_lines lines have been checked, and that it runs. */
int batch_store_set_lines(struct batch_store *s, const char *id, uint32_t n_lines,
                          struct api_error *e);
int batch_store_set_progress(struct batch_store *s, const char *id,
                             const struct batch_progress *progress, struct api_error *e);
/* Note that the batch begins to end, with `ending`. */
int batch_store_set_ending(struct batch_store *s, const char *id, enum batch_ending ending,
                           struct api_error *e);
/* End the batch: its answers become files. errors: JSON items of a list, or NULL. */
int batch_store_end(struct batch_store *s, const char *id, enum batch_ending ending,
                    const struct batch_progress *progress, const struct buf *errors,
                    struct api_error *e);
/* Delete up to n_most files, and all batches, that are too old. */
int batch_store_sweep(struct batch_store *s, uint32_t n_most, struct api_error *e);

#endif
