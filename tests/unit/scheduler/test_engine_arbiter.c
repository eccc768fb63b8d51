/* tests/unit/scheduler/test_engine_arbiter.c - turns between engines: one at a time, shares, nobody
 * forgotten.
 *
 * The durations of steps are made up, so what is shared out does not depend on the machine.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>

#include "scheduler/engine_arbiter.h"

#define MAX_ENGINES 4
#define MAX_TURNS 4000

struct machine { /* what the engines share */
    struct engine_arbiter *arbiter;
    atomic_uint inside;
    atomic_uint n_turns; /* since all engines have had one */
    uint32_t n_engines, n_seen;
    bool seen[MAX_ENGINES];
    uint8_t order[MAX_TURNS]; /* whose turn; like the seen, written inside */
    pthread_barrier_t begin;
};

struct instance {
    struct machine *machine;
    uint32_t place, step_us, n_own;
    uint32_t every;   /* after so many steps there is nothing to do; 0: there always is */
    sem_t granted;
    pthread_t thread;
};

static void on_granted(void *ud)
{
    sem_post(&((struct instance *)ud)->granted);
}

/* What a loop does, but there is no inbox to read meanwhile. A grant may be an old one. */
static void wait_turn(struct instance *e)
{
    while (!engine_arbiter_ask(e->machine->arbiter, e->place))
        sem_wait(&e->granted);
}

static void use_turn(struct instance *e)
{
    struct machine *h = e->machine;
    uint32_t at;

    assert_int_equal(atomic_fetch_add(&h->inside, 1), 0);
    if (h->n_seen == h->n_engines) {
        at = atomic_fetch_add(&h->n_turns, 1);
        if (at < MAX_TURNS)
            h->order[at] = (uint8_t)e->place;
    }
    h->n_seen += !h->seen[e->place];
    h->seen[e->place] = true;
    e->n_own++;
    assert_int_equal(atomic_fetch_sub(&h->inside, 1), 1);
}

static void *engine_main(void *arg)
{
    struct instance *e = arg;
    struct machine *h = e->machine;

    pthread_barrier_wait(&h->begin);
    while (atomic_load(&h->n_turns) < MAX_TURNS) {
        const bool is_last = e->every > 0 && (e->n_own + 1) % e->every == 0;

        wait_turn(e);
        use_turn(e);
        engine_arbiter_end(h->arbiter, e->place, e->step_us, !is_last);
    }
    engine_arbiter_end(h->arbiter, e->place, 0, false);
    return NULL;
}

/* Run the engines until MAX_TURNS are over. */
static void run(struct machine *h, struct instance *engines, uint32_t n, const uint32_t *shares)
{
    *h = (struct machine){.n_engines = n};
    assert_int_equal(engine_arbiter_create(&h->arbiter, shares, n), 0);
    pthread_barrier_init(&h->begin, NULL, n);
    for (uint32_t i = 0; i < n; i++) {
        engines[i].machine = h;
        engines[i].place = i;
        sem_init(&engines[i].granted, 0, 0);
        engine_arbiter_join(h->arbiter, i, on_granted, &engines[i]);
        assert_int_equal(pthread_create(&engines[i].thread, NULL, engine_main, &engines[i]), 0);
    }
    for (uint32_t i = 0; i < n; i++)
        pthread_join(engines[i].thread, NULL);
    pthread_barrier_destroy(&h->begin);
    engine_arbiter_destroy(&h->arbiter);
}

static void check_shares(const uint32_t *shares, const uint32_t *step_us, uint32_t n)
{
    struct instance engines[MAX_ENGINES] = {0};
    uint64_t us[MAX_ENGINES] = {0}, total_share = 0, total_us = 0, longest = 0;
    struct machine h;

    for (uint32_t i = 0; i < n; i++) {
        engines[i].step_us = step_us[i];
        total_share += shares[i];
        longest = step_us[i] > longest ? step_us[i] : longest;
    }
    run(&h, engines, n, shares);
    for (uint32_t at = 0; at < MAX_TURNS; at++) {
        us[h.order[at]] += step_us[h.order[at]];
        total_us += step_us[h.order[at]];
    }
    for (uint32_t i = 0; i < n; i++) { /* within two of the longest steps, however long it runs */
        const double due = (double)total_us * shares[i] / (double)total_share;

        assert_true((double)us[i] > due - 2.0 * (double)longest);
        assert_true((double)us[i] < due + 2.0 * (double)longest);
    }
}

static void time_is_shared_out(void **state)
{
    (void)state;
    check_shares((uint32_t[]){1, 1}, (uint32_t[]){1000, 1000}, 2);
    check_shares((uint32_t[]){3, 1}, (uint32_t[]){1000, 1000}, 2);
    check_shares((uint32_t[]){1, 1}, (uint32_t[]){20000, 300}, 2);
    check_shares((uint32_t[]){1, 2, 4}, (uint32_t[]){5000, 5000, 5000}, 3);
    check_shares((uint32_t[]){1000, 1, 7, 7}, (uint32_t[]){100, 900, 20, 5000}, 4);
}

/* One that comes back after idling does not catch up on what it missed. */
static void idle_time_is_not_saved_up(void **state)
{
    static const uint32_t shares[] = {1, 1};
    struct instance engines[2] = {{.step_us = 1000}, {.step_us = 1000, .every = 50}};
    struct machine h;
    uint32_t n_first = 0;

    (void)state;
    run(&h, engines, 2, shares);
    for (uint32_t at = 0; at + 1 < MAX_TURNS; at++) {
        n_first += h.order[at] == 0;
        assert_false(h.order[at] == 1 && h.order[at + 1] == 1);
    }
    assert_true(n_first >= MAX_TURNS / 2 - 2);
}

static void count(void *ud)
{
    ++*(int *)ud;
}

static struct engine_arbiter *make(uint32_t n, int *granted)
{
    static const uint32_t shares[] = {1, 1, 1};
    struct engine_arbiter *t;

    assert_int_equal(engine_arbiter_create(&t, shares, n), 0);
    for (uint32_t i = 0; i < n; i++)
        engine_arbiter_join(t, i, count, &granted[i]);
    return t;
}

static void alone_nobody_waits(void **state)
{
    int granted[2] = {0};
    struct engine_arbiter *t = make(2, granted);

    (void)state;
    for (uint32_t i = 0; i < 1000; i++) {
        assert_true(engine_arbiter_ask(t, i % 2));
        engine_arbiter_end(t, i % 2, 1000, false);
    }
    assert_int_equal(granted[0] + granted[1], 0); /* whoever has it knows */
    engine_arbiter_destroy(&t);
}

static void who_waits_is_told_once(void **state)
{
    int granted[2] = {0};
    struct engine_arbiter *t = make(2, granted);

    (void)state;
    assert_true(engine_arbiter_ask(t, 0));
    assert_false(engine_arbiter_ask(t, 1));
    assert_false(engine_arbiter_ask(t, 1));
    assert_int_equal(granted[1], 0);
    engine_arbiter_end(t, 0, 10, true);
    assert_int_equal(granted[1], 1);
    assert_false(engine_arbiter_ask(t, 0));
    assert_true(engine_arbiter_ask(t, 1));
    engine_arbiter_end(t, 1, 30, true); /* three steps of the other */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(granted[0], 1);
        assert_true(engine_arbiter_ask(t, 0));
        engine_arbiter_end(t, 0, 10, true);
    }
    assert_true(engine_arbiter_ask(t, 0));
    engine_arbiter_end(t, 0, 11, true);
    assert_int_equal(granted[1], 2);
    engine_arbiter_destroy(&t);
}

static void rivals_are_those_with_work(void **state)
{
    int granted[3] = {0};
    struct engine_arbiter *t = make(3, granted);

    (void)state;
    assert_int_equal(engine_arbiter_n_rivals(t, 0), 0);
    assert_true(engine_arbiter_ask(t, 1));
    assert_int_equal(engine_arbiter_n_rivals(t, 0), 1);
    assert_int_equal(engine_arbiter_n_rivals(t, 1), 0);
    engine_arbiter_end(t, 1, 10, true);
    assert_int_equal(engine_arbiter_n_rivals(t, 2), 1);
    engine_arbiter_end(t, 1, 0, false);
    assert_int_equal(engine_arbiter_n_rivals(t, 2), 0);
    engine_arbiter_destroy(&t);
}

static void a_promise_can_be_left(void **state)
{
    int granted[2] = {0};
    struct engine_arbiter *t = make(2, granted);

    (void)state;
    assert_true(engine_arbiter_ask(t, 0));
    engine_arbiter_end(t, 0, 10, true); /* its own again: nobody else wants it */
    assert_false(engine_arbiter_ask(t, 1));
    engine_arbiter_end(t, 0, 0, false);
    assert_int_equal(granted[1], 1);
    assert_true(engine_arbiter_ask(t, 1));
    assert_false(engine_arbiter_ask(t, 0));
    engine_arbiter_end(t, 0, 0, false); /* nor does it wait any more */
    engine_arbiter_end(t, 1, 10, false);
    assert_int_equal(granted[0], 0);
    assert_true(engine_arbiter_ask(t, 0));
    engine_arbiter_end(t, 0, 10, false);
    engine_arbiter_destroy(&t);
}

static void alone_there_are_no_turns(void **state)
{
    (void)state;
    assert_true(engine_arbiter_ask(NULL, 0));
    assert_int_equal(engine_arbiter_n_rivals(NULL, 0), 0);
    engine_arbiter_join(NULL, 0, count, NULL);
    engine_arbiter_end(NULL, 0, 1, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_is_shared_out),
        cmocka_unit_test(idle_time_is_not_saved_up),
        cmocka_unit_test(alone_nobody_waits),
        cmocka_unit_test(who_waits_is_told_once),
        cmocka_unit_test(rivals_are_those_with_work),
        cmocka_unit_test(a_promise_can_be_left),
        cmocka_unit_test(alone_there_are_no_turns),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
