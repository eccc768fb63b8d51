/* tests/unit/base/test_file_io.c - all of what was asked for, however little a call does. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/base/file_io.h"

#define N 200000 /* more than a pipe holds, so that one write() of it takes several */

static int temporary_file(void)
{
    char path[] = "/tmp/quire-file-io-XXXXXX";
    const int fd = mkstemp(path);

    assert_true(fd >= 0);
    assert_int_equal(unlink(path), 0);
    return fd;
}

static void *write_half_by_half(void *ud)
{
    static char bytes[N];
    const int fd = *(int *)ud;

    memset(bytes, 'a', N);
    assert_int_equal(file_write(fd, bytes, N / 2, FILE_POSITION), 0);
    assert_int_equal(file_write(fd, bytes, N / 2, FILE_POSITION), 0);
    assert_int_equal(close(fd), 0);
    return NULL;
}

static void a_pipe_is_read_to_its_end(void **state)
{
    static char bytes[N + 10];
    pthread_t writer;
    int ends[2];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(pthread_create(&writer, NULL, write_half_by_half, &ends[1]), 0);
    assert_int_equal(file_read(ends[0], bytes, sizeof(bytes), FILE_POSITION), N);
    assert_int_equal(pthread_join(writer, NULL), 0);
    for (int i = 0; i < N; i++)
        assert_int_equal(bytes[i], 'a');
    assert_int_equal(file_read(ends[0], bytes, 1, FILE_POSITION), 0);
    close(ends[0]);
}

static void places_of_a_file(void **state)
{
    char bytes[8] = {0};
    const int fd = temporary_file();

    (void)state;
    assert_int_equal(file_write(fd, "world", 5, 6), 0);
    assert_int_equal(file_write(fd, "hello ", 6, 0), 0);
    assert_int_equal(file_read(fd, bytes, 5, 6), 5);
    assert_string_equal(bytes, "world");
    assert_int_equal(file_read(fd, bytes, sizeof(bytes), 9), 2); /* the file ends */
    assert_int_equal(file_read(fd, bytes, sizeof(bytes), 100), 0);
    assert_int_equal(file_read(fd, bytes, 5, FILE_POSITION), 5); /* that has not moved */
    assert_string_equal(bytes, "hello");
    close(fd);
}

static void errors_have_their_errno(void **state)
{
    char byte = 0;

    (void)state;
    assert_int_equal(file_read(-1, &byte, 1, 0), ERR_IO);
    assert_int_equal(errno, EBADF);
    assert_int_equal(file_write(-1, &byte, 1, FILE_POSITION), ERR_IO);
    assert_int_equal(errno, EBADF);
    assert_int_equal(file_write(-1, &byte, 0, 0), 0); /* nothing to do */
}

static void a_stream_is_appended(void **state)
{
    FILE *in = fdopen(temporary_file(), "w+");
    struct buf b;

    (void)state;
    assert_non_null(in);
    for (int i = 0; i < 100000; i++)
        assert_true(fputc('a' + i % 26, in) != EOF);
    rewind(in);
    buf_init(&b, 1 << 20);
    buf_add_str(&b, "> ");
    assert_int_equal(file_read_stream(in, &b), 0);
    assert_int_equal(b.len, 100002);
    assert_memory_equal(b.data, "> abc", 5);
    buf_release(&b);
    rewind(in);
    buf_init(&b, 1000); /* a buffer that may not grow so far */
    assert_true(file_read_stream(in, &b) < 0);
    buf_release(&b);
    fclose(in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pipe_is_read_to_its_end),
        cmocka_unit_test(places_of_a_file),
        cmocka_unit_test(errors_have_their_errno),
        cmocka_unit_test(a_stream_is_appended),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
