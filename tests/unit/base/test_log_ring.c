/* Tests of core/base/log_ring.c and of the log's thread, also under the thread sanitizer. */
#include "core/base/log.h"
#include "core/base/log_ring.h"
#include "core/base/mem.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define N_PRODUCERS 4
#define N_LINES 20000

/* ---- the ring ---- */

static void fills_and_refuses(void **state)
{
    struct log_ring *r;
    char line[LOG_LINE_MAX], text[8];

    (void)state;
    assert_int_equal(log_ring_create(&r, 4), 0);
    assert_int_equal(log_ring_take(r, line), 0);
    for (unsigned lap = 0; lap < 5; lap++) {
        for (unsigned i = 0; i < 4; i++) {
            snprintf(text, sizeof(text), "%u.%u", lap, i);
            assert_true(log_ring_put(r, text, 3));
        }
        assert_false(log_ring_put(r, "no", 2));
        for (unsigned i = 0; i < 4; i++) {
            snprintf(text, sizeof(text), "%u.%u", lap, i);
            assert_int_equal(log_ring_take(r, line), 3);
            assert_memory_equal(line, text, 3);
        }
        assert_int_equal(log_ring_take(r, line), 0);
        /* Start the next lap in the middle of the slots. */
        assert_true(log_ring_put(r, "x", 1));
        assert_int_equal(log_ring_take(r, line), 1);
    }
    memset(line, 'x', sizeof(line));
    assert_true(log_ring_put(r, line, sizeof(line)));
    assert_int_equal(log_ring_take(r, line), LOG_LINE_MAX);
    log_ring_destroy(&r);
    assert_null(r);
}

static void reports_no_memory(void **state)
{
    struct log_ring *r;

    (void)state;
    mem_fail_after(0);
    assert_true(log_ring_create(&r, 4) < 0);
    mem_fail_after(-1);
    assert_null(r);
}

struct producer {
    struct log_ring *ring;
    unsigned id;
    unsigned n_refused;
};

static void *produce(void *ud)
{
    struct producer *p = ud;
    char line[64];

    for (unsigned i = 0; i < N_LINES; i++) {
        const int n = snprintf(line, sizeof(line), "%u %u %*s", p->id, i, (int)(i % 40), "");

        while (!log_ring_put(p->ring, line, (size_t)n))
            p->n_refused++;
    }
    return NULL;
}

/* Each producer's lines come whole, all of them, in their order. */
static void many_producers_and_one_consumer(void **state)
{
    struct producer producers[N_PRODUCERS];
    pthread_t threads[N_PRODUCERS];
    unsigned next[N_PRODUCERS] = {0};
    char line[LOG_LINE_MAX];
    struct log_ring *r;

    (void)state;
    assert_int_equal(log_ring_create(&r, 64), 0);
    for (unsigned i = 0; i < N_PRODUCERS; i++) {
        producers[i] = (struct producer){r, i, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, produce, &producers[i]), 0);
    }
    for (unsigned n = 0; n < N_PRODUCERS * N_LINES;) {
        const size_t len = log_ring_take(r, line);
        unsigned id, i;
        int head;

        if (len == 0)
            continue;
        line[len] = '\0';
        assert_int_equal(sscanf(line, "%u %u%n", &id, &i, &head), 2);
        assert_true(id < N_PRODUCERS);
        assert_int_equal(i, next[id]++);
        assert_int_equal(len, (size_t)head + 1 + (i % 40));
        n++;
    }
    for (unsigned i = 0; i < N_PRODUCERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(log_ring_take(r, line), 0);
    log_ring_destroy(&r);
}

/* ---- the log with its thread ---- */

static void *write_lines(void *ud)
{
    for (int i = 0; i < 2000; i++)
        log_info("test", "thread=%d i=%d", *(int *)ud, i);
    return NULL;
}

static unsigned count_lines(FILE *f)
{
    char line[2 * LOG_LINE_MAX];
    unsigned n = 0;

    while (fgets(line, sizeof(line), f) != NULL) {
        assert_int_equal(line[strlen(line) - 1], '\n');
        n += strstr(line, " I test thread=") != NULL;
    }
    return n;
}

/* Written or counted as dropped: every line; and again after a stop. */
static void every_line_is_written_or_counted(void **state)
{
    int ids[N_PRODUCERS];

    (void)state;
    for (int run = 0; run < 2; run++) {
        const uint64_t before = log_dropped();
        FILE *f = tmpfile();
        pthread_t threads[N_PRODUCERS];

        assert_non_null(f);
        log_setup(LOG_INFO, false, fileno(f));
        assert_int_equal(log_start(), 0);
        for (int i = 0; i < N_PRODUCERS; i++) {
            ids[i] = i;
            assert_int_equal(pthread_create(&threads[i], NULL, write_lines, &ids[i]), 0);
        }
        for (int i = 0; i < N_PRODUCERS; i++)
            pthread_join(threads[i], NULL);
        assert_true(log_stop(20000));
        log_info("test", "thread=9 i=0"); /* directly again */
        rewind(f);
        assert_int_equal(count_lines(f) + (log_dropped() - before), N_PRODUCERS * 2000 + 1);
        log_setup(LOG_INFO, false, STDERR_FILENO);
        fclose(f);
    }
}

static void a_file_is_opened_again(void **state)
{
    char folder[] = "/tmp/test_log_XXXXXX", path[64], moved[64], err[200];
    FILE *f;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/log", folder);
    snprintf(moved, sizeof(moved), "%s/moved", folder);
    log_setup(LOG_INFO, false, STDERR_FILENO);
    assert_int_equal(log_open_file(path, err, sizeof(err)), 0);
    assert_int_equal(log_start(), 0);
    log_info("test", "thread=1");
    assert_int_equal(rename(path, moved), 0);
    log_reopen();
    log_info("test", "thread=2");
    assert_true(log_stop(20000));
    f = fopen(path, "r");
    assert_non_null(f);
    fclose(f);
    unlink(path);
    unlink(moved);
    rmdir(folder);
    assert_true(log_open_file("/nowhere/at/all", err, sizeof(err)) < 0);
    assert_non_null(strstr(err, "/nowhere/at/all"));
}

/* A pipe that nobody reads: the end does not wait for ever, and what comes then is dropped. Last,
 * because the log stays mute. */
static void a_stuck_reader_does_not_hold_the_end(void **state)
{
    int fds[2];

    (void)state;
    assert_int_equal(pipe(fds), 0);
    fcntl(fds[1], F_SETPIPE_SZ, 4096);
    log_setup(LOG_INFO, false, fds[1]);
    assert_int_equal(log_start(), 0);
    for (int i = 0; i < 3000; i++)
        log_info("test", "thread=1 i=%d", i);
    assert_true(log_dropped() > 100);
    assert_false(log_stop(100));
    log_info("test", "thread=1");
    assert_false(log_stop(100));
    close(fds[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fills_and_refuses),
        cmocka_unit_test(reports_no_memory),
        cmocka_unit_test(many_producers_and_one_consumer),
        cmocka_unit_test(every_line_is_written_or_counted),
        cmocka_unit_test(a_file_is_opened_again),
        cmocka_unit_test(a_stuck_reader_does_not_hold_the_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
