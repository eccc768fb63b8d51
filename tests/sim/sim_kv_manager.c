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
#include "tests/sim/sim_kv_model.h"
#include "tests/sim/sim_kv_plan.h"
#include "tests/sim/sim_ops.h"

static struct sim sim;

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
