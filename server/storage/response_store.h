/* server/storage/response_store.h - responses that are kept in a file, an SQLite database.
 *
 * A row is written when a response begins and again when it ends: in progress, completed,
 * incomplete, failed or cancelled. Its input and output are items, which later responses can
 * continue. The owner is part of a response's name, so that no owner sees another one's responses.
 * The oldest responses are deleted when they are too old or all responses together too large.
 * Responses that were in progress when the process was killed have failed after the next start.
 *
 * The file is locked for this process, and opened at the start with its companions (-wal): no file
 * is opened or created later. Deleted data is overwritten. From a damaged file all that can be read
 * is saved (sqlite_file.h), without responses that lack an item; a call that reads a damaged page
 * while others are served gets a 503, and the file is repaired at the next start.
 *
 * Thread: any, one call at a time; every call may wait for a disk, so the I/O thread calls only
 *         response_store_counts().
 * Memory: a cache of 4 MiB, the statements, and temporary memory of SQLite.
 * Errors: opening fails with a sentence; calls fill *e: a 400 or 404 for the client's mistakes, a
 *         503 when the file cannot be read or written. Nothing has changed then, and the next call
 *         tries again.
 */
#ifndef SERVER_STORAGE_RESPONSE_STORE_H
#define SERVER_STORAGE_RESPONSE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "server/http/error.h"

#define RESPONSE_MAX_ID 127 /* bytes */

struct response_store;

struct response_store_options {
    const char *path;
    uint64_t max_bytes;
    uint32_t max_days;
};

/* ERR_UNSUPPORTED: this build has no SQLite. ERR_BUSY: another process has the file. ERR_FORMAT: it
 * is another kind of database. */
int response_store_open(struct response_store **out, const struct response_store_options *options,
                        char *err, size_t err_len);
void response_store_close(struct response_store **s);

struct response_counts {
    uint64_t n, bytes; /* kept responses, open ones too; bytes of the file in use */
    uint64_t n_lost;   /* responses known to be lost from a damaged file */
};
/* The counts as of the last change. From any thread, at any time; NULL: nothing is kept. */
struct response_counts response_store_counts(const struct response_store *s);

struct response_name {
    const char *owner, *id;
};

struct response_start {
    const char *previous; /* the response that it continues, or NULL */
    int64_t created;      /* Unix seconds */
    bool is_background;
    bool is_restored; /* an earlier process began the response: its row becomes in progress again,
                       * unless it was deleted or has ended */
    const struct buf *body;  /* the response, as JSON */
    const struct buf *input; /* a JSON list of its items, each with an id */
};
int response_store_begin(struct response_store *s, const struct response_name *name,
                         const struct response_start *start, struct api_error *e);

/* End a response; one that was deleted or cancelled stays so. `output` is a JSON list. */
int response_store_end(struct response_store *s, const struct response_name *name,
                       const struct buf *body, const struct buf *output, struct api_error *e);
/* End a response with the body that it began with, except for its status and error (an object;
 * NULL: none). */
int response_store_give_up(struct response_store *s, const struct response_name *name,
                           const char *status, const char *error, struct api_error *e);

/* Write the response to `out`, which may have a maximum. */
int response_store_get(struct response_store *s, const struct response_name *name, struct buf *out,
                       struct api_error *e);
int response_store_delete(struct response_store *s, const struct response_name *name,
                          struct api_error *e);
/* Cancel the response if it is open, and write it to `out`; a 400 unless it is in the
 * background. */
int response_store_cancel(struct response_store *s, const struct response_name *name,
                          struct buf *out, struct api_error *e);

struct response_page {
    uint32_t limit;
    bool is_ascending;
    const char *after; /* an item's id, or NULL */
};
/* Write OpenAI's list of the items of the response's input. */
int response_store_items(struct response_store *s, const struct response_name *name,
                         const struct response_page *page, struct buf *out, struct api_error *e);

struct response_wish {                  /* zero: names no response or item */
    char previous[RESPONSE_MAX_ID + 1]; /* or "" */
    struct buf items;                   /* ids, each with its NUL */
};
/* {"before":[…],"items":{id:item}}: all items up to the end of the response `previous`, oldest
 * first, and the items that are named one by one. */
int response_store_history(struct response_store *s, const char *owner,
                           const struct response_wish *wish, struct buf *out, struct api_error *e);

#endif
