/* tests/unit/base/test_hash_index.c - the index against a plain list of pairs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/hash_index.h"
#include "tests/fixtures/random.h"

#define N 300

/* Few hashes, so that many items share one, and runs of slots meet and wrap. */
static uint64_t hash_of(uint64_t i)
{
    return i % 3 == 0 ? i % 7 : UINT64_MAX - i % 5;
}

static uint64_t count(const struct hash_index *x, uint64_t hash, uint64_t item)
{
    struct hash_walk w = {.hash = hash};
    uint64_t n = 0, found;

    while ((found = hash_index_next(x, &w)) != 0)
        n += found == item;
    return n;
}

static void items_are_found_until_they_are_removed(void **state)
{
    bool there[N + 1] = {false};
    struct hash_index x = {0};
    uint64_t rng = 3, n = 0;

    (void)state;
    hash_index_remove(&x, 1, 1);
    for (int round = 0; round < 4000; round++) {
        const uint64_t i = 1 + random_below(&rng, N);

        if (there[i])
            hash_index_remove(&x, hash_of(i), i);
        else
            assert_int_equal(hash_index_add(&x, hash_of(i), i), 0);
        n += there[i] ? UINT64_MAX : 1;
        there[i] = !there[i];
        assert_int_equal(x.n, n);
        for (uint64_t k = 1; k <= N && round % 50 == 0; k++)
            assert_int_equal(count(&x, hash_of(k), k), there[k]);
    }
    hash_index_release(&x);
    assert_int_equal(count(&x, 1, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_are_found_until_they_are_removed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
