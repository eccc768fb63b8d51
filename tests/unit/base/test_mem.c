/* tests/unit/base/test_mem.c - core/base/mem.h: allocation, its failures, and the guard. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "tests/fixtures/emulated.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) ||                               \
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HAS_SANITIZER 1
#else
#define HAS_SANITIZER 0
#endif

static void mem_map_is_aligned_and_zeroed(void **state)
{
    static const size_t sizes[] = {1, 4096, ((size_t)2 << 20) - 1, (size_t)2 << 20,
                                   ((size_t)2 << 20) + 1, (size_t)5 << 20};
    (void)state;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        unsigned char *p = mem_map(sizes[i]);

        assert_non_null(p);
        assert_int_equal((uintptr_t)p % ((size_t)2 << 20), 0);
        assert_int_equal(p[0] | p[sizes[i] / 2] | p[sizes[i] - 1], 0);
        p[0] = p[sizes[i] - 1] = 1;
        mem_unmap(p, sizes[i]);
    }
    mem_unmap(NULL, 12345);
    assert_null(mem_map(0));
    assert_null(mem_map(SIZE_MAX));
    /* All of it is given back: this would need a thousand times what fits. */
    if (is_emulated())
        puts("note: 100 mappings instead of 100,000, for the emulator notes each of their pages");
    for (int i = 0; i < (is_emulated() ? 100 : 100000); i++) {
        void *p = mem_map((size_t)1 << 30);

        assert_non_null(p);
        mem_unmap(p, (size_t)1 << 30);
    }
}

static void mem_allocates_what_is_asked(void **state)
{
    float *table = mem_aligned(1000, sizeof(*table));
    char *text = mem_strdup("abc"), *bytes = mem_dup("a\0b", 3);
    void *p;

    (void)state;
    assert_non_null(table);
    assert_int_equal((uintptr_t)table % 64, 0);
    for (int i = 0; i < 1000; i++)
        assert_true(table[i] == 0);
    mem_free(table);
    for (int i = 0; i < 4; i++) { /* large ones are zeroed by the page, reused memory too */
        const size_t n = ((size_t)3 << 20) + 4097;
        unsigned char *big = mem_aligned(n, 1), sum = 0;

        for (size_t j = 0; j < n; j++)
            sum |= big[j];
        assert_int_equal(sum, 0);
        memset(big, 0xff, n);
        mem_free(big);
    }
    assert_string_equal(text, "abc");
    assert_memory_equal(bytes, "a\0b", 3);
    mem_free(text);
    mem_free(bytes);
    assert_null(mem_aligned(SIZE_MAX / 2, 3));
    mem_free(NULL);
    p = mem_alloc(0); /* no bytes, yet not NULL: NULL would mean failure */
    assert_non_null(p);
    p = mem_realloc(p, 0);
    assert_non_null(p);
    mem_free(p);
    p = mem_calloc(0, 8);
    assert_non_null(p);
    mem_free(p);
    p = mem_aligned(0, 8);
    assert_non_null(p);
    mem_free(p);
}

static void mem_fails_when_told(void **state)
{
    void *p[3], *mapped;

    (void)state;
    mem_fail_after(2);
    p[0] = mem_alloc(1);
    p[1] = mem_calloc(1, 1);
    assert_non_null(p[0]);
    assert_non_null(p[1]);
    assert_false(mem_has_failed());
    p[2] = mem_strdup("x");
    assert_null(p[2]);
    assert_true(mem_has_failed());
    /* ... and every one after it, by every function; realloc leaves the block. */
    assert_null(mem_realloc(p[0], 100));
    assert_null(mem_aligned(1, 1));
    assert_null(mem_map(1));
    assert_null(mem_dup("x", 1));
    mem_fail_after(-1);
    assert_false(mem_has_failed());
    mapped = mem_map(1);
    assert_non_null(mapped);
    mem_unmap(mapped, 1);
    mem_free(p[0]);
    mem_free(p[1]);
}

/* Run `allocate` inside a guard, in a child; its status and what it said. */
static int run_guarded(void (*allocate)(void), char *said, size_t size)
{
    const struct rlimit no_core = {0, 0};
    int fds[2], status;
    ssize_t n;
    pid_t pid;

    assert_int_equal(pipe(fds), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        setrlimit(RLIMIT_CORE, &no_core);
        signal(SIGABRT, SIG_DFL); /* cmocka's handler would catch it */
        dup2(fds[1], STDERR_FILENO);
        mem_guard_begin("a test of the guard");
        allocate();
        mem_guard_end();
        free(malloc(10)); /* allowed again */
        _exit(0);
    }
    close(fds[1]);
    n = read(fds[0], said, size - 1);
    said[n > 0 ? n : 0] = '\0';
    close(fds[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void *volatile sink; /* so that no allocation is optimised away */

static void by_alloc(void)
{
    sink = mem_alloc(10);
}
static void by_library(void)
{
    sink = strdup("a text that strdup allocates for");
}
static void by_calloc(void)
{
    sink = calloc(3, 3);
}
static void by_realloc(void)
{
    sink = mem_realloc(NULL, 100);
}
static void by_aligned(void)
{
    sink = mem_aligned(10, 10);
}
static void by_nothing(void)
{
    char text[64];

    snprintf(text, sizeof(text), "%d %s", 5, "five");
    log_debug("m", "a=%s", text);
}

static void mem_guard_aborts(void **state)
{
    void (*const ways[])(void) = {by_alloc, by_library, by_calloc, by_realloc, by_aligned};
    char said[400];

    (void)state;
#ifndef QUIRE_DEBUG
    print_message("skip: the allocation guard is in the debug build only\n");
    skip();
#endif
    if (HAS_SANITIZER) {
        print_message("skip: no allocation guard under a sanitizer\n");
        skip();
    }
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        const int status = run_guarded(ways[i], said, sizeof(said));

        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT)
            fail_msg("way %zu: status %#x", i, (unsigned)status);
        assert_non_null(strstr(said, "'a test of the guard'"));
    }
    assert_int_equal(run_guarded(by_nothing, said, sizeof(said)), 0);
    assert_string_equal(said, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mem_map_is_aligned_and_zeroed),
        cmocka_unit_test(mem_allocates_what_is_asked),
        cmocka_unit_test(mem_fails_when_told),
        cmocka_unit_test(mem_guard_aborts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
