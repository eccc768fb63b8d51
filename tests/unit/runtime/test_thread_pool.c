/* tests/unit/runtime/test_thread_pool.c - the thread pool: every item once, whoever is slow;
 * pinning; groups. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ftw.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/cpus.h"
#include "core/base/err.h"
#include "core/base/float_mode.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/runtime/thread_pool.h"
#include "tests/fixtures/failing_memory.h"
#include "tests/fixtures/odd_floats.h"
#include "tests/fixtures/random.h"
#include "tests/fixtures/seconds.h"

#define MAX_THREADS 8
#define MAX_ITEMS 3000
#define MAX_REGIONS 12
#define MAX_GROUPED 12 /* threads */

static uint64_t rng;

static uint32_t below(uint32_t n)
{
    return random_below(&rng, n);
}

static struct thread_pool *make(uint32_t n_threads)
{
    struct thread_pool *t;

    assert_int_equal(thread_pool_create(&t, &(struct thread_pool_options){.n_threads = n_threads}),
                     0);
    assert_int_equal(thread_pool_n_threads(t), n_threads);
    return t;
}

/* ---- every item exactly once ---- */

struct work {
    uint32_t n_regions;
    uint32_t n[MAX_REGIONS], grain[MAX_REGIONS];
    bool takes[MAX_REGIONS];       /* some regions are a bare barrier */
    uint32_t done[MAX_ITEMS];      /* not atomic: an item has one taker, and barriers order them */
    uint32_t expected[MAX_ITEMS];
    atomic_uint wrong;
};

static void region(struct work *work, struct thread_pool_worker *w, uint32_t r)
{
    uint32_t from, to;

    while (work->takes[r] && thread_pool_take(w, work->n[r], work->grain[r], &from, &to)) {
        if (from >= to || to > work->n[r] || to - from > work->grain[r])
            atomic_fetch_add(&work->wrong, 1);
        for (uint32_t i = from; i < to && i < MAX_ITEMS; i++)
            work->done[i]++;
    }
    thread_pool_barrier(w);
}

static void all_regions(void *ud, struct thread_pool_worker *w)
{
    struct work *work = ud;

    for (uint32_t r = 0; r < work->n_regions; r++)
        region(work, w, r);
}

static void deal_random_work(struct work *work)
{
    work->n_regions = below(MAX_REGIONS + 1);
    for (uint32_t r = 0; r < work->n_regions; r++) {
        const bool few = below(2) == 0;

        work->n[r] = below(few ? 12 : MAX_ITEMS);
        work->grain[r] = 1 + below(few ? 4 : 200);
        work->takes[r] = below(8) > 0;
        for (uint32_t i = 0; work->takes[r] && i < work->n[r]; i++)
            work->expected[i]++;
    }
}

static void look_at_floats(void *ud, struct thread_pool_worker *w)
{
    if (w->index > 0 && !odd_floats_are_not())
        atomic_fetch_add((atomic_uint *)ud, 1);
}

/* Whatever the mode of the thread that makes the pool. */
static void workers_round_as_ever(void **state)
{
    struct thread_pool *t;
    atomic_uint n_odd = 0;
    (void)state;

    odd_floats_set();
    assert_false(odd_floats_are_not() || float_mode_is_set());
    t = make(4);
    float_mode_set();
    assert_true(odd_floats_are_not() && float_mode_is_set());
    thread_pool_run(t, look_at_floats, &n_odd);
    assert_int_equal(atomic_load(&n_odd), 0);
    thread_pool_destroy(&t);
}

static void every_item_exactly_once(void **state)
{
    (void)state;
    for (uint32_t n_threads = 1; n_threads <= MAX_THREADS; n_threads++) {
        struct work *work = calloc(1, sizeof(*work));
        struct thread_pool *t = make(n_threads);

        for (int run = 0; run < 60; run++) {
            deal_random_work(work);
            thread_pool_run(t, all_regions, work);
            assert_int_equal(atomic_load(&work->wrong), 0);
            assert_memory_equal(work->done, work->expected, sizeof(work->done));
        }
        thread_pool_destroy(&t);
        assert_null(t);
        free(work);
    }
}

/* ---- shares, and stealing from them ---- */

#define ITEMS 400
#define GRAIN 5

struct race {
    uint32_t slow;          /* this thread waits ... */
    bool before_its_first;  /* ... before taking anything, or after its first take */
    atomic_bool has_begun;  /* the slow thread has taken, or will wait before it does */
    atomic_uint n_done;     /* items that are done */
    atomic_bool timed_out;
    uint32_t taker[ITEMS];
};

static void wait_for(struct race *race, uint32_t n_done)
{
    const uint64_t end = clock_ms() + 20000;

    while (atomic_load(&race->n_done) < n_done && clock_ms() < end)
        sched_yield();
    if (atomic_load(&race->n_done) < n_done)
        atomic_store(&race->timed_out, true);
}

/* The slow thread goes on only when the others have done everything else: without stealing
 * from its share that never happens. */
static void run_race(void *ud, struct thread_pool_worker *w)
{
    struct race *race = ud;
    const bool is_slow = w->index == race->slow;
    bool first = true;
    uint32_t from, to;

    if (is_slow && race->before_its_first) {
        atomic_store(&race->has_begun, true);
        wait_for(race, ITEMS);
    }
    while (!is_slow && !atomic_load(&race->has_begun))
        sched_yield();
    for (; thread_pool_take(w, ITEMS, GRAIN, &from, &to); first = false) {
        if (is_slow && first) {
            atomic_store(&race->has_begun, true);
            wait_for(race, ITEMS - GRAIN);
        }
        for (uint32_t i = from; i < to; i++)
            race->taker[i] = w->index;
        atomic_fetch_add(&race->n_done, to - from);
    }
    thread_pool_barrier(w);
}

static void what_a_slow_thread_leaves_is_stolen(void **state)
{
    (void)state;
    for (uint32_t n_threads = 2; n_threads <= MAX_THREADS; n_threads++)
        for (uint32_t i = 0; i < 2 * n_threads; i++) {
            struct race race = {.slow = i / 2, .before_its_first = i % 2 == 0};
            struct thread_pool *t = make(n_threads);
            uint32_t n_slow = 0;

            thread_pool_run(t, run_race, &race);
            assert_false(atomic_load(&race.timed_out));
            assert_int_equal(atomic_load(&race.n_done), ITEMS);
            for (uint32_t j = 0; j < ITEMS; j++)
                n_slow += race.taker[j] == race.slow;
            assert_int_equal(n_slow, race.before_its_first ? 0 : GRAIN);
            thread_pool_destroy(&t);
        }
}

/* All threads wait in their first take until everybody has taken: then nothing was stolen yet. */
struct shares {
    uint32_t n, n_threads;
    atomic_uint n_taken;
    uint32_t first[MAX_THREADS];
};

static void note_first(void *ud, struct thread_pool_worker *w)
{
    struct shares *s = ud;
    uint32_t from, to;

    if (thread_pool_take(w, s->n, 1, &from, &to))
        s->first[w->index] = from;
    atomic_fetch_add(&s->n_taken, 1);
    while (atomic_load(&s->n_taken) < s->n_threads)
        sched_yield();
    while (thread_pool_take(w, s->n, 1, &from, &to))
        ;
    thread_pool_barrier(w);
}

static void shares_stay_where_they_were(void **state)
{
    (void)state;
    for (uint32_t n_threads = 1; n_threads <= MAX_THREADS; n_threads++) {
        struct thread_pool *t = make(n_threads);

        for (int run = 0; run < 20; run++) {
            struct shares s = {.n = n_threads + below(1000), .n_threads = n_threads};

            thread_pool_run(t, note_first, &s);
            for (uint32_t i = 0; i < n_threads; i++)
                assert_int_equal(s.first[i], s.n * i / n_threads);
        }
        thread_pool_destroy(&t);
    }
}

/* ---- life ---- */

static void nothing(void *ud, struct thread_pool_worker *w)
{
    (void)ud;
    (void)w;
}

static void an_idle_pool_sleeps(void **state)
{
    struct thread_pool *t = make(MAX_THREADS);
    double before;
    (void)state;

    thread_pool_run(t, nothing, NULL);
    before = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    usleep(300000);
    /* Seven waits of SPIN_WORD_US, and what a sanitizer adds. */
    assert_true(seconds_of(CLOCK_PROCESS_CPUTIME_ID) - before < 0.05);
    thread_pool_run(t, nothing, NULL);
    thread_pool_destroy(&t);
}

static void creation_survives_lack_of_memory(void **state)
{
    struct thread_pool *t;
    int64_t n = 0;
    (void)state;

    assert_int_equal(thread_pool_create(&t, &(struct thread_pool_options){.n_threads = 0}),
                     ERR_INVAL);
    assert_null(t);
    while (each_failure(&n)) {
        const int rc = thread_pool_create(&t, &(struct thread_pool_options){.n_threads = 3});

        assert_int_equal(rc, mem_has_failed() ? ERR_NOMEM : 0);
        assert_true((t == NULL) == (rc < 0));
    }
    thread_pool_destroy(&t);
    thread_pool_destroy(NULL);
}

/* ---- pinning ---- */

struct places {
    uint32_t n_cpus[MAX_THREADS]; /* that the thread may run on */
    int cpu[MAX_THREADS];         /* the first of them */
};

static void note_place(void *ud, struct thread_pool_worker *w)
{
    struct places *p = ud;
    cpu_set_t set;

    p->cpu[w->index] = -1;
    if (sched_getaffinity(0, sizeof(set), &set) != 0)
        return;
    p->n_cpus[w->index] = (uint32_t)CPU_COUNT(&set);
    for (int cpu = 0; cpu < CPU_SETSIZE && p->cpu[w->index] < 0; cpu++)
        if (CPU_ISSET(cpu, &set))
            p->cpu[w->index] = cpu;
}

/* What the thread pool wrote to the log meanwhile. */
static void capture_log(int fds[2])
{
    assert_int_equal(pipe(fds), 0);
    log_setup(LOG_WARN, false, fds[1]);
}

static void captured(int fds[2], char *text, size_t size)
{
    ssize_t n;

    close(fds[1]);
    n = read(fds[0], text, size - 1);
    text[n > 0 ? n : 0] = '\0';
    close(fds[0]);
    log_setup(LOG_INFO, false, STDERR_FILENO);
}

static void pins_each_thread_to_a_cpu(void **state)
{
    const struct thread_pool_options options = {.n_threads = MAX_THREADS, .pin = true};
    struct places p = {0};
    struct cpus cpus;
    cpu_set_t before;
    struct thread_pool *t;
    char said[1024];
    int fds[2];
    (void)state;

    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    cpus_read(&cpus, "");
    capture_log(fds);
    assert_int_equal(thread_pool_create(&t, &options), 0);
    thread_pool_run(t, note_place, &p);
    thread_pool_destroy(&t);
    captured(fds, said, sizeof(said));
    assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
    for (uint32_t i = 0; i < MAX_THREADS; i++) {
        assert_int_equal(p.n_cpus[i], i < cpus.n ? 1 : cpus.n);
        if (i < cpus.n)
            assert_int_equal(p.cpu[i], cpus.cpu[i].id);
    }
    if (cpus.n < MAX_THREADS)
        assert_non_null(strstr(said, "cause=more-threads-than-cpus"));
    else
        assert_string_equal(said, "");
}

/* The machine's CPUs as if they were on two nodes, or on one if there is one. */
static void keeps_each_thread_on_its_node(void **state)
{
    struct places p = {0};
    struct cpus cpus;
    const struct thread_pool_options options = {
        .n_threads = MAX_THREADS, .keep_nodes = true, .cpus = &cpus};
    cpu_set_t before;
    struct thread_pool *t;
    uint32_t half;
    (void)state;

    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    cpus_read(&cpus, "");
    half = (cpus.n + 1) / 2;
    for (uint32_t i = 0; i < cpus.n; i++)
        cpus.cpu[i].node = i >= half;
    assert_int_equal(thread_pool_create(&t, &options), 0);
    thread_pool_run(t, note_place, &p);
    thread_pool_destroy(&t);
    assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
    for (uint32_t i = 0; i < MAX_THREADS; i++) { /* those without a CPU are with the last one */
        const bool is_second = cpus.n > 1 && i >= half;
        uint32_t first = cpus.cpu[is_second ? half : 0].id;

        for (uint32_t j = 0; j < cpus.n; j++)
            if (cpus.cpu[j].node == is_second && cpus.cpu[j].id < first)
                first = cpus.cpu[j].id;
        assert_int_equal(p.n_cpus[i], is_second ? cpus.n - half : half);
        assert_int_equal(p.cpu[i], first);
    }
}

/* ---- groups ---- */

/* A machine of 12 cores on two nodes. */
static void two_nodes(struct cpus *c)
{
    *c = (struct cpus){.n = 12, .n_cores = 12, .nodes = 3};
    for (uint16_t i = 0; i < 12; i++)
        c->cpu[i] = (struct cpu){.id = i, .node = i / 6, .cache = i / 6 * 6};
}

struct near_first {
    atomic_uint n_done;
    atomic_bool timed_out;
    uint32_t taker[MAX_GROUPED];
};

static void steal_near_first(void *ud, struct thread_pool_worker *w)
{
    struct near_first *s = ud;
    const uint64_t end = clock_ms() + 20000;
    uint32_t from, to;

    /* The last one takes its own item and then steals, alone. */
    while (w->index != MAX_GROUPED - 1 && atomic_load(&s->n_done) < MAX_GROUPED / 2)
        if (clock_ms() > end) {
            atomic_store(&s->timed_out, true);
            break;
        } else {
            sched_yield();
        }
    while (thread_pool_take(w, MAX_GROUPED, 1, &from, &to)) {
        s->taker[from] = w->index;
        atomic_fetch_add(&s->n_done, 1);
        if (w->index == MAX_GROUPED - 1 && atomic_load(&s->n_done) == MAX_GROUPED / 2)
            break;
    }
    thread_pool_barrier(w);
}

/* Each of 12 threads owns one item. The last one takes six alone: its own, those of its node. */
static void near_shares_are_stolen_first(void **state)
{
    struct near_first s = {0};
    struct cpus cpus;
    struct thread_pool *t;
    (void)state;

    two_nodes(&cpus);
    assert_int_equal(thread_pool_create(&t, &(struct thread_pool_options){.n_threads = MAX_GROUPED,
                                                                          .cpus = &cpus}),
                     0);
    thread_pool_run(t, steal_near_first, &s);
    assert_false(atomic_load(&s.timed_out));
    assert_int_equal(atomic_load(&s.n_done), MAX_GROUPED);
    for (uint32_t i = MAX_GROUPED / 2; i < MAX_GROUPED; i++)
        assert_int_equal(s.taker[i], MAX_GROUPED - 1);
    thread_pool_destroy(&t);
}

/* As every_item_exactly_once, with several groups, whose barriers make a tree. */
static void groups_share_the_same_work(void **state)
{
    struct cpus cpus;
    (void)state;

    two_nodes(&cpus);
    for (uint32_t n_threads = 6; n_threads <= MAX_GROUPED + 2; n_threads++) {
        struct work *work = calloc(1, sizeof(*work));
        struct thread_pool *t;

        assert_int_equal(thread_pool_create(&t, &(struct thread_pool_options){
                                                    .n_threads = n_threads, .cpus = &cpus}),
                         0);
        for (int run = 0; run < 20; run++) {
            deal_random_work(work);
            thread_pool_run(t, all_regions, work);
            assert_int_equal(atomic_load(&work->wrong), 0);
            assert_memory_equal(work->done, work->expected, sizeof(work->done));
        }
        thread_pool_destroy(&t);
        free(work);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_round_as_ever),
        cmocka_unit_test(every_item_exactly_once),
        cmocka_unit_test(what_a_slow_thread_leaves_is_stolen),
        cmocka_unit_test(shares_stay_where_they_were),
        cmocka_unit_test(an_idle_pool_sleeps),
        cmocka_unit_test(creation_survives_lack_of_memory),
        cmocka_unit_test(pins_each_thread_to_a_cpu),
        cmocka_unit_test(keeps_each_thread_on_its_node),
        cmocka_unit_test(near_shares_are_stolen_first),
        cmocka_unit_test(groups_share_the_same_work),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
