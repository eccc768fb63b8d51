/* server/api/completion/stream_pings.c - see stream_pings.h.
 *
 * One timer serves all streams. The list is in the order of their silence, so its first entry alone
 * decides when the timer fires, and a stream that sends something moves to the end. The timer is
 * not changed then: it fires too early, finds no stream that was silent for long enough, and is set
 * again.
 */
#include "server/api/completion/stream_pings.h"

#include "core/base/clock.h"
#include "server/process/loop_guard.h"

static void on_ping_timer(uv_timer_t *timer);

/* Start the timer for the stream that has been silent for the longest, if it does not run. When
 * that stream sends something first, the timer fires too early, which does no harm. */
static void arm(struct stream_pings *s)
{
    const struct stream_ping *p;
    uint64_t now, at;

    if (list_is_empty(&s->all) || uv_is_active((uv_handle_t *)&s->timer))
        return;
    p = list_entry(s->all.next, struct stream_ping, link);
    now = clock_us();
    at = p->last_us + (uint64_t)s->every_ms * 1000;
    uv_timer_start(&s->timer, on_ping_timer, at > now ? (at - now) / 1000 + 1 : 1, 0);
}

static void on_ping_timer(uv_timer_t *timer)
{
    LOOP_CALLBACK(timer->loop, "stream_pings.timer");
    struct stream_pings *s = timer->data;
    const uint64_t now = clock_us(), every_us = (uint64_t)s->every_ms * 1000;

    while (!list_is_empty(&s->all)) {
        struct stream_ping *p = list_entry(s->all.next, struct stream_ping, link);

        if (p->last_us + every_us > now)
            break;
        list_unlink(&p->link);
        p->last_us = now;
        list_push_back(&s->all, &p->link);
        p->ping(p);
    }
    arm(s);
}

void stream_pings_init(struct stream_pings *s, uv_loop_t *loop, uint32_t every_ms)
{
    list_init(&s->all);
    s->every_ms = every_ms;
    s->timer.data = s;
    uv_timer_init(loop, &s->timer); /* cannot fail */
}

void stream_pings_stop(struct stream_pings *s)
{
    uv_close((uv_handle_t *)&s->timer, NULL);
    s->every_ms = 0;
}

void stream_pings_note(struct stream_pings *s, struct stream_ping *p)
{
    if (s->every_ms == 0)
        return;
    if (p->link.next != NULL)
        list_unlink(&p->link);
    p->last_us = clock_us();
    list_push_back(&s->all, &p->link);
    arm(s);
}

void stream_pings_remove(struct stream_ping *p)
{
    if (p->link.next != NULL)
        list_unlink(&p->link);
}
