/* core/hub/transfer.h - one exchange with the Hub over HTTP, by libcurl.
 *
 * HTTPS is always verified; where the endpoint is HTTPS no redirect leads to anything else. The
 * token is sent to the endpoint alone: a redirect to another host, port or protocol goes without
 * it. Proxies are those of the usual variables (https_proxy, no_proxy, ...).
 *
 * Thread: one owner.
 * Memory: one connection is kept open between exchanges.
 * Errors: ERR_IO with a sentence: no answer, or one that was cut; ERR_INVAL: an error that a
 *         repeated try would get too (certificates, redirects); ERR_CANCELED: a signal came; an
 *         error of the sink. An answer with any status is not an error. ERR_UNSUPPORTED: built
 *         without libcurl.
 * Source: the headers' names are those of huggingface_hub, constants.py and file_download.py.
 */
#ifndef CORE_HUB_TRANSFER_H
#define CORE_HUB_TRANSFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/hub/hub_impl.h"

struct hub_place;
struct hub_transfer;

/* Bytes a second: a file that comes slower for half a minute counts as stalled. */
#define HUB_MIN_SPEED 1024

struct hub_answer {
    long status;                  /* 0: none */
    char commit[HUB_HASH_TEXT];   /* X-Repo-Commit */
    char etag[2 * HUB_HASH_TEXT]; /* X-Linked-Etag, else ETag: without quotes and W/ */
    char location[HUB_MAX_URL];   /* target of a redirect that was not followed, as it was
                                   * written */
    char next[HUB_MAX_URL];       /* Link: <...>; rel="next" */
    char error_code[64], error_text[256]; /* X-Error-Code, X-Error-Message */
    uint64_t size;        /* X-Linked-Size, else Content-Length; UINT64_MAX: neither */
    uint64_t range_start; /* from Content-Range */
    uint64_t retry_after; /* seconds, from Retry-After or RateLimit; 0: neither */
};

struct hub_request {
    const char *url;
    bool is_head;    /* HEAD; then redirects are not followed */
    long max_s;      /* limit for the whole exchange; 0: none */
    uint64_t offset; /* above 0: ask for the bytes from there on */
    /* Gets the body of an answer with status 200 or 206, in pieces; returns 0, or ERR_* to end the
     * exchange. */
    int (*sink)(void *ud, const struct hub_answer *a, const void *bytes, size_t n);
    void *ud;
};

/* `place` is borrowed. */
int hub_transfer_open(struct hub_transfer **out, const struct hub_place *place, char *err,
                      size_t err_len);
void hub_transfer_close(struct hub_transfer **t);

int hub_transfer_run(struct hub_transfer *t, const struct hub_request *r, struct hub_answer *a,
                     char *err, size_t err_len);

/* Take one line of a head, "Name: value" and a line end, into the answer. */
void hub_answer_take_line(struct hub_answer *a, const char *line, size_t n);

#endif
