/* scheduler/forecast.c - see forecast.h.
 *
 * The work ahead of the request is counted in one struct backlog, and all times follow from it by
 * multiplication: prompts ahead are assumed to have one mean length, and the answers of running
 * requests to end evenly. The estimate is rough on purpose: it runs on the I/O thread, reads only
 * the published statistics and never asks the engine.
 */
#include "scheduler/forecast.h"

#include "kvcache/kv_groups.h"
#include "scheduler/scheduler.h"

struct backlog { /* the work ahead of a new request */
    uint32_t n_prompts; /* prompts that are not computed yet, running and waiting */
    uint32_t n_waiting; /* of these prompts: those of requests without a slot */
    uint64_t tokens;    /* prompt tokens still to compute */
    uint64_t base_ns;   /* ns of a step of the streams alone, including streams that start while the
                         * backlog is computed */
    uint32_t rows;      /* prompt rows that fit into a step beside the streams */
};

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t ceil_div(uint64_t n, uint64_t d)
{
    return n / d + (n % d > 0);
}

/* Count the requests that are served before this one: all of its own priority and above. Ageing of
 * lower priorities is ignored. */
static void count_ahead(struct backlog *backlog, const struct engine_stats *s,
                        const struct forecast_ask *ask)
{
    const uint32_t n_streams = s->streams.n_decode;

    backlog->tokens = s->running_prefill + ask->tokens_ahead;
    for (uint32_t p = ask->priority; p < PRIORITY_COUNT; p++) {
        backlog->n_waiting += s->n_waiting[p];
        backlog->tokens += s->waiting_tokens[p];
    }
    backlog->n_waiting += ask->tokens_ahead > 0;
    backlog->n_prompts = backlog->n_waiting;
    backlog->n_prompts += s->n_running > n_streams ? s->n_running - n_streams : 0;
}

/* Return the prompt rows that the scheduler would grant beside the streams, in the middle of this
 * prompt. */
static uint32_t rows_beside(const struct engine_stats *s, const struct forecast_ask *ask,
                            uint64_t base_ns, uint32_t n_streams)
{
    const uint32_t pos = ask->n_cached + (ask->n_prompt - ask->n_cached) / 2;
    const uint64_t rows = most(1, least(ask->prefill_chunk, ask->max_batch_tokens -
                                            least(n_streams, ask->max_batch_tokens - 1)));

    if (n_streams == 0 || s->target_us == 0)
        return (uint32_t)rows;
    return (uint32_t)least(rows, most(SCHED_MIN_CHUNK,
                                      step_costs_chunk(&s->costs, pos, (uint32_t)rows,
                                                       sched_room_ns(s->target_us, base_ns))));
}

/* Compute the backlog. It assumes the mean number of streams while the backlog is computed: half of
 * the prompts ahead have become streams. */
static struct backlog look_at_backlog(const struct engine_stats *s, const struct forecast_ask *ask)
{
    struct backlog backlog = {0};
    uint64_t joining;

    count_ahead(&backlog, s, ask);
    joining = least(backlog.n_prompts / 2, ask->max_sequences - least(s->streams.n_decode,
                                                                   ask->max_sequences));
    backlog.base_ns = step_costs_ns(&s->costs, &s->streams) + joining * s->costs.decode_ns;
    backlog.rows = rows_beside(s, ask, backlog.base_ns, s->streams.n_decode + (uint32_t)joining);
    return backlog;
}

/* Nanoseconds to compute all prompts ahead, as if they had the same length. */
static uint64_t ahead_ns(const struct backlog *backlog, const struct engine_stats *s)
{
    const uint64_t n = most(1, backlog->n_prompts);
    const uint64_t length = least(backlog->tokens / n, 1 << 20);

    return ceil_div(backlog->tokens, backlog->rows) * backlog->base_ns +
           n * step_costs_chunk_ns(&s->costs, 0, (uint32_t)length);
}

/* Return the steps until n of the running requests have ended, if the tokens that they have left
 * are spread evenly between 0 and twice the mean. */
static uint64_t steps_to_ends(const struct engine_stats *s, uint64_t n)
{
    if (n == 0 || s->n_running == 0)
        return 0;
    return ceil_div(2 * s->running_left * n, (uint64_t)s->n_running * (s->n_running + 1));
}

static uint64_t ends_for_slots(const struct backlog *backlog, const struct engine_stats *s,
                               const struct forecast_ask *ask)
{
    const uint64_t wanted = (uint64_t)s->n_running + backlog->n_waiting + 1;

    return wanted - least(wanted, ask->max_sequences);
}

/* Return how many requests must end until enough blocks are free: each gives back an even share of
 * the held blocks, and prompts ahead have one length. */
static uint64_t ends_for_blocks(const struct backlog *backlog, const struct engine_stats *s,
                                const struct forecast_ask *ask)
{
    const uint64_t n = most(1, backlog->n_prompts);
    const uint64_t length = least(ceil_div(backlog->tokens, n), UINT32_MAX);
    const uint64_t own =
        kv_groups_peak(&s->groups, ask->n_prompt - ask->n_cached + 1, s->max_chunk);
    const uint64_t wanted = n * kv_groups_peak(&s->groups, (uint32_t)length, s->max_chunk) + own;
    const uint64_t there = (uint64_t)s->blocks_free + s->blocks_cached;

    if (wanted <= there || s->n_running == 0)
        return 0;
    return ceil_div(wanted - there, most(1, s->blocks_held / s->n_running));
}

/* Nanoseconds left of the running step: half of it on average. */
static uint64_t under_way_ns(const struct backlog *backlog, const struct engine_stats *s)
{
    const uint32_t n = (uint32_t)least(backlog->tokens, backlog->rows);

    return s->busy ? (backlog->base_ns + step_costs_chunk_ns(&s->costs, 0, n)) / 2 : 0;
}

/* Nanoseconds of a decode step of the request, beside all requests that were ahead, with half of
 * its answer computed. */
static uint64_t decode_ns(const struct backlog *backlog, const struct engine_stats *s,
                          const struct forecast_ask *ask)
{
    const uint64_t n_all = (uint64_t)ask->n_prompt + ask->max_tokens / 2;
    const uint64_t n_known = ask->n_shifts > 0 ? least(n_all, ask->max_known) : n_all;
    const uint64_t n = least((uint64_t)s->streams.n_decode + backlog->n_prompts + 1,
                             most(1, ask->max_sequences));
    const struct step_work own = {
        .n_decode = (uint32_t)(n - least(n, s->streams.n_decode)),
        .kv_decode = s->streams.kv_decode + n_known,
    };

    return step_costs_ns(&s->costs, &own) + s->streams.n_decode * s->costs.decode_ns;
}

/* Nanoseconds of all context shifts of the request, in steps that the running streams share. */
static uint64_t shifts_ns(const struct backlog *backlog, const struct engine_stats *s,
                          const struct forecast_ask *ask)
{
    const uint64_t one_ns = ceil_div(ask->n_recomputed, backlog->rows) * backlog->base_ns +
                            step_costs_chunk_ns(&s->costs, ask->max_known - ask->n_recomputed,
                                                ask->n_recomputed);

    return ask->n_shifts > 0 ? ask->n_shifts * one_ns : 0;
}

struct forecast forecast_make(const struct engine_stats *s, const struct forecast_ask *ask)
{
    struct backlog backlog;
    uint64_t start, first, ends;

    if (!s->costs.is_known)
        return (struct forecast){0};
    backlog = look_at_backlog(s, ask);
    ends = most(ends_for_slots(&backlog, s, ask), ends_for_blocks(&backlog, s, ask));
    start = under_way_ns(&backlog, s) +
            most(ahead_ns(&backlog, s), steps_to_ends(s, ends) * backlog.base_ns);
    first = start + ceil_div(ask->n_prompt - ask->n_cached, backlog.rows) * backlog.base_ns +
            step_costs_chunk_ns(&s->costs, ask->n_cached, ask->n_prompt - ask->n_cached);
    return (struct forecast){
        .is_known = true,
        .start_us = start / 1000,
        .first_us = first / 1000,
        .finish_us = (first + (most(ask->max_tokens, 1) - 1) * decode_ns(&backlog, s, ask) +
                      shifts_ns(&backlog, s, ask)) /
                     1000,
    };
}

uint64_t forecast_room_us(const struct engine_stats *s)
{
    const uint64_t step_ns = step_costs_ns(&s->costs, &s->streams);

    return most(steps_to_ends(s, 1), 1) * step_ns / 1000;
}
