/* tests/unit/scheduler/test_prefix_fetch.c - what passes between the engine and the thread that
 * reads from the block store. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "core/base/err.h"
#include "scheduler/prefix_fetch.h"
#include "scheduler/queue.h"
#include "tests/fixtures/failing_memory.h"

enum { EACH = 2, BYTES = 3 << 20, WAIT_MS = 50, MOST = 4 }; /* two records in a part of 8 MiB */

static struct prefix_fetch *new_fetch(void)
{
    const struct prefix_fetch_options o = {EACH, BYTES, MOST, WAIT_MS};
    struct prefix_fetch *f;

    assert_int_equal(prefix_fetch_create(&f, &o), 0);
    prefix_fetch_set(f, STORE_UP, 1);
    return f;
}

static struct request *make(uint64_t id, uint32_t n_prompt)
{
    const struct request_size size = {.n_prompt = n_prompt, .max_tokens = 1};
    struct request *r;

    assert_int_equal(request_create(&r, &size), 0);
    r->id = id;
    for (uint32_t i = 0; i < n_prompt; i++)
        r->ids[i] = (int32_t)i;
    return r;
}

/* Whether it is taken. */
static bool submit(struct prefix_fetch *f, uint64_t id, uint32_t n_prompt)
{
    struct request *r = make(id, n_prompt);
    struct fetch_prompt *list = NULL;
    bool asks;

    prefix_fetch_prepare(f, r, &list);
    asks = r->asks_store;
    assert_int_equal(asks, list != NULL);
    prefix_fetch_submit(f, &list);
    assert_null(list);
    request_destroy(&r); /* nothing of it is used any more */
    return asks;
}

/* From the post to the last part; the engine's and the reader's side in turn. */
static void a_prompt_is_read_in_parts(void **state)
{
    struct prefix_fetch *f = new_fetch();
    struct request *r = make(9, 200);
    struct fetch_work w;
    struct fetch_answer a;
    (void)state;

    kv_key_extend(&r->key, 200);
    assert_true(submit(f, 9, 200));
    assert_true(prefix_fetch_take_work(f, &w, 0));
    assert_true(w.is_probe);
    assert_int_equal(w.n, 6); /* 200 tokens: 12 blocks */
    for (uint32_t i = 0; i < w.n; i++) {
        const struct kv_record_key key = prefix_fetch_key(f, w.prompt, i);

        assert_memory_equal(&key.last, &r->key.hashes[EACH * i + 1], sizeof(key.last));
        assert_int_equal(key.ids[0], i * EACH * BLOCK_TOKENS);
        if (i > 0)
            assert_memory_equal(&key.before, &r->key.hashes[EACH * i - 1], sizeof(key.before));
    }
    assert_int_equal(prefix_fetch_key(f, w.prompt, 0).before.lo, prefix_hash_root(0).lo);
    assert_false(prefix_fetch_take_answer(f, &a));
    prefix_fetch_work_done(f, &w, 5, 77);
    assert_true(prefix_fetch_take_answer(f, &a));
    assert_true(a.kind == FETCH_FOUND && a.request == 9 && a.n == 5 * EACH && a.us == 77);
    assert_false(prefix_fetch_take_answer(f, &a));
    assert_false(prefix_fetch_take_work(f, &w, 0)); /* the engine thinks about it */
    prefix_fetch_ask(f, 9, 1 * EACH, 3 * EACH);
    assert_true(prefix_fetch_take_work(f, &w, 0));
    assert_true(!w.is_probe && w.first == 1 && w.n == 2);
    memset(w.buffer, 5, 2 * (size_t)BYTES);
    prefix_fetch_work_done(f, &w, 2, 1);
    assert_false(prefix_fetch_take_work(f, &w, 0)); /* parts come in order, one at a time */
    assert_true(prefix_fetch_take_answer(f, &a));
    assert_true(a.kind == FETCH_PART && a.first == EACH && a.n == 2 * EACH && !a.is_last);
    assert_int_equal(a.bytes[2 * (size_t)BYTES - 1], 5);
    prefix_fetch_give(f, &a);
    assert_true(prefix_fetch_take_work(f, &w, 0));
    assert_true(w.first == 3 && w.n == 1);
    prefix_fetch_work_done(f, &w, 1, 1);
    assert_true(prefix_fetch_take_answer(f, &a));
    assert_true(a.is_last && a.first == 3 * EACH && a.n == EACH);
    prefix_fetch_give(f, &a);
    assert_int_equal(prefix_fetch_n_prompts(f), 0);
    request_destroy(&r);
    prefix_fetch_destroy(&f);
}

/* A read that brings less ends there. */
static void a_read_that_fails_is_the_last(void **state)
{
    struct prefix_fetch *f = new_fetch();
    struct fetch_work w;
    struct fetch_answer a;
    (void)state;

    assert_true(submit(f, 1, 200));
    assert_true(prefix_fetch_take_work(f, &w, 0));
    prefix_fetch_work_done(f, &w, 6, 1);
    assert_true(prefix_fetch_take_answer(f, &a));
    prefix_fetch_ask(f, 1, 0, 6 * EACH);
    assert_true(prefix_fetch_take_work(f, &w, 0));
    prefix_fetch_work_done(f, &w, 1, 1);
    assert_true(prefix_fetch_take_answer(f, &a));
    assert_true(a.is_last && a.n == EACH);
    prefix_fetch_give(f, &a);
    assert_int_equal(prefix_fetch_n_prompts(f), 0);
    prefix_fetch_destroy(&f);
}

/* They are there, and asked for. */
static void read_three(struct prefix_fetch *f, const uint64_t ids[3])
{
    struct fetch_work w;
    struct fetch_answer a;

    for (int i = 0; i < 3; i++) {
        assert_true(submit(f, ids[i], 200));
        assert_true(prefix_fetch_take_work(f, &w, 0));
        prefix_fetch_work_done(f, &w, 6, 1);
        assert_true(prefix_fetch_take_answer(f, &a));
    }
    for (int i = 0; i < 3; i++)
        prefix_fetch_ask(f, ids[i], 0, 6 * EACH);
}

/* At every point; buffers come back, and a third read waits for one. */
static void drops_give_everything_back(void **state)
{
    struct prefix_fetch *f = new_fetch();
    struct fetch_work w[3];
    struct fetch_answer a;
    (void)state;

    for (uint64_t round = 0; round < 4; round++) {
        read_three(f, (const uint64_t[]){10 + round, 20 + round, 30 + round});
        assert_true(prefix_fetch_take_work(f, &w[0], 0));
        prefix_fetch_work_done(f, &w[0], 2, 1); /* an answer with a buffer */
        assert_true(prefix_fetch_take_work(f, &w[1], 0)); /* the reader is at it */
        assert_false(prefix_fetch_take_work(f, &w[2], 0)); /* no buffer */
        prefix_fetch_drop(f, 20 + round);
        prefix_fetch_drop(f, 10 + round);
        assert_false(prefix_fetch_take_answer(f, &a));
        prefix_fetch_work_done(f, &w[1], 2, 1);
        assert_false(prefix_fetch_take_answer(f, &a));
        assert_true(prefix_fetch_take_work(f, &w[2], 0));
        prefix_fetch_work_done(f, &w[2], 2, 1);
        assert_true(prefix_fetch_take_answer(f, &a));
        prefix_fetch_give(f, &a);
        prefix_fetch_drop(f, 30 + round); /* waits for its next part */
        prefix_fetch_drop(f, 30 + round); /* unknown: ignored */
        assert_int_equal(prefix_fetch_n_prompts(f), 0);
    }
    assert_true(submit(f, 1, 200));
    prefix_fetch_drop(f, 1); /* before the reader has looked */
    assert_false(prefix_fetch_take_work(f, &w[0], 0));
    prefix_fetch_destroy(&f);
}

static void only_what_is_worth_it_is_asked(void **state)
{
    struct prefix_fetch *f = new_fetch();
    struct fetch_prompt *list = NULL;
    struct request *r = make(3, 200);
    struct fetch_work w;
    (void)state;

    assert_false(submit(f, 1, EACH * BLOCK_TOKENS - 1));
    r->score_prompt = true;
    prefix_fetch_prepare(f, r, &list);
    r->score_prompt = false;
    r->prefix_owner = 2;
    prefix_fetch_prepare(f, r, &list);
    r->prefix_owner = 0;
    r->is_dry_run = true;
    prefix_fetch_prepare(f, r, &list);
    r->is_dry_run = false;
    prefix_fetch_prepare(NULL, r, &list); /* there is no store */
    assert_true(list == NULL && !r->asks_store);
    prefix_fetch_set(f, STORE_UP, 0);
    assert_false(submit(f, 4, 200));
    prefix_fetch_set(f, STORE_UP, 1);
    for (uint64_t id = 5; id < 5 + MOST; id++)
        assert_true(submit(f, id, 200));
    assert_false(submit(f, 99, 200)); /* full */
    prefix_fetch_drop(f, 5);
    assert_true(submit(f, 98, 200));
    prefix_fetch_drop(f, 98);
    assert_true(prefix_fetch_take_work(f, &w, 0));
    nanosleep(&(struct timespec){.tv_nsec = 2 * WAIT_MS * 1000000}, NULL);
    assert_false(submit(f, 97, 200)); /* the reader hangs */
    prefix_fetch_work_done(f, &w, 0, 1);
    assert_true(submit(f, 96, 200));
    request_destroy(&r);
    prefix_fetch_destroy(&f); /* with what is still in it */
}

static void memory_may_be_short(void **state)
{
    const struct prefix_fetch_options o = {EACH, BYTES, MOST, WAIT_MS};
    struct request *r = make(1, 200);
    int64_t n = 0;
    (void)state;

    while (each_failure(&n)) {
        struct fetch_prompt *list = NULL;
        struct prefix_fetch *f;
        const int rc = prefix_fetch_create(&f, &o);

        assert_int_equal(rc == 0, f != NULL);
        r->asks_store = false;
        if (rc == 0) {
            prefix_fetch_set(f, STORE_UP, 1);
            prefix_fetch_prepare(f, r, &list);
            assert_int_equal(list == NULL, mem_has_failed());
            prefix_fetch_submit(f, &list);
        }
        assert_int_equal(r->asks_store, rc == 0 && !mem_has_failed());
        prefix_fetch_destroy(&f);
    }
    assert_true(n > 4);
    request_destroy(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prompt_is_read_in_parts),
        cmocka_unit_test(a_read_that_fails_is_the_last),
        cmocka_unit_test(drops_give_everything_back),
        cmocka_unit_test(only_what_is_worth_it_is_asked),
        cmocka_unit_test(memory_may_be_short),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
