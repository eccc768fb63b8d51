/* tests/sim/sim_kv_manager.c - the KV manager with made-up bytes, against a naive model.
 *
 * The bytes of a token's keys and values are the hash of all tokens up to it and of the group of
 * layers, which is what they depend on in a real model. Some runs have one group, others several of
 * which some have a window. Every block, RAM slot and file slot is an array of 16 of them. Random
 * rounds of planning are followed by the moves, the writing and the I/O, as in the engine; then
 * each sequence must read its own tokens everywhere (in groups with a window: where it looks), a
 * block that is written must be in one table only, and what the prefix cache finds is compared with
 * a search through all that was entered. In some runs sequences have recurrent states besides: the
 * hash of all tokens that a state is behind of. And a reader of the events, often through a ring
 * that is too small, has the entries of the index whenever it has read all of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/err.h"
#include "kvcache/kv_manager.h"
#include "tests/fixtures/random.h"
#include "tests/sim/sim_ops.h"

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

static struct sim sim;
static uint64_t rng = 2;

static uint32_t rnd(uint32_t n)
{
    return random_below(&rng, n);
}

static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * UINT64_C(0x9E3779B97F4A7C15);
    return h ^ h >> 29;
}

/* What a slot of a group holds behind the tokens with the hash h. */
static uint64_t cell(uint64_t h, uint32_t group)
{
    return h + group;
}

static uint32_t n_groups(const struct sim *s)
{
    return kv_groups_n(&s->o.groups);
}

static bool has_windows(const struct sim *s)
{
    return s->o.groups.n_window > 0;
}

static bool has_states(const struct sim *s)
{
    return s->o.states.n_slots > 0;
}

/* What a part of the state behind the tokens with the hash h holds. */
static uint64_t state_part(uint64_t h, uint32_t part)
{
    return h + 100 + part;
}

/* Sequences that hold a slot. */
static uint32_t n_holders(const struct sim *s, state_id slot)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < N_SEQ; i++)
        n += s->seq[i].is_live *
             ((s->seq[i].kv.state == slot) + (uint32_t)(s->seq[i].kv.fork == slot));
    return n;
}

/* Slots that no sequence holds. */
static uint32_t n_state_slots(const struct sim *s)
{
    uint32_t n = 0;

    for (state_id slot = 1; slot <= s->o.states.n_slots; slot++)
        n += n_holders(s, slot) == 0;
    return n;
}

static uint64_t chain(const struct seq *q, uint32_t n)
{
    uint64_t h = 17;

    for (uint32_t i = 0; i < n; i++)
        h = mix(h, (uint64_t)q->ids[i] + 1);
    return h;
}

/* ---- the model of what is found ---- */

static const struct entered *find_entered(const struct sim *s, uint64_t salt, uint64_t h)
{
    for (uint32_t i = 0; i < s->n_entered; i++)
        if (s->entered[i].salt == salt && s->entered[i].chain == h)
            return &s->entered[i];
    return NULL;
}

/* Note the blocks of a sequence that are in the index by now. */
static void note_entered(struct sim *s, const struct seq *q)
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
static void note_snapshot(struct sim *s, const struct seq *q)
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

static uint32_t in_common(const int32_t *a, const int32_t *b, uint32_t n)
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

static struct found search(const struct sim *s, const struct seq *q, uint32_t limit)
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
static void check_match(struct sim *s, const struct seq *q, uint32_t limit, struct kv_match match)
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

static struct snapshot snap(const struct sim *s, const struct seq *q)
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

static void expect_unchanged(const struct sim *s, const struct seq *q, const struct snapshot *a)
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

static bool has_moves(const struct sim *s, uint32_t n)
{
    uint32_t have;

    (void)kv_manager_moves(s->m, &have);
    return have + n <= 2 * (s->o.n_blocks + s->o.n_ram + s->o.states.n_slots);
}

/* ---- the reader of the events ---- */

static bool is_same_hash(struct prefix_hash a, struct prefix_hash b)
{
    return a.lo == b.lo && a.hi == b.hi;
}

/* Where the hash is known; n_known: nowhere. */
static uint32_t known_at(const struct sim *s, struct prefix_hash hash)
{
    uint32_t i = 0;

    while (i < s->n_known && !is_same_hash(s->known[i].hash, hash))
        i++;
    return i;
}

static void apply_event(struct sim *s, const struct kv_event *e)
{
    const uint32_t at = known_at(s, e->hash);

    switch (e->kind) {
    case KV_EVENT_STORED:
        assert_int_equal(at, s->n_known);
        assert_true(s->n_known < MAX_BLOCKS);
        assert_true(!s->is_whole || e->is_first || known_at(s, e->before) < s->n_known);
        s->known[s->n_known++] = *e;
        break;
    case KV_EVENT_REMOVED:
        assert_true(at < s->n_known);
        s->known[at] = s->known[--s->n_known];
        break;
    case KV_EVENT_ALL_BEGIN:
        s->n_known = 0;
        s->is_whole = false;
        break;
    case KV_EVENT_ALL_END:
        s->is_whole = true;
        break;
    }
}

static size_t read_events(struct sim *s)
{
    struct kv_event batch[16];
    const size_t n = kv_events_take(s->events, batch, 1 + rnd(16));

    for (size_t i = 0; i < n; i++)
        apply_event(s, &batch[i]);
    return n;
}

/* A pause: the engine flushes while the reader reads, until nothing is left. */
static void check_known(struct sim *s)
{
    static struct prefix_hash hashes[MAX_BLOCKS];
    uint32_t n;

    do
        kv_manager_flush_events(s->m);
    while (read_events(s) > 0);
    assert_true(s->is_whole);
    assert_true(kv_events_sleep(s->events));
    n = kv_manager_hashes(s->m, hashes);
    assert_int_equal(n, s->n_known);
    for (uint32_t i = 0; i < n; i++) {
        const struct kv_event *e = &s->known[known_at(s, hashes[i])];

        assert_true(e < s->known + n);
        assert_true(is_same_hash(prefix_hash_next(e->is_first ? prefix_hash_root(e->salt)
                                                              : e->before, e->tokens), e->hash));
        assert_true(e->is_first || known_at(s, e->before) < n);
    }
    s->n_compared++;
}

/* ---- planning ---- */

/* One of a few documents up to a random place, then something of its own. */
static void make_ids(struct seq *q)
{
    const uint32_t document = rnd(4), own = rnd(MAX_TOKENS + 1), word = rnd(3);

    for (uint32_t i = 0; i < MAX_TOKENS; i++)
        q->ids[i] = (int32_t)(i < own ? document * 100 + i % 7 : 1000 + word + rnd(2));
}

static void op_arrive(struct sim *s, struct seq *q)
{
    const uint32_t limit = rnd(MAX_TOKENS);
    struct kv_match match;

    kv_seq_init(&q->kv, q->blocks, CAP, n_groups(s));
    make_ids(q);
    q->key = (struct kv_key){.ids = q->ids, .hashes = q->hashes, .salt = rnd(2)};
    q->key.origin.salt = q->key.salt;
    if (rnd(2) == 0)
        kv_key_extend(&q->key, rnd(MAX_TOKENS));
    match = kv_manager_match(s->m, &q->key, limit);
    check_match(s, q, limit, match);
    q->n_done = q->to = kv_manager_attach(s->m, &q->kv, &q->key, limit);
    if (q->n_done != match.n_tokens)
        assert_int_equal(q->n_done, match.n_blocks * BLOCK_TOKENS); /* no room for the part */
    s->n_partial += q->n_done % BLOCK_TOKENS != 0;
    assert_int_equal(q->kv.n_indexed, match.n_blocks);
    assert_int_equal(q->kv.table.n, block_table_needed(q->n_done));
    assert_int_equal(q->kv.state != STATE_NONE, has_states(s) && q->n_done > 0);
    s->n_resumed += q->kv.state != STATE_NONE;
    s->n_hits += has_windows(s) && q->n_done > 0;
    s->n_far += q->kv.first > 0;
    q->is_live = true;
    q->is_planned = true;
    q->is_whole = false;
    q->n_kept = 0;
}

/* Is there a slot that a sequence may write its state to, or can it have one? */
static bool has_state_room(const struct sim *s, const struct seq *q)
{
    const bool keeps = q->kv.fork != STATE_NONE && q->kv.fork != q->kv.state;

    return !has_states(s) || n_state_slots(s) > 0 || (keeps && n_holders(s, q->kv.fork) == 1) ||
           (q->kv.state != STATE_NONE &&
            n_holders(s, q->kv.state) == 1 + (uint32_t)(q->kv.fork == q->kv.state));
}

/* Where a chunk is to end: anywhere, at the end of a block, or where a snapshot is kept. */
static uint32_t some_end(const struct sim *s, const struct seq *q)
{
    const uint32_t spec = q->n_done + (rnd(8) == 0 ? MAX_TOKENS + 20 - q->n_done : rnd(40));
    const uint32_t left = kv_manager_to_snapshot(s->m, q->n_done);

    if (left < MAX_TOKENS && rnd(2) == 0)
        return q->n_done + left;
    return rnd(3) == 0 ? block_table_needed(spec) * BLOCK_TOKENS : spec;
}

static void op_grow(struct sim *s, struct seq *q)
{
    const uint32_t to = some_end(s, q);
    const uint32_t most = to - q->n_done;
    const uint32_t missing = kv_manager_missing(s->m, &q->kv, q->n_done, to);
    const bool fits = missing <= kv_manager_n_available(s->m) && has_moves(s, missing) &&
                      (has_state_room(s, q) || q->n_done >= to);
    const uint64_t owed = kv_manager_owed(s->m, &q->kv, q->n_done, to);
    const uint32_t room = kv_manager_room(s->m, &q->kv, q->n_done);
    const struct snapshot before = snap(s, q);
    const int rc = kv_manager_alloc(s->m, &q->kv, q->n_done, to);

    if (s->o.max_chunk == 0 || most <= s->o.max_chunk || !has_windows(s))
        assert_true(owed == missing);
    else
        assert_true(owed <= missing);
    assert_int_equal(missing <= before.pool.n_free + before.pool.n_cached, most <= room);
    if (to > MAX_TOKENS)
        assert_int_equal(rc, ERR_RANGE);
    else if (missing <= kv_manager_n_available(s->m) && !has_moves(s, missing + 1))
        assert_true(rc == 0 || rc == ERR_AGAIN); /* not all that is missing needs a move */
    else
        assert_int_equal(rc, fits ? 0 : ERR_AGAIN);
    if (rc < 0) {
        expect_unchanged(s, q, &before);
        return;
    }
    assert_int_equal(kv_manager_stats(s->m).pool.n_taken, before.pool.n_taken + missing);
    if (q->kv.table.n == block_table_needed(to) && (s->o.max_chunk == 0 || most <= s->o.max_chunk))
        assert_true(kv_manager_n_mapped(s->m, &q->kv) <=
                    kv_groups_peak(&s->o.groups, to, s->o.max_chunk));
    if (has_states(s) && q->n_done < to) {
        assert_int_not_equal(q->kv.state, STATE_NONE);
        s->n_written_over += q->kv.state == before.kv.state &&
                             kv_manager_stats(s->m).states.n_snapshots < before.n_snapshots;
    }
    q->to = to > q->n_done ? to : q->n_done;
    q->is_planned = true;
}

/* Does a group's query at position `at` look at a token? */
static bool is_seen(const struct sim *s, uint32_t at, uint32_t group, uint32_t pos)
{
    return group < kv_groups_n_full(&s->o.groups) || pos + s->o.groups.window > at;
}

/* Is all there that the query behind the first n tokens looks at? That much the manager must know
 * (of a query that looks at nothing but itself it may say no), and from the last token before a
 * block boundary on it must be so. */
static bool can_go_on(const struct sim *s, const struct seq *q, uint32_t n)
{
    const uint32_t end = q->n_done / BLOCK_TOKENS * BLOCK_TOKENS;
    const bool can = kv_manager_can_fork(s->m, &q->kv, n);
    bool is_there = true;

    for (uint32_t pos = 0; pos < n; pos++)
        for (uint32_t group = 0; group < n_groups(s); group++)
            is_there &= !is_seen(s, n, group, pos) ||
                        q->blocks[group * CAP + pos / BLOCK_TOKENS] != BLOCK_NONE;
    if (has_states(s) && n > 0) {
        assert_true(!can || (is_there && n == q->n_kept));
        assert_true(can || n != q->n_kept || q->kv.fork == STATE_NONE || has_windows(s) ||
                    n_state_slots(s) == 0);
        return can;
    }
    assert_true(can == is_there || (is_there && (n == 0 || s->o.groups.window == 1)));
    assert_true(can || n + 1 < end || !q->is_whole);
    return can;
}

static void op_release(struct sim *s, struct seq *q)
{
    kv_manager_release(s->m, &q->kv);
    assert_int_equal(q->kv.table.n, 0);
    assert_int_equal(q->kv.n_indexed, 0);
    assert_int_equal(q->kv.swap, SWAP_NONE);
    assert_int_equal(q->kv.state, STATE_NONE);
    q->is_live = false;
}

/* Go back, as far as its blocks allow, and do the rest differently. */
static void op_rewind(const struct sim *s, struct seq *q)
{
    const uint32_t n = q->n_done > 0 ? rnd(q->n_done) : 0;

    if (!can_go_on(s, q, n) || has_states(s))
        return;
    q->is_whole = false;
    q->n_done = q->to = n;
    for (uint32_t i = n; i < MAX_TOKENS; i++)
        q->ids[i] = (int32_t)(2000 + rnd(2));
    if (q->key.n_hashed > n / BLOCK_TOKENS)
        q->key.n_hashed = n / BLOCK_TOKENS;
}

/* Of all that is computed, of all but the last token, or of any number; with states of as many as
 * one was kept for. */
static uint32_t some_beginning(const struct sim *s, const struct seq *parent)
{
    const uint32_t back = rnd(2);

    if (has_states(s) && rnd(4) != 0)
        return parent->n_kept;
    return rnd(3) == 0 ? rnd(parent->n_done + 1)
                       : parent->n_done - (back < parent->n_done ? back : 0);
}

/* The parent may write into the last block in this round: part from it at once. */
static void part_from_parent(struct sim *s, struct seq *child)
{
    s->n_state_forks++;
    assert_int_not_equal(child->kv.state, STATE_NONE);
    if (kv_manager_alloc(s->m, &child->kv, child->n_done, child->n_done + 1) < 0)
        op_release(s, child);
    else
        child->to = child->n_done + 1;
}

static void op_fork(struct sim *s, struct seq *child, const struct seq *parent)
{
    const uint32_t held = kv_manager_stats(s->m).pool.n_held;
    const uint32_t n = some_beginning(s, parent);

    if (!can_go_on(s, parent, n))
        return;
    *child = *parent;
    kv_seq_init(&child->kv, child->blocks, CAP, n_groups(s));
    child->key.ids = child->ids;
    child->key.hashes = child->hashes;
    kv_manager_fork(s->m, &child->kv, &parent->kv, n);
    assert_int_equal(child->kv.table.n, block_table_needed(n));
    assert_int_equal(child->kv.n_indexed, parent->kv.n_indexed < n / BLOCK_TOKENS
                                              ? parent->kv.n_indexed : n / BLOCK_TOKENS);
    assert_int_equal(kv_manager_stats(s->m).pool.n_held, held);
    s->n_late += has_windows(s) && child->kv.first > kv_groups_first(&s->o.groups, n);
    child->is_whole = false;
    child->n_kept = 0;
    child->n_done = child->to = n;
    for (uint32_t i = n; i < MAX_TOKENS && rnd(3) == 0; i++)
        child->ids[i] = (int32_t)(3000 + rnd(2));
    child->key.n_hashed = n / BLOCK_TOKENS < child->key.n_hashed ? n / BLOCK_TOKENS
                                                                 : child->key.n_hashed;
    child->is_planned = true;
    s->n_forked++;
    if (has_states(s) && n > 0 && n < MAX_TOKENS)
        part_from_parent(s, child);
}

static void op_swap_out(struct sim *s, struct seq *q)
{
    const bool can = kv_manager_can_swap_out(s->m, &q->kv, q->n_done);
    const uint32_t held = kv_manager_n_swapped(s->m, &q->kv, q->n_done);
    const struct snapshot before = snap(s, q);
    const int rc = kv_manager_swap_out(s->m, &q->kv, q->n_done);

    assert_int_equal(rc, can ? 0 : ERR_AGAIN);
    if (rc < 0) {
        expect_unchanged(s, q, &before);
        return;
    }
    assert_int_equal(kv_manager_stats(s->m).swap.ram_used, before.ram_used + held);
    assert_int_equal(q->kv.table.n, 0);
    q->to = q->n_done;
}

static void op_swap_in(struct sim *s, struct seq *q)
{
    const enum swap_state place = kv_manager_where(s->m, &q->kv);
    const struct kv_match match = kv_manager_match(s->m, &q->key, q->n_done / 16 * 16);
    const uint32_t n_load = n_groups(s) * (block_table_needed(q->n_done) - match.n_blocks);
    const uint32_t n_cached = n_groups(s) * match.n_blocks - match.n_held;
    const bool fits = n_load <= kv_manager_n_available(s->m) - n_cached && has_moves(s, n_load);
    const bool is_sure = !has_windows(s) && !has_states(s);
    const struct snapshot before = snap(s, q);
    const int rc = kv_manager_swap_in(s->m, &q->kv, &q->key, q->n_done);

    if (place == SWAP_LOST)
        assert_int_equal(rc, ERR_IO);
    else if (place == SWAP_FILE || place == SWAP_READING)
        assert_int_equal(rc, ERR_BUSY);
    else if (!is_sure) /* a window needs less, and an entry may lack some; blocks without a
                        * snapshot are shared too */
        assert_true(rc == 0 || (rc == ERR_AGAIN &&
                                (!fits || has_windows(s) || n_state_slots(s) == 0 ||
                                 !has_moves(s, n_load + MAX_PARTS))));
    else
        assert_int_equal(rc, fits ? 0 : ERR_AGAIN);
    if (rc < 0) {
        expect_unchanged(s, q, &before);
        assert_int_equal(kv_manager_where(s->m, &q->kv), place);
        if (place == SWAP_LOST) {
            s->n_lost++;
            op_release(s, q);
        }
        return;
    }
    assert_true(q->kv.n_indexed == match.n_blocks || !is_sure);
    assert_int_equal(q->kv.state != STATE_NONE, has_states(s));
    s->n_states_loaded += has_states(s);
    s->n_loaded += n_load;
    q->is_planned = true;
}

static void op_fetch(struct sim *s, struct seq *q)
{
    const enum swap_state place = kv_manager_where(s->m, &q->kv);
    const int rc = kv_manager_fetch(s->m, &q->kv);

    assert_true(place == SWAP_LOST ? rc == ERR_IO : rc == 0 || rc == ERR_AGAIN);
    s->n_waited += place == SWAP_FILE;
    if (rc == 0 && place == SWAP_FILE)
        assert_int_equal(kv_manager_where(s->m, &q->kv), SWAP_READING);
}

static void plan_op(struct sim *s)
{
    struct seq *q = &s->seq[rnd(N_SEQ)], *other = &s->seq[rnd(N_SEQ)];
    const uint32_t kind = rnd(32);

    if (!q->is_live)
        op_arrive(s, q);
    else if (q->kv.swap != SWAP_NONE)
        kind < 16 ? op_swap_in(s, q) : kind < 28 ? op_fetch(s, q) : op_release(s, q);
    else if (q->is_planned && has_states(s) && kind >= 20 && kind < 26 && !other->is_live)
        op_fork(s, other, q); /* also of one that goes on in this round */
    else if (q->is_planned && kind < 26)
        return; /* once a round */
    else if (kind < 18)
        op_grow(s, q);
    else if (kind < 22)
        op_swap_out(s, q);
    else if (kind < 23 && !q->is_planned)
        op_rewind(s, q);
    else if (kind < 26 && !other->is_live)
        op_fork(s, other, q);
    else if (kind >= 29)
        op_release(s, q);
}

/* ---- carrying out ---- */

static void run_moves(struct sim *s)
{
    uint32_t n;
    const struct kv_move *moves = kv_manager_moves(s->m, &n);

    for (uint32_t i = 0; i < n; i++) {
        const struct kv_move *v = &moves[i];
        uint64_t *to = v->kind == KV_SAVE ? s->ram[v->to] : s->blocks[v->to];
        const uint64_t *from = v->kind == KV_LOAD ? s->ram[v->from] : s->blocks[v->from];

        if (v->kind == KV_COPY_STATE)
            memcpy(s->states[v->to], s->states[v->from], sizeof(s->states[0]));
        else if (v->kind == KV_SAVE_STATE)
            s->ram[v->to][0] = s->states[v->from][v->part];
        else if (v->kind == KV_LOAD_STATE)
            s->states[v->to][v->part] = s->ram[v->from][0];
        else
            memcpy(to, from, sizeof(s->blocks[0]));
    }
    kv_manager_moves_done(s->m);
}

/* In how many tables a block stands. */
static uint32_t n_tables(const struct sim *s, block_id id)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < N_SEQ; i++)
        for (uint32_t group = 0; s->seq[i].is_live && group < n_groups(s); group++)
            for (uint32_t b = 0; b < s->seq[i].kv.table.n; b++)
                n += s->seq[i].blocks[group * CAP + b] == id;
    return n;
}

/* The state goes on to the tokens with the hash h, in a slot that nobody else sees. */
static void write_state(struct sim *s, const struct seq *q, uint64_t h)
{
    assert_int_equal(n_holders(s, q->kv.state), 1);
    for (uint32_t part = 0; part < s->o.states.n_parts; part++)
        s->states[q->kv.state][part] = state_part(h, part);
}

static void write_tokens(struct sim *s, struct seq *q)
{
    uint64_t h = chain(q, q->n_done);

    for (uint32_t pos = q->n_done; pos < q->to; pos++) {
        block_id block;
        uint32_t slot;

        h = mix(h, (uint64_t)q->ids[pos] + 1);
        for (uint32_t group = 0; group < n_groups(s); group++) {
            assert_true(block_table_locate(&q->kv.table, group, pos, &block, &slot));
            assert_int_equal(n_tables(s, block), 1);
            s->blocks[block][slot] = cell(h, group);
        }
    }
    if (has_states(s))
        write_state(s, q, h);
    s->n_dropped += kv_groups_first(&s->o.groups, q->to) - kv_groups_first(&s->o.groups, q->n_done);
    q->is_whole |= q->to / BLOCK_TOKENS > q->n_done / BLOCK_TOKENS;
    q->n_done = q->to;
    kv_manager_commit(s->m, &q->kv, &q->key, q->n_done);
    note_entered(s, q);
    note_snapshot(s, q);
    if (has_states(s) && rnd(6) == 0) {
        kv_manager_keep_fork(s->m, &q->kv);
        q->n_kept = q->n_done;
    } else if (rnd(20) == 0) {
        kv_manager_drop_fork(s->m, &q->kv);
    }
}

static void transfer(struct sim *s, const struct swap_io *io, bool fails)
{
    for (uint32_t b = 0; b < io->n; b++) {
        uint64_t *to = io->is_write ? s->file[io->file[b]] : s->ram[io->ram[b]];
        const uint64_t *from = io->is_write ? s->ram[io->ram[b]] : s->file[io->file[b]];

        if (fails)
            memset(to, 0xdd, sizeof(s->ram[0]));
        else
            memcpy(to, from, sizeof(s->ram[0]));
    }
}

static void start_io(struct sim *s)
{
    struct swap_io io;

    while (rnd(4) != 0 && kv_manager_next_io(s->m, &io)) {
        assert_true(s->n_io < SWAP_MAX_IO);
        s->io[s->n_io] = (struct io){.io = io, .is_late = rnd(2) == 0};
        if (!s->io[s->n_io].is_late)
            transfer(s, &io, false);
        s->n_io++;
    }
    assert_int_equal(kv_manager_n_io(s->m), s->n_io);
}

static void finish_io(struct sim *s)
{
    while (s->n_io > 0 && rnd(2) == 0) {
        const uint32_t i = rnd(s->n_io);
        const struct io io = s->io[i];
        const bool fails = rnd(8) == 0;

        if (fails || io.is_late)
            transfer(s, &io.io, fails);
        s->io[i] = s->io[--s->n_io];
        kv_manager_io_done(s->m, io.io.copy, fails ? ERR_IO : 0);
    }
}

/* ---- checking ---- */

static void check_state(const struct sim *s, const struct seq *q)
{
    const uint64_t h = chain(q, q->n_done);

    if (!has_states(s) || q->kv.swap != SWAP_NONE || q->n_done == 0)
        return;
    assert_int_equal(q->kv.n_state, q->n_done);
    for (uint32_t part = 0; part < s->o.states.n_parts; part++)
        assert_true(s->states[q->kv.state][part] == state_part(h, part));
}

/* What a sequence would read is its own. */
static void check_bytes(const struct sim *s, const struct seq *q)
{
    uint64_t h = chain(q, 0);

    check_state(s, q);
    for (uint32_t pos = 0; q->kv.swap == SWAP_NONE && !s->o.states.is_alone && pos < q->n_done;
         pos++) {
        h = mix(h, (uint64_t)q->ids[pos] + 1);
        for (uint32_t group = 0; group < n_groups(s); group++) {
            const block_id block = q->blocks[group * CAP + pos / BLOCK_TOKENS];

            if (!is_seen(s, q->n_done, group, pos))
                continue;
            assert_int_not_equal(block, BLOCK_NONE);
            assert_true(s->blocks[block][pos % BLOCK_TOKENS] == cell(h, group));
        }
    }
}

/* Groups with the window have the blocks that they are said to have, and no others. */
static void check_table(const struct sim *s, const struct seq *q)
{
    uint32_t n = 0;

    for (uint32_t group = 0; group < n_groups(s); group++)
        for (uint32_t b = 0; b < CAP; b++) {
            const bool is_mapped =
                b < q->kv.table.n && (group < kv_groups_n_full(&s->o.groups) || b >= q->kv.first);

            assert_int_equal(q->blocks[group * CAP + b] != BLOCK_NONE, is_mapped);
            n += is_mapped;
        }
    assert_int_equal(n, kv_manager_n_mapped(s->m, &q->kv));
    assert_true(q->kv.first >= kv_groups_first(&s->o.groups, q->n_done));
    assert_true(q->kv.first <= kv_groups_seen(&s->o.groups, q->n_done));
}

/* Each block counts once, as what the group that it is in is. */
static void check_kinds(const struct sim *s)
{
    const uint32_t n_full = kv_groups_n_full(&s->o.groups);
    const struct block_pool_stats pool = kv_manager_stats(s->m).pool;
    bool is_counted[MAX_BLOCKS + 1] = {false};
    uint32_t held[2] = {0};
    struct kv_kind kinds[2];

    for (uint32_t i = 0; i < N_SEQ; i++)
        for (uint32_t k = 0; s->seq[i].is_live && k < n_groups(s) * CAP; k++) {
            const block_id id = s->seq[i].blocks[k];

            held[k / CAP >= n_full] += id != BLOCK_NONE && !is_counted[id];
            is_counted[id] = true;
        }
    kv_manager_kinds(s->m, kinds);
    for (uint32_t kind = 0; kind < 2; kind++)
        assert_int_equal(kinds[kind].n_held, held[kind]);
    assert_int_equal(kinds[0].n_cached + kinds[1].n_cached, pool.n_cached);
    assert_int_equal(kinds[0].n_groups, n_full);
    assert_int_equal(kinds[1].n_groups, s->o.groups.n_window);
}

static void check_all(const struct sim *s)
{
    const struct kv_manager_stats stats = kv_manager_stats(s->m);
    uint32_t exclusive = 0, n_copies = 0, n_states = 0;
    char map[MAX_BLOCKS];

    kv_manager_map(s->m, map);
    for (block_id id = 1; id <= s->o.n_blocks; id++) {
        const uint32_t n = n_tables(s, id);

        assert_int_equal(block_pool_holders(kv_manager_pool(s->m), id), n);
        assert_true(n > 1 ? map[id - 1] == 's' : n == 1 ? map[id - 1] == 'h'
                                                        : strchr("fc", map[id - 1]) != NULL);
        exclusive += n == 1;
    }
    for (uint32_t i = 0; i < N_SEQ; i++) {
        const struct seq *q = &s->seq[i];

        if (!q->is_live)
            continue;
        check_table(s, q);
        exclusive -= kv_manager_n_exclusive(s->m, &q->kv);
        n_copies += q->kv.swap != SWAP_NONE;
    }
    for (state_id slot = 1; slot <= s->o.states.n_slots; slot++)
        n_states += n_holders(s, slot) > 0;
    assert_int_equal(stats.states.slots.n_held, n_states);
    check_kinds(s);
    assert_int_equal(exclusive, 0);
    assert_int_equal(stats.swap.n_copies, n_copies);
    assert_int_equal(stats.pool.n_free + stats.pool.n_held + stats.pool.n_cached, s->o.n_blocks);
    assert_int_equal(stats.pool.n_pinned, 0);
    assert_true(kv_manager_check(s->m));
}

/* ---- episodes ---- */

static uint32_t play_round(struct sim *s, bool is_check_due)
{
    const uint32_t n = 1 + rnd(12);

    for (uint32_t i = 0; i < N_SEQ; i++)
        s->seq[i].is_planned = false;
    for (uint32_t i = 0; i < n; i++) {
        plan_op(s);
        if (is_check_due)
            check_all(s);
    }
    run_moves(s);
    for (uint32_t i = 0; i < N_SEQ; i++) {
        struct seq *q = &s->seq[i];

        if (!q->is_live)
            continue;
        if (is_check_due || rnd(8) == 0)
            check_bytes(s, q);
        if (q->to > q->n_done && q->kv.swap == SWAP_NONE)
            write_tokens(s, q);
    }
    start_io(s);
    finish_io(s);
    kv_manager_flush_events(s->m);
    if (rnd(3) == 0)
        (void)read_events(s);
    if (is_check_due && rnd(4) == 0)
        check_known(s);
    return n;
}

static void begin(struct sim *s, bool is_large)
{
    *s = (struct sim){.o = {.n_blocks = is_large ? MAX_BLOCKS : 4 + rnd(40),
                            .placement = rnd(3),
                            .prefix_cache = rnd(8) != 0,
                            .n_ram = rnd(4) == 0 ? 0 : 1 + rnd(MAX_RAM),
                            .max_sequences = 1 + rnd(N_SEQ),
                            .max_table = CAP}};
    if (s->o.n_ram > 0 && rnd(4) != 0)
        s->o.n_file = rnd(MAX_FILE + 1);
    if (rnd(3) != 0) {
        s->o.groups.n = 1 + rnd(MAX_GROUPS);
        s->o.groups.n_window = s->o.groups.n == 1 ? rnd(2) : rnd(s->o.groups.n);
        s->o.groups.window = s->o.groups.n_window > 0 ? 1 + rnd(70) : 0;
        s->o.n_blocks = is_large ? MAX_BLOCKS : s->o.n_blocks * s->o.groups.n;
        s->o.max_chunk = rnd(40);
    }
    if (rnd(2) == 0) {
        const uint32_t most = is_large ? MAX_STATES : N_SEQ + 4;

        s->o.states = (struct kv_state_options){
            .n_slots = 1 + rnd(most), .interval = 1 + rnd(4), .n_parts = 1 + rnd(MAX_PARTS)};
        s->o.states.is_alone = s->o.groups.n <= 1 && s->o.groups.n_window == 0 && rnd(3) == 0;
    }
    assert_int_equal(kv_events_create(&s->events, &(struct kv_events_options){
                                          .n_slots = rnd(2) == 0 ? 4096 : 4 + rnd(40),
                                          .n_blocks = s->o.n_blocks}), 0);
    s->o.events = s->events;
    s->is_whole = true;
    assert_int_equal(kv_manager_create(&s->m, &s->o), 0);
}

static void end(struct sim *s)
{
    for (uint32_t i = 0; i < N_SEQ; i++)
        if (s->seq[i].is_live)
            op_release(s, &s->seq[i]);
    kv_manager_moves_done(s->m);
    while (s->n_io > 0)
        kv_manager_io_done(s->m, s->io[--s->n_io].io.copy, 0);
    check_all(s);
    assert_int_equal(kv_manager_n_available(s->m), s->o.n_blocks);
    assert_int_equal(kv_manager_stats(s->m).states.slots.n_held, 0);
    assert_int_equal(kv_manager_stats(s->m).swap.ram_used, 0);
    assert_int_equal(kv_manager_stats(s->m).swap.file_used, 0);
    check_known(s);
    kv_manager_destroy(&s->m);
    kv_events_destroy(&s->events);
}

/* P1, P3, S3.7, T3, T4, T9: see the top of the file. */
static void manager_agrees_with_a_naive_model(void **state)
{
    const uint64_t ops = sim_ops(25);
    uint64_t total[18] = {0};
    (void)state;

    for (uint64_t done = 0, episode = 0; done < ops; episode++) {
        const bool is_large = episode % 4 == 0;
        const uint64_t until = done + (is_large ? 300 : 3000);

        begin(&sim, is_large);
        while (done < until && done < ops)
            done += play_round(&sim, ops < 250000 || rnd(16) == 0);
        total[0] += sim.n_exact;
        total[1] += sim.n_partial;
        total[2] += sim.n_forked;
        total[3] += sim.n_loaded;
        total[4] += sim.n_waited;
        total[5] += sim.n_lost;
        total[6] += sim.n_dropped;
        total[7] += sim.n_hits;
        total[8] += sim.n_far;
        total[9] += sim.n_late;
        total[10] += sim.n_snapshots;
        total[11] += sim.n_resumed;
        total[12] += sim.n_state_forks;
        total[13] += sim.n_states_loaded;
        total[14] += sim.n_written_over;
        total[15] += sim.n_compared;
        total[16] += kv_events_stats(sim.events).n_dropped;
        total[17] += kv_events_stats(sim.events).n_resent;
        end(&sim);
    }
    print_message("note: manager: %llu operations: %llu exact matches, %llu parts copied, %llu "
                  "forks, %llu blocks loaded, %llu reads from the file, %llu lost; with windows "
                  "%llu blocks dropped a group, %llu hits, %llu of them without the beginning, "
                  "%llu late forks; with states %llu snapshots, %llu taken up, %llu copied for "
                  "forks, %llu loaded, %llu written over; of events %llu comparisons, %llu "
                  "dropped, %llu times all sent again\n",
                  (unsigned long long)ops, (unsigned long long)total[0],
                  (unsigned long long)total[1], (unsigned long long)total[2],
                  (unsigned long long)total[3], (unsigned long long)total[4],
                  (unsigned long long)total[5], (unsigned long long)total[6],
                  (unsigned long long)total[7], (unsigned long long)total[8],
                  (unsigned long long)total[9], (unsigned long long)total[10],
                  (unsigned long long)total[11], (unsigned long long)total[12],
                  (unsigned long long)total[13], (unsigned long long)total[14],
                  (unsigned long long)total[15], (unsigned long long)total[16],
                  (unsigned long long)total[17]);
    for (int i = 0; i < 18 && ops >= 10000; i++)
        assert_true(total[i] > 0); /* each path was taken */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(manager_agrees_with_a_naive_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
