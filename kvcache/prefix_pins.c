/* kvcache/prefix_pins.c - a heap of pins by their end; see prefix_pins.h.
 *
 * A pin has no list of its blocks: they are those of its last entry and of the entries before it,
 * which cannot leave the index while the pin exists. `at` finds the pin of a last entry in the
 * heap; `owners` has the tenant that each pinned block is charged to.
 */
#include "kvcache/prefix_pins.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "kvcache/kv_states.h"

#include <assert.h>
#include <stddef.h>

struct prefix_pins {
    struct prefix_pins_options opt;
    struct prefix_pin *heap; /* [n], room for most_blocks; [0] ends first */
    uint32_t n, n_charged;   /* pins; blocks of all tenants */
    uint32_t *at;            /* [n_blocks + 1] by last entry: index in heap + 1; 0: none */
    uint32_t *owners;        /* [n_blocks + 1] tenant of each pinned block */
    struct prefix_pins_tenant *tenants; /* [n_tenants] */
};

static bool are_sane(const struct prefix_pins_options *o)
{
    return o->n_groups > 0 && o->n_full <= o->n_groups && o->n_tenants > 0 &&
           o->tenant_blocks > 0 && o->tenant_blocks <= o->most_blocks &&
           o->most_blocks <= o->n_blocks && o->n_blocks < UINT32_MAX &&
           (o->states == NULL) == (o->most_states == 0);
}

int prefix_pins_create(struct prefix_pins **out, const struct prefix_pins_options *o)
{
    struct prefix_pins *p;

    *out = NULL;
    if (!are_sane(o))
        return ERR_INVAL;
    p = mem_calloc(1, sizeof(*p));
    if (p == NULL)
        return ERR_NOMEM;
    p->opt = *o;
    p->heap = mem_calloc(o->most_blocks, sizeof(*p->heap));
    p->at = mem_calloc((size_t)o->n_blocks + 1, sizeof(*p->at));
    p->owners = mem_calloc((size_t)o->n_blocks + 1, sizeof(*p->owners));
    p->tenants = mem_calloc(o->n_tenants, sizeof(*p->tenants));
    if (p->heap == NULL || p->at == NULL || p->owners == NULL || p->tenants == NULL) {
        prefix_pins_destroy(&p);
        return ERR_NOMEM;
    }
    *out = p;
    return 0;
}

/* ---- the heap ---- */

static void put_pin(struct prefix_pins *p, uint32_t i, struct prefix_pin pin)
{
    p->heap[i] = pin;
    p->at[pin.end.n] = i + 1;
}

static void pin_sift_up(struct prefix_pins *p, uint32_t i)
{
    const struct prefix_pin pin = p->heap[i];

    while (i > 0 && pin.until_us < p->heap[(i - 1) / 2].until_us) {
        put_pin(p, i, p->heap[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    put_pin(p, i, pin);
}

static void pin_sift_down(struct prefix_pins *p, uint32_t i)
{
    const struct prefix_pin pin = p->heap[i];

    for (uint32_t child; (child = 2 * i + 1) < p->n; i = child) {
        child += child + 1 < p->n && p->heap[child + 1].until_us < p->heap[child].until_us;
        if (p->heap[child].until_us >= pin.until_us)
            break;
        put_pin(p, i, p->heap[child]);
    }
    put_pin(p, i, pin);
}

static struct prefix_pin take_first(struct prefix_pins *p)
{
    const struct prefix_pin first = p->heap[0];

    p->at[first.end.n] = 0;
    if (--p->n > 0) {
        p->heap[0] = p->heap[p->n];
        pin_sift_down(p, 0);
    }
    return first;
}

/* ---- blocks ---- */

/* True: a pin needs the block of a group that is number b of its chain. */
static bool is_needed(const struct prefix_pins *p, const struct prefix_pin *pin, uint32_t group,
                      uint32_t b)
{
    return p->opt.n_full == 0 || group < p->opt.n_full || b >= pin->first;
}

static void pin_block(struct prefix_pins *p, block_id block, uint32_t tenant)
{
    const bool is_new = !block_pool_is_pinned(p->opt.pool, block);
    const int rc = block_pool_pin(p->opt.pool, block);

    assert(rc == 0);
    (void)rc;
    if (!is_new)
        return;
    p->owners[block] = tenant;
    p->tenants[tenant].n_blocks++;
    p->n_charged++;
}

static void unpin_block(struct prefix_pins *p, block_id block)
{
    const int rc = block_pool_unpin(p->opt.pool, block);

    assert(rc == 0);
    (void)rc;
    if (block_pool_is_pinned(p->opt.pool, block))
        return;
    p->tenants[p->owners[block]].n_blocks--;
    p->n_charged--;
}

/* Count the blocks of a snapshot that is pinned, or no longer is; each pin has one of its own. */
static void charge_state(struct prefix_pins *p, uint32_t tenant, bool is_pinned)
{
    const uint32_t n = is_pinned ? p->opt.state_blocks : 0 - p->opt.state_blocks; /* mod 2^32 */

    p->tenants[tenant].n_blocks += n;
    p->n_charged += n;
}

/* Unpin a pin's blocks, from the last to the first: so a block becomes cached after those that
 * follow it, and is evicted after them. Returns how many there were. */
static uint32_t release_pin(struct prefix_pins *p, const struct prefix_pin *pin)
{
    struct prefix_id entry = pin->end;
    uint32_t n = 0;

    for (uint32_t b = pin->n; b-- > 0;) {
        const struct prefix_id before = prefix_index_before(p->opt.index, entry);

        for (uint32_t group = p->opt.n_groups; group-- > 0;)
            if (is_needed(p, pin, group, b)) {
                unpin_block(p, prefix_index_at(p->opt.index, entry, group));
                n++;
            }
        entry = before;
    }
    p->tenants[pin->tenant].n_pins--;
    if (p->opt.states != NULL) {
        kv_states_unpin(p->opt.states, pin->end);
        charge_state(p, pin->tenant, false);
    }
    return n;
}

void prefix_pins_destroy(struct prefix_pins **pins)
{
    struct prefix_pins *p = pins != NULL ? *pins : NULL;

    if (p == NULL)
        return;
    while (p->n > 0) {
        const struct prefix_pin pin = take_first(p);

        release_pin(p, &pin);
    }
    mem_free(p->heap);
    mem_free(p->at);
    mem_free(p->owners);
    mem_free(p->tenants);
    mem_free(p);
    *pins = NULL;
}

/* ---- pins ---- */

uint32_t prefix_pins_room(const struct prefix_pins *p, uint32_t tenant)
{
    const uint32_t used = p->tenants[tenant].n_blocks;
    const uint32_t own = used < p->opt.tenant_blocks ? p->opt.tenant_blocks - used : 0;
    const uint32_t all = p->opt.most_blocks - p->n_charged;

    return own < all ? own : all;
}

uint32_t prefix_pins_cost(const struct prefix_pins *p, const struct prefix_pin *pin)
{
    struct prefix_id entry = pin->end;
    uint32_t n = 0;

    if (p->opt.states != NULL && p->at[pin->end.n] == 0) {
        if (p->n == p->opt.most_states)
            return UINT32_MAX;
        n = p->opt.state_blocks;
    }
    for (uint32_t b = pin->n; b-- > 0;) {
        for (uint32_t group = 0; group < p->opt.n_groups; group++)
            n += is_needed(p, pin, group, b) &&
                 !block_pool_is_pinned(p->opt.pool, prefix_index_at(p->opt.index, entry, group));
        entry = prefix_index_before(p->opt.index, entry);
    }
    return n;
}

/* Move the end of a pin that exists. */
static void extend_pin(struct prefix_pins *p, uint32_t i, uint64_t until_us)
{
    struct prefix_pins_tenant *t = &p->tenants[p->heap[i].tenant];

    if (until_us <= p->heap[i].until_us)
        return;
    if (until_us > t->until_us)
        t->until_us = until_us;
    p->heap[i].until_us = until_us;
    pin_sift_down(p, i);
}

void prefix_pins_add(struct prefix_pins *p, const struct prefix_pin *pin)
{
    struct prefix_pins_tenant *t = &p->tenants[pin->tenant];
    struct prefix_id entry = pin->end;

    assert(pin->n > 0 && pin->first <= pin->n && pin->tenant < p->opt.n_tenants);
    if (p->at[pin->end.n] != 0) {
        extend_pin(p, p->at[pin->end.n] - 1, pin->until_us);
        return;
    }
    assert(prefix_pins_cost(p, pin) <= prefix_pins_room(p, pin->tenant));
    for (uint32_t b = pin->n; b-- > 0; entry = prefix_index_before(p->opt.index, entry))
        for (uint32_t group = 0; group < p->opt.n_groups; group++)
            if (is_needed(p, pin, group, b))
                pin_block(p, prefix_index_at(p->opt.index, entry, group), pin->tenant);
    assert(prefix_id_is_none(entry));
    if (p->opt.states != NULL) {
        kv_states_pin(p->opt.states, pin->end);
        charge_state(p, pin->tenant, true);
    }
    if (t->n_pins++ == 0 || pin->until_us > t->until_us)
        t->until_us = pin->until_us;
    p->heap[p->n] = *pin;
    pin_sift_up(p, p->n++);
}

void prefix_pins_expire(struct prefix_pins *p, uint64_t now_us, uint32_t most)
{
    for (uint32_t n = 0; n < most && p->n > 0 && p->heap[0].until_us <= now_us;) {
        const struct prefix_pin pin = take_first(p);

        n += release_pin(p, &pin);
    }
}

/* ---- inspection ---- */

struct prefix_pins_tenant prefix_pins_of(const struct prefix_pins *p, uint32_t tenant)
{
    return p->tenants[tenant];
}

uint32_t prefix_pins_n_blocks(const struct prefix_pins *p)
{
    return p->n_charged;
}

static bool check_heap(const struct prefix_pins *p)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->n; i++)
        if (p->at[p->heap[i].end.n] != i + 1 ||
            (i > 0 && p->heap[i].until_us < p->heap[(i - 1) / 2].until_us))
            return false;
    for (uint32_t i = 0; i <= p->opt.n_blocks; i++)
        n += p->at[i] != 0;
    return n == p->n;
}

/* Check that a pin's entries are a whole chain whose needed blocks are pinned. */
static bool check_pin(const struct prefix_pins *p, const struct prefix_pin *pin)
{
    struct prefix_id entry = pin->end;

    for (uint32_t b = pin->n; b-- > 0;) {
        if (prefix_id_is_none(entry))
            return false;
        for (uint32_t group = 0; group < p->opt.n_groups; group++)
            if (is_needed(p, pin, group, b) &&
                !block_pool_is_pinned(p->opt.pool, prefix_index_at(p->opt.index, entry, group)))
                return false;
        entry = prefix_index_before(p->opt.index, entry);
    }
    return prefix_id_is_none(entry);
}

bool prefix_pins_check(const struct prefix_pins *p)
{
    uint64_t n_pins = 0, n_blocks = 0;
    uint32_t n_pinned = 0;

    for (uint32_t i = 0; i < p->n; i++)
        if (!check_pin(p, &p->heap[i]))
            return false;
    for (uint32_t i = 0; i < p->opt.n_tenants; i++) {
        if (p->tenants[i].n_blocks > p->opt.tenant_blocks)
            return false;
        n_pins += p->tenants[i].n_pins;
        n_blocks += p->tenants[i].n_blocks;
    }
    for (block_id id = 1; id <= p->opt.n_blocks; id++)
        n_pinned += block_pool_is_pinned(p->opt.pool, id);
    if (p->opt.states != NULL)
        n_pinned += p->n * p->opt.state_blocks;
    return n_pins == p->n && n_blocks == p->n_charged && n_pinned == p->n_charged &&
           p->n_charged <= p->opt.most_blocks && check_heap(p);
}
