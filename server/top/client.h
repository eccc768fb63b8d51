/* server/top/client.h - fetches pages of a running server over HTTP, with libcurl.
 *
 * One page at a time, over one kept connection; the caller waits for the page or for its own
 * descriptors (keys, signals), whichever comes first. Redirects are not followed, no proxy is used
 * and certificates are verified: the key is only sent to this server.
 *
 * Thread: one owner.
 * Memory: the answer, at most 64 MiB, belongs to the client until the next page is asked for.
 */
#ifndef SERVER_TOP_CLIENT_H
#define SERVER_TOP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"

#define TOP_DEFAULT_URL "http://127.0.0.1:8080"
#define TOP_MAX_FDS 2

struct top_answer {
    long status; /* 0: no answer */
    struct buf body;
    char why[300]; /* reason for which there is no answer */
};

struct top_client {
    char url[1000]; /* complete, with scheme */
    bool is_unix;   /* the URL is unix:/PATH */
    struct top_answer answer;
    void *multi, *curl; /* libcurl's */
};

/* Open the client; the struct must be zero, and must be closed also after a failure. url:
 * http://HOST[:PORT], https://HOST[:PORT], HOST[:PORT] (http) or unix:/PATH; key: "": none is sent.
 * Both are copied. */
int top_client_open(struct top_client *c, const char *url, const char *key, char *err,
                    size_t err_len);
void top_client_close(struct top_client *c);

/* Begin to fetch a page, and drop the previous one. model: value of ?model=; "": none. */
void top_client_ask(struct top_client *c, const char *path, const char *model);

/* Wait until the page has come, one of the fds can be read, or the time is over. Returns the answer
 * once; NULL: it has not come yet. */
struct top_answer *top_client_wait(struct top_client *c, const int *fds, uint32_t n,
                                   int timeout_ms);

#endif
