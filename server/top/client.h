/* server/top/client.h - fetches pages of a running server over HTTP, with libcurl.
 *
 * A round asks for several pages at once, and the caller waits for all of them or for something of
 * its own (keys, signals), whichever comes first. Redirects are not followed, no proxy is used and
 * certificates are verified: the key goes to the server and to nobody else.
 *
 * Thread: one owner.
 * Memory: the answers of a round belong to the client until the next one begins.
 * Errors: a page has the status of its answer, or a sentence why it has none. ERR_UNSUPPORTED:
 *         built without libcurl.
 */
#ifndef SERVER_TOP_CLIENT_H
#define SERVER_TOP_CLIENT_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"

#define TOP_DEFAULT_URL "http://127.0.0.1:8080"
#define TOP_MAX_URL 1000
#define TOP_MAX_PAGES 136
#define TOP_MAX_FDS 2

struct top_client;

struct top_question {
    const char *path;
    const char *model; /* ?model=, escaped; "": none. Borrowed until the round begins */
};

struct top_answer {
    long status; /* 0: no answer */
    struct buf body;
    char why[300]; /* the reason why there is no answer */
};

/* Open. url: http://HOST[:PORT], https://HOST[:PORT], HOST[:PORT] (http) or unix:PATH; key: NULL or
 * "": none is sent. Both are copied. */
int top_client_open(struct top_client **out, const char *url, const char *key, char *err,
                    size_t err_len);
void top_client_close(struct top_client **c);

/* The URL in its complete form. */
const char *top_client_url(const struct top_client *c);

/* Begin a round, and end what is left of the one before; n <= TOP_MAX_PAGES. */
int top_client_begin(struct top_client *c, const struct top_question *questions, uint32_t n);

/* Wait until the round is over, one of the fds (n <= TOP_MAX_FDS, revents are set) is ready, or the
 * time is over. True: there is no round, or it is over. */
bool top_client_wait(struct top_client *c, struct pollfd *fds, uint32_t n, int timeout_ms);

const struct top_answer *top_client_answer(const struct top_client *c, uint32_t i);

#endif
