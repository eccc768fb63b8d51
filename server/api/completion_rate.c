/* server/api/completion_rate.c - see completion_rate.h. */
#include "server/api/completion_rate.h"

#include "server/http/retry_after.h"

#include <math.h>
#include <stdbool.h>

void completion_rate_start(struct completion_rate *p, uint64_t now_us)
{
    *p = (struct completion_rate){.start_us = now_us, .last_us = now_us};
}

static double faded(const struct completion_rate *p, uint64_t now_us)
{
    return p->weight * exp(-(double)(now_us - p->last_us) / 1e6 / COMPLETION_RATE_TAU_S);
}

void completion_rate_end(struct completion_rate *p, uint64_t now_us)
{
    p->weight = faded(p, now_us) + 1;
    p->last_us = now_us;
}

/* Return the rate. Until COMPLETION_RATE_TAU_S have passed, the divisor is the part that has, or
 * the rate would be too low. */
double completion_rate_per_s(const struct completion_rate *p, uint64_t now_us)
{
    const double age = (double)(now_us - p->start_us) / 1e6;
    const double window = COMPLETION_RATE_TAU_S * (1 - exp(-age / COMPLETION_RATE_TAU_S));

    return window > 0 ? faded(p, now_us) / window : 0;
}

uint32_t completion_rate_wait_ms(const struct completion_rate *p, uint32_t n, uint64_t now_us)
{
    const bool is_known = faded(p, now_us) >= 0.5;
    const double ms =
        is_known ? n / completion_rate_per_s(p, now_us) * 1000 : COMPLETION_RATE_GUESS_MS;

    return ms < RETRY_AFTER_MAX_MS ? retry_after_bound((uint64_t)ms) : RETRY_AFTER_MAX_MS;
}
