/* tests/sim/sim_kv.c - pool, prefix index and swap tiers against naive models.
 *
 * Each model is arrays and linear searches, and says of every call what it must answer; the answer
 * is compared, and the module checks its own books. P3, T11, S1.2, S4.6, S5.3, S5.6, S2.29.
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
#include "kvcache/block_pool.h"
#include "kvcache/prefix_index.h"
#include "kvcache/swap.h"
#include "tests/fixtures/random.h"
#include "tests/sim/sim_ops.h"

static uint64_t rng = 1;

static uint32_t rnd(uint32_t n)
{
    return random_below(&rng, n);
}

/* Every operation is followed by a whole check, in runs of many millions every 16th. */
static bool is_check_due(uint64_t ops)
{
    return ops < 5000000 || rnd(16) == 0;
}

/* ---- pool ---- */

enum { POOL_MAX = 90 };

struct pool_model {
    enum block_placement placement;
    uint32_t n, last;
    uint32_t holders[POOL_MAX + 2], pins[POOL_MAX + 2];
    bool kept[POOL_MAX + 2], cached[POOL_MAX + 2];
    uint64_t used[POOL_MAX + 2]; /* when it was cached */
    uint64_t now;
    uint32_t peak;
};

static bool is_free(const struct pool_model *m, uint32_t id)
{
    return id >= 1 && id <= m->n && m->holders[id] == 0 && !m->cached[id] && m->pins[id] == 0;
}

static uint32_t n_free(const struct pool_model *m)
{
    uint32_t n = 0;

    for (uint32_t id = 1; id <= m->n; id++)
        n += is_free(m, id);
    return n;
}

static uint32_t run_at(const struct pool_model *m, uint32_t id)
{
    uint32_t n = 0;

    while (is_free(m, id + n))
        n++;
    return n;
}

/* Best fit, in the words of block_pool.h: the length to choose, then the lowest run that has it. */
static uint32_t choose_run(const struct pool_model *m, uint32_t want)
{
    uint32_t enough = UINT32_MAX, largest = 0, length;

    for (uint32_t id = 1; id <= m->n; id++) {
        const uint32_t run = is_free(m, id - 1) ? 0 : run_at(m, id);

        if (run >= want && run < enough)
            enough = run;
        if (run > largest)
            largest = run;
    }
    length = enough != UINT32_MAX ? enough : largest;
    for (uint32_t id = 1; id <= m->n; id++)
        if (!is_free(m, id - 1) && run_at(m, id) == length)
            return id;
    return 0;
}

static uint32_t choose(const struct pool_model *m, uint32_t left, uint32_t *follow)
{
    uint32_t id;

    if (m->placement == BLOCK_BEST_FIT) {
        if (*follow != 0 && is_free(m, *follow + 1))
            return ++*follow;
        *follow = choose_run(m, left);
        return *follow;
    }
    id = m->placement == BLOCK_ROUND_ROBIN ? m->last : 0;
    do
        id = id % m->n + 1;
    while (!is_free(m, id));
    return id;
}

static void pool_take(struct block_pool *p, struct pool_model *m)
{
    const uint32_t n = rnd(9), after = rnd(3) == 0 ? 0 : rnd(m->n + 1);
    uint32_t follow = after, ids[8] = {0};
    const int rc = block_pool_take(p, n, after, ids);

    assert_int_equal(rc, n <= n_free(m) ? 0 : ERR_AGAIN);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t id = rc == 0 ? choose(m, n - i, &follow) : 0;

        assert_int_equal(ids[i], id);
        if (rc < 0)
            continue;
        m->holders[id] = 1;
        m->kept[id] = false;
        m->last = id;
    }
}

static void pool_ref(struct block_pool *p, struct pool_model *m, const uint32_t *ids, uint32_t n)
{
    bool legal = true;

    for (uint32_t i = 0; i < n; i++)
        legal = legal && ids[i] >= 1 && ids[i] <= m->n && !is_free(m, ids[i]);
    assert_int_equal(block_pool_ref(p, ids, n), legal ? 0 : ERR_INVAL);
    for (uint32_t i = 0; legal && i < n; i++) {
        m->holders[ids[i]]++;
        m->cached[ids[i]] = false;
    }
}

static void pool_give(struct block_pool *p, struct pool_model *m, const uint32_t *ids, uint32_t n)
{
    bool legal = true;

    for (uint32_t i = 0; i < n; i++) {
        legal = legal && ids[i] >= 1 && ids[i] <= m->n && m->holders[ids[i]] > 0;
        for (uint32_t j = 0; j < i; j++)
            legal = legal && ids[j] != ids[i];
    }
    assert_int_equal(block_pool_give(p, ids, n), legal ? 0 : ERR_INVAL);
    for (uint32_t i = n; legal && i-- > 0;) {
        if (--m->holders[ids[i]] > 0 || m->pins[ids[i]] > 0)
            continue;
        m->cached[ids[i]] = m->kept[ids[i]];
        m->used[ids[i]] = ++m->now;
    }
}

static void pool_keep(struct block_pool *p, struct pool_model *m, uint32_t id, bool keep)
{
    const bool is_in = id >= 1 && id <= m->n && !is_free(m, id);
    const bool legal = is_in && (keep || m->holders[id] > 0 || m->pins[id] == 0);

    assert_int_equal(block_pool_keep(p, id, keep), legal ? 0 : ERR_INVAL);
    if (!legal)
        return;
    m->kept[id] = keep;
    m->cached[id] = m->cached[id] && keep;
}

static void pool_pin(struct block_pool *p, struct pool_model *m, uint32_t id, bool pin)
{
    const bool is_in = id >= 1 && id <= m->n && !is_free(m, id);

    if (pin) {
        assert_int_equal(block_pool_pin(p, id), is_in ? 0 : ERR_INVAL);
        m->pins[id] += is_in;
        m->cached[id] = m->cached[id] && !is_in;
    } else {
        const bool legal = is_in && m->pins[id] > 0;

        assert_int_equal(block_pool_unpin(p, id), legal ? 0 : ERR_INVAL);
        m->pins[id] -= legal;
        if (legal && m->pins[id] == 0 && m->holders[id] == 0) {
            m->cached[id] = m->kept[id];
            m->used[id] = ++m->now;
        }
    }
}

static void pool_compare(const struct block_pool *p, const struct pool_model *m)
{
    const struct block_pool_stats s = block_pool_stats(p);
    uint32_t held = 0, cached = 0, pinned = 0, oldest = 0;

    for (uint32_t id = 1; id <= m->n; id++) {
        assert_int_equal(block_pool_holders(p, id), m->holders[id]);
        assert_int_equal(block_pool_state(p, id), is_free(m, id)          ? BLOCK_FREE
                                                  : m->cached[id]         ? BLOCK_CACHED
                                                  : m->holders[id] == 0 ? BLOCK_PINNED
                                                                          : BLOCK_HELD);
        held += m->holders[id] > 0;
        cached += m->cached[id];
        pinned += m->pins[id] > 0 && m->holders[id] == 0;
        if (m->cached[id] && (oldest == 0 || m->used[id] < m->used[oldest]))
            oldest = id;
    }
    assert_int_equal(s.n_held, held);
    assert_int_equal(s.n_cached, cached);
    assert_int_equal(s.n_pinned, pinned);
    assert_int_equal(s.n_free + s.n_held + s.n_cached + s.n_pinned, m->n);
    assert_int_equal(block_pool_oldest(p), oldest);
    assert_true(block_pool_check(p));
}

static void note_peak(const struct block_pool *p, struct pool_model *m)
{
    uint32_t held = 0;

    for (uint32_t id = 1; id <= m->n; id++)
        held += m->holders[id] > 0;
    m->peak = held > m->peak ? held : m->peak;
    assert_int_equal(block_pool_stats(p).peak_held, m->peak);
}

static void pool_op(struct block_pool *p, struct pool_model *m)
{
    const uint32_t n = rnd(5), kind = rnd(16), id = rnd(m->n + 2);
    uint32_t ids[4] = {0};

    for (uint32_t i = 0; i < n; i++) /* mostly legal ones, sometimes not */
        ids[i] = rnd(m->n + (rnd(8) == 0 ? 2 : 0)) + (rnd(8) != 0);
    if (kind < 4)
        pool_take(p, m);
    else if (kind < 6)
        pool_ref(p, m, ids, n);
    else if (kind < 11)
        pool_give(p, m, ids, n);
    else if (kind < 14)
        pool_keep(p, m, id, rnd(3) != 0);
    else
        pool_pin(p, m, id, rnd(2) == 0);
    note_peak(p, m);
}

static void pool_empty(struct block_pool *p, struct pool_model *m)
{
    for (uint32_t id = 1; id <= m->n; id++) {
        while (m->pins[id] > 0)
            pool_pin(p, m, id, false);
        while (m->holders[id] > 0)
            pool_give(p, m, &id, 1);
    }
}

/* P3, T11, S1.2, S4.6, S5.3 */
static void pool_agrees_with_a_naive_model(void **state)
{
    const uint64_t ops = sim_ops(30);
    struct pool_model m;
    (void)state;

    for (uint64_t done = 0; done < ops;) {
        const uint64_t end = done + 3000 < ops ? done + 3000 : ops;
        struct block_pool *p;

        m = (struct pool_model){.n = 1 + rnd(POOL_MAX), .placement = rnd(3)};
        assert_int_equal(block_pool_create(&p, m.n, m.placement), 0);
        for (; done < end; done++) {
            pool_op(p, &m);
            if (is_check_due(ops))
                pool_compare(p, &m);
        }
        pool_empty(p, &m);
        pool_compare(p, &m);
        block_pool_destroy(&p);
    }
    print_message("note: pool: %llu operations\n", (unsigned long long)ops);
}

/* ---- prefix index ---- */

enum { INDEX_MAX = 80, N_SALTS = 3 };

struct index_model {
    uint32_t n;
    bool in[INDEX_MAX + 1];
    uint32_t salt[INDEX_MAX + 1];
    uint32_t before[INDEX_MAX + 1];
    int32_t tokens[INDEX_MAX + 1][BLOCK_TOKENS];
    uint64_t entered[INDEX_MAX + 1];
    uint64_t now;
};

/* Few different ones, often alike from the start. */
static void make_tokens(int32_t *t)
{
    const uint32_t n = rnd(BLOCK_TOKENS + 1), fill = rnd(3);

    for (uint32_t i = 0; i < BLOCK_TOKENS; i++)
        t[i] = (int32_t)(i < n ? 7 : fill);
}

static struct prefix_hash hash_of(const struct index_model *m, uint32_t id, uint32_t salt)
{
    return id == BLOCK_NONE ? prefix_hash_root(salt)
                            : prefix_hash_next(hash_of(m, m->before[id], salt), m->tokens[id]);
}

static uint32_t index_search(const struct index_model *m, uint32_t before, uint32_t salt,
                             const int32_t *t)
{
    for (uint32_t id = 1; id <= m->n; id++)
        if (m->in[id] && m->before[id] == before && m->salt[id] == salt &&
            memcmp(m->tokens[id], t, sizeof(m->tokens[id])) == 0)
            return id;
    return BLOCK_NONE;
}

/* A block to follow: any that is in, or none with a salt. */
static uint32_t some_place(const struct index_model *m, uint32_t *salt)
{
    const uint32_t id = 1 + rnd(m->n);

    *salt = m->in[id] ? m->salt[id] : rnd(N_SALTS);
    return m->in[id] && rnd(3) != 0 ? id : BLOCK_NONE;
}

static void index_insert(struct prefix_index *x, struct index_model *m)
{
    uint32_t salt;
    const uint32_t before = some_place(m, &salt), id = 1 + rnd(m->n);
    const struct prefix_hash h = hash_of(m, before, salt);
    int32_t t[BLOCK_TOKENS];
    int want = 0;

    make_tokens(t);
    if (m->in[id])
        want = ERR_INVAL;
    else if (index_search(m, before, salt, t) != BLOCK_NONE)
        want = ERR_AGAIN;
    assert_int_equal(prefix_index_insert(x, id, h, prefix_hash_next(h, t), prefix_id_of(before), t),
                     want);
    if (want < 0)
        return;
    m->in[id] = true;
    m->salt[id] = salt;
    m->before[id] = before;
    m->entered[id] = ++m->now;
    memcpy(m->tokens[id], t, sizeof(t));
}

static void index_remove(struct prefix_index *x, struct index_model *m)
{
    const uint32_t id = 1 + rnd(m->n);
    bool has_children = false;

    for (uint32_t i = 1; i <= m->n; i++)
        has_children = has_children || (m->in[i] && m->before[i] == id);
    assert_int_equal(!prefix_id_is_none(prefix_index_child(x, prefix_id_of(id))), has_children);
    if (has_children)
        return;
    prefix_index_remove(x, prefix_id_of(id));
    m->in[id] = false;
}

static uint32_t in_common(const int32_t *a, const int32_t *b, uint32_t n)
{
    uint32_t i = 0;

    while (i < n && a[i] == b[i])
        i++;
    return i;
}

/* The best of the children; exact as long as no chain is longer than what is looked at. */
static void index_find_partial(const struct prefix_index *x, const struct index_model *m)
{
    uint32_t salt, best = 0, best_id = BLOCK_NONE, n_chain = 0, n_common;
    const uint32_t before = some_place(m, &salt), n = rnd(BLOCK_TOKENS + 1);
    int32_t t[BLOCK_TOKENS];
    block_id id;

    make_tokens(t);
    for (uint32_t i = 1; i <= m->n; i++) {
        uint32_t have;

        if (!m->in[i] || m->before[i] != before)
            continue;
        n_chain++;
        have = m->salt[i] == salt ? in_common(m->tokens[i], t, n) : 0;
        if (have > best || (have == best && have > 0 && m->entered[i] > m->entered[best_id])) {
            best = have;
            best_id = i;
        }
    }
    id = prefix_index_find_partial(x, hash_of(m, before, salt), prefix_id_of(before), t, n,
                                   &n_common).n;
    if (n_chain <= PREFIX_MAX_SIBLINGS) {
        assert_int_equal(id, best_id);
        assert_int_equal(n_common, best);
    } else if (id != BLOCK_NONE) {
        assert_true(m->in[id] && m->before[id] == before && m->salt[id] == salt);
        assert_int_equal(in_common(m->tokens[id], t, n), n_common);
        assert_true(n_common <= best);
    }
}

static void index_find(const struct prefix_index *x, const struct index_model *m)
{
    uint32_t salt;
    const uint32_t before = some_place(m, &salt);
    int32_t t[BLOCK_TOKENS];

    make_tokens(t);
    assert_int_equal(prefix_index_find(x, prefix_hash_next(hash_of(m, before, salt), t),
                                       prefix_id_of(before), t).n,
                     index_search(m, before, salt, t));
}

static void index_op(struct prefix_index *x, struct index_model *m, uint32_t removes)
{
    const uint32_t kind = rnd(16);

    if (kind < removes)
        index_remove(x, m);
    else if (kind < 8)
        index_insert(x, m);
    else if (kind < 12)
        index_find(x, m);
    else
        index_find_partial(x, m);
}

/* S5.6 */
static void index_agrees_with_a_naive_model(void **state)
{
    const uint64_t ops = sim_ops(25);
    struct index_model m;
    (void)state;

    for (uint64_t done = 0; done < ops;) {
        const uint64_t end = done + 3000 < ops ? done + 3000 : ops;
        const uint32_t removes = 2 + rnd(4);
        struct prefix_index *x;

        m = (struct index_model){.n = 1 + rnd(INDEX_MAX)};
        assert_int_equal(prefix_index_create(&x, m.n, 1), 0);
        for (; done < end; done++) {
            index_op(x, &m, removes);
            if (ops < 1000000 ? rnd(8) == 0 : rnd(128) == 0) {
                uint32_t n = 0;

                for (uint32_t id = 1; id <= m.n; id++) {
                    assert_int_equal(prefix_index_has(x, id), m.in[id]);
                    n += m.in[id];
                }
                assert_int_equal(prefix_index_n(x), n);
                assert_true(prefix_index_check(x));
            }
        }
        prefix_index_destroy(&x);
    }
    print_message("note: index: %llu operations\n", (unsigned long long)ops);
}

/* ---- swap ---- */

enum { RAM_MAX = 24, FILE_MAX = 40, COPIES_MAX = 10, PAUSE = 16 };

struct copy_model {
    bool is_there, is_dropped, is_wanted, is_started;
    enum swap_state place;
    uint32_t n;
    uint64_t age;           /* in RAM: when it came there */
    uint64_t bytes[RAM_MAX]; /* what must be read back */
    struct swap_io io;
    bool moves_late;        /* its bytes are transferred at the end of the I/O, not the start */
};

struct swap_model {
    struct swap_options o;
    struct copy_model c[COPIES_MAX];
    uint64_t ram[RAM_MAX], file[FILE_MAX]; /* the slots' bytes */
    uint64_t now;
    uint32_t pause, n_started;
    uint32_t reads[COPIES_MAX], n_reads; /* in the order they were asked for */
    struct swap_stats stats;
};

static uint32_t slots_used(const struct swap_model *m, bool file)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < m->o.max_copies; i++) {
        const struct copy_model *c = &m->c[i];
        const bool both = c->place == SWAP_WRITING || c->place == SWAP_READING;

        if (c->is_there && (both || c->place == (file ? SWAP_FILE : SWAP_RAM)))
            n += c->n;
    }
    return n;
}

static void swap_expect_bytes(const struct swap *s, const struct swap_model *m, uint32_t i)
{
    const struct copy_model *c = &m->c[i];
    const bool is_readable = c->place == SWAP_RAM || c->place == SWAP_WRITING;
    const uint32_t *slots;
    uint32_t n;

    assert_int_equal(swap_where(s, i), c->place);
    assert_int_equal(swap_n_blocks(s, i), c->n);
    slots = swap_slots(s, i, &n);
    assert_int_equal(n, c->n);
    assert_int_equal(slots != NULL, is_readable);
    for (uint32_t b = 0; is_readable && b < n; b++)
        assert_true(m->ram[slots[b]] == c->bytes[b]);
}

static void swap_op_add(struct swap *s, struct swap_model *m)
{
    const uint32_t n = rnd(m->o.max_blocks + 2);
    bool has_copy = false;
    const uint32_t *ram;
    int64_t copy;
    bool legal;

    for (uint32_t i = 0; i < m->o.max_copies; i++)
        has_copy = has_copy || !m->c[i].is_there;
    legal = has_copy && n > 0 && n <= m->o.max_blocks && n <= m->o.n_ram - slots_used(m, false);
    assert_int_equal(swap_can_add(s, n), legal);
    copy = swap_add(s, n, &ram);
    m->pause -= m->pause > 0;
    assert_int_equal(copy >= 0, legal);
    m->stats.n_refused += !legal;
    if (!legal)
        return;
    assert_false(m->c[copy].is_there);
    m->c[copy] = (struct copy_model){.is_there = true, .n = n, .age = ++m->now};
    for (uint32_t b = 0; b < n; b++)
        m->ram[ram[b]] = m->c[copy].bytes[b] = ++m->now;
    m->stats.blocks_out[0] += n;
    m->stats.n_copies++;
}

static void forget_read(struct swap_model *m, uint32_t copy)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < m->n_reads; i++)
        if (m->reads[i] != copy)
            m->reads[n++] = m->reads[i];
    m->n_reads = n;
}

static void swap_op_drop(struct swap *s, struct swap_model *m, uint32_t i)
{
    struct copy_model *c = &m->c[i];

    if (swap_where(s, i) == SWAP_RAM && rnd(2) == 0) {
        swap_used(s, i, c->n);
        m->stats.blocks_in[0] += c->n;
    } else {
        swap_drop(s, i);
    }
    m->stats.n_copies--;
    c->is_dropped = c->is_started;
    c->is_there = c->is_started;
    forget_read(m, i);
}

static void swap_op_fetch(struct swap *s, struct swap_model *m, uint32_t i)
{
    struct copy_model *c = &m->c[i];
    const bool fits = c->n <= m->o.n_ram - slots_used(m, false) &&
                      m->n_reads + m->n_started < SWAP_MAX_IO;
    int want = 0;

    if (c->place == SWAP_LOST)
        want = ERR_IO;
    else if (c->place == SWAP_FILE && !fits)
        want = ERR_AGAIN;
    assert_int_equal(swap_fetch(s, i), want);
    if (want < 0)
        return;
    c->is_wanted = true;
    if (c->place == SWAP_FILE) {
        c->place = SWAP_READING;
        m->reads[m->n_reads++] = i;
    }
}

/* The copy that must be written next, or -1. */
static int to_write(const struct swap_model *m)
{
    uint32_t used = slots_used(m, false);
    int best = -1;

    for (uint32_t i = 0; i < m->o.max_copies; i++)
        used -= m->c[i].is_there && m->c[i].place == SWAP_WRITING ? m->c[i].n : 0;
    if (m->pause > 0 || used * 2 <= m->o.n_ram)
        return -1;
    for (uint32_t i = 0; i < m->o.max_copies; i++) {
        const struct copy_model *c = &m->c[i];

        if (c->is_there && c->place == SWAP_RAM && !c->is_wanted &&
            c->n <= m->o.n_file - slots_used(m, true) && (best < 0 || c->age < m->c[best].age))
            best = (int)i;
    }
    return best;
}

static void transfer(struct swap_model *m, const struct swap_io *io, bool fails)
{
    for (uint32_t b = 0; b < io->n; b++) {
        uint64_t *to = io->is_write ? &m->file[io->file[b]] : &m->ram[io->ram[b]];

        *to = fails ? 0 : io->is_write ? m->ram[io->ram[b]] : m->file[io->file[b]];
    }
}

static void swap_op_start(struct swap *s, struct swap_model *m)
{
    const int write = m->n_started < SWAP_MAX_IO ? to_write(m) : -1;
    const int want = m->n_reads > 0 ? (int)m->reads[0] : write;
    const bool was_freeing = swap_is_freeing(s);
    struct swap_io io;
    struct copy_model *c;

    assert_int_equal(swap_next_io(s, &io), want >= 0);
    if (want < 0)
        return;
    c = &m->c[want];
    assert_int_equal(io.copy, want);
    assert_int_equal(io.n, c->n);
    assert_int_equal(io.is_write, m->n_reads == 0);
    assert_true(!io.is_write || was_freeing);
    if (io.is_write)
        c->place = SWAP_WRITING;
    else
        forget_read(m, (uint32_t)want);
    c->is_started = true;
    c->io = io;
    c->moves_late = rnd(2) == 0;
    m->n_started++;
    if (!c->moves_late)
        transfer(m, &io, false);
}

static void model_done(struct swap_model *m, struct copy_model *c, bool fails)
{
    const bool was_write = c->place == SWAP_WRITING;

    if (fails)
        was_write ? m->stats.n_write_errors++ : m->stats.n_read_errors++;
    else
        was_write ? (m->stats.blocks_out[1] += c->n) : (m->stats.blocks_in[1] += c->n);
    if (was_write && fails)
        m->pause = PAUSE;
    c->is_started = false;
    m->n_started--;
    if (c->is_dropped)
        c->is_there = c->is_dropped = false;
    else if (was_write)
        c->place = fails || c->is_wanted ? SWAP_RAM : SWAP_FILE;
    else
        c->place = fails ? SWAP_LOST : SWAP_RAM;
}

static void swap_op_done(struct swap *s, struct swap_model *m, uint32_t i)
{
    struct copy_model *c = &m->c[i];
    const bool fails = rnd(4) == 0;

    if (!c->is_started)
        return;
    if (fails || c->moves_late)
        transfer(m, &c->io, fails);
    swap_io_done(s, i, fails ? ERR_IO : 0);
    model_done(m, c, fails);
}

static void swap_compare_stats(const struct swap *s, const struct swap_model *m)
{
    const struct swap_stats got = swap_stats(s);

    assert_int_equal(got.n_copies, m->stats.n_copies);
    assert_int_equal(got.ram_slots, m->o.n_ram);
    assert_int_equal(got.file_slots, m->o.n_file);
    assert_int_equal(got.ram_used, slots_used(m, false));
    assert_int_equal(got.file_used, slots_used(m, true));
    for (int tier = 0; tier < 2; tier++) {
        assert_int_equal(got.blocks_out[tier], m->stats.blocks_out[tier]);
        assert_int_equal(got.blocks_in[tier], m->stats.blocks_in[tier]);
    }
    assert_int_equal(got.n_refused, m->stats.n_refused);
    assert_int_equal(got.n_write_errors, m->stats.n_write_errors);
    assert_int_equal(got.n_read_errors, m->stats.n_read_errors);
    assert_int_equal(swap_n_io(s), m->n_started);
}

static void swap_compare(const struct swap *s, const struct swap_model *m)
{
    bool freeing = to_write(m) >= 0;

    swap_compare_stats(s, m);
    for (uint32_t i = 0; i < m->o.max_copies; i++) {
        const struct copy_model *c = &m->c[i];

        if (c->is_there && !c->is_dropped)
            swap_expect_bytes(s, m, i);
        freeing = freeing || (c->is_there && c->is_started &&
                              (c->is_dropped || (c->place == SWAP_WRITING && !c->is_wanted)));
    }
    assert_int_equal(swap_is_freeing(s), freeing);
    assert_true(swap_check(s));
}

static void swap_op(struct swap *s, struct swap_model *m)
{
    const uint32_t kind = rnd(16), i = rnd(m->o.max_copies);
    const bool is_there = m->c[i].is_there && !m->c[i].is_dropped;

    if (kind < 4)
        swap_op_add(s, m);
    else if (kind < 6 && is_there)
        swap_op_drop(s, m, i);
    else if (kind < 8 && is_there)
        swap_op_fetch(s, m, i);
    else if (kind < 12)
        swap_op_start(s, m);
    else
        swap_op_done(s, m, i);
}

/* S2.29, D2.5: with I/O that ends in any order and fails one time in four. */
static void swap_agrees_with_a_naive_model(void **state)
{
    const uint64_t ops = sim_ops(20);
    struct swap_model m;
    (void)state;

    for (uint64_t done = 0; done < ops;) {
        const uint64_t end = done + 3000 < ops ? done + 3000 : ops;
        struct swap *s;

        m = (struct swap_model){.o = {.n_ram = 1 + rnd(RAM_MAX),
                                      .n_file = rnd(FILE_MAX + 1),
                                      .max_copies = 1 + rnd(COPIES_MAX),
                                      .max_blocks = 1 + rnd(8)}};
        assert_int_equal(swap_create(&s, &m.o), 0);
        for (; done < end; done++) {
            swap_op(s, &m);
            if (is_check_due(ops))
                swap_compare(s, &m);
        }
        swap_destroy(&s);
    }
    print_message("note: swap: %llu operations\n", (unsigned long long)ops);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pool_agrees_with_a_naive_model),
        cmocka_unit_test(index_agrees_with_a_naive_model),
        cmocka_unit_test(swap_agrees_with_a_naive_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
