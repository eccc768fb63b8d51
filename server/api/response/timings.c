/* server/api/response/timings.c - times and progress under llama-server's names.
 *
 * Until the end only this side's clock is known: the arrival of the first and latest token, and of
 * progress events. The end event brings the engine's own times, which are exact, so the last frame
 * may differ from the ones before it.
 */
#include "server/api/response/response_writer.h"

#include <inttypes.h>

/* Appends "predicted_n":8,"predicted_ms":… and the rates that follow from the two. */
static void add_rate(struct buf *out, const char *what, uint64_t n, uint64_t us)
{
    const double ms = (double)us / 1e3;

    buf_printf(out, "\"%s_n\":%" PRIu64 ",\"%s_ms\":%.3f,", what, n, what, ms);
    buf_printf(out, "\"%s_per_token_ms\":%.3f,\"%s_per_second\":%.3f", what,
               n > 0 ? ms / (double)n : 0, what, us > 0 ? (double)n * 1e6 / (double)us : 0);
}

/* Appends the engine's own times at the end; before it the times that this side has seen. */
void response_add_rates(struct buf *out, const struct choice *c)
{
    const bool is_over = c->finish != FINISH_NONE;
    const uint32_t n_cached = is_over ? c->times.n_cached : c->n_cached;
    const uint64_t prefill = is_over ? c->times.prefill_us
                             : c->computed_us > c->begun_us ? c->computed_us - c->begun_us
                                                            : 0;

    buf_printf(out, ",\"timings\":{\"cache_n\":%u,", n_cached);
    add_rate(out, "prompt", c->prompt->ids.n - n_cached, prefill);
    buf_add_char(out, ',');
    add_rate(out, "predicted", c->n_tokens,
             is_over ? c->times.decode_us : c->last_us - c->first_us);
    if (is_over && c->times.n_drafted > 0)
        buf_printf(out, ",\"draft_n\":%u,\"draft_n_accepted\":%u", c->times.n_drafted,
                   c->times.n_accepted);
    buf_add_char(out, '}');
}

void response_add_progress(const struct response_writer *a, struct buf *out, struct choice *c)
{
    if (!a->params->return_progress || !c->has_progress)
        return;
    c->has_progress = false;
    buf_printf(out,
               ",\"prompt_progress\":{\"total\":%zu,\"cache\":%u,\"processed\":%u,"
               "\"time_ms\":%" PRIu64 "}",
               c->prompt->ids.n, c->n_cached, c->n_computed,
               (c->computed_us - c->begun_us) / 1000);
}
