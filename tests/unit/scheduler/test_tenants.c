/* tests/unit/scheduler/test_tenants.c - places, shares and limits of tenants. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/err.h"
#include "core/base/mem.h"
#include "server/auth/tenants.h"

static struct tenants *make(uint32_t max, uint32_t limit, const char *weights)
{
    const struct tenants_options o = {.max = max, .limit = limit, .weights = weights};
    struct tenants *t;

    assert_int_equal(tenants_create(&t, &o), 0);
    return t;
}

static uint32_t place(struct tenants *t, int i)
{
    char name[16];

    snprintf(name, sizeof(name), "t%d", i);
    return tenants_index(t, name);
}

static void names_have_places_and_weights(void **state)
{
    struct tenants *t = make(8, 0, "alice=4, bob=9");
    (void)state;

    assert_int_equal(tenants_index(t, ""), 0);
    assert_int_equal(tenants_index(t, "bob"), 2);
    assert_int_equal(tenants_index(t, "alice"), 1);
    assert_int_equal(tenants_index(t, "carol"), 3);
    assert_int_equal(tenants_index(t, "carol"), 3);
    assert_int_equal(tenants_index(t, "Carol"), 4); /* names are bytes */
    assert_int_equal(tenants_weight(t, 0), 1);
    assert_int_equal(tenants_weight(t, 1), 4);
    assert_int_equal(tenants_weight(t, 2), 9);
    assert_int_equal(tenants_weight(t, 3), 1);
    assert_string_equal(tenants_name(t, 0), "");
    assert_string_equal(tenants_name(t, 2), "bob");
    assert_string_equal(tenants_name(t, 3), "carol");
    assert_null(tenants_name(t, 5));
    assert_null(tenants_name(t, 7));
    assert_int_equal(tenants_n(t), 5);
    assert_int_equal(tenants_n_shared(t), 0);
    tenants_destroy(&t);
    assert_null(t);
    tenants_destroy(&t);
}

/* Busy tenants keep their places; the newcomer for whom there is none gets the last one. */
static void the_rest_share_a_place(void **state)
{
    struct tenants *t = make(5, 0, "vip=2");
    (void)state;

    for (int i = 0; i < 2; i++) {
        assert_int_equal(place(t, i), 2 + i);
        tenants_begin(t, 2 + (uint32_t)i);
    }
    assert_int_equal(place(t, 2), 4);
    assert_int_equal(place(t, 3), 4);
    assert_string_equal(tenants_name(t, 4), "(others)");
    assert_int_equal(tenants_n(t), 5);
    assert_int_equal(tenants_n_shared(t), 2);
    assert_int_equal(place(t, 1), 3);
    tenants_end(t, 2); /* t0 is idle now, and its place is free to have */
    assert_int_equal(place(t, 4), 2);
    assert_string_equal(tenants_name(t, 2), "t4");
    tenants_begin(t, 2);
    assert_int_equal(place(t, 0), 4);
    assert_int_equal(tenants_index(t, "vip"), 1); /* never given away, idle as it is */
    tenants_destroy(&t);
}

static void the_longest_idle_goes_first(void **state)
{
    struct tenants *t = make(5, 0, NULL); /* three places besides the nameless and the shared */
    (void)state;

    for (int i = 0; i < 3; i++)
        assert_int_equal(place(t, i), 1 + i);
    place(t, 0); /* t0 was here since */
    assert_int_equal(place(t, 3), 2);
    assert_int_equal(place(t, 4), 3);
    assert_int_equal(place(t, 5), 1);
    assert_int_equal(tenants_n_shared(t), 0);
    tenants_destroy(&t);
}

static void few_places_are_enough(void **state)
{
    struct tenants *t = make(1, 0, NULL);
    (void)state;

    assert_int_equal(tenants_index(t, ""), 0);
    assert_int_equal(place(t, 1), 0);
    assert_int_equal(tenants_n(t), 1);
    assert_int_equal(tenants_n_shared(t), 1);
    tenants_destroy(&t);
    t = make(2, 0, NULL);
    assert_int_equal(place(t, 1), 1);
    assert_int_equal(place(t, 2), 1);
    assert_int_equal(tenants_n(t), 2);
    tenants_destroy(&t);
}

static void limits_count_what_is_under_way(void **state)
{
    struct tenants *t = make(4, 3, NULL);
    const uint32_t a = tenants_index(t, "a"), b = tenants_index(t, "b");
    struct api_error e;
    (void)state;

    assert_int_equal(tenants_check(t, a, 3, &e), 0);
    assert_true(tenants_check(t, a, 4, &e) < 0);
    assert_int_equal(e.status, 400);
    assert_string_equal(e.param, "n");
    tenants_begin(t, a);
    tenants_begin(t, a);
    assert_int_equal(tenants_check(t, a, 1, &e), 0);
    assert_true(tenants_check(t, a, 2, &e) < 0);
    assert_int_equal(e.status, 429);
    assert_string_equal(e.code, "rate_limit_exceeded");
    assert_non_null(strstr(e.message, "'a'"));
    assert_non_null(strstr(e.message, "limit is 3"));
    assert_int_equal(tenants_check(t, b, 3, &e), 0);
    tenants_end(t, a);
    assert_int_equal(tenants_check(t, a, 2, &e), 0);
    tenants_destroy(&t);
}

static void creation_survives_lack_of_memory(void **state)
{
    const struct tenants_options o = {.max = 4};
    struct tenants *t;
    (void)state;

    mem_fail_after(0);
    assert_int_equal(tenants_create(&t, &o), ERR_NOMEM);
    mem_fail_after(-1);
    assert_null(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_have_places_and_weights),
        cmocka_unit_test(the_rest_share_a_place),
        cmocka_unit_test(the_longest_idle_goes_first),
        cmocka_unit_test(few_places_are_enough),
        cmocka_unit_test(limits_count_what_is_under_way),
        cmocka_unit_test(creation_survives_lack_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
