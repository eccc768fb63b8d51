/* tests/unit/kvcache/test_id_set.c - the set that finds its next member at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/base/err.h"
#include "core/base/mem.h"
#include "kvcache/id_set.h"

static void finds_members_across_words(void **state)
{
    static const uint32_t members[] = {0, 1, 63, 64, 127, 4096, 262143, 299999};
    struct id_set s;
    uint32_t at = 0;
    (void)state;

    assert_int_equal(id_set_init(&s, 300000), 0);
    assert_int_equal(id_set_next(&s, 0), ID_SET_NONE);
    for (size_t i = 0; i < 8; i++)
        id_set_add(&s, members[i]);
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(id_set_next(&s, at), members[i]);
        assert_true(id_set_has(&s, members[i]));
        at = members[i] + 1;
    }
    assert_int_equal(id_set_next(&s, at), ID_SET_NONE);
    assert_int_equal(id_set_next(&s, UINT32_MAX - 1), ID_SET_NONE);
    assert_false(id_set_has(&s, 300000));
    assert_true(id_set_check(&s));
    for (size_t i = 0; i < 8; i++)
        id_set_remove(&s, members[i]);
    assert_int_equal(id_set_next(&s, 0), ID_SET_NONE);
    assert_true(id_set_check(&s));
    id_set_release(&s);
}

static void measures_runs(void **state)
{
    struct id_set s;
    (void)state;

    assert_int_equal(id_set_init(&s, 192), 0);
    for (uint32_t i = 60; i < 192; i++)
        id_set_add(&s, i);
    assert_int_equal(id_set_run(&s, 60, 1000), 132);
    assert_int_equal(id_set_run(&s, 60, 5), 5);
    assert_int_equal(id_set_run(&s, 59, 5), 0);
    assert_int_equal(id_set_run(&s, 191, 5), 1);
    assert_int_equal(id_set_run(&s, 192, 5), 0);
    id_set_remove(&s, 128);
    assert_int_equal(id_set_run(&s, 60, 1000), 68);
    assert_int_equal(id_set_run(&s, 64, 64), 64);
    id_set_release(&s);
}

/* Random changes against an array of truths, at sizes around the words' ends. */
static void agrees_with_an_array(void **state)
{
    static const uint32_t sizes[] = {1, 2, 63, 64, 65, 4095, 4096, 4097, 5000};
    (void)state;

    srandom(5);
    for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
        const uint32_t n = sizes[k];
        char in[5000] = {0};
        struct id_set s;

        assert_int_equal(id_set_init(&s, n), 0);
        for (int op = 0; op < 4000; op++) {
            const uint32_t i = (uint32_t)random() % n;
            uint32_t next = i, run = 0;

            in[i] ? id_set_remove(&s, i) : id_set_add(&s, i);
            in[i] = !in[i];
            while (next < n && !in[next])
                next++;
            assert_int_equal(id_set_next(&s, i), next < n ? next : ID_SET_NONE);
            while (i + run < n && in[i + run])
                run++;
            assert_int_equal(id_set_run(&s, i, n), run);
        }
        assert_true(id_set_check(&s));
        id_set_release(&s);
    }
}

static void refuses_sizes_and_lack_of_memory(void **state)
{
    struct id_set s;
    (void)state;

    assert_int_equal(id_set_init(&s, 0), ERR_INVAL);
    assert_int_equal(id_set_init(&s, UINT32_MAX), ERR_INVAL);
    mem_fail_after(0);
    assert_int_equal(id_set_init(&s, 100), ERR_NOMEM);
    mem_fail_after(-1);
    id_set_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_members_across_words),
        cmocka_unit_test(measures_runs),
        cmocka_unit_test(agrees_with_an_array),
        cmocka_unit_test(refuses_sizes_and_lack_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
