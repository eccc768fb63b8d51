/* tests/unit/kvcache/test_kv_events.c - the ring of KV events: what is lost, sent again, and when
 * the other side is woken. Random traffic against the index is in sim_kv_manager.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/err.h"
#include "kvcache/kv_events.h"
#include "tests/fixtures/failing_memory.h"

enum { N_BLOCKS = 64 };

struct bench {
    struct prefix_index *index;
    struct kv_events *events;
    uint32_t n_wakes, n_rooms;
    bool is_flushed_for_room;
};

static void on_wake(void *ud)
{
    ((struct bench *)ud)->n_wakes++;
}

static void on_room(void *ud)
{
    struct bench *b = ud;

    b->n_rooms++;
    if (b->is_flushed_for_room)
        kv_events_flush(b->events, b->index);
}

static struct bench new_bench(uint32_t n_slots)
{
    struct bench b = {0};

    assert_int_equal(prefix_index_create(&b.index, N_BLOCKS, 1), 0);
    assert_int_equal(kv_events_create(&b.events, &(struct kv_events_options){.n_slots = n_slots,
                                                                             .n_blocks = N_BLOCKS}),
                     0);
    return b;
}

static void end_bench(struct bench *b)
{
    kv_events_destroy(&b->events);
    prefix_index_destroy(&b->index);
}

/* A first block of a text of its own. */
static void store(struct bench *b, block_id id, const struct kv_origin *origin)
{
    const struct prefix_hash root = prefix_hash_root(0);
    int32_t tokens[BLOCK_TOKENS];

    for (int32_t i = 0; i < BLOCK_TOKENS; i++)
        tokens[i] = (int32_t)id * 100 + i;
    assert_int_equal(prefix_index_insert(b->index, id, root, prefix_hash_next(root, tokens),
                                         PREFIX_NONE, tokens), 0);
    kv_events_stored(b->events, b->index, prefix_id_of(id), origin);
}

static void forget(struct bench *b, block_id id)
{
    kv_events_removed(b->events, b->index, prefix_id_of(id));
    prefix_index_remove(b->index, prefix_id_of(id));
}

static void an_entry_is_told_whole(void **state)
{
    struct bench b = new_bench(16);
    struct prefix_entry entry;
    struct kv_event e[4];
    (void)state;

    store(&b, 3, &(struct kv_origin){.salt = 9, .adapter = "tale"});
    assert_int_equal(kv_events_take(b.events, e, 4), 0); /* not yet flushed */
    kv_events_flush(b.events, b.index);
    assert_int_equal(kv_events_take(b.events, e, 4), 1);
    assert_true(prefix_index_get(b.index, prefix_id_of(3), &entry));
    assert_int_equal(e[0].kind, KV_EVENT_STORED);
    assert_memory_equal(&e[0].hash, &entry.hash, sizeof(entry.hash));
    assert_true(e[0].is_first);
    assert_int_equal(e[0].salt, 9);
    assert_int_equal(e[0].tokens[15], 315);
    assert_string_equal(kv_events_adapter(b.events, e[0].adapter), "tale");
    assert_null(kv_events_adapter(b.events, 0));
    forget(&b, 3);
    forget(&b, 4); /* is none */
    kv_events_flush(b.events, b.index);
    assert_int_equal(kv_events_take(b.events, e, 4), 1);
    assert_int_equal(e[0].kind, KV_EVENT_REMOVED);
    end_bench(&b);
}

/* The canonical form of XXH128: big-endian, the high half first. */
static void a_hash_has_one_name(void **state)
{
    uint8_t bytes[PREFIX_HASH_BYTES];
    (void)state;

    prefix_hash_bytes((struct prefix_hash){.lo = UINT64_C(0x0102030405060708),
                                           .hi = UINT64_C(0xf1f2f3f4f5f6f7f8)}, bytes);
    assert_memory_equal(bytes, "\xf1\xf2\xf3\xf4\xf5\xf6\xf7\xf8\x01\x02\x03\x04\x05\x06\x07\x08",
                        sizeof(bytes));
}

static void nobody_may_listen(void **state)
{
    struct bench b = new_bench(4);
    struct kv_events *none = NULL;
    (void)state;

    kv_events_stored(none, b.index, prefix_id_of(1), &(struct kv_origin){0});
    kv_events_removed(none, b.index, prefix_id_of(1));
    kv_events_flush(none, b.index);
    end_bench(&b);
}

/* Reads all there is, with the writer flushing when it is told that there is room. */
static uint32_t read_all(struct bench *b, uint32_t *n_stored)
{
    struct kv_event e[3];
    uint32_t n_begins = 0;
    size_t n;

    while ((n = kv_events_take(b->events, e, 3)) > 0)
        for (size_t i = 0; i < n; i++) {
            n_begins += e[i].kind == KV_EVENT_ALL_BEGIN;
            *n_stored = e[i].kind == KV_EVENT_ALL_BEGIN ? 0 : *n_stored;
            *n_stored += e[i].kind == KV_EVENT_STORED;
            *n_stored -= e[i].kind == KV_EVENT_REMOVED;
        }
    return n_begins;
}

static void what_is_lost_is_sent_again(void **state)
{
    struct bench b = new_bench(8);
    uint32_t n_stored = 0;
    (void)state;

    kv_events_on_room(b.events, on_room, &b);
    b.is_flushed_for_room = true;
    for (block_id id = 1; id <= 40; id++)
        store(&b, id, &(struct kv_origin){0});
    forget(&b, 40);
    kv_events_flush(b.events, b.index); /* the ring is full, and stays it */
    assert_int_equal(kv_events_stats(b.events).n_resent, 0);
    assert_true(kv_events_stats(b.events).n_dropped > 0);
    assert_int_equal(read_all(&b, &n_stored), 1);
    assert_int_equal(n_stored, 39);
    assert_true(b.n_rooms >= 10);
    assert_int_equal(kv_events_stats(b.events).n_resent, 1);
    store(&b, 40, &(struct kv_origin){0}); /* all is told again: this alone */
    kv_events_flush(b.events, b.index);
    assert_int_equal(read_all(&b, &n_stored), 0);
    assert_int_equal(n_stored, 40);
    end_bench(&b);
}

/* While everything is being sent again: entries that are to come need not be told of twice. */
static void changes_in_between_are_told_once(void **state)
{
    struct bench b = new_bench(8);
    struct kv_event e[8];
    uint32_t n_stored = 0;
    (void)state;

    for (block_id id = 1; id <= 20; id++)
        store(&b, id, &(struct kv_origin){0});
    kv_events_flush(b.events, b.index);
    assert_int_equal(kv_events_take(b.events, e, 8), 8);
    kv_events_flush(b.events, b.index); /* BEGIN and 1 to 7 */
    assert_int_equal(kv_events_take(b.events, e, 8), 8);
    assert_int_equal(e[0].kind, KV_EVENT_ALL_BEGIN);
    forget(&b, 20);                     /* has not come: nothing to tell */
    store(&b, 21, &(struct kv_origin){0});
    forget(&b, 2);                      /* has come */
    kv_events_flush(b.events, b.index);
    assert_int_equal(kv_events_take(b.events, e, 8), 8);
    assert_int_equal(e[0].kind, KV_EVENT_REMOVED);
    kv_events_on_room(b.events, on_room, &b);
    b.is_flushed_for_room = true;
    kv_events_flush(b.events, b.index);
    assert_int_equal(read_all(&b, &n_stored), 0);
    assert_int_equal(7 - 1 + 7 + n_stored, prefix_index_n(b.index));
    end_bench(&b);
}

static void who_sleeps_is_woken_once(void **state)
{
    struct bench b = new_bench(8);
    struct kv_event e[8];
    (void)state;

    kv_events_on_wake(b.events, on_wake, &b);
    store(&b, 1, &(struct kv_origin){0});
    kv_events_flush(b.events, b.index);
    assert_int_equal(b.n_wakes, 0); /* it is awake */
    assert_false(kv_events_sleep(b.events));
    (void)kv_events_take(b.events, e, 8);
    assert_true(kv_events_sleep(b.events));
    kv_events_flush(b.events, b.index); /* nothing new */
    assert_int_equal(b.n_wakes, 0);
    for (block_id id = 2; id <= 4; id++) {
        store(&b, id, &(struct kv_origin){0});
        kv_events_flush(b.events, b.index);
    }
    assert_int_equal(b.n_wakes, 1);
    end_bench(&b);
}

static void adapters_beyond_the_table_are_one(void **state)
{
    struct bench b = new_bench(8);
    struct kv_event e;
    char name[16];
    (void)state;

    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof(name), "a%d", i);
        store(&b, 1, &(struct kv_origin){.adapter = name});
        kv_events_flush(b.events, b.index);
        assert_int_equal(kv_events_take(b.events, &e, 1), 1);
        assert_string_equal(kv_events_adapter(b.events, e.adapter),
                            i < KV_EVENTS_MAX_ADAPTERS - 1 ? name : "?");
        forget(&b, 1);
        kv_events_flush(b.events, b.index);
        assert_int_equal(kv_events_take(b.events, &e, 1), 1);
    }
    end_bench(&b);
}

/* ---- two threads ---- */

struct race {
    struct bench b;
    pthread_mutex_t lock; /* the engine's queue: what waits for room or events waits here */
    pthread_cond_t changed;
    bool is_awake, has_room;
    atomic_bool is_over;
    uint32_t known[N_BLOCKS + 1]; /* the first token of what the reader has, by id; 0: nothing */
    bool is_whole;
};

static void set(struct race *r, bool *flag)
{
    pthread_mutex_lock(&r->lock);
    *flag = true;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

static void wait_for(struct race *r, bool *flag)
{
    pthread_mutex_lock(&r->lock);
    while (!*flag)
        pthread_cond_wait(&r->changed, &r->lock);
    *flag = false;
    pthread_mutex_unlock(&r->lock);
}

static void race_wake(void *ud)
{
    set(ud, &((struct race *)ud)->is_awake);
}

static void race_room(void *ud)
{
    set(ud, &((struct race *)ud)->has_room);
}

static void *read_on(void *ud)
{
    struct race *r = ud;
    struct kv_event e[5];

    for (;;) {
        const bool is_over = atomic_load(&r->is_over);
        const size_t n = kv_events_take(r->b.events, e, 5);

        for (size_t i = 0; i < n; i++) {
            if (e[i].kind == KV_EVENT_ALL_BEGIN)
                memset(r->known, 0, sizeof(r->known));
            if (e[i].kind == KV_EVENT_STORED)
                r->known[e[i].tokens[0] / 100]++;
            r->is_whole = e[i].kind == KV_EVENT_ALL_BEGIN ? false
                          : e[i].kind == KV_EVENT_ALL_END ? true : r->is_whole;
        }
        if (n == 0 && is_over)
            return NULL;
        if (n == 0 && kv_events_sleep(r->b.events))
            wait_for(r, &r->is_awake);
    }
}

/* A writer that only waits where it is told to, and a reader that does: none is forgotten, and in
 * the end the reader has all. */
static void neither_side_is_forgotten(void **state)
{
    static struct race r;
    pthread_t reader;
    (void)state;

    for (int round = 0; round < 300; round++) {
        memset(&r, 0, sizeof(r));
        r.b = new_bench(4 + (uint32_t)round % 13);
        r.is_whole = true;
        pthread_mutex_init(&r.lock, NULL);
        pthread_cond_init(&r.changed, NULL);
        kv_events_on_wake(r.b.events, race_wake, &r);
        kv_events_on_room(r.b.events, race_room, &r);
        assert_int_equal(pthread_create(&reader, NULL, read_on, &r), 0);
        for (block_id id = 1; id <= N_BLOCKS; id++) {
            store(&r.b, id, &(struct kv_origin){0});
            if (id % 7 == (block_id)round % 7)
                kv_events_flush(r.b.events, r.b.index);
        }
        kv_events_flush(r.b.events, r.b.index);
        while (kv_events_is_behind(r.b.events)) {
            wait_for(&r, &r.has_room);
            kv_events_flush(r.b.events, r.b.index);
        }
        atomic_store(&r.is_over, true);
        set(&r, &r.is_awake);
        pthread_join(reader, NULL);
        assert_true(r.is_whole);
        for (block_id id = 1; id <= N_BLOCKS; id++)
            assert_int_equal(r.known[id], 1);
        end_bench(&r.b);
    }
}

static void sizes_and_failures(void **state)
{
    struct kv_events *e;
    int64_t n = 0;
    (void)state;

    assert_int_equal(kv_events_create(&e, &(struct kv_events_options){3, 1}), ERR_INVAL);
    assert_int_equal(kv_events_create(&e, &(struct kv_events_options){4, 0}), ERR_INVAL);
    while (each_failure(&n)) {
        const int rc = kv_events_create(&e, &(struct kv_events_options){4, 1});

        assert_int_equal(rc, mem_has_failed() ? ERR_NOMEM : 0);
        assert_int_equal(e == NULL, rc < 0);
        kv_events_destroy(&e);
    }
    kv_events_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_entry_is_told_whole),
        cmocka_unit_test(a_hash_has_one_name),
        cmocka_unit_test(nobody_may_listen),
        cmocka_unit_test(what_is_lost_is_sent_again),
        cmocka_unit_test(changes_in_between_are_told_once),
        cmocka_unit_test(who_sleeps_is_woken_once),
        cmocka_unit_test(adapters_beyond_the_table_are_one),
        cmocka_unit_test(neither_side_is_forgotten),
        cmocka_unit_test(sizes_and_failures),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
