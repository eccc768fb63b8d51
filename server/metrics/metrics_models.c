/* server/metrics/metrics_models.c - tables of the metrics about models; see metrics_impl.h.
 *
 * Three tables hold almost all families; metrics_family.c renders them. Two families do not fit the
 * tables and have functions: quire_model_info, whose labels are texts of the model, and
 * quire_rejections_total, which adds the server's refusals to the models'.
 */
#include "server/metrics/metrics_impl.h"

#include "server/metrics/metrics.h"
#include "server/metrics/metrics_family.h"
#include "server/metrics/prometheus.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>

static const struct metrics_family engine_families[] = {
    {"quire_requests_running", "gauge",
     "Requests that are running (their sequences take part in steps).",
     {{NULL, MODEL(stats.n_running)}}},
    {"quire_requests_waiting", "gauge",
     "Requests that wait in the queue for their first step, by priority.",
     {{"priority=\"low\"", MODEL(stats.n_waiting[PRIORITY_LOW])},
      {"priority=\"normal\"", MODEL(stats.n_waiting[PRIORITY_NORMAL])},
      {"priority=\"high\"", MODEL(stats.n_waiting[PRIORITY_HIGH])},
      {"priority=\"critical\"", MODEL(stats.n_waiting[PRIORITY_CRITICAL])}}},
    {"quire_predicted_ttft_seconds", "gauge",
     "Predicted time to first token of a one-token prompt in seconds; 0 until steps are measured.",
     {{NULL, AT(FORM_SECONDS, predicted_ttft_us)}}},
    {"quire_requests_preempted", "gauge", "Requests that were preempted and wait to run again.",
     {{NULL, MODEL(stats.n_preempted)}}},
    {"quire_requests_swapped", "gauge", "Preempted requests whose KV blocks are kept in swap.",
     {{NULL, MODEL(stats.n_swapped)}}},
    {"quire_kv_blocks", "gauge",
     "Blocks of the KV cache, by state: free, cached (kept for reuse), pinned (kept for a time), "
     "held (used by requests).",
     {{"state=\"free\"", MODEL(stats.blocks_free)},
      {"state=\"cached\"", MODEL(stats.blocks_cached)},
      {"state=\"pinned\"", MODEL(stats.blocks_pinned)},
      {"state=\"held\"", MODEL(stats.blocks_held)}}},
    /* The name is agreed, and a gauge may not be called _total: so it has no type. */
    {"quire_kv_blocks_total", "untyped", "All blocks of the KV cache.",
     {{NULL, MODEL(stats.blocks_total)}}},
    {"quire_kv_usage_ratio", "gauge",
     "Fraction of the KV cache's blocks that requests hold, from 0 to 1.",
     {{NULL, AT(FORM_USAGE, stats)}}},
    {"quire_kv_pressure", "gauge",
     "Memory pressure: 0 none, 1 below kv_low_percent, 2 below kv_critical_percent.",
     {{NULL, MODEL(stats.pressure)}}},
    {"quire_states", "gauge",
     "Recurrent states by use: free, cached (unused snapshots), pinned (kept for a time), held "
     "(used by requests).",
     {{"state=\"free\"", MODEL(stats.states.slots.n_free)},
      {"state=\"cached\"", MODEL(stats.states.slots.n_cached)},
      {"state=\"pinned\"", MODEL(stats.states.slots.n_pinned)},
      {"state=\"held\"", MODEL(stats.states.slots.n_held)}}},
    {"quire_state_snapshots", "gauge", "Snapshots of recurrent states in the prefix cache.",
     {{NULL, MODEL(stats.states.n_snapshots)}}},
    {"quire_swap_bytes", "gauge", "Bytes of swapped KV blocks, by tier (swap_ram or swap_file).",
     {{"tier=\"ram\"", AT(FORM_BLOCKS, stats.swap.ram_used)},
      {"tier=\"file\"", AT(FORM_BLOCKS, stats.swap.file_used)}}},
    {"quire_swap_capacity_bytes", "gauge",
     "Capacity for swapped KV blocks in bytes, by tier (swap_ram or swap_file).",
     {{"tier=\"ram\"", AT(FORM_BLOCKS, stats.swap.ram_slots)},
      {"tier=\"file\"", AT(FORM_BLOCKS, stats.swap.file_slots)}}},

    {"quire_kv_store_up", "gauge", "1 if the block store (kv_store) is reachable, 0 if not.",
     {{NULL, MODEL(store[STORE_UP])}}},
    {"quire_kv_store_size_bytes", "gauge",
     "Bytes in the folder of the block store (kv_store), at most kv_store_size.",
     {{NULL, MODEL(store[STORE_BYTES])}}},

    {"quire_prompt_tokens_total", "counter",
     "Prompt tokens that were computed (prefill), cached ones excluded.",
     {{NULL, MODEL(stats.prompt_tokens)}}},
    {"quire_generation_tokens_total", "counter", "Tokens that were generated.",
     {{NULL, MODEL(stats.generation_tokens)}}},
    {"quire_cached_tokens_total", "counter",
     "Prompt tokens that were not computed because the prefix cache had their blocks.",
     {{NULL, MODEL(stats.cached_tokens)}}},
    {"quire_recomputed_tokens_total", "counter",
     "Tokens that were computed again after a preemption or a context shift.",
     {{NULL, MODEL(stats.recomputed_tokens)}}},
    {"quire_computed_tokens_total", "counter",
     "Tokens that were computed: prompts, recomputed tokens and drafts, rejected ones included.",
     {{NULL, MODEL(stats.usage.computed_tokens)}}},
    {"quire_compute_seconds_total", "counter",
     "Durations of all steps in seconds; a step's is split among the requests in it.",
     {{NULL, AT(FORM_SECONDS, stats.usage.compute_us)}}},
    {"quire_kv_block_seconds_total", "counter",
     "Seconds for which running requests held KV blocks, summed over all blocks and requests.",
     {{NULL, AT(FORM_SECONDS, stats.usage.block_us)}}},
    {"quire_spec_drafts_total", "counter",
     "Drafts (guesses of the next tokens) that the model verified, by source.",
     {{"source=\"lookup\"", MODEL(stats.drafts[DRAFT_LOOKUP].runs)},
      {"source=\"prediction\"", MODEL(stats.drafts[DRAFT_PREDICTION].runs)},
      {"source=\"grammar\"", MODEL(stats.drafts[DRAFT_GRAMMAR].runs)},
      {"source=\"history\"", MODEL(stats.drafts[DRAFT_HISTORY].runs)},
      {"source=\"draft_model\"", MODEL(stats.drafts[DRAFT_MODEL].runs)},
      {"source=\"mtp\"", MODEL(stats.drafts[DRAFT_MTP].runs)}}},
    {"quire_spec_draft_tokens_total", "counter",
     "Tokens of drafts that the model verified, by source.",
     {{"source=\"lookup\"", MODEL(stats.drafts[DRAFT_LOOKUP].drafted)},
      {"source=\"prediction\"", MODEL(stats.drafts[DRAFT_PREDICTION].drafted)},
      {"source=\"grammar\"", MODEL(stats.drafts[DRAFT_GRAMMAR].drafted)},
      {"source=\"history\"", MODEL(stats.drafts[DRAFT_HISTORY].drafted)},
      {"source=\"draft_model\"", MODEL(stats.drafts[DRAFT_MODEL].drafted)},
      {"source=\"mtp\"", MODEL(stats.drafts[DRAFT_MTP].drafted)}}},
    {"quire_spec_accepted_tokens_total", "counter",
     "Draft tokens that the model accepted, by source.",
     {{"source=\"lookup\"", MODEL(stats.drafts[DRAFT_LOOKUP].accepted)},
      {"source=\"prediction\"", MODEL(stats.drafts[DRAFT_PREDICTION].accepted)},
      {"source=\"grammar\"", MODEL(stats.drafts[DRAFT_GRAMMAR].accepted)},
      {"source=\"history\"", MODEL(stats.drafts[DRAFT_HISTORY].accepted)},
      {"source=\"draft_model\"", MODEL(stats.drafts[DRAFT_MODEL].accepted)},
      {"source=\"mtp\"", MODEL(stats.drafts[DRAFT_MTP].accepted)}}},
    {"quire_context_shifts_total", "counter",
     "Context shifts: times that older tokens were discarded because the context was full.",
     {{NULL, MODEL(stats.context_shifts)}}},
    {"quire_preemptions_total", "counter",
     "Preemptions of requests whose tokens are computed again (recompute) or copied back (swap).",
     {{"mode=\"recompute\"", MODEL(stats.preemptions_recompute)},
      {"mode=\"swap\"", MODEL(stats.preemptions_swap)}}},
    {"quire_swap_blocks_total", "counter",
     "KV blocks that were swapped: between KV cache and RAM (ram), or RAM and file (file).",
     {{"direction=\"out\",tier=\"ram\"", MODEL(stats.swap.blocks_out[0])},
      {"direction=\"in\",tier=\"ram\"", MODEL(stats.swap.blocks_in[0])},
      {"direction=\"out\",tier=\"file\"", MODEL(stats.swap.blocks_out[1])},
      {"direction=\"in\",tier=\"file\"", MODEL(stats.swap.blocks_in[1])}}},
    {"quire_swap_errors_total", "counter", "Swap writes (out) and reads (in) that failed.",
     {{"direction=\"out\"", MODEL(stats.swap.n_write_errors)},
      {"direction=\"in\"", MODEL(stats.swap.n_read_errors)}}},
    {"quire_swap_refusals_total", "counter",
     "Preempted sequences that were not swapped because swap_ram and swap_file were full.",
     {{NULL, MODEL(stats.swap.n_refused)}}},
    {"quire_swap_fallbacks_total", "counter",
     "Preempted sequences that were computed again because they could not be swapped or read back.",
     {{NULL, MODEL(stats.swap_fallbacks)}}},
    {"quire_prefix_cache_queries_tokens_total", "counter",
     "Tokens that were looked up in the prefix cache.", {{NULL, MODEL(stats.prefix_queries)}}},
    {"quire_prefix_cache_hits_tokens_total", "counter",
     "Tokens that were found in the prefix cache.", {{NULL, MODEL(stats.prefix_hits)}}},
    {"quire_prefix_evictions_total", "counter",
     "Blocks that were evicted from the prefix cache to make room.",
     {{NULL, MODEL(stats.prefix_evictions)}}},
    {"quire_state_evictions_total", "counter",
     "Snapshots of recurrent states that were evicted to make room.",
     {{NULL, MODEL(stats.states.slots.n_evicted)}}},
    {"quire_kv_blocks_copied_total", "counter",
     "KV blocks that were copied before a write because they were shared or used in part.",
     {{NULL, MODEL(stats.blocks_copied)}}},
    {"quire_kv_store_blocks_total", "counter",
     "KV blocks of prompts that were looked up in the block store (kv_store), by result.",
     {{"result=\"hit\"", MODEL(store[STORE_HIT_BLOCKS])},
      {"result=\"miss\"", MODEL(store[STORE_MISS_BLOCKS])}}},
    {"quire_kv_store_fetched_blocks_total", "counter",
     "KV blocks that were loaded from the block store into the prefix cache.",
     {{NULL, MODEL(stats.fetched_blocks)}}},
    {"quire_kv_store_bytes_total", "counter",
     "Bytes that were read from the block store (in) and written to it (out).",
     {{"direction=\"in\"", MODEL(store[STORE_READ_BYTES])},
      {"direction=\"out\"", MODEL(store[STORE_WRITTEN_BYTES])}}},
    {"quire_kv_store_seconds_total", "counter",
     "Time of reads from the block store (in) and writes to it (out), in seconds.",
     {{"direction=\"in\"", AT(FORM_SECONDS, store[STORE_READ_US])},
      {"direction=\"out\"", AT(FORM_SECONDS, store[STORE_WRITE_US])}}},
    {"quire_kv_store_errors_total", "counter",
     "Reads from the block store (in) and writes to it (out) that failed.",
     {{"direction=\"in\"", MODEL(store[STORE_READ_ERRORS])},
      {"direction=\"out\"", MODEL(store[STORE_WRITE_ERRORS])}}},
    {"quire_kv_store_bad_records_total", "counter",
     "Block store records that were removed: truncated, damaged or of another model.",
     {{NULL, MODEL(store[STORE_BAD_RECORDS])}}},
    {"quire_kv_store_unwritten_records_total", "counter",
     "Block store records not written: known (already stored) or dropped (blocks evicted first).",
     {{"reason=\"known\"", MODEL(store[STORE_KNOWN_RECORDS])},
      {"reason=\"dropped\"", MODEL(store[STORE_DROPPED_RECORDS])}}},
    {"quire_kv_store_evicted_records_total", "counter",
     "Records that this server evicted from the block store to stay within kv_store_size.",
     {{NULL, MODEL(store[STORE_EVICTED_RECORDS])}}},
    {"quire_kv_store_unread_prompts_total", "counter",
     "Prompts computed although the block store had them: cheaper, or kv_store_wait_ms elapsed.",
     {{"reason=\"cheaper\"", MODEL(stats.store_declined)},
      {"reason=\"timeout\"", MODEL(stats.store_timeouts)}}},
    {"quire_iterations_total", "counter", "Steps (iterations) of the engine.",
     {{NULL, MODEL(stats.iterations)}}},
    {"quire_constraints_total", "counter",
     "JSON schemas and grammars of requests, by result: compiled, found in the cache, or refused.",
     {{"result=\"compiled\"", MODEL(constraints_compiled)},
      {"result=\"found\"", MODEL(constraints_found)},
      {"result=\"refused\"", MODEL(constraints_refused)}}},
    {"quire_adapters", "gauge",
     "LoRA adapters, by state: known (requests may name them) and resident (in memory).",
     {{"state=\"known\"", MODEL(adapters_known)},
      {"state=\"resident\"", MODEL(adapters_resident)}}},
    {"quire_adapter_bytes", "gauge",
     "Memory of the loaded LoRA adapters in bytes (at most adapter_memory).",
     {{NULL, MODEL(adapter_bytes)}}},
    {"quire_adapter_reads_total", "counter", "Times that a LoRA adapter was read from its file.",
     {{NULL, MODEL(adapter_reads)}}},
    {"quire_adapter_evictions_total", "counter",
     "Times that a LoRA adapter was evicted from memory to make room for another.",
     {{NULL, MODEL(adapter_evictions)}}},
    {"quire_kv_events_total", "counter",
     "KV events, by result: sent (published) or dropped (lost before they were published).",
     {{"result=\"sent\"", MODEL(kv_events_sent)},
      {"result=\"dropped\"", MODEL(kv_events_dropped)}}},
    {"quire_kv_event_batches_total", "counter", "Batches of KV events that were published.",
     {{NULL, MODEL(kv_event_batches)}}},
    {"quire_kv_event_bytes_total", "counter", "Bytes of the published batches of KV events.",
     {{NULL, MODEL(kv_event_bytes)}}},
    {"quire_kv_event_replays_total", "counter",
     "Replay requests from subscribers that had missed batches of KV events.",
     {{NULL, MODEL(kv_event_replays)}}},
    {"quire_model_share", "gauge",
     "The model's weight (share) when several models compete for compute time.",
     {{NULL, MODEL(share)}}},
    {"quire_model_state", "gauge",
     "State of the model: 1 for the current state (loaded, loading, failed), 0 for the others.",
     {{"state=\"loaded\"", MODEL(is_loaded)},
      {"state=\"loading\"", MODEL(is_loading)},
      {"state=\"failed\"", MODEL(has_failed)}}},
    {"quire_model_load_waiting", "gauge", "Requests that wait for the model to be loaded.",
     {{NULL, MODEL(n_load_waits)}}},
    {"quire_model_loads_total", "counter", "Times that the model was loaded, by result.",
     {{"result=\"ok\"", MODEL(n_loads)}, {"result=\"failed\"", MODEL(n_load_failures)}}},
    {"quire_model_load_seconds_total", "counter", "Time spent on loading the model, in seconds.",
     {{NULL, AT(FORM_SECONDS, load_us)}}},
    {"quire_model_unloads_total", "counter", "Times that the model was unloaded.",
     {{NULL, MODEL(n_unloads)}}},
    {"quire_turn_wait_seconds_total", "counter",
     "Time that the model's engine waited for steps of other models, in seconds.",
     {{NULL, AT(FORM_SECONDS, stats.turn_wait_us)}}},

    {"quire_iteration_tokens", "histogram", "Tokens computed in each step.",
     {{NULL, MODEL(stats.iteration_tokens)}}},
    {"quire_iteration_seconds", "histogram", "Duration of each step in seconds.",
     {{NULL, MODEL(stats.iteration_seconds)}}},
    {"quire_batch_sequences", "histogram", "Sequences in each step (batch size).",
     {{NULL, MODEL(stats.batch_sequences)}}},
    {"quire_cost_model_error_ratio", "histogram",
     "Relative error of each step's predicted duration against the measured one (1 is 100 %).",
     {{NULL, MODEL(stats.cost_error)}}},
};
_Static_assert(PRIORITY_COUNT == 4, "each priority is a sample of requests_waiting");

static const struct metrics_family outcome_families[] = {
    {"quire_requests_total", "counter",
     "Choices that ended and requests that were rejected, by outcome.",
     {{"endpoint=\"completions\",outcome=\"stop\"", COUNTS(outcomes[OUTCOME_STOP])},
      {"endpoint=\"completions\",outcome=\"length\"", COUNTS(outcomes[OUTCOME_LENGTH])},
      {"endpoint=\"completions\",outcome=\"cancelled\"", COUNTS(outcomes[OUTCOME_CANCELLED])},
      {"endpoint=\"completions\",outcome=\"error\"", COUNTS(outcomes[OUTCOME_ERROR])},
      {"endpoint=\"completions\",outcome=\"rejected\"", COUNTS(outcomes[OUTCOME_REJECTED])},
      {"endpoint=\"completions\",outcome=\"timeout\"", COUNTS(outcomes[OUTCOME_TIMEOUT])}}},
};
_Static_assert(OUTCOME_COUNT == 6, "each outcome is a sample of requests_total");

static const struct metrics_family request_families[] = {
    {"quire_unknown_fields_total", "counter",
     "Fields of request bodies that were ignored because their names are unknown.",
     {{NULL, COUNTS(unknown_fields)}}},
    {"quire_time_to_first_token_seconds", "histogram",
     "Time from a request's arrival to its first token, in seconds.", {{NULL, COUNTS(ttft)}}},
    {"quire_inter_token_latency_seconds", "histogram",
     "Time between two consecutive tokens of a request, in seconds.", {{NULL, COUNTS(itl)}}},
    {"quire_request_time_per_output_token_seconds", "histogram",
     "Mean time of each token after the first of a request, in seconds.",
     {{NULL, COUNTS(per_token)}}},
    {"quire_e2e_request_latency_seconds", "histogram",
     "Time from a request's arrival to its end, in seconds.", {{NULL, COUNTS(e2e)}}},
    {"quire_request_queue_time_seconds", "histogram",
     "Time that a request waited in the queue for its first step, in seconds.",
     {{NULL, COUNTS(queue)}}},
    {"quire_request_inference_time_seconds", "histogram",
     "Time from a request's first step to its end, in seconds.", {{NULL, COUNTS(running)}}},
    {"quire_request_prefill_time_seconds", "histogram",
     "Time from a request's first step to its first token (prefill), in seconds.",
     {{NULL, COUNTS(prefill)}}},
    {"quire_request_decode_time_seconds", "histogram",
     "Time from a request's first token to its end (decode), in seconds.",
     {{NULL, COUNTS(decode)}}},
    {"quire_request_prompt_tokens", "histogram", "Prompt tokens of each request.",
     {{NULL, COUNTS(prompt_tokens)}}},
    {"quire_request_generation_tokens", "histogram", "Tokens generated for each request.",
     {{NULL, COUNTS(generation_tokens)}}},
};

/* ---- rendering of the tables ---- */

#define N_OF(array) (sizeof(array) / sizeof((array)[0]))

static void add_families(const struct metrics_family *f, size_t n,
                         const struct metrics_scene *scene, struct buf *b)
{
    metrics_families_add(f, n, scene, METRICS_LABEL_MODEL, b);
}

void metrics_models_add_engines(const struct metrics_scene *scene, struct buf *b)
{
    add_families(engine_families, N_OF(engine_families), scene, b);
}

void metrics_models_add_requests(const struct metrics_scene *scene, struct buf *b)
{
    add_families(request_families, N_OF(request_families), scene, b);
}

/* ---- families outside of the tables ---- */

void metrics_models_add_infos(const struct metrics_scene *scene, struct buf *b)
{
    prom_family(b, "quire_model_info", "gauge",
                "Properties of each served model; the value is always 1.");
    for (uint32_t i = 0; i < scene->n_models; i++) {
        const struct metrics_model *m = &scene->models[i];

        buf_add_str(b, "quire_model_info{");
        prom_label(b, "model", m->id);
        buf_add_char(b, ',');
        prom_label(b, "arch", m->arch);
        buf_add_char(b, ',');
        prom_label(b, "ftype", m->ftype);
        buf_printf(b, ",max_model_len=\"%u\",parameters=\"%" PRIu64 "\",bytes=\"%" PRIu64 "\"} 1\n",
                   m->max_context, m->n_params, m->bytes);
    }
}

static void add_rejections(struct buf *b, const char *model, enum rejection reason, uint64_t n)
{
    static const char *const labels[REJECTION_COUNT] = {
        [REJECTION_INVALID] = "reason=\"invalid\"",
        [REJECTION_CONTEXT] = "reason=\"context_length\"",
        [REJECTION_QUEUE_FULL] = "reason=\"queue_full\"",
        [REJECTION_DRAINING] = "reason=\"draining\"",
        [REJECTION_DEADLINE] = "reason=\"deadline_unreachable\"",
        [REJECTION_TENANT_LIMIT] = "reason=\"tenant_limit\"",
        [REJECTION_QUEUE_TIMEOUT] = "reason=\"queue_timeout\"",
        [REJECTION_MEMORY] = "reason=\"request_memory\"",
        [REJECTION_UNAUTHORIZED] = "reason=\"unauthorized\"",
        [REJECTION_FORBIDDEN] = "reason=\"forbidden\"",
        [REJECTION_RATE_LIMIT] = "reason=\"rate_limit\"",
        [REJECTION_MODEL] = "reason=\"model_not_loaded\"",
    };

    const struct prom_series series = {
        .name = "quire_rejections_total", .model = model, .labels = labels[reason]};

    prom_count(b, &series, n);
}

/* With one model every refusal counts as its own. With several, the server's refusals are samples
 * without a model: those of auth always, others when they were counted. */
static void add_rejection_family(const struct metrics_scene *scene, struct buf *b)
{
    static const bool is_gates[REJECTION_COUNT] = {[REJECTION_UNAUTHORIZED] = true,
                                                   [REJECTION_FORBIDDEN] = true,
                                                   [REJECTION_RATE_LIMIT] = true};
    const uint64_t *server_counts = scene->server_counts->rejections;
    const bool is_one = scene->n_models == 1;

    prom_family(b, "quire_rejections_total", "counter", "Requests that were rejected, by reason.");
    for (uint32_t i = 0; i < scene->n_models; i++)
        for (int r = 0; r < REJECTION_COUNT; r++)
            add_rejections(b, metrics_model_label(scene, i), (enum rejection)r,
                           scene->models[i].counts->rejections[r] +
                               (is_one ? server_counts[r] : 0));
    for (int r = 0; r < REJECTION_COUNT && !is_one; r++)
        if (is_gates[r] || server_counts[r] > 0)
            add_rejections(b, NULL, (enum rejection)r, server_counts[r]);
}

void metrics_models_add_outcomes(const struct metrics_scene *scene, struct buf *b)
{
    add_families(outcome_families, N_OF(outcome_families), scene, b);
    add_rejection_family(scene, b);
}
