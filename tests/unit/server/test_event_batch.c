/* tests/unit/server/test_event_batch.c - KV events as bytes, and what the publisher keeps: the set
 * of blocks, the batches that were sent.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/err.h"
#include "server/kv_events/block_set.h"
#include "server/kv_events/event_batch.h"
#include "server/kv_events/sent_batches.h"
#include "tests/fixtures/failing_memory.h"
#include "tests/fixtures/random.h"

/* Block k of text t: what follows is chained, and hashes are easy to read. */
static struct kv_event block(uint32_t t, uint32_t k)
{
    struct kv_event e = {.kind = KV_EVENT_STORED, .is_first = k == 0, .hash = {t * 1000 + k, t},
                         .before = {t * 1000 + k - 1, t}};

    for (int32_t i = 0; i < BLOCK_TOKENS; i++)
        e.tokens[i] = i;
    return e;
}

#ifdef QUIRE_ZMQ
static bool has(const struct buf *b, const void *bytes, size_t n)
{
    return memmem(b->data, b->len, bytes, n) != NULL;
}

/* Two chains and a removal: three events, whose bytes are MessagePack's. */
static void chains_become_one_event(void **state)
{
    struct kv_event e[] = {block(1, 0), block(1, 1), block(2, 5), {.kind = KV_EVENT_REMOVED},
                           {.kind = KV_EVENT_REMOVED, .hash = {7, 8}}};
    const struct kv_event *events[] = {&e[0], &e[1], &e[2], &e[3], &e[4]};
    struct event_batch b = {.has_tokens = true};
    struct buf out;
    (void)state;

    buf_init(&b.body, 4096);
    buf_init(&out, 4096);
    event_batch_add(&b, events, 5);
    assert_int_equal(b.n_events, 3);
    event_batch_finish(&b, 1.5, &out);
    assert_memory_equal(out.data,
                        "\x93\xcb\x3f\xf8\0\0\0\0\0\0\x93\x88\xa4type\xab" "BlockStored", 29);
    assert_true(has(&out, "\xac" "block_hashes\x92\xc4\x10\0\0\0\0\0\0\0\1\0\0\0\0\0\0\x03\xe8\xc4",
                    33));
    assert_true(has(&out, "\xb1parent_block_hash\xc0\xa9token_ids\xdc\0\x20\0\1\2\3", 36));
    assert_true(has(&out, "\xb1parent_block_hash\xc4\x10\0\0\0\0\0\0\0\2\0\0\0\0\0\0\x07\xd4", 36));
    assert_true(has(&out, "\xa6medium\xa3GPU\xa9lora_name\xc0", 21));
    assert_true(has(&out, "\x83\xa4type\xac" "BlockRemoved\xac" "block_hashes\x92\xc4", 33));
    assert_false(has(&out, "extra_keys", 10));
    assert_int_equal(out.data[out.len - 1], 0);
    event_batch_clear(&b);
    event_batch_add_cleared(&b);
    event_batch_finish(&b, 0, &out);
    assert_int_equal(out.len, 10 + 1 + 1 + 5 + 17 + 1 - 0);
    buf_release(&b.body);
    buf_release(&out);
}

static void salts_are_told_of_the_first_block(void **state)
{
    struct kv_event e[] = {block(1, 0), block(1, 1)};
    const struct kv_event *events[] = {&e[0], &e[1]};
    struct event_batch b = {.has_tokens = false};
    struct buf out;
    (void)state;

    e[0].salt = e[1].salt = 0xabc;
    buf_init(&b.body, 4096);
    buf_init(&out, 4096);
    event_batch_add(&b, events, 2);
    event_batch_finish(&b, 0, &out);
    assert_true(has(&out, "\xaa" "extra_keys\x92\x91\xb0" "0000000000000abc\xc0", 31));
    assert_true(has(&out, "\xa9token_ids\x90", 11));
    event_batch_clear(&b);
    event_batch_add(&b, events + 1, 1);
    event_batch_finish(&b, 0, &out);
    assert_false(has(&out, "extra_keys", 10));
    buf_release(&b.body);
    buf_release(&out);
}

static void too_long_is_an_error(void **state)
{
    struct kv_event e = block(1, 0);
    const struct kv_event *events[] = {&e};
    struct event_batch b = {.has_tokens = true};
    struct buf out;
    (void)state;

    buf_init(&b.body, 100);
    buf_init(&out, 4096);
    event_batch_add(&b, events, 1);
    event_batch_finish(&b, 0, &out);
    assert_true(out.err < 0);
    event_batch_clear(&b); /* the next one is as good as any */
    event_batch_add_cleared(&b);
    event_batch_finish(&b, 0, &out);
    assert_int_equal(out.err, 0);
    buf_release(&b.body);
    buf_release(&out);
}
#endif

/* ---- the set ---- */

enum { N_PLACES = 300 };

static uint32_t find(const bool *is_in, const struct kv_event *const *list, uint32_t n)
{
    uint32_t n_right_behind = 0;
    bool seen[N_PLACES] = {false};

    for (uint32_t i = 0; i < n; i++) {
        const uint32_t t = (uint32_t)list[i]->hash.hi, k = (uint32_t)list[i]->hash.lo % 1000;

        assert_true(is_in[t * 10 + k] && !seen[t * 10 + k]);
        assert_true(k == 0 || seen[t * 10 + k - 1]); /* behind what it follows */
        seen[t * 10 + k] = true;
        n_right_behind += i > 0 && list[i - 1]->hash.lo + 1 == list[i]->hash.lo;
    }
    return n_right_behind;
}

/* 30 texts of up to 10 blocks, which grow and shrink at their ends. */
static void the_set_is_what_was_told(void **state)
{
    struct block_set *s;
    bool is_in[N_PLACES] = {false};
    uint32_t length[30] = {0}, n_blocks = 0, n;
    uint64_t rng = 7;
    (void)state;

    assert_int_equal(block_set_create(&s, N_PLACES), 0);
    for (int i = 0; i < 20000; i++) {
        const uint32_t t = random_below(&rng, 30);

        if (random_below(&rng, 2) == 0 && length[t] < 10) {
            const struct kv_event e = block(t, length[t]);

            block_set_add(s, &e);
            block_set_add(s, &e); /* again: nothing */
            is_in[t * 10 + length[t]++] = true;
            n_blocks++;
        } else if (length[t] > 0) {
            const struct kv_event e = block(t, --length[t]);

            block_set_remove(s, e.hash);
            block_set_remove(s, e.hash);
            is_in[t * 10 + length[t]] = false;
            n_blocks--;
        }
        assert_int_equal(block_set_n(s), n_blocks);
        if (i % 50 == 0) {
            const struct kv_event *const *list = block_set_list(s, &n);

            assert_int_equal(n, n_blocks);
            assert_true(find(is_in, list, n) + 30 >= n / 2); /* mostly chains in one piece */
            assert_int_equal(block_set_has(s, block(t, 0).hash), is_in[t * 10]);
        }
    }
    block_set_clear(s);
    assert_int_equal(block_set_n(s), 0);
    (void)block_set_list(s, &n);
    assert_int_equal(n, 0);
    block_set_destroy(&s);
}

static void a_full_set_leaves_the_rest_out(void **state)
{
    struct block_set *s;
    (void)state;

    assert_int_equal(block_set_create(&s, 2), 0);
    for (uint32_t k = 0; k < 3; k++) {
        const struct kv_event e = block(1, k);

        block_set_add(s, &e);
    }
    assert_int_equal(block_set_n(s), 2);
    assert_false(block_set_has(s, block(1, 2).hash));
    block_set_destroy(&s);
}

/* ---- what was sent ---- */

static void assert_range(const struct sent_batches *s, uint64_t from, uint64_t to)
{
    uint64_t a, b;

    sent_batches_range(s, &a, &b);
    assert_int_equal(a, from);
    assert_int_equal(b, to);
}

static void the_last_batches_are_kept(void **state)
{
    struct sent_batches *s;
    char bytes[100];
    size_t n;
    (void)state;

    assert_int_equal(sent_batches_create(&s, 4, 250), 0);
    assert_range(s, 0, 0);
    for (uint64_t i = 0; i < 6; i++) {
        memset(bytes, (int)i, sizeof(bytes));
        sent_batches_add(s, i, bytes, 10);
    }
    assert_range(s, 2, 6); /* by their number */
    assert_memory_equal(sent_batches_get(s, 5, &n), "\5\5\5\5\5\5\5\5\5\5", 10);
    assert_int_equal(n, 10);
    for (uint64_t i = 6; i < 9; i++)
        sent_batches_add(s, i, bytes, 100);
    assert_range(s, 7, 9); /* by their bytes */
    sent_batches_add(s, 9, bytes, 300);
    assert_range(s, 10, 10); /* too large: there is no gap */
    sent_batches_add(s, 10, bytes, 1);
    assert_range(s, 10, 11);
    sent_batches_add(s, 12, bytes, 1); /* one was lost */
    assert_range(s, 12, 13);
    sent_batches_clear(s);
    assert_range(s, 13, 13);
    sent_batches_destroy(&s);
}

static void failures(void **state)
{
    struct sent_batches *sent;
    struct block_set *set;
    int64_t n = 0;
    (void)state;

    assert_int_equal(block_set_create(&set, 0), ERR_INVAL);
    assert_int_equal(sent_batches_create(&sent, 0, 1), ERR_INVAL);
    while (each_failure(&n)) {
        const int rc = block_set_create(&set, 4);

        assert_int_equal(rc, mem_has_failed() ? ERR_NOMEM : 0);
        block_set_destroy(&set);
    }
    n = 0;
    while (each_failure(&n)) {
        const int rc = sent_batches_create(&sent, 4, 9);

        assert_int_equal(rc, mem_has_failed() ? ERR_NOMEM : 0);
        sent_batches_destroy(&sent);
    }
    assert_int_equal(sent_batches_create(&sent, 4, 9), 0);
    sent_batches_add(sent, 0, "a", 1);
    mem_fail_after(0);
    sent_batches_add(sent, 1, "b", 1); /* cannot be kept */
    mem_fail_after(-1);
    assert_range(sent, 2, 2);
    sent_batches_destroy(&sent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#ifdef QUIRE_ZMQ
        cmocka_unit_test(chains_become_one_event),
        cmocka_unit_test(salts_are_told_of_the_first_block),
        cmocka_unit_test(too_long_is_an_error),
#endif
        cmocka_unit_test(the_set_is_what_was_told),
        cmocka_unit_test(a_full_set_leaves_the_rest_out),
        cmocka_unit_test(the_last_batches_are_kept),
        cmocka_unit_test(failures),
    };

#ifndef QUIRE_ZMQ
    print_message("skip: the bytes of a batch: this build has no ZeroMQ\n");
#endif
    return cmocka_run_group_tests(tests, NULL, NULL);
}
