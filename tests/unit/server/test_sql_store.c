/* tests/unit/server/test_sql_store.c - a store's database: rows and their columns, pages, changes
 * that are rolled back, and a store that is not open. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/err.h"
#include "server/storage/sql_store.h"

#include <unistd.h>

enum statement { SQL_ADD, SQL_LIST, SQL_DELETE, SQL_FAIL, N_SQL };

static const char *const texts[N_SQL] = {
    [SQL_ADD] = "INSERT INTO thing(id,body) VALUES(?1,?2)",
    [SQL_LIST] = "SELECT id,body,n FROM thing WHERE n>?1 ORDER BY n",
    [SQL_DELETE] = "DELETE FROM thing",
    [SQL_FAIL] = "INSERT INTO thing(id) VALUES(NULL)",
};

static const struct sql_store_form form = {
    .file.what = "things",
    .file.application_id = 0x51554954,
    .file.version = 1,
    .file.schema = "CREATE TABLE IF NOT EXISTS thing(n INTEGER PRIMARY KEY, id TEXT NOT NULL,"
                   " body TEXT);",
    .statements = texts,
    .n_statements = N_SQL,
    .subject = "the things",
    .setting = "things_db",
};

static char folder[64], path[100], err[400];
static struct api_error e;
static struct buf out;

static int set_up(void **state)
{
    struct sql_store *s = calloc(1, sizeof(*s));

    snprintf(folder, sizeof(folder), "/tmp/quire-sql-XXXXXX");
    if (s == NULL || mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof(path), "%s/things.db", folder);
    buf_init(&out, 1 << 20);
    e = (struct api_error){0};
    *state = s;
    return sql_store_open(s, &form, path, err, sizeof(err));
}

static int tear_down(void **state)
{
    char log[120];

    sql_store_close(*state);
    free(*state);
    buf_release(&out);
    snprintf(log, sizeof(log), "%s-wal", path);
    unlink(log);
    unlink(path);
    return rmdir(folder);
}

static void add_thing(struct sql_store *s, const char *id, const char *text)
{
    struct buf body = {.data = (char *)(uintptr_t)text, .len = strlen(text)};

    assert_int_equal(sql_store_run(s, SQL_ADD, &e, "tb", id, &body), 0);
    assert_int_equal(sql_store_n_changed(s), 1);
}

static bool list_is(struct sql_store *s, int64_t after, uint32_t limit, const char *expected)
{
    const int rc = sql_store_run(s, SQL_LIST, &e, "i", after);

    buf_clear(&out);
    assert_int_equal(sql_store_list(s, SQL_LIST, rc, limit, &out, &e), 0);
    return strcmp(out.data, expected) == 0;
}

static void test_rows(void **state)
{
    struct sql_store *s = *state;

    assert_int_equal(sql_store_run(s, SQL_LIST, &e, "i", (int64_t)0), 0);
    assert_int_equal(sql_store_int(s, SQL_LIST, 2), 0);
    assert_string_equal(sql_store_text(s, SQL_LIST, 0), "");
    add_thing(s, "a", "1");
    assert_int_equal(sql_store_run(s, SQL_ADD, &e, "tt", "b", NULL), 0);
    assert_int_equal(sql_store_run(s, SQL_LIST, &e, "i", (int64_t)0), 1);
    assert_string_equal(sql_store_text(s, SQL_LIST, 0), "a");
    sql_store_add(s, SQL_LIST, 1, &out);
    assert_string_equal(out.data, "1");
    assert_int_equal(sql_store_next(s, SQL_LIST, &e), 1);
    assert_string_equal(sql_store_text(s, SQL_LIST, 1), "");
    assert_int_equal(sql_store_int(s, SQL_LIST, 2), 2);
    assert_int_equal(sql_store_next(s, SQL_LIST, &e), 0);
    assert_int_equal(sql_store_int(s, SQL_LIST, 2), 0);
}

static void test_pages(void **state)
{
    struct sql_store *s = *state;

    assert_true(list_is(s, 0, 2,
                        "{\"object\":\"list\",\"data\":[],\"first_id\":null,"
                        "\"last_id\":null,\"has_more\":false}"));
    for (const char *id = "a\0b\0c\0"; *id != '\0'; id += 2)
        add_thing(s, id, "{}");
    assert_true(list_is(s, 0, 2,
                        "{\"object\":\"list\",\"data\":[{},{}],\"first_id\":\"a\","
                        "\"last_id\":\"b\",\"has_more\":true}"));
    assert_true(list_is(s, 2, 2,
                        "{\"object\":\"list\",\"data\":[{}],\"first_id\":\"c\","
                        "\"last_id\":\"c\",\"has_more\":false}"));
}

static void test_changes(void **state)
{
    struct sql_store *s = *state;

    assert_int_equal(sql_store_begin(s, &e), 0);
    add_thing(s, "a", "1");
    assert_int_equal(sql_store_end(s, 0, &e), 0);
    assert_int_equal(sql_store_begin(s, &e), 0);
    assert_int_equal(sql_store_run(s, SQL_DELETE, &e, ""), 0);
    assert_int_equal(sql_store_run(s, SQL_FAIL, &e, ""), ERR_IO);
    assert_int_equal(e.status, 503);
    assert_string_equal(e.code, "things_db");
    assert_non_null(strstr(e.message, "the things cannot be read or written now: NOT NULL"));
    assert_int_equal(sql_store_end(s, ERR_IO, &e), ERR_IO);
    assert_int_equal(sql_store_run(s, SQL_LIST, &e, "i", (int64_t)0), 1);
    assert_false(s->is_damaged || s->is_full);
}

static void test_not_open(void **state)
{
    struct sql_store *s = *state;

    sql_store_close(s);
    assert_int_equal(sql_store_begin(s, &e), ERR_IO);
    assert_int_equal(sql_store_end(s, 0, &e), ERR_IO);
    assert_int_equal(sql_store_run(s, SQL_LIST, &e, "i", (int64_t)0), ERR_IO);
    assert_int_equal(sql_store_list(s, SQL_LIST, ERR_IO, 2, &out, &e), ERR_IO);
    assert_int_equal(sql_store_n_changed(s), 0);
    assert_true(s->is_full && e.status == 503);
    assert_string_equal(e.message, "the things cannot be read or written now: the disk is full");
}

static void test_other_statements(void **state)
{
    static const char *const others[] = {"SELECT id FROM other"};
    struct sql_store_form other = form;

    sql_store_close(*state);
    other.statements = others;
    other.n_statements = 1;
    assert_int_equal(sql_store_open(*state, &other, path, err, sizeof(err)), ERR_FORMAT);
    assert_non_null(strstr(err, "is not a database of things: no such table"));
    assert_null(((struct sql_store *)*state)->db);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_rows, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_pages, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_changes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_not_open, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_other_statements, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
