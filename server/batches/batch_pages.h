/* server/batches/batch_pages.h - OpenAI's /v1/files and /v1/batches, except uploads
 * (file_upload.h).
 *
 * Each call is a job on the storage thread; its changes are on the disk before its answer is sent.
 *
 * Thread: the loop's, except for the jobs' work.
 * Memory: a small allocation for a call, and its answer; a file's content is sent in pieces.
 */
#ifndef SERVER_BATCHES_BATCH_PAGES_H
#define SERVER_BATCHES_BATCH_PAGES_H

#include <stdint.h>

/* Largest body of POST /v1/batches: more than the largest metadata need. */
#define BATCH_PAGE_MAX_BODY ((size_t)64 << 10)

struct batch_runner;
struct batch_store;
struct http_call;
struct worker_pool;

struct batch_pages {             /* all its pointers are borrowed */
    struct batch_store *store;   /* NULL: batches are off, and every call is refused */
    struct worker_pool *storage; /* the storage thread, which runs the jobs */
    struct batch_runner *runner;
    const char *tenant_header;
    uint64_t max_file; /* bytes */
};

enum batch_page_kind {
    BATCH_PAGE_FILES = 0, /* GET the list; POST is an upload */
    BATCH_PAGE_FILE,      /* GET, DELETE */
    BATCH_PAGE_CONTENT,
    BATCH_PAGE_BATCHES, /* GET the list, POST one */
    BATCH_PAGE_BATCH,
    BATCH_PAGE_CANCEL,
};

void batch_pages_ask(const struct batch_pages *p, struct http_call *call,
                     enum batch_page_kind kind);

/* Refuse a call, because batches are off. */
void batch_pages_refuse(struct http_call *call);

#endif
