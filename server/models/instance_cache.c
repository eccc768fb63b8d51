/* server/models/instance_cache.c - sizes and creates the cache of a served model; see
 * instance_impl.h.
 *
 * kv_memory is divided: recurrent states take their share first, blocks of keys and values get the
 * rest. The number of blocks then limits the scheduler (a context is never longer than all blocks),
 * and the scheduler's limits size the swap tiers and the manager, so that the order of the calls in
 * instance_make_cache() matters.
 */
#include "server/models/instance_impl.h"

#include "config/config.h"
#include "core/base/err.h"
#include "core/base/log.h"
#include "core/model/model.h"
#include "core/runtime/runner.h"
#include "kvcache/kv_manager.h"
#include "kvcache/kv_store.h"
#include "kvcache/state_store.h"
#include "kvcache/swap_store.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- keys and values ---- */

_Static_assert((int)CONFIG_KV_F16 == KERN_KV_F16 && (int)CONFIG_KV_BF16 == KERN_KV_BF16 &&
                   (int)CONFIG_KV_Q8_0 == KERN_KV_Q8_0 && (int)CONFIG_KV_Q4_0 == KERN_KV_Q4_0 &&
                   (int)CONFIG_KV_F32 == KERN_KV_F32,
               "types are in the order of their words");

/* Set the type of keys and values from the settings, and check the head sizes that some types
 * need. */
static int choose_kv_type(struct instance *e, const struct config *c, char *err, size_t err_len)
{
    const struct model_shape *s = &e->model->shape;
    uint32_t group;

    e->kv_type = (enum kern_kv)c->kv_type;
    group = kern_kv_group(e->kv_type);
    if (runner_kv_fits(e->model, e->kv_type))
        return 0;
    snprintf(err, err_len,
             "kv_type '%s' needs heads whose sizes are multiples of %u, but this model's keys have "
             "%u numbers and its values %u: use kv_type 'f16'",
             kern_kv_name(e->kv_type), group, s->key_dim, s->value_dim);
    return ERR_UNSUPPORTED;
}

/* Most blocks of a model whose layers have no keys. It still counts tokens in blocks, which take no
 * memory: as many as all state slots need at the longest context, at most this. */
#define MOST_EMPTY_BLOCKS ((uint64_t)1 << 18)
static uint32_t n_empty_blocks(const struct instance *e)
{
    const uint64_t longest = block_table_needed(e->model->shape.n_ctx);
    const uint64_t n = e->cache.states.n_slots * longest;

    return (uint32_t)(n < MOST_EMPTY_BLOCKS || n == longest ? n : MOST_EMPTY_BLOCKS);
}

/* Create the KV store. n_slots: number of sequences that may have drafts, each with private
 * blocks. */
static int make_store(struct instance *e, const struct kv_shape *shape, uint64_t bytes,
                      uint32_t n_slots, char *err, size_t err_len)
{
    const size_t block_bytes = kv_store_block_bytes(shape);
    const uint32_t n_blocks =
        block_bytes > 0 ? kv_store_blocks_for(shape, bytes) : n_empty_blocks(e);
    int rc;

    if (n_blocks < e->model->groups.n) {
        snprintf(err, err_len,
                 "kv_memory is too small: %" PRIu64
                 " bytes of it are for keys and values, but one block of 16 tokens takes %zu",
                 bytes, e->model->groups.n * block_bytes);
        return ERR_RANGE;
    }
    rc = kv_store_create_private(&e->kv, shape, n_blocks, runner_private_blocks(e->model, n_slots));
    if (rc == 0)
        kv_store_spread(e->kv, &e->numa);
    else
        snprintf(err, err_len, "cannot reserve %" PRIu64 " bytes for the KV cache: %s", bytes,
                 err_text(rc));
    return rc;
}

/* ---- recurrent states ---- */

#define INTERVAL 16 /* blocks between two snapshots; each snapshot ends a chunk of the prompt */

/* Return the setting max_sequences, lowered so that each running sequence has a state slot and as
 * many slots are left for snapshots. */
static uint32_t max_sequences(const struct instance *e, const struct config *c)
{
    const uint32_t wanted = (uint32_t)c->max_sequences, n = e->cache.states.n_slots / 2;

    return e->cache.states.n_slots == 0 || wanted <= n ? wanted : n > 0 ? n : 1;
}

/* Return the bytes of kv_memory for states: state_memory, or half if that is 0; all when layers
 * have no keys. */
static uint64_t state_memory(const struct config *c, size_t block_bytes)
{
    if (c->state_memory > 0)
        return c->state_memory < c->kv_memory ? c->state_memory : c->kv_memory;
    return block_bytes > 0 ? c->kv_memory / 2 : c->kv_memory;
}

/* Create the state slots; a slot's size is a multiple of a swap slot's. *taken: bytes of all
 * slots. */
static int make_states(struct instance *e, const struct config *c, size_t block_bytes,
                       uint64_t *taken, char *err, size_t err_len)
{
    const size_t bytes = runner_state_bytes(e->model), part = block_bytes > 0 ? block_bytes : bytes;
    const uint64_t memory = state_memory(c, block_bytes);
    struct kv_state_options *s = &e->cache.states;
    uint64_t n;
    int rc;

    *taken = 0;
    if (bytes == 0)
        return 0;
    s->n_parts = (uint32_t)((bytes + part - 1) / part);
    s->is_alone = block_bytes == 0;
    n = memory / (s->n_parts * part);
    if (n < 2) {
        snprintf(err, err_len,
                 "kv_memory is too small: %" PRIu64
                 " bytes of it are for recurrent states, but two states of %zu bytes are needed",
                 memory, s->n_parts * part);
        return ERR_RANGE;
    }
    s->n_slots = n < UINT32_MAX / 2 ? (uint32_t)n : UINT32_MAX / 2;
    s->interval =
        c->state_interval > 0 ? block_table_needed((uint32_t)c->state_interval) : INTERVAL;
    *taken = s->n_slots * (uint64_t)(s->n_parts * part);
    rc = state_store_create(&e->states, s->n_parts * part, s->n_slots);
    if (rc == 0)
        state_store_spread(e->states, &e->numa);
    else
        snprintf(err, err_len, "cannot reserve %" PRIu64 " bytes for recurrent states: %s", *taken,
                 err_text(rc));
    return rc;
}

static int make_stores(struct instance *e, const struct config *c, char *err, size_t err_len)
{
    const struct kv_shape shape = runner_kv_shape(e->model, e->kv_type);
    uint64_t taken;
    int rc = make_states(e, c, kv_store_block_bytes(&shape), &taken, err, err_len);

    return rc < 0 ? rc
                  : make_store(e, &shape, c->kv_memory - taken, max_sequences(e, c), err, err_len);
}

/* ---- swapping ---- */

static uint32_t slots_for(uint64_t bytes, size_t block_bytes)
{
    const uint64_t n = bytes / block_bytes;

    return n < UINT32_MAX / 2 ? (uint32_t)n : UINT32_MAX / 2;
}

/* Return the bytes of a slot of the swap tiers: those of a block, or of a state when blocks have no
 * bytes. */
static size_t swap_slot_bytes(const struct instance *e)
{
    const size_t block_bytes = kv_store_block_bytes(&e->kv->shape);

    return block_bytes > 0 ? block_bytes : state_store_slot_bytes(e->states);
}

/* Return the RAM slots to use when swap_ram is 0, because copies to the swap file are staged in
 * RAM: as many as one sequence may need, and at least 16, enough for a few short ones. */
static uint32_t staging_slots(const struct instance *e)
{
    const struct kv_state_options *s = &e->cache.states;
    const uint64_t blocks = kv_groups_peak(&e->model->groups, e->sched.max_context, 1);
    const uint64_t longest = (s->is_alone ? 0 : blocks) + s->n_parts;

    return longest > 16 ? (uint32_t)longest : 16;
}

static int size_swap(struct instance *e, const struct config *c, char *err, size_t err_len)
{
    const size_t block_bytes = swap_slot_bytes(e);
    const bool has_file = c->swap_file[0] != '\0';

    e->cache.n_ram = slots_for(c->swap_ram, block_bytes);
    e->cache.n_file = has_file ? slots_for(c->swap_file_size, block_bytes) : 0;
    if (has_file && e->cache.n_file == 0) {
        snprintf(err, err_len,
                 "swap_file_size %" PRIu64 " is too small: the file needs at least %zu bytes",
                 c->swap_file_size, block_bytes);
        return ERR_RANGE;
    }
    if (has_file && e->cache.n_ram == 0)
        e->cache.n_ram = staging_slots(e);
    return 0;
}

static int open_swap(struct instance *e, const struct config *c, char *err, size_t err_len)
{
    const struct swap_store_options options = {
        .block_bytes = swap_slot_bytes(e),
        .n_ram = e->cache.n_ram,
        .n_file = e->cache.n_file,
        .path = c->swap_file,
    };

    return options.n_ram > 0 ? swap_store_open(&e->swap, &options, err, err_len) : 0;
}

/* ---- pins ---- */

/* True: the model's prefixes can be pinned, and a setting lets them. */
static bool has_pins(const struct instance *e, const struct config *c)
{
    return c->prefix_pin_memory > 0 && c->prefix_cache == CONFIG_ON &&
           !e->model->shape.is_encoder && !e->cache.states.is_alone &&
           (e->cache.states.n_slots == 0 || e->cache.states.n_slots >= 4);
}

static uint32_t fewer(uint64_t a, uint32_t b)
{
    return a < b ? (uint32_t)a : b;
}

/* Bound the pinned blocks: those of a tenant by the setting, those of all tenants by half of the
 * cache, and, as far as one tenant does not need more, by what the longest context leaves. */
static int size_pins(struct instance *e, const struct config *c, char *err, size_t err_len)
{
    struct kv_pin_options *pins = &e->cache.pins;
    const size_t block_bytes = kv_store_block_bytes(&e->kv->shape);
    const uint32_t n = e->kv->n_blocks, half = n / 2;
    const uint64_t longest = kv_groups_peak(&e->model->groups, e->model->shape.n_ctx, 1);
    uint32_t beside;

    if (!has_pins(e, c))
        return 0;
    if (c->prefix_pin_memory < block_bytes * kv_groups_n(&e->model->groups)) {
        snprintf(err, err_len,
                 "prefix_pin_memory %" PRIu64 " is too small: 16 tokens take %zu bytes",
                 c->prefix_pin_memory, block_bytes * kv_groups_n(&e->model->groups));
        return ERR_RANGE;
    }
    pins->most_states = e->cache.states.n_slots / 4; /* half of them may be running */
    beside = longest < n ? fewer(n - longest, half) : 0;
    pins->n_tenants = (uint32_t)c->max_tenants;
    pins->tenant_blocks = fewer(c->prefix_pin_memory / block_bytes, half);
    pins->most_blocks = pins->tenant_blocks > beside ? pins->tenant_blocks : beside;
    pins->most_blocks = fewer((uint64_t)pins->tenant_blocks * pins->n_tenants, pins->most_blocks);
    return 0;
}

/* ---- the block manager ---- */

_Static_assert((int)CONFIG_PLACEMENT_FIRST_FIT == BLOCK_FIRST_FIT &&
                   (int)CONFIG_PLACEMENT_BEST_FIT == BLOCK_BEST_FIT &&
                   (int)CONFIG_PLACEMENT_ROUND_ROBIN == BLOCK_ROUND_ROBIN,
               "placements are in the order of their words");

/* Return the most swapped copies at a time: each priority may have preempted a batch of the one
 * below it, and there are never more copies than swap slots. */
static uint32_t max_copies(const struct instance *e)
{
    const uint64_t slots = (uint64_t)e->cache.n_ram + e->cache.n_file;
    const uint64_t wanted = (uint64_t)PRIORITY_COUNT * e->sched.max_sequences;

    return (uint32_t)(slots < wanted ? slots : wanted);
}

static int make_events(struct instance *e, const struct config *c, char *err, size_t err_len)
{
    const struct kv_events_options options = {.n_slots = (uint32_t)c->kv_events_queue_size,
                                              .n_blocks = e->cache.n_blocks};
    int rc;

    if (c->kv_events == CONFIG_KV_EVENTS_OFF || !e->cache.prefix_cache)
        return 0;
    rc = kv_events_create(&e->events, &options);
    if (rc < 0)
        snprintf(err, err_len, "no memory for the KV events of %u blocks", e->cache.n_blocks);
    e->cache.events = e->events;
    return rc;
}

static int make_manager(struct instance *e, const struct config *c, char *err, size_t err_len)
{
    int rc;

    e->cache.n_blocks = e->kv->n_blocks;
    e->cache.placement = (enum block_placement)c->placement;
    e->cache.prefix_cache = c->prefix_cache == CONFIG_ON && !e->model->shape.is_encoder;
    e->cache.max_sequences = max_copies(e);
    e->cache.max_table = block_table_needed(e->sched.max_context);
    e->cache.groups = e->model->groups;
    e->cache.max_chunk = e->sched.prefill_chunk;
    e->cache.low_percent = (uint32_t)c->kv_low_percent;
    e->cache.critical_percent = (uint32_t)c->kv_critical_percent;
    rc = make_events(e, c, err, err_len);
    if (rc < 0)
        return rc;
    rc = kv_manager_create(&e->manager, &e->cache);
    if (rc < 0)
        snprintf(err, err_len, "cannot set up the KV cache of %u blocks: %s", e->kv->n_blocks,
                 err_text(rc));
    return rc;
}

static int make_holders(struct instance *e, const struct config *c, unsigned flags, char *err,
                        size_t err_len)
{
    int rc = 0;

    if ((flags & INSTANCE_SWAP) != 0)
        rc = size_swap(e, c, err, err_len);
    if (rc == 0)
        rc = open_swap(e, c, err, err_len);
    if (rc == 0)
        rc = make_manager(e, c, err, err_len);
    return rc;
}

uint32_t instance_draft_history(const struct instance *e, const struct config *c)
{
    const bool makes_drafts =
        c->speculation == CONFIG_SPECULATION_AUTO && !e->model->shape.is_encoder;

    return makes_drafts ? (uint32_t)c->speculation_history : 0;
}

struct kv_record_form instance_record_form(const struct instance *e)
{
    const struct kv_shape *s = &e->kv->shape;

    return (struct kv_record_form){
        .kv_id = {e->store_id[0], e->store_id[1]},
        .kv_type = (uint32_t)e->kv_type,
        .n_layer = s->n_layer,
        .n_kv_head = s->n_kv_head,
        .key_bytes = (uint32_t)s->key_bytes,
        .value_bytes = (uint32_t)s->value_bytes,
        .n_blocks = kv_record_blocks_for(kv_store_block_bytes(s)),
    };
}

/* ---- the scheduler's options ---- */

_Static_assert((int)CONFIG_POLICY_FCFS == SCHED_FCFS && (int)CONFIG_POLICY_SJF == SCHED_SJF &&
                   (int)CONFIG_POLICY_PRIORITY == SCHED_PRIORITY &&
                   (int)CONFIG_POLICY_ADAPTIVE == SCHED_ADAPTIVE,
               "policies are in the order of their words");
_Static_assert((int)CONFIG_PREEMPTION_AUTO == SCHED_AUTO &&
                   (int)CONFIG_PREEMPTION_RECOMPUTE == SCHED_RECOMPUTE &&
                   (int)CONFIG_PREEMPTION_SWAP == SCHED_SWAP,
               "ways to preempt are in the order of their words");

static void fill_sched_options(struct instance *e, const struct config *c)
{
    const uint32_t kv_tokens =
        kv_groups_most_tokens(&e->model->groups, e->kv->n_blocks - e->cache.pins.most_blocks);
    const bool is_encoder = e->model->shape.is_encoder;
    const uint32_t rows = (uint32_t)c->max_batch_tokens;
    uint32_t n_ctx = e->model->shape.n_ctx;

    if (is_encoder && n_ctx > rows) /* an encoder's text must fit into one step */
        n_ctx = rows;
    e->sched = (struct sched_options){
        .policy = (enum sched_policy)c->policy,
        .preemption = (enum sched_preemption)c->preemption,
        .aging_milli = (uint32_t)c->aging,
        .max_wait_ms = (uint32_t)c->max_wait_ms,
        .max_preemptions = (uint32_t)c->max_preemptions,
        .max_tenants = (uint32_t)c->max_tenants,
        .max_sequences = max_sequences(e, c),
        .max_requests = (uint32_t)(c->max_sequences + c->queue_limit),
        .max_context = kv_tokens < n_ctx ? kv_tokens : n_ctx,
        .max_batch_tokens = rows,
        .prefill_chunk = is_encoder ? rows : (uint32_t)c->prefill_chunk,
        .whole_prompts = is_encoder,
    };
}

/* ---- the whole cache ---- */

int instance_make_cache(struct instance *e, const struct config *c, unsigned flags, char *err,
                        size_t err_len)
{
    int rc = choose_kv_type(e, c, err, err_len);

    if (rc == 0)
        rc = make_stores(e, c, err, err_len);
    if (rc == 0)
        rc = size_pins(e, c, err, err_len);
    if (rc < 0)
        return rc;
    fill_sched_options(e, c);
    rc = make_holders(e, c, flags, err, err_len);
    e->sched.kv = e->manager;
    return rc;
}

static void log_swap(const struct instance *e, const struct config *c)
{
    const size_t bytes = swap_slot_bytes(e);
    char path[300]; /* a longer path is cut */

    log_info("engine",
             "swap_ram_blocks=%u swap_ram_bytes=%" PRIu64 " swap_ram_use=%s swap_file_blocks=%u "
             "swap_file_bytes=%" PRIu64 " swap_file=%s",
             e->cache.n_ram, (uint64_t)e->cache.n_ram * bytes,
             c->swap_ram == 0 ? "staging_for_the_file" : "copies", e->cache.n_file,
             (uint64_t)e->cache.n_file * bytes, log_quote(path, sizeof(path), c->swap_file));
}

static void log_states(const struct instance *e, const struct config *c)
{
    const struct kv_state_options *s = &e->cache.states;

    log_info("engine", "state_bytes=%zu state_slots=%u snapshot_interval=%u max_sequences=%u",
             runner_state_bytes(e->model), s->n_slots, s->interval * BLOCK_TOKENS,
             e->sched.max_sequences);
    if (e->sched.max_sequences < c->max_sequences)
        log_warn("engine",
                 "max_sequences is lowered to %u instead of %" PRId64
                 " because each sequence needs a recurrent state: raise kv_memory or state_memory",
                 e->sched.max_sequences, c->max_sequences);
}

static void log_pins(const struct instance *e)
{
    const struct kv_pin_options *pins = &e->cache.pins;

    if (pins->most_blocks > 0)
        log_info("engine", "pin_blocks=%u tenant_pin_blocks=%u max_context=%u", pins->most_blocks,
                 pins->tenant_blocks, e->sched.max_context);
    else
        log_warn("engine", "prefix_pin_memory has no effect: only generating models whose "
                           "layers have keys pin prefixes, with prefix_cache = on");
}

void instance_log_cache(const struct instance *e, const struct config *c)
{
    if (c->prefix_pin_memory > 0)
        log_pins(e);
    if (e->cache.states.n_slots > 0)
        log_states(e, c);
    if (e->swap != NULL)
        log_swap(e, c);
}
