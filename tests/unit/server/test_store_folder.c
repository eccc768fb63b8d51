/* tests/unit/server/test_store_folder.c - records as files: what is put is there for others, and
 * the oldest go when there are too many. */
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/err.h"
#include "server/engine_io/store_backend.h"
#include "server/engine_io/store_place.h"
#include "tests/fixtures/failing_memory.h"

enum { BYTES = 1000 };

static char folder[] = "/tmp/quire-store-XXXXXX";
static struct store_place place;

static int make_folder(void **state)
{
    char url[64], err[200];
    (void)state;

    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(url, sizeof(url), "dir:%s", folder);
    return store_place_open(&place, url, "", 1000, err, sizeof(err));
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *walk)
{
    (void)st, (void)kind, (void)walk;
    return remove(path);
}

static int remove_folder(void **state)
{
    (void)state;
    return nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static struct store_backend *open_folder(uint64_t max_bytes)
{
    struct store_backend *b;

    assert_int_equal(store_folder_open(&b, &place, max_bytes), 0);
    return b;
}

static const char *name_of(store_name name, unsigned i)
{
    snprintf(name, sizeof(store_name), "%02x%062x", i * 37 % 256, i);
    return name;
}

static void put(struct store_backend *b, unsigned i)
{
    uint8_t bytes[BYTES];
    store_name name;

    memset(bytes, (int)i, sizeof(bytes));
    assert_int_equal(b->ops->put(b, name_of(name, i), bytes, sizeof(bytes)), 0);
}

static bool is_there(struct store_backend *b, unsigned i)
{
    store_name name[1];

    name_of(name[0], i);
    return b->ops->count(b, (const store_name *)name, 1) == 1;
}

static void path_of(char path[200], unsigned i)
{
    store_name name;

    name_of(name, i);
    snprintf(path, 200, "%s/%.2s/%s.kv", folder, name, name);
}

static void set_age(unsigned i, long seconds)
{
    const struct timespec t[2] = {{time(NULL) - seconds, 0}, {time(NULL) - seconds, 0}};
    char path[200];

    path_of(path, i);
    assert_int_equal(utimensat(AT_FDCWD, path, t, 0), 0);
}

static void what_is_put_is_there(void **state)
{
    struct store_backend *a = open_folder(1 << 20), *b = open_folder(1 << 20);
    uint8_t bytes[BYTES];
    store_name names[4];
    struct stat st;
    char path[200];
    (void)state;

    for (unsigned i = 0; i < 4; i++)
        name_of(names[i], i + 1);
    assert_int_equal(a->ops->count(a, (const store_name *)names, 4), 0);
    put(a, 1);
    put(a, 2);
    put(a, 4);
    assert_int_equal(b->ops->count(b, (const store_name *)names, 4), 2); /* no gap */
    assert_int_equal(b->ops->get(b, names[1], bytes, sizeof(bytes)), BYTES);
    assert_int_equal(bytes[BYTES - 1], 2);
    assert_int_equal(b->ops->get(b, names[1], bytes, BYTES - 1), BYTES); /* it has more */
    assert_int_equal(b->ops->get(b, names[2], bytes, sizeof(bytes)), ERR_NOENT);
    put(b, 1); /* again: nobody minds */
    path_of(path, 1);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    for (unsigned i = 1; i <= 4; i++)
        assert_int_equal(a->ops->remove(a, names[i - 1]), 0); /* gone or not */
    assert_false(is_there(b, 1));
    a->ops->close(a);
    b->ops->close(b);
}

/* What was used longest ago; reading counts, and so does another server's removal. */
static void the_oldest_go(void **state)
{
    struct store_backend *a = open_folder(10 * BYTES), *b = open_folder(10 * BYTES);
    uint8_t bytes[BYTES];
    store_name name;
    uint64_t total;
    char path[200];
    (void)state;

    assert_int_equal(a->ops->tidy(a, &total), 0);
    assert_int_equal(total, 0);
    for (unsigned i = 0; i < 10; i++) {
        put(a, i);
        set_age(i, 1000 * (10 - i));
    }
    assert_int_equal(a->ops->tidy(a, &total), 0);
    assert_int_equal(total, 10 * BYTES);
    assert_int_equal(b->ops->get(b, name_of(name, 0), bytes, BYTES), BYTES); /* it is used */
    path_of(path, 1);
    assert_int_equal(unlink(path), 0); /* by another one */
    put(a, 10);
    put(a, 11);
    assert_int_equal(a->ops->tidy(a, &total), 2);
    assert_int_equal(total, 9 * BYTES);
    assert_true(is_there(a, 0) && is_there(a, 4) && is_there(a, 11));
    assert_false(is_there(a, 2) || is_there(a, 3));
    assert_int_equal(b->ops->tidy(b, &total), 0);
    assert_int_equal(total, 9 * BYTES);
    for (unsigned i = 0; i < 12; i++)
        assert_int_equal(a->ops->remove(a, name_of(name, i)), 0);
    a->ops->close(a);
    b->ops->close(b);
}

static void a_folder_that_is_gone_is_an_error(void **state)
{
    struct store_place other = place;
    struct store_backend *b;
    store_name name;
    uint8_t byte = 1;
    int64_t n = 0;
    (void)state;

    snprintf(other.folder, sizeof(other.folder), "%s/none", folder);
    assert_int_equal(store_folder_open(&b, &other, 1000), ERR_IO);
    assert_null(b);
    b = open_folder(1000);
    snprintf(name, sizeof(name), "zz%062x", 1);
    assert_int_equal(b->ops->put(b, name, &byte, 1), ERR_IO);
    assert_non_null(strstr(b->why, "cannot make"));
    b->ops->close(b);
    while (each_failure(&n)) {
        const int rc = store_folder_open(&b, &place, 1000);

        assert_int_equal(rc, mem_has_failed() ? ERR_NOMEM : 0);
        if (b != NULL)
            b->ops->close(b);
    }
}

/* Settings that name no place, and the secret that the servers of one share. */
static void places_are_understood(void **state)
{
    static const char *const wrong[] = {"/tmp", "dir:", "redis://", "redis://a:b@h", "redis://h:x",
                                        "redis://h:70000", "redis://h/one", "valkey://:6379"};
    struct store_place p;
    char err[300], url[64];
    (void)state;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        err[0] = '\0';
        assert_true(store_place_open(&p, wrong[i], "", 100, err, sizeof(err)) < 0);
        assert_non_null(strstr(err, "kv_store"));
        assert_false(p.is_on);
    }
    assert_int_equal(store_place_open(&p, "", "", 100, err, sizeof(err)), 0);
    assert_false(p.is_on);
    snprintf(url, sizeof(url), "dir:%s", folder);
    assert_int_equal(store_place_open(&p, url, "", 100, err, sizeof(err)), 0);
    assert_true(p.is_on && p.seed == place.seed && p.seed != 0);
    snprintf(url, sizeof(url), "dir:%s/inner", folder);
    assert_int_equal(store_place_open(&p, url, "", 100, err, sizeof(err)), 0);
    assert_true(p.seed != place.seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_put_is_there),
        cmocka_unit_test(the_oldest_go),
        cmocka_unit_test(a_folder_that_is_gone_is_an_error),
        cmocka_unit_test(places_are_understood),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
