/* server/auth/rate_limit.h - a limit per minute: a token bucket that holds a minute's worth and
 * fills evenly.
 *
 * A call may take more than the bucket has: its level is then negative, and no more can be taken
 * before it has been filled again. A request for more than a full bucket is allowed when the bucket
 * is full, so that no request waits forever; on average the rate still holds.
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
    int64_t level;       /* units in the bucket times 60 million, so that each microsecond adds
                          * per_minute */
    uint64_t at_us;      /* the time of `level` */
};

/* Make a full bucket. */
void rate_limit_init(struct rate_limit *b, uint32_t per_minute, uint64_t now_us);

/* Change the rate; a negative level stays, a positive one is cut to the new bucket. */
void rate_limit_set_rate(struct rate_limit *b, uint32_t per_minute, uint64_t now_us);

/* Return the microseconds until n may be taken; 0: now. */
uint64_t rate_limit_wait_us(const struct rate_limit *b, uint64_t n, uint64_t now_us);

void rate_limit_take(struct rate_limit *b, uint64_t n, uint64_t now_us);

/* Give back n that were taken and not used. */
void rate_limit_give(struct rate_limit *b, uint64_t n, uint64_t now_us);

#endif
