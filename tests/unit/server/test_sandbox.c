/* tests/unit/server/test_sandbox.c - which threads keep a strict sandbox from being entered. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

#include "server/process/sandbox.h"

static void *end_at_once(void *arg)
{
    return arg;
}

static void *wait_for_post(void *arg)
{
    sem_wait(arg);
    return NULL;
}

/* The kernel wakes pthread_join() before it removes the thread from /proc/self/task. */
static void ended_threads_do_not_count(void **state)
{
    (void)state;
    for (int i = 0; i < 5000; i++) {
        pthread_t threads[4];

        for (int k = 0; k < 4; k++)
            assert_int_equal(pthread_create(&threads[k], NULL, end_at_once, NULL), 0);
        for (int k = 0; k < 4; k++)
            assert_int_equal(pthread_join(threads[k], NULL), 0);
        assert_true(sandbox_has_one_thread());
    }
}

static void a_live_thread_counts(void **state)
{
    pthread_t thread;
    sem_t end;

    (void)state;
    assert_int_equal(sem_init(&end, 0, 0), 0);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_post, &end), 0);
    assert_false(sandbox_has_one_thread());
    sem_post(&end);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(sandbox_has_one_thread());
    sem_destroy(&end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ended_threads_do_not_count),
        cmocka_unit_test(a_live_thread_counts),
    };

    alarm(120);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
