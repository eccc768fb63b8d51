/* server/auth/quota.c - see quota.h.
 *
 * Plain arithmetic on Unix seconds: a quota stores the end of its period and what was spent in it,
 * and a later time makes the spent tokens count as 0 without a timer. Periods are of the UTC
 * calendar, for months by timegm().
 */
#include "server/auth/quota.h"

#include <time.h>

#define DAY_S 86400

/* Return the first second of the month that is `after` months after that of now_s. */
static int64_t month_begin(int64_t now_s, int after)
{
    const time_t now = (time_t)now_s;
    struct tm tm;

    gmtime_r(&now, &tm);
    tm = (struct tm){.tm_year = tm.tm_year, .tm_mon = tm.tm_mon + after, .tm_mday = 1};
    return (int64_t)timegm(&tm);
}

int64_t quota_period_begin(enum quota_period period, int64_t now_s)
{
    return period == QUOTA_DAY ? now_s / DAY_S * DAY_S : month_begin(now_s, 0);
}

int64_t quota_period_end(enum quota_period period, int64_t now_s)
{
    return period == QUOTA_DAY ? (now_s / DAY_S + 1) * DAY_S : month_begin(now_s, 1);
}

/* Return the tokens spent in the present period. If the clock is set back, the later period
 * continues. */
static uint64_t spent_now(const struct quota *b, int64_t now_s)
{
    return now_s < b->end_s ? b->spent : 0;
}

void quota_reserve(struct quota *b, uint64_t n_tokens)
{
    b->reserved += n_tokens;
}

void quota_spend(struct quota *b, uint64_t n_reserved, uint64_t n_spent, int64_t now_s)
{
    b->reserved -= n_reserved;
    b->spent = spent_now(b, now_s) + n_spent;
    if (now_s >= b->end_s)
        b->end_s = quota_period_end(b->period, now_s);
}

int64_t quota_wait_s(const struct quota *b, int64_t now_s)
{
    const uint64_t spent = spent_now(b, now_s);

    if (b->limit == 0 || spent + b->reserved < b->limit)
        return 0;
    return spent >= b->limit ? b->end_s - now_s : 1;
}
