/* server/api/engine_client_impl.h - shared by the files of engine_client.h.
 *
 * Thread: the loop's.
 * Memory: as engine_client.h says.
 */
#ifndef SERVER_API_ENGINE_CLIENT_IMPL_H
#define SERVER_API_ENGINE_CLIENT_IMPL_H

#include "server/api/completion_rate.h"
#include "server/api/engine_client.h"

#define ENGINE_EVENTS_AT_ONCE 64 /* events copied from the queue at once, under its lock */
/* Number of remembered posts: the engine's statistics lack the requests that were posted during the
 * running step. */
#define ENGINE_RECENT 256

struct engine_slot {
    uint64_t id; /* id of the request that has the slot; 0 = free */
    struct engine_caller *client;
    uint32_t part, tenant;
    bool is_dry;
    uint32_t next_free;
};

struct engine_post {
    enum priority priority;
    uint32_t n_prompt;
};

struct engine_client_private {
    struct completion_rate completion_rate;
    uint64_t n_posted; /* since the start; ids ascend with it */
    uint64_t n_recent; /* posts since the start that were not dry runs */
    struct engine_post recent[ENGINE_RECENT];
    uint32_t max_requests; /* slots of requests; the other slots are for dry runs */
    uint32_t n_open, n_dry; /* requests and dry runs whose EVENT_END was not passed on yet */
    uint32_t n_slots, first_free;
    struct event events[ENGINE_EVENTS_AT_ONCE];
    size_t n_events, next_event; /* number of `events`; those before next_event were passed on */
    struct engine_slot slots[];
};

#endif
