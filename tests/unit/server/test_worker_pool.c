/* tests/unit/server/test_worker_pool.c - threads that parse requests: who is next, and how they
 * end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <semaphore.h>
#include <unistd.h>

#include "core/base/err.h"
#include "core/base/float_mode.h"
#include "core/base/mem.h"
#include "server/process/worker_pool.h"
#include "tests/fixtures/odd_floats.h"

struct world {
    uv_loop_t loop;
    struct worker_pool *pool;
    sem_t began, go_on; /* of jobs that wait to be told */
    int n_done;
    uint64_t order[64]; /* owners of the jobs that ended */
};

struct test_job {
    struct worker_job job;
    struct world *world;
    bool waits;
    bool was_canceled; /* as the job saw it */
    bool ran;
};

static struct test_job *of(struct worker_job *job)
{
    return list_entry(job, struct test_job, job);
}

static void work(struct worker_job *job)
{
    struct test_job *t = of(job);

    t->ran = odd_floats_are_not();
    if (t->waits) {
        sem_post(&t->world->began);
        sem_wait(&t->world->go_on);
    }
    t->was_canceled = atomic_load(&job->canceled);
}

static void done(struct worker_job *job)
{
    struct world *w = of(job)->world;

    w->order[w->n_done++] = job->owner;
}

static void set_up(struct world *w, uint32_t n_threads, uint32_t max_waiting)
{
    const struct worker_pool_options o = {&w->loop, n_threads, max_waiting};

    *w = (struct world){0};
    sem_init(&w->began, 0, 0);
    sem_init(&w->go_on, 0, 0);
    assert_int_equal(uv_loop_init(&w->loop), 0);
    odd_floats_set(); /* the thread that makes the pool may round as it likes */
    assert_int_equal(worker_pool_create(&w->pool, &o), 0);
    float_mode_set();
}

static void run_until_done(struct world *w, int n)
{
    while (w->n_done < n)
        uv_run(&w->loop, UV_RUN_ONCE);
}

static void tear_down(struct world *w)
{
    worker_pool_stop(w->pool);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w->loop), 0);
    worker_pool_destroy(&w->pool);
    sem_destroy(&w->began);
    sem_destroy(&w->go_on);
}

static struct test_job make(struct world *w, uint64_t owner, bool waits)
{
    return (struct test_job){
        .job = {.work = work, .done = done, .owner = owner}, .world = w, .waits = waits};
}

static void every_job_is_done_once(void **state)
{
    struct test_job jobs[60];
    struct world w;
    (void)state;

    set_up(&w, 3, 60);
    for (int i = 0; i < 60; i++) {
        jobs[i] = make(&w, (uint64_t)i % 4, false);
        assert_int_equal(worker_pool_post(w.pool, &jobs[i].job), 0);
    }
    run_until_done(&w, 60);
    for (int i = 0; i < 60; i++)
        assert_true(jobs[i].ran);
    assert_int_equal(worker_pool_stats(w.pool).n_done, 60);
    assert_int_equal(worker_pool_stats(w.pool).n_waiting, 0);
    tear_down(&w);
}

static void too_many_are_refused(void **state)
{
    struct test_job a, b, c;
    struct world w;
    (void)state;

    set_up(&w, 1, 1);
    a = make(&w, 0, true), b = make(&w, 0, false), c = make(&w, 0, false);
    assert_int_equal(worker_pool_stats(w.pool).oldest_us, 0);
    assert_true(worker_pool_is_idle(w.pool) && worker_pool_is_idle(NULL));
    a.job.subject = "the file";
    assert_string_equal(worker_pool_stats(w.pool).oldest, "");
    assert_int_equal(worker_pool_post(w.pool, &a.job), 0);
    assert_false(worker_pool_is_idle(w.pool));
    sem_wait(&w.began);
    assert_int_not_equal(worker_pool_stats(w.pool).oldest_us, 0);
    assert_string_equal(worker_pool_stats(w.pool).oldest, "the file");
    assert_int_equal(worker_pool_post(w.pool, &b.job), 0);
    assert_int_equal(worker_pool_post(w.pool, &c.job), ERR_AGAIN);
    sem_post(&w.go_on);
    run_until_done(&w, 2);
    assert_false(c.ran);
    assert_true(worker_pool_is_idle(w.pool));
    assert_int_equal(worker_pool_stats(w.pool).oldest_us, 0);
    tear_down(&w);
}

/* Owner 1 has sent many long jobs; the other's job does not wait for all of them. */
static void an_owner_leaves_threads_to_others(void **state)
{
    struct test_job many[6], other;
    struct world w;
    (void)state;

    set_up(&w, 2, 10);
    for (int i = 0; i < 6; i++) {
        many[i] = make(&w, 1, true);
        assert_int_equal(worker_pool_post(w.pool, &many[i].job), 0);
    }
    other = make(&w, 2, false);
    assert_int_equal(worker_pool_post(w.pool, &other.job), 0);
    sem_wait(&w.began);
    sem_wait(&w.began); /* both threads are owner 1's */
    sem_post(&w.go_on); /* one of them becomes free: while 1 still has the other, it is 2's turn */
    run_until_done(&w, 2);
    assert_true(other.ran);
    assert_true(w.order[0] == 2 || w.order[1] == 2);
    for (int i = 0; i < 5; i++)
        sem_post(&w.go_on);
    run_until_done(&w, 7);
    tear_down(&w);
}

static void a_job_sees_that_it_was_canceled(void **state)
{
    struct test_job a, b;
    struct world w;
    (void)state;

    set_up(&w, 1, 10);
    a = make(&w, 0, true), b = make(&w, 0, false);
    assert_int_equal(worker_pool_post(w.pool, &a.job), 0);
    assert_int_equal(worker_pool_post(w.pool, &b.job), 0);
    sem_wait(&w.began);
    worker_job_cancel(&a.job);
    worker_job_cancel(&b.job);
    sem_post(&w.go_on);
    run_until_done(&w, 2);
    assert_true(a.was_canceled && b.was_canceled);
    tear_down(&w);
}

static void lack_of_memory_is_an_error(void **state)
{
    const struct worker_pool_options o = {NULL, 1, 1};
    struct worker_pool *p;
    (void)state;

    mem_fail_after(0);
    assert_int_equal(worker_pool_create(&p, &o), ERR_NOMEM);
    mem_fail_after(-1);
    assert_null(p);
    worker_pool_destroy(&p);
    worker_pool_stop(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_job_is_done_once),
        cmocka_unit_test(too_many_are_refused),
        cmocka_unit_test(an_owner_leaves_threads_to_others),
        cmocka_unit_test(a_job_sees_that_it_was_canceled),
        cmocka_unit_test(lack_of_memory_is_an_error),
    };

    alarm(60);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
