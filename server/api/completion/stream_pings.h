/* server/api/completion/stream_pings.h - sends comments in streams that have been silent for long,
 * while they wait in the queue or for a long prompt, so that proxies and clients do not close the
 * connection.
 *
 * Thread: the loop's.
 * Memory: none; an entry is its stream's.
 */
#ifndef SERVER_API_COMPLETION_STREAM_PINGS_H
#define SERVER_API_COMPLETION_STREAM_PINGS_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "core/base/list.h"

struct stream_pings {
    uv_timer_t timer; /* runs while there are entries */
    struct list all;  /* list of struct stream_ping; the one that has been silent for longest is
                       * first */
    uint32_t every_ms;
};

struct stream_ping { /* `ping` is called after every_ms of silence */
    struct list link;
    uint64_t last_us;
    void (*ping)(struct stream_ping *p);
};

/* Set up the pings; every_ms 0: no pings. After stream_pings_stop() the loop must run once more. */
void stream_pings_init(struct stream_pings *s, uv_loop_t *loop, uint32_t every_ms);
void stream_pings_stop(struct stream_pings *s);

/* Called when the stream has sent something; the first call adds it to the list. */
void stream_pings_note(struct stream_pings *s, struct stream_ping *p);
void stream_pings_remove(struct stream_ping *p); /* p may be one that was never added */

#endif
