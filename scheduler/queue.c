/* scheduler/queue.c - see queue.h.
 *
 * One mutex protects everything below it in struct queue; no callback runs while it is held. The
 * inbox is a double buffer: queue_drain() swaps the arrays, so the engine reads its half without
 * the lock. Both conditions are for the engine (inbox: work, room: space for events): the I/O
 * thread never sleeps here but is woken through its own event loop.
 */
#include "scheduler/queue.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

enum snapshot_step { /* step of the one snapshot, and the thread that owns it */
    SNAPSHOT_IDLE = 0, /* owned by no thread */
    SNAPSHOT_ASKED,    /* owned by no thread; the engine is to fill it */
    SNAPSHOT_FILLING,  /* owned by the engine */
    SNAPSHOT_READY,    /* owned by the I/O thread until it is released */
};

struct queue {
    struct queue_options opt;
    struct request **drained_posts; /* the engine's half of the double buffers */
    uint64_t *drained_cancels, *drained_thoughts;

    pthread_mutex_t lock;
    pthread_cond_t inbox; /* posts, cancels, ends of transfers, a request for a snapshot, a close */
    pthread_cond_t room; /* events were taken, so there is room */
    struct request **posts;
    uint32_t n_posts;
    uint64_t *cancels;
    uint32_t n_cancels;
    uint64_t *thoughts; /* ids whose thoughts are to end */
    uint32_t n_thoughts;
    uint32_t n_outstanding;
    bool closed, cancel_all, close_is_new, is_nudged;
    struct event *events; /* ring */
    uint32_t event_head, n_events;
    bool wake_due; /* something was handed over, and the I/O thread was not woken yet */
    struct engine_stats stats;
    struct swap_io transfers[SWAP_MAX_IO]; /* transfers to be carried out, in order */
    uint32_t n_transfers;
    struct queue_io_end ends[SWAP_MAX_IO]; /* transfers that were carried out, and that the engine
                                            * has not drained yet */
    uint32_t n_ends;
    uint32_t n_io; /* transfers handed over and not drained: bounds both arrays */
    enum snapshot_step snapshot_step;
    bool snapshot_again;  /* a snapshot was asked for while one was FILLING or READY: another one
                           * follows */
    uint64_t n_snapshots; /* number of snapshots begun so far */
    struct snapshot *snapshot; /* its contents are not under the lock: the step says which thread
                                * owns them */
};

static int create_arrays(struct queue *q)
{
    const size_t n = q->opt.max_outstanding;

    q->posts = mem_calloc(n, sizeof(struct request *));
    q->drained_posts = mem_calloc(n, sizeof(struct request *));
    q->cancels = mem_calloc(n, sizeof(*q->cancels));
    q->drained_cancels = mem_calloc(n, sizeof(*q->cancels));
    q->thoughts = mem_calloc(n, sizeof(*q->thoughts));
    q->drained_thoughts = mem_calloc(n, sizeof(*q->thoughts));
    q->events = mem_calloc(q->opt.max_events, sizeof(*q->events));
    if (q->posts == NULL || q->drained_posts == NULL || q->cancels == NULL ||
        q->drained_cancels == NULL || q->thoughts == NULL || q->drained_thoughts == NULL ||
        q->events == NULL)
        return ERR_NOMEM;
    return snapshot_create(&q->snapshot, q->opt.max_outstanding, q->opt.max_tenants,
                           q->opt.n_blocks);
}

static void init_inbox(struct queue *q)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&q->inbox, &attr);
    pthread_condattr_destroy(&attr);
}

int queue_create(struct queue **out, const struct queue_options *options)
{
    struct queue *q;

    *out = NULL;
    if (options->max_outstanding == 0 || options->max_events == 0)
        return ERR_INVAL;
    q = mem_calloc(1, sizeof(*q));
    if (q == NULL)
        return ERR_NOMEM;
    q->opt = *options;
    pthread_mutex_init(&q->lock, NULL);
    init_inbox(q);
    pthread_cond_init(&q->room, NULL);
    if (create_arrays(q) < 0) {
        queue_destroy(&q);
        return ERR_NOMEM;
    }
    *out = q;
    return 0;
}

void queue_destroy(struct queue **queue)
{
    struct queue *q = queue != NULL ? *queue : NULL;

    if (q == NULL)
        return;
    for (uint32_t i = 0; i < q->n_posts; i++)
        request_destroy(&q->posts[i]);
    mem_free(q->posts);
    mem_free(q->drained_posts);
    mem_free(q->cancels);
    mem_free(q->drained_cancels);
    mem_free(q->thoughts);
    mem_free(q->drained_thoughts);
    mem_free(q->events);
    snapshot_destroy(&q->snapshot);
    pthread_cond_destroy(&q->room);
    pthread_cond_destroy(&q->inbox);
    pthread_mutex_destroy(&q->lock);
    mem_free(q);
    *queue = NULL;
}

int queue_post_all(struct queue *q, struct request *const *r, uint32_t n)
{
    int rc = 0;

    pthread_mutex_lock(&q->lock);
    if (q->closed) {
        rc = ERR_CANCELED;
    } else if (n > q->opt.max_outstanding - q->n_outstanding) {
        rc = ERR_AGAIN;
    } else {
        memcpy(q->posts + q->n_posts, r, n * sizeof(*r));
        q->n_posts += n;
        q->n_outstanding += n;
        pthread_cond_signal(&q->inbox);
    }
    pthread_mutex_unlock(&q->lock);
    return rc;
}

int queue_post(struct queue *q, struct request *r)
{
    return queue_post_all(q, &r, 1);
}

/* There is at most one cancel per outstanding request, so the array overflows only if a caller
 * breaks the contract. Then the cancel is dropped, and the request ends by itself. */
void queue_cancel(struct queue *q, uint64_t id)
{
    pthread_mutex_lock(&q->lock);
    if (q->n_cancels < q->opt.max_outstanding) {
        q->cancels[q->n_cancels++] = id;
        pthread_cond_signal(&q->inbox);
    }
    pthread_mutex_unlock(&q->lock);
}

void queue_end_thought(struct queue *q, uint64_t id)
{
    pthread_mutex_lock(&q->lock);
    if (q->n_thoughts < q->opt.max_outstanding) {
        q->thoughts[q->n_thoughts++] = id;
        pthread_cond_signal(&q->inbox);
    }
    pthread_mutex_unlock(&q->lock);
}

void queue_close(struct queue *q, bool now)
{
    pthread_mutex_lock(&q->lock);
    q->closed = true;
    q->cancel_all = q->cancel_all || now;
    q->close_is_new = true;
    pthread_cond_signal(&q->inbox);
    pthread_cond_signal(&q->room);
    pthread_mutex_unlock(&q->lock);
}

size_t queue_take_events(struct queue *q, struct event *out, size_t n)
{
    size_t i;

    pthread_mutex_lock(&q->lock);
    for (i = 0; i < n && q->n_events > 0; i++) {
        out[i] = q->events[q->event_head];
        q->event_head = q->event_head + 1 == q->opt.max_events ? 0 : q->event_head + 1;
        q->n_events--;
        if (out[i].kind == EVENT_END)
            q->n_outstanding--;
    }
    if (i > 0)
        pthread_cond_signal(&q->room);
    pthread_mutex_unlock(&q->lock);
    return i;
}

void queue_get_stats(struct queue *q, struct engine_stats *out)
{
    pthread_mutex_lock(&q->lock);
    *out = q->stats;
    pthread_mutex_unlock(&q->lock);
}

uint32_t queue_n_outstanding(struct queue *q)
{
    uint32_t n;

    pthread_mutex_lock(&q->lock);
    n = q->n_outstanding;
    pthread_mutex_unlock(&q->lock);
    return n;
}

/* ---- transfers and snapshots ---- */

bool queue_take_io(struct queue *q, struct swap_io *out)
{
    bool found;

    pthread_mutex_lock(&q->lock);
    found = q->n_transfers > 0;
    if (found) {
        *out = q->transfers[0];
        q->n_transfers--;
        memmove(q->transfers, q->transfers + 1, q->n_transfers * sizeof(q->transfers[0]));
    }
    pthread_mutex_unlock(&q->lock);
    return found;
}

void queue_io_done(struct queue *q, uint32_t copy, int rc, uint32_t n_blocks, uint64_t us)
{
    pthread_mutex_lock(&q->lock);
    assert(q->n_ends + q->n_transfers < q->n_io); /* the transfer was taken */
    q->ends[q->n_ends++] =
        (struct queue_io_end){.copy = copy, .rc = rc, .n_blocks = n_blocks, .us = us};
    pthread_cond_signal(&q->inbox);
    pthread_mutex_unlock(&q->lock);
}

void queue_emit_io(struct queue *q, const struct swap_io *io)
{
    pthread_mutex_lock(&q->lock);
    assert(q->n_io < SWAP_MAX_IO);
    if (q->n_transfers == 0)
        q->wake_due = true;
    q->transfers[q->n_transfers++] = *io;
    q->n_io++;
    pthread_mutex_unlock(&q->lock);
}

uint64_t queue_ask_snapshot(struct queue *q)
{
    uint64_t number;

    pthread_mutex_lock(&q->lock);
    number = q->n_snapshots + 1;
    if (q->snapshot_step == SNAPSHOT_FILLING || q->snapshot_step == SNAPSHOT_READY) {
        q->snapshot_again = true;
    } else {
        q->snapshot_step = SNAPSHOT_ASKED;
        pthread_cond_signal(&q->inbox);
    }
    pthread_mutex_unlock(&q->lock);
    return number;
}

const struct snapshot *queue_take_snapshot(struct queue *q, uint64_t *number)
{
    bool ready;

    pthread_mutex_lock(&q->lock);
    ready = q->snapshot_step == SNAPSHOT_READY;
    *number = q->n_snapshots;
    pthread_mutex_unlock(&q->lock);
    return ready ? q->snapshot : NULL;
}

void queue_release_snapshot(struct queue *q)
{
    pthread_mutex_lock(&q->lock);
    assert(q->snapshot_step == SNAPSHOT_READY);
    q->snapshot_step = q->snapshot_again ? SNAPSHOT_ASKED : SNAPSHOT_IDLE;
    if (q->snapshot_again)
        pthread_cond_signal(&q->inbox);
    q->snapshot_again = false;
    pthread_mutex_unlock(&q->lock);
}

struct snapshot *queue_begin_snapshot(struct queue *q)
{
    bool asked;

    pthread_mutex_lock(&q->lock);
    asked = q->snapshot_step == SNAPSHOT_ASKED;
    if (asked) {
        q->snapshot_step = SNAPSHOT_FILLING;
        q->n_snapshots++;
    }
    pthread_mutex_unlock(&q->lock);
    return asked ? q->snapshot : NULL;
}

void queue_end_snapshot(struct queue *q)
{
    pthread_mutex_lock(&q->lock);
    assert(q->snapshot_step == SNAPSHOT_FILLING);
    q->snapshot_step = SNAPSHOT_READY;
    q->wake_due = true;
    pthread_mutex_unlock(&q->lock);
}

/* ---- the engine's side ---- */

/* Swap one of the inbox's pairs of id arrays: the engine reads the filled one, the other is filled
 * from now on. */
static void swap_ids(uint64_t **filled, uint64_t **drained, uint32_t *n)
{
    uint64_t *const ids = *filled;

    *filled = *drained;
    *drained = ids;
    *n = 0;
}

void queue_drain(struct queue *q, struct queue_inbox *out)
{
    struct request **posts;

    pthread_mutex_lock(&q->lock);
    *out = (struct queue_inbox){
        .posted = q->posts,
        .n_posted = q->n_posts,
        .cancelled = q->cancels,
        .n_cancelled = q->n_cancels,
        .thoughts = q->thoughts,
        .n_thoughts = q->n_thoughts,
        .closed = q->closed,
        .n_io = q->n_ends,
        .cancel_all = q->cancel_all,
    };
    memcpy(out->io, q->ends, q->n_ends * sizeof(q->ends[0]));
    q->n_io -= q->n_ends;
    q->n_ends = 0;
    posts = q->posts;
    q->posts = q->drained_posts;
    q->drained_posts = posts;
    q->n_posts = 0;
    swap_ids(&q->cancels, &q->drained_cancels, &q->n_cancels);
    swap_ids(&q->thoughts, &q->drained_thoughts, &q->n_thoughts);
    q->close_is_new = false;
    pthread_mutex_unlock(&q->lock);
}

static bool has_inbox(const struct queue *q)
{
    return q->n_posts > 0 || q->n_cancels > 0 || q->n_thoughts > 0 || q->close_is_new ||
           q->n_ends > 0 || q->snapshot_step == SNAPSHOT_ASKED || q->is_nudged;
}

static struct timespec in_ms(uint32_t ms)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += ms / 1000;
    t.tv_nsec += (long)(ms % 1000) * 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    return t;
}

void queue_wait_inbox(struct queue *q, uint32_t most_ms)
{
    const struct timespec end = in_ms(most_ms);
    int rc = 0;

    pthread_mutex_lock(&q->lock);
    while (!has_inbox(q) && rc == 0)
        rc = most_ms > 0 ? pthread_cond_timedwait(&q->inbox, &q->lock, &end)
                         : pthread_cond_wait(&q->inbox, &q->lock);
    q->is_nudged = false;
    pthread_mutex_unlock(&q->lock);
}

void queue_wake(struct queue *q)
{
    pthread_mutex_lock(&q->lock);
    q->is_nudged = true;
    pthread_mutex_unlock(&q->lock);
    pthread_cond_signal(&q->inbox);
}

void queue_wait_room(struct queue *q, uint32_t n_events)
{
    assert(n_events <= q->opt.max_events);
    pthread_mutex_lock(&q->lock);
    while (q->opt.max_events - q->n_events < n_events)
        pthread_cond_wait(&q->room, &q->lock);
    pthread_mutex_unlock(&q->lock);
}

void queue_emit(struct queue *q, const struct event *e)
{
    uint64_t tail;

    pthread_mutex_lock(&q->lock);
    assert(q->n_events < q->opt.max_events);
    if (q->n_events == 0)
        q->wake_due = true;
    tail = (uint64_t)q->event_head + q->n_events;
    q->events[tail >= q->opt.max_events ? tail - q->opt.max_events : tail] = *e;
    q->n_events++;
    pthread_mutex_unlock(&q->lock);
}

void queue_publish(struct queue *q, const struct engine_stats *stats)
{
    bool wake;

    pthread_mutex_lock(&q->lock);
    q->stats = *stats;
    wake = q->wake_due;
    q->wake_due = false;
    pthread_mutex_unlock(&q->lock);
    if (wake && q->opt.wake != NULL)
        q->opt.wake(q->opt.wake_ud);
}
