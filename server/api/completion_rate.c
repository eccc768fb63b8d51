/* server/api/completion_rate.c - see completion_rate.h. */
#include "server/api/completion_rate.h"

#include <math.h>
#include <stdbool.h>

void tempo_start(struct tempo *p, uint64_t now_us)
{
    *p = (struct tempo){.start_us = now_us, .last_us = now_us};
}

static double faded(const struct tempo *p, uint64_t now_us)
{
    return p->weight * exp(-(double)(now_us - p->last_us) / 1e6 / TEMPO_TAU_S);
}

void tempo_end(struct tempo *p, uint64_t now_us)
{
    p->weight = faded(p, now_us) + 1;
    p->last_us = now_us;
}

/* A weight that has had only `age` to fill up would stand for too slow a rate: divide by the part
 * of the window that has passed. */
double tempo_rate(const struct tempo *p, uint64_t now_us)
{
    const double age = (double)(now_us - p->start_us) / 1e6;
    const double window = TEMPO_TAU_S * (1 - exp(-age / TEMPO_TAU_S));

    return window > 0 ? faded(p, now_us) / window : 0;
}

uint32_t tempo_wait_ms(const struct tempo *p, uint32_t n, uint64_t now_us)
{
    const bool is_known = faded(p, now_us) >= 0.5;
    const double ms = is_known ? n / tempo_rate(p, now_us) * 1000 : TEMPO_GUESS_MS;

    if (ms >= TEMPO_MAX_WAIT_MS)
        return TEMPO_MAX_WAIT_MS;
    return ms > TEMPO_MIN_WAIT_MS ? (uint32_t)ms : TEMPO_MIN_WAIT_MS;
}
