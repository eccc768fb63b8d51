/* tests/unit/kvcache/test_prefix_pins.c - pins beside the plain definition of what they are.
 *
 * The model has no heap and no counts: a list of pins, each a chain of entries, and searches
 * through all of them. After every call both must agree on each block and each tenant. Time is a
 * number that the test chooses.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/err.h"
#include "kvcache/prefix_pins.h"
#include "tests/fixtures/random.h"

enum { BLOCKS = 60, GROUPS = 3, TENANTS = 3, CAP_BLOCKS = 24, CAP_TENANT = 11 };

static uint64_t rng = 7;

static uint32_t rnd(uint32_t n)
{
    return random_below(&rng, n);
}

/* ---- the model ---- */

struct entry {
    bool is_in;
    uint32_t parent; /* first block of the entry before; 0: none */
    uint32_t depth;  /* entries of its chain, 1 for the first */
    struct prefix_hash hash;
    block_id blocks[GROUPS];
};

struct model_pin {
    uint32_t end, first, tenant;
    uint64_t until_us;
};

struct world {
    struct prefix_pins_options o;
    struct block_pool *pool;
    struct prefix_index *index;
    struct prefix_pins *pins;
    struct entry entries[BLOCKS + 1]; /* by first block */
    struct model_pin list[BLOCKS];
    uint32_t n, owners[BLOCKS + 1];
    int32_t next_token;
    uint64_t now;
};

static bool needs(const struct world *w, uint32_t first, uint32_t group, uint32_t b)
{
    return w->o.n_full == 0 || group < w->o.n_full || b >= first;
}

/* The pins that contain a block. */
static uint32_t n_pins_of(const struct world *w, block_id block)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < w->n; i++)
        for (uint32_t at = w->list[i].end; at != 0; at = w->entries[at].parent)
            for (uint32_t group = 0; group < w->o.n_groups; group++)
                n += w->entries[at].blocks[group] == block &&
                     needs(w, w->list[i].first, group, w->entries[at].depth - 1);
    return n;
}

static uint32_t n_charged(const struct world *w, uint32_t tenant)
{
    uint32_t n = 0;

    for (block_id block = 1; block <= BLOCKS; block++)
        n += n_pins_of(w, block) > 0 && (tenant == TENANTS || w->owners[block] == tenant);
    return n;
}

static uint32_t model_room(const struct world *w, uint32_t tenant)
{
    const uint32_t own = w->o.tenant_blocks - n_charged(w, tenant);
    const uint32_t all = w->o.most_blocks - n_charged(w, TENANTS);

    return own < all ? own : all;
}

static uint32_t model_cost(const struct world *w, uint32_t end, uint32_t first)
{
    uint32_t n = 0;

    for (uint32_t at = end; at != 0; at = w->entries[at].parent)
        for (uint32_t group = 0; group < w->o.n_groups; group++)
            n += needs(w, first, group, w->entries[at].depth - 1) &&
                 n_pins_of(w, w->entries[at].blocks[group]) == 0;
    return n;
}

/* ---- the calls ---- */

static uint32_t any_entry(const struct world *w)
{
    const uint32_t from = rnd(BLOCKS);

    for (uint32_t i = 0; i < BLOCKS; i++)
        if (w->entries[1 + (from + i) % BLOCKS].is_in)
            return 1 + (from + i) % BLOCKS;
    return 0;
}

/* Add an entry behind another one, or at the beginning; its blocks become cached. */
static void add_entry(struct world *w)
{
    const uint32_t parent = rnd(4) > 0 ? any_entry(w) : 0;
    const struct prefix_hash before = parent != 0 ? w->entries[parent].hash : prefix_hash_root(0);
    int32_t tokens[BLOCK_TOKENS] = {w->next_token++};
    struct entry e = {.is_in = true, .parent = parent, .depth = 1};

    if (block_pool_take(w->pool, w->o.n_groups, BLOCK_NONE, e.blocks) < 0)
        return;
    if (parent != 0)
        e.depth = w->entries[parent].depth + 1;
    e.hash = prefix_hash_next(before, tokens);
    assert_int_equal(
        prefix_index_insert(w->index, e.blocks[0], before, e.hash, prefix_id_of(parent), tokens),
        0);
    for (uint32_t group = 1; group < w->o.n_groups; group++)
        prefix_index_put(w->index, prefix_id_of(e.blocks[0]), group, e.blocks[group]);
    for (uint32_t group = 0; group < w->o.n_groups; group++)
        assert_int_equal(block_pool_keep(w->pool, e.blocks[group], true), 0);
    assert_int_equal(block_pool_give(w->pool, e.blocks, w->o.n_groups), 0);
    w->entries[e.blocks[0]] = e;
}

/* Evict an entry that nothing follows, if no block of it is pinned. */
static void evict_entry(struct world *w)
{
    const uint32_t at = any_entry(w);
    struct entry *e = &w->entries[at];

    if (at == 0 || !prefix_id_is_none(prefix_index_child(w->index, prefix_id_of(at))))
        return;
    for (uint32_t group = 0; group < w->o.n_groups; group++)
        if (n_pins_of(w, e->blocks[group]) > 0)
            return;
    prefix_index_remove(w->index, prefix_id_of(at));
    for (uint32_t group = 0; group < w->o.n_groups; group++)
        assert_int_equal(block_pool_keep(w->pool, e->blocks[group], false), 0);
    *e = (struct entry){0};
}

static void note_pin(struct world *w, const struct prefix_pin *pin)
{
    for (uint32_t i = 0; i < w->n; i++)
        if (w->list[i].end == pin->end.n) {
            if (pin->until_us > w->list[i].until_us)
                w->list[i].until_us = pin->until_us;
            return;
        }
    for (uint32_t at = pin->end.n; at != 0; at = w->entries[at].parent)
        for (uint32_t group = 0; group < w->o.n_groups; group++)
            if (n_pins_of(w, w->entries[at].blocks[group]) == 0)
                w->owners[w->entries[at].blocks[group]] = pin->tenant;
    w->list[w->n++] = (struct model_pin){pin->end.n, pin->first, pin->tenant, pin->until_us};
}

static void add_pin(struct world *w)
{
    const uint32_t at = any_entry(w), depth = w->entries[at].depth;
    struct prefix_pin pin = {.end = prefix_id_of(at),
                             .n = depth,
                             .first = depth / 2,
                             .tenant = rnd(TENANTS),
                             .until_us = w->now + rnd(50)};

    if (at == 0)
        return;
    assert_int_equal(prefix_pins_cost(w->pins, &pin), model_cost(w, at, pin.first));
    assert_int_equal(prefix_pins_room(w->pins, pin.tenant), model_room(w, pin.tenant));
    if (model_cost(w, at, pin.first) > model_room(w, pin.tenant))
        return;
    note_pin(w, &pin);
    prefix_pins_add(w->pins, &pin);
}

/* End all pins that are over; the model needs no order. */
static void expire(struct world *w)
{
    uint32_t kept = 0;

    w->now += rnd(20);
    for (uint32_t i = 0; i < w->n; i++)
        if (w->list[i].until_us > w->now)
            w->list[kept++] = w->list[i];
    w->n = kept;
    prefix_pins_expire(w->pins, w->now, UINT32_MAX);
}

static void compare(const struct world *w)
{
    const struct block_pool_stats s = block_pool_stats(w->pool);

    for (block_id block = 1; block <= BLOCKS; block++)
        assert_int_equal(block_pool_is_pinned(w->pool, block), n_pins_of(w, block) > 0);
    for (uint32_t tenant = 0; tenant < TENANTS; tenant++) {
        const struct prefix_pins_tenant t = prefix_pins_of(w->pins, tenant);
        uint32_t n = 0;
        uint64_t until = 0;

        for (uint32_t i = 0; i < w->n; i++)
            if (w->list[i].tenant == tenant) {
                n++;
                until = w->list[i].until_us > until ? w->list[i].until_us : until;
            }
        assert_int_equal(t.n_pins, n);
        assert_int_equal(t.n_blocks, n_charged(w, tenant));
        assert_true(n == 0 || t.until_us >= until);
    }
    assert_int_equal(prefix_pins_n_blocks(w->pins), n_charged(w, TENANTS));
    assert_int_equal(s.n_free + s.n_held + s.n_cached + s.n_pinned, BLOCKS);
    assert_true(prefix_pins_check(w->pins) && block_pool_check(w->pool));
}

static void open_world(struct world *w, uint32_t n_groups, uint32_t n_full)
{
    *w = (struct world){.o = {.n_blocks = BLOCKS,
                              .n_groups = n_groups,
                              .n_full = n_full,
                              .n_tenants = TENANTS,
                              .tenant_blocks = CAP_TENANT,
                              .most_blocks = CAP_BLOCKS}};
    assert_int_equal(block_pool_create(&w->pool, BLOCKS, BLOCK_FIRST_FIT), 0);
    assert_int_equal(prefix_index_create(&w->index, BLOCKS, n_groups), 0);
    w->o.pool = w->pool;
    w->o.index = w->index;
    assert_int_equal(prefix_pins_create(&w->pins, &w->o), 0);
}

static void close_world(struct world *w)
{
    prefix_pins_destroy(&w->pins);
    assert_int_equal(block_pool_stats(w->pool).n_pinned, 0);
    block_pool_destroy(&w->pool);
    prefix_index_destroy(&w->index);
}

static void pins_agree_with_their_definition(void **state)
{
    static const uint32_t shapes[][2] = {{1, 1}, {3, 3}, {3, 1}, {1, 0}};
    (void)state;

    for (uint32_t run = 0; run < 40; run++) {
        struct world w;

        open_world(&w, shapes[run % 4][0], shapes[run % 4][1]);
        for (uint32_t i = 0; i < 400; i++) {
            const uint32_t op = rnd(10);

            if (op < 4)
                add_entry(&w);
            else if (op < 8)
                add_pin(&w);
            else if (op < 9)
                evict_entry(&w);
            else
                expire(&w);
            compare(&w);
        }
        close_world(&w);
    }
}

/* ---- single rules ---- */

/* A chain of n entries; ids[] are their first blocks. */
static void add_chain(struct world *w, uint32_t n, struct prefix_id *ids)
{
    struct prefix_hash hash = prefix_hash_root(0);

    for (uint32_t i = 0; i < n; i++) {
        const int32_t tokens[BLOCK_TOKENS] = {w->next_token++};
        const struct prefix_hash next = prefix_hash_next(hash, tokens);
        block_id block;

        assert_int_equal(block_pool_take(w->pool, 1, BLOCK_NONE, &block), 0);
        assert_int_equal(prefix_index_insert(w->index, block, hash, next,
                                             i > 0 ? ids[i - 1] : PREFIX_NONE, tokens),
                         0);
        assert_int_equal(block_pool_keep(w->pool, block, true), 0);
        assert_int_equal(block_pool_give(w->pool, &block, 1), 0);
        ids[i] = prefix_id_of(block);
        hash = next;
    }
}

static void pin(struct world *w, struct prefix_id end, uint32_t n, uint64_t until_us)
{
    prefix_pins_add(w->pins, &(struct prefix_pin){.end = end, .n = n, .until_us = until_us});
}

/* A call ends at most as many pins as it takes to unpin `most` blocks; those that end first go
 * first. */
static void expiry_is_bounded_work(void **state)
{
    struct prefix_id ids[6];
    struct world w;
    (void)state;

    open_world(&w, 1, 1);
    for (uint32_t i = 0; i < 6; i++)
        add_chain(&w, 1, &ids[i]);
    for (uint32_t i = 0; i < 6; i++)
        pin(&w, ids[i], 1, 100 - 10 * i);
    prefix_pins_expire(w.pins, 49, UINT32_MAX);
    assert_int_equal(prefix_pins_n_blocks(w.pins), 6);
    prefix_pins_expire(w.pins, 80, 2);
    assert_int_equal(prefix_pins_n_blocks(w.pins), 4);
    assert_false(block_pool_is_pinned(w.pool, ids[5].n));
    assert_false(block_pool_is_pinned(w.pool, ids[4].n));
    prefix_pins_expire(w.pins, 80, UINT32_MAX);
    assert_int_equal(prefix_pins_n_blocks(w.pins), 2);
    assert_true(prefix_pins_check(w.pins));
    close_world(&w);
}

/* A pin of the same prefix moves its end, but never to an earlier time. */
static void a_pin_is_extended(void **state)
{
    struct prefix_id ids[3];
    struct world w;
    (void)state;

    open_world(&w, 1, 1);
    add_chain(&w, 3, ids);
    pin(&w, ids[2], 3, 50);
    pin(&w, ids[2], 3, 40);
    pin(&w, ids[0], 1, 45);
    assert_int_equal(prefix_pins_of(w.pins, 0).n_pins, 2);
    assert_int_equal(prefix_pins_of(w.pins, 0).n_blocks, 3);
    prefix_pins_expire(w.pins, 47, UINT32_MAX);
    assert_int_equal(prefix_pins_of(w.pins, 0).n_blocks, 3);
    pin(&w, ids[2], 3, 70);
    prefix_pins_expire(w.pins, 69, UINT32_MAX);
    assert_int_equal(prefix_pins_of(w.pins, 0).until_us, 70);
    assert_int_equal(prefix_pins_of(w.pins, 0).n_blocks, 3);
    prefix_pins_expire(w.pins, 70, UINT32_MAX);
    assert_int_equal(prefix_pins_of(w.pins, 0).n_blocks, 0);
    /* the end of the chain is evicted first */
    assert_int_equal(block_pool_oldest(w.pool), ids[2].n);
    close_world(&w);
}

static void contradictions_are_refused(void **state)
{
    struct prefix_pins *pins;
    struct world w;
    (void)state;

    open_world(&w, 1, 1);
    w.o.tenant_blocks = 0;
    assert_int_equal(prefix_pins_create(&pins, &w.o), ERR_INVAL);
    w.o.tenant_blocks = CAP_BLOCKS + 1;
    assert_int_equal(prefix_pins_create(&pins, &w.o), ERR_INVAL);
    w.o.tenant_blocks = 1;
    w.o.most_blocks = BLOCKS + 1;
    assert_int_equal(prefix_pins_create(&pins, &w.o), ERR_INVAL);
    assert_null(pins);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pins_agree_with_their_definition),
        cmocka_unit_test(expiry_is_bounded_work),
        cmocka_unit_test(a_pin_is_extended),
        cmocka_unit_test(contradictions_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
