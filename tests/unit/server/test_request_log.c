/* tests/unit/server/test_request_log.c - the log of requests: what is written is read, whatever has
 * become of the rest of the file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/err.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "server/storage/request_log.h"
#include "tests/fixtures/random.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define N 40 /* requests of a file that is damaged */
#define N_ANSWER 30

static char folder[64], path[96], err[400];
static struct saved_requests saved;
static uint64_t n_lost;

static int set_up(void **state)
{
    (void)state;
    log_setup(LOG_OFF, false, STDERR_FILENO);
    snprintf(folder, sizeof(folder), "/tmp/quire-requests-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof(path), "%s/db", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    saved_requests_release(&saved);
    unlink(path);
    return rmdir(folder); /* nothing else was left there */
}

/* ---- what requests have: all of it follows from the number ---- */

static void id_of(uint64_t number, char id[REQUEST_RECORD_ID])
{
    snprintf(id, REQUEST_RECORD_ID, "cmpl-%016llx", (unsigned long long)number);
}

static int32_t token_of(uint64_t number, uint32_t i)
{
    return (int32_t)((number * 7919 + i * 31) % 200000);
}

static struct request_begin begin_of(uint64_t number, char body[64])
{
    const int n = snprintf(body, 64, "{\"prompt\":\"number %llu\"}", (unsigned long long)number);

    return (struct request_begin){.seed = number * 3,
                                  .created = 1700000000 + (int64_t)number,
                                  .now = 1800000000 + (int64_t)number,
                                  .priority = number % 3,
                                  .n_past = number % 4,
                                  .tells_tokens = number % 2 == 1,
                                  .tenant = {"acme", 4},
                                  .key = {"key", number % 2 == 1 ? 3 : 0},
                                  .path = {"/v1/completions", 15},
                                  .conversation = {"talk", number % 5 == 0 ? 4 : 0},
                                  .body = {body, (uint32_t)n}};
}

static void add_begin(struct buf *out, uint64_t number)
{
    char id[REQUEST_RECORD_ID], body[64];
    const struct request_begin b = begin_of(number, body);

    id_of(number, id);
    request_record_begin(out, number, id, &b);
}

static void add_tokens(struct buf *out, uint64_t number, uint32_t from, uint32_t n)
{
    char id[REQUEST_RECORD_ID];
    int32_t ids[N_ANSWER];

    id_of(number, id);
    for (uint32_t i = 0; i < n; i++)
        ids[i] = token_of(number, from + i);
    request_record_tokens(out, number, id, from, ids, n);
}

static void add_end(struct buf *out, uint64_t number, uint32_t n_tokens)
{
    char id[REQUEST_RECORD_ID];

    id_of(number, id);
    request_record_end(out, number, id, 1, n_tokens);
}

static void add_gone(struct buf *out, uint64_t number)
{
    char id[REQUEST_RECORD_ID];

    id_of(number, id);
    request_record_gone(out, number, id);
}

static void assert_text(struct request_text t, struct request_text want)
{
    assert_int_equal(t.n, want.n);
    assert_memory_equal(t.text, want.text, want.n);
}

/* What is there of it is its own. */
static void check(const struct saved_request *r)
{
    char id[REQUEST_RECORD_ID], body[64];
    const struct request_begin want = begin_of(r->number, body);

    id_of(r->number, id);
    assert_string_equal(r->id, id);
    assert_true(r->has_begin);
    assert_int_equal(r->begin.seed, want.seed);
    assert_int_equal(r->begin.created, want.created);
    assert_int_equal(r->begin.now, want.now);
    assert_int_equal(r->begin.priority, want.priority);
    assert_int_equal(r->begin.n_past, want.n_past);
    assert_int_equal(r->begin.tells_tokens, want.tells_tokens);
    assert_text(r->begin.tenant, want.tenant);
    assert_text(r->begin.key, want.key);
    assert_text(r->begin.path, want.path);
    assert_text(r->begin.conversation, want.conversation);
    assert_text(r->begin.body, want.body);
    for (uint32_t i = 0; i < r->n_tokens; i++)
        assert_int_equal(r->tokens[i], token_of(r->number, want.n_past + i));
    assert_true(!r->has_end || r->n_answer == want.n_past + r->n_tokens);
}

/* ---- files ---- */

static struct request_log *open_log(void)
{
    struct request_log *l;

    saved_requests_release(&saved);
    if (request_log_open(&l, path, &saved, &n_lost, err, sizeof(err)) < 0)
        fail_msg("%s", err);
    return l;
}

static void reopen(struct request_log **l)
{
    request_log_close(l);
    *l = open_log();
}

static void append(struct request_log *l, const struct buf *records)
{
    assert_int_equal(records->err, 0);
    assert_int_equal(request_log_append(l, records->data, records->len), 0);
}

static void set_bytes(const char *bytes, size_t n)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_int_equal(write(fd, bytes, n), n);
    close(fd);
}

static size_t get_bytes(char *bytes, size_t n)
{
    const int fd = open(path, O_RDONLY);
    const ssize_t got = read(fd, bytes, n);

    assert_true(got > 0);
    close(fd);
    return (size_t)got;
}

/* ---- tests ---- */

static void test_round_trip(void **state)
{
    struct request_log *l = open_log();
    struct stat st;
    struct buf records;

    (void)state;
    assert_int_equal(saved.n, 0);
    buf_init(&records, 1 << 20);
    for (uint64_t number = 1; number <= 4; number++)
        add_begin(&records, number);
    add_tokens(&records, 1, 1, 10);
    add_tokens(&records, 2, 2, 3);
    add_tokens(&records, 1, 11, 4);
    add_end(&records, 1, 15);
    add_gone(&records, 3);
    append(l, &records);
    assert_int_equal(request_log_sync(l), 0);
    for (int i = 0; i < 3; i++) { /* the second time from the file that the first has written */
        reopen(&l);
        assert_int_equal(saved.n, 3);
        assert_int_equal(n_lost, 0);
        assert_int_equal(saved.n_damaged, 0);
        for (size_t k = 0; k < saved.n; k++)
            check(&saved.all[k]);
        assert_int_equal(saved.all[0].n_tokens, 14);
        assert_true(saved.all[0].has_end);
        assert_int_equal(saved.all[0].finish, 1);
        assert_int_equal(saved.all[1].n_tokens, 3);
        assert_false(saved.all[1].has_end);
        assert_int_equal(saved.all[2].number, 4);
    }
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal((uint64_t)st.st_size, request_log_bytes(l));
    request_log_close(&l);
    buf_release(&records);
}

/* What comes twice, or behind a gap, changes nothing; an end of other tokens says nothing. */
static void test_gaps(void **state)
{
    struct request_log *l = open_log();
    struct buf records;

    (void)state;
    buf_init(&records, 1 << 20);
    add_begin(&records, 4); /* n_past 0 */
    add_tokens(&records, 4, 0, 5);
    add_tokens(&records, 4, 3, 5);
    add_tokens(&records, 4, 9, 5);
    add_begin(&records, 4);
    add_end(&records, 4, 14);
    append(l, &records);
    reopen(&l);
    assert_int_equal(saved.n, 1);
    check(&saved.all[0]);
    assert_int_equal(saved.all[0].n_tokens, 8);
    assert_false(saved.all[0].has_end);
    request_log_close(&l);
    buf_release(&records);
}

static void test_one_process(void **state)
{
    struct request_log *l = open_log(), *other = NULL;
    struct saved_requests none;
    uint64_t n;

    (void)state;
    assert_int_equal(request_log_open(&other, path, &none, &n, err, sizeof(err)), ERR_BUSY);
    assert_int_equal(request_log_compact(l), 0); /* another file, the same lock */
    assert_int_equal(request_log_open(&other, path, &none, &n, err, sizeof(err)), ERR_BUSY);
    assert_null(other);
    request_log_close(&l);
    l = open_log();
    request_log_close(&l);
}

static void test_foreign_files(void **state)
{
    static const char text[] = "Dear diary, this is no log of requests, and must stay as it is.";
    struct request_log *l;
    char bytes[200];

    (void)state;
    set_bytes(text, sizeof(text));
    assert_int_equal(request_log_open(&l, path, &saved, &n_lost, err, sizeof(err)), ERR_FORMAT);
    assert_non_null(strstr(err, "is not a file of requests_db"));
    assert_int_equal(get_bytes(bytes, sizeof(bytes)), sizeof(text));
    assert_memory_equal(bytes, text, sizeof(text));
    unlink(path);
    assert_int_equal(request_log_open(&l, folder, &saved, &n_lost, err, sizeof(err)), ERR_IO);
    assert_int_equal(request_log_open(&l, "/nowhere/db", &saved, &n_lost, err, sizeof(err)),
                     ERR_IO);
    set_bytes("", 0);
}

static void test_compaction(void **state)
{
    struct request_log *l = open_log();
    const uint64_t empty = request_log_bytes(l);
    struct buf records;
    uint64_t full;

    (void)state;
    buf_init(&records, 1 << 20);
    for (uint64_t number = 1; number <= 100; number++)
        add_begin(&records, number);
    for (uint32_t i = 0; i < 20; i++)
        add_tokens(&records, 7, 3 + i, 1);
    for (uint64_t number = 1; number <= 100; number++)
        if (number != 7)
            add_gone(&records, number);
    append(l, &records);
    full = request_log_bytes(l);
    assert_int_equal(request_log_compact(l), 0);
    assert_true(request_log_bytes(l) < full / 20);
    buf_clear(&records);
    add_tokens(&records, 7, 23, 2); /* behind what is in the new file */
    append(l, &records);
    reopen(&l);
    assert_int_equal(saved.n, 1);
    check(&saved.all[0]);
    assert_int_equal(saved.all[0].n_tokens, 22);
    buf_clear(&records);
    add_gone(&records, 7);
    append(l, &records);
    assert_int_equal(request_log_compact(l), 0);
    assert_int_equal(request_log_bytes(l), empty);
    request_log_close(&l);
    buf_release(&records);
}

/* N requests with their answers; where each record begins is in starts[0..n], the last one the
 * end. */
static size_t fill(struct buf *records, size_t *starts, uint64_t *numbers)
{
    size_t n = 0;

    for (uint64_t number = 1; number <= N; number++) {
        const uint32_t n_past = number % 4;

        for (int part = 0; part < 4; part++) {
            starts[n] = records->len;
            numbers[n++] = number;
            if (part == 0)
                add_begin(records, number);
            else if (part == 1)
                add_tokens(records, number, n_past, 10);
            else if (part == 2)
                add_tokens(records, number, n_past + 10, 10);
            else
                add_end(records, number, n_past + 20);
        }
    }
    starts[n] = records->len;
    return n;
}

/* The same in a log, and its bytes in file[n], behind `title` others. How many bytes there are. */
static size_t write_file(struct buf *records, size_t *starts, uint64_t *numbers, char *file,
                         size_t n, size_t *title)
{
    struct request_log *l = open_log();
    size_t n_bytes;

    *title = (size_t)request_log_bytes(l);
    buf_init(records, n - *title);
    assert_int_equal(fill(records, starts, numbers), 4 * N);
    append(l, records);
    request_log_close(&l);
    n_bytes = get_bytes(file, n);
    assert_int_equal(n_bytes, *title + records->len);
    return n_bytes;
}

static const struct saved_request *find(uint64_t number)
{
    for (size_t i = 0; i < saved.n; i++)
        if (saved.all[i].number == number)
            return &saved.all[i];
    return NULL;
}

/* Is record i of the file as it was? */
static bool is_intact(const struct buf *before, const char *bytes, size_t title, const size_t *s,
                      size_t i)
{
    return memcmp(before->data + s[i], bytes + title + s[i], s[i + 1] - s[i]) == 0;
}

/* All whose records are intact come back; whose beginning is not, is lost, and has been counted. */
static void check_damaged(const struct buf *before, const char *bytes, size_t title,
                          const size_t *starts)
{
    uint64_t n_want_lost = 0;

    for (uint64_t number = 1; number <= N; number++) {
        const size_t i = (number - 1) * 4;
        const struct saved_request *r = find(number);
        bool is_whole[4];

        for (size_t part = 0; part < 4; part++)
            is_whole[part] = is_intact(before, bytes, title, starts, i + part);
        if (!is_whole[0]) {
            assert_null(r);
            n_want_lost++;
            continue;
        }
        assert_non_null(r);
        check(r);
        assert_int_equal(r->n_tokens, !is_whole[1] ? 0 : !is_whole[2] ? 10 : 20);
        assert_int_equal(r->has_end, is_whole[1] && is_whole[2] && is_whole[3]);
    }
    /* One of which no head is left is not known; its bytes are told instead. */
    assert_true(n_lost <= n_want_lost);
    assert_true(n_want_lost == n_lost || saved.n_damaged > 0);
}

static void test_damage(void **state)
{
    static char file[64 << 10], bytes[64 << 10];
    size_t starts[4 * N + 1], n, title;
    uint64_t numbers[4 * N];
    struct request_log *l;
    struct buf records;
    uint64_t rng = 20;

    (void)state;
    n = write_file(&records, starts, numbers, file, sizeof(file), &title);
    for (int round = 0; round < 300; round++) {
        const uint32_t n_places = 1 + random_below(&rng, 8);

        memcpy(bytes, file, n);
        for (uint32_t k = 0; k < n_places; k++) {
            const size_t at = random_below(&rng, (uint32_t)n),
                         len = 1 + random_below(&rng, round % 3 == 0 ? 400 : 4);

            for (size_t j = at; j < at + len && j < n; j++)
                bytes[j] = (char)random_below(&rng, 256);
        }
        set_bytes(bytes, n);
        l = open_log();
        check_damaged(&records, bytes, title, starts);
        request_log_close(&l);
    }
    buf_release(&records);
}

/* Cut anywhere: what is before the cut is there. */
static void test_torn(void **state)
{
    static char file[64 << 10];
    size_t starts[4 * N + 1], n, title, n_whole;
    uint64_t numbers[4 * N];
    struct request_log *l;
    struct buf records;
    uint64_t rng = 21;

    (void)state;
    n = write_file(&records, starts, numbers, file, sizeof(file), &title);
    for (int round = 0; round < 200; round++) {
        const size_t cut = title + random_below(&rng, (uint32_t)(n - title));

        set_bytes(file, cut);
        l = open_log();
        n_whole = 0;
        while (starts[4 * n_whole + 1] + title <= cut && ++n_whole < N)
            continue;
        assert_int_equal(saved.n, n_whole);
        for (size_t i = 0; i < saved.n; i++)
            check(&saved.all[i]);
        for (size_t i = 0; i + 1 < saved.n; i++)
            assert_true(saved.all[i].has_end);
        request_log_close(&l);
    }
    buf_release(&records);
}

/* Bytes that are gone from the middle: the length of a record then leads into another one. */
static void test_cut_out(void **state)
{
    static char file[64 << 10], bytes[64 << 10];
    size_t starts[4 * N + 1], n, title;
    uint64_t numbers[4 * N];
    struct request_log *l;
    struct buf records;
    uint64_t rng = 22;

    (void)state;
    n = write_file(&records, starts, numbers, file, sizeof(file), &title);
    for (int round = 0; round < 200; round++) {
        const size_t at = title + random_below(&rng, (uint32_t)(n - title - 60)),
                     len = 1 + random_below(&rng, 50);
        uint64_t hit = N;

        memcpy(bytes, file, at);
        memcpy(bytes + at, file + at + len, n - at - len);
        set_bytes(bytes, n - len);
        l = open_log();
        for (size_t i = 0; i < 4 * N; i++)
            if (starts[i + 1] + title > at) {
                hit = numbers[i];
                break;
            }
        for (uint64_t number = 1; number <= N; number++) {
            const struct saved_request *r = find(number);

            if (number < hit || number > hit + 1) {
                assert_non_null(r);
                assert_true(r->has_end);
            }
            if (r != NULL)
                check(r);
        }
        request_log_close(&l);
    }
    buf_release(&records);
}

static void test_no_memory(void **state)
{
    struct request_log *l = open_log();
    struct buf records;
    bool has_failed = true;
    int rc;

    (void)state;
    buf_init(&records, 1 << 20);
    for (uint64_t number = 1; number <= 100; number++) {
        add_begin(&records, number);
        add_tokens(&records, number, number % 4, 5);
    }
    append(l, &records);
    request_log_close(&l);
    for (int64_t n = 0; has_failed; n++) {
        saved_requests_release(&saved);
        mem_fail_after(n);
        rc = request_log_open(&l, path, &saved, &n_lost, err, sizeof(err));
        has_failed = mem_has_failed() != 0;
        mem_fail_after(-1);
        assert_int_equal(rc, has_failed ? ERR_NOMEM : 0);
        assert_int_equal(saved.n, has_failed ? 0 : 100);
    }
    request_log_close(&l);
    buf_release(&records);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_round_trip, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_gaps, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_one_process, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_foreign_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_compaction, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_damage, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_torn, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cut_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_memory, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
