/* server/batches/batch_store.h - files and batches of OpenAI's API in a folder: an SQLite database
 * that knows them (batches.db), and a file of its own for the bytes of each.
 *
 * Whose a file or a batch is, is part of its name: one owner does not see another's. A file of
 * answers belongs to its batch alone until that has an end, and is a file like others then. Files
 * go when they are too old, batches that have ended with them; never what a batch needs that has
 * not ended. What a call has said was done is on the disk.
 *
 * Of a damaged database what can be saved is (sqlite_file.h), and what its rows and the folder say
 * of each other is made to agree: a file that a batch names and whose bytes are there is one again,
 * one whose bytes are gone is none. Bytes that no row knows stay where they are; the log has their
 * names (event=file_lost).
 *
 * Thread: any, one call at a time; every call may wait for a disk, so never the I/O thread's, but
 *         for batch_store_counts().
 * Memory: a cache of 4 MiB, the statements, and what SQLite's calls take.
 * Errors: opening fails with a sentence; calls fill *e: a 400 or 404 of the client's making, a 413
 *         when there is no room, a 503 when the folder cannot be read or written. Nothing has
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

#define BATCH_STORE_ID 40     /* room for an id of ours, with its end */
#define BATCH_STORE_OWNER 66  /* for a tenant's name */
#define BATCH_STORE_KEY 49    /* for a key's */
#define BATCH_STORE_PATH 4096
/* Batches that have not ended, in all and of one tenant; where all are one, that has all. */
#define BATCH_STORE_MAX_OPEN 1000
#define BATCH_STORE_MAX_OPEN_OF_OWNER 250

struct batch_store; /* NULL: there is none */

struct batch_store_options {
    const char *folder;
    uint64_t max_bytes; /* of all files, those that are still written and answers so far too */
    uint32_t max_days;
};

/* ERR_UNSUPPORTED: this build has no SQLite. ERR_BUSY: another process has the folder. ERR_FORMAT:
 * its database is no such one. Where the disk is full this is no failure: calls are answered with a
 * 503 until batch_store_try_open() finds room. */
int batch_store_open(struct batch_store **out, const struct batch_store_options *options, char *err,
                     size_t err_len);
void batch_store_close(struct batch_store **s);
/* Before each call, and from its thread: does nothing but where the disk was full. */
void batch_store_try_open(struct batch_store *s);

struct batch_store_counts {
    uint64_t n_files, bytes; /* bytes: of those that are still written, too */
    uint64_t n_lost;         /* of a damaged database, as far as they are known */
};
/* As of the last change. From any thread, at any time. */
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

/* A file that is uploaded: it has an id and is open to write, and nobody sees it. */
int batch_store_begin_file(struct batch_store *s, char id[BATCH_STORE_ID], int *fd,
                           struct api_error *e);
/* May there be so many bytes more? */
int batch_store_check_room(struct batch_store *s, uint64_t bytes, struct api_error *e);
/* They are written to a file that is uploaded: they count until they are given back, which is when
 * the file has a row, or is dropped. */
int batch_store_take_room(struct batch_store *s, uint64_t bytes, struct api_error *e);
void batch_store_give_room(struct batch_store *s, uint64_t bytes);
struct batch_upload {
    const char *filename, *purpose;
    uint64_t bytes;
    uint32_t keep_s; /* 0: as long as any */
};
int batch_store_end_file(struct batch_store *s, const struct batch_name *name, int fd,
                         const struct batch_upload *upload, struct buf *out, struct api_error *e);
void batch_store_drop_file(struct batch_store *s, const char *id);

int batch_store_get_file(struct batch_store *s, const struct batch_name *name, struct buf *out,
                         struct api_error *e);
int batch_store_list_files(struct batch_store *s, const char *owner, const struct batch_page *page,
                           struct buf *out, struct api_error *e);
/* Open to read; it can be read to its end when it is deleted meanwhile. */
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
/* Its id goes to `id`. A 429 when there are as many as may be. */
int batch_store_create(struct batch_store *s, const char *owner, const struct batch_start *start,
                       char id[BATCH_STORE_ID], struct buf *out, struct api_error *e);
int batch_store_get(struct batch_store *s, const struct batch_name *name, struct buf *out,
                    struct api_error *e);
int batch_store_list(struct batch_store *s, const char *owner, const struct batch_page *page,
                     struct buf *out, struct api_error *e);
/* A 409 when it has ended. */
int batch_store_cancel(struct batch_store *s, const struct batch_name *name, struct buf *out,
                       struct api_error *e);

/* ---- for whoever computes them ---- */

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
    enum batch_ending ending; /* that has begun */
};

/* The open batch of that id; NULL: the first one behind number *n, which moves on. 1 with it, 0:
 * there is none. */
int batch_store_find_open(struct batch_store *s, const char *id, int64_t *n,
                          struct batch_record *out, struct api_error *e);
/* Its lines have been checked: it runs. */
int batch_store_set_lines(struct batch_store *s, const char *id, uint32_t n_lines,
                          struct api_error *e);
int batch_store_set_progress(struct batch_store *s, const char *id,
                             const struct batch_progress *progress, struct api_error *e);
/* It is about to end so. */
int batch_store_set_ending(struct batch_store *s, const char *id, enum batch_ending ending,
                           struct api_error *e);
/* It has ended: its answers become files. `errors`: a list's items, or NULL. */
int batch_store_end(struct batch_store *s, const char *id, enum batch_ending ending,
                    const struct batch_progress *progress, const struct buf *errors,
                    struct api_error *e);
/* What is too old goes. */
int batch_store_sweep(struct batch_store *s, struct api_error *e);

#endif
