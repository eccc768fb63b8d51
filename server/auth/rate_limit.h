/* server/auth/rate_limit.h - a limit per minute: a token bucket that holds a minute's worth and
 * fills evenly.
 *
 * More may be taken than the bucket has: it then owes, and nothing can be taken before it has been
 * filled again. A request for more than the whole bucket is let through when the bucket is full, so
 * that none waits for ever, and on average the rate still holds.
 *
 * Thread: any, one at a time; the time is an argument and may not go back.
 * Memory: plain data; zero is a bucket without a limit.
 */
#ifndef SERVER_AUTH_RATE_LIMIT_H
#define SERVER_AUTH_RATE_LIMIT_H

#include <stdint.h>

#define RATE_LIMIT_MAX 1000000000u /* per minute */

struct rate_limit {
    uint32_t per_minute; /* 0 = no limit */
    int64_t level;       /* in parts: 60 million make one, so that each microsecond adds the rate */
    uint64_t at_us;      /* the time of `level` */
};

/* Make a full bucket. */
void rate_limit_init(struct rate_limit *b, uint32_t per_minute, uint64_t now_us);

/* Change the rate; what is owed stays owed, what is there stays there as far as it fits. */
void rate_limit_set_rate(struct rate_limit *b, uint32_t per_minute, uint64_t now_us);

/* Microseconds until n may be taken; 0: now. */
uint64_t rate_limit_wait_us(const struct rate_limit *b, uint64_t n, uint64_t now_us);

void rate_limit_take(struct rate_limit *b, uint64_t n, uint64_t now_us);

/* Give back n that were taken and not used. */
void rate_limit_give(struct rate_limit *b, uint64_t n, uint64_t now_us);

#endif
