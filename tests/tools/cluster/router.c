/* tests/tools/cluster/router.c - see router.h.
 *
 * A load is the number of requests in flight and the number of the latest choice, which breaks
 * ties. The prefix policy hashes the prompt block by block and narrows the set of replicas that
 * hold all blocks so far, until the set would be empty: what remains are the replicas with the
 * longest prefix.
 */
#include "tests/tools/cluster/router.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "tests/tools/cluster/block_holders.h"
#include "scheduler/replay/simulate.h"

#include <string.h>

const char *router_policy_name(enum router_policy p)
{
    static const char *const names[ROUTER_POLICIES] = {
        [ROUTER_ROUND_ROBIN] = "round-robin",
        [ROUTER_PREFIX] = "prefix",
        [ROUTER_LEAST_LOADED] = "least-loaded",
    };

    return names[p];
}

struct load {
    uint32_t n_in_flight;
    uint64_t chosen; /* number of the latest choice of it; 0 = never chosen */
};

struct router {
    enum router_policy policy;
    uint32_t n;
    struct load *loads;            /* [n] */
    uint64_t n_choices, n_turns;   /* choices in all; of round-robin */
    struct block_holders *holders; /* for the prefix policy, else NULL */
    uint64_t *set;                 /* set of replicas, scratch */
    int32_t *ids;                  /* [cap] the prompt that is looked up, scratch */
    uint32_t cap;
};

int router_create(struct router **out, enum router_policy policy, uint32_t n_replicas)
{
    struct router *r = mem_calloc(1, sizeof(*r));

    *out = NULL;
    if (r == NULL)
        return ERR_NOMEM;
    r->policy = policy;
    r->n = n_replicas;
    r->loads = mem_calloc(n_replicas, sizeof(*r->loads));
    r->set = mem_calloc((n_replicas + 63) / 64, sizeof(*r->set));
    if (r->loads == NULL || r->set == NULL ||
        (policy == ROUTER_PREFIX && block_holders_create(&r->holders, n_replicas) < 0)) {
        router_destroy(&r);
        return ERR_NOMEM;
    }
    *out = r;
    return 0;
}

void router_destroy(struct router **router)
{
    struct router *r = router != NULL ? *router : NULL;

    if (r == NULL)
        return;
    block_holders_destroy(&r->holders);
    mem_free(r->loads);
    mem_free(r->set);
    mem_free(r->ids);
    mem_free(r);
    *router = NULL;
}

static bool is_better(const struct load *a, const struct load *b)
{
    return a->n_in_flight != b->n_in_flight ? a->n_in_flight < b->n_in_flight
                                            : a->chosen < b->chosen;
}

static uint32_t least_loaded(const struct router *r)
{
    uint32_t best = 0;

    for (uint32_t i = 1; i < r->n; i++)
        if (is_better(&r->loads[i], &r->loads[best]))
            best = i;
    return best;
}

/* The least loaded replica of a set that is not empty. */
static uint32_t least_loaded_of(const struct router *r, const uint64_t *set)
{
    uint32_t best = UINT32_MAX;

    for (uint32_t w = 0; w < (r->n + 63) / 64; w++)
        for (uint64_t left = set[w]; left != 0; left &= left - 1) {
            const uint32_t i = w * 64 + (uint32_t)__builtin_ctzll(left);

            if (best == UINT32_MAX || is_better(&r->loads[i], &r->loads[best]))
                best = i;
        }
    return best;
}

static int read_prompt(struct router *r, const struct simulate_arrival *a)
{
    if (a->n_prompt > r->cap) {
        int32_t *ids = mem_realloc(r->ids, a->n_prompt * sizeof(*ids));

        if (ids == NULL)
            return ERR_NOMEM;
        r->ids = ids;
        r->cap = a->n_prompt;
    }
    simulate_make_prompt(a, r->ids);
    return 0;
}

static int64_t longest_prefix(struct router *r, const struct simulate_arrival *a)
{
    struct prefix_hash hash = prefix_hash_root(a->salt);
    uint32_t b = 0;

    if (read_prompt(r, a) < 0)
        return ERR_NOMEM;
    memset(r->set, 0xff, block_holders_words(r->holders) * sizeof(*r->set));
    for (; b < a->n_prompt / BLOCK_TOKENS; b++) {
        hash = prefix_hash_next(hash, r->ids + (size_t)b * BLOCK_TOKENS);
        if (!block_holders_narrow(r->holders, hash, r->set))
            break;
    }
    return b > 0 ? least_loaded_of(r, r->set) : least_loaded(r);
}

void router_place(struct router *r, uint32_t replica)
{
    r->loads[replica].n_in_flight++;
    r->loads[replica].chosen = ++r->n_choices;
}

int64_t router_choose(struct router *r, const struct simulate_arrival *a)
{
    int64_t replica = 0;

    switch (r->policy) {
    case ROUTER_ROUND_ROBIN:
        replica = (int64_t)(r->n_turns++ % r->n);
        break;
    case ROUTER_PREFIX:
        replica = longest_prefix(r, a);
        break;
    case ROUTER_LEAST_LOADED:
        replica = least_loaded(r);
        break;
    }
    if (replica >= 0)
        router_place(r, (uint32_t)replica);
    return replica;
}

void router_end(struct router *r, uint32_t replica)
{
    r->loads[replica].n_in_flight--;
}

int router_block(struct router *r, uint32_t replica, struct prefix_hash hash, bool is_in)
{
    if (is_in)
        return block_holders_add(r->holders, hash, replica);
    block_holders_remove(r->holders, hash, replica);
    return 0;
}

uint32_t router_in_flight(const struct router *r, uint32_t replica)
{
    return r->loads[replica].n_in_flight;
}
