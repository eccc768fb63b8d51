/* tests/unit/test_queue.c - the two roads between the threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "core/base/err.h"
#include "core/base/mem.h"
#include "scheduler/queue.h"

static void count_wake(void *ud)
{
    atomic_fetch_add((atomic_int *)ud, 1);
}

static struct queue *new_queue(uint32_t outstanding, uint32_t events, atomic_int *wakes)
{
    const struct queue_options o = {.max_outstanding = outstanding,
                                    .max_events = events,
                                    .wake = wakes != NULL ? count_wake : NULL,
                                    .wake_ud = wakes};
    struct queue *q;

    assert_int_equal(queue_create(&q, &o), 0);
    return q;
}

static struct request *new_request(uint64_t id)
{
    const struct request_size size = {.n_prompt = 1, .max_tokens = 1};
    struct request *r;

    assert_int_equal(request_create(&r, &size), 0);
    r->id = id;
    return r;
}

static void post(struct queue *q, uint64_t id)
{
    assert_int_equal(queue_post(q, new_request(id)), 0);
}

static void end(struct queue *q, uint64_t id)
{
    const struct event e = {.request = id, .kind = EVENT_END};

    queue_wait_room(q, 1);
    queue_emit(q, &e);
}

static void bounds_what_is_outstanding(void **state)
{
    struct queue *q = new_queue(2, 8, NULL);
    struct request *r = new_request(3);
    struct queue_news news;
    struct event e;
    (void)state;

    post(q, 1);
    post(q, 2);
    assert_int_equal(queue_post(q, r), ERR_AGAIN);
    queue_drain(q, &news);
    assert_int_equal(news.n_posted, 2);
    assert_int_equal(news.posted[1]->id, 2);
    assert_int_equal(queue_post(q, r), ERR_AGAIN); /* running ones count too */
    end(q, 1);
    assert_int_equal(queue_post(q, r), ERR_AGAIN); /* until the end was taken */
    assert_int_equal(queue_take_events(q, &e, 1), 1);
    assert_int_equal(queue_post(q, r), 0);
    assert_int_equal(queue_n_outstanding(q), 2);
    for (uint32_t i = 0; i < news.n_posted; i++) {
        struct request *p = news.posted[i];

        request_destroy(&p);
    }
    queue_destroy(&q); /* frees the posted third */
    assert_null(q);
}

static void closing_refuses_posts(void **state)
{
    struct queue *q = new_queue(4, 8, NULL);
    struct request *r = new_request(1);
    struct queue_news news;
    (void)state;

    queue_close(q, false);
    assert_int_equal(queue_post(q, r), ERR_CANCELED);
    request_destroy(&r);
    queue_wait_news(q); /* returns: the close is news */
    queue_drain(q, &news);
    assert_true(news.closed && !news.cancel_all);
    queue_close(q, true);
    queue_wait_news(q);
    queue_drain(q, &news);
    assert_true(news.closed && news.cancel_all);
    queue_destroy(&q);
}

static void wakes_once_a_burst(void **state)
{
    atomic_int wakes = 0;
    struct queue *q = new_queue(4, 8, &wakes);
    const struct engine_stats stats = {.n_running = 3};
    struct engine_stats copy;
    struct event e[8];
    (void)state;

    queue_publish(q, &stats);
    assert_int_equal(wakes, 0);
    for (uint64_t i = 0; i < 5; i++)
        queue_emit(q, &(struct event){.request = i, .kind = EVENT_TOKEN});
    queue_publish(q, &stats);
    queue_publish(q, &stats);
    assert_int_equal(wakes, 1);
    assert_int_equal(queue_take_events(q, e, 3), 3);
    assert_int_equal(e[2].request, 2);
    queue_emit(q, &(struct event){.request = 5, .kind = EVENT_TOKEN});
    queue_publish(q, &stats); /* the reader was told and is still reading */
    assert_int_equal(wakes, 1);
    assert_int_equal(queue_take_events(q, e, 8), 3);
    assert_int_equal(e[2].request, 5);
    queue_get_stats(q, &copy);
    assert_int_equal(copy.n_running, 3);
    queue_destroy(&q);
}

static void cancels_are_bounded(void **state)
{
    struct queue *q = new_queue(2, 8, NULL);
    struct queue_news news;
    (void)state;

    for (uint64_t id = 0; id < 10; id++)
        queue_cancel(q, id);
    queue_drain(q, &news);
    assert_int_equal(news.n_cancelled, 2);
    assert_int_equal(news.cancelled[1], 1);
    queue_destroy(&q);
}

/* A small engine: every request gets 3 tokens and an end, through a ring of 7 events. */
static void *tiny_engine(void *ud)
{
    struct queue *q = ud;
    const struct engine_stats stats = {0};
    struct queue_news news = {0};

    while (!news.closed) {
        queue_wait_news(q);
        queue_drain(q, &news);
        for (uint32_t i = 0; i < news.n_posted; i++) {
            struct request *r = news.posted[i];

            queue_publish(q, &stats);
            queue_wait_room(q, 3);
            for (int32_t t = 0; t < 3; t++)
                queue_emit(q, &(struct event){.request = r->id, .kind = EVENT_TOKEN, .token = t});
            queue_publish(q, &stats);
            end(q, r->id);
            request_destroy(&r);
        }
        queue_publish(q, &stats);
    }
    return NULL;
}

static void two_threads_lose_nothing(void **state)
{
    enum { N = 20000 };
    atomic_int wakes = 0;
    struct queue *q = new_queue(16, 7, &wakes);
    static uint8_t seen[N + 1];
    uint64_t posted = 0, ended = 0;
    pthread_t engine;
    (void)state;

    assert_int_equal(pthread_create(&engine, NULL, tiny_engine, q), 0);
    while (ended < N) {
        struct event e[5];
        size_t n;

        if (posted < N && queue_n_outstanding(q) < 16)
            post(q, ++posted);
        n = queue_take_events(q, e, 5);
        for (size_t i = 0; i < n; i++) {
            if (e[i].kind == EVENT_TOKEN)
                assert_int_equal(e[i].token, seen[e[i].request]);
            assert_int_equal(seen[e[i].request]++, e[i].kind == EVENT_TOKEN ? e[i].token : 3);
            ended += e[i].kind == EVENT_END;
        }
        if (n == 0)
            sched_yield();
    }
    queue_close(q, false);
    pthread_join(engine, NULL);
    assert_int_equal(queue_n_outstanding(q), 0);
    queue_destroy(&q);
}

/* The request's arrays lie inside its one allocation, apart from each other. */
static void requests_have_room(void **state)
{
    const struct request_size size = {.n_prompt = 9, .max_tokens = 23, .n_bias = 5,
                                      .penalties = true};
    const struct request_size huge = {.n_prompt = UINT32_MAX / 2, .max_tokens = UINT32_MAX / 2};
    struct request *r;
    (void)state;

    assert_int_equal(request_create(&r, &size), 0);
    assert_true(r->n_counts > 2 * 32 && (r->n_counts & (r->n_counts - 1)) == 0);
    for (uint32_t i = 0; i < r->n_counts; i++)
        assert_int_equal(r->counts[i].id, -1);
    memset(r->ids, 0x11, 32 * sizeof(*r->ids));
    memset(r->sampling.bias, 0x22, 5 * sizeof(*r->sampling.bias));
    memset(r->counts, 0x33, r->n_counts * sizeof(*r->counts));
    assert_int_equal(r->ids[0], 0x11111111);
    assert_int_equal(r->sampling.bias[4].id, 0x22222222);
    assert_int_equal(r->n_prompt, 9);
    request_destroy(&r);
    assert_int_equal(request_create(&r, &huge), ERR_LIMIT);
    assert_null(r);
    mem_fail_after(0);
    assert_int_equal(request_create(&r, &size), ERR_NOMEM);
    mem_fail_after(-1);
    assert_null(r);
}

static void creation_survives_lack_of_memory(void **state)
{
    const struct queue_options o = {.max_outstanding = 2, .max_events = 2};
    struct queue *q;
    int64_t n = 0;
    (void)state;

    do {
        mem_fail_after(n++);
        if (queue_create(&q, &o) == 0)
            queue_destroy(&q);
        assert_null(q);
    } while (mem_has_failed());
    mem_fail_after(-1);
    assert_true(n > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds_what_is_outstanding),
        cmocka_unit_test(closing_refuses_posts),
        cmocka_unit_test(wakes_once_a_burst),
        cmocka_unit_test(cancels_are_bounded),
        cmocka_unit_test(two_threads_lose_nothing),
        cmocka_unit_test(requests_have_room),
        cmocka_unit_test(creation_survives_lack_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
