/* server/http/timeouts.h - time limits for connections that wait.
 *
 * Each kind of waiting has one time limit and one list, in the order in which connections began to
 * wait: the first of a list is the next to time out, and the first to be closed when slots are
 * short. One timer of the loop is set for the earliest of all lists; while all are empty it is off.
 *
 * Thread: the loop's. Memory: none; the entries are their owners'.
 */
#ifndef SERVER_HTTP_TIMEOUTS_H
#define SERVER_HTTP_TIMEOUTS_H

#include <stdint.h>
#include <uv.h>

#include "core/base/list.h"

enum timeout_kind {
    TIMEOUT_HEAD = 0, /* a handshake, or a head */
    TIMEOUT_IDLE,     /* between two requests */
    TIMEOUT_BODY,
    TIMEOUT_READER, /* the client's socket takes nothing */
    TIMEOUT_LINGER, /* our side is shut down */
    TIMEOUT_KINDS,
    TIMEOUT_NONE = TIMEOUT_KINDS,
};

struct timeout {
    struct list link;
    enum timeout_kind kind;
    uint64_t begin_ms; /* clock_ms() */
};

struct timeouts {
    struct list waiting[TIMEOUT_KINDS];
    uint64_t length_ms[TIMEOUT_KINDS];
    uv_timer_t timer;
    uint64_t timer_ms; /* time at which the timer will fire; 0 = it is not set */
    void (*due)(struct timeout *t);
};

/* Set up the lists. `due` is called for an entry whose time is up, and must end or restart it. */
void timeouts_init(struct timeouts *t, uv_loop_t *loop,
                   const uint64_t length_ms[static TIMEOUT_KINDS], void (*due)(struct timeout *t));
void timeouts_close(struct timeouts *t); /* the loop must run once more */

void timeout_init(struct timeout *e);
/* Begin to wait now; with TIMEOUT_NONE only end the present wait. */
void timeout_restart(struct timeouts *t, struct timeout *e, enum timeout_kind kind);
/* Begin to wait, unless the entry already waits for the same kind: then its limit continues. */
void timeout_set(struct timeouts *t, struct timeout *e, enum timeout_kind kind);

#endif
