/* Tests of core/formats/gguf/mapped_file.c and mapped_guard.c: files that shrink while they are
 * read. */
#include "core/formats/gguf/mapped_file.h"
#include "core/formats/gguf/mapped_guard.h"

#include "core/base/err.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define N_PAGES 64
#define PAGE 4096

static char path[] = "/tmp/test_mapped_file.XXXXXX";
static char err[256];

static void write_file(void)
{
    char page[PAGE];
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    memset(page, 7, sizeof(page));
    for (int i = 0; i < N_PAGES; i++)
        assert_int_equal(write(fd, page, sizeof(page)), PAGE);
    close(fd);
}

static uint64_t sum_of(const struct mapped_file *f)
{
    uint64_t sum = 0;

    for (uint64_t i = 0; i < f->bytes; i++)
        sum += f->base[i];
    return sum;
}

static void a_file_that_shrinks_reads_as_zeros(void **state)
{
    static const off_t sizes[] = {0, 1, PAGE, 10 * PAGE + 5, (N_PAGES - 1) * PAGE};
    struct mapped_file f;

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        write_file();
        assert_int_equal(mapped_file_open(&f, path, err, sizeof(err)), 0);
        assert_int_equal(sum_of(&f), (uint64_t)N_PAGES * PAGE * 7);
        assert_int_equal(mapped_file_check_read(&f, path, err, sizeof(err)), 0);
        assert_int_equal(truncate(path, sizes[i]), 0);
        assert_int_equal(sum_of(&f), (uint64_t)sizes[i] * 7);
        assert_int_equal(mapped_file_check_read(&f, path, err, sizeof(err)), ERR_IO);
        assert_non_null(strstr(err, path));
        assert_non_null(strstr(err, "truncated"));
        assert_int_equal(mapped_file_check(&f, path, err, sizeof(err)), ERR_IO);
        mapped_file_close(&f);
    }
    /* The place is used again, without what happened before. */
    write_file();
    assert_int_equal(mapped_file_open(&f, path, err, sizeof(err)), 0);
    assert_int_equal(mapped_file_check(&f, path, err, sizeof(err)), 0);
    mapped_file_close(&f);
}

static void *sum_thread(void *ud)
{
    volatile uint64_t sum = sum_of(ud);

    (void)sum;
    return NULL;
}

/* As when several threads pack, with hints about what was read. */
static void any_thread_may_meet_the_end(void **state)
{
    struct mapped_file f;
    pthread_t threads[4];

    (void)state;
    write_file();
    assert_int_equal(mapped_file_open(&f, path, err, sizeof(err)), 0);
    assert_int_equal(truncate(path, PAGE), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, sum_thread, &f), 0);
    mapped_file_has_read(&f, f.base, f.bytes);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(mapped_file_check_read(&f, path, err, sizeof(err)), ERR_IO);
    mapped_file_close(&f);
}

/* One of two is damaged; the other is not. */
static void each_file_has_its_own_answer(void **state)
{
    struct mapped_file a, b;
    char other[300];

    (void)state;
    snprintf(other, sizeof(other), "%s.b", path);
    write_file();
    assert_int_equal(rename(path, other), 0);
    write_file();
    assert_int_equal(mapped_file_open(&a, path, err, sizeof(err)), 0);
    assert_int_equal(mapped_file_open(&b, other, err, sizeof(err)), 0);
    assert_int_equal(truncate(other, 0), 0);
    assert_int_equal(sum_of(&a), (uint64_t)N_PAGES * PAGE * 7);
    assert_int_equal(sum_of(&b), 0);
    assert_int_equal(mapped_file_check_read(&a, path, err, sizeof(err)), 0);
    assert_int_equal(mapped_file_check_read(&b, other, err, sizeof(err)), ERR_IO);
    mapped_file_close(&a);
    mapped_file_close(&b);
    unlink(other);
}

/* A fault that is none of ours ends the process as it would without us. */
static void other_faults_are_not_ours(void **state)
{
    pid_t child;
    int status;

    (void)state;
    write_file();
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct mapped_file f;
        const int fd = open(path, O_RDONLY);
        const volatile char *bare = mmap(NULL, N_PAGES * PAGE, PROT_READ, MAP_PRIVATE, fd, 0);

        signal(SIGBUS, SIG_DFL);
        if (mapped_file_open(&f, path, err, sizeof(err)) != 0 || truncate(path, 0) != 0)
            _exit(1);
        _exit(bare[0] + 2);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
}

static void too_many_are_refused(void **state)
{
    static int guards[MAPPED_GUARD_MAX];
    struct mapped_file f;

    (void)state;
    write_file();
    for (int i = 0; i < MAPPED_GUARD_MAX; i++)
        guards[i] = mapped_guard_on(&guards[i], sizeof(int));
    assert_int_equal(mapped_file_open(&f, path, err, sizeof(err)), ERR_LIMIT);
    for (int i = 0; i < MAPPED_GUARD_MAX; i++) {
        assert_true(guards[i] >= 0);
        mapped_guard_off(guards[i]);
    }
    assert_int_equal(mapped_file_open(&f, path, err, sizeof(err)), 0);
    mapped_file_close(&f);
}

static int make_path(void **state)
{
    const int fd = mkstemp(path);

    (void)state;
    return fd >= 0 ? close(fd) : -1;
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_that_shrinks_reads_as_zeros),
        cmocka_unit_test(any_thread_may_meet_the_end),
        cmocka_unit_test(each_file_has_its_own_answer),
        cmocka_unit_test(other_faults_are_not_ours),
        cmocka_unit_test(too_many_are_refused),
    };

    return cmocka_run_group_tests(tests, make_path, remove_path);
}
