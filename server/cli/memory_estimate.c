/* server/cli/memory_estimate.c - see memory_estimate.h.
 *
 * An instance is made as for serving but without its weights; all sizes are then read from its
 * parts: cache, states, scratch memory of the runner, swap. So the estimate uses the same code as
 * the server, and has no formulas of its own that could differ.
 */
#include "server/cli/memory_estimate.h"

#include "config/config.h"
#include "core/hub/pull.h"
#include "core/model/model.h"
#include "core/runtime/runner.h"
#include "kvcache/kv_events.h"
#include "kvcache/kv_manager.h"
#include "kvcache/kv_store.h"
#include "kvcache/state_store.h"
#include "scheduler/request/history_lookup.h"
#include "server/engine_io/block_store.h"
#include "server/models/instance.h"
#include "server/models/instance_draft.h"
#include "server/kv_events/kv_event_publisher.h"

#define HUGE_PAGE ((uint64_t)2 << 20) /* large memory is made of huge pages, where the system has
                                       * them */

static uint64_t whole_pages(uint64_t bytes)
{
    return (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
}

static uint64_t event_bytes(const struct instance *e)
{
    return e->events == NULL ? 0
                             : kv_events_bytes(e->events) +
                                   kv_event_publisher_bytes(e->cache.n_blocks);
}

/* Return the bytes of the block store, which some models cannot use: see
 * server/cli/serve_model.c. */
static uint64_t store_bytes(const struct instance *e, const struct config *c)
{
    const struct kv_record_form form = instance_record_form(e);

    if (c->kv_store[0] == '\0' || !kv_manager_can_enter(e->manager))
        return 0;
    return block_store_bytes(&form, e->kv->n_blocks);
}

static uint64_t history_bytes(const struct instance *e, const struct config *c)
{
    const uint32_t n = instance_draft_history(e, c);

    return n > 0 ? history_lookup_bytes(n) : 0;
}

static struct memory_estimate estimate_of(const struct instance *e, const struct config *c)
{
    const bool has_adapters = c->adapters[0] != '\0' || c->adapters_dir[0] != '\0';
    const size_t block = e->kv->block_stride; /* the block's bytes and the padding after them */
    const uint32_t n_groups = kv_groups_n(&e->cache.groups), n_ctx = e->sched.max_context;
    const uint64_t state = e->states != NULL ? state_store_slot_bytes(e->states) : 0;

    return (struct memory_estimate){
        .weights = whole_pages(e->model->weight_bytes),
        .tables = whole_pages(e->model->table_bytes),
        .cache = (uint64_t)e->kv->n_blocks * block,
        .pinned = (uint64_t)e->cache.pins.most_blocks * block,
        .tenant_pinned = (uint64_t)e->cache.pins.tenant_blocks * block,
        .states = e->cache.states.n_slots * state,
        .state = state,
        .rows = runner_scratch_bytes(e->runner),
        .events = event_bytes(e),
        .store = store_bytes(e, c),
        .history = history_bytes(e, c),
        .swap = c->swap_ram,
        .adapters = has_adapters ? c->adapter_memory : 0,
        .token = n_groups * block / BLOCK_TOKENS,
        .n_tokens = e->kv->n_blocks / n_groups * BLOCK_TOKENS,
        .sequence = kv_groups_peak(&e->cache.groups, n_ctx, 1) * block + state,
    };
}

/* Return the bytes of all memory of a draft model; 0: there is none. */
static uint64_t draft_bytes(const struct instance *e)
{
    if (e->model == NULL)
        return 0;
    return whole_pages(e->model->weight_bytes) + whole_pages(e->model->table_bytes) +
           (uint64_t)e->kv->n_blocks * e->kv->block_stride + runner_scratch_bytes(e->runner);
}

struct memory_estimate memory_estimate_of(const struct instance *engine,
                                          const struct instance *draft, const struct config *own)
{
    struct memory_estimate out = estimate_of(engine, own);

    out.draft = draft_bytes(draft);
    return out;
}

/* The draft model is made too, and released after it has been measured. */
int memory_estimate_make(struct memory_estimate *out, struct instance *engine, struct config *own,
                         const struct instance_company *company, char *err, size_t err_len)
{
    struct instance_draft draft = {0};
    int code = instance_init_among(engine, own, INSTANCE_PLAN | INSTANCE_ENCODERS, company, err,
                                   err_len);

    *out = (struct memory_estimate){0};
    if (code != EXIT_OK)
        return code;
    if (instance_draft_fetch(own, hub_pull, err, err_len) < 0)
        code = EXIT_FAILED;
    if (code == EXIT_OK)
        code = instance_draft_init(&draft, engine, own, INSTANCE_PLAN, company, err, err_len);
    if (code == EXIT_OK)
        *out = memory_estimate_of(engine, &draft.engine, own);
    else
        instance_release(engine);
    instance_draft_release(&draft);
    return code;
}

uint64_t memory_estimate_sum(const struct memory_estimate *p)
{
    return p->weights + p->tables + p->cache + p->states + p->rows + p->events + p->store +
           p->history + p->draft + p->process;
}
