/* server/http/timeouts.c - see timeouts.h.
 *
 * All entries of a kind have the same length, so that appending keeps each list sorted by due time
 * and every operation is O(1); only the first of each list is compared. The one timer is only ever
 * set to an earlier time: an entry that leaves its list does not change it, and it may fire once
 * with nothing due.
 */
#include "server/http/timeouts.h"

#include "core/base/clock.h"
#include "server/process/loop_guard.h"

static struct timeout *first_of(struct timeouts *t, enum timeout_kind kind)
{
    return list_is_empty(&t->waiting[kind])
               ? NULL
               : list_entry(t->waiting[kind].next, struct timeout, link);
}

static void on_timeout_timer(uv_timer_t *timer);

/* Set the timer unless it fires earlier. A limit that has passed gets 1 ms: with 0 libuv would call
 * the timer again and again in the same turn. */
static void set_timer(struct timeouts *t, uint64_t due_ms)
{
    const uint64_t now = clock_ms();

    if (t->timer_ms != 0 && t->timer_ms <= due_ms)
        return;
    t->timer_ms = due_ms;
    uv_update_time(t->timer.loop);
    uv_timer_start(&t->timer, on_timeout_timer, due_ms > now ? due_ms - now : 1, 0);
}

/* Call `due` for the entries whose time is up. `due` may begin another wait of the same connection,
 * at the end of a list. */
static void on_timeout_timer(uv_timer_t *timer)
{
    LOOP_CALLBACK(timer->loop, "timeouts.timer");
    struct timeouts *t = timer->data;
    const uint64_t now = clock_ms();

    t->timer_ms = 0;
    for (enum timeout_kind k = 0; k < TIMEOUT_KINDS; k++) {
        struct timeout *e = first_of(t, k);

        for (; e != NULL && e->begin_ms + t->length_ms[k] <= now && !loop_guard_is_due(timer->loop);
             e = first_of(t, k))
            t->due(e);
        if (e != NULL)
            set_timer(t, e->begin_ms + t->length_ms[k]);
    }
}

void timeouts_init(struct timeouts *t, uv_loop_t *loop,
                   const uint64_t length_ms[static TIMEOUT_KINDS], void (*due)(struct timeout *t))
{
    for (enum timeout_kind k = 0; k < TIMEOUT_KINDS; k++) {
        list_init(&t->waiting[k]);
        t->length_ms[k] = length_ms[k];
    }
    t->due = due;
    t->timer_ms = 0;
    uv_timer_init(loop, &t->timer);
    t->timer.data = t;
}

void timeouts_close(struct timeouts *t)
{
    uv_close((uv_handle_t *)&t->timer, NULL);
}

void timeout_init(struct timeout *e)
{
    list_init(&e->link);
    e->kind = TIMEOUT_NONE;
    e->begin_ms = 0;
}

void timeout_restart(struct timeouts *t, struct timeout *e, enum timeout_kind kind)
{
    list_unlink(&e->link);
    e->kind = kind;
    if (kind == TIMEOUT_NONE)
        return;
    e->begin_ms = clock_ms();
    list_push_back(&t->waiting[kind], &e->link);
    set_timer(t, e->begin_ms + t->length_ms[kind]);
}

void timeout_set(struct timeouts *t, struct timeout *e, enum timeout_kind kind)
{
    if (e->kind != kind)
        timeout_restart(t, e, kind);
}
