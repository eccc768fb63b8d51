/* server/api/engine_client_impl.h - what the files of engine_client.h share.
 *
 * Thread: the loop's.
 * Memory: as engine_client.h says.
 */
#ifndef SERVER_API_ENGINE_CLIENT_IMPL_H
#define SERVER_API_ENGINE_CLIENT_IMPL_H

#include "server/api/completion_rate.h"
#include "server/api/engine_client.h"

#define ENGINE_EVENTS_AT_ONCE 64 /* copied out of the queue under its lock in one go */
/* Posts that are remembered: the engine's statistics lag behind by what came during one step. */
#define ENGINE_RECENT 256

struct engine_slot {
    uint64_t id; /* of the request that has the slot; 0 = free */
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
    uint64_t n_posted; /* ever: ids ascend with it */
    uint64_t n_recent; /* posts that were no dry runs, ever */
    struct engine_post recent[ENGINE_RECENT];
    uint32_t max_requests; /* the rest of the slots is for dry runs */
    uint32_t n_open, n_dry; /* requests and dry runs whose end has not been handed on */
    uint32_t n_slots, first_free;
    struct event events[ENGINE_EVENTS_AT_ONCE];
    size_t n_events, next_event; /* of these; those before next_event have been handed on */
    struct engine_slot slots[];
};

#endif
