/* tests/unit/scheduler/test_queue.c - the two roads between the threads. */
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
#include "tests/fixtures/failing_memory.h"

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
    struct queue_inbox inbox;
    struct event e;
    (void)state;

    post(q, 1);
    assert_int_equal(queue_post_all(q, (struct request *[]){r, r}, 2), ERR_AGAIN); /* all or none */
    post(q, 2);
    assert_int_equal(queue_post(q, r), ERR_AGAIN);
    queue_drain(q, &inbox);
    assert_int_equal(inbox.n_posted, 2);
    assert_int_equal(inbox.posted[1]->id, 2);
    assert_int_equal(queue_post(q, r), ERR_AGAIN); /* running ones count too */
    end(q, 1);
    assert_int_equal(queue_post(q, r), ERR_AGAIN); /* until the end was taken */
    assert_int_equal(queue_take_events(q, &e, 1), 1);
    assert_int_equal(queue_post(q, r), 0);
    assert_int_equal(queue_n_outstanding(q), 2);
    for (uint32_t i = 0; i < inbox.n_posted; i++) {
        struct request *p = inbox.posted[i];

        request_destroy(&p);
    }
    queue_destroy(&q); /* frees the posted third */
    assert_null(q);
}

static void closing_refuses_posts(void **state)
{
    struct queue *q = new_queue(4, 8, NULL);
    struct request *r = new_request(1);
    struct queue_inbox inbox;
    (void)state;

    queue_close(q, false);
    assert_int_equal(queue_post(q, r), ERR_CANCELED);
    request_destroy(&r);
    queue_wait_inbox(q, 0); /* returns: the close wakes it */
    queue_drain(q, &inbox);
    assert_true(inbox.closed && !inbox.cancel_all);
    queue_close(q, true);
    queue_wait_inbox(q, 0);
    queue_drain(q, &inbox);
    assert_true(inbox.closed && inbox.cancel_all);
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

static void thoughts_are_told_once(void **state)
{
    struct queue *q = new_queue(2, 8, NULL);
    struct queue_inbox inbox;
    (void)state;

    queue_end_thought(q, 7);
    queue_cancel(q, 8);
    queue_drain(q, &inbox);
    assert_int_equal(inbox.n_thoughts, 1);
    assert_int_equal(inbox.thoughts[0], 7);
    assert_int_equal(inbox.n_cancelled, 1);
    assert_int_equal(inbox.cancelled[0], 8);
    for (uint64_t id = 0; id < 10; id++)
        queue_end_thought(q, id);
    queue_drain(q, &inbox);
    assert_int_equal(inbox.n_thoughts, 2);
    assert_int_equal(inbox.thoughts[1], 1);
    assert_int_equal(inbox.n_cancelled, 0);
    queue_drain(q, &inbox);
    assert_int_equal(inbox.n_thoughts, 0);
    queue_destroy(&q);
}

static void cancels_are_bounded(void **state)
{
    struct queue *q = new_queue(2, 8, NULL);
    struct queue_inbox inbox;
    (void)state;

    for (uint64_t id = 0; id < 10; id++)
        queue_cancel(q, id);
    queue_drain(q, &inbox);
    assert_int_equal(inbox.n_cancelled, 2);
    assert_int_equal(inbox.cancelled[1], 1);
    queue_destroy(&q);
}

/* ---- transfers between the swap tiers ---- */

static const uint32_t ram_slots[2] = {3, 9}, file_slots[2] = {1, 2};

static struct swap_io transfer(uint32_t copy)
{
    return (struct swap_io){
        .copy = copy, .is_write = copy % 2 == 0, .n = 2, .ram = ram_slots, .file = file_slots};
}

static void transfers_go_out_and_come_back(void **state)
{
    atomic_int wakes = 0;
    struct queue *q = new_queue(2, 8, &wakes);
    const struct engine_stats stats = {0};
    struct queue_inbox inbox;
    struct swap_io io;
    (void)state;

    assert_false(queue_take_io(q, &io));
    for (uint32_t copy = 4; copy < 7; copy++)
        queue_emit_io(q, &(struct swap_io){.copy = copy, .n = 2, .ram = ram_slots});
    queue_publish(q, &stats);
    queue_publish(q, &stats);
    assert_int_equal(wakes, 1);
    assert_true(queue_take_io(q, &io)); /* in order */
    assert_int_equal(io.copy, 4);
    assert_ptr_equal(io.ram, ram_slots);
    assert_true(queue_take_io(q, &io));
    assert_int_equal(io.copy, 5);
    queue_io_done(q, 5, ERR_IO, 2, 70);
    queue_io_done(q, 4, 0, 2, 50);
    queue_wait_inbox(q, 0); /* returns: an end wakes it */
    queue_drain(q, &inbox);
    assert_int_equal(inbox.n_io, 2);
    assert_int_equal(inbox.io[0].copy, 5);
    assert_int_equal(inbox.io[0].rc, ERR_IO);
    assert_int_equal(inbox.io[1].copy, 4);
    assert_int_equal(inbox.io[1].n_blocks, 2);
    assert_int_equal(inbox.io[1].us, 50);
    queue_drain(q, &inbox);
    assert_int_equal(inbox.n_io, 0);
    assert_true(queue_take_io(q, &io));
    assert_int_equal(io.copy, 6);
    assert_false(queue_take_io(q, &io));
    queue_destroy(&q);
}

/* A transfer wakes although events that nobody has taken wait already, and the other way round. */
static void each_kind_wakes_for_itself(void **state)
{
    atomic_int wakes = 0;
    struct queue *q = new_queue(2, 8, &wakes);
    const struct engine_stats stats = {0};
    const struct swap_io io = transfer(1);
    (void)state;

    queue_emit(q, &(struct event){.request = 1, .kind = EVENT_TOKEN});
    queue_publish(q, &stats);
    assert_int_equal(wakes, 1);
    queue_emit_io(q, &io);
    queue_publish(q, &stats);
    assert_int_equal(wakes, 2);
    queue_emit_io(q, &io); /* the first one has not been taken: whoever takes it sees this one */
    queue_publish(q, &stats);
    assert_int_equal(wakes, 2);
    queue_destroy(&q);
}

/* The engine keeps SWAP_MAX_IO transfers of its own under way, the other thread carries them out
 * in any order: each comes back once, with its own numbers. */
static void *carry_out(void *ud)
{
    struct queue *q = ud;
    struct swap_io io[2];

    for (uint32_t n = 0, held = 0; n < 20000 || held > 0;) {
        if (held < 2 && n < 20000 && queue_take_io(q, &io[held])) {
            held++;
            n++;
        } else if (held > 0) {
            held--;
            queue_io_done(q, io[held].copy, 0, io[held].n, io[held].copy + 1);
        } else {
            sched_yield();
        }
    }
    return NULL;
}

static void transfers_cross_the_threads(void **state)
{
    enum { N = 20000 };
    struct queue *q = new_queue(2, 8, NULL);
    static uint8_t seen[N];
    uint32_t sent = 0, back = 0;
    pthread_t io_thread;
    (void)state;

    assert_int_equal(pthread_create(&io_thread, NULL, carry_out, q), 0);
    while (back < N) {
        struct queue_inbox inbox;

        for (; sent < N && sent - back < SWAP_MAX_IO; sent++) {
            const struct swap_io io = transfer(sent);

            queue_emit_io(q, &io);
        }
        queue_wait_inbox(q, 0);
        queue_drain(q, &inbox);
        assert_true(inbox.n_io >= 1 && inbox.n_io <= SWAP_MAX_IO);
        for (uint32_t i = 0; i < inbox.n_io; i++) {
            assert_int_equal(inbox.io[i].us, inbox.io[i].copy + 1);
            assert_int_equal(seen[inbox.io[i].copy]++, 0);
        }
        back += inbox.n_io;
    }
    pthread_join(io_thread, NULL);
    queue_destroy(&q);
}

/* ---- other reasons to wake up ---- */

static void *wake_it(void *q)
{
    queue_wake(q);
    return NULL;
}

static void sleep_ends_with_an_empty_inbox(void **state)
{
    const struct queue_options o = {.max_outstanding = 1, .max_events = 1, .n_blocks = 1};
    pthread_t thread;
    struct queue *q;
    (void)state;

    assert_int_equal(queue_create(&q, &o), 0);
    queue_wake(q);
    queue_wait_inbox(q, 0); /* a wake from before */
    assert_int_equal(pthread_create(&thread, NULL, wake_it, q), 0);
    queue_wait_inbox(q, 0);
    pthread_join(thread, NULL);
    queue_wait_inbox(q, 1); /* nothing, for a millisecond */
    queue_destroy(&q);
}

/* ---- snapshots ---- */

static void a_snapshot_changes_hands(void **state)
{
    atomic_int wakes = 0;
    const struct queue_options o = {.max_outstanding = 3, .max_events = 2, .max_tenants = 4,
                                    .n_blocks = 5, .wake = count_wake, .wake_ud = &wakes};
    const struct engine_stats stats = {0};
    const struct snapshot *seen;
    struct snapshot *s;
    uint64_t number;
    struct queue *q;
    (void)state;

    assert_int_equal(queue_create(&q, &o), 0);
    assert_null(queue_begin_snapshot(q)); /* nobody asked */
    assert_null(queue_take_snapshot(q, &number));
    queue_ask_snapshot(q);
    queue_ask_snapshot(q);
    queue_wait_inbox(q, 0); /* returns: the question wakes it */
    s = queue_begin_snapshot(q);
    assert_non_null(s);
    assert_true(s->max_seqs == 3 && s->max_tenants == 4 && s->n_blocks == 5);
    assert_null(queue_begin_snapshot(q)); /* once for all who asked */
    assert_null(queue_take_snapshot(q, &number));
    memset(s->map, 'f', 5);
    memset(s->seqs, 0, 3 * sizeof(*s->seqs));
    memset(s->tenants, 0, 4 * sizeof(*s->tenants));
    s->n_seqs = 2;
    queue_end_snapshot(q);
    queue_publish(q, &stats);
    assert_int_equal(wakes, 1);
    seen = queue_take_snapshot(q, &number);
    assert_ptr_equal(seen, s);
    assert_int_equal(seen->n_seqs, 2);
    assert_null(queue_begin_snapshot(q));
    queue_release_snapshot(q);
    assert_null(queue_take_snapshot(q, &number));
    assert_null(queue_begin_snapshot(q));
    queue_ask_snapshot(q);
    assert_ptr_equal(queue_begin_snapshot(q), s);
    queue_destroy(&q);
}

/* Each question has the number of a snapshot that is begun after it, and that one comes, whoever
 * else asks meanwhile. */
static void a_snapshot_is_never_older_than_the_question(void **state)
{
    const struct queue_options o = {.max_outstanding = 1, .max_events = 1, .max_tenants = 1,
                                    .n_blocks = 1};
    uint64_t number;
    struct queue *q;
    (void)state;

    assert_int_equal(queue_create(&q, &o), 0);
    assert_int_equal(queue_ask_snapshot(q), 1);
    assert_int_equal(queue_ask_snapshot(q), 1);
    assert_non_null(queue_begin_snapshot(q));
    assert_int_equal(queue_ask_snapshot(q), 2); /* while it is being filled */
    queue_end_snapshot(q);
    assert_int_equal(queue_ask_snapshot(q), 2); /* while it waits to be taken */
    assert_null(queue_begin_snapshot(q));
    assert_non_null(queue_take_snapshot(q, &number));
    assert_int_equal(number, 1);
    assert_int_equal(queue_ask_snapshot(q), 2); /* while it is being read */
    queue_release_snapshot(q);
    queue_wait_inbox(q, 0); /* returns: the second one is due */
    assert_non_null(queue_begin_snapshot(q));
    queue_end_snapshot(q);
    assert_non_null(queue_take_snapshot(q, &number));
    assert_int_equal(number, 2);
    queue_release_snapshot(q);
    assert_null(queue_begin_snapshot(q)); /* nobody asked again */
    queue_destroy(&q);
}

static void an_empty_snapshot_has_arrays(void **state)
{
    struct snapshot *s;
    (void)state;

    assert_int_equal(snapshot_create(&s, 0, 0, 0), 0);
    assert_true(s->seqs != NULL && s->tenants != NULL && s->map != NULL);
    snapshot_destroy(&s);
    assert_null(s);
    snapshot_destroy(&s);
    snapshot_destroy(NULL);
}

/* A small engine: every request gets 3 tokens and an end, through a ring of 7 events. */
static void *tiny_engine(void *ud)
{
    struct queue *q = ud;
    const struct engine_stats stats = {0};
    struct queue_inbox inbox = {0};

    while (!inbox.closed) {
        queue_wait_inbox(q, 0);
        queue_drain(q, &inbox);
        for (uint32_t i = 0; i < inbox.n_posted; i++) {
            struct request *r = inbox.posted[i];

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
    assert_int_equal(r->counts.n, 0);
    for (int i = 0; i < 32; i++)
        token_counts_at(&r->counts, 1000 + i)->n_prompt = 7;
    memset(r->key.hashes, 0x44, 2 * sizeof(*r->key.hashes));
    memset(r->ids, 0x11, 32 * sizeof(*r->ids));
    memset(r->sampling.bias, 0x22, 5 * sizeof(*r->sampling.bias));
    assert_int_equal(r->ids[0], 0x11111111);
    assert_int_equal(r->sampling.bias[4].id, 0x22222222);
    assert_true(r->key.hashes[1].hi == 0x4444444444444444 && r->key.ids == r->ids);
    assert_true(r->key.n_hashed == 0 && r->key.salt == 0 && r->counts.n == 32);
    for (int i = 0; i < 32; i++)
        assert_true(r->counts.list[i].id == 1000 + i && r->counts.list[i].n_prompt == 7);
    assert_int_equal(r->n_prompt, 9);
    assert_true(r->weight == 1 && r->tenant == 0 && r->priority == PRIORITY_NORMAL);
    assert_true(r->sampling.n_top == -1 && r->prefix_owner == 0 && !r->is_dry_run);
    request_destroy(&r);
    assert_int_equal(request_create(&r, &huge), ERR_LIMIT);
    assert_null(r);
    mem_fail_after(0);
    assert_int_equal(request_create(&r, &size), ERR_NOMEM);
    mem_fail_after(-1);
    assert_null(r);
}

static void every_end_has_a_name(void **state)
{
    (void)state;
    for (int f = FINISH_NONE; f <= FINISH_DRY_RUN; f++)
        for (int g = FINISH_NONE; g < f; g++)
            assert_string_not_equal(finish_name((enum finish)f), finish_name((enum finish)g));
    assert_string_equal(finish_name(FINISH_QUEUE_TIMEOUT), "queue_timeout");
    assert_string_equal(finish_name(FINISH_ERROR), "error");
}

static void creation_survives_lack_of_memory(void **state)
{
    const struct queue_options o = {.max_outstanding = 2, .max_events = 2};
    struct queue *q;
    int64_t n = 0;
    (void)state;

    while (each_failure(&n)) {
        if (queue_create(&q, &o) == 0)
            queue_destroy(&q);
        assert_null(q);
    }
    assert_true(n > 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds_what_is_outstanding),
        cmocka_unit_test(closing_refuses_posts),
        cmocka_unit_test(wakes_once_a_burst),
        cmocka_unit_test(cancels_are_bounded),
        cmocka_unit_test(thoughts_are_told_once),
        cmocka_unit_test(transfers_go_out_and_come_back),
        cmocka_unit_test(each_kind_wakes_for_itself),
        cmocka_unit_test(transfers_cross_the_threads),
        cmocka_unit_test(sleep_ends_with_an_empty_inbox),
        cmocka_unit_test(a_snapshot_changes_hands),
        cmocka_unit_test(a_snapshot_is_never_older_than_the_question),
        cmocka_unit_test(an_empty_snapshot_has_arrays),
        cmocka_unit_test(two_threads_lose_nothing),
        cmocka_unit_test(requests_have_room),
        cmocka_unit_test(every_end_has_a_name),
        cmocka_unit_test(creation_survives_lack_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
