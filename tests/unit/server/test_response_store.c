/* tests/unit/server/test_response_store.c - kept responses: chains, items, owners, what goes first,
 * and files that are not to be used. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/err.h"
#include "server/storage/response_store.h"
#include "tests/fixtures/files.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char path[64];
static char err[300];

static void remove_files(void)
{
    char wal[80];

    unlink(path);
    snprintf(wal, sizeof(wal), "%s-wal", path);
    unlink(wal);
}

static int set_up(void **state)
{
    (void)state;
    snprintf(path, sizeof(path), "/tmp/quire-responses-%d", (int)getpid());
    remove_files();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    remove_files();
    return 0;
}

static int try_open(struct response_store **s, uint64_t max_bytes)
{
    const struct response_store_options o = {path, max_bytes, 30};

    return response_store_open(s, &o, err, sizeof(err));
}

static struct response_store *open_store(uint64_t max_bytes)
{
    struct response_store *s;

    if (try_open(&s, max_bytes) < 0)
        fail_msg("%s", err);
    return s;
}

static struct buf buf_of(const char *text)
{
    struct buf b;

    buf_init(&b, 1 << 20);
    assert_int_equal(buf_add_str(&b, text), 0);
    return b;
}

static int begin(struct response_store *s, const char *owner, const char *id, const char *previous,
                 int64_t created, const char *input, struct api_error *e)
{
    struct buf body = buf_of("{\"status\":\"in_progress\",\"output\":[]}"), items = buf_of(input);
    const struct response_start start = {.previous = previous,
                                         .created = created,
                                         .is_background = strstr(id, "back") != NULL,
                                         .is_restored = created == 0,
                                         .body = &body,
                                         .input = &items};
    const int rc = response_store_begin(s, &(struct response_name){owner, id}, &start, e);

    buf_release(&body);
    buf_release(&items);
    return rc;
}

static int end(struct response_store *s, const char *owner, const char *id, const char *output)
{
    struct buf body = buf_of("{\"status\":\"completed\",\"a\":1.50}"), items = buf_of(output);
    struct api_error e = {0};
    const int rc = response_store_end(s, &(struct response_name){owner, id}, &body, &items, &e);

    buf_release(&body);
    buf_release(&items);
    return rc;
}

/* A whole one, with an item of input and one of output: a, A. */
static void keep(struct response_store *s, const char *owner, const char *id, const char *previous)
{
    struct api_error e = {0};
    char items[2][100];

    snprintf(items[0], sizeof(items[0]), "[{\"id\":\"in_%s\",\"t\":\"é\"}]", id);
    snprintf(items[1], sizeof(items[1]), "[{\"id\":\"out_%s\"}]", id);
    assert_int_equal(begin(s, owner, id, previous, (int64_t)time(NULL), items[0], &e), 0);
    assert_int_equal(end(s, owner, id, items[1]), 0);
}

static void check_get(struct response_store *s, const char *owner, const char *id,
                      const char *wanted)
{
    struct api_error e = {0};
    struct buf out = buf_of("");
    const int rc = response_store_get(s, &(struct response_name){owner, id}, &out, &e);

    buf_add_char(&out, '\0');
    if (wanted != NULL)
        assert_string_equal(out.data, wanted);
    assert_int_equal(rc, wanted != NULL ? 0 : ERR_NOENT);
    assert_int_equal(e.status, wanted != NULL ? 0 : 404);
    buf_release(&out);
}

static void check_history(struct response_store *s, const char *owner, const char *previous,
                          const char *item, const char *wanted, int status)
{
    struct response_wish wish = {0};
    struct api_error e = {0};
    struct buf out = buf_of("");

    buf_init(&wish.items, 1000);
    if (item != NULL)
        buf_add(&wish.items, item, strlen(item) + 1);
    snprintf(wish.previous, sizeof(wish.previous), "%s", previous);
    (void)response_store_history(s, owner, &wish, &out, &e);
    assert_int_equal(e.status, status);
    buf_add_char(&out, '\0');
    if (status == 0)
        assert_string_equal(out.data, wanted);
    else if (wanted != NULL)
        assert_non_null(strstr(e.message, wanted));
    buf_release(&wish.items);
    buf_release(&out);
}

#define DONE "{\"status\":\"completed\",\"a\":1.50}"

static void test_a_life(void **state)
{
    struct response_store *s = open_store(1 << 20);
    const struct response_name a = {"o", "a"};
    struct api_error e = {0};
    struct stat st;

    (void)state;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(begin(s, "o", "a", NULL, (int64_t)time(NULL), "[]", &e), 0);
    check_get(s, "o", "a", "{\"status\":\"in_progress\",\"output\":[]}");
    check_history(s, "o", "a", NULL, "in progress", 400);
    assert_int_equal(end(s, "o", "a", "[{\"id\":\"x\"}]"), 0);
    check_get(s, "o", "a", DONE);
    check_get(s, "p", "a", NULL);
    response_store_close(&s);
    s = open_store(1 << 20); /* a restart */
    check_get(s, "o", "a", DONE);
    assert_int_equal(response_store_delete(s, &(struct response_name){"p", "a"}, &e), ERR_NOENT);
    assert_int_equal(response_store_delete(s, &a, &e), 0);
    assert_int_equal(response_store_delete(s, &a, &e), ERR_NOENT);
    check_get(s, "o", "a", NULL);
    check_history(s, "o", "", "x", "no item 'x'", 404);
    response_store_close(&s);
}

static void test_chains(void **state)
{
    struct response_store *s = open_store(1 << 20);
    const struct response_name b = {"o", "b"};
    struct api_error e = {0};

    (void)state;
    keep(s, "o", "a", NULL);
    keep(s, "o", "b", "a");
    keep(s, "o", "c", "b");
    check_history(
        s, "o", "c", NULL,
        "{\"before\":[{\"id\":\"in_a\",\"t\":\"é\"},{\"id\":\"out_a\"},{\"id\":\"in_b\","
        "\"t\":\"é\"},{\"id\":\"out_b\"},{\"id\":\"in_c\",\"t\":\"é\"},{\"id\":\"out_c\"}],"
        "\"items\":{}}",
        0);
    check_history(s, "o", "", "out_b", "{\"before\":[],\"items\":{\"out_b\":{\"id\":\"out_b\"}}}",
                  0);
    check_history(s, "p", "c", NULL, "no response 'c'", 404);
    check_history(s, "p", "", "out_b", "no item 'out_b'", 404);
    assert_int_equal(response_store_delete(s, &b, &e), 0);
    check_history(s, "o", "c", NULL, "the response 'b'", 404);
    check_history(s, "o", "' OR 1 --", NULL, "no response", 404);
    response_store_close(&s);
}

static void test_what_was_open_has_failed(void **state)
{
    struct response_store *s = open_store(1 << 20);
    struct api_error e = {0};

    (void)state;
    assert_int_equal(begin(s, "o", "a", NULL, (int64_t)time(NULL), "[]", &e), 0);
    response_store_close(&s);
    s = open_store(1 << 20);
    check_get(s, "o", "a",
              "{\"status\":\"failed\",\"output\":[],\"error\":{\"code\":\"server_error\","
              "\"message\":\"the server was stopped before the end\"}}");
    assert_int_equal(end(s, "o", "a", "[]"), 0); /* it stays so */
    check_history(s, "o", "a", NULL, "{\"before\":[],\"items\":{}}", 0);
    response_store_close(&s);
}

/* One that was open is so again, with its input; one that has an end, or is gone, is not. */
static void test_restored(void **state)
{
    const char *const ids[] = {"open", "ended", "deleted"};
    const int64_t now = (int64_t)time(NULL);
    struct response_store *s = open_store(1 << 20);
    struct api_error e = {0};

    (void)state;
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(begin(s, "o", ids[i], NULL, now, "[{\"id\":\"in\"}]", &e), 0);
    assert_int_equal(end(s, "o", "ended", "[]"), 0);
    assert_int_equal(response_store_delete(s, &(struct response_name){"o", "deleted"}, &e), 0);
    response_store_close(&s);
    s = open_store(1 << 20);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(begin(s, "o", ids[i], NULL, 0, "[]", &e), 0);
    check_get(s, "o", "open", "{\"status\":\"in_progress\",\"output\":[]}");
    check_get(s, "o", "ended", "{\"status\":\"completed\",\"a\":1.50}");
    check_get(s, "o", "deleted", NULL);
    assert_int_equal(end(s, "o", "open", "[{\"id\":\"out\"}]"), 0);
    check_get(s, "o", "open", "{\"status\":\"completed\",\"a\":1.50}");
    response_store_close(&s);
}

static void test_cancelling(void **state)
{
    struct response_store *s = open_store(1 << 20);
    const struct response_name back = {"o", "back"}, front = {"o", "front"};
    struct buf out = buf_of("");
    struct api_error e = {0};

    (void)state;
    assert_int_equal(begin(s, "o", "back", NULL, (int64_t)time(NULL), "[]", &e), 0);
    assert_int_equal(begin(s, "o", "front", NULL, (int64_t)time(NULL), "[]", &e), 0);
    assert_true(response_store_cancel(s, &front, &out, &e) < 0);
    assert_int_equal(e.status, 400);
    assert_int_equal(response_store_cancel(s, &back, &out, &e), 0);
    buf_add_char(&out, '\0');
    assert_string_equal(out.data, "{\"status\":\"cancelled\",\"output\":[],\"error\":null}");
    assert_int_equal(end(s, "o", "back", "[{\"id\":\"late\"}]"), 0);
    check_get(s, "o", "back", out.data);
    check_history(s, "o", "", "late", "no item", 404);
    assert_int_equal(response_store_cancel(s, &(struct response_name){"p", "back"}, &out, &e),
                     ERR_NOENT);
    buf_release(&out);
    response_store_close(&s);
}

static void test_pages_of_items(void **state)
{
    struct response_store *s = open_store(1 << 20);
    const struct response_name a = {"o", "a"};
    struct api_error e = {0};
    struct {
        struct response_page page;
        const char *wanted;
    } cases[] = {
        {{2, true, NULL},
         "[{\"id\":\"1\"},{\"id\":\"2\"}],\"first_id\":\"1\",\"last_id\":\"2\","
         "\"has_more\":true}"},
        {{2, true, "2"},
         "[{\"id\":\"3\"}],\"first_id\":\"3\",\"last_id\":\"3\",\"has_more\":false}"},
        {{3, false, NULL},
         "[{\"id\":\"3\"},{\"id\":\"2\"},{\"id\":\"1\"}],\"first_id\":\"3\","
         "\"last_id\":\"1\",\"has_more\":false}"},
        {{1, false, "3"},
         "[{\"id\":\"2\"}],\"first_id\":\"2\",\"last_id\":\"2\",\"has_more\":true}"},
        {{9, true, "3"}, "[],\"first_id\":null,\"last_id\":null,\"has_more\":false}"},
        {{9, true, "x"}, NULL},
    };

    (void)state;
    assert_int_equal(begin(s, "o", "a", NULL, (int64_t)time(NULL),
                           "[{\"id\":\"1\"},{\"id\":\"2\"},{\"id\":\"3\"}]", &e),
                     0);
    assert_int_equal(end(s, "o", "a", "[{\"id\":\"out\"}]"), 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct buf out = buf_of("");
        const int rc = response_store_items(s, &a, &cases[i].page, &out, &e);

        buf_add_char(&out, '\0');
        assert_int_equal(rc, cases[i].wanted != NULL ? 0 : ERR_INVAL);
        if (cases[i].wanted != NULL)
            assert_string_equal(out.data + strlen("{\"object\":\"list\",\"data\":"),
                                cases[i].wanted);
        buf_release(&out);
    }
    response_store_close(&s);
}

static void test_the_oldest_go_first(void **state)
{
    const uint64_t max = 256 << 10;
    struct response_store *s = open_store(max);
    struct api_error e = {0};
    static char large[20100];
    struct stat st;
    char id[16];

    (void)state;
    snprintf(large, sizeof(large), "[{\"id\":\"x\",\"t\":\"%020000d\"}]", 0);
    assert_int_equal(begin(s, "o", "old", NULL, (int64_t)time(NULL) - 31 * 86400, "[]", &e), 0);
    assert_int_equal(end(s, "o", "old", "[]"), 0);
    check_get(s, "o", "old", NULL);
    for (int i = 0; i < 60; i++) {
        snprintf(id, sizeof(id), "r%d", i);
        assert_int_equal(begin(s, "o", id, NULL, (int64_t)time(NULL) - 100 + i, large, &e), 0);
        assert_int_equal(end(s, "o", id, "[]"), 0);
    }
    check_get(s, "o", "r59", DONE);
    check_get(s, "o", "r58", DONE);
    check_get(s, "o", "r0", NULL);
    check_get(s, "o", "r40", NULL);
    response_store_close(&s);
    assert_int_equal(stat(path, &st), 0);
    assert_true((uint64_t)st.st_size < 2 * max);
    s = open_store(10000);
    check_get(s, "o", "r59", NULL);
    assert_true(begin(s, "o", "z", NULL, (int64_t)time(NULL), large, &e) < 0);
    assert_int_equal(e.status, 400);
    assert_non_null(strstr(e.message, "responses_size"));
    response_store_close(&s);
}

static void write_file(const char *bytes, size_t n)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, n), n);
    close(fd);
}

static void check_refused(int rc, const char *why)
{
    struct response_store *s;

    assert_int_equal(try_open(&s, 1 << 20), rc);
    assert_null(s);
    if (strstr(err, why) == NULL || strstr(err, path) == NULL)
        fail_msg("%s", err);
}

static void make_database(const char *sql)
{
    sqlite3 *db;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void test_files_that_are_refused(void **state)
{
    struct response_store *s;
    char bytes[5000];

    (void)state;
    memset(bytes, 'x', sizeof(bytes));
    write_file(bytes, sizeof(bytes));
    check_refused(ERR_FORMAT, "not a database");
    remove_files();
    make_database("CREATE TABLE t(a)");
    check_refused(ERR_FORMAT, "another program");
    remove_files();
    make_database("PRAGMA application_id=1364543826; PRAGMA user_version=3; CREATE TABLE t(a)");
    check_refused(ERR_FORMAT, "version 3");
    remove_files();
    make_database("PRAGMA application_id=1364543826; PRAGMA user_version=1;"
                  "CREATE TABLE response(a, id, created)");
    check_refused(ERR_FORMAT, "not a database of kept responses");
    remove_files();
    s = open_store(1 << 20);
    check_refused(ERR_BUSY, "in use by another process");
    response_store_close(&s);
    snprintf(path, sizeof(path), "/tmp");
    check_refused(ERR_IO, "directory");
    snprintf(path, sizeof(path), "/nowhere/at/all");
    check_refused(ERR_IO, "No such file");
}

static void remove_damaged(void)
{
    char damaged[80];

    snprintf(damaged, sizeof(damaged), "%s.damaged", path);
    assert_int_equal(unlink(damaged), 0);
    snprintf(damaged, sizeof(damaged), "%s.damaged-wal", path);
    assert_int_equal(unlink(damaged), 0);
}

/* What it had is lost, and counted; it is kept beside, and the new one works. */
static void test_a_damaged_page(void **state)
{
    struct response_store *s = open_store(1 << 20);
    const struct response_name a = {"o", "a"};
    struct api_error e = {0};
    struct buf out = buf_of("");
    char page[4096 * 8] = {0};
    int fd;

    (void)state;
    keep(s, "o", "a", NULL);
    response_store_close(&s);
    fd = open(path, O_RDWR);
    assert_true(pwrite(fd, page, sizeof(page), 4096) > 0);
    close(fd);
    s = open_store(1 << 20);
    assert_true(response_store_counts(s).n_lost > 0);
    assert_int_equal(response_store_get(s, &a, &out, &e), ERR_NOENT);
    keep(s, "o", "a", NULL);
    response_store_close(&s);
    s = open_store(1 << 20);
    assert_true(response_store_counts(s).n_lost == 0);
    assert_int_equal(response_store_get(s, &a, &out, &e), 0);
    response_store_close(&s);
    remove_damaged();
    buf_release(&out);
}

/* A byte of an item changes in the file while it is served: the call that reads it gets a 503, and
 * the next start names the response lost. The items are more than SQLite's cache has room for. */
static void test_a_damaged_row(void **state)
{
    const int64_t now = (int64_t)time(NULL);
    struct response_store *s = open_store(1 << 30);
    struct api_error e = {0};
    static char items[20100];
    char id[16], *bytes, *at;
    size_t n;
    int fd;

    (void)state;
    for (int i = 0; i < 500; i++) {
        snprintf(id, sizeof(id), "r%03d", i);
        snprintf(items, sizeof(items), "[{\"id\":\"in_%s\",\"t\":\"%s%020000d\"}]", id, id, 0);
        assert_int_equal(begin(s, "o", id, NULL, now, items, &e), 0);
        assert_int_equal(end(s, "o", id, "[]"), 0);
    }
    response_store_close(&s);
    s = open_store(1 << 30);
    bytes = read_whole(path, &n);
    at = memmem(bytes, n, "\"t\":\"r007", 9);
    assert_non_null(at);
    fd = open(path, O_RDWR);
    assert_int_equal(pwrite(fd, "R", 1, at - bytes + 5), 1);
    close(fd);
    free(bytes);
    check_history(s, "o", "r007", NULL, "damaged", 503);
    check_get(s, "o", "r007", DONE);
    check_get(s, "o", "r008", DONE);
    response_store_close(&s);
    s = open_store(1 << 30);
    assert_int_equal(response_store_counts(s).n_lost, 1);
    assert_int_equal(response_store_counts(s).n, 499);
    check_get(s, "o", "r007", NULL);
    response_store_close(&s);
    remove_damaged();
}

/* A file of version 1, which had no hashes, and reserved bytes in each page: what it has is found,
 * and new responses build upon it. */
static void test_a_file_of_version_1(void **state)
{
    struct response_store *s;
    int reserved = 8;
    sqlite3 *db;

    (void)state;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    sqlite3_file_control(db, "main", SQLITE_FCNTL_RESERVE_BYTES, &reserved);
    assert_int_equal(
        sqlite3_exec(
            db,
            "PRAGMA journal_mode=WAL; PRAGMA application_id=1364543826; PRAGMA user_version=1;"
            "CREATE TABLE response(n INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, owner TEXT NOT"
            " NULL, previous TEXT, created INTEGER NOT NULL, is_open INTEGER NOT NULL,"
            " is_background INTEGER NOT NULL, body TEXT NOT NULL);"
            "CREATE INDEX response_created ON response(created);"
            "CREATE TABLE item(response INTEGER NOT NULL REFERENCES response(n) ON DELETE CASCADE,"
            " n INTEGER NOT NULL, is_output INTEGER NOT NULL, id TEXT NOT NULL, owner TEXT NOT"
            " NULL, body TEXT NOT NULL);"
            "CREATE INDEX item_response ON item(response,is_output,n);"
            "CREATE INDEX item_id ON item(id);"
            "INSERT INTO response VALUES(1,'a','o',NULL,unixepoch(),0,0,'" DONE "');"
            "INSERT INTO item VALUES(1,0,0,'in_a','o','{\"id\":\"in_a\"}');",
            NULL, NULL, NULL),
        SQLITE_OK);
    sqlite3_close(db);
    for (int i = 0; i < 2; i++) {
        s = open_store(1 << 20);
        check_get(s, "o", "a", DONE);
        if (i == 0)
            keep(s, "o", "b", "a");
        check_history(s, "o", "b", NULL,
                      "{\"before\":[{\"id\":\"in_a\"},{\"id\":\"in_b\",\"t\":\"é\"},"
                      "{\"id\":\"out_b\"}],\"items\":{}}",
                      0);
        assert_int_equal(response_store_counts(s).n_lost, 0);
        response_store_close(&s);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_a_life),
        TEST(test_chains),
        TEST(test_what_was_open_has_failed),
        TEST(test_restored),
        TEST(test_cancelling),
        TEST(test_pages_of_items),
        TEST(test_the_oldest_go_first),
        TEST(test_files_that_are_refused),
        TEST(test_a_damaged_page),
        TEST(test_a_damaged_row),
        TEST(test_a_file_of_version_1),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
