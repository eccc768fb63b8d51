/* scheduler/pace.c - see pace.h. */
#include "scheduler/pace.h"

#define WEIGHT 8 /* a new measurement moves an average by an eighth */

void pace_init(struct pace *p, uint32_t target_ms)
{
    *p = (struct pace){.target_us = (uint64_t)target_ms * 1000};
}

/* Before the first measurement a cautious start: the smallest chunk teaches the cost. */
uint32_t pace_budget(const struct pace *p, uint32_t n_streams)
{
    uint64_t room_us, n;

    if (p->target_us == 0 || n_streams == 0)
        return UINT32_MAX;
    if (p->token_ns == 0 || p->target_us <= p->base_us)
        return PACE_MIN_TOKENS;
    room_us = p->target_us - p->base_us;
    n = room_us * 1000 / p->token_ns;
    if (n < PACE_MIN_TOKENS)
        return PACE_MIN_TOKENS;
    return n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

static uint64_t moved(uint64_t average, uint64_t value)
{
    return average == 0 ? value : (average * (WEIGHT - 1) + value) / WEIGHT;
}

void pace_observe(struct pace *p, uint64_t us, uint32_t n_prefill, uint32_t n_decode)
{
    uint64_t extra_us;

    if (n_prefill == 0) {
        p->base_us = moved(p->base_us, us);
        return;
    }
    extra_us = n_decode > 0 && us > p->base_us ? us - p->base_us : us;
    p->token_ns = moved(p->token_ns, extra_us * 1000 / n_prefill + 1);
}
