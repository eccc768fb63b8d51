/* server/auth/rate_limit.c - see rate_limit.h.
 *
 * The level is kept in parts of a 60-millionth, so that one microsecond adds exactly per_minute
 * parts and nothing is rounded. It is computed on each call, from the time since the last change;
 * there is no timer. Amounts are capped so that no product overflows.
 */
#include "server/auth/rate_limit.h"

#define PARTS 60000000 /* parts of one unit: the microseconds of a minute */
/* Most that is taken or given at a time: far above any request, and small enough for no
 * overflow. */
#define MAX_AMOUNT 4000000000u

static int64_t parts_of(uint64_t n)
{
    return (int64_t)(n < MAX_AMOUNT ? n : MAX_AMOUNT) * PARTS;
}

static int64_t level_at(const struct rate_limit *b, uint64_t now_us)
{
    const int64_t full = parts_of(b->per_minute), room = full - b->level;
    const uint64_t elapsed = now_us > b->at_us ? now_us - b->at_us : 0;

    if (room <= 0 || b->per_minute == 0)
        return full;
    if (elapsed > (uint64_t)room / b->per_minute)
        return full;
    return b->level + (int64_t)(elapsed * b->per_minute);
}

static void settle_level(struct rate_limit *b, int64_t level, uint64_t now_us)
{
    const int64_t full = parts_of(b->per_minute), least = -parts_of(MAX_AMOUNT);

    b->level = level > full ? full : level < least ? least : level;
    b->at_us = now_us;
}

void rate_limit_init(struct rate_limit *b, uint32_t per_minute, uint64_t now_us)
{
    b->per_minute = per_minute;
    settle_level(b, parts_of(per_minute), now_us);
}

void rate_limit_set_rate(struct rate_limit *b, uint32_t per_minute, uint64_t now_us)
{
    const int64_t level = level_at(b, now_us);

    if (b->per_minute == 0 || per_minute == 0) {
        rate_limit_init(b, per_minute, now_us);
        return;
    }
    b->per_minute = per_minute;
    settle_level(b, level, now_us);
}

uint64_t rate_limit_wait_us(const struct rate_limit *b, uint64_t n, uint64_t now_us)
{
    const int64_t wanted = parts_of(n < b->per_minute ? n : b->per_minute);
    const int64_t level = level_at(b, now_us);

    if (b->per_minute == 0 || level >= wanted)
        return 0;
    return ((uint64_t)(wanted - level) + b->per_minute - 1) / b->per_minute;
}

void rate_limit_take(struct rate_limit *b, uint64_t n, uint64_t now_us)
{
    if (b->per_minute > 0)
        settle_level(b, level_at(b, now_us) - parts_of(n), now_us);
}

void rate_limit_give(struct rate_limit *b, uint64_t n, uint64_t now_us)
{
    if (b->per_minute > 0)
        settle_level(b, level_at(b, now_us) + parts_of(n), now_us);
}
