/* server/server_impl.h - private to the files of the server: what its routes are answered from.
 *
 * Thread: the loop's.
 */
#ifndef SERVER_SERVER_IMPL_H
#define SERVER_SERVER_IMPL_H

#include <stdatomic.h>
#include <uv.h>

#include "server/api/request_memory.h"
#include "server/api/stream_pings.h"
#include "server/auth/auth.h"
#include "server/http/http.h"
#include "server/metrics/metrics.h"
#include "server/served_model.h"
#include "server/server.h"

struct server {
    struct server_options opt;
    uv_loop_t loop;
    uv_async_t wake, stop;
    uv_signal_t on_hup, on_usr1;
    atomic_uint n_stops; /* signals that told it to stop: set by their thread, read in on_stop() */
    atomic_int stop_number;
    struct worker_pool *text_pool, *constraint_pool, *adapter_pool;
    struct response_keeper *keeper; /* or NULL */
    struct request_memory memory;
    struct stream_store *streams; /* or NULL */
    struct stream_pings pings;
    uv_timer_t tick;
    uv_work_t load;
    struct auth auth;
    struct keys *keys; /* or NULL */
    struct tls *tls;   /* or NULL */
    struct http *http;
    struct tenants *tenants;
    struct metrics_server server_counts;
    struct served_model models[SERVER_MAX_MODELS]; /* [opt.n_models] */
    uint32_t n_attached;                     /* of them: their engines run */
    bool is_draining;
    uint64_t start_us;
    uint64_t stopped_us; /* when everything was cancelled; 0 before */
    uint64_t over_us; /* since when files that nobody waits for are all that is left; or 0 */
    bool has_loop;
    bool has_abandoned_load, has_abandoned_read; /* work of another thread that goes on */
};

/* All routes in the order of routes.inc; their handlers get the server. */
const struct http_route *server_routes(size_t *n);

#endif
