/* server/responses/response_store.h - responses that are kept in a file, an SQLite database.
 *
 * A row is written when a response begins and again when it ends: in progress, completed,
 * incomplete, failed or cancelled. Its input and output are items, which later responses build
 * upon. Whose a response is, is part of its name: one owner does not see another's. The oldest go
 * first once they are too old or all too large. Of a process that was killed open responses are
 * failed ones at the next start.
 *
 * The file is locked for this process, and opened with all that belongs to it at the start: nothing
 * is opened or made later. What is deleted is overwritten. Of a damaged file what can be saved is
 * (sqlite_file.h), without responses that lack an item; where it is read while others are served,
 * that call is a 503, and it is mended at the next start.
 *
 * Thread: any, one call at a time; every call may wait for a disk, so never the I/O thread's, but
 *         for response_store_counts().
 * Memory: a cache of 4 MiB, the statements, and what SQLite's calls take.
 * Errors: opening fails with a sentence; calls fill *e: a 400 or 404 of the client's making, a 503
 *         when the file cannot be read or written. Nothing has changed then, and the next call
 * tries again.
 */
#ifndef SERVER_RESPONSES_RESPONSE_STORE_H
#define SERVER_RESPONSES_RESPONSE_STORE_H

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
 * is no such database. */
int response_store_open(struct response_store **out, const struct response_store_options *options,
                        char *err, size_t err_len);
void response_store_close(struct response_store **s);

struct response_counts {
    uint64_t n, bytes; /* responses that are kept, open ones too; of the file, in use */
    uint64_t n_lost;   /* of a damaged file, as far as they are known */
};
/* As of the last change. From any thread, at any time; NULL: nothing is kept. */
struct response_counts response_store_counts(const struct response_store *s);

struct response_name {
    const char *owner, *id;
};

struct response_start {
    const char *previous; /* the response that it goes on from, or NULL */
    int64_t created;      /* Unix seconds */
    bool is_background;
    bool is_restored; /* it was begun by an earlier process: its row is open again, unless that is
                       * gone or has an end */
    const struct buf *body;  /* the response, as JSON */
    const struct buf *input; /* a JSON list of its items, each with an id */
};
int response_store_begin(struct response_store *s, const struct response_name *name,
                         const struct response_start *start, struct api_error *e);

/* A response that is not there any more, or was cancelled, stays so. `output` is a JSON list. */
int response_store_end(struct response_store *s, const struct response_name *name,
                       const struct buf *body, const struct buf *output, struct api_error *e);
/* It ends with what it was begun with, but for its status and (NULL: none) error, an object. */
int response_store_give_up(struct response_store *s, const struct response_name *name,
                           const char *status, const char *error, struct api_error *e);

/* What is asked for goes to `out`, which may have a maximum. */
int response_store_get(struct response_store *s, const struct response_name *name, struct buf *out,
                       struct api_error *e);
int response_store_delete(struct response_store *s, const struct response_name *name,
                          struct api_error *e);
/* The response, cancelled if it was open; a 400 unless it is one in the background. */
int response_store_cancel(struct response_store *s, const struct response_name *name,
                          struct buf *out, struct api_error *e);

struct response_page {
    uint32_t limit;
    bool is_ascending;
    const char *after; /* an item's id, or NULL */
};
/* OpenAI's list of the items of its input. */
int response_store_items(struct response_store *s, const struct response_name *name,
                         const struct response_page *page, struct buf *out, struct api_error *e);

struct response_wish {                  /* zero is none */
    char previous[RESPONSE_MAX_ID + 1]; /* or "" */
    struct buf items;                   /* ids, each with its 0 */
};
/* {"before":[…],"items":{id:item}}: the items up to the end of the response `previous`, oldest
 * first, and those that are wished for one by one. */
int response_store_history(struct response_store *s, const char *owner,
                           const struct response_wish *wish, struct buf *out, struct api_error *e);

#endif
