/* tests/tools/cluster/cluster.c - see cluster.h.
 *
 * A heap has the next time of each replica; an entry whose key is not the replica's present key is
 * outdated and skipped. Times are doubled, and the lowest bit orders ends of steps before arrivals
 * and plans of the same time. A replica whose next events the router cannot see (quiet_until) runs
 * ahead many steps at once, which keeps its data in the processor's caches: the result is the same
 * as strict order, only faster.
 */
#include "tests/tools/cluster/cluster.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "scheduler/replay/time_heap.h"
#include "tests/tools/cluster/workload.h"

struct replica {
    struct simulate *sim;
    struct cluster *cluster;
    uint32_t id;
    uint64_t key; /* key of its valid entry in the heap; UINT64_MAX: none */
};

struct place { /* the replica that got a request */
    uint32_t replica;
    size_t number; /* its number in that replica */
};

struct cluster {
    struct replica *replicas; /* [n] */
    uint32_t n;
    struct router *router;
    enum router_policy policy;
    struct time_heap events; /* replicas by their keys; some entries are outdated */
    struct place *places;    /* [cap] by request */
    size_t n_places, cap;
    int rc;
};

/* ---- creation ---- */

static void on_end(void *ud, struct simulate *s, size_t i)
{
    const struct replica *r = ud;

    (void)s;
    (void)i;
    router_end(r->cluster->router, r->id);
}

static void on_block(void *ud, struct prefix_hash hash, bool is_in)
{
    const struct replica *r = ud;

    if (router_block(r->cluster->router, r->id, hash, is_in) < 0)
        r->cluster->rc = ERR_NOMEM;
}

static int create_replica(struct cluster *c, uint32_t i, const struct cluster_options *options)
{
    struct simulate_options own = options->kinds[i % options->n_kinds];
    struct replica *r = &c->replicas[i];

    *r = (struct replica){.cluster = c, .id = i, .key = UINT64_MAX};
    own.seed += i / options->n_kinds;
    own.on_end = on_end;
    own.on_block = options->router == ROUTER_PREFIX ? on_block : NULL;
    own.ud = r;
    return simulate_create(&r->sim, &own);
}

int cluster_create(struct cluster **out, const struct cluster_options *options)
{
    struct cluster *c = mem_calloc(1, sizeof(*c));
    int rc;

    *out = NULL;
    if (c == NULL)
        return ERR_NOMEM;
    c->n = options->n_replicas;
    c->policy = options->router;
    c->replicas = mem_calloc(c->n, sizeof(*c->replicas));
    rc = c->replicas != NULL ? router_create(&c->router, options->router, c->n) : ERR_NOMEM;
    for (uint32_t i = 0; i < c->n && rc == 0; i++)
        rc = create_replica(c, i, options);
    if (rc < 0)
        cluster_destroy(&c);
    *out = c;
    return rc;
}

void cluster_destroy(struct cluster **cluster)
{
    struct cluster *c = cluster != NULL ? *cluster : NULL;

    if (c == NULL)
        return;
    for (uint32_t i = 0; c->replicas != NULL && i < c->n; i++)
        simulate_destroy(&c->replicas[i].sim);
    router_destroy(&c->router);
    time_heap_release(&c->events);
    mem_free(c->replicas);
    mem_free(c->places);
    mem_free(c);
    *cluster = NULL;
}

/* ---- events ---- */

/* The order of an event: by time, and at equal times ends of steps first. */
static uint64_t key_of(const struct simulate_event *e)
{
    return e->at_us * 2 + !e->ends_step;
}

/* The key before which the router sees nothing of the replica. Until then the replica may run
 * ahead, many steps at once while it is in the processor's caches. Round-robin never looks at
 * replicas. */
static uint64_t quiet_until(const struct cluster *c, const struct replica *r)
{
    switch (c->policy) {
    case ROUTER_ROUND_ROBIN:
        return UINT64_MAX - 1;
    case ROUTER_LEAST_LOADED:
        return simulate_earliest_end(r->sim) * 2;
    case ROUTER_PREFIX:
        break;
    }
    return 0;
}

/* Enter the replica's next turn into the heap. */
static void schedule(struct cluster *c, struct replica *r)
{
    struct simulate_event next;
    uint64_t key = UINT64_MAX, quiet;

    if (simulate_next(r->sim, &next)) {
        key = key_of(&next);
        quiet = quiet_until(c, r);
        key = quiet > key ? quiet : key;
    }
    if (key == r->key)
        return;
    r->key = key;
    if (key != UINT64_MAX && time_heap_add(&c->events, key, r->id) < 0)
        c->rc = ERR_NOMEM;
}

/* Process all events of a replica with keys below `key`. */
static void catch_up(struct cluster *c, struct replica *r, uint64_t key)
{
    struct simulate_event next;

    while (c->rc == 0 && simulate_next(r->sim, &next) && key_of(&next) < key) {
        const int rc = simulate_advance(r->sim);

        c->rc = rc < 0 ? rc : c->rc;
    }
}

/* Process all events before `key` that the router may see; with UINT64_MAX all events. */
static void run_until(struct cluster *c, uint64_t key)
{
    while (c->rc == 0 && c->events.n > 0 && c->events.items[0].at < key) {
        const struct timed event = time_heap_take(&c->events);
        struct replica *r = &c->replicas[event.id];

        if (event.at != r->key)
            continue;
        r->key = UINT64_MAX;
        catch_up(c, r, key);
        schedule(c, r);
    }
}

/* ---- arrivals ---- */

static int grow_cluster(struct cluster *c)
{
    const size_t cap = c->cap > 0 ? 2 * c->cap : 256;
    struct place *places = mem_realloc(c->places, cap * sizeof(*places));

    if (places == NULL)
        return ERR_NOMEM;
    c->places = places;
    c->cap = cap;
    return 0;
}

/* Choose the replica of an arrival; a parallel choice goes to the replica of its prefix owner. */
static int64_t choose_replica(struct cluster *c, struct simulate_arrival *a)
{
    const struct place *owner;

    if (a->prefix_owner == 0 || a->prefix_owner > c->n_places) {
        a->prefix_owner = 0;
        return router_choose(c->router, a);
    }
    owner = &c->places[a->prefix_owner - 1];
    a->prefix_owner = owner->number + 1;
    router_place(c->router, owner->replica);
    return owner->replica;
}

static int arrive(struct cluster *c, struct simulate_arrival *a)
{
    int64_t replica, number;

    if (c->n_places == c->cap && grow_cluster(c) < 0)
        return ERR_NOMEM;
    replica = choose_replica(c, a);
    if (replica < 0)
        return (int)replica;
    if (c->policy == ROUTER_LEAST_LOADED)
        catch_up(c, &c->replicas[replica], a->at_us * 2 + 1);
    number = simulate_add(c->replicas[replica].sim, a);
    if (number < 0)
        return (int)number;
    c->places[c->n_places++] = (struct place){(uint32_t)replica, (size_t)number};
    schedule(c, &c->replicas[replica]);
    return c->rc;
}

int cluster_run(struct cluster *c, struct workload *w)
{
    struct simulate_arrival a;

    while (c->rc == 0 && workload_next(w, &a)) {
        run_until(c, a.at_us * 2 + 1);
        if (c->rc == 0)
            c->rc = arrive(c, &a);
    }
    run_until(c, UINT64_MAX);
    return c->rc;
}

uint32_t cluster_n(const struct cluster *c)
{
    return c->n;
}

const struct simulate *cluster_replica(const struct cluster *c, uint32_t i)
{
    return c->replicas[i].sim;
}
