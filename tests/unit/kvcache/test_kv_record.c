/* tests/unit/kvcache/test_kv_record.c - records of blocks outside the process: names, and every way
 * in which one can be something else than what was asked for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kvcache/kv_record.h"

enum { BLOCKS = 2, MAX = 1024 };

static const struct kv_record_form form = {
    .kv_id = {1, 2}, .kv_type = 1, .n_layer = 2, .n_kv_head = 1, .key_bytes = 24, .value_bytes = 16,
    .n_blocks = BLOCKS};

static int32_t ids[BLOCKS * BLOCK_TOKENS];

static struct kv_record_key key_of(void)
{
    struct kv_record_key key = {.before = prefix_hash_root(7), .ids = ids};

    for (int i = 0; i < BLOCKS * BLOCK_TOKENS; i++)
        ids[i] = 100 + i;
    key.last = prefix_hash_next(prefix_hash_next(key.before, ids), ids + BLOCK_TOKENS);
    return key;
}

static size_t make(uint8_t record[MAX], const struct kv_record_key *key)
{
    const size_t n = kv_record_bytes(&form), head = kv_record_head_bytes(&form);

    assert_true(n <= MAX);
    for (size_t i = head; i < n; i++)
        record[i] = (uint8_t)(i * 31);
    kv_record_finish(record, &form, key);
    return n;
}

static void sizes_add_up(void **state)
{
    (void)state;
    assert_int_equal(kv_record_block_bytes(&form), 2 * (24 + 16));
    assert_int_equal(kv_record_bytes(&form),
                     kv_record_head_bytes(&form) + BLOCKS * kv_record_block_bytes(&form));
    assert_int_equal(kv_record_blocks_for(1), KV_RECORD_MOST);
    assert_int_equal(kv_record_blocks_for(128 << 10), 4);
    assert_int_equal(kv_record_blocks_for((128 << 10) - 1), 8);
    assert_int_equal(kv_record_blocks_for(512 << 10), 1);
    assert_int_equal(kv_record_blocks_for((size_t)1 << 30), 1);
}

/* What must make another name does; nothing else is in it. */
static void names_say_what_it_is(void **state)
{
    const struct kv_record_key key = key_of();
    struct prefix_hash other_hash = key.last;
    char name[KV_RECORD_NAME + 1], other[KV_RECORD_NAME + 1];
    (void)state;

    kv_record_name(name, &form, key.last);
    assert_int_equal(strlen(name), KV_RECORD_NAME);
    assert_int_equal(strspn(name, "0123456789abcdef"), KV_RECORD_NAME);
    kv_record_name(other, &form, key.last);
    assert_string_equal(name, other);
    other_hash.hi ^= 1;
    kv_record_name(other, &form, other_hash);
    assert_string_not_equal(name, other);
    for (size_t i = 0; i < sizeof(form) / sizeof(uint32_t); i++) {
        struct kv_record_form changed = form;

        ((uint32_t *)&changed)[i] ^= 1;
        kv_record_name(other, &changed, key.last);
        assert_string_not_equal(name, other);
        assert_memory_equal(name, other, 32); /* the hash comes first */
    }
}

static void a_whole_record_is_taken(void **state)
{
    const struct kv_record_key key = key_of();
    uint8_t record[MAX];
    const size_t n = make(record, &key);
    (void)state;

    assert_int_equal(kv_record_check(record, n, &form, &key), KV_RECORD_OK);
}

/* Each bit of it, and each length. */
static void damage_is_found(void **state)
{
    const struct kv_record_key key = key_of();
    uint8_t record[MAX];
    const size_t n = make(record, &key);
    (void)state;

    for (size_t bit = 0; bit < 8 * n; bit++) {
        record[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_not_equal(kv_record_check(record, n, &form, &key), KV_RECORD_OK);
        record[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t cut = 0; cut < n; cut++) {
        uint8_t *exact = malloc(cut > 0 ? cut : 1); /* sanitizers see a read behind it */

        memcpy(exact, record, cut);
        assert_int_equal(kv_record_check(exact, cut, &form, &key), KV_RECORD_CUT);
        free(exact);
    }
    assert_int_equal(kv_record_check(record, n + 1, &form, &key), KV_RECORD_CUT);
    record[n - 1] ^= 1;
    assert_int_equal(kv_record_check(record, n, &form, &key), KV_RECORD_DAMAGED);
    record[n - 1] ^= 1;
    record[8]++; /* the version */
    assert_int_equal(kv_record_check(record, n, &form, &key), KV_RECORD_FOREIGN);
}

/* Unharmed, but of something else: a swapped file, or two texts with one hash. */
static void others_are_no_answer(void **state)
{
    struct kv_record_key key = key_of();
    int32_t other_ids[BLOCKS * BLOCK_TOKENS];
    uint8_t record[MAX];
    const size_t n = make(record, &key);
    (void)state;

    for (size_t i = 0; i < sizeof(form) / sizeof(uint32_t); i++) {
        struct kv_record_form changed = form;

        ((uint32_t *)&changed)[i] ^= 1;
        assert_int_equal(kv_record_check(record, n, &changed, &key), KV_RECORD_OTHER);
    }
    key.before.lo ^= 1;
    assert_int_equal(kv_record_check(record, n, &form, &key), KV_RECORD_OTHER);
    key.before.lo ^= 1;
    key.last.hi ^= 1;
    assert_int_equal(kv_record_check(record, n, &form, &key), KV_RECORD_OTHER);
    key.last.hi ^= 1;
    memcpy(other_ids, ids, sizeof(ids));
    other_ids[BLOCKS * BLOCK_TOKENS - 1]++;
    key.ids = other_ids;
    assert_int_equal(kv_record_check(record, n, &form, &key), KV_RECORD_OTHER);
    assert_string_equal(kv_record_fault_name(KV_RECORD_OTHER), "other");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_add_up),          cmocka_unit_test(names_say_what_it_is),
        cmocka_unit_test(a_whole_record_is_taken),
        cmocka_unit_test(damage_is_found),       cmocka_unit_test(others_are_no_answer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
