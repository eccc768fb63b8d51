/* server/http/connections.c - the group of all connections; see connection.h.
 *
 * Before the loop sleeps, connections that were woken are resumed in portions, and libmicrohttpd
 * runs after each portion, so that no callback computes for long; an idle handle keeps the loop
 * awake while some are left. An epoll set of the group's own, polled by the loop, reports clients
 * that have disconnected, which suspended connections would not see. When slots run out,
 * connections_evict() closes the oldest connection in the cheapest list of timeouts.h.
 */
#include "server/http/connection.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/mem.h"
#include "server/http/exchange.h"
#include "server/process/socket.h"
#include "server/process/loop_guard.h"

#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Interval in which a body's or reader's rate is measured; within it the rate may vary. */
#define BODY_WINDOW_S 10
/* Time that a client has to close after its answer; what it still sends is discarded. */
#define LINGER_S 5
/* Number of entries at the front of a list that are checked for eviction. */
#define MAX_ASKED 16
/* Most connections that are resumed before libmicrohttpd runs, and most events that one
 * epoll_wait() takes. */
#define RESUMED_AT_ONCE 128
#define TOLD_AT_ONCE 64
/* Milliseconds before which no client counts as slow. */
#define SLOW_MS 1000

/* ---- turns of the loop ---- */

static void on_sleepless(uv_idle_t *idle)
{
    (void)idle;
}

/* Resume as many connections as libmicrohttpd visits in one or two runs, but only one with a
 * handshake, which takes milliseconds. */
static void resume_some(struct connections *group, struct list *now)
{
    bool is_long = false;

    for (int i = 0; i < RESUMED_AT_ONCE && !is_long && !list_is_empty(now); i++) {
        struct connection *cn = list_entry(now->next, struct connection, woken);

        list_unlink(&cn->woken);
        is_long = !list_is_empty(&cn->shaking);
        connection_resume(cn);
    }
    daemons_run_pending(&group->daemons);
}

/* Resume the connections that are woken now. Those that are woken meanwhile follow in the next
 * turn, which begins at once. */
static void run_woken(struct connections *group)
{
    struct list now;

    list_init(&now);
    list_move_back(&now, &group->woken);
    while (!list_is_empty(&now) && !loop_guard_is_due(group->opt.loop))
        resume_some(group, &now);
    list_move_front(&group->woken, &now); /* the next turn begins with these */
}

/* Suspend the handshakes that wait for their clients; called after a run of all daemons. */
static void rest_handshakes(struct connections *group)
{
    while (!list_is_empty(&group->shaking) && !loop_guard_is_due(group->opt.loop))
        connection_rest(list_entry(group->shaking.next, struct connection, shaking));
}

static void on_before_sleep(uv_prepare_t *handle)
{
    LOOP_CALLBACK(handle->loop, "connections.before_sleep");
    struct connections *group = handle->data;
    bool is_left;

    run_woken(group);
    is_left = daemons_run_pending(&group->daemons);
    rest_handshakes(group);
    if (is_left || !list_is_empty(&group->woken))
        uv_idle_start(&group->sleepless, on_sleepless);
    else
        uv_idle_stop(&group->sleepless);
}

static void on_watch(uv_poll_t *poll, int status, int events)
{
    LOOP_CALLBACK(poll->loop, "connections.watch");
    const struct connections *group = poll->data;
    struct epoll_event told[TOLD_AT_ONCE];
    const int n = epoll_wait(group->watch_fd, told, TOLD_AT_ONCE, 0);

    (void)status, (void)events;
    for (int i = 0; i < n; i++)
        connection_gone(told[i].data.ptr);
}

/* ---- time limits ---- */

static uint64_t bytes_wanted(const struct connections *group, const struct connection *cn,
                             uint64_t now_ms)
{
    return group->opt.min_rate * (now_ms - cn->timeout.begin_ms) / 1000;
}

static bool is_slow(const struct connection *cn)
{
    return cn->n_moved < bytes_wanted(cn->group, cn, clock_ms());
}

static void restart_window(struct connection *cn)
{
    cn->n_moved = 0;
    timeout_restart(&cn->group->timeouts, &cn->timeout, cn->timeout.kind);
}

/* True: the first bytes of a request line have come; libmicrohttpd reports only whole lines. The
 * kernel's count of received bytes is not used with TLS, whose handshake has bytes too, and with
 * Unix sockets. */
static bool has_begun(const struct connection *cn)
{
    return cn->target != NULL ||
           (!cn->daemon->is_tls && socket_n_received(cn->fd) > cn->n_received);
}

/* Called when the head took too long: answer 408, or close without an answer if the client has sent
 * nothing. */
static void head_is_due(struct connection *cn)
{
    cn->group->opt.http->edge[HTTP_EDGE_HEADER_TIMEOUT]++;
    if (has_begun(cn))
        connection_fail(cn, 408, "the request's head did not arrive in time");
    else
        connection_close(cn);
}

/* Check an idle connection, as often as heads are checked: if its next head has begun, it gets the
 * limit of heads. */
static void idle_is_due(struct connection *cn)
{
    const struct connections *group = cn->group;

    if (clock_ms() - cn->idle_since_ms >= (uint64_t)group->opt.idle_timeout_s * 1000)
        connection_close(cn);
    else
        timeout_restart(&cn->group->timeouts, &cn->timeout,
                        has_begun(cn) ? TIMEOUT_HEAD : TIMEOUT_IDLE);
}

/* Check that the body comes at min_body_rate, or with at least one byte per window if no rate is
 * set. */
static void body_is_due(struct connection *cn)
{
    if (cn->n_moved > 0 && !is_slow(cn)) {
        restart_window(cn);
        return;
    }
    cn->group->opt.http->edge[HTTP_EDGE_BODY_TIMEOUT]++;
    connection_fail(cn, 408, "the request's body arrives too slowly");
}

static void reader_is_due(struct connection *cn)
{
    if (cn->n_moved > 0 && !is_slow(cn)) {
        restart_window(cn);
        return;
    }
    cn->group->opt.http->edge[HTTP_EDGE_READER_TIMEOUT]++;
    connection_close(cn);
}

static void on_due(struct timeout *t)
{
    struct connection *cn = list_entry(t, struct connection, timeout);

    switch (t->kind) {
    case TIMEOUT_HEAD:
        head_is_due(cn);
        break;
    case TIMEOUT_BODY:
        body_is_due(cn);
        break;
    case TIMEOUT_READER:
        reader_is_due(cn);
        break;
    case TIMEOUT_IDLE:
        idle_is_due(cn);
        break;
    case TIMEOUT_LINGER:
        connection_close(cn);
        break;
    case TIMEOUT_NONE:
        break;
    }
}

/* ---- making room ---- */

/* True: the connection has unread bytes, so that its client has sent a request, and it only waits
 * for its turn of the loop. */
static bool has_unread(const struct connection *cn)
{
    int n = 0;

    return ioctl(cn->fd, FIONREAD, &n) == 0 && n > 0;
}

static bool can_go(const struct connection *cn)
{
    const uint64_t age_ms = clock_ms() - cn->timeout.begin_ms;

    switch (cn->timeout.kind) {
    case TIMEOUT_IDLE:
    case TIMEOUT_HEAD:
        return !has_unread(cn);
    case TIMEOUT_BODY:
        return age_ms >= SLOW_MS && is_slow(cn);
    case TIMEOUT_READER:
        return age_ms >= SLOW_MS;
    case TIMEOUT_LINGER:
        return true;
    case TIMEOUT_NONE:
        break;
    }
    return false;
}

static struct connection *oldest_that_can_go(const struct connections *group,
                                             enum timeout_kind kind)
{
    int n = 0;

    list_each(it, &group->timeouts.waiting[kind])
    {
        struct connection *cn = list_entry(it, struct connection, timeout.link);

        if (can_go(cn))
            return cn;
        if (++n == MAX_ASKED)
            break;
    }
    return NULL;
}

/* Close the connection now. True: its slot is free. */
static bool end_at_once(struct connection *cn)
{
    const struct connections *group = cn->group;
    const uint32_t before = group->n;
    struct daemon *d = cn->mhd != NULL ? cn->daemon : NULL;

    connection_close(cn);
    if (d != NULL)
        daemon_run(d);
    return group->n < before;
}

bool connections_evict(struct connections *group)
{
    static const struct {
        enum timeout_kind kind;
        enum http_edge count; /* HTTP_EDGE_COUNT: not counted */
    } order[] = {
        {TIMEOUT_LINGER, HTTP_EDGE_COUNT},       {TIMEOUT_IDLE, HTTP_EDGE_EVICTED_IDLE},
        {TIMEOUT_HEAD, HTTP_EDGE_EVICTED_HEAD},  {TIMEOUT_BODY, HTTP_EDGE_EVICTED_BODY},
        {TIMEOUT_READER, HTTP_EDGE_EVICTED_READER},
    };

    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
        struct connection *cn = oldest_that_can_go(group, order[i].kind);

        if (cn == NULL)
            continue;
        if (order[i].count != HTTP_EDGE_COUNT)
            group->opt.http->edge[order[i].count]++;
        return end_at_once(cn);
    }
    return false;
}

/* ---- life ---- */

int connections_init(struct connections *group, const struct connections_options *options)
{
    *group = (struct connections){.opt = *options};
    list_init(&group->lingering);
    list_init(&group->woken);
    list_init(&group->shaking);
    group->watch_fd = epoll_create1(EPOLL_CLOEXEC);
    return group->watch_fd >= 0 ? 0 : ERR_IO;
}

static void start_waiting(struct connections *group)
{
    const uint64_t head_ms = (uint64_t)group->opt.header_timeout_s * 1000;
    const uint64_t idle_ms = (uint64_t)group->opt.idle_timeout_s * 1000;
    const uint64_t ms[TIMEOUT_KINDS] = {
        [TIMEOUT_HEAD] = head_ms,
        [TIMEOUT_IDLE] = idle_ms < head_ms ? idle_ms : head_ms,
        [TIMEOUT_BODY] = BODY_WINDOW_S * 1000,
        [TIMEOUT_READER] = idle_ms,
        [TIMEOUT_LINGER] = LINGER_S * 1000,
    };

    timeouts_init(&group->timeouts, group->opt.loop, ms, on_due);
}

void connections_start(struct connections *group)
{
    struct daemon_callbacks callbacks = connection_callbacks;

    callbacks.ud = group;
    start_waiting(group);
    daemons_start(&group->daemons, group->opt.loop, &callbacks,
                  &group->opt.http->edge[HTTP_EDGE_MALFORMED]);
    uv_poll_init(group->opt.loop, &group->watch, group->watch_fd);
    uv_prepare_init(group->opt.loop, &group->before_sleep);
    uv_idle_init(group->opt.loop, &group->sleepless);
    group->watch.data = group->before_sleep.data = group->sleepless.data = group;
    uv_poll_start(&group->watch, UV_READABLE, on_watch);
    uv_prepare_start(&group->before_sleep, on_before_sleep);
}

static void close_daemon(struct daemon *d)
{
    list_each(it, &d->connections)
    {
        struct connection *cn = list_entry(it, struct connection, link);

        if (cn->is_suspended)
            connection_close(cn);
    }
    daemon_stop(d);
}

/* Close connections; is_whole: all of them, even if the callback takes long. */
static bool close_some(struct connections *group, bool is_whole)
{
    const uv_loop_t *loop = group->opt.loop;
    struct list *daemons = &group->daemons.all;

    group->is_stopping = true;
    while (!list_is_empty(&group->lingering) && (is_whole || !loop_guard_is_due(loop)))
        connection_close(list_entry(group->lingering.next, struct connection, link));
    while (!list_is_empty(daemons) && (is_whole || !loop_guard_is_due(loop)))
        close_daemon(list_entry(daemons->next, struct daemon, link));
    return list_is_empty(&group->lingering) && list_is_empty(daemons);
}

bool connections_close(struct connections *group)
{
    return close_some(group, false);
}

void connections_stop(struct connections *group)
{
    close_some(group, true);
    timeouts_close(&group->timeouts);
    uv_close((uv_handle_t *)&group->watch, NULL);
    uv_close((uv_handle_t *)&group->before_sleep, NULL);
    uv_close((uv_handle_t *)&group->sleepless, NULL);
}

void connections_release(struct connections *group)
{
    if (group->watch_fd >= 0)
        close(group->watch_fd);
    group->watch_fd = -1;
}
