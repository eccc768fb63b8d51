/* server/pace.c - see pace.h. */
#include "server/pace.h"

#include <math.h>

void pace_start(struct pace *p, uint64_t now_us)
{
    *p = (struct pace){.start_us = now_us, .last_us = now_us};
}

static double faded(const struct pace *p, uint64_t now_us)
{
    return p->weight * exp(-(double)(now_us - p->last_us) / 1e6 / PACE_TAU_S);
}

void pace_end(struct pace *p, uint64_t now_us)
{
    p->weight = faded(p, now_us) + 1;
    p->last_us = now_us;
}

/* A weight that has had only `age` to fill up would stand for too slow a rate: divide by the part
 * of the window that has passed. */
double pace_rate(const struct pace *p, uint64_t now_us)
{
    const double age = (double)(now_us - p->start_us) / 1e6;
    const double window = PACE_TAU_S * (1 - exp(-age / PACE_TAU_S));

    return window > 0 ? faded(p, now_us) / window : 0;
}

uint32_t pace_wait_ms(const struct pace *p, uint32_t n, uint64_t now_us)
{
    const double rate = pace_rate(p, now_us);
    const double ms = rate > 0 ? n / rate * 1000 : PACE_MAX_WAIT_MS;

    if (ms >= PACE_MAX_WAIT_MS)
        return PACE_MAX_WAIT_MS;
    return ms > PACE_MIN_WAIT_MS ? (uint32_t)ms : PACE_MIN_WAIT_MS;
}
