/* tests/unit/kvcache/test_prefix_index.c - which block holds which tokens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/err.h"
#include "core/base/mem.h"
#include "kvcache/prefix_index.h"
#include "tests/fixtures/failing_memory.h"

static struct prefix_index *new_index(uint32_t n)
{
    struct prefix_index *x;

    assert_int_equal(prefix_index_create(&x, n, 1), 0);
    return x;
}

/* 16 tokens that begin with `n` times `a` and go on with `b`. */
static const int32_t *tokens(int32_t *out, uint32_t n, int32_t a, int32_t b)
{
    for (uint32_t i = 0; i < BLOCK_TOKENS; i++)
        out[i] = i < n ? a : b;
    return out;
}

static int insert(struct prefix_index *x, block_id block, struct prefix_hash before_hash,
                  block_id before, const int32_t *t)
{
    const int rc = prefix_index_insert(x, block, before_hash, prefix_hash_next(before_hash, t),
                                       prefix_id_of(before), t);

    assert_true(prefix_index_check(x));
    return rc;
}

static bool is_same(struct prefix_hash a, struct prefix_hash b)
{
    return a.lo == b.lo && a.hi == b.hi;
}

/* Every token, the order and all that came before matter. */
static void hashes_depend_on_everything(void **state)
{
    const struct prefix_hash root = prefix_hash_root(0);
    int32_t t[BLOCK_TOKENS], u[BLOCK_TOKENS];
    (void)state;

    tokens(t, 16, 5, 5);
    assert_true(is_same(prefix_hash_next(root, t), prefix_hash_next(root, t)));
    assert_false(is_same(root, prefix_hash_root(1)));
    assert_false(is_same(prefix_hash_next(root, t), prefix_hash_next(prefix_hash_root(1), t)));
    assert_false(
        is_same(prefix_hash_next(root, t), prefix_hash_next(prefix_hash_next(root, t), t)));
    for (uint32_t i = 0; i < BLOCK_TOKENS; i++) {
        memcpy(u, t, sizeof(u));
        u[i]++;
        assert_false(is_same(prefix_hash_next(root, t), prefix_hash_next(root, u)));
    }
}

/* S5.6: found only with the same tokens behind the same block. */
static void finds_a_chain(void **state)
{
    struct prefix_index *x = new_index(8);
    const struct prefix_hash root = prefix_hash_root(0);
    int32_t a[BLOCK_TOKENS], b[BLOCK_TOKENS];
    const struct prefix_hash ha = prefix_hash_next(root, tokens(a, 16, 1, 0));
    const struct prefix_hash hb = prefix_hash_next(ha, tokens(b, 16, 2, 0));
    (void)state;

    assert_int_equal(prefix_index_find(x, ha, PREFIX_NONE, a).n, BLOCK_NONE);
    assert_int_equal(insert(x, 3, root, BLOCK_NONE, a), 0);
    assert_int_equal(insert(x, 7, ha, 3, b), 0);
    assert_int_equal(prefix_index_find(x, ha, PREFIX_NONE, a).n, 3);
    assert_int_equal(prefix_index_find(x, hb, prefix_id_of(3), b).n, 7);
    assert_int_equal(prefix_index_find(x, hb, PREFIX_NONE, b).n, BLOCK_NONE); /* another place */
    assert_int_equal(prefix_index_find(x, hb, prefix_id_of(7), b).n, BLOCK_NONE);
    assert_int_equal(prefix_index_find(x, hb, prefix_id_of(3), a).n, BLOCK_NONE); /* other tokens */
    assert_int_equal(prefix_index_n(x), 2);
    assert_true(prefix_index_has(x, 7));
    assert_int_not_equal(prefix_index_child(x, prefix_id_of(3)).n, BLOCK_NONE);
    assert_int_equal(prefix_index_child(x, prefix_id_of(7)).n, BLOCK_NONE);
    assert_false(prefix_index_has(x, 0));
    assert_false(prefix_index_has(x, 9));
    prefix_index_destroy(&x);
    assert_null(x);
}

/* A collision of all 128 bits costs a miss and gives no wrong answer: S5.6, D5.2. */
static void survives_collisions(void **state)
{
    struct prefix_index *x = new_index(4);
    const struct prefix_hash root = prefix_hash_root(0);
    int32_t a[BLOCK_TOKENS], b[BLOCK_TOKENS];
    const struct prefix_hash h = prefix_hash_next(root, tokens(a, 16, 1, 0));
    (void)state;

    tokens(b, 16, 2, 0);
    assert_int_equal(prefix_index_insert(x, 1, root, h, PREFIX_NONE, a), 0);
    assert_int_equal(prefix_index_find(x, h, PREFIX_NONE, b).n, BLOCK_NONE);
    assert_int_equal(prefix_index_insert(x, 2, root, h, PREFIX_NONE, b), 0);
    assert_int_equal(prefix_index_find(x, h, PREFIX_NONE, a).n, 1);
    assert_int_equal(prefix_index_find(x, h, PREFIX_NONE, b).n, 2);
    prefix_index_remove(x, prefix_id_of(1));
    assert_int_equal(prefix_index_find(x, h, PREFIX_NONE, a).n, BLOCK_NONE);
    assert_int_equal(prefix_index_find(x, h, PREFIX_NONE, b).n, 2);
    assert_false(prefix_index_check(x)); /* which is how a wrong hash would show */
    prefix_index_destroy(&x);
}

/* Tenants never meet, neither in whole blocks nor in parts. */
static void salts_are_apart(void **state)
{
    struct prefix_index *x = new_index(4);
    const struct prefix_hash mine = prefix_hash_root(1), yours = prefix_hash_root(2);
    int32_t a[BLOCK_TOKENS];
    uint32_t n;
    (void)state;

    tokens(a, 16, 1, 0);
    assert_int_equal(insert(x, 1, mine, BLOCK_NONE, a), 0);
    assert_int_equal(prefix_index_find(x, prefix_hash_next(yours, a), PREFIX_NONE, a).n,
                     BLOCK_NONE);
    assert_int_equal(prefix_index_find_partial(x, yours, PREFIX_NONE, a, 16, &n).n, BLOCK_NONE);
    assert_int_equal(n, 0);
    assert_int_equal(insert(x, 2, yours, BLOCK_NONE, a), 0);
    assert_int_equal(prefix_index_find_partial(x, yours, PREFIX_NONE, a, 15, &n).n, 2);
    assert_int_equal(n, 15);
    prefix_index_destroy(&x);
}

/* The child with most in common; only children; never more than was asked for. */
static void finds_parts(void **state)
{
    struct prefix_index *x = new_index(8);
    const struct prefix_hash root = prefix_hash_root(0);
    int32_t a[BLOCK_TOKENS], t[BLOCK_TOKENS];
    const struct prefix_hash ha = prefix_hash_next(root, tokens(a, 16, 1, 0));
    uint32_t n;
    (void)state;

    assert_int_equal(insert(x, 1, root, BLOCK_NONE, a), 0);
    assert_int_equal(insert(x, 2, ha, 1, tokens(t, 3, 7, 8)), 0);
    assert_int_equal(insert(x, 3, ha, 1, tokens(t, 9, 7, 8)), 0);
    assert_int_equal(insert(x, 4, ha, 1, tokens(t, 5, 7, 8)), 0);
    tokens(t, 16, 7, 0);
    assert_int_equal(prefix_index_find_partial(x, ha, prefix_id_of(1), t, 16, &n).n, 3);
    assert_int_equal(n, 9);
    assert_int_equal(prefix_index_find_partial(x, ha, prefix_id_of(1), t, 2, &n).n,
                     4); /* equal: the latest */
    assert_int_equal(n, 2);
    assert_int_equal(
        prefix_index_find_partial(x, ha, prefix_id_of(1), tokens(t, 16, 9, 0), 16, &n).n,
        BLOCK_NONE);
    assert_int_equal(n, 0);
    assert_int_equal(prefix_index_find_partial(x, ha, prefix_id_of(1), t, 0, &n).n, BLOCK_NONE);
    assert_int_equal(prefix_index_find_partial(x, root, PREFIX_NONE, tokens(t, 4, 1, 0), 16, &n).n,
                     1);
    assert_int_equal(n, 4);
    assert_int_equal(prefix_index_find_partial(x, ha, prefix_id_of(5), t, 16, &n).n,
                     BLOCK_NONE); /* not in */
    prefix_index_destroy(&x);
}

/* Of many children the most recent PREFIX_MAX_SIBLINGS are looked at. */
static void looks_at_few_siblings(void **state)
{
    enum { N = PREFIX_MAX_SIBLINGS + 1 };
    struct prefix_index *x = new_index(N);
    const struct prefix_hash root = prefix_hash_root(0);
    int32_t t[BLOCK_TOKENS];
    uint32_t n;
    (void)state;

    for (block_id id = 1; id <= N; id++)
        assert_int_equal(insert(x, id, root, BLOCK_NONE, tokens(t, 8, (int32_t)id, 0)), 0);
    assert_int_equal(prefix_index_find_partial(x, root, PREFIX_NONE, tokens(t, 9, 2, 1), 16, &n).n,
                     2);
    assert_int_equal(n, 8);
    tokens(t, 9, 1, 1);
    assert_int_equal(prefix_index_find_partial(x, root, PREFIX_NONE, t, 16, &n).n, BLOCK_NONE);
    prefix_index_remove(x, prefix_id_of(N));
    assert_int_equal(prefix_index_find_partial(x, root, PREFIX_NONE, t, 16, &n).n, 1);
    prefix_index_destroy(&x);
}

/* Refused, and nothing has changed: twice in, nothing to follow, the same content again. */
static void refuses_what_does_not_fit(void **state)
{
    struct prefix_index *x = new_index(4);
    const struct prefix_hash root = prefix_hash_root(0);
    int32_t a[BLOCK_TOKENS], b[BLOCK_TOKENS];
    const struct prefix_hash ha = prefix_hash_next(root, tokens(a, 16, 1, 0));
    (void)state;

    tokens(b, 16, 2, 0);
    assert_int_equal(insert(x, 2, ha, 1, b), ERR_INVAL);
    assert_int_equal(insert(x, 1, root, BLOCK_NONE, a), 0);
    assert_int_equal(insert(x, 1, root, BLOCK_NONE, b), ERR_INVAL);
    assert_int_equal(insert(x, 2, root, BLOCK_NONE, a), ERR_AGAIN);
    assert_false(prefix_index_has(x, 2));
    assert_int_equal(prefix_index_n(x), 1);
    assert_int_equal(insert(x, 2, ha, 1, a), 0); /* the same tokens at another place */
    prefix_index_destroy(&x);
}

/* From the middle of a chain of siblings, from its ends, and entered again. */
static void removes_and_enters_again(void **state)
{
    struct prefix_index *x = new_index(4);
    const struct prefix_hash root = prefix_hash_root(0);
    static const block_id order[] = {2, 4, 1, 3};
    int32_t t[BLOCK_TOKENS];
    (void)state;

    for (int round = 0; round < 3; round++) {
        for (block_id id = 1; id <= 4; id++)
            assert_int_equal(insert(x, id, root, BLOCK_NONE, tokens(t, 8, (int32_t)id, 0)), 0);
        for (uint32_t i = 0; i < 4; i++) {
            prefix_index_remove(x, prefix_id_of(order[i]));
            assert_true(prefix_index_check(x));
            tokens(t, 8, (int32_t)order[i], 0);
            assert_int_equal(prefix_index_find(x, prefix_hash_next(root, t), PREFIX_NONE, t).n,
                             BLOCK_NONE);
        }
        prefix_index_remove(x, prefix_id_of(1)); /* not in: ignored */
        assert_int_equal(prefix_index_n(x), 0);
    }
    prefix_index_destroy(&x);
}

/* An entry has a block in each group, some groups may lack theirs; with the entry they are out. */
static void entries_have_blocks_in_groups(void **state)
{
    const struct prefix_hash root = prefix_hash_root(0);
    struct prefix_index *x;
    int32_t t[BLOCK_TOKENS];
    uint32_t group;
    (void)state;

    assert_int_equal(prefix_index_create(&x, 9, 3), 0);
    assert_int_equal(insert(x, 4, root, BLOCK_NONE, tokens(t, 16, 1, 1)), 0);
    assert_false(prefix_index_is_whole(x, prefix_id_of(4)));
    prefix_index_put(x, prefix_id_of(4), 2, 7);
    assert_true(prefix_index_check(x));
    assert_int_equal(prefix_index_at(x, prefix_id_of(4), 0), 4);
    assert_int_equal(prefix_index_at(x, prefix_id_of(4), 1), BLOCK_NONE);
    assert_int_equal(prefix_index_at(x, prefix_id_of(4), 2), 7);
    assert_true(prefix_index_has(x, 7));
    assert_int_equal(prefix_index_entry_of(x, 7, &group).n, 4);
    assert_int_equal(group, 2);
    assert_int_equal(insert(x, 7, root, BLOCK_NONE, tokens(t, 16, 2, 2)), ERR_INVAL);
    prefix_index_put(x, prefix_id_of(4), 1, 8);
    assert_true(prefix_index_is_whole(x, prefix_id_of(4)));
    prefix_index_put(x, prefix_id_of(4), 2, BLOCK_NONE);
    assert_false(prefix_index_has(x, 7));
    assert_int_equal(prefix_index_entry_of(x, 7, &group).n, BLOCK_NONE);
    assert_true(prefix_index_check(x));
    prefix_index_remove(x, prefix_id_of(4));
    assert_false(prefix_index_has(x, 8));
    assert_int_equal(prefix_index_n(x), 0);
    assert_true(prefix_index_check(x));
    prefix_index_destroy(&x);
}

static void creation_survives_lack_of_memory(void **state)
{
    struct prefix_index *x;
    int64_t n = 0;
    (void)state;

    while (each_failure(&n)) {
        if (prefix_index_create(&x, 5, 3) == 0)
            prefix_index_destroy(&x);
        assert_null(x);
    }
    assert_true(n > 4);
    assert_int_equal(prefix_index_create(&x, 0, 1), ERR_INVAL);
    prefix_index_destroy(&x);
    prefix_index_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hashes_depend_on_everything),
        cmocka_unit_test(finds_a_chain),
        cmocka_unit_test(survives_collisions),
        cmocka_unit_test(salts_are_apart),
        cmocka_unit_test(finds_parts),
        cmocka_unit_test(looks_at_few_siblings),
        cmocka_unit_test(refuses_what_does_not_fit),
        cmocka_unit_test(removes_and_enters_again),
        cmocka_unit_test(entries_have_blocks_in_groups),
        cmocka_unit_test(creation_survives_lack_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
