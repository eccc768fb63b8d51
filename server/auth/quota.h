/* server/auth/quota.h - tokens that a key may use in a day or a month of the calendar, UTC.
 *
 * A request may begin while tokens are left that running requests have not reserved: so a quota is
 * exceeded by at most what one request uses. Tokens count for the period in which their request
 * ended.
 *
 * Thread: any, one at a time; the time is an argument, in Unix seconds.
 * Memory: plain data; zero is a quota without a limit.
 */
#ifndef SERVER_AUTH_QUOTA_H
#define SERVER_AUTH_QUOTA_H

#include <stdint.h>

#define QUOTA_MAX 1000000000000000u /* tokens of a period */

enum quota_period { QUOTA_DAY = 0, QUOTA_MONTH };

struct quota {
    enum quota_period period;
    uint64_t limit;    /* 0 = none */
    uint64_t spent;    /* in the period that ends at `end_s` */
    uint64_t reserved; /* for running requests */
    int64_t end_s;     /* the next period's first second; 0: nothing was spent */
};

/* A request ends and has spent n_spent tokens; n_reserved were reserved when it began. */
void quota_spend(struct quota *b, uint64_t n_reserved, uint64_t n_spent, int64_t now_s);
void quota_reserve(struct quota *b, uint64_t n_tokens);
/* Seconds until another request may begin; 0: now. If the period's tokens are spent, until its end;
 * if running requests have reserved the rest, 1. */
int64_t quota_wait_s(const struct quota *b, int64_t now_s);
/* The first second of the period of now_s, and the first one after it. */
int64_t quota_period_begin(enum quota_period period, int64_t now_s);
int64_t quota_period_end(enum quota_period period, int64_t now_s);

#endif
