/* tests/sim/sim_kv_plan.h - the random calls that sim_kv_manager.c plans in a round, each compared
 * with what the KV manager promises about it beforehand: arrivals, growth, forks, swaps, releases.
 */
#ifndef TESTS_SIM_SIM_KV_PLAN_H
#define TESTS_SIM_SIM_KV_PLAN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/err.h"
#include "tests/sim/sim_kv_model.h"

/* One of a few documents up to a random place, then something of its own. */
static inline void make_ids(struct seq *q)
{
    const uint32_t document = rnd(4), own = rnd(MAX_TOKENS + 1), word = rnd(3);

    for (uint32_t i = 0; i < MAX_TOKENS; i++)
        q->ids[i] = (int32_t)(i < own ? document * 100 + i % 7 : 1000 + word + rnd(2));
}

static inline void op_arrive(struct sim *s, struct seq *q)
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
static inline bool has_state_room(const struct sim *s, const struct seq *q)
{
    const bool keeps = q->kv.fork != STATE_NONE && q->kv.fork != q->kv.state;

    return !has_states(s) || n_state_slots(s) > 0 || (keeps && n_holders(s, q->kv.fork) == 1) ||
           (q->kv.state != STATE_NONE &&
            n_holders(s, q->kv.state) == 1 + (uint32_t)(q->kv.fork == q->kv.state));
}

/* Where a chunk is to end: anywhere, at the end of a block, or where a snapshot is kept. */
static inline uint32_t some_end(const struct sim *s, const struct seq *q)
{
    const uint32_t spec = q->n_done + (rnd(8) == 0 ? MAX_TOKENS + 20 - q->n_done : rnd(40));
    const uint32_t left = kv_manager_to_snapshot(s->m, q->n_done);

    if (left < MAX_TOKENS && rnd(2) == 0)
        return q->n_done + left;
    return rnd(3) == 0 ? block_table_needed(spec) * BLOCK_TOKENS : spec;
}

static inline void op_grow(struct sim *s, struct seq *q)
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
static inline bool is_seen(const struct sim *s, uint32_t at, uint32_t group, uint32_t pos)
{
    return group < kv_groups_n_full(&s->o.groups) || pos + s->o.groups.window > at;
}

/* Is all there that the query behind the first n tokens looks at? That much the manager must know
 * (of a query that looks at nothing but itself it may say no), and from the last token before a
 * block boundary on it must be so. */
static inline bool can_go_on(const struct sim *s, const struct seq *q, uint32_t n)
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

static inline void op_release(struct sim *s, struct seq *q)
{
    kv_manager_release(s->m, &q->kv);
    assert_int_equal(q->kv.table.n, 0);
    assert_int_equal(q->kv.n_indexed, 0);
    assert_int_equal(q->kv.swap, SWAP_NONE);
    assert_int_equal(q->kv.state, STATE_NONE);
    q->is_live = false;
}

/* Go back, as far as its blocks allow, and do the rest differently. */
static inline void op_rewind(const struct sim *s, struct seq *q)
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
static inline uint32_t some_beginning(const struct sim *s, const struct seq *parent)
{
    const uint32_t back = rnd(2);

    if (has_states(s) && rnd(4) != 0)
        return parent->n_kept;
    return rnd(3) == 0 ? rnd(parent->n_done + 1)
                       : parent->n_done - (back < parent->n_done ? back : 0);
}

/* The parent may write into the last block in this round: part from it at once. */
static inline void part_from_parent(struct sim *s, struct seq *child)
{
    s->n_state_forks++;
    assert_int_not_equal(child->kv.state, STATE_NONE);
    if (kv_manager_alloc(s->m, &child->kv, child->n_done, child->n_done + 1) < 0)
        op_release(s, child);
    else
        child->to = child->n_done + 1;
}

static inline void op_fork(struct sim *s, struct seq *child, const struct seq *parent)
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

static inline void op_swap_out(struct sim *s, struct seq *q)
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

static inline void op_swap_in(struct sim *s, struct seq *q)
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

static inline void op_fetch(struct sim *s, struct seq *q)
{
    const enum swap_state place = kv_manager_where(s->m, &q->kv);
    const int rc = kv_manager_fetch(s->m, &q->kv);

    assert_true(place == SWAP_LOST ? rc == ERR_IO : rc == 0 || rc == ERR_AGAIN);
    s->n_waited += place == SWAP_FILE;
    if (rc == 0 && place == SWAP_FILE)
        assert_int_equal(kv_manager_where(s->m, &q->kv), SWAP_READING);
}

static inline void plan_op(struct sim *s)
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

#endif
