/* tests/sim/sim_kv_model.h - the naive model that sim_kv_manager.c compares the KV manager with.
 *
 * It keeps all blocks that were ever entered into the prefix index and finds the longest prefix by
 * a search through all of them. snap() and expect_unchanged() hold a refused call to have changed
 * nothing.
 */
#ifndef TESTS_SIM_SIM_KV_MODEL_H
#define TESTS_SIM_SIM_KV_MODEL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "kvcache/kv_manager.h"
#include "tests/fixtures/random.h"

enum {
    MAX_BLOCKS = 320,
    MAX_RAM = 24,
    MAX_FILE = 32,
    N_SEQ = 10,
    CAP = 12,
    MAX_TOKENS = CAP * BLOCK_TOKENS,
    MAX_ENTERED = 4096,
    MAX_GROUPS = 4,
    MAX_STATES = 40,
    MAX_PARTS = 3,
};

struct seq {
    struct kv_seq kv;
    struct kv_key key;
    block_id blocks[MAX_GROUPS * CAP];
    int32_t ids[MAX_TOKENS];
    struct prefix_hash hashes[CAP];
    uint32_t n_done;   /* tokens whose bytes are there */
    uint32_t to;       /* granted by grow in this round; n_done: none */
    bool is_live;
    bool is_planned;   /* was attached, grown or swapped in this round */
    bool is_whole;     /* has committed a block boundary, and not gone back since */
    uint32_t n_kept;   /* tokens behind which its state was kept for forks, if it is still there */
};

/* A block that was entered into the index: what it holds and what it follows. */
struct entered {
    uint64_t salt, before, chain;
    int32_t ids[BLOCK_TOKENS];
    bool has_state; /* a snapshot was kept behind it */
};

struct io {
    struct swap_io io;
    bool is_late; /* transfers its bytes at its end, not its start */
};

struct sim {
    struct kv_manager *m;
    struct kv_manager_options o;
    struct seq seq[N_SEQ];
    uint64_t blocks[MAX_BLOCKS + 1][BLOCK_TOKENS];
    uint64_t ram[MAX_RAM][BLOCK_TOKENS], file[MAX_FILE][BLOCK_TOKENS];
    uint64_t states[MAX_STATES + 1][MAX_PARTS];
    struct entered entered[MAX_ENTERED];
    uint32_t n_entered;
    struct io io[SWAP_MAX_IO];
    uint32_t n_io;
    uint64_t n_exact, n_partial, n_loaded, n_lost, n_forked, n_waited;
    uint64_t n_dropped, n_hits, n_far; /* with windows: far hits have left blocks behind */
    uint64_t n_late; /* and late forks a block that as many tokens of their own would have kept */
    uint64_t n_snapshots, n_resumed, n_state_forks, n_states_loaded, n_written_over;
    struct kv_events *events;
    struct kv_event known[MAX_BLOCKS]; /* what the reader takes for the entries of the index */
    uint32_t n_known;
    bool is_whole; /* it is not in the middle of everything being sent again */
    uint64_t n_compared;
};

static uint64_t rng = 2;

static inline uint32_t rnd(uint32_t n)
{
    return random_below(&rng, n);
}

static inline uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * UINT64_C(0x9E3779B97F4A7C15);
    return h ^ h >> 29;
}

/* What a slot of a group holds behind the tokens with the hash h. */
static inline uint64_t cell(uint64_t h, uint32_t group)
{
    return h + group;
}

static inline uint32_t n_groups(const struct sim *s)
{
    return kv_groups_n(&s->o.groups);
}

static inline bool has_windows(const struct sim *s)
{
    return s->o.groups.n_window > 0;
}

static inline bool has_states(const struct sim *s)
{
    return s->o.states.n_slots > 0;
}

/* What a part of the state behind the tokens with the hash h holds. */
static inline uint64_t state_part(uint64_t h, uint32_t part)
{
    return h + 100 + part;
}

/* Sequences that hold a slot. */
static inline uint32_t n_holders(const struct sim *s, state_id slot)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < N_SEQ; i++)
        n += s->seq[i].is_live *
             ((s->seq[i].kv.state == slot) + (uint32_t)(s->seq[i].kv.fork == slot));
    return n;
}

/* Slots that no sequence holds. */
static inline uint32_t n_state_slots(const struct sim *s)
{
    uint32_t n = 0;

    for (state_id slot = 1; slot <= s->o.states.n_slots; slot++)
        n += n_holders(s, slot) == 0;
    return n;
}

static inline uint64_t chain(const struct seq *q, uint32_t n)
{
    uint64_t h = 17;

    for (uint32_t i = 0; i < n; i++)
        h = mix(h, (uint64_t)q->ids[i] + 1);
    return h;
}

/* ---- the model of what is found ---- */

static inline const struct entered *find_entered(const struct sim *s, uint64_t salt, uint64_t h)
{
    for (uint32_t i = 0; i < s->n_entered; i++)
        if (s->entered[i].salt == salt && s->entered[i].chain == h)
            return &s->entered[i];
    return NULL;
}

/* Note the blocks of a sequence that are in the index by now. */
static inline void note_entered(struct sim *s, const struct seq *q)
{
    for (uint32_t b = 0; b < q->kv.n_indexed; b++) {
        const uint64_t h = chain(q, (b + 1) * BLOCK_TOKENS);
        struct entered *e = &s->entered[s->n_entered];

        if (s->n_entered == MAX_ENTERED || find_entered(s, q->key.salt, h) != NULL)
            continue;
        e->has_state = false;
        e->salt = q->key.salt;
        e->before = chain(q, b * BLOCK_TOKENS);
        e->chain = h;
        memcpy(e->ids, q->ids + b * BLOCK_TOKENS, sizeof(e->ids));
        s->n_entered++;
    }
}

/* Has a snapshot been kept where a sequence stands? */
static inline void note_snapshot(struct sim *s, const struct seq *q)
{
    uint32_t step = s->o.states.interval * BLOCK_TOKENS;
    struct entered *e;

    for (uint32_t from = 16 * step; has_states(s) && from <= q->n_done; from *= 2)
        step *= 2;
    if (!has_states(s) || q->n_done % step != 0 || q->kv.n_indexed * BLOCK_TOKENS != q->n_done)
        return;
    for (uint32_t i = 0; i < s->n_entered; i++) {
        e = &s->entered[i];
        if (e->salt != q->key.salt || e->chain != chain(q, q->n_done))
            continue;
        s->n_snapshots += !e->has_state;
        e->has_state = true;
    }
}

static inline uint32_t in_common(const int32_t *a, const int32_t *b, uint32_t n)
{
    uint32_t i = 0;

    while (i < n && a[i] == b[i])
        i++;
    return i;
}

/* The longest prefix that was ever entered: whole blocks and n_part tokens of another one, of which
 * there are n_siblings (at the very beginning: of all salts). */
struct found {
    uint32_t n_blocks, n_part, n_siblings;
};

static inline struct found search(const struct sim *s, const struct seq *q, uint32_t limit)
{
    struct found f = {0};
    uint32_t left;
    uint64_t h;

    while ((f.n_blocks + 1) * BLOCK_TOKENS <= limit &&
           find_entered(s, q->key.salt, chain(q, (f.n_blocks + 1) * BLOCK_TOKENS)) != NULL)
        f.n_blocks++;
    if (has_states(s)) {
        while (f.n_blocks > 0 &&
               !find_entered(s, q->key.salt, chain(q, f.n_blocks * BLOCK_TOKENS))->has_state)
            f.n_blocks--;
        return f;
    }
    h = chain(q, f.n_blocks * BLOCK_TOKENS);
    left = limit - f.n_blocks * BLOCK_TOKENS;
    left = left < BLOCK_TOKENS ? left : BLOCK_TOKENS;
    for (uint32_t i = 0; i < s->n_entered; i++) {
        const struct entered *e = &s->entered[i];
        uint32_t n = 0;

        f.n_siblings += e->before == h;
        if (e->salt == q->key.salt && e->before == h)
            n = in_common(e->ids, q->ids + f.n_blocks * BLOCK_TOKENS, left);
        f.n_part = n > f.n_part ? n : f.n_part;
    }
    return f;
}

/* Never more than was ever entered; exactly that much while nothing has been evicted. */
static inline void check_match(struct sim *s, const struct seq *q, uint32_t limit,
                               struct kv_match match)
{
    const struct found f = search(s, q, limit);

    assert_true(match.n_tokens <= limit);
    assert_true(match.n_held <= match.n_blocks * kv_groups_n_full(&s->o.groups));
    assert_true(match.n_tokens / BLOCK_TOKENS == match.n_blocks);
    if (s->n_entered == MAX_ENTERED)
        return;
    assert_true(match.n_blocks <= f.n_blocks);
    assert_true(match.n_blocks < f.n_blocks || match.n_tokens % BLOCK_TOKENS <= f.n_part);
    if (kv_manager_stats(s->m).pool.n_evicted > 0 || has_windows(s) ||
        kv_manager_stats(s->m).states.slots.n_evicted > 0 || s->n_written_over > 0)
        return;
    assert_int_equal(match.n_blocks, f.n_blocks);
    if (f.n_siblings <= PREFIX_MAX_SIBLINGS)
        assert_int_equal(match.n_tokens % BLOCK_TOKENS, f.n_part);
    s->n_exact++;
}

/* ---- what nothing may change ---- */

struct snapshot {
    struct block_pool_stats pool, states;
    uint32_t n_moves, ram_used, n_indexed, n_snapshots;
    struct kv_seq kv;
    block_id blocks[MAX_GROUPS * CAP];
    block_id oldest;
};

static inline struct snapshot snap(const struct sim *s, const struct seq *q)
{
    const struct kv_manager_stats stats = kv_manager_stats(s->m);
    struct snapshot shot = {.pool = stats.pool, .states = stats.states.slots,
                            .n_snapshots = stats.states.n_snapshots,
                            .ram_used = stats.swap.ram_used, .kv = q->kv,
                            .oldest = block_pool_oldest(kv_manager_pool(s->m))};

    (void)kv_manager_moves(s->m, &shot.n_moves);
    shot.n_indexed = stats.n_indexed;
    memcpy(shot.blocks, q->blocks, sizeof(shot.blocks));
    return shot;
}

static inline void expect_unchanged(const struct sim *s, const struct seq *q,
                                    const struct snapshot *a)
{
    const struct snapshot b = snap(s, q);

    assert_int_equal(b.pool.n_free, a->pool.n_free);
    assert_int_equal(b.pool.n_held, a->pool.n_held);
    assert_int_equal(b.pool.n_cached, a->pool.n_cached);
    assert_int_equal(b.pool.n_taken, a->pool.n_taken);
    assert_int_equal(b.pool.n_given, a->pool.n_given);
    assert_int_equal(b.states.n_free, a->states.n_free);
    assert_int_equal(b.states.n_held, a->states.n_held);
    assert_int_equal(b.states.n_taken, a->states.n_taken);
    assert_int_equal(b.n_snapshots, a->n_snapshots);
    assert_int_equal(b.kv.state, a->kv.state);
    assert_int_equal(b.kv.n_state, a->kv.n_state);
    assert_int_equal(b.kv.fork, a->kv.fork);
    assert_int_equal(b.n_moves, a->n_moves);
    assert_int_equal(b.ram_used, a->ram_used);
    assert_int_equal(b.n_indexed, a->n_indexed);
    assert_int_equal(b.oldest, a->oldest);
    assert_int_equal(b.kv.table.n, a->kv.table.n);
    assert_int_equal(b.kv.n_indexed, a->kv.n_indexed);
    assert_int_equal(b.kv.first, a->kv.first);
    assert_int_equal(b.kv.swap, a->kv.swap);
    assert_memory_equal(b.blocks, a->blocks, sizeof(a->blocks));
}

static inline bool has_moves(const struct sim *s, uint32_t n)
{
    uint32_t have;

    (void)kv_manager_moves(s->m, &have);
    return have + n <= 2 * (s->o.n_blocks + s->o.n_ram + s->o.states.n_slots);
}

#endif
