/* server/admin/debug_pages.c - see debug_pages.h.
 *
 * Every page is rendered directly from the snapshot into one buffer, without a tree of JSON
 * objects; a snapshot is a plain struct, so nothing here can change the engine. Names of tenants
 * and requests, which a snapshot does not contain, are looked up by callbacks.
 */
#include "server/admin/debug_pages.h"

#include "core/base/clock.h"
#include "core/json/json.h"
#include "scheduler/prefix_fetch.h"

#include <inttypes.h>

static void add_owner_name(struct buf *out, const char *name)
{
    if (name != NULL)
        json_add_cstring(out, name);
    else
        buf_add_str(out, "null");
}

/* Add a time, null for 0. */
static void add_time(struct buf *out, const char *key, uint64_t us)
{
    if (us > 0)
        buf_printf(out, ",\"%s\":%.3f", key, ms_of(us));
    else
        buf_printf(out, ",\"%s\":null", key);
}

/* ---- requests ---- */

static const char *state_name(enum snapshot_state state)
{
    static const char *const names[] = {
        [SNAPSHOT_WAITING] = "waiting",
        [SNAPSHOT_PREFIX_WAITING] = "following",
        [SNAPSHOT_RUNNING] = "running",
        [SNAPSHOT_PREEMPTED] = "preempted",
    };

    return names[state];
}

/* Return the tier of a swapped copy; NULL: there is none. */
static const char *swap_name(int swap)
{
    static const char *const names[] = {
        [SWAP_RAM] = "ram",         [SWAP_WRITING] = "writing", [SWAP_FILE] = "file",
        [SWAP_READING] = "reading", [SWAP_LOST] = "lost",
    };

    return swap < 0 ? NULL : names[swap];
}

static void add_request(struct buf *out, const struct seq_info *q, const struct debug_names *names)
{
    buf_printf(out, "{\"id\":%" PRIu64 ",\"request_id\":", q->id);
    add_owner_name(out, names->request(names->ud, q->id));
    buf_printf(out, ",\"state\":\"%s\",\"priority\":\"%s\",\"tenant\":", state_name(q->state),
               priority_name(q->priority));
    add_owner_name(out, names->tenant(names->ud, q->tenant));
    buf_printf(out,
               ",\"prompt_tokens\":%u,\"max_tokens\":%u,\"known_tokens\":%u,"
               "\"discarded_tokens\":%u,\"computed_tokens\":%u,\"cached_tokens\":%u,\"blocks\":%u,"
               "\"draft_tokens\":%u,\"accepted_draft_tokens\":%u,\"n_preempted\":%u,\"swapped\":",
               q->n_prompt, q->max_tokens, q->n_known, q->n_discarded, q->n_done, q->n_cached,
               q->n_blocks, q->n_drafted, q->n_accepted, q->n_preempted);
    add_owner_name(out, swap_name(q->swap));
    buf_printf(out, ",\"age_ms\":%.3f,\"queue_ms\":%.3f", ms_of(q->age_us), ms_of(q->waited_us));
    add_time(out, "deadline_in_ms", q->deadline_in_us);
    buf_add_char(out, '}');
}

static void add_tenant(struct buf *out, const struct tenant_info *t,
                       const struct debug_names *names)
{
    buf_printf(out, "{\"tenant\":%u,\"name\":", t->tenant);
    add_owner_name(out, names->tenant(names->ud, t->tenant));
    buf_printf(out,
               ",\"weight\":%u,\"running\":%u,\"waiting\":%u,\"service_tokens\":%" PRIu64 "}",
               t->weight, t->n_running, t->n_waiting, t->service);
}

static void count_states(const struct snapshot *s, uint32_t *count)
{
    for (uint32_t i = 0; i < s->n_seqs; i++)
        count[s->seqs[i].state]++;
}

void debug_render_requests(const struct snapshot *s, const struct debug_names *names,
                           struct buf *out)
{
    uint32_t count[SNAPSHOT_PREEMPTED + 1] = {0};

    count_states(s, count);
    buf_add_str(out, "{\"object\":\"debug.requests\"");
    for (int i = 0; i <= SNAPSHOT_PREEMPTED; i++)
        buf_printf(out, ",\"n_%s\":%u", state_name((enum snapshot_state)i), count[i]);
    buf_add_str(out, ",\"requests\":[");
    for (uint32_t i = 0; i < s->n_seqs && i < DEBUG_MAX_REQUESTS; i++) {
        buf_add_str(out, i > 0 ? "," : "");
        add_request(out, &s->seqs[i], names);
    }
    buf_add_str(out, "],\"tenants\":[");
    for (uint32_t i = 0; i < s->n_tenants; i++) {
        buf_add_str(out, i > 0 ? "," : "");
        add_tenant(out, &s->tenants[i], names);
    }
    buf_add_str(out, "]}");
}

/* ---- iterations ---- */

static void add_costs(struct buf *out, const struct step_costs *c)
{
    buf_printf(out,
               "{\"is_known\":%s,\"step_ns\":%" PRIu64 ",\"prefill_row_ns\":%" PRIu64
               ",\"decode_row_ns\":%" PRIu64 ",\"decode_key_ps\":%" PRIu64
               ",\"prefill_key_ps\":%" PRIu64 ",\"swap_block_ns\":%" PRIu64
               ",\"file_block_ns\":%" PRIu64 "}",
               c->is_known ? "true" : "false", c->step_ns, c->prefill_ns, c->decode_ns,
               c->kv_decode_ps, c->kv_prefill_ps, c->swap_ns, c->file_ns);
}

/* Add an array of times by rows or streams, beginning with 1. */
static void add_draft_times(struct buf *out, const char *name, bool is_known,
                            const uint64_t ns[DRAFT_ROWS + 1])
{
    buf_printf(out, ",\"%s\":[", name);
    for (uint32_t n = 1; is_known && n <= DRAFT_ROWS; n++)
        buf_printf(out, "%s%.3f", n > 1 ? "," : "", (double)ns[n] / 1e6);
    buf_add_char(out, ']');
}

/* Add the time of a step of 1, 2, … rows without reading keys, the counters of drafts, and the same
 * for the draft model, if there is one. */
static void add_draft_costs(struct buf *out, const struct draft_costs *c)
{
    buf_printf(out, ",\"draft_costs\":{\"is_known\":%s,\"balance_ms\":%.3f",
               c->is_known ? "true" : "false", (double)c->balance_ns / 1e6);
    add_draft_times(out, "rows_ms", c->is_known, c->rows_ns);
    if (c->guess_ns[1] > 0) {
        buf_printf(out, ",\"draft_model\":{\"balance_ms\":%.3f,\"take_in_row_ms\":%.4f",
                   (double)c->model_balance_ns / 1e6, (double)c->take_in_ns / 1e6);
        add_draft_times(out, "guess_ms", true, c->guess_ns);
        buf_add_char(out, '}');
    }
    buf_add_char(out, '}');
}

static void add_iteration(struct buf *out, const struct step_info *t)
{
    buf_printf(out,
               "{\"step\":%" PRIu64 ",\"at_ms\":%.3f,\"sequences\":%u,\"prefill_rows\":%u,"
               "\"decode_rows\":%u,\"draft_rows\":%u,\"prefill_keys\":%" PRIu64
               ",\"decode_keys\":%" PRIu64 ",",
               t->step, ms_of(t->at_us), t->n_sequences, t->work.n_prefill, t->work.n_decode,
               t->n_drafts, t->work.kv_prefill, t->work.kv_decode);
    buf_printf(out,
               "\"admitted\":%u,\"preempted\":%u,\"swapped_out\":%u,\"swapped_in\":%u,"
               "\"moves\":%u",
               t->n_admitted, t->n_preempted, t->n_swapped_out, t->n_swapped_in, t->n_moves);
    add_time(out, "predicted_ms", t->predicted_us);
    buf_printf(out, ",\"took_ms\":%.3f}", ms_of(t->took_us));
}

void debug_render_iterations(const struct snapshot *s, struct buf *out)
{
    buf_add_str(out, "{\"object\":\"debug.iterations\",\"costs\":");
    add_costs(out, &s->costs);
    add_draft_costs(out, &s->draft_costs);
    buf_add_str(out, ",\"iterations\":[");
    for (uint32_t i = 0; i < s->n_steps; i++) {
        buf_add_str(out, i > 0 ? "," : "");
        add_iteration(out, &s->steps[i]);
    }
    buf_add_str(out, "]}");
}

/* ---- the cache ---- */

static const char *pressure_name(enum kv_pressure pressure)
{
    static const char *const names[] = {
        [KV_RELAXED] = "relaxed",
        [KV_LOW] = "low",
        [KV_CRITICAL] = "critical",
    };

    return names[pressure];
}

static void add_tier(struct buf *out, const struct swap_stats *s, int tier)
{
    buf_printf(out,
               "\"%s\":{\"slots\":%u,\"used\":%u,\"blocks_out\":%" PRIu64 ",\"blocks_in\":%" PRIu64
               "}",
               tier == 0 ? "ram" : "file", tier == 0 ? s->ram_slots : s->file_slots,
               tier == 0 ? s->ram_used : s->file_used, s->blocks_out[tier], s->blocks_in[tier]);
}

static void add_swap(struct buf *out, const struct swap_stats *s)
{
    buf_printf(out, "{\"copies\":%u,", s->n_copies);
    add_tier(out, s, 0);
    buf_add_char(out, ',');
    add_tier(out, s, 1);
    buf_printf(out,
               ",\"n_refused\":%" PRIu64 ",\"n_write_errors\":%" PRIu64
               ",\"n_read_errors\":%" PRIu64 "}",
               s->n_refused, s->n_write_errors, s->n_read_errors);
}

static void add_kind(struct buf *out, const struct kv_kind *k)
{
    buf_printf(out, "\"lanes\":%u,\"held\":%u,\"cached\":%u}", k->n_groups, k->n_held, k->n_cached);
}

/* Add the groups of layers that share blocks; zeros for a kind that the model does not have. */
static void add_groups(struct buf *out, const struct snapshot *s)
{
    const struct kv_groups *l = &s->kv.groups;

    buf_printf(out, "\"lanes\":{\"total\":%u,\"layers_per_block\":%u,\"full\":{", kv_groups_n(l),
               l->n_layer);
    add_kind(out, &s->kinds[0]);
    buf_printf(out, ",\"window\":{\"tokens\":%u,", l->window);
    add_kind(out, &s->kinds[1]);
    buf_add_str(out, "},");
}

/* Add the states of recurrent layers; zeros if the model has none. */
static void add_states(struct buf *out, const struct kv_states_stats *s)
{
    buf_printf(out,
               "\"states\":{\"total\":%u,\"free\":%u,\"cached\":%u,\"held\":%u,\"pinned\":%u,"
               "\"snapshots\":%u,\"evicted\":%" PRIu64 "}",
               s->slots.n_blocks, s->slots.n_free, s->slots.n_cached, s->slots.n_held,
               s->slots.n_pinned, s->n_snapshots, s->slots.n_evicted);
}

/* Add the entries of the prefix index, with the same hashes as KV events. */
static void add_hashes(struct buf *out, const struct snapshot *s)
{
    buf_add_str(out, ",\"hashes\":[");
    for (uint32_t i = 0; i < s->n_hashes; i++)
        buf_printf(out, "%s\"%016" PRIx64 "%016" PRIx64 "\"", i > 0 ? "," : "", s->hashes[i].hi,
                   s->hashes[i].lo);
    buf_add_char(out, ']');
}

/* Add the block store: null if there is none. */
static void add_store(struct buf *out, struct prefix_fetch *f)
{
    if (f == NULL) {
        buf_add_str(out, ",\"store\":null");
        return;
    }
    buf_printf(out,
               ",\"store\":{\"up\":%s,\"prompts_waiting\":%u,\"hit_blocks\":%" PRIu64
               ",\"miss_blocks\":%" PRIu64 ",\"read_bytes\":%" PRIu64 ",\"written_bytes\":%" PRIu64
               ",\"bad_records\":%" PRIu64 "}",
               prefix_fetch_count(f, STORE_UP) != 0 ? "true" : "false", prefix_fetch_n_prompts(f),
               prefix_fetch_count(f, STORE_HIT_BLOCKS), prefix_fetch_count(f, STORE_MISS_BLOCKS),
               prefix_fetch_count(f, STORE_READ_BYTES), prefix_fetch_count(f, STORE_WRITTEN_BYTES),
               prefix_fetch_count(f, STORE_BAD_RECORDS));
}

static void add_tenant_pins(struct buf *out, const struct snapshot *s, const struct tenant_info *t,
                            const struct debug_names *names)
{
    buf_printf(out, "{\"tenant\":%u,\"name\":", t->tenant);
    add_owner_name(out, names->tenant(names->ud, t->tenant));
    buf_printf(out, ",\"pins\":%u,\"blocks\":%u,\"bytes\":%" PRIu64 ",\"ends_in_ms\":%.3f}",
               t->n_pins, t->n_pinned, t->n_pinned * s->block_bytes, ms_of(t->pinned_for_us));
}

/* Add the pinned prefixes: the bounds, and the tenants that have pins. */
static void add_pins(struct buf *out, const struct snapshot *s, const struct debug_names *names)
{
    const char *before = "";

    buf_printf(out, ",\"pins\":{\"most_blocks\":%u,\"tenant_blocks\":%u,\"tenants\":[",
               s->kv.pins.most_blocks, s->kv.pins.tenant_blocks);
    for (uint32_t i = 0; i < s->n_tenants; i++)
        if (s->tenants[i].n_pins > 0) {
            buf_add_str(out, before);
            add_tenant_pins(out, s, &s->tenants[i], names);
            before = ",";
        }
    buf_add_str(out, "]}");
}

void debug_render_kv(const struct snapshot *s, const struct debug_names *names,
                     uint32_t block_tokens, struct prefix_fetch *fetch, bool with_hashes,
                     struct buf *out)
{
    const struct kv_manager_stats *k = &s->kv;
    const struct block_pool_stats *p = &k->pool;

    buf_printf(out,
               "{\"object\":\"debug.kv\",\"block_tokens\":%u,\"blocks\":{\"total\":%u,\"free\":%u,"
               "\"cached\":%u,\"held\":%u,\"pinned\":%u,\"peak_held\":%u},\"pressure\":\"%s\",",
               block_tokens, p->n_blocks, p->n_free, p->n_cached, p->n_held, p->n_pinned,
               p->peak_held, pressure_name(s->pressure));
    add_groups(out, s);
    buf_printf(out,
               "\"prefix\":{\"indexed_blocks\":%u,\"query_tokens\":%" PRIu64
               ",\"hit_tokens\":%" PRIu64 ",\"evicted_blocks\":%" PRIu64
               ",\"copied_blocks\":%" PRIu64 "},",
               k->n_indexed, k->query_tokens, k->hit_tokens, p->n_evicted, k->n_copied);
    add_states(out, &k->states);
    buf_add_str(out, ",\"swap\":");
    add_swap(out, &k->swap);
    add_pins(out, s, names);
    add_store(out, fetch);
    buf_add_str(out, ",\"map\":\"");
    buf_add(out, s->map, s->n_blocks); /* the map has letters only, no escapes are needed */
    buf_add_char(out, '"');
    if (with_hashes)
        add_hashes(out, s);
    buf_add_char(out, '}');
}

/* ---- slots ---- */

uint32_t debug_n_running(const struct snapshot *s)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->n_seqs; i++)
        n += s->seqs[i].state == SNAPSHOT_RUNNING;
    return n;
}

/* Slots that run a request come first, because running requests come first in a snapshot. */
void debug_render_slots(const struct snapshot *s, uint32_t n_slots, uint32_t n_ctx, struct buf *out)
{
    const uint32_t n_running = debug_n_running(s);

    buf_add_char(out, '[');
    for (uint32_t i = 0; i < n_slots; i++) {
        const struct seq_info *q = i < n_running ? &s->seqs[i] : NULL;

        buf_printf(out, "%s{\"id\":%u,\"id_task\":", i > 0 ? "," : "", i);
        if (q != NULL)
            buf_printf(out, "%" PRIu64, q->id);
        else
            buf_add_str(out, "-1");
        buf_printf(out, ",\"n_ctx\":%u,\"speculative\":false,\"is_processing\":%s", n_ctx,
                   q != NULL ? "true" : "false");
        if (q != NULL)
            buf_printf(out, ",\"next_token\":{\"has_next_token\":true,\"n_remain\":%u,"
                            "\"n_decoded\":%u}",
                       q->n_prompt + q->max_tokens - q->n_discarded - q->n_known,
                       q->n_known + q->n_discarded - q->n_prompt);
        buf_add_char(out, '}');
    }
    buf_add_char(out, ']');
}
