/* server/http/connections.c - see connection.h: all of them, their time limits, and who makes
 * room. */
#include "server/http/connection.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/mem.h"
#include "server/http/exchange.h"
#include "server/process/loop_guard.h"

#include <sys/ioctl.h>

#define SCRATCH_BYTES ((size_t)64 << 10)
/* A body is looked at so often, and may come as it likes until then. */
#define BODY_WINDOW_S 10
/* How long a client that has been answered may take to close; what it still sends is discarded. */
#define LINGER_S 5
/* Of the oldest in a list, how many are asked whether they can go. */
#define MAX_ASKED 16
/* Nobody is called slow before that. */
#define SLOW_MS 1000

/* ---- turns of the loop ---- */

static void on_sleepless(uv_idle_t *idle)
{
    (void)idle;
}

/* Those that are woken meanwhile have their turn in the next one, without a pause before it. */
static void run_woken(struct connections *group)
{
    struct list now;

    list_init(&now);
    while (!list_is_empty(&group->woken)) {
        struct list *link = group->woken.next;

        list_unlink(link);
        list_push_back(&now, link);
    }
    while (!list_is_empty(&now) && !loop_guard_is_due(group->opt.loop)) {
        struct connection *cn = list_entry(now.next, struct connection, woken);

        list_unlink(&cn->woken);
        connection_run(cn);
    }
    while (!list_is_empty(&now)) { /* the next turn begins with these */
        struct list *link = now.prev;

        list_unlink(link);
        list_push_front(&group->woken, link);
    }
}

static void on_before_sleep(uv_prepare_t *handle)
{
    LOOP_CALLBACK(handle->loop, "connections.before_sleep");
    struct connections *group = handle->data;

    run_woken(group);
    if (list_is_empty(&group->woken))
        uv_idle_stop(&group->sleepless);
    else
        uv_idle_start(&group->sleepless, on_sleepless);
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

static void go_on(struct connection *cn)
{
    cn->n_moved = 0;
    timeout_restart(&cn->group->timeouts, &cn->timeout, cn->timeout.kind);
}

static void head_is_due(struct connection *cn)
{
    cn->group->opt.http->edge[HTTP_EDGE_HEADER_TIMEOUT]++;
    if (!http_parser_has_begun(&cn->parser)) {
        connection_close(cn);
        return;
    }
    connection_fail(cn, 408, "the request's head did not come in time");
    if (cn->phase != CONNECTION_CLOSED)
        connection_run(cn);
}

/* One byte at least, where no rate is set. */
static void body_is_due(struct connection *cn)
{
    if (cn->n_moved > 0 && !is_slow(cn)) {
        go_on(cn);
        return;
    }
    cn->group->opt.http->edge[HTTP_EDGE_BODY_TIMEOUT]++;
    connection_fail(cn, 408, "the request's body comes too slowly");
    if (cn->phase != CONNECTION_CLOSED)
        connection_run(cn);
}

static void reader_is_due(struct connection *cn)
{
    if (cn->n_moved > 0 && !is_slow(cn)) {
        go_on(cn);
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
    case TIMEOUT_LINGER:
        connection_close(cn);
        break;
    case TIMEOUT_NONE:
        break;
    }
}

/* ---- making room ---- */

/* What has come and only waits for its turn of the loop is not missing. */
static bool has_unread(const struct connection *cn)
{
    int n = 0;

    return ioctl(cn->io.fd, FIONREAD, &n) == 0 && n > 0;
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

static struct connection *oldest(const struct connections *group, enum timeout_kind kind)
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

bool connections_evict(struct connections *group)
{
    static const struct {
        enum timeout_kind kind;
        enum http_edge count; /* HTTP_EDGE_COUNT: none */
    } order[] = {
        {TIMEOUT_LINGER, HTTP_EDGE_COUNT},       {TIMEOUT_IDLE, HTTP_EDGE_EVICTED_IDLE},
        {TIMEOUT_HEAD, HTTP_EDGE_EVICTED_HEAD},  {TIMEOUT_BODY, HTTP_EDGE_EVICTED_BODY},
        {TIMEOUT_READER, HTTP_EDGE_EVICTED_READER},
    };

    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
        struct connection *cn = oldest(group, order[i].kind);

        if (cn == NULL)
            continue;
        if (order[i].count != HTTP_EDGE_COUNT)
            group->opt.http->edge[order[i].count]++;
        connection_close(cn);
        return true;
    }
    return false;
}

/* ---- life ---- */

int connections_init(struct connections *group, const struct connections_options *options)
{
    *group = (struct connections){.opt = *options};
    list_init(&group->all);
    list_init(&group->woken);
    group->scratch = mem_alloc(SCRATCH_BYTES);
    return group->scratch != NULL ? 0 : ERR_NOMEM;
}

void connections_start(struct connections *group)
{
    const uint64_t ms[TIMEOUT_KINDS] = {
        [TIMEOUT_HEAD] = (uint64_t)group->opt.header_timeout_s * 1000,
        [TIMEOUT_IDLE] = (uint64_t)group->opt.idle_timeout_s * 1000,
        [TIMEOUT_BODY] = BODY_WINDOW_S * 1000,
        [TIMEOUT_READER] = (uint64_t)group->opt.idle_timeout_s * 1000,
        [TIMEOUT_LINGER] = LINGER_S * 1000,
    };

    timeouts_init(&group->timeouts, group->opt.loop, ms, on_due);
    uv_prepare_init(group->opt.loop, &group->before_sleep);
    uv_idle_init(group->opt.loop, &group->sleepless);
    group->before_sleep.data = group->sleepless.data = group;
    uv_prepare_start(&group->before_sleep, on_before_sleep);
}

bool connections_close(struct connections *group)
{
    while (!list_is_empty(&group->all) && !loop_guard_is_due(group->opt.loop))
        connection_close(list_entry(group->all.next, struct connection, link));
    return list_is_empty(&group->all);
}

void connections_stop(struct connections *group)
{
    list_each(it, &group->all) connection_close(list_entry(it, struct connection, link));
    timeouts_close(&group->timeouts);
    uv_close((uv_handle_t *)&group->before_sleep, NULL);
    uv_close((uv_handle_t *)&group->sleepless, NULL);
}

void connections_release(struct connections *group)
{
    mem_free(group->scratch);
    group->scratch = NULL;
}
