/* tests/unit/kvcache/kv_seqs.h - sequences of a KV manager without bytes, and what must always
 * hold.
 *
 * Thread: one.
 * Memory: the test's.
 */
#ifndef TESTS_UNIT_KVCACHE_KV_SEQS_H
#define TESTS_UNIT_KVCACHE_KV_SEQS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/err.h"
#include "core/base/mem.h"
#include "kvcache/kv_manager.h"

enum { CAP = 8, MAX_TOKENS = CAP * BLOCK_TOKENS, MAX_GROUPS = 3 };

struct seq {
    struct kv_seq kv;
    struct kv_key key;
    block_id blocks[MAX_GROUPS * CAP];
    int32_t ids[MAX_TOKENS];
    struct prefix_hash hashes[CAP];
    uint32_t n_done;
};

static inline struct kv_manager *new_manager(uint32_t n_blocks, uint32_t n_ram, uint32_t n_file)
{
    const struct kv_manager_options o = {.n_blocks = n_blocks,
                                         .prefix_cache = true,
                                         .n_ram = n_ram,
                                         .n_file = n_file,
                                         .max_sequences = 4,
                                         .max_table = CAP,
                                         .low_percent = 30,
                                         .critical_percent = 10};
    struct kv_manager *m;

    assert_int_equal(kv_manager_create(&m, &o), 0);
    return m;
}

/* The tokens 1, 2, 3, ... but `other` at position `at` (MAX_TOKENS: nowhere). */
static inline void seq_init(struct seq *s, uint32_t at, int32_t other)
{
    kv_seq_init(&s->kv, s->blocks, CAP, 1);
    s->key = (struct kv_key){.ids = s->ids, .hashes = s->hashes};
    s->n_done = 0;
    for (uint32_t i = 0; i < MAX_TOKENS; i++)
        s->ids[i] = (int32_t)i + 1;
    if (at < MAX_TOKENS)
        s->ids[at] = other;
}

static inline void check(const struct kv_manager *m)
{
    const struct block_pool_stats p = kv_manager_stats(m).pool;

    assert_int_equal(p.n_free + p.n_held + p.n_cached + p.n_pinned, p.n_blocks); /* P3 */
    assert_true(kv_manager_check(m));
}

static inline int grow(struct kv_manager *m, struct seq *s, uint32_t to)
{
    const uint32_t missing = kv_manager_missing(m, &s->kv, s->n_done, to);
    const uint64_t taken = kv_manager_stats(m).pool.n_taken;
    const int rc = kv_manager_alloc(m, &s->kv, s->n_done, to);

    assert_int_equal(kv_manager_stats(m).pool.n_taken, taken + (rc == 0 ? missing : 0));
    check(m);
    return rc;
}

static inline void compute(struct kv_manager *m, struct seq *s, uint32_t to)
{
    assert_int_equal(grow(m, s, to), 0);
    s->n_done = to;
    kv_manager_commit(m, &s->kv, &s->key, to);
    check(m);
}

static inline uint32_t attach(struct kv_manager *m, struct seq *s, uint32_t limit)
{
    const struct kv_match match = kv_manager_match(m, &s->key, limit);

    s->n_done = kv_manager_attach(m, &s->kv, &s->key, limit);
    assert_int_equal(s->kv.n_indexed, match.n_blocks);
    assert_true(s->n_done == match.n_tokens || s->n_done == match.n_blocks * BLOCK_TOKENS);
    check(m);
    return s->n_done;
}

static inline void release(struct kv_manager *m, struct seq *s)
{
    kv_manager_release(m, &s->kv);
    s->n_done = 0;
    assert_int_equal(s->kv.table.n, 0);
    assert_int_equal(s->blocks[0], BLOCK_NONE);
    check(m);
}

static inline void expect_moves(struct kv_manager *m, uint32_t n, const struct kv_move *want)
{
    uint32_t got;
    const struct kv_move *moves = kv_manager_moves(m, &got);

    assert_int_equal(got, n);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(moves[i].kind, want[i].kind);
        assert_int_equal(moves[i].from, want[i].from);
        assert_int_equal(moves[i].to, want[i].to);
    }
    kv_manager_moves_done(m);
}

#define MOVES(...) (const struct kv_move[]){__VA_ARGS__}

#endif
