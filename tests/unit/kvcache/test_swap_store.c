/* tests/unit/kvcache/test_swap_store.c - the swap file: whole, or an error; and nobody else's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/err.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "kvcache/swap_store.h"
#include "tests/fixtures/failing_memory.h"

enum { BYTES = 3000, N_RAM = 6, N_FILE = 200, HEADER = 4096 };

static char folder[64], path[96], err[256];

static int in_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/quire-swap-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof(path), "%s/swap", folder);
    err[0] = '\0';
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static int open_at(struct swap_store **s, const char *at)
{
    const struct swap_store_options o = {BYTES, N_RAM, N_FILE, at};
    const int rc = swap_store_open(s, &o, err, sizeof(err));

    assert_int_equal(*s != NULL, rc == 0);
    return rc;
}

static struct swap_store *open_here(void)
{
    struct swap_store *s;

    if (open_at(&s, path) < 0)
        fail_msg("%s", err);
    return s;
}

/* Every block's bytes are different ones. */
static const void *block(uint32_t seed)
{
    static uint8_t bytes[BYTES];

    for (size_t i = 0; i < BYTES; i++)
        bytes[i] = (uint8_t)(seed * 31 + i * 7 + (i >> 8) * seed);
    return bytes;
}

static bool holds(const struct swap_store *s, uint32_t ram, uint32_t seed)
{
    uint8_t got[BYTES];

    swap_store_load(s, ram, got);
    return memcmp(got, block(seed), BYTES) == 0;
}

static void put_file(const char *at, const void *bytes, size_t n)
{
    FILE *f = fopen(at, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

static off_t size_of(const char *at)
{
    struct stat st;

    return stat(at, &st) == 0 ? st.st_size : -1;
}

/* S2.29: through RAM. */
static void ram_gives_back_what_was_saved(void **state)
{
    const struct swap_store_options o = {BYTES, N_RAM, 0, NULL};
    struct swap_store *s;
    (void)state;

    assert_int_equal(swap_store_open(&s, &o, err, sizeof(err)), 0);
    for (uint32_t i = 0; i < N_RAM; i++)
        swap_store_save(s, i, block(i));
    for (uint32_t i = 0; i < N_RAM; i++)
        assert_true(holds(s, i, i));
    swap_store_close(&s);
    assert_null(s);
    assert_int_equal(size_of(path), -1); /* no file was asked for */
    swap_store_close(&s);
    swap_store_close(NULL);
}

/* T4: through the file, neighbours and not, in one call and into other slots. */
static void file_gives_back_what_was_written(void **state)
{
    static const uint32_t file[] = {7, 8, 9, 3, 2, 199}, ram[] = {0, 1, 2, 3, 4, 5};
    static const uint32_t file2[] = {2, 199, 9}, ram2[] = {5, 0, 3};
    struct swap_store *s = open_here();
    (void)state;

    for (uint32_t i = 0; i < 6; i++)
        swap_store_save(s, i, block(100 + i));
    assert_int_equal(swap_store_write(s, 6, ram, file), 0);
    for (uint32_t i = 0; i < 6; i++)
        swap_store_save(s, i, block(0));
    assert_int_equal(swap_store_read(s, 3, ram2, file2), 0);
    assert_true(holds(s, 5, 104));
    assert_true(holds(s, 0, 105));
    assert_true(holds(s, 3, 102));
    assert_true(holds(s, 1, 0));
    assert_int_equal(swap_store_read(s, 0, NULL, NULL), 0);
    swap_store_close(&s);
    assert_int_equal(size_of(path), -1); /* removed */
}

/* More neighbours than one transfer takes; the RAM slots may repeat in a test. */
static void long_runs_are_cut(void **state)
{
    struct swap_store *s = open_here();
    uint32_t ram[N_FILE], file[N_FILE];
    (void)state;

    for (uint32_t i = 0; i < N_FILE; i++) {
        file[i] = i;
        ram[i] = i % N_RAM;
    }
    for (uint32_t i = 0; i < N_RAM; i++)
        swap_store_save(s, i, block(i));
    assert_int_equal(swap_store_write(s, N_FILE, ram, file), 0);
    assert_int_equal(size_of(path), HEADER + N_FILE * BYTES);
    for (uint32_t i = 0; i < N_FILE; i++) {
        const uint32_t to = 1;

        assert_int_equal(swap_store_read(s, 1, &to, &file[i]), 0);
        assert_true(holds(s, 1, ram[i]));
    }
    swap_store_close(&s);
}

/* Never wrong bytes: one bit of the file has changed, or its end is gone. */
static void damage_is_an_error(void **state)
{
    static const uint32_t ram[] = {0, 1, 2}, file[] = {0, 1, 2};
    struct swap_store *s = open_here();
    const int fd = open(path, O_RDWR);
    uint8_t byte;
    (void)state;

    log_setup(LOG_OFF, false, STDERR_FILENO);
    for (uint32_t i = 0; i < 3; i++)
        swap_store_save(s, i, block(i));
    assert_int_equal(swap_store_write(s, 3, ram, file), 0);
    assert_int_equal(pread(fd, &byte, 1, HEADER + BYTES + 77), 1);
    byte ^= 4;
    assert_int_equal(pwrite(fd, &byte, 1, HEADER + BYTES + 77), 1);
    assert_int_equal(swap_store_read(s, 1, ram, file), 0);
    assert_int_equal(swap_store_read(s, 1, ram, file + 1), ERR_IO);
    assert_int_equal(swap_store_read(s, 3, ram, file), ERR_IO);
    assert_int_equal(swap_store_read(s, 1, ram, file + 2), 0);
    assert_int_equal(ftruncate(fd, HEADER + 2 * BYTES + 10), 0);
    assert_int_equal(swap_store_read(s, 1, ram, file + 2), ERR_IO);
    assert_int_equal(swap_store_write(s, 1, ram + 1, file + 1), 0); /* repairs it */
    assert_int_equal(swap_store_read(s, 1, ram, file + 1), 0);
    log_setup(LOG_INFO, false, STDERR_FILENO);
    close(fd);
    swap_store_close(&s);
}

/* Many failures, one line. */
static void errors_are_logged_once(void **state)
{
    static const uint32_t ram = 0, file = 5;
    struct swap_store *s = open_here();
    char line[4096];
    int fds[2];
    ssize_t n;
    (void)state;

    assert_int_equal(pipe(fds), 0);
    log_setup(LOG_INFO, false, fds[1]);
    for (int i = 0; i < 5; i++)
        assert_int_equal(swap_store_read(s, 1, &ram, &file), ERR_IO); /* behind the end */
    log_setup(LOG_INFO, false, STDERR_FILENO);
    close(fds[1]);
    n = read(fds[0], line, sizeof(line) - 1);
    assert_true(n > 0);
    line[n] = '\0';
    assert_non_null(strstr(line, path));
    assert_non_null(strstr(line, "read=failed"));
    assert_ptr_equal(strchr(line, '\n'), line + n - 1);
    close(fds[0]);
    swap_store_close(&s);
}

/* ---- children ---- */

/* Wait for a child's sign, or for its end. */
static bool wait_for_sign(int fd)
{
    char c;

    return read(fd, &c, 1) == 1;
}

static void send_sign(int fd)
{
    if (write(fd, "x", 1) != 1)
        _exit(9);
}

/* Write for ever, with a sign after the first block. */
static void write_until_killed(int sign)
{
    const struct swap_store_options o = {BYTES, N_RAM, N_FILE, path};
    const uint32_t ram[] = {0, 1, 2, 3};
    struct swap_store *s;

    if (swap_store_open(&s, &o, err, sizeof(err)) < 0)
        _exit(1);
    for (uint32_t i = 0;; i++) {
        const uint32_t file[] = {i % 50, 60 + i % 40, 61 + i % 40, 110 + i % 80};

        swap_store_save(s, i % 4, block(i));
        if (swap_store_write(s, 4, ram, file) < 0)
            _exit(2);
        if (i == 0)
            send_sign(sign);
    }
}

/* A killed process leaves a file behind that the next one takes over; more than once. */
static void stale_files_are_replaced(void **state)
{
    static const uint32_t ram = 0, file = 3;
    struct swap_store *s;
    (void)state;

    for (int round = 0; round < 3; round++) {
        int fds[2], status;
        pid_t child;

        assert_int_equal(pipe(fds), 0);
        child = fork();
        assert_true(child >= 0);
        if (child == 0)
            write_until_killed(fds[1]);
        close(fds[1]);
        assert_true(wait_for_sign(fds[0]));
        usleep(3000);
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        assert_true(size_of(path) > HEADER);
        close(fds[0]);
    }
    s = open_here();
    assert_int_equal(size_of(path), HEADER); /* nothing of the old bytes is left */
    swap_store_save(s, 0, block(1));
    assert_int_equal(swap_store_write(s, 1, &ram, &file), 0);
    swap_store_save(s, 0, block(2));
    assert_int_equal(swap_store_read(s, 1, &ram, &file), 0);
    assert_true(holds(s, 0, 1));
    swap_store_close(&s);
}

/* Hold the file until told to let go. */
static void hold_file(int sign, int wait)
{
    struct swap_store *s;
    const struct swap_store_options o = {BYTES, N_RAM, N_FILE, path};

    if (swap_store_open(&s, &o, err, sizeof(err)) < 0)
        _exit(1);
    send_sign(sign);
    (void)wait_for_sign(wait);
    swap_store_close(&s);
    _exit(0);
}

/* A file that another process uses is left to it. */
static void locked_files_are_refused(void **state)
{
    int sign[2], wait[2], status;
    struct swap_store *s;
    pid_t child;
    (void)state;

    assert_int_equal(pipe(sign), 0);
    assert_int_equal(pipe(wait), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(wait[1]); /* the end of this process is a sign too */
        hold_file(sign[1], wait[0]);
    }
    assert_true(wait_for_sign(sign[0]));
    assert_int_equal(open_at(&s, path), ERR_BUSY);
    assert_non_null(strstr(err, path));
    assert_non_null(strstr(err, "already used by another process"));
    assert_int_equal(size_of(path), HEADER);
    send_sign(wait[1]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    s = open_here();
    swap_store_close(&s);
    for (int i = 0; i < 2; i++) {
        close(sign[i]);
        close(wait[i]);
    }
}

/* Open and close again and again; while it is open, the file must be there under its name. */
static int come_and_go(void)
{
    uint32_t n_mine = 0;

    for (int i = 0; i < 1500; i++) {
        struct swap_store *s;
        const int rc = open_at(&s, path);

        if (rc != 0 && rc != ERR_BUSY)
            return __LINE__;
        if (rc == 0 && size_of(path) != HEADER)
            return __LINE__;
        n_mine += rc == 0;
        swap_store_close(&s);
    }
    return n_mine > 0 ? 0 : __LINE__;
}

/* Processes that want the same path never both have it, though the owner removes the file while
 * others may have opened it already. */
static void owners_are_alone(void **state)
{
    pid_t children[3];
    int status;
    (void)state;

    for (int i = 0; i < 3; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0)
            _exit(come_and_go() != 0);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    assert_int_equal(size_of(path), -1);
}

/* The disk is full in the middle of the second block: an error, and what was written before is
 * whole; when there is room again, writing works. Returns 0 or the line that failed. */
static int fill_the_disk(void)
{
    const struct rlimit small = {HEADER + BYTES + BYTES / 2, RLIM_INFINITY};
    const struct rlimit large = {RLIM_INFINITY, RLIM_INFINITY};
    const uint32_t ram[] = {0, 1}, file[] = {0, 1};
    struct swap_store *s = open_here();

    signal(SIGXFSZ, SIG_IGN);
    log_setup(LOG_OFF, false, STDERR_FILENO);
    swap_store_save(s, 0, block(1));
    swap_store_save(s, 1, block(2));
    if (setrlimit(RLIMIT_FSIZE, &small) < 0 || swap_store_write(s, 1, ram, file) != 0)
        return __LINE__;
    if (swap_store_write(s, 2, ram, file) != ERR_IO ||
        swap_store_write(s, 1, ram + 1, file + 1) != ERR_IO)
        return __LINE__;
    if (!holds(s, 0, 1) || !holds(s, 1, 2)) /* the RAM copies are still good */
        return __LINE__;
    swap_store_save(s, 0, block(3));
    if (swap_store_read(s, 1, ram, file) != 0 || !holds(s, 0, 1))
        return __LINE__;
    if (setrlimit(RLIMIT_FSIZE, &large) < 0 || swap_store_write(s, 2, ram, file) != 0)
        return __LINE__;
    swap_store_save(s, 1, block(3));
    if (swap_store_read(s, 1, ram + 1, file + 1) != 0 || !holds(s, 1, 2))
        return __LINE__;
    swap_store_close(&s);
    return 0;
}

/* The same without room for the header: refused, and no file stays behind. */
static int open_on_a_full_disk(void)
{
    const struct rlimit small = {100, RLIM_INFINITY};
    struct swap_store *s;

    signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &small) < 0)
        return __LINE__;
    if (open_at(&s, path) != ERR_IO || strstr(err, path) == NULL)
        return __LINE__;
    return size_of(path) == -1 ? 0 : __LINE__;
}

static void run_apart(int (*what)(void))
{
    const pid_t child = fork();
    int status;

    assert_true(child >= 0);
    if (child == 0) {
        const int line = what();

        if (line != 0)
            fprintf(stderr, "line %d failed\n", line);
        _exit(line != 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void full_disks_are_an_error(void **state)
{
    (void)state;
    run_apart(fill_the_disk);
    run_apart(open_on_a_full_disk);
}

/* ---- whose file ---- */

/* Somebody else's file is refused with a sentence and stays as it was. */
static void foreign_files_are_left_alone(void **state)
{
    static const char *const texts[] = {"x", "my only thesis, 300 pages", "QUIRESWx and so on"};
    (void)state;

    for (size_t i = 0; i < 3; i++) {
        char got[64] = {0};
        struct swap_store *s;
        struct stat before, after;
        int fd;

        put_file(path, texts[i], strlen(texts[i]));
        assert_int_equal(stat(path, &before), 0);
        assert_int_equal(open_at(&s, path), ERR_FORMAT);
        assert_non_null(strstr(err, path));
        assert_non_null(strstr(err, "not a swap file"));
        assert_int_equal(stat(path, &after), 0);
        assert_int_equal(after.st_ino, before.st_ino);
        assert_int_equal(after.st_mtim.tv_nsec, before.st_mtim.tv_nsec);
        fd = open(path, O_RDONLY);
        assert_int_equal(read(fd, got, sizeof(got) - 1), (ssize_t)strlen(texts[i]));
        assert_string_equal(got, texts[i]);
        close(fd);
    }
}

/* No file at all: a folder, a pipe, a device, nowhere. */
static void only_regular_files_will_do(void **state)
{
    char nowhere[128];
    struct swap_store *s;
    (void)state;

    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(open_at(&s, path), ERR_FORMAT);
    assert_non_null(strstr(err, "regular"));
    assert_int_equal(open_at(&s, "/dev/full"), ERR_FORMAT);
    assert_int_equal(open_at(&s, folder), ERR_IO);
    assert_non_null(strstr(err, folder));
    snprintf(nowhere, sizeof(nowhere), "%s/not/there", folder);
    assert_int_equal(open_at(&s, nowhere), ERR_IO);
    assert_non_null(strstr(err, nowhere));
}

/* An empty file holds nothing that could be lost; one of another version is ours. */
static void own_and_empty_files_are_taken(void **state)
{
    struct swap_store *s;
    (void)state;

    put_file(path, "", 0);
    s = open_here();
    assert_int_equal(size_of(path), HEADER);
    swap_store_close(&s);
    put_file(path, "QUIRESWP\x63 a later version", 26);
    s = open_here();
    assert_int_equal(size_of(path), HEADER);
    swap_store_close(&s);
    assert_int_equal(size_of(path), -1);
}

/* Nothing stays behind, whichever allocation fails. */
static void opening_survives_lack_of_memory(void **state)
{
    struct swap_store *s;
    int64_t n = 0;
    (void)state;

    while (each_failure(&n)) {
        const int rc = open_at(&s, path);

        assert_int_equal(rc, mem_has_failed() ? ERR_NOMEM : 0);
        swap_store_close(&s);
        assert_int_equal(size_of(path), -1);
    }
    assert_true(n > 4);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, in_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(ram_gives_back_what_was_saved),
        IN_FOLDER(file_gives_back_what_was_written),
        IN_FOLDER(long_runs_are_cut),
        IN_FOLDER(damage_is_an_error),
        IN_FOLDER(errors_are_logged_once),
        IN_FOLDER(stale_files_are_replaced),
        IN_FOLDER(locked_files_are_refused),
        IN_FOLDER(owners_are_alone),
        IN_FOLDER(full_disks_are_an_error),
        IN_FOLDER(foreign_files_are_left_alone),
        IN_FOLDER(only_regular_files_will_do),
        IN_FOLDER(own_and_empty_files_are_taken),
        IN_FOLDER(opening_survives_lack_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
